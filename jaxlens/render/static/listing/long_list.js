// @ts-check
/**
 * Long listings: only the rows in view are in the page, so 100,000 lines scroll as fast as 100.
 *
 * Rows come from the HTML, then from the data beside it, and beyond that from `root.jaxlens.fetch`,
 * which a live kernel sets and announces by `jl-kernel`. Each is a source (`row_source.js`).
 *
 * A row may stand for others (parameters, results): a click or Space shows them behind it. Those of
 * rows in the HTML come first in the data, so `order` says which row follows which.
 */
import { answeredSource, ShownRows, writtenSource } from "./row_source.js";
import { textOf } from "../viewer/elements.js";
import { lists, onPage, OrderedRows } from "../viewer/rows.js";

/** @typedef {import("./row_source.js").Source} Source */

const BEYOND = 15;
const CHUNK = 500;
const ROW_MARKS = ["lit", "call", "pointed", "pin", "hit", "row-cursor"];
export class LongList extends OrderedRows {
  /** @param {HTMLElement} root @param {HTMLElement} box the `.listing` @param {HTMLElement} body what scrolls */
  constructor(root, box, body) {
    super();
    this.root = root;
    this.box = box;
    this.body = body;
    this.pre = /** @type {HTMLElement} */ (box.querySelector(".rows"));
    this.stage = box.getAttribute("data-stage") ?? "";
    /** What is in the page: its source, and how many rows are before it. @type {[Source, number][]} */
    this.parts = [];
    /** Rows from the kernel, by number of the chunk. @type {Map<number, Source>} */
    this.fetched = new Map();
    /** @type {string[]} */
    this.texts = [];
    this.wide = 0;
    this.loaded = 0;
    /** Rows on the page. @type {Map<number, HTMLElement>} */
    this.drawn = new Map();
    /** Rows that others stand for, by the row that stands for them: the first, how many. @type {Map<number, [number, number]>} */
    this.folds = new Map();
    /** Those that are open. @type {Set<number>} */
    this.opened = new Set();
    /** @type {Map<string, Set<string>>} */
    this.marks = new Map();
    /** @type {Set<number>} */
    this.hits = new Set();
    this.cursor = -1;
    this.missed = false;
    /** @type {Set<number>} */
    this.requested = new Set();
    this.hues = new Map();
    /** Nodes whose rows were requested. @type {Set<string>} */
    this.soughtNodes = new Set();
  }

  /** Takes the place of the rows in the HTML. */
  async activate() {
    const beside = this.box.querySelector(":scope > script");
    const more = beside && writtenSource(await textOf(beside.textContent));
    this.append(new ShownRows(this.pre));
    if (more) this.append(more);
    this.pre.classList.add("long-list");
    this.pre.classList.toggle("bare", !this.owned());
    this.pre.setAttribute("data-own", "");
    this.pre.replaceChildren();
    this.pre.addEventListener("click", ({ target }) => {
      if (target instanceof Element && !getSelection()?.toString()) this.toggle(this.find(target));
    });
    lists.set(this.pre, this);
    this.body.addEventListener("scroll", () => this.render(), { passive: true });
    new ResizeObserver(() => this.render()).observe(this.body);
    this.root.addEventListener("jl-light", (event) => this.light(/** @type {CustomEvent} */ (event).detail));
    this.root.addEventListener("jl-kernel", () => this.resize());
    this.resize();
    return this;
  }

  /** @type {((what: object) => Promise<any>) | undefined} */
  get fetch() {
    return /** @type {any} */ (this.root).jaxlens?.fetch;
  }

  /** Rows that follow those that are in the page. @param {Source} source */
  append(source) {
    this.parts.unshift([source, this.loaded]);
    this.loaded += source.count;
    this.wide = Math.max(this.wide, source.wide);
  }

  /** The source of a row, and its number there; null where it is not loaded. @param {number} n @returns {[Source, number] | null} */
  from(n) {
    for (const [source, before] of this.parts) if (n >= before && n < this.loaded) return [source, n - before];
    const fetched = this.fetched.get(Math.floor((n - this.loaded) / CHUNK));
    return fetched ? [fetched, (n - this.loaded) % CHUNK] : null;
  }

  /** @param {number} n */
  html(n) {
    const from = this.from(n);
    return from ? from[0].html(from[1]) : "";
  }

  /** @param {number} n */
  id(n) {
    const from = this.from(n);
    return from ? from[0].id(from[1]) : "";
  }

  /** @param {number} n */
  owner(n) {
    const from = this.from(n);
    return from ? from[0].owner(from[1]) : "";
  }

