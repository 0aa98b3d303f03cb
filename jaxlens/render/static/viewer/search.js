// @ts-check
/**
 * The head of each pane: a box that finds rows as one types, and a button that copies what the
 * pane shows.
 */
import { button, create } from "./elements.js";
import { PaneRows } from "./rows.js";

/** @typedef {import("./rows.js").Spot} Spot */
/** @typedef {import("./panes.js").Pane} Pane */

/** @type {WeakMap<Pane, Search>} */
const searches = new WeakMap();

/** @param {Pane} pane @returns {Search} */
export const searchOf = (pane) => /** @type {Search} */ (searches.get(pane));

/** @param {string} text @returns {Promise<void>} */
async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const { activeElement: focused } = document;
    const area = create("textarea", "");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
    if (focused instanceof HTMLElement) focused.focus({ preventScroll: true });
  }
}

export class Search {
  /** @param {HTMLElement} root @param {Pane} pane */
  constructor(root, pane) {
    this.root = root;
    this.pane = pane;
    this.rows = new PaneRows(pane.body);
    /** @type {Spot[]} */
    this.hits = [];
    this.current = -1;
    this.box = create("input", "", { type: "search", placeholder: "search  /", "aria-label": `Search in ${pane.title}`, spellcheck: "false" });
    this.count = create("output", "", { "aria-live": "polite" });
    const copy = button("copy", "Copy what this pane shows", () => this.copy());
    pane.head.append(this.box, this.count, copy);
    this.box.addEventListener("input", () => this.find());
    this.box.addEventListener("keydown", (event) => this.key(event));
    root.addEventListener("jl-rows", () => {
      this.rows.forget();
      if (this.box.value) this.find();
    });
    searches.set(pane, this);
  }

  find() {
    const words = this.box.value.toLowerCase();
    this.hits = [];
    this.current = -1;
    if (words)
      for (const section of this.rows.sections)
        for (let n = 0; n < section.count; n++)
          if (section.text(n).toLowerCase().includes(words)) this.hits.push({ section, n });
    this.point();
    if (this.hits.length) this.go(1, false);
  }

  /** Marks what was found and the row that the keys are at. */
  point() {
    const { cursor } = this.rows;
    for (const section of this.rows.sections)
      section.point(new Set(this.hits.filter((hit) => hit.section === section).map((hit) => hit.n)), cursor?.section === section ? cursor.n : -1);
    const place = this.current < 0 ? "" : `${(this.current + 1).toLocaleString("en")} of `;
    this.count.textContent = this.box.value ? `${place}${this.hits.length.toLocaleString("en")}` : "";
    this.root.dispatchEvent(new CustomEvent("jl-hits"));
  }

  /** To the next match. @param {number} step @param {boolean} [round] */
  go(step, round = true) {
    const { length } = this.hits;
    if (!length) return;
    this.current = round ? (this.current + step + length) % length : 0;
    this.rows.cursor = this.hits[this.current];
    this.rows.cursor.section.show(this.rows.cursor.n, "center");
    this.point();
  }

  clear() {
    this.box.value = "";
    this.find();
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.key === "Enter") this.go(event.shiftKey ? -1 : 1);
    else if (event.key === "Escape") {
      if (this.box.value) this.clear();
      else this.pane.body.focus({ preventScroll: true });
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** The text of all rows in sight. @returns {string[]} */
  get lines() {
    const texts = [];
    for (let spot = this.rows.next(null, 1); spot; spot = this.rows.next(spot, 1)) texts.push(spot.section.text(spot.n));
    return texts;
  }

  /** Copies one row, or all rows in sight. @param {Spot | null} [spot] */
  async copy(spot) {
    const lines = spot ? [spot.section.text(spot.n).trim()] : this.lines;
    await copied(lines.join("\n"));
    this.count.textContent = `${lines.length.toLocaleString("en")} copied`;
  }
}

/** A button that copies a piece of code, beside what is said of it. @param {HTMLElement} title */
function copies(title) {
  const copy = button("copy", "Copy this code", async () => {
    await copied(title.parentElement?.querySelector("pre")?.textContent ?? "");
    copy.textContent = "copied";
    setTimeout(() => (copy.textContent = "copy"), 1500);
  });
  title.append(" ", copy);
}

/** A search for each pane of an output. @param {HTMLElement} root */
export function searchIn(root) {
  for (const title of root.querySelectorAll(":scope > .listing > .remark:first-child")) if (title instanceof HTMLElement) copies(title);
  const { panes } = /** @type {any} */ (root).jaxlens;
  for (const pane of panes?.all ?? []) new Search(root, pane);
  const bare = () => {
    for (const pane of panes?.open ?? []) pane.head.classList.toggle("bare", !searchOf(pane).rows.sections.length);
  };
  for (const type of ["jl-panes", "jl-rows"]) root.addEventListener(type, bare);
  bare();
}
