import { beforeEach, describe, expect, it, vi } from "vitest";

type Address = typeof import("../src/address");

/** A fresh page at an address. */
async function opened(hash: string): Promise<Address> {
  vi.resetModules();
  location.hash = hash;
  return import("../src/address");
}

beforeEach(() => history.replaceState(null, "", "/"));

describe("the address", () => {
  it("names a view and its settings", async () => {
    const { address, setting, settings } = await opened("#/search?query=a+cat&models=a,b,");
    expect(address.value.view).toBe("search");
    expect([setting("query"), setting("k", "10")]).toEqual(["a cat", "10"]);
    expect([settings("models"), settings("none", ["x"])]).toEqual([["a", "b"], ["x"]]);
  });

  it("opens the first view where it names none", async () => {
    expect((await opened("#/nonsense?left=a")).address.value.view).toBe("pair");
    expect((await opened("")).address.value.view).toBe("pair");
  });

  it("follows the settings, and drops those that are null", async () => {
    const { here, set, setting } = await opened("#/pair?left=a&right=b");
    set({ left: "x & y=z #1", right: null });
    expect(setting("left")).toBe("x & y=z #1");
    expect(new URLSearchParams(location.hash.split("?")[1]).get("left")).toBe("x & y=z #1");
    expect(here()).toBe(location.href);
    expect(location.hash).not.toContain("right");
  });

  it("remembers how each view was left", async () => {
    const { address, back, set, setter } = await opened("#/pair?left=a");
    const later = setter();
    set({ left: "b" });
    address.value = { view: "layers", settings: new URLSearchParams() };
    later({ job: "1" });
    expect(back("pair")).toBe("#/pair?left=b&job=1");
    expect(back("layers")).toBe("#/layers");
  });

  it("is written with pauses after many changes, and ends at the last one", async () => {
    vi.useFakeTimers();
    const { set } = await opened("#/pair");
    const replaced = vi.spyOn(history, "replaceState");
    for (let index = 0; index < 200; index++) set({ left: String(index) });
    expect(replaced.mock.calls.length).toBeLessThan(100);
    vi.runAllTimers();
    expect(location.hash).toBe("#/pair?left=199");
    vi.useRealTimers();
  });
});
