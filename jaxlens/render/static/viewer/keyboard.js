// @ts-check
/**
 * Keys, while the focus is inside the output. `KEYS` is what the "?" button shows.
 *
 * A notebook takes keys on their way down, so the listener stands on the window: letters that
 * are typed here go no further, and those with Ctrl, Alt or Meta are the notebook's.
 */
import { button, create } from "./elements.js";
import { showSpot } from "./reveal.js";
import { shownAt } from "./rows.js";
import { searchOf } from "./search.js";

/** @typedef {import("./panes.js").Pane} Pane */

/** @type {[string, string][]} */
const KEYS = [
  ["j k, ↓ ↑", "next row, row before"],
  ["Home End", "first row, last row"],
  ["Enter", "pin the row; again to let go"],
  ["Space", "open or close what lies under the row"],
  ["Escape", "let go of the pin"],
  ["n N", "next lit row, lit row before"],
  ["1 to 9", "show that pane; with Shift beside the others"],
  ["[ ]", "to the pane on the left, on the right"],
  ["/", "search in the pane; Enter and Shift+Enter go through the matches"],
  ["c C", "copy the row, the pane"],
  ["Ctrl-K", "ask a question about the program"],
  ["h", "what the words of the row mean; again: more"],
  ["?", "these keys"],
];
const TYPED = "input, textarea, select, [contenteditable=true]";

class Keys {
  /** @param {HTMLElement} root */
  constructor(root) {
    this.root = root;
    this.lens = /** @type {any} */ (root).jaxlens;
    this.panes = /** @type {import("./panes.js").Panes} */ (this.lens.panes);
    const rows = KEYS.map(([key, does]) => create("tr", "", {}, create("th", "", { scope: "row" }, key), create("td", "", {}, does)));
    this.help = create("div", "key-help", { role: "dialog", "aria-label": "Keys", tabindex: "-1", hidden: "" }, create("table", "", {}, create("tbody", "", {}, ...rows)));
    this.ask = button("?", "Keys", () => this.toggle());
    this.ask.setAttribute("aria-expanded", "false");
    this.panes.tools.append(this.ask);
    this.panes.bar.after(this.help);
    window.addEventListener("keydown", (event) => this.key(event), { capture: true });
    root.addEventListener("pointerdown", (event) => {
      if (event.target instanceof Element) this.follow(event.target);
      if (event.target instanceof Element && !this.help.contains(event.target) && event.target !== this.ask) this.toggle(false);
    });
  }

  /** @param {boolean} [open] */
  toggle(open = Boolean(this.help.hidden)) {
    this.help.hidden = !open;
    this.ask.setAttribute("aria-expanded", String(open));
  }

  /** The pane that has the focus, else the first. @returns {Pane | undefined} */
  get pane() {
    const at = document.activeElement?.closest("details[data-pane]");
    return this.panes.open.find((pane) => pane.details === at) ?? this.panes.open[0];
  }

