// @ts-check
/**
 * The live drawing of a figure: boxes open in place, the plane pans and zooms, and what is
 * chosen here is chosen in every pane.
 *
 * Thinking is Python's: `render/graph/figure_json.py` gives panels with positions. One rule for the mouse:
 * a click pins a box, its marker or a double click opens it.
 */

import { button, create, textOf } from "../viewer/elements.js";
import { FREE, scene, within } from "./stretch.js";
import { boxElement, element, num, remark, shade, wireElements } from "./paint.js";
import { ClosedBoxes, homeOf, linked, NodeIndex } from "./node_index.js";
import { Minimap } from "./minimap.js";
import { View } from "./view.js";
import { PaneLinks } from "./links.js";
import { keyPressed, keyTable } from "./keyboard.js";

/** @typedef {import("./stretch.js").Data} Data */
/** @typedef {import("./stretch.js").Drawn} Drawn */

// Ms on a box
const TOLD_AFTER = 600;
const LOCKED = 'left out here: opens once the cell is run, and in the page that .save("x.html") writes';

/** One drawing on the page. */
export class Drawing {
  /** @param {HTMLElement} host @param {Data} data */
  constructor(host, data) {
    this.data = data;
    this.index = new NodeIndex(data);
    this.closed = new ClosedBoxes(data, host);
    this.open = new Set(data.open);
    this.chosen = "0";
    /** What is pointed at. */
    this.pointed = "";
    this.explainTimer = 0;
    /** @type {Map<string, Drawn>} */
    this.boxes = new Map();
    /** @type {Map<string, SVGElement>} */
    this.elements = new Map();
    this.svg = element("svg", {
      class: "jaxlens-figure", role: "group",
      "aria-label": host.querySelector("img")?.alt ?? host.querySelector("p")?.textContent ?? data.panels[0][0],
    });
    this.view = new View(this.svg);
    this.map = new Minimap(this.view);
    this.links = new PaneLinks(this, host);
    this.keys = keyTable();
    const choices = ["", ...Object.keys(data.panels[0][6] ?? {})];
    this.measure = create("select", "", { "aria-label": "Shade boxes by" },
      ...choices.map((name) => create("option", "", { value: name }, name || "no shade")));
    this.measure.hidden = choices.length < 2;
    this.measure.addEventListener("change", () => this.draw());
    const tools = this.toolbar();
    this.note = create("div", "drawing-note", {});
    this.draw();
    host.replaceChildren(tools, this.keys, this.view.box, this.note);
    this.closed.root.addEventListener("jl-kernel", () => this.draw());
    drawings.set(this.svg, this);
    this.view.fitWidth(this.chosenBox()?.x);
    this.whenShown(host);
    this.listen();
  }
  toolbar() {
    const { view } = this;
    return create("div", "tools", { role: "group", "aria-label": "Graph" }, this.measure,
      button("fit", "Fit the whole picture (f)", () => view.fit()),
      button("−", "Zoom out (-)", () => view.scale(view.zoom / 1.25)),
      button("+", "Zoom in (+)", () => view.scale(view.zoom * 1.25)),
      button("1:1", "Actual size (1)", () => view.scale(1)),
      button("?", "Keys (?)", () => this.help()));
  }

  /** Behind a closed tab there is no width to fit; beside another pane it changes. @param {HTMLElement} host */
  whenShown(host) {
    let before = host.clientWidth;
    new ResizeObserver(() => {
      const { clientWidth } = host;
      if (clientWidth && this.view.auto) this.view.fitWidth(this.chosenBox()?.x);
      if (clientWidth && !before) this.links.shown();
      before = clientWidth;
    }).observe(host.parentElement ?? host);
  }

  draw() {
    const shown = scene(this.data, this.open);
    /** @type {Element[]} */
    const parts = [element("rect", { class: "card", width: num(shown.w), height: num(shown.h), rx: 8 })];
    this.boxes = new Map();
    this.elements = new Map();
    for (const { boxes, wires } of shown.layers) {
      const [lines, labels] = [[], []].map(() => /** @type {Element[]} */ ([]));
      for (const wire of wires) {
        const [line, label] = wireElements(wire);
        lines.push(line);
        if (label) labels.push(label);
      }
      const make = (/** @type {Drawn} */ box) => {
        const shape = boxElement(box, this.data, this.closed.opens(box.box));
        if (this.closed.locked(box.box)) {
          shape.classList.add("locked");
          shape.removeAttribute("aria-expanded");
        }
        const heat = !box.open && this.heat(box.box);
        if (heat) shade(shape, box, heat);
        this.elements.set(box.path, shape);
        return shape;
      };
      parts.push(...boxes.filter((box) => box.open).map(make), ...lines, ...labels);
      parts.push(...boxes.filter((box) => !box.open).map(make));
      for (const box of boxes) this.boxes.set(box.path, box);
    }
    this.svg.replaceChildren(...parts);
    this.view.size(shown.w, shown.h);
    this.map.draw(this.boxes.values());
    if (!this.boxes.has(this.chosen)) this.chosen = this.boxes.keys().next().value ?? "";
    this.at(this.chosen)?.setAttribute("tabindex", "0");
    this.markEdges(this.chosen, "on", this.picked);
    this.links.mark();
    this.say();
  }

