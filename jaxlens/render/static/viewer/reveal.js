// @ts-check
/**
 * The way to a node: its pane opens, the row comes into sight and is where the keys are.
 */
import { sameNode, shownAt } from "./rows.js";
import { searchOf } from "./search.js";

/** @typedef {import("./panes.js").Pane} Pane */

/** @param {HTMLElement} root @param {string} stage */
function panesWith(root, stage) {
  const { panes } = /** @type {any} */ (root).jaxlens;
  const has = (/** @type {Pane} */ pane) => pane.body.querySelector(`[data-stage="${CSS.escape(stage)}"]`);
  return [...panes.open.filter(has), ...panes.all.filter((/** @type {Pane} */ pane) => !pane.details.open && has(pane))];
}

/** Brings a row into sight and puts the keys there. @param {Pane} pane @param {import("./rows.js").Spot} spot */
export function showSpot(pane, spot) {
  const search = searchOf(pane);
  search.rows.cursor = spot;
  const row = spot.section.show(spot.n, "center");
  search.point();
  return row;
}

/** @param {Pane} pane @param {any} node */
function spotOf(pane, node) {
  const { rows } = searchOf(pane);
  for (const section of rows.sections) {
    if ("pre" in section) {
      const n = "id" in node && section.same(node.stage) ? section.at.get(node.id)?.[0] : undefined;
      if (n !== undefined) return { section, n };
      continue;
    }
    const n = section.rows.findIndex((row) => {
      const shown = shownAt(row);
      return shown !== null && (sameNode(shown.node, node) || ("id" in node && "id" in shown.node && shown.node.id === node.id && (!shown.node.stage || shown.node.stage === node.stage)));
    });
    if (n >= 0) return { section, n };
  }
  return null;
}

/** @param {HTMLElement} root @param {AbortSignal} signal */
export function reveals(root, signal) {
  const { panes } = /** @type {any} */ (root).jaxlens;
  if (!panes) return;
  root.addEventListener("jl-reveal", async (event) => {
    const node = /** @type {CustomEvent} */ (event).detail;
    const found = "line" in node ? panes.all.filter((/** @type {Pane} */ pane) => pane.body.querySelector(".S")) : panesWith(root, node.stage);
    for (const pane of found) {
      const asleep = !pane.details.open && pane.body.querySelector("[data-lines] .c:not(.vl)");
      if (asleep) {
        const awake = new Promise((done) => root.addEventListener("jl-rows", done, { signal, once: true }));
        panes.reveal(pane.key);
        await awake;
      }
      for (const section of searchOf(pane).rows.sections)
        if ("pre" in section && "id" in node && section.same(node.stage)) await section.bring(node.id);
      const spot = spotOf(pane, node);
      if (!spot) continue;
      panes.reveal(pane.key);
      showSpot(pane, spot);
      return;
    }
  }, { signal });
}
