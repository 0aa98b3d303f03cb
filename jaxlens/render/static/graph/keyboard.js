// @ts-check
/** Walks over a drawing by keyboard. */

import { create } from "../viewer/elements.js";
import { homeOf, linked } from "./node_index.js";

/** @typedef {import("./stretch.js").Drawn} Drawn */
/** @typedef {import("./drawing.js").Drawing} Drawing */

/** The box nearest to where one was, from left to right. @param {Drawn[]} boxes @param {Drawn} from */
function nearest(boxes, from) {
  const far = (/** @type {Drawn} */ box) => Math.abs(box.x - from.x) + Math.abs(box.y - from.y) / 8;
  return [...boxes].sort((a, b) => far(a) - far(b))[0];
}

/** Boxes in an open one that read nothing there. @param {Drawing} drawing @param {string} path */
function firstIn(drawing, path) {
  const inside = [...drawing.boxes.values()].filter((box) => homeOf(drawing.data, box.path).outer === path);
  return inside.sort((a, b) => a.y - b.y)[0];
}

/** Down along the edges, into an open box, and out at its end. @param {Drawing} drawing */
function down(drawing) {
  const from = drawing.chosenBox();
  if (!from) return;
  if (from.open) {
    const first = firstIn(drawing, from.path);
    if (first) return drawing.choose(first.path);
  }
  along(drawing, from.path, 1);
}

/** Up along the edges, and out of an open box at its start. @param {Drawing} drawing */
function up(drawing) {
  const from = drawing.chosenBox();
  if (!from) return;
  const { outer } = homeOf(drawing.data, from.path);
  if (!next(drawing, from.path, 0) && outer) return drawing.choose(outer);
  along(drawing, from.path, 0);
}

/** @param {Drawing} drawing @param {string} path @param {0 | 1} side */
function next(drawing, path, side) {
  const from = drawing.boxes.get(path);
  const boxes = linked(drawing.data, path, side).flatMap((place) => drawing.boxes.get(place) ?? []);
  return from && nearest(boxes, from);
}

/** The next box on an edge, else on an edge of the box around. @param {Drawing} drawing @param {string} path @param {0 | 1} side */
function along(drawing, path, side) {
  for (let place = path; place; place = homeOf(drawing.data, place).outer) {
    const box = next(drawing, place, side);
    if (box) return drawing.choose(box.path);
  }
  beside(drawing, 0, side ? 1 : -1);
}

/** The nearest box that way. @param {Drawing} drawing @param {number} dx @param {number} dy */
function beside(drawing, dx, dy) {
  const from = drawing.chosenBox();
  if (!from) return;
  let best = "";
  let least = Infinity;
  for (const [path, { x, y, open }] of drawing.boxes) {
    const way = (x - from.x) * dx + (y - from.y) * dy;
    const aside = Math.abs((x - from.x) * dy) + Math.abs((y - from.y) * dx);
    if (path === from.path || way < 2 || (open && from.path.startsWith(`${path}.`))) continue;
    if (way + 3 * aside < least) [best, least] = [path, way + 3 * aside];
  }
  if (best) drawing.choose(best);
}

/** What the keys do, for readers. @type {[string, string][]} */
const KEYS = [
  ["↓ ↑", "along the edges: to what reads the box, to what it reads; into and out of an open box"],
  ["← →", "to the box beside it"],
  ["Enter", "open or shut the box (also: its marker, or a double click); open its lesson"],
  ["Space", "pin the box, in all panes (also: a click)"],
  ["h", "what its operation does"],
  ["f", "fit the whole picture"],
  ["+ −", "zoom (also: Ctrl and the wheel); 1 for actual size"],
  ["Shift and arrows", "move the picture (also: drag it)"],
  ["Escape", "let go of the pin, then shut the box around"],
  ["?", "these keys"],
];

/** The table of keys, hidden at first. */
export const keyTable = () => create("dl", "keys", { hidden: "" },
  ...KEYS.flatMap(([key, does]) => [create("dt", "", {}, key), create("dd", "", {}, does)]));

/** @param {Drawing} drawing @param {KeyboardEvent} event @returns {boolean} whether the drawing took it */
export function keyPressed(drawing, event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return false;
  const pan = (/** @type {number} */ x, /** @type {number} */ y) => () => drawing.view.box.scrollBy(x, y);
  /** @type {Record<string, () => unknown>} */
  const shifted = {
    ArrowLeft: pan(-80, 0), ArrowRight: pan(80, 0), ArrowUp: pan(0, -80), ArrowDown: pan(0, 80),
  };
  /** @type {Record<string, () => unknown>} */
  const acts = {
    Enter: () => drawing.follow(drawing.chosen) || drawing.toggle(drawing.chosen),
    " ": () => drawing.pin(drawing.chosen),
    ArrowLeft: () => beside(drawing, -1, 0),
    ArrowRight: () => beside(drawing, 1, 0),
    ArrowUp: () => up(drawing),
    ArrowDown: () => down(drawing),
    f: () => drawing.view.fit(),
    "+": () => drawing.view.scale(drawing.view.zoom * 1.25),
    "=": () => drawing.view.scale(drawing.view.zoom * 1.25),
    "-": () => drawing.view.scale(drawing.view.zoom / 1.25),
    1: () => drawing.view.scale(1),
    "?": () => drawing.help(),
    h: () => drawing.explain(drawing.chosen),
    Escape: () => drawing.escape(),
  };
  const act = (event.shiftKey && shifted[event.key]) || acts[event.key];
  return act !== undefined && act() !== false;
}
