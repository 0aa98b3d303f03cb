// @ts-check
/**
 * Highlights what is linked: pointing at a node or a line dispatches `jl-point`, clicking `jl-pin`;
 * both become `jl-light`, and the rows in the HTML are marked. Long lists and drawings listen to
 * `jl-light` and mark their own elements, under `[data-own]`.
 *
 * Classes: `lit` for what shares an atom, `call` for what was made in calls from the line,
 * `pointed` for what is pointed at, `pin` for what is pinned.
 */
import { idOf, lineOf, sameNode, shownAt, stageAt } from "./rows.js";

/** @typedef {import("./rows.js").Node} Node */
/** @typedef {{row: HTMLElement, pane: Element | null, ids: string}} Place */

const MARKS = ["lit", "call", "pointed", "pin"];
const NOT_A_CLICK = "button, input, label, a, select, .pane-head";

export class Highlighter {
  /** @param {HTMLElement} root @param {import("./link_data.js").LinkData} web */
  constructor(root, web) {
    this.root = root;
    this.web = web;
    /** @type {Node | null} */
    this.point = null;
    /** @type {Node | null} */
    this.pinned = null;
    /** @type {HTMLElement[]} */
    this.marked = [];
    this.frame = 0;
    /** Narrows a line to what the pointer is on; `source/expressions.js` sets it. @type {(row: HTMLElement, node: Node, event: MouseEvent) => Node} */
    this.refine = (_, node) => node;
    /** The last few answers of `reach`. @type {Map<string, ReturnType<Highlighter["resolve"]>>} */
    this.resolved = new Map();
    this.listen();
  }
  listen() {
    const { root } = this;
    const dispatch = (/** @type {string} */ type, /** @type {Element} */ from, /** @type {Node | null} */ detail) =>
      from.dispatchEvent(new CustomEvent(type, { bubbles: true, detail }));
    for (const type of ["pointerover", "focusin"])
      root.addEventListener(type, (event) => {
        const shown = shownAt(event.target);
        if (shown && !shown.row.closest("[data-own='points']")) dispatch("jl-point", shown.row, shown.node);
        else if (!shown && type === "pointerover") dispatch("jl-point", root, null);
      });
    root.addEventListener("pointerleave", () => dispatch("jl-point", root, null));
    root.addEventListener("click", (event) => {
      const { target } = event;
      const shown = shownAt(target);
      if (!shown || !(target instanceof Element) || target.closest(NOT_A_CLICK)) return;
      if (shown.row.closest("[data-own='points']") || getSelection()?.toString()) return;
      if (this.opens(shown.row, event)) return;
      const node = this.refine(shown.row, shown.node, event);
      dispatch("jl-pin", shown.row, sameNode(node, this.pinned) ? null : node);
    });
    root.addEventListener("jl-point", (event) => {
      const node = /** @type {CustomEvent} */ (event).detail;
      if (sameNode(node, this.point)) return;
      this.point = node;
      this.frame ||= requestAnimationFrame(() => this.light());
    });
    root.addEventListener("jl-pin", (event) => {
      this.pinned = /** @type {CustomEvent} */ (event).detail;
      this.light();
    });
    root.addEventListener("jl-panes", () => this.light());
    root.addEventListener("jl-rows", () => (this.placesByNode = undefined));
  }

  /**
   * A click on the user's line pins it and opens what lies under it; the next click undoes both.
   * On the sign before the line, and where nothing is linked, it opens alone.
   * @param {HTMLElement} row @param {MouseEvent} event
   */
  opens(row, event) {
    if (row.localName !== "summary") return false;
    const onSign = event.detail && event.clientX - row.getBoundingClientRect().left < 20;
    if (onSign || !this.web.linked) return true;
    if (row.parentElement instanceof HTMLDetailsElement && row.closest(".source-lines")) {
      event.preventDefault();
      row.parentElement.open = !row.classList.contains("pin");
    }
    return false;
  }