  /** A row that was clicked is where the keys go on. @param {Element} target */
  follow(target) {
    const pane = this.panes.open.find(({ body }) => body.contains(target));
    const spot = pane && searchOf(pane).rows.first((section) => section.find(target));
    if (pane && spot) searchOf(pane).rows.cursor = spot;
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const { target } = event;
    if (!(target instanceof Element) || !this.root.contains(target) || event.defaultPrevented) return;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (target.closest(".jaxlens-figure, .jaxlens-chart") || target.matches(TYPED)) return;
    const action = this.actions(event);
    if (action === undefined) {
      // A notebook would take Enter from a link, to edit the cell
      if (event.key.length === 1 || target.matches("a")) event.stopPropagation();
      return;
    }
    if (action() === false) return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** What a key does; undefined for nothing. @param {KeyboardEvent} event @returns {(() => unknown) | undefined} */
  actions(event) {
    const onControl = event.target instanceof Element && event.target.closest("button, .splitter, a");
    // A card is taken away before a pin is let go
    if (event.key === "Escape") return this.root.querySelector(".tip.on") ? undefined : () => this.escape();
    if (event.key === "?") return () => this.toggle();
    const digit = /^Digit([1-9])$/.exec(event.code)?.[1];
    if (digit) return () => this.choose(Number(digit) - 1, event.shiftKey);
    if (event.key === "/") return () => this.search();
    if (onControl && (event.key.startsWith("Arrow") || ["Enter", " ", "Home", "End"].includes(event.key))) return undefined;
    /** @type {Record<string, () => unknown>} */
    const actions = {
      j: () => this.step(1),
      ArrowDown: () => this.step(1),
      k: () => this.step(-1),
      ArrowUp: () => this.step(-1),
      Home: () => this.end(1),
      End: () => this.end(-1),
      n: () => this.lit(1),
      N: () => this.lit(-1),
      Enter: () => this.pin(),
      " ": () => this.open(),
      "[": () => this.aside(-1),
      "]": () => this.aside(1),
      c: () => this.copy(false),
      C: () => this.copy(true),
    };
    return actions[event.key];
  }

  escape() {
    if (!this.help.hidden) return this.toggle(false);
    // The notebook's
    if (!this.lens.links.pinned) return false;
    this.root.dispatchEvent(new CustomEvent("jl-pin", { detail: null }));
  }

  /** @param {number} n @param {boolean} beside */
  choose(n, beside) {
    const { button: step, pane } = this.panes.steps[n] ?? {};
    if (!pane) return step ? step.click() : false;
    if (!pane.details.open) this.panes.choose(pane.key, beside);
    return this.enter(pane);
  }

  /** @param {Pane | undefined} pane */
  enter(pane) {
    pane?.body.focus({ preventScroll: true });
  }

  /** @param {number} step */
  aside(step) {
    const { open } = this.panes;
    const at = open.findIndex((pane) => pane === this.pane);
    this.enter(open[(at + step + open.length) % open.length]);
  }

  search() {
    const { pane } = this;
    if (pane) searchOf(pane).box.focus({ preventScroll: true });
  }

  /** @param {boolean} whole */
  copy(whole) {
    const { pane } = this;
    if (pane) searchOf(pane).copy(whole ? null : searchOf(pane).rows.cursor);
  }

  /** @param {number} step */
  step(step) {
    const { pane } = this;
    if (!pane) return false;
    const { rows } = searchOf(pane);
    const first = rows.cursor ?? rows.first((section) => section.firstInView());
    const begins = first && !rows.cursor && first.section.inSight(first.n);
    const next = begins ? first : rows.next(first, step);
    if (!next) return Boolean(rows.cursor);
    return this.at(pane, next, true);
  }

  /** @param {number} step from the end that this leaves */
  end(step) {
    const { pane } = this;
    const next = pane && searchOf(pane).rows.next(null, step);
    if (!pane || !next) return false;
    return this.at(pane, next, true);
  }

  /** @param {Pane} pane @param {import("./rows.js").Spot} spot @param {boolean} points whether what is lit follows */
  at(pane, spot, points) {
    const { rows } = searchOf(pane);
    rows.cursor = spot;
    const row = spot.section.show(spot.n);
    searchOf(pane).point();
    const shown = row ? shownAt(row) : null;
    if (points) row?.dispatchEvent(new CustomEvent("jl-point", { bubbles: true, detail: shown?.node ?? null }));
    this.lens.nodeDetails?.announce(this.lens.links.reach(shown?.node ?? null), row?.textContent ?? "");
  }

  /** The next lit row of the pane; what is lit stays. @param {number} step */
  lit(step) {
    const { pane } = this;
    if (!pane) return false;
    const { rows } = searchOf(pane);
    const lit = rows.marked("lit");
    if (!lit.length) return undefined;
    const order = (/** @type {any} */ spot) => rows.sections.indexOf(spot.section) * 1e9 + spot.section.place(spot.n);
    const from = rows.cursor ? order(rows.cursor) : -1;
    const ahead = step > 0 ? lit.find((spot) => order(spot) > from) : lit.findLast((spot) => order(spot) < from);
    return this.at(pane, ahead ?? lit[step > 0 ? 0 : lit.length - 1], false);
  }

  /** The row that the keys are at. */
  get row() {
    const spot = this.pane && searchOf(this.pane).rows.cursor;
    return this.pane && spot ? showSpot(this.pane, spot) : undefined;
  }

  pin() {
    const { row } = this;
    const shown = row && shownAt(row);
    if (!row || !shown) return this.open();
    const { links } = this.lens;
    const again = JSON.stringify(links.pinned) === JSON.stringify(shown.node);
    row.dispatchEvent(new CustomEvent("jl-pin", { bubbles: true, detail: again ? null : shown.node }));
  }

  open() {
    const spot = this.pane && searchOf(this.pane).rows.cursor;
    return spot ? spot.section.toggle(spot.n) : false;
  }
}

/** @param {HTMLElement} root */
export function keysIn(root) {
  if (/** @type {any} */ (root).jaxlens.panes) new Keys(root);
}
