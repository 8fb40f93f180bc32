/** How a model is read: which one, its pooling, its layer, and whether special tokens take part. */

import type { Reading } from "../api";
import { set, setting } from "../address";
import { offered } from "../start";
import { Check, Choose, NumberField } from "./fields";

/** The reading in the address; the names of a second one begin with a prefix. */
export function reading(prefix = ""): Reading {
  const found: Reading = { model: setting(`${prefix}model`, offered().models[0]) };
  const pooling = setting(`${prefix}pooling`);
  const layer = setting(`${prefix}layer`);
  if (pooling) found.pooling = pooling;
  if (layer !== "" && Number.isInteger(Number(layer))) found.layer = Number(layer);
  if (setting(`${prefix}special`) === "off") found.special_tokens = false;
  return found;
}

/** The same reading as settings of the address, for a link to a pair. */
export function readingSettings(asked: Partial<Reading> | null | undefined): Record<string, string> {
  const found: Record<string, string> = {};
  if (asked?.model) found.model = asked.model;
  if (asked?.pooling) found.pooling = asked.pooling;
  if (asked?.layer !== undefined && asked.layer !== null) found.layer = String(asked.layer);
  if (asked?.special_tokens === false) found.special = "off";
  return found;
}

/** How a model is read, in words. */
export function readAs(asked: Partial<Reading> | null | undefined): string {
  const { pooling, layer, special_tokens } = asked ?? {};
  return [
    pooling ?? "",
    layer === undefined || layer === null ? "last layer" : `layer ${layer}`,
    special_tokens === false ? "without special tokens" : "",
  ]
    .filter(Boolean)
    .join(" · ");
}

export function ChooseReading({ prefix = "", name = "model" }: { prefix?: string; name?: string }) {
  const put = (what: string) => (value: string) => set({ [prefix + what]: value || null });
  return (
    <>
      <Choose
        name={name}
        value={setting(`${prefix}model`, offered().models[0])}
        choices={offered().models}
        onChange={put("model")}
      />
      <Choose
        name="pooling"
        value={setting(`${prefix}pooling`)}
        choices={[["", "its own"], ...offered().poolings.map(each => [each, each] as [string, string])]}
        onChange={put("pooling")}
      />
      <NumberField
        name="layer"
        value={setting(`${prefix}layer`)}
        onChange={put("layer")}
        min={-100}
        max={100}
        placeholder="its own"
      />
      <Check
        name="special tokens"
        value={setting(`${prefix}special`) !== "off"}
        onChange={on => set({ [`${prefix}special`]: on ? null : "off" })}
      />
    </>
  );
}
