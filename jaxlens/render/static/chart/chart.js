// @ts-check
/**
 * Puts each chart's drawing in the place of its picture: in the colours of the page, linked with
 * the panes beside it, and with what is pointed at in words below. A plot can be zoomed.
 */
import { button, create } from "../viewer/elements.js";

const SVG = "http://www.w3.org/2000/svg";
const ZOOM = 1.6;
const LARGEST = { bytes: 64, seconds: 4096 };
// Width of a character of a chart's text, the least height of a rectangle with text, and where a tick's text is below it
const [CHARACTER, LINE, BASELINE] = [7.3, 14, 4];

/** @param {HTMLImageElement} image @returns {SVGSVGElement} its drawing, without the style of a card */
function drawn(image) {
  const text = decodeURIComponent(image.src.slice(image.src.indexOf(",") + 1));
  const read = new DOMParser().parseFromString(text, "image/svg+xml");
  const svg = /** @type {any} */ (document.adoptNode(read.documentElement));
  svg.querySelector("style")?.remove();
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", image.alt);
  return svg;
}

/** A size as Python's `report.amount` writes it. @param {number} bytes */
function amount(bytes) {
  let [value, step] = [bytes, 0];
  for (; value >= 999.5 && step < 6; step += 1) value /= 1000;
  return `${Number(value.toPrecision(3))} ${["", ..."kMGTPE"][step]}B`;
}

/** A time as Python's `report.duration` writes it. @param {number} seconds */
function duration(seconds) {
  for (const [unit, scale, least] of /** @type {[string, number, number?][]} */ ([["h", 3600, 3598], ["min", 60, 999.5], ["s", 1], ["ms", 1e-3], ["µs", 1e-6]]))
    if (seconds >= (least ?? 0.9995 * scale)) return `${Number((seconds / scale).toPrecision(3))} ${unit}`;
  return seconds > 0 ? `${Number((seconds / 1e-9).toPrecision(3))} ns` : "0 s";
}

/** What a shape stands for, in words. @param {Element} shape */
const wordsOf = (shape) => shape.querySelector("title")?.textContent ?? "";

class Chart {
  /** @param {HTMLElement} host @param {HTMLImageElement} image */
  constructor(host, image) {
    this.host = host;
    this.svg = drawn(image);
    image.replaceWith(this.svg);
    this.shapes = [...this.svg.querySelectorAll("title")].map((title) => /** @type {SVGGraphicsElement} */ (title.parentElement));
    /** @type {SVGGraphicsElement | undefined} */
    this.at = undefined;
    this.place = "";
    /** @type {any} what is lit in the output */
    this.lit = {};
    host.closest(".jaxlens")?.addEventListener("jl-light", (event) => this.mark(/** @type {CustomEvent} */ (event).detail));
    if (!this.shapes.length) return;
    this.svg.setAttribute("role", "application");
    this.svg.setAttribute("tabindex", "0");
    this.plot = /** @type {SVGSVGElement | null} */ (this.svg.querySelector(".plot"));
    this.words = create("span", "", { role: "status" }, "Point at a part, or go from one to the next with the arrow keys; Enter pins it.");
    this.tools = create("div", "buttons", {}, this.words);
    host.append(this.tools);
    this.listen();
    if (this.plot) this.zooms(this.plot);
  }

  listen() {
    const { svg } = this;
    svg.addEventListener("pointerover", (event) => event.stopPropagation());
    svg.addEventListener("pointermove", (event) => {
      const shape = this.shapes.find((shape) => shape === event.target);
      const place = `${event.clientX} ${event.clientY}`;
      // Zooming moves what lies under a pointer that rests
      if (shape && shape !== this.at && place !== this.place) this.point(shape);
      this.place = place;
    });
    svg.addEventListener("pointerleave", () => this.send("jl-point", null));
    svg.addEventListener("click", (event) => {
      if (!this.dragged && this.at === event.target) this.pin();
    });
    // A notebook takes keys on their way down
    window.addEventListener("keydown", (event) => {
      if (document.activeElement !== svg || event.ctrlKey || event.metaKey || event.altKey || !this.key(event.key)) return;
      event.preventDefault();
      event.stopImmediatePropagation();
    }, { capture: true });
  }

  /** @param {string} key @returns {boolean} whether it means something here */
  key(key) {
    const last = this.shapes.length - 1;
    const place = this.inOrder.indexOf(/** @type {any} */ (this.at));
    if (this.along && key.startsWith("Arrow")) this.step(key);
    else if (key === "ArrowRight" || key === "ArrowDown") this.visit(Math.min(place + 1, last));
    else if (key === "ArrowLeft" || key === "ArrowUp") this.visit(Math.max(place - 1, 0));
    else if (key === "Home") this.visit(0);
    else if (key === "End") this.visit(last);
    else if (key === "Enter" && this.at) this.pin();
    else if (key === "Escape") this.send("jl-pin", null);
    else if (this.box && (key === "+" || key === "=")) this.zoom(ZOOM);
    else if (this.box && key === "-") this.zoom(1 / ZOOM);
    else if (this.box && key === "0") this.show(this.box);
    else return false;
    return true;
  }

