// @ts-check
/**
 * What is pinned comes into sight: a pane that shows none of what lights up goes to its first
 * row, once for each pin and each time it is opened. So a line's kernel, and that kernel's code,
 * are one click each.
 */
import { sameNode } from "./rows.js";
import { searchOf } from "./search.js";

/** @typedef {import("./panes.js").Pane} Pane */

/** Whether a row is between the edges of its pane. @param {Pane} pane @param {import("./rows.js").Spot} spot */
function seen(pane, { section, n }) {
  const { body } = pane;
  const zero = body.getBoundingClientRect().top - body.scrollTop;
  const y = "pre" in section ? section.top + section.place(n) * section.row : section.rows[n].getBoundingClientRect().top - zero;
  return y >= body.scrollTop - 4 && y < body.scrollTop + body.clientHeight - 16;
}

/** @param {HTMLElement} root @param {AbortSignal} signal */
export function follows(root, signal) {
  const { panes, links } = /** @type {any} */ (root).jaxlens;
  if (!panes) return;
  /** The pin that each open pane has followed. @type {Map<string, import("./rows.js").Node>} */
  const done = new Map();
  let asked = 0;
  const follow = () => {
    asked = 0;
    const { pinned, point } = links;
    const open = new Set(panes.open.map((/** @type {Pane} */ pane) => pane.key));
    for (const key of done.keys()) if (!open.has(key)) done.delete(key);
    if (!pinned || (point && !sameNode(point, pinned))) return;
    for (const pane of panes.open) {
      if (sameNode(done.get(pane.key) ?? null, pinned)) continue;
      const { rows } = searchOf(pane);
      const lit = rows.marked("lit").filter((/** @type {import("./rows.js").Spot} */ { section, n }) => section.inSight(n));
      if (!lit.length) continue;
      done.set(pane.key, pinned);
      if (!lit.some((/** @type {import("./rows.js").Spot} */ spot) => seen(pane, spot))) lit[0].section.show(lit[0].n, "center");
    }
  };
  for (const type of ["jl-light", "jl-panes", "jl-rows"])
    root.addEventListener(type, () => (asked ||= requestAnimationFrame(follow)), { signal });
}