  /** Rows in the HTML of each node and line, by stage and id. */
  get places() {
    if (this.placesByNode) return this.placesByNode;
    /** @type {Map<string, Place[]>} */
    const placesByNode = (this.placesByNode = new Map());
    const put = (/** @type {string} */ key, /** @type {HTMLElement} */ row, ids = "") => {
      const place = { row, pane: row.closest("details[data-pane]"), ids };
      const places = placesByNode.get(key);
      if (places) places.push(place);
      else placesByNode.set(key, [place]);
    };
    for (const row of this.root.querySelectorAll("[data-id]")) {
      if (!(row instanceof HTMLElement) || row.closest("[data-own]")) continue;
      const ids = idOf(row);
      const stage = this.web.stageOf(stageAt(row), ids);
      for (const id of this.web.parts(stage, ids)) put(`${stage}\n${id}`, row, ids);
    }
    for (const row of this.root.querySelectorAll(".source-lines .rows > *"))
      if (row.firstElementChild instanceof HTMLElement) put(`\n${lineOf(row)}`, row.firstElementChild);
    return placesByNode;
  }

  /** What a node is linked to; the same object for the same node. @param {Node | null} node */
  reach(node) {
    const key = JSON.stringify(node);
    const kept = this.resolved.get(key) ?? this.resolve(node);
    this.resolved = new Map([...this.resolved].slice(-3)).set(key, kept);
    return kept;
  }

  /** @param {Node | null} node */
  resolve(node) {
    const { web } = this;
    const [line, id] = [node && "line" in node ? node.line : "", node && "id" in node ? node.id : ""];
    const stage = node && "id" in node ? web.stageOf(node.stage, id) : "";
    const atoms = new Set(line ? web.of(web.lines, line) : id ? web.atoms(stage, id) : []);
    const calls = new Set(line ? web.of(web.calls, line) : []);
    const part = (line && /** @type {{part?: string}} */ (node).part) || "";
    const own = web.expressions.get(line)?.get(part);
    if (own) for (const set of [atoms, calls]) for (const atom of set) own.has(atom) || set.delete(atom);
    return { stage, id, line, part, atoms, calls };
  }

  light() {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    const node = this.point ?? this.pinned;
    const pinned = node !== null && sameNode(node, this.pinned);
    const detail = { ...this.reach(node), pinned };
    this.mark(detail);
    this.root.dispatchEvent(new CustomEvent("jl-light", { detail }));
  }

  /** @param {ReturnType<Highlighter["reach"]>} lit */
  mark({ stage, id, line, atoms, calls }) {
    for (const row of this.marked) row.classList.remove(...MARKS);
    this.marked = [];
    for (const name of new Set(this.web.stages.keys())) {
      this.put(name, this.web.touched(name, calls), "call");
      this.put(name, this.web.touched(name, atoms), "lit");
    }
    if (!line) {
      this.put("", this.web.callers(atoms), "call");
      this.put("", this.web.owners(atoms), "lit");
    }
    this.put(line ? "" : stage, line ? [line] : id ? this.web.parts(stage, id) : [], "pointed", id);
    if (!this.pinned) return;
    const pin = this.reach(this.pinned);
    this.put(pin.stage, pin.line ? [pin.line] : this.web.parts(pin.stage, pin.id), "pin", pin.id);
  }

  /**
   * Marks the rows of these that are shown; with `whole`, of rows that name several nodes only the
   * one that names exactly these.
   * @param {string} stage @param {Iterable<string>} ids @param {string} mark @param {string} [whole]
   */
  put(stage, ids, mark, whole) {
    for (const id of ids)
      for (const { row, pane, ids: named } of this.places.get(`${stage}\n${id}`) ?? []) {
        if (whole !== undefined && named !== id && named !== whole && named) continue;
        if (pane instanceof HTMLDetailsElement && !pane.open) continue;
        if (mark === "lit") row.classList.remove("call");
        row.classList.add(mark);
        this.marked.push(row);
      }
  }
}