  /** The figure of a box that is chosen, as text, and its share. @param {import("./stretch.js").Box} box */
  heat(box) {
    const panel = this.measure.value ? this.data.panels.find((panel) => panel[4].includes(box)) : undefined;
    return panel?.[6]?.[this.measure.value]?.[panel[4].indexOf(box)];
  }

  /** What stands below. */
  say() {
    const { note, locked, panels } = this.data;
    const name = this.measure.value;
    const most = name && `shade: ${name}, the most is ${panels[0][6]?.[name].find((own) => own && own[1] === 1)?.[0]}`;
    this.note.textContent = [note, this.closed.fetch ? "" : locked, ...this.links.markLanes(), most].filter(Boolean).join("; ");
  }

  /** @param {string} path */
  at(path) {
    return this.elements.get(path);
  }

  chosenBox() {
    return this.boxes.get(this.chosen);
  }

  /** Draws again, with the box where it was in the view. @param {string} path @param {() => void} change */
  keeping(path, change) {
    const before = this.at(path)?.getBoundingClientRect();
    change();
    this.draw();
    const after = this.at(path)?.getBoundingClientRect();
    if (before && after)
      this.view.box.scrollBy(
        after.left + Math.min(after.width / 2, this.view.box.clientWidth / 2) - before.left - before.width / 2,
        after.top - before.top,
      );
    this.at(path)?.focus({ preventScroll: true });
  }

  /** Opens a box that the output has no room for. @param {string} path @param {Drawn} drawn */
  async bring(path, drawn) {
    try {
      if (!(await this.closed.bring(drawn.box))) return;
      this.index = new NodeIndex(this.data);
      this.toggle(path);
    } catch (why) {
      this.svg.append(remark(drawn, String(why instanceof Error ? why.message : why)));
    }
  }

  /** Opens or shuts a box, which keeps its place in the view; one that opens and is not in sight is zoomed to. @param {string} path */
  toggle(path) {
    const drawn = this.boxes.get(path);
    if (!drawn || !this.closed.opens(drawn.box)) return;
    this.svg.querySelector(".box-remark")?.remove();
    if (this.closed.locked(drawn.box)) {
      this.svg.append(remark(drawn, LOCKED));
      return;
    }
    if (drawn.box[4] < 0) {
      this.bring(path, drawn);
      return;
    }
    this.keeping(path, () => {
      if (this.open.has(path)) this.open.delete(path);
      else this.openFreely(path, drawn.box[4]);
      this.chosen = path;
    });
    const now = this.boxes.get(path);
    if (now?.open) this.view.zoomTo(now);
  }

  /** A panel that only leads on opens with what it leads to. @param {string} path @param {number} panel */
  openFreely(path, panel) {
    /** @type {[string, number][]} */
    const waiting = [[path, panel]];
    for (let next = waiting.pop(); next; next = waiting.pop()) {
      const [place, inside] = next;
      this.open.add(place);
      const [, free, , , boxes] = this.data.panels[inside];
      if (free && place.split(".").length - path.split(".").length < FREE)
        boxes.forEach((box, n) => box[4] >= 0 && waiting.push([within(place, n), box[4]]));
    }
  }

