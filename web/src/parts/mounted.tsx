/** A drawing without a framework, inside of one. */

import { useLayoutEffect, useRef } from "preact/hooks";

export function Mounted({ parts }: { parts: Element[] }) {
  const host = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => host.current?.replaceChildren(...parts), [parts]);
  return <div ref={host} />;
}
