// @ts-check
/**
 * Reveals a node: its pane opens, its row scrolls into view and becomes the current row. What is
 * pinned is revealed in each pane that shows none of its rows, once for each pin and each time that
 * the pane is opened.
 */
import { onPage, sameNode } from "./rows.js";
import { searchOf } from "./search.js";

/** @typedef {import("./panes.js").Pane} Pane */
/** @typedef {import("./rows.js").Spot} Spot */

/** Those that are open first. @param {HTMLElement} root @param {string} stage */
function panesWith(root, stage) {
  const { panes } = /** @type {any} */ (root).jaxlens;
  const has = (/** @type {Pane} */ pane) => pane.body.querySelector(`[data-stage="${CSS.escape(stage)}"]`);
  return panes.all.filter(has).sort((/** @type {Pane} */ a, /** @type {Pane} */ b) => Number(b.details.open) - Number(a.details.open));
}

/** Brings a row into sight and puts the keys there. @param {Pane} pane @param {Spot} spot */
export function showSpot(pane, spot) {
  const search = searchOf(pane);
  search.rows.cursor = spot;
  const row = spot.section.show(spot.n, "center");
  search.point();
  return row;
}

/** @param {HTMLElement} root */
export function reveals(root) {
  const { panes } = /** @type {any} */ (root).jaxlens;
  if (!panes) return;
  root.addEventListener("jl-reveal", async (event) => {
    const node = /** @type {CustomEvent} */ (event).detail;
    const places = "line" in node ? panes.all.filter((/** @type {Pane} */ pane) => pane.body.querySelector(".source-lines")) : panesWith(root, node.stage);
    for (const pane of places) {
      const asleep = pane.body.querySelector("[data-lines] .rows:not(.long-list)");
      // In a closed fold it stays unrendered.
      if (asleep && (!pane.details.open || onPage(asleep))) {
        const awake = new Promise((done) => root.addEventListener("jl-rows", done, { once: true }));
        panes.reveal(pane.key);
        await awake;
      }
      for (const section of searchOf(pane).rows.sections)
        if ("pre" in section && "id" in node && section.same(node.stage)) await section.fetchNode(node.id);
      const spot = searchOf(pane).rows.first((section) => section.indexOf(node));
      if (!spot) continue;
      panes.reveal(pane.key);
      showSpot(pane, spot);
      return;
    }
  });
}

/** Whether a row is between the edges of its pane. @param {Pane} pane @param {Spot} spot */
function inView({ body }, { section, n }) {
  const y = section.y(n);
  return y >= body.scrollTop - 4 && y < body.scrollTop + body.clientHeight - 16;
}

/** @param {HTMLElement} root */
export function follows(root) {
  const { panes, links } = /** @type {any} */ (root).jaxlens;
  if (!panes) return;
  /** The pin that each open pane has followed. @type {Map<string, import("./rows.js").Node>} */
  const done = new Map();
  let frame = 0;
  const follow = () => {
    frame = 0;
    const { pinned, point } = links;
    const open = new Set(panes.open.map((/** @type {Pane} */ pane) => pane.key));
    for (const key of done.keys()) if (!open.has(key)) done.delete(key);
    if (!pinned || (point && !sameNode(point, pinned))) return;
    for (const pane of panes.open) {
      if (sameNode(done.get(pane.key) ?? null, pinned)) continue;
      const { rows } = searchOf(pane);
      const marked = rows.marked("lit").filter((/** @type {Spot} */ { section, n }) => section.inSight(n));
      if (!marked.length) {
        const folds = [...pane.body.querySelectorAll("details:not([open], .source-lines *)")];
        const fold = folds.find((each) => each.querySelector(".lit") && onPage(each))?.firstElementChild;
        if (fold instanceof HTMLElement) scrollTo(fold, "center");
        if (fold) done.set(pane.key, pinned);
        continue;
      }
      // A row that stands for parameters is lit by most lines
      const single = marked.filter(({ section, n }) => !("folds" in section && section.folds.has(n)));
      const lit = single.length ? single : marked;
      done.set(pane.key, pinned);
      if (!lit.some((/** @type {Spot} */ spot) => inView(pane, spot))) lit[0].section.show(lit[0].n, "center");
    }
  };
  for (const type of ["jl-light", "jl-panes", "jl-rows"])
    root.addEventListener(type, () => (frame ||= requestAnimationFrame(follow)));
}