  /** The shapes from left to right, those of one column from the bottom. */
  get inOrder() {
    this.ordered ??= this.shapes.map((shape) => ({ shape, box: shape.getBBox() }))
      .sort((a, b) => a.box.x - b.box.x || b.box.y - a.box.y).map(({ shape }) => shape);
    return this.ordered;
  }

  /** Goes to the next shape of a lane, or to the lane above or below. @param {string} key */
  step(key) {
    const [now, sign] = [this.at?.getBBox(), key === "ArrowRight" || key === "ArrowDown" ? 1 : -1];
    if (!now) return this.visit(0);
    const boxes = this.inOrder.map((shape) => shape.getBBox());
    const place = this.inOrder.indexOf(/** @type {any} */ (this.at));
    if (key === "ArrowLeft" || key === "ArrowRight") {
      let next = place + sign;
      while (boxes[next] && boxes[next].y !== now.y) next += sign;
      if (boxes[next]) this.visit(next);
      return;
    }
    const tops = boxes.map((box) => box.y).filter((y) => (y - now.y) * sign > 0);
    const top = sign > 0 ? Math.min(...tops) : Math.max(...tops);
    const middle = now.x + now.width / 2;
    const far = (/** @type {DOMRect} */ box) => Math.max(box.x - middle, middle - box.x - box.width, 0);
    const lane = boxes.map((_, n) => n).filter((n) => boxes[n].y === top);
    if (lane.length) this.visit(lane.reduce((a, b) => (far(boxes[b]) < far(boxes[a]) ? b : a)));
  }

  /** @param {number} place */
  visit(place) {
    const shape = this.inOrder[place];
    this.point(shape);
    if (!this.view || !this.box || this.view.width === this.box.width) return;
    const { x, y, width, height } = shape.getBBox();
    const view = this.view;
    if (x + width < view.x || x > view.x + view.width || y + height < view.y || y > view.y + view.height)
      this.show(new DOMRect(x - view.width / 4, y + height / 2 - view.height / 2, view.width, view.height));
  }

  /** Says what a shape is, and lights what it is linked with. @param {SVGGraphicsElement} shape */
  point(shape) {
    this.at?.classList.remove("at");
    this.at = shape;
    shape.classList.add("at");
    if (this.words) this.words.textContent = wordsOf(shape);
    this.send("jl-point", this.node);
  }

  pin() {
    const { id, line, pinned } = this.lit;
    const node = /** @type {any} */ (this.node);
    const same = pinned && node && (node.id ? id === node.id : line === node.line);
    this.send("jl-pin", same ? null : node);
  }

  /** @param {string} type @param {object | null} detail */
  send(type, detail) {
    this.host.dispatchEvent(new CustomEvent(type, { bubbles: true, detail }));
  }

  /** The node or line of the shape that is pointed at. */
  get node() {
    const [id, line] = [this.at?.getAttribute("data-id"), this.at?.getAttribute("data-line")];
    return id ? { stage: this.host.dataset.stage ?? "", id } : line ? { line } : null;
  }

  /** Marks what is linked with what is pointed at. @param {any} lit */
  mark(lit) {
    this.lit = lit;
    const own = this.host.dataset.stage ?? "";
    const lens = /** @type {any} */ (this.host.closest(".jaxlens")).jaxlens;
    for (const shape of this.svg.querySelectorAll("[data-line]:not([data-id])"))
      shape.classList.toggle("lit", !!lit.line && shape.getAttribute("data-line") === lit.line);
    for (const shape of this.svg.querySelectorAll("[data-id]")) {
      const node = shape.getAttribute("data-id");
      const linked = lens.atoms(own, node).some((/** @type {number} */ atom) => lit.atoms.has(atom));
      shape.classList.toggle("lit", linked || (lit.stage === own && lit.id === node));
    }
  }