  /** Makes a box the chosen one, with its edges. @param {string} path */
  choose(path) {
    this.svg.querySelector(".box-remark")?.remove();
    this.at(this.chosen)?.setAttribute("tabindex", "-1");
    this.markEdges(this.chosen, "on", false);
    this.chosen = path;
    this.picked = true;
    this.markEdges(path, "on", true);
    const box = this.at(path);
    box?.setAttribute("tabindex", "0");
    const [reads, read] = [0, 1].map((side) => linked(this.data, path, /** @type {0 | 1} */ (side)).length);
    box?.setAttribute("aria-description", `reads ${reads}, read by ${read}`);
    if (box !== document.activeElement) box?.focus({ preventScroll: true });
    // What is pressed must not move away under the pointer: its click would miss the marker
    if (!this.view.pressed) box?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  /** The focus came to a box, by whatever way. @param {string} path */
  focused(path) {
    if (path && path !== this.chosen) this.choose(path);
    this.point(path);
  }

  /** @param {string} path */
  pin(path) {
    this.links.dispatch("jl-pin", path);
  }

  help() {
    this.keys.hidden = !this.keys.hidden;
  }

  /** @returns {boolean} whether there was something to end */
  escape() {
    const { outer } = homeOf(this.data, this.chosen);
    if (!this.keys.hidden) this.help();
    else if (this.links.pinned) this.pin("");
    else if (outer) this.toggle(outer);
    else return false;
    return true;
  }

  /** Opens the boxes round a place, and puts it in the middle. @param {string} path */
  uncover(path) {
    for (let dot = path.indexOf("."); dot > 0; dot = path.indexOf(".", dot + 1))
      this.open.add(path.slice(0, dot));
    this.markEdges(this.chosen, "on", false);
    [this.chosen, this.picked] = [path, true];
    this.draw();
    const box = this.boxes.get(path);
    if (box) this.view.centre(box);
  }
  listen() {
    const boxOf = (/** @type {EventTarget | null} */ target) =>
      target instanceof Element ? target.closest("[data-path]")?.getAttribute("data-path") ?? "" : "";
    /** @type {[string, (path: string, event: Event) => void][]} */
    const acts = [
      ["click", (path, event) => this.clicked(path, event)],
      ["dblclick", (path, event) => this.onDoor(event) || this.toggle(path)],
      ["mouseover", (path) => this.point(path)],
      ["mouseout", () => this.point("")],
      ["focusin", (path) => this.focused(path)],
      ["focusout", () => this.point("")],
    ];
    for (const [type, act] of acts)
      this.svg.addEventListener(type, (event) => act(boxOf(event.target), event));
  }

  /** @param {Event} event */
  onDoor(event) {
    return event.target instanceof Element && !!event.target.closest(".door");
  }

  /** @param {string} path @param {Event} event */
  clicked(path, event) {
    if (this.view.moved) return;
    if (path) this.choose(path);
    if (this.follow(path)) return;
    if (path && this.onDoor(event)) this.toggle(path);
    else this.pin(path);
  }

  /**
   * Opens the notebook that a box stands for, as the table beside the drawing does: a notebook
   * page knows how to open the links that it has read, and a link made here would leave it.
   * @param {string} path
   */
  follow(path) {
    const address = this.data.links?.[this.boxes.get(path)?.box[0] ?? ""];
    const link = [...this.links.root.querySelectorAll("a[data-opens]")].find(
      (one) => one.getAttribute("data-opens") === address,
    );
    if (!address || !(link instanceof HTMLElement)) return false;
    link.click();
    return true;
  }

  /** The pointer or the focus is on a box. @param {string} path */
  point(path) {
    if (path === this.pointed) return;
    clearTimeout(this.explainTimer);
    this.explainTimer = window.setTimeout(() => this.explain(this.at(path)?.matches(":focus-visible") ? "" : path), TOLD_AFTER);
    this.markEdges(this.pointed, "hot", false);
    this.pointed = path;
    this.markEdges(path, "hot", true);
    this.links.dispatch("jl-point", path);
  }

  /** Shows what the glossary says of a box, below it; nothing for "". @param {string} path */
  explain(path) {
    const [drawn, at] = [this.boxes.get(path), this.at(path)?.getBoundingClientRect()];
    const word = /[\w.-]+/.exec(drawn?.box[1] ?? "")?.[0];
    const detail = word && at ? { stage: this.data.stage, word, x: at.left, y: at.bottom } : null;
    this.svg.dispatchEvent(new CustomEvent("jl-help", { bubbles: true, detail }));
  }

  /** Marks the edges of a box. @param {string} path @param {string} name @param {boolean | undefined} on */
  markEdges(path, name, on) {
    if (!path) return;
    for (const wire of this.svg.querySelectorAll(`[data-tail="${path}"],[data-head="${path}"]`))
      wire.classList.toggle(name, !!on);
  }
}

let listening = false;
/** @type {WeakMap<Element, Drawing>} */
const drawings = new WeakMap();

/** Keys go to the drawing first: a notebook takes them on their way down, and letters act there. @param {KeyboardEvent} event */
function keyDown(event) {
  const svg = event.target instanceof Element ? event.target.closest(".jaxlens-figure") : null;
  const drawing = svg && drawings.get(svg);
  if (!drawing) return;
  const handled = keyPressed(drawing, event);
  if (handled) event.preventDefault();
  if (handled || (event.key.length === 1 && !event.ctrlKey && !event.metaKey && !event.altKey)) event.stopPropagation();
}

/** The data of a drawing, with the points of edges in full. @param {string} text @returns {Promise<Data>} */
async function read(text) {
  const data = JSON.parse(await textOf(JSON.parse(text)));
  for (const [, , , , , edges] of data.panels) for (const edge of edges) edge[3] = pointsOf(edge[3]);
  return data;
}

/** Points from steps in tenths, as they are embedded. @param {number[]} steps */
function pointsOf(steps) {
  for (let n = 2; n < steps.length; n++) steps[n] += steps[n - 2];
  return steps.map((tenths) => tenths / 10);
}

/** Draws every figure under `root` that is still a picture. @param {ParentNode} root */
export function live(root) {
  if (!listening) window.addEventListener("keydown", keyDown, { capture: true });
  listening = true;
  for (const host of root.querySelectorAll(".jaxlens-drawing:not([data-live])")) {
    const source = host.querySelector('script[type="application/json"]');
    if (!(host instanceof HTMLElement) || !source?.textContent) continue;
    host.setAttribute("data-live", "");
    read(source.textContent).then((data) => new Drawing(host, data));
  }
}
