// @ts-check
/**
 * Moving over a drawing: zoom, fit, pan by dragging, and bringing a box into view.
 *
 * The drawing is a picture in a box that scrolls, so a page scrolls by the wheel as ever;
 * with Ctrl (or a pinch) the wheel zooms.
 */

import { create } from "../viewer/elements.js";
import { num } from "./paint.js";
import { EDGE } from "./stretch.js";

const LEAST = 0.1;
/** With less the smallest words are below 9 pixels. */
const LEGIBLE = 9.1 / EDGE;
/** Pixels round a box that is zoomed to. */
const ROUND = 12;
const MOST = 3;

/** A picture in its scrolling box. */
export class View {
  /** @param {SVGElement} svg */
  constructor(svg) {
    this.svg = svg;
    this.box = create("div", "view", {}, svg);
    this.zoom = 1;
    // Until the reader chooses a size
    this.auto = true;
    this.w = this.h = 1;
    this.moved = this.pressed = false;
    this.box.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.box.addEventListener("pointerdown", (event) => this.drag(event));
  }

  /** @param {number} w @param {number} h */
  size(w, h) {
    [this.w, this.h] = [w, h];
    this.svg.setAttribute("viewBox", `0 0 ${num(w)} ${num(h)}`);
    this.resize();
  }

  resize() {
    this.svg.setAttribute("width", num(this.w * this.zoom));
    this.svg.setAttribute("height", num(this.h * this.zoom));
  }

  /** @param {number} zoom @param {number} [x] @param {number} [y] point of the view that stays */
  scale(zoom, x = this.box.clientWidth / 2, y = this.box.clientHeight / 2) {
    this.auto = false;
    const next = Math.min(MOST, Math.max(LEAST, zoom));
    const [left, top] = [(this.box.scrollLeft + x) / this.zoom, (this.box.scrollTop + y) / this.zoom];
    this.zoom = next;
    this.resize();
    this.box.scrollTo(left * next - x, top * next - y);
  }

  /** Room for the picture: the pane's width, and the height that the buttons leave of the pane's. */
  room() {
    const host = this.box.parentElement;
    const tall = host && parseFloat(getComputedStyle(host).maxHeight);
    const others = host ? host.clientHeight - this.box.clientHeight : 0;
    return [host?.parentElement?.clientWidth || 900, Math.max(200, (tall || 600) - others)];
  }

  /** As wide as there is room, at most actual size, and whole where it stays legible. @param {number} [x] of the picture, in the middle of what has no room */
  fitWidth(x = this.w / 2) {
    const [room, tall] = this.room();
    this.zoom = Math.min(1, Math.max(LEGIBLE, room / this.w));
    const whole = tall / this.h;
    if (whole > LEGIBLE) this.zoom = Math.min(this.zoom, whole);
    this.resize();
    this.box.scrollLeft = x * this.zoom - room / 2;
  }

  /** Shows a box whole as far as its words stay legible, else its beginning; one in sight stays where it is. @param {import("./stretch.js").Drawn} drawn */
  zoomTo({ x, y, w, h }) {
    this.auto = false;
    const { clientWidth, clientHeight, scrollLeft, scrollTop } = this.box;
    const inSight = (/** @type {number} */ low, /** @type {number} */ size, /** @type {number} */ from, /** @type {number} */ room) =>
      low * this.zoom >= from && (low + size) * this.zoom <= from + room;
    if (this.zoom >= LEGIBLE && inSight(x - w / 2, w, scrollLeft, clientWidth) && inSight(y - h / 2, h, scrollTop, clientHeight)) return;
    const whole = Math.min(clientWidth / (w + 2 * ROUND), clientHeight / (h + 2 * ROUND));
    this.zoom = Math.min(Math.max(1, this.zoom), Math.max(LEGIBLE, whole));
    this.resize();
    const begin = (/** @type {number} */ middle, /** @type {number} */ size, /** @type {number} */ room) =>
      Math.min(middle * this.zoom - room / 2, (middle - size / 2 - ROUND) * this.zoom);
    this.box.scrollTo(begin(x, w, clientWidth), begin(y, h, clientHeight));
  }

  /** The whole picture, whatever its size. */
  fit() {
    this.auto = false;
    const [w, h] = this.room();
    this.zoom = Math.min(1, Math.max(LEAST, Math.min(w / this.w, h / this.h)));
    this.resize();
    this.box.scrollTo(0, 0);
  }

  /** Puts a part of the picture in the middle. @param {{x: number, y: number}} at in the picture's units */
  centre({ x, y }) {
    const { clientWidth, clientHeight } = this.box;
    this.box.scrollTo(x * this.zoom - clientWidth / 2, y * this.zoom - clientHeight / 2);
  }

  /** @param {{x: number, y: number}} at @returns {boolean} whether it is in the part that shows */
  shows({ x, y }) {
    const { scrollLeft, scrollTop, clientWidth, clientHeight } = this.box;
    const [left, top] = [x * this.zoom - scrollLeft, y * this.zoom - scrollTop];
    return left >= 0 && top >= 0 && left <= clientWidth && top <= clientHeight;
  }

  /** @param {WheelEvent} event */
  wheel(event) {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const box = this.box.getBoundingClientRect();
    const zoom = this.zoom * Math.exp(-event.deltaY / 300);
    this.scale(zoom, event.clientX - box.left, event.clientY - box.top);
  }

  /** @param {PointerEvent} event */
  drag(event) {
    this.moved = false;
    if (event.button || event.pointerType === "touch") return;
    const [x, y, left, top] = [event.clientX, event.clientY, this.box.scrollLeft, this.box.scrollTop];
    const drag = new AbortController();
    const { signal } = drag;
    this.pressed = true;
    window.addEventListener("pointermove", (move) => {
      if (Math.hypot(move.clientX - x, move.clientY - y) > 4) this.moved = true;
      if (this.moved) this.box.scrollTo(left + x - move.clientX, top + y - move.clientY);
    }, { signal });
    for (const end of ["pointerup", "pointercancel"])
      window.addEventListener(end, () => {
        this.pressed = false;
        drag.abort();
      }, { signal });
  }
}
