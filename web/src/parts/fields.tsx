/** Fields: what a reader sets, each with its name. */

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { setting } from "../address";

export const Field = ({ name, children, wide }: { name: string; children: ComponentChildren; wide?: boolean }) => (
  <label class={wide ? "field wide" : "field"}>
    <span>{name}</span>
    {children}
  </label>
);

interface FoldedProps {
  /** what the settings are called in the address */
  names: string[];
  isOpen?: boolean;
  children: ComponentChildren;
}

/** Settings that most people never touch: folded, unless one of them is in the address. */
export function Folded({ names, isOpen = false, children }: FoldedProps) {
  const [open] = useState(() => isOpen || names.some(name => setting(name) !== ""));
  return (
    <details class="folded" open={open}>
      <summary>Settings</summary>
      <div class="form">{children}</div>
    </details>
  );
}

type Choice = string | [value: string, name: string];

interface ChooseProps {
  name: string;
  value: string;
  choices: readonly Choice[];
  onChange: (value: string) => void;
}

export function Choose({ name, value, choices, onChange }: ChooseProps) {
  return (
    <Field name={name}>
      <select aria-label={name} value={value} onChange={event => onChange(event.currentTarget.value)}>
        {choices.map(choice => {
          const [each, shown] = typeof choice === "string" ? [choice, choice] : choice;
          return (
            <option key={each} value={each} selected={each === value}>
              {shown}
            </option>
          );
        })}
      </select>
    </Field>
  );
}

export function Check({ name, value, onChange }: { name: string; value: boolean; onChange: (value: boolean) => void }) {
  return (
    <label class="check">
      <input type="checkbox" checked={value} onChange={event => onChange(event.currentTarget.checked)} />
      {name}
    </label>
  );
}

interface TextProps {
  name: string;
  value: string;
  onInput: (value: string) => void;
  lines?: number;
  limit?: number;
  placeholder?: string;
}

export function TextArea({ name, value, onInput, lines = 2, limit, placeholder }: TextProps) {
  return (
    <Field name={name} wide>
      <textarea
        aria-label={name}
        rows={lines}
        value={value}
        placeholder={placeholder}
        dir="auto"
        spellcheck={false}
        onInput={event => onInput(event.currentTarget.value)}
      />
      {limit !== undefined && value.length > limit && (
        <em class="over">
          {value.length.toLocaleString("en")} of at most {limit.toLocaleString("en")} characters
        </em>
      )}
    </Field>
  );
}

interface NumberProps {
  name: string;
  value: string;
  onChange: (value: string) => void;
  min?: number;
  max?: number;
  step?: number | "any";
  placeholder?: string;
}

export function NumberField({ name, value, onChange, min, max, step = 1, placeholder }: NumberProps) {
  return (
    <Field name={name}>
      <input
        aria-label={name}
        type="number"
        value={value}
        min={min}
        max={max}
        step={step}
        placeholder={placeholder}
        onChange={event => onChange(event.currentTarget.value)}
      />
    </Field>
  );
}

const AT_ONCE = 12;

/** Several of a few, each a button that is in or out; one stays in. Those of many may be out of sight and are named. */
export function ChooseSome({
  name,
  value,
  choices,
  most,
  onChange,
}: {
  name: string;
  value: string[];
  choices: string[];
  most: number;
  onChange: (value: string[]) => void;
}) {
  const turned = (each: string) =>
    value.includes(each) ? value.filter(one => one !== each) : [...value, each].slice(-most);
  return (
    <div class="field" role="group" aria-label={name}>
      <span>
        {name}
        {choices.length > AT_ONCE && `: ${value.join(", ")}`}
      </span>
      <div class="chips some">
        {choices.map(each => (
          <button
            key={each}
            class="chip"
            aria-pressed={value.includes(each)}
            onClick={() => turned(each).length > 0 && onChange(turned(each))}
          >
            {each}
          </button>
        ))}
      </div>
    </div>
  );
}
