// @ts-check
/** The whole drawing in a corner, where most of it is out of sight; a press or a drag goes there. */

import { element, num } from "./paint.js";

/** The root of its pixels, and its longest side as a share of the view's. */
const SIZE = 90;
const LONGEST = 0.5;
/** The share of the drawing in sight below which it is shown. */
const SHOWN = 0.4;

export class Minimap {
  /** @param {import("./view.js").View} view */
  constructor(view) {
    this.view = view;
    this.scale = 1;
    this.boxes = element("path", {});
    this.open = element("path", { class: "open-boxes" });
    this.frame = element("rect", { class: "frame" });
    // Keys move the drawing itself
    this.svg = element("svg", { class: "minimap", "aria-hidden": "true" }, this.open, this.boxes, this.frame);
    view.box.append(this.svg);
    view.box.addEventListener("scroll", () => this.follow());
    new ResizeObserver(() => this.follow()).observe(view.box);
    this.svg.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      event.stopPropagation();
      this.svg.setPointerCapture(event.pointerId);
      this.go(event);
    });
    this.svg.addEventListener("pointermove", (event) => this.svg.hasPointerCapture(event.pointerId) && this.go(event));
  }

  /** @param {Iterable<import("./stretch.js").Drawn>} boxes all that the drawing has now */
  draw(boxes) {
    const { w, h } = this.view;
    const [shut, open] = [/** @type {string[]} */ ([]), /** @type {string[]} */ ([])];
    for (const box of boxes) (box.open ? open : shut).push(`M${num(box.x - box.w / 2)} ${num(box.y - box.h / 2)}h${num(box.w)}v${num(box.h)}h${num(-box.w)}z`);
    this.boxes.setAttribute("d", shut.join(""));
    this.open.setAttribute("d", open.join(""));
    this.svg.setAttribute("viewBox", `0 0 ${num(w)} ${num(h)}`);
    this.follow();
  }

  /** Takes a size that the view has room for, and puts the frame where the view is. */
  follow() {
    const { box, zoom, w, h } = this.view;
    this.scale = Math.min(SIZE / Math.sqrt(w * h), (LONGEST * box.clientWidth) / w, (LONGEST * box.clientHeight) / h);
    for (const [name, size] of Object.entries({ "--width": w, "--height": h })) this.svg.style.setProperty(name, `${num(size * this.scale)}px`);
    const [wide, high] = [Math.min(w, box.clientWidth / zoom), Math.min(h, box.clientHeight / zoom)];
    this.svg.toggleAttribute("hidden", wide * high > SHOWN * w * h);
    const at = { x: box.scrollLeft / zoom, y: box.scrollTop / zoom, width: wide, height: high };
    for (const [name, value] of Object.entries(at)) this.frame.setAttribute(name, num(value));
  }

  /** @param {PointerEvent} event */
  go(event) {
    const { left, top } = this.svg.getBoundingClientRect();
    this.view.auto = false;
    this.view.centre({ x: (event.clientX - left) / this.scale, y: (event.clientY - top) / this.scale });
  }
}
