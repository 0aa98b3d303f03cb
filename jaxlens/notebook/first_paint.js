// @ts-check
/**
 * Stands in the first paint of an output. When the complete output takes its place, it puts back
 * what the reader has by then: the pin, where panes were scrolled to, the focus. Panes that were
 * opened are remembered by `panes.js`. The output is no lower meanwhile.
 */
(() => {
  const host = document.currentScript?.parentElement;
  const first = host?.querySelector(".jaxlens");
  if (!host || !first) return;
  /** @type {any} */
  let pinned = null;
  let focused = "";
  /** By pane. @type {Map<string, {left: number, top: number}>} */
  const spots = new Map();
  const elementOf = (/** @type {Event} */ event) => /** @type {HTMLElement} */ (event.target);
  const paneOf = (/** @type {Event} */ event) => elementOf(event).closest?.("[data-pane]")?.getAttribute("data-pane") ?? "";
  first.addEventListener("jl-pin", (event) => (pinned = /** @type {CustomEvent} */ (event).detail));
  first.addEventListener("focusin", (event) => (focused = paneOf(event)));
  first.addEventListener("scroll", (event) => {
    const { scrollLeft: left, scrollTop: top } = elementOf(event);
    spots.set(paneOf(event), { left, top });
  }, true);
  const complete = async (/** @type {Event} */ event) => {
    const root = /** @type {any} */ (event.target);
    if (!host.isConnected) document.removeEventListener("jl-panes", complete, true);
    else if (root === first) host.style.minHeight = `${host.offsetHeight}px`;
    else if (host.contains(root)) {
      document.removeEventListener("jl-panes", complete, true);
      await new Promise((done) => setTimeout(done));
      await root.jaxlens?.ready;
      host.style.minHeight = "";
      const body = (/** @type {string} */ key) => root.querySelector(`[data-pane="${key}"] .pane-body`);
      if (pinned) root.dispatchEvent(new CustomEvent("jl-pin", { bubbles: true, detail: pinned }));
      spots.forEach((spot, key) => body(key)?.scrollTo(spot));
      if (document.activeElement === document.body) body(focused)?.focus({ preventScroll: true });
    }
  };
  document.addEventListener("jl-panes", complete, true);
})();
