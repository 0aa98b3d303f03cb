// @ts-check
/**
 * The strip beside a pane that scrolls: where in the whole of it the lit rows, the pinned one
 * and the matches of a search stand. A click goes there.
 *
 * Kinds differ in shape too: what is lit is a full stroke, calls half a stroke at the left,
 * matches half a stroke at the right, the pin a triangle with a stroke. Its colours are in transition
 * when the page's theme changes, and so it hears of that.
 */
import { create } from "./elements.js";
import { searchOf } from "./search.js";

/** @typedef {import("./panes.js").Pane} Pane */

const WIDTH = 12;
/**
 * Kind, left end and width of its stroke as shares, and the property of the canvas that holds its
 * colour: only in a property is a `light-dark()` resolved.
 * @type {[string, number, number, "color" | "caretColor" | "outlineColor" | "columnRuleColor"][]}
 */
const KINDS = [
  ["call", 0, 0.5, "caretColor"],
  ["hit", 0.5, 0.5, "columnRuleColor"],
  ["lit", 0, 1, "color"],
  ["pin", 0, 1, "outlineColor"],
];

class Ruler {
  /** @param {Pane} pane */
  constructor(pane) {
    this.pane = pane;
    this.canvas = create("canvas", "ruler", { "aria-hidden": "true", title: "Where the lit rows are; a click goes there" });
    pane.body.after(this.canvas);
    /** Heights of the strokes, in pixels of the pane's content. @type {number[]} */
    this.ys = [];
    this.canvas.addEventListener("click", (event) => this.jump(event.offsetY));
    new ResizeObserver(() => this.draw()).observe(pane.body);
  }

  draw() {
    const { body } = this.pane;
    const [view, all] = [body.clientHeight, body.scrollHeight];
    const scrolls = all > view + 4;
    this.canvas.classList.toggle("idle", !scrolls);
    const ratio = devicePixelRatio || 1;
    const pen = this.canvas.getContext("2d");
    if (!view || !pen) return;
    [this.canvas.width, this.canvas.height] = [WIDTH * ratio, view * ratio];
    this.canvas.style.height = `${view}px`;
    this.ys = [];
    if (!scrolls) return;
    pen.scale(ratio, ratio);
    const style = getComputedStyle(this.canvas);
    for (const [kind, from, share, color] of KINDS) {
      pen.fillStyle = style[color];
      let last = -9;
      for (const y of searchOf(this.pane).rows.sections.flatMap((section) => section.heights(kind))) {
        this.ys.push(y);
        const at = Math.round((y / all) * view);
        if (at - last < 2 && kind !== "pin") continue;
        last = at;
        pen.fillRect(from * WIDTH, at, share * WIDTH, 2);
        if (kind === "pin") pointer(pen, at);
      }
    }
  }

  /** @param {number} y */
  jump(y) {
    const { body } = this.pane;
    const target = (y / body.clientHeight) * body.scrollHeight;
    const near = this.ys.reduce((best, other) => (Math.abs(other - target) < Math.abs(best - target) ? other : best), Infinity);
    body.scrollTop = (Number.isFinite(near) ? near : target) - body.clientHeight / 3;
  }
}

/** @param {CanvasRenderingContext2D} pen @param {number} at */
function pointer(pen, at) {
  pen.beginPath();
  pen.moveTo(0, at - 4);
  pen.lineTo(6, at + 1);
  pen.lineTo(0, at + 6);
  pen.fill();
}

/** @param {HTMLElement} root */
export function rulers(root) {
  const { panes } = /** @type {any} */ (root).jaxlens;
  if (!panes) return;
  /** @type {Map<Pane, Ruler>} */
  const all = new Map(panes.all.map((/** @type {Pane} */ pane) => [pane, new Ruler(pane)]));
  let frame = 0;
  const draw = () => {
    frame = 0;
    for (const pane of panes.open) all.get(pane)?.draw();
  };
  for (const type of ["jl-light", "jl-hits", "jl-rows", "jl-panes", "toggle", "transitionend"])
    root.addEventListener(type, () => (frame ||= requestAnimationFrame(draw)), { capture: true });
}