  owned() {
    for (let n = 0; n < this.loaded; n++) if (this.owner(n)) return true;
    return false;
  }

  /** How many rows a row stands for. @param {number} n */
  foldsAt(n) {
    const from = this.from(n);
    return from ? from[0].folds(from[1]) : 0;
  }

  /** Numbers of the rows of each node. @returns {Map<string, number[]>} */
  get at() {
    if (this.rowsOf) return this.rowsOf;
    /** @type {Map<string, number[]>} */
    const places = (this.rowsOf = new Map());
    const put = (/** @type {Source} */ source, /** @type {number} */ before) => {
      for (let n = 0; n < source.count; n++) {
        const id = source.id(n);
        const numbers = id && places.get(id);
        if (numbers) numbers.push(before + n);
        else if (id) places.set(id, [before + n]);
      }
    };
    for (const [source, before] of [...this.parts].reverse()) put(source, before);
    for (const chunk of [...this.fetched.keys()].sort((a, b) => a - b)) put(/** @type {Source} */ (this.fetched.get(chunk)), this.loaded + chunk * CHUNK);
    return places;
  }

  /** All lines where a kernel has the rest, else those that are here. */
  get count() {
    return this.fetch ? Number(this.box.getAttribute("data-lines")) : this.loaded;
  }

  /** A search reads all rows: once those are fetched that it misses, it reads them again. @param {number} n */
  text(n) {
    const loaded = this.texts[n];
    if (loaded !== undefined) return loaded;
    const from = this.from(n);
    if (from) return (this.texts[n] = from[0].text(from[1]));
    this.missed = true;
    this.fetchChunk(n);
    return "";
  }

  /** Finds which rows stand for others, and puts those in sight in order. */
  arrange() {
    const { count } = this;
    /** @type {number[]} */
    const all = [];
    this.folds.clear();
    const put = (/** @type {number} */ n, /** @type {number} */ first) => {
      const size = this.foldsAt(n);
      all.push(n);
      if (size) this.folds.set(n, [first, size]);
      if (this.opened.has(n)) for (let i = first; i < Math.min(first + size, count); i++) all.push(i);
      return size;
    };
    const head = this.parts.at(-1)?.[0].count ?? 0;
    let behind = head;
    for (let n = 0; n < head; n++) behind += put(n, behind);
    for (let n = behind; n < count; n++) n += put(n, n + 1);
    this.order = this.folds.size ? all : null;
    const places = (this.places = this.order ? new Int32Array(count).fill(-1) : undefined);
    this.order?.forEach((n, place) => places && (places[n] = place));
  }

  /** The closed row that stands for a row; the row itself where it is in sight. @param {number} n */
  inPlaceOf(n) {
    if (this.place(n) >= 0) return n;
    for (const [fold, [first, size]] of this.folds) if (n >= first && n < first + size) return fold;
    return n;
  }

  /** Opens or closes a row that stands for others. @param {number} n @returns {boolean} whether it is one */
  toggle(n) {
    if (!this.folds.has(n)) return false;
    if (!this.opened.delete(n)) this.opened.add(n);
    this.redraw();
    this.root.dispatchEvent(new CustomEvent("jl-hits"));
    return true;
  }

  /** @param {number} n */
  inSight(n) {
    return this.place(n) >= 0 && onPage(this.pre);
  }

  get row() {
    return parseFloat(getComputedStyle(this.pre).lineHeight) || 19;
  }

  /** Where the list begins in its pane. */
  get top() {
    return this.pre.getBoundingClientRect().top - this.body.getBoundingClientRect().top + this.body.scrollTop;
  }

  /** Top of a row in the content of its pane. @param {number} n */
  y(n) {
    return this.top + this.place(this.inPlaceOf(n)) * this.row;
  }

  /** Scrolls a row into view. @param {number} n @param {ScrollLogicalPosition} [where] @returns {HTMLElement | undefined} */
  show(n, where = "nearest") {
    const fold = this.inPlaceOf(n);
    if (fold !== n) this.toggle(fold);
    const [height, view] = [this.row, this.body.clientHeight];
    const y = this.y(n);
    const { scrollTop } = this.body;
    const outside = y < scrollTop + 28 || y + height > scrollTop + view - 8;
    if (outside && where === "center") this.body.scrollTop = y - view / 3;
    else if (y < scrollTop + 28) this.body.scrollTop = y - 28;
    else if (outside) this.body.scrollTop = y + height - view + 8;
    this.render();
    return this.drawn.get(n);
  }

