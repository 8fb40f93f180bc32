/** The choice of a model, its pooling, its layer, and whether special tokens take part. */

import type { ComponentChildren } from "preact";
import { set, setting } from "../address";
import { offered } from "../start";
import type { PoolingRequest } from "../types";
import { Check, Choose, Folded, NumberField } from "./fields";

type Pooling = Partial<PoolingRequest> | null | undefined;

/** The model and pooling in the address; the settings of a second one begin with a prefix. */
export function poolingRequest(prefix = ""): PoolingRequest {
  const found: PoolingRequest = { model: setting(`${prefix}model`, offered().models[0]) };
  const pooling = setting(`${prefix}pooling`);
  const layer = setting(`${prefix}layer`);
  if (pooling) found.pooling = pooling;
  if (layer !== "" && Number.isInteger(Number(layer))) found.layer = Number(layer);
  if (setting(`${prefix}special`) === "off") found.special_tokens = false;
  return found;
}

/** The same as settings of the address, for a link to a pair. */
export function poolingSettings(request: Pooling): Record<string, string> {
  const found: Record<string, string> = {};
  if (request?.model) found.model = request.model;
  if (request?.pooling) found.pooling = request.pooling;
  if (request?.layer !== undefined && request.layer !== null) found.layer = String(request.layer);
  if (request?.special_tokens === false) found.special = "off";
  return found;
}

/** The pooling in words. */
export function poolingName(request: Pooling): string {
  const { pooling, layer, special_tokens } = request ?? {};
  const layerName = layer === undefined || layer === null ? "last layer" : `layer ${layer}`;
  return [pooling ?? "", layerName, special_tokens === false ? "without special tokens" : ""]
    .filter(Boolean)
    .join(" · ");
}

interface Props {
  prefix?: string;
  name?: string;
  /** more settings that are folded, and what they are called in the address */
  children?: ComponentChildren;
  names?: string[];
}

export function ChoosePooling({ prefix = "", name = "model", children, names = [] }: Props) {
  const { models, poolings } = offered();
  const put = (what: string) => (value: string) => set({ [prefix + what]: value || null });
  return (
    <>
      <Choose name={name} value={setting(`${prefix}model`, models[0])} choices={models} onChange={put("model")} />
      {/* A second model is there to differ. */}
      <Folded isOpen={prefix !== ""} names={[...names, ...["pooling", "layer", "special"].map(each => prefix + each)]}>
        {children}
        <Choose
          name="pooling"
          value={setting(`${prefix}pooling`)}
          choices={[["", "its own"], ...poolings]}
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
      </Folded>
    </>
  );
}
