// @ts-check
/**
 * What lights up: pointing at a node or a line dispatches `jl-point`, clicking `jl-pin`, and
 * this turns both into `jl-light` and marks the rows that stand in the HTML. Lists that scroll
 * and drawings listen to `jl-light` and mark their own, under `[data-own]`.
 *
 * Classes: `lit` for what shares an atom, `call` for what was made in calls from the line,
 * `pointed` for what is pointed at, `pin` for what is pinned.
 */
import { idOf, lineOf, sameNode, shownAt, stageAt } from "./rows.js";

/** @typedef {import("./rows.js").Node} Node */
/** @typedef {{row: HTMLElement, pane: Element | null, ids: string}} Place */

const MARKS = ["lit", "call", "pointed", "pin"];
const NOT_A_CLICK = "button, input, label, a, select, .pane-head";

export class Links {
  /** @param {HTMLElement} root @param {import("./link_data.js").Web} web */
  constructor(root, web) {
    this.root = root;
    this.web = web;
    /** @type {Node | null} */
    this.point = null;
    /** @type {Node | null} */
    this.pinned = null;
    /** @type {HTMLElement[]} */
    this.marked = [];
    this.asked = 0;
    /** The last few answers of `reach`. @type {Map<string, ReturnType<Links["found"]>>} */
    this.reached = new Map();
    this.listen();
  }
  listen() {
    const { root } = this;
    const tell = (/** @type {string} */ type, /** @type {Element} */ from, /** @type {Node | null} */ detail) =>
      from.dispatchEvent(new CustomEvent(type, { bubbles: true, detail }));
    for (const type of ["pointerover", "focusin"])
      root.addEventListener(type, (event) => {
        const shown = shownAt(event.target);
        if (shown && !shown.row.closest("[data-own='points']")) tell("jl-point", shown.row, shown.node);
        else if (!shown && type === "pointerover") tell("jl-point", root, null);
      });
    root.addEventListener("pointerleave", () => tell("jl-point", root, null));
    root.addEventListener("click", (event) => {
      const { target } = event;
      const shown = shownAt(target);
      if (!shown || !(target instanceof Element) || target.closest(NOT_A_CLICK)) return;
      if (shown.row.closest("[data-own='points']") || getSelection()?.toString()) return;
      if (this.opens(shown.row, event)) return;
      tell("jl-pin", shown.row, sameNode(shown.node, this.pinned) ? null : shown.node);
    });
    root.addEventListener("jl-point", (event) => {
      const node = /** @type {CustomEvent} */ (event).detail;
      if (sameNode(node, this.point)) return;
      this.point = node;
      this.soon();
    });
    root.addEventListener("jl-pin", (event) => {
      this.pinned = /** @type {CustomEvent} */ (event).detail;
      this.light();
    });
    root.addEventListener("jl-panes", () => this.light());
    root.addEventListener("jl-rows", () => this.forget());
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

  /** At most once a frame. */
  soon() {
    if (!this.asked) this.asked = requestAnimationFrame(() => this.light());
  }

  /** Where each node and line stands in the HTML, by stage and id. */
  get places() {
    if (this.known) return this.known;
    /** @type {Map<string, Place[]>} */
    const known = (this.known = new Map());
    const put = (/** @type {string} */ key, /** @type {HTMLElement} */ row, ids = "") => {
      const place = { row, pane: row.closest("details[data-pane]"), ids };
      const there = known.get(key);
      if (there) there.push(place);
      else known.set(key, [place]);
    };
    for (const row of this.root.querySelectorAll("[data-id]")) {
      if (!(row instanceof HTMLElement) || row.closest("[data-own]")) continue;
      const ids = idOf(row);
      const stage = this.web.stageOf(stageAt(row), ids);
      for (const id of this.web.parts(stage, ids)) put(`${stage}\n${id}`, row, ids);
    }
    for (const row of this.root.querySelectorAll(".source-lines .rows > *"))
      if (row.firstElementChild instanceof HTMLElement) put(`\n${lineOf(row)}`, row.firstElementChild);
    return known;
  }

  /** Rows came or went. */
  forget() {
    this.known = undefined;
  }

  /** What a node is linked to; the same answer as long as the node is the same. @param {Node | null} node */
  reach(node) {
    const key = JSON.stringify(node);
    const kept = this.reached.get(key) ?? this.found(node);
    this.reached = new Map([...this.reached].slice(-3)).set(key, kept);
    return kept;
  }

  /** @param {Node | null} node */
  found(node) {
    const { web } = this;
    const [line, id] = [node && "line" in node ? node.line : "", node && "id" in node ? node.id : ""];
    const stage = node && "id" in node ? web.stageOf(node.stage, id) : "";
    const atoms = new Set(line ? web.of(web.lines, line) : id ? web.atoms(stage, id) : []);
    const calls = new Set(line ? web.of(web.calls, line) : []);
    return { stage, id, line, atoms, calls };
  }

  light() {
    cancelAnimationFrame(this.asked);
    this.asked = 0;
    const node = this.point ?? this.pinned;
    const pinned = node !== null && sameNode(node, this.pinned);
    const detail = { ...this.reach(node), pinned };
    this.mark(detail);
    this.root.dispatchEvent(new CustomEvent("jl-light", { detail }));
  }

  /** @param {ReturnType<Links["reach"]>} lit */
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
   * Marks what is on show of these; with `whole`, of what names several nodes only the one that
   * names just these.
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