  redraw() {
    for (const run of this.drawn.values()) run.parentElement?.remove();
    this.drawn.clear();
    this.resize();
  }

  resize() {
    this.arrange();
    this.pre.style.height = `calc(${this.length} * var(--row))`;
    this.pre.style.minWidth = `max(100%, ${this.wide + 18}ch)`;
    this.render();
  }

  render() {
    if (!this.body.clientHeight || !this.pre.isConnected) return;
    const height = this.row;
    const from = this.body.scrollTop - this.top;
    const first = Math.max(0, Math.floor(from / height) - BEYOND);
    const last = Math.min(this.length, Math.ceil((from + this.body.clientHeight) / height) + BEYOND);
    const keep = new Set();
    for (let place = first; place < last; place++) {
      const n = this.numberAt(place);
      keep.add(n);
      if (!this.drawn.has(n)) this.draw(n, place);
    }
    for (const [n, row] of this.drawn)
      if (!keep.has(n)) {
        row.parentElement?.remove();
        this.drawn.delete(n);
      }
  }

  /** @param {number} n @param {number} place */
  draw(n, place) {
    const [run, row] = [document.createElement("div"), document.createElement("div")];
    run.style.top = `calc(${place} * var(--row))`;
    run.append(row);
    const from = this.from(n);
    if (from) row.innerHTML = from[0].html(from[1]);
    else {
      row.textContent = "…";
      this.fetchChunk(n);
    }
    const id = this.id(n);
    if (id) row.setAttribute("data-id", id);
    row.setAttribute("data-n", String(n));
    if (this.folds.has(n)) {
      row.setAttribute("role", "button");
      row.setAttribute("aria-expanded", String(this.opened.has(n)));
    }
    this.addOwner(run, this.owner(n), place);
    this.pre.append(run);
    this.drawn.set(n, row);
    this.mark(row, n);
  }

  /** The bar of the source line, as other panes have it; its name where a run begins. @param {HTMLElement} run @param {string} owner @param {number} place */
  addOwner(run, owner, place) {
    if (!owner) return;
    if (!this.hues.has(owner)) this.hues.set(owner, this.root.querySelector(`[data-line="${CSS.escape(owner)}"]`));
    const like = this.hues.get(owner);
    if (like?.className) run.className = like.className;
    else if (like?.style.borderLeftColor) run.style.borderLeft = `3px solid ${like.style.borderLeftColor}`;
    run.classList.add("owned");
    if (!place || this.owner(this.numberAt(place - 1)) !== owner) run.setAttribute("data-line", owner);
  }

  /** Rows that neither the HTML nor its data hold come from the kernel. @param {number} n */
  async fetchChunk(n) {
    const chunk = Math.floor((n - this.loaded) / CHUNK);
    if (!this.fetch || this.requested.has(chunk)) return;
    this.requested.add(chunk);
    const from = this.loaded + chunk * CHUNK;
    const to = Math.min(from + CHUNK, this.count);
    const listing = Number(this.box.getAttribute("data-listing"));
    const lines = await this.fetch({ lines: { listing, from, to } }).catch(() => null);
    // A kernel that is busy or gone: requested again when drawn again.
    if (!lines) return void this.requested.delete(chunk);
    const source = answeredSource(lines);
    this.fetched.set(chunk, source);
    this.wide = Math.max(this.wide, source.wide);
    this.rowsOf = undefined;
    this.redraw();
    if (!this.missed || ![...this.requested].every((each) => this.fetched.has(each))) return;
    this.missed = false;
    this.root.dispatchEvent(new CustomEvent("jl-rows"));
  }

  /** Fetches the row of a node that is not loaded, and those around it. @param {string} id @returns {Promise<boolean>} whether it came */
  async fetchNode(id) {
    if (!this.fetch || this.loaded >= this.count || this.at.has(id) || this.soughtNodes.has(id)) return false;
    this.soughtNodes.add(id);
    const listing = Number(this.box.getAttribute("data-listing"));
    const n = await this.fetch({ row: { listing, id } }).catch(() => void this.soughtNodes.delete(id));
    if (n >= this.loaded) await this.fetchChunk(n);
    return this.at.has(id);
  }

  /** What is pinned has its row fetched. @param {string} id */
  async showPinned(id) {
    if (!(await this.fetchNode(id))) return;
    const { links } = /** @type {any} */ (this.root).jaxlens;
    links.light();
    this.root.dispatchEvent(new CustomEvent("jl-rows"));
  }

