import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { dirname, join, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";
import type { Plugin } from "vite";
import { defineConfig } from "vitest/config";

const HERE = dirname(fileURLToPath(import.meta.url));
const SOURCES = ["index.html", "package.json", "package-lock.json", "tsconfig.json", "vite.config.ts", "src"];

function files(path: string): string[] {
  if (!statSync(path).isDirectory()) return [path];
  return readdirSync(path).flatMap(name => files(join(path, name)));
}

/** One hash of all sources; tests/server/test_server_front_end.py computes the same. */
function sourceHash(): string {
  const names = SOURCES.flatMap(name => files(join(HERE, name))).map(path => relative(HERE, path).split(sep).join("/"));
  const hash = createHash("sha256");
  for (const name of names.sort())
    hash
      .update(name + "\0")
      .update(readFileSync(join(HERE, name)))
      .update("\0");
  return hash.digest("hex");
}

/** The folder of the package that a module comes from; none for our own. */
function packageOf(module: string): string | null {
  const found = /^\0?(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(module.split(sep).join("/"));
  return found ? found[1] : null;
}

function licence(folder: string): string {
  const metadata = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as Record<string, string>;
  const file = readdirSync(folder).find(name => /^licen[cs]e/i.test(name));
  const words = file ? readFileSync(join(folder, file), "utf8").trim() : "";
  return `${metadata.name} ${metadata.version} (${metadata.license})\n\n${words}\n`;
}

/** Writes what the bundle was made of: the hash of its sources, and the licences of the packages in it. */
function provenance(): Plugin {
  return {
    name: "provenance",
    apply: "build",
    generateBundle(_, bundle) {
      const modules = Object.values(bundle).flatMap(part => (part.type === "chunk" ? part.moduleIds : []));
      const folders = new Set(
        [...modules, join(HERE, "node_modules/uplot/x")].map(packageOf).filter(each => each !== null),
      );
      const known = [...folders].filter(folder => existsSync(join(folder, "package.json"))).sort();
      const source = known.map(licence).join(`\n${"-".repeat(100)}\n\n`);
      this.emitFile({ type: "asset", fileName: "THIRD_PARTY_LICENSES.txt", source });
      this.emitFile({ type: "asset", fileName: "sources.sha256", source: sourceHash() + "\n" });
    },
  };
}

/** The script of explained pairs, which Python puts into pages and notebooks. */
const CSS_TARGET = ["chrome110", "firefox110", "safari16"]; // nested rules are flattened for them
const page = {
  outDir: "../src/likewise/plotting",
  emptyOutDir: false,
  target: "es2022",
  cssTarget: CSS_TARGET,
  lib: { entry: "src/page.ts", formats: ["iife" as const], name: "likewise", fileName: () => "explained.js" },
};
const studio = {
  outDir: "../src/likewise/server/static",
  emptyOutDir: true,
  target: "es2022",
  cssTarget: CSS_TARGET,
  assetsInlineLimit: 0,
};
const ADDRESS = "http://127.0.0.1:8000";

export default defineConfig(({ mode }) => ({
  base: "./",
  plugins: mode === "page" ? [] : [provenance()],
  build: mode === "page" ? page : studio,
  // As if the page came from the studio itself, which refuses requests of other origins.
  server: { proxy: { "/api": { target: ADDRESS, changeOrigin: true, headers: { origin: ADDRESS } } } },
  test: { environment: "happy-dom", include: ["tests/*.test.ts"] },
}));
