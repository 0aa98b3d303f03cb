// @ts-check
/**
 * Small comforts of a saved output. Without this script everything still opens and closes:
 * - one tab of a set stays open, and equal outputs on one page do not share their tabs;
 * - a line with folded pieces tells them when pointed at.
 *
 * Listeners stand on the document, once, so outputs come and go without leaving any behind.
 */

/** @type {AbortController | undefined} */
let listening;
let groups = 0;

/** @param {EventTarget | null} target @param {string} selector */
const near = (target, selector) =>
  target instanceof Element ? target.closest(`.jl ${selector}`) : null;

/** @param {Event} event */
function keepOpen(event) {
  if (near(event.target, ".T > details[open] > summary")) event.preventDefault();
}

/** @param {Event} event */
function tellFolds(event) {
  const line = near(event.target, "[data-id]");
  if (line instanceof HTMLElement && !line.title && line.querySelector("s"))
    line.title = (line.textContent ?? "").trim();
}

/** @param {Element} tabs */
function ownName(tabs) {
  tabs.setAttribute("data-live", "");
  const panes = [...tabs.children].filter((pane) => pane instanceof HTMLDetailsElement);
  const name = `jl-tabs-${++groups}`;
  const open = panes.findIndex((pane) => pane.open);
  panes.forEach((pane) => pane.setAttribute("name", name));
  if (panes.length) panes[Math.max(open, 0)].open = true;
}

/**
 * Brings every output under `root` to life that is not yet.
 * @param {ParentNode} root
 * @returns {() => void} ends it for the whole page
 */
export function live(root) {
  if (!listening) {
    listening = new AbortController();
    const { signal } = listening;
    document.addEventListener("click", keepOpen, { signal });
    document.addEventListener("mouseover", tellFolds, { signal });
  }
  root.querySelectorAll(".jl .T:not([data-live])").forEach(ownName);
  return () => {
    listening?.abort();
    listening = undefined;
  };
}
