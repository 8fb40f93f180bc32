/** A matrix as coloured cells. */

import { useMemo } from "preact/hooks";
import { heatMap, type Matrix } from "../heatmap";
import { useStable } from "../stable";
import { Mounted } from "./mounted";

export function HeatMap(props: Matrix) {
  const matrix = useStable(props);
  const parts = useMemo(() => [heatMap(matrix).element], [matrix]);
  return <Mounted parts={parts} />;
}
