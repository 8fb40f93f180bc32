/** A table of cells; what is a text is shown as a text. */

import type { ComponentChildren } from "preact";

interface Props {
  head: string[];
  rows: ComponentChildren[][];
  caption?: string;
}

export function Table({ head, rows, caption }: Props) {
  return (
    <div class="scroll">
      <table class="plain">
        {caption && <caption>{caption}</caption>}
        <thead>
          <tr>
            {head.map(each => (
              <th key={each}>{each}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, index) => (
            <tr key={index}>
              {row.map((cell, column) => (
                <td
                  key={column}
                  class={
                    typeof cell === "number" || (typeof cell === "string" && /^[−+]?[\d.,]+(e[-−+]?\d+)?$/.test(cell))
                      ? "number"
                      : undefined
                  }
                >
                  {cell}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