  /** @param {SVGSVGElement} plot */
  zooms(plot) {
    const { x, y, width, height } = plot.viewBox.baseVal;
    this.box = this.view = new DOMRect(x, y, width, height);
    this.along = plot.getAttribute("data-axis") === "seconds";
    this.tools?.prepend(
      button("+", "Zoom in", () => this.zoom(ZOOM)),
      button("−", "Zoom out", () => this.zoom(1 / ZOOM)),
      button("all", "Show all", () => this.box && this.show(this.box)),
    );
    this.svg.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY / 300), this.under(plot, event));
    }, { passive: false });
    this.svg.addEventListener("dblclick", (event) => this.zoom(ZOOM, this.under(plot, event)));
    this.svg.addEventListener("pointerdown", (event) => this.drag(plot, event));
  }

  /** The point of the plot under the pointer. @param {SVGSVGElement} plot @param {MouseEvent} event */
  under(plot, event) {
    return new DOMPoint(event.clientX, event.clientY).matrixTransform(plot.getScreenCTM()?.inverse());
  }

  /** @param {SVGSVGElement} plot @param {PointerEvent} start */
  drag(plot, start) {
    this.dragged = false;
    const from = this.under(plot, start);
    if (start.button || start.pointerType === "touch" || this.view === this.box) return;
    const drag = new AbortController();
    const { signal } = drag;
    window.addEventListener("pointermove", (move) => {
      if (!this.view || (!this.dragged && Math.hypot(move.clientX - start.clientX, move.clientY - start.clientY) < 5)) return;
      this.dragged = true;
      const now = this.under(plot, move);
      this.show(new DOMRect(this.view.x + from.x - now.x, this.view.y + from.y - now.y, this.view.width, this.view.height));
    }, { signal });
    for (const end of ["pointerup", "pointercancel"]) window.addEventListener(end, () => drag.abort(), { signal });
  }

  /** Zooms; one point stays where it is, by default the middle of the shape pointed at. @param {number} by @param {DOMPoint} [point] */
  zoom(by, point) {
    const [view, box] = [this.view, this.box];
    if (!view || !box) return;
    const part = this.at?.getBBox() ?? view;
    const at = point ?? new DOMPoint(part.x + part.width / 2, part.y + part.height / 2);
    const width = Math.min(box.width, Math.max(box.width / LARGEST[this.along ? "seconds" : "bytes"], view.width / by));
    const share = width / view.width;
    this.show(new DOMRect(at.x - (at.x - view.x) * share, at.y - (at.y - view.y) * share, width, view.height * share));
  }

  /** Shows a part of the plot; of one along time, all its lanes. @param {DOMRect} asked */
  show(asked) {
    const { box, plot } = this;
    if (!box || !plot) return;
    const part = this.along ? new DOMRect(asked.x, box.y, asked.width, box.height) : asked;
    const whole = part.width > box.width * 0.999;
    const x = Math.max(box.x, Math.min(part.x, box.right - part.width));
    const y = Math.max(box.y, Math.min(part.y, box.bottom - part.height));
    this.view = whole ? box : new DOMRect(x, y, part.width, part.height);
    const view = this.view;
    plot.setAttribute("viewBox", `${view.x} ${view.y} ${view.width} ${view.height}`);
    this.svg.classList.toggle("zoomed", !whole);
    this.svg.querySelector(".near")?.remove();
    if (!whole) this.svg.append(this.near(view, box));
    const top = Number(plot.getAttribute("data-top"));
    const ticks = [...this.svg.querySelectorAll(".ticks text")];
    this.rounded ??= ticks.map((tick) => tick.textContent);
    ticks.forEach((tick, n) => {
      const [across, up] = ["x", "y"].map((side) => Number(tick.getAttribute(side)));
      const value = this.along
        ? duration((top * (view.x - box.x + ((across - box.x) / box.width) * view.width)) / box.width)
        : amount(Math.round((top * (box.bottom - view.bottom + ((box.bottom - up + BASELINE) / box.height) * view.height)) / box.height));
      tick.textContent = whole ? (this.rounded?.[n] ?? "") : value;
    });
  }

  /** The names of the rectangles in sight, where there is room. @param {DOMRect} view @param {DOMRect} box */
  near(view, box) {
    const group = document.createElementNS(SVG, "g");
    const [by, tall] = [box.width / view.width, box.height / view.height];
    group.setAttribute("class", "near");
    /** @type {[number, number, number][]} left and right end and baseline of each */
    const taken = [];
    // What is painted last is on top
    for (const shape of [...this.shapes].reverse()) {
      if (!this.plot?.contains(shape)) continue;
      const part = shape.getBBox();
      const left = Math.max(part.x, view.x);
      const top = Math.max(part.y, view.y);
      const room = (Math.min(part.x + part.width, view.right) - left) * by - 8;
      const height = (Math.min(part.y + part.height, view.bottom) - top) * tall;
      const [name, size, , line] = wordsOf(shape).split(", ");
      const texts = [`${name}, ${size}${line ? `, ${line}` : ""}`, `${name}, ${size}`, name.split(" ")[0]];
      const label = height >= LINE ? texts.find((text) => text.length * CHARACTER <= room) : undefined;
      const [x, y] = [box.x + (left - view.x) * by + 4, box.y + (top - view.y) * tall + height / 2 + 4];
      const end = x + (label?.length ?? 0) * CHARACTER;
      if (!label || taken.some(([a, b, line]) => x < b && end > a && Math.abs(y - line) < LINE)) continue;
      taken.push([x, end, y]);
      const text = document.createElementNS(SVG, "text");
      text.setAttribute("class", "text");
      text.setAttribute("x", String(x));
      text.setAttribute("y", String(y));
      text.textContent = label;
      group.append(text);
    }
    return group;
  }
}

/** @param {ParentNode} root */
export function live(root) {
  for (const host of /** @type {NodeListOf<HTMLElement>} */ (root.querySelectorAll(".jaxlens .chart-figure:not([data-live])"))) {
    const image = host.querySelector("img");
    if (!image) continue;
    host.setAttribute("data-live", "");
    new Chart(host, image);
  }
}