  /** @param {{stage: string, id: string, atoms: Set<number>, calls: Set<number>}} lit */
  light({ stage, id, atoms, calls }) {
    const { web, links } = /** @type {any} */ (this.root).jaxlens;
    const pin = links.pinned && links.reach(links.pinned);
    const rowsOf = (/** @type {{stage: string, id: string} | null} */ node) =>
      new Set(node?.id && this.same(node.stage) ? [node.id] : []);
    this.marks = new Map([
      ["lit", web.touched(this.stage, atoms)],
      ["call", web.touched(this.stage, calls)],
      ["pointed", rowsOf({ stage, id })],
      ["pin", rowsOf(pin)],
    ]);
    for (const [n, row] of this.drawn) this.mark(row, n);
    if (pin?.id && this.same(pin.stage)) this.showPinned(pin.id.split(" ", 1)[0]);
  }

  /** Machine code has the nodes of its kernels. @param {string} stage */
  same(stage) {
    return stage === this.stage || (stage === "kernels" && ["llvm", "asm"].includes(this.stage));
  }

  /** @param {HTMLElement} row @param {number} n */
  mark(row, n) {
    const ids = this.idsAt(n);
    const has = (/** @type {string} */ mark) => ids.some((id) => this.marks.get(mark)?.has(id));
    for (const mark of ROW_MARKS)
      row.classList.toggle(mark,
        mark === "hit" ? this.hits.has(n) : mark === "row-cursor" ? n === this.cursor
        : has(mark) && !(mark === "call" && has("lit")));
  }

  /** The node of a row, or those of the rows that it stands for while they are out of sight. @param {number} n */
  idsAt(n) {
    const [first, size] = (!this.opened.has(n) && this.folds.get(n)) || [n, 1];
    return Array.from({ length: size }, (_, i) => this.id(first + i)).filter(Boolean);
  }

  /** Marks the matches of a search and the row that the keys are at. @param {Set<number>} hits @param {number} cursor */
  point(hits, cursor) {
    this.hits = hits;
    this.cursor = cursor;
    for (const [n, row] of this.drawn) this.mark(row, n);
  }

  /** The row that an element is or stands in, else -1. @param {Element} element */
  find(element) {
    const row = this.pre.contains(element) ? element.closest("[data-n]") : null;
    return row ? Number(row.getAttribute("data-n")) : -1;
  }

  /** The first row of a node, else -1. @param {any} node */
  indexOf(node) {
    return (this.same(node.stage) ? this.at.get(node.id)?.[0] : undefined) ?? -1;
  }

  /** The first row whose top is in view, else -1. */
  firstInView() {
    return this.numberAt(Math.max(0, Math.ceil((this.body.scrollTop - this.top) / this.row))) ?? -1;
  }

  /** Tops of the rows with a mark. @param {string} mark */
  heights(mark) {
    return (mark === "hit" ? [...this.hits] : this.marked(mark)).map((n) => this.y(n));
  }

  /** Numbers of the rows with a mark, in order; a closed row stands for those out of sight. @param {string} mark @returns {number[]} */
  marked(mark) {
    /** @type {Set<number>} */
    const rows = new Set();
    for (const id of this.marks.get(mark) ?? [])
      for (const n of this.at.get(id) ?? []) rows.add(this.inPlaceOf(n));
    return [...rows].sort((a, b) => this.place(a) - this.place(b));
  }
}

/** Wakes each long listing of an output when it is first shown. @param {HTMLElement} root */
function longLists(root) {
  const waiting = new Set(root.querySelectorAll(".listing[data-lines]"));
  const activate = async () => {
    for (const box of waiting) {
      const body = box.closest(".pane-body");
      if (!(box instanceof HTMLElement && body instanceof HTMLElement) || !onPage(box)) continue;
      waiting.delete(box);
      await new LongList(root, box, body).activate();
      root.dispatchEvent(new CustomEvent("jl-rows"));
      /** @type {any} */ (root).jaxlens.links.light();
    }
  };
  root.addEventListener("jl-panes", activate);
  root.addEventListener("toggle", activate, { capture: true });
  activate();
}

/** Brings the long listings of every output under `root` to life. @param {ParentNode} root */
export function live(root) {
  for (const output of root.querySelectorAll(".jaxlens:not([data-lists])")) {
    if (!(output instanceof HTMLElement) || !output.querySelector(".listing[data-lines]")) continue;
    output.setAttribute("data-lists", "");
    /** @type {any} */ (output).jaxlens?.ready.then(() => longLists(output));
  }
}
