/** How a clustering is started: the algorithm and its settings. */

import { choice, set, setting } from "../address";
import { api } from "../api";
import { StartButton } from "../parts/button";
import { Choose, NumberField } from "../parts/fields";
import type { ClustersRequest, Job } from "../types";

type Algorithm = NonNullable<ClustersRequest["algorithm"]>;
const ALGORITHMS: [Algorithm, string][] = [
  ["kmeans", "k-means"],
  ["dbscan", "DBSCAN"],
  ["agglomerative", "agglomerative"],
  ["spectral", "spectral"],
  ["gaussian-mixture", "Gaussian mixture"],
];
const ALL = "all";
const DISTANCES = ["euclidean", "manhattan", "cosine"];
const LINKAGES = ["ward", "complete", "average", "single"];
const COVARIANCES = ["full", "tied", "diag", "spherical"];

/** Ward's linkage knows one distance only. */
const isWard = (algorithm: string) => algorithm === "agglomerative" && setting("linkage", "ward") === "ward";

function clustersRequest(algorithm: Algorithm): ClustersRequest {
  const [least, most] = [Number(setting("least", "2")), Number(setting("most", "8"))];
  const eps = Number(setting("eps"));
  return {
    algorithm,
    least: Math.min(least, most),
    most: Math.max(least, most),
    distance: isWard(algorithm) ? "euclidean" : choice("distance", "euclidean"),
    linkage: choice("linkage", "ward"),
    covariance: choice("covariance", "full"),
    eps: eps > 0 ? eps : null,
  };
}

export function ClusterForm({
  study,
  onStart,
}: {
  study: string;
  onStart: (job: Job, index: number) => Record<string, string | null>;
}) {
  const all = setting("algorithm", "kmeans") === ALL;
  const algorithm = setting("algorithm", "kmeans");
  const put = (name: string) => (value: string) => set({ [name]: value || null });
  const distances = isWard(algorithm) ? ["euclidean"] : DISTANCES;
  return (
    <div class="form" data-part="clusterings">
      <Choose
        name="algorithm"
        value={algorithm}
        choices={[...ALGORITHMS, [ALL, "all five"]]}
        onChange={put("algorithm")}
      />
      {algorithm !== "dbscan" && (
        <NumberField name="K from" value={setting("least", "2")} min={2} max={50} onChange={put("least")} />
      )}
      {algorithm !== "dbscan" && (
        <NumberField name="to" value={setting("most", "8")} min={2} max={50} onChange={put("most")} />
      )}
      {(all || algorithm === "agglomerative") && (
        <Choose name="linkage" value={setting("linkage", "ward")} choices={LINKAGES} onChange={put("linkage")} />
      )}
      {(all || algorithm === "dbscan" || algorithm === "agglomerative") && (
        <Choose
          name="distance"
          value={setting("distance", "euclidean")}
          choices={distances}
          onChange={put("distance")}
        />
      )}
      {(all || algorithm === "gaussian-mixture") && (
        <Choose
          name="covariance"
          value={setting("covariance", "full")}
          choices={COVARIANCES}
          onChange={put("covariance")}
        />
      )}
      {(all || algorithm === "dbscan") && (
        <NumberField
          name="eps"
          value={setting("eps")}
          min={0}
          step="any"
          placeholder="searched"
          onChange={put("eps")}
        />
      )}
      <StartButton
        ask={() =>
          all
            ? ALGORITHMS.map(([each]) => api.clusters(study, clustersRequest(each)))
            : api.clusters(study, clustersRequest(algorithm as Algorithm))
        }
        onStart={onStart}
      >
        Cluster
      </StartButton>
    </div>
  );
}
