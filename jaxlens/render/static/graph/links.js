// @ts-check
/**
 * Links a drawing with the other panes, by events on the output's root: `jl-point` and `jl-pin` name
 * the node of a box, `jl-light` which nodes to mark, and `jl-reveal` requests one.
 *
 * A folded run names all its nodes, with blanks between.
 */

import { spelled } from "./node_index.js";
import { badge } from "./paint.js";

/** @typedef {import("./stretch.js").Drawn} Drawn */
/** @typedef {import("./drawing.js").Drawing} Drawing */
/**
 * @typedef {{atoms?: Iterable<number>, calls?: Iterable<number>, stage?: string, id?: string,
 *   line?: string, pinned?: boolean}} Light
 * @typedef {{ids?: (stage: string, atom: number) => Iterable<string>,
 *   ready?: Promise<unknown>, web?: import("../viewer/link_data.js").LinkData}} Api
 */

/** One drawing's share in an output. */
export class PaneLinks {
  /** @param {Drawing} drawing @param {HTMLElement} host */
  constructor(drawing, host) {
    this.drawing = drawing;
    this.root = host.closest(".jaxlens") ?? host;
    this.stage = drawing.data.stage;
    /** @type {Light} */
    this.light = {};
    /** @type {Light | null} */
    this.pinned = null;
    this.pendingId = "";
    host.setAttribute("data-own", "points");
    /** @type {[string, (detail: any) => void][]} */
    const handlers = [
      ["jl-light", (detail) => this.lit(detail ?? {})],
      ["jl-pin", (detail) => this.pin(detail)],
      ["jl-reveal", (detail) => detail?.stage === this.stage && this.reveal(String(detail.id))],
    ];
    for (const [type, act] of handlers)
      this.root.addEventListener(type, (event) => act(/** @type {CustomEvent} */ (event).detail));
    this.api()?.ready?.then(() => {
      this.mark();
      drawing.say();
    });
  }

  /** @returns {Api | undefined} */
  api() {
    return /** @type {any} */ (this.root).jaxlens;
  }

  /** The nodes of a box; of a shut fold what is in it. @param {Drawn} drawn @returns {string[]} */
  nodes({ box, open }) {
    const own = this.drawing.index.of(box);
    return own.length || open ? own : [...this.inside(box)];
  }

  /** @param {"jl-point" | "jl-pin"} type @param {string} path */
  dispatch(type, path) {
    const drawn = this.drawing.boxes.get(path);
    const ids = drawn ? this.nodes(drawn) : [];
    // What else a box stands for (a literal, a reducer) is its node's own business.
    const id = drawn && this.drawing.index.isFold(drawn.box) ? ids.join(" ") : ids[0];
    const detail = id ? { stage: this.stage, id } : null;
    this.drawing.svg.dispatchEvent(new CustomEvent(type, { bubbles: true, detail }));
  }

  /** @param {Light} light */
  lit(light) {
    this.light = light;
    this.mark();
  }

  /** What another pane pinned comes into view; what was clicked here is. @param {Light | null} pinned */
  pin(pinned) {
    this.pinned = pinned;
    this.mark();
    if (pinned && !this.drawing.svg.contains(document.activeElement)) requestAnimationFrame(() => this.show());
  }

  /** The ids in this drawing's stage of some atoms. @param {Iterable<number> | undefined} atoms */
  idsOf(atoms) {
    /** @type {Set<string>} */
    const ids = new Set();
    const api = this.api();
    for (const atom of atoms ?? []) for (const id of api?.ids?.(this.stage, atom) ?? []) ids.add(id);
    return ids;
  }

  /** Marks boxes: `lit`, `via` (made in calls), `pin`, and how many a shut box holds. */
  mark() {
    const { drawing, light } = this;
    const lit = this.idsOf(light.atoms);
    const via = this.idsOf(light.calls);
    if (light.stage === this.stage && light.id) for (const id of light.id.split(" ")) lit.add(id);
    const pinned = this.pinned?.stage === this.stage ? this.pinned.id : undefined;
    let any = false;
    for (const [path, drawn] of drawing.boxes) {
      const element = drawing.at(path);
      if (!element) continue;
      const own = drawing.index.of(drawn.box);
      const inner = drawn.open ? 0 : count(this.within(drawn), lit);
      const marks = {
        lit: own.some((id) => lit.has(id)),
        via: own.some((id) => via.has(id)) || (!drawn.open && count(this.within(drawn), via) > 0),
        holds: inner > 0,
        pin: !!pinned && (own.includes(pinned) || this.nodes(drawn).join(" ") === pinned),
      };
      for (const [name, on] of Object.entries(marks)) element.classList.toggle(name, on);
      if (element.hasAttribute("aria-pressed")) element.setAttribute("aria-pressed", String(marks.pin));
      element.querySelector(":scope > .node-count")?.remove();
      if (inner) element.append(badge(drawn, inner));
      any ||= marks.lit || marks.holds;
    }
    drawing.svg.classList.toggle("dim", !!this.pinned && any);
  }

  /** Marks the edges into boxes of the backward pass, and after it. @returns {string[]} what the marks mean */
  markLanes() {
    const made = this.stage === "jaxpr" ? this.api()?.web?.made : undefined;
    const after = new Set(spelled(this.drawing.data.after ?? []));
    /** @type {[string, string, (id: string) => boolean][]} */
    const lanes = [
      ["backward", "dashed: the backward pass", (id) => !!made?.get(id)?.includes("transpose")],
      ["after", "dotted: after the gradients", (id) => after.has(id)],
    ];
    const edges = made?.size || after.size ? [...this.drawing.svg.querySelectorAll(".edge")] : [];
    return lanes.filter(([name, , has]) =>
      edges.filter((edge) => {
        const head = this.drawing.boxes.get(edge.getAttribute("data-head") ?? "");
        const nodes = head ? this.nodes(head) : [];
        return edge.classList.toggle(name, nodes.length > 0 && nodes.every(has));
      }).length).map(([, words]) => words);
  }

  /** What a shut box holds: the nodes of what opens in it, or of the run that it folds. @param {Drawn} drawn @returns {Iterable<string>} */
  within({ box }) {
    if (box[4] >= 0) return this.inside(box);
    return this.drawing.index.isFold(box) ? this.drawing.index.of(box) : [];
  }

  /** The nodes in a box that opens. @param {Drawn["box"]} box */
  inside(box) {
    return box[14] ? this.drawing.index.folded(box) : this.drawing.index.in(box[4]);
  }

  /** Brings a marked box into view where none is. */
  show() {
    const { drawing } = this;
    const marked = [...drawing.svg.querySelectorAll(".graph-box:is(.pin, .lit, .holds)")];
    const boxes = marked.flatMap((box) => drawing.boxes.get(box.getAttribute("data-path") ?? "") ?? []);
    if (boxes.length && !boxes.some((box) => drawing.view.shows(box))) drawing.view.centre(boxes[0]);
  }

  /** Opens what must be open for a node to be seen, and puts its box in the middle. @param {string} id */
  reveal(id) {
    if (!this.drawing.view.box.clientWidth) {
      this.pendingId = id;
      return;
    }
    this.pendingId = "";
    const path = this.drawing.index.find(id);
    if (path) this.drawing.uncover(path);
  }

  /** What was asked for while the pane was shut. */
  shown() {
    if (this.pendingId) this.reveal(this.pendingId);
    else if (this.pinned) this.show();
  }
}

/** @param {Iterable<string>} ids @param {Set<string>} among */
function count(ids, among) {
  let n = 0;
  if (among.size) for (const id of ids) if (among.has(id)) n++;
  return n;
}
