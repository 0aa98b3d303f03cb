// @ts-check
/**
 * Tabs become panes: a bar with their names, up to three of them side by side, each scrolling
 * on its own, the room between them movable; where the output is narrow, one below the other.
 * What was chosen is remembered by the output.
 *
 * A pane stays the `<details data-pane>` that it was, open when it is shown.
 */
import { button, create } from "./elements.js";

/** @typedef {{key: string, title: string, details: HTMLDetailsElement, head: HTMLElement,
 *   body: HTMLElement, button: HTMLButtonElement}} Pane */

const MOST = 3;
const MOST_NARROW = 2;
const LONG = 40;
const NARROW = 560;
const WIDE = 900;
const WIDEST = 1500;
const KEPT = 60;
const STORE = "jaxlens-panes";
/** The panes that say most beside the user's code; the second where three have room. @type {Record<string, string[]>} */
const TELLING = {
  jaxpr: ["jaxpr", "graph"],
  hlo: ["optimized", "change"],
  compile: ["kernels", "optimized"],
  explore: ["optimized", "jaxpr"],
  ladder: ["rung1", "rung2"],
  tape: ["jaxpr"],
};

/** What a page remembers of outputs; nothing where it may not. @returns {Record<string, any>} */
function remembered() {
  try {
    return JSON.parse(localStorage.getItem(STORE) ?? "{}");
  } catch {
    return {};
  }
}

/** @param {string} key @param {unknown} value */
function remember(key, value) {
  try {
    const { [key]: _, ...rest } = remembered();
    const kept = Object.entries(rest).slice(1 - KEPT);
    localStorage.setItem(STORE, JSON.stringify(Object.fromEntries([...kept, [key, value]])));
  } catch {
    // A page without storage forgets.
  }
}

/**
 * The tabs that become panes: those of the output, or those inside a fold or inside a tab that stands
 * alone, such as the evidence of a puzzle. @param {HTMLElement} root
 */
function givenTabs(root) {
  const outermost = [...root.querySelectorAll(".pane-tabs")].filter((tabs) => !tabs.parentElement?.closest(".pane-tabs"));
  const tabs = outermost.find((each) => each.parentElement === root) ?? (outermost.length === 1 ? outermost[0] : null);
  const inner = tabs?.childElementCount === 1 ? tabs.querySelector(".pane-tabs") : null;
  return inner ?? tabs;
}

/** The tabs of an output; a program that stands alone becomes the only one. @param {HTMLElement} root */
function tabsOf(root) {
  const tabs = givenTabs(root);
  if (tabs instanceof HTMLElement) return tabs;
  const blocks = [...root.children].filter((e) => e.matches(".listing, .source-lines, details, .table-box"));
  const searched = (/** @type {Element} */ e) =>
    e.matches(".listing, .source-lines") && (e.querySelector("[data-id]") || (e.textContent ?? "").split("\n").length > LONG);
  if (!blocks.some(searched)) return null;
  const inner = create("div", "");
  const alone = create("div", "pane-tabs", {}, create("details", "", { "data-pane": "alone" }, create("summary", ""), inner));
  blocks[0].before(alone);
  inner.append(...blocks);
  return alone;
}

/** Where a user's line goes on when it wraps: right of its own beginning. @param {Element} line */
function hang(line) {
  const blanks = /^\s*\d*(\s*)/.exec(line.textContent ?? "")?.[1].length ?? 0;
  if (line instanceof HTMLElement) line.style.setProperty("--indent", String(blanks + 4));
}

export class Panes {
  /** @param {HTMLElement} root @param {HTMLElement} tabs */
  constructor(root, tabs) {
    this.root = root;
    this.tabs = tabs;
    tabs.setAttribute("data-live", "");
    this.bar = create("div", "bar", { role: "toolbar", "aria-label": "Panes" });
    /** @type {Pane[]} */
    this.all = [...tabs.children].filter((e) => e instanceof HTMLDetailsElement).map((e) => this.pane(e));
    this.tools = create("span", "tools");
    this.bar.append(...this.all.map((pane) => pane.button));
    if (this.all.length > 1) {
      this.bar.append(this.tools);
      this.tools.append(button("+", "One more pane beside (or Shift-click a name)", () => this.add()));
    } else {
      this.bar.classList.add("alone");
      this.all[0].head.append(this.tools);
    }
    tabs.before(this.bar);
    /** Keys of what is shown, what was chosen last at the end. @type {string[]} */
    this.shown = [];
    this.bar.addEventListener("keydown", (event) => this.walk(event));
    this.restore();
    new ResizeObserver(() => this.fit()).observe(root);
  }

  /** @param {HTMLDetailsElement} details @returns {Pane} */
  pane(details) {
    const summary = /** @type {HTMLElement} */ (details.querySelector(":scope > summary"));
    const body = /** @type {HTMLElement} */ (details.querySelector(":scope > div"));
    const [key, title] = [details.getAttribute("data-pane") ?? "", summary.textContent ?? ""];
    details.removeAttribute("name");
    body.classList.add("pane-body");
    for (const [name, value] of [["tabindex", "0"], ["role", "group"], ["aria-label", title]])
      body.setAttribute(name, value);
    for (const inner of body.querySelectorAll(".rows, .table-box")) inner.removeAttribute("tabindex");
    for (const line of body.querySelectorAll(".source-lines .rows > * > :first-child")) hang(line);
    const head = create("div", "pane-head", {}, create("b", "", {}, title));
    const frame = create("div", "pane-frame");
    body.replaceWith(create("div", "", {}, head, frame));
    frame.append(body);
    this.edge(frame, body);
    const chosen = button(title, summary.title || title, (event) => this.choose(key, event.shiftKey || event.ctrlKey || event.metaKey));
    chosen.setAttribute("data-key", key);
    chosen.setAttribute("aria-label", title);
    return { key, title, details, head, body, button: chosen };
  }

  /** Says whether a pane goes on at its right. @param {HTMLElement} frame @param {HTMLElement} body */
  edge(frame, body) {
    const { root } = this;
    const look = () => frame.classList.toggle("more", body.scrollWidth - body.clientWidth - body.scrollLeft > 4);
    new ResizeObserver(look).observe(body);
    body.addEventListener("scroll", look, { passive: true });
    for (const type of ["jl-rows", "jl-panes"]) root.addEventListener(type, look);
    body.addEventListener("toggle", look, { capture: true });
  }

  get most() {
    return this.root.clientWidth < NARROW ? MOST_NARROW : MOST;
  }

  /** Panes that are open. */
  get open() {
    return this.all.filter((pane) => pane.details.open);
  }

  /** Shows a pane in the place of the one chosen last, or beside; hides one that is shown. @param {string} key @param {boolean} [beside] */
  choose(key, beside = false) {
    if (this.shown.includes(key)) {
      if (this.shown.length > 1) this.shown = this.shown.filter((other) => other !== key);
    } else if (beside && this.shown.length < this.most) this.shown.push(key);
    else {
      const first = this.all[0].key;
      const given = this.shown.findLast((other) => other !== first || this.shown.length === 1);
      this.shown = [...this.shown.filter((other) => other !== given), key];
    }
    this.show();
    const panes = [...this.shown];
    remember(this.root.getAttribute("data-key") ?? "", panes);
    remember(this.kind, panes);
  }

  /** One more, the first that is not shown. */
  add() {
    const next = this.all.find((pane) => !this.shown.includes(pane.key));
    if (next && this.shown.length < this.most) this.choose(next.key, true);
  }

  /** What outputs of one verb with the same panes have in common. */
  get kind() {
    return `${this.verb}: ${this.all.map((pane) => pane.key)}`;
  }

  /** The verb whose panes these are: evidence of a puzzle has one of its own. */
  get verb() {
    return this.tabs.closest("[data-verb]")?.getAttribute("data-verb") ?? "";
  }

  restore() {
    const kept = remembered();
    const valid = (/** @type {unknown} */ keys) =>
      Array.isArray(keys) ? keys.filter((key) => this.all.some((pane) => pane.key === key)) : [];
    const before = [this.root.getAttribute("data-key") ?? "", this.kind].map((key) => valid(kept[key])).find((keys) => keys.length);
    const telling = TELLING[this.verb] ?? [];
    const [first] = this.all;
    const width = this.root.clientWidth || WIDE;
    const beside = valid(telling).filter((key) => key !== first.key).slice(0, width >= WIDEST ? 2 : 1);
    this.shown = before ?? [first.key, ...beside];
    this.show();
  }

  /** Where there is less room now, the panes chosen last stay. */
  fit() {
    if (!this.root.clientWidth) return;
    this.root.classList.toggle("narrow", this.root.clientWidth < NARROW);
    this.tabs.classList.toggle("stacked", this.root.clientWidth < WIDE);
    if (this.shown.length > this.most) {
      this.shown = this.shown.slice(-this.most);
      this.show();
    }
  }

  show() {
    for (const bar of this.tabs.querySelectorAll(":scope > .splitter")) bar.remove();
    for (const pane of this.all) {
      pane.details.open = this.shown.includes(pane.key);
      pane.button.setAttribute("aria-pressed", String(pane.details.open));
      pane.button.tabIndex = pane.details.open ? 0 : -1;
    }
    const { open } = this;
    open.forEach((pane, n) => n && pane.details.before(this.splitter(open[n - 1], pane)));
    this.root.dispatchEvent(new CustomEvent("jl-panes", { bubbles: true, detail: { open: open.map((pane) => pane.key) } }));
  }

  /** Makes sure that a pane is shown. @param {string} key */
  reveal(key) {
    if (!this.shown.includes(key)) this.choose(key, this.shown.length === 1 && this.root.clientWidth >= WIDE);
  }

  /** What parts two panes; it moves by pointer and by arrow keys. @param {Pane} left @param {Pane} right */
  splitter(left, right) {
    const bar = create("div", "splitter", { role: "separator", tabindex: "0", "aria-orientation": "vertical",
      "aria-label": `Room of ${left.title}`, "aria-valuemin": "10", "aria-valuemax": "90", "aria-valuenow": "50" });
    const move = (/** @type {number} */ x) => {
      const from = left.details.getBoundingClientRect().left;
      const to = right.details.getBoundingClientRect().right;
      const share = Math.min(0.9, Math.max(0.1, (x - from) / (to - from)));
      const sum = [left, right].reduce((all, { details }) => all + Number(details.style.flexGrow || 1), 0);
      left.details.style.flexGrow = String(share * sum);
      right.details.style.flexGrow = String((1 - share) * sum);
      bar.setAttribute("aria-valuenow", String(Math.round(share * 100)));
    };
    bar.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      bar.setPointerCapture(event.pointerId);
    });
    bar.addEventListener("pointermove", (event) => {
      if (bar.hasPointerCapture(event.pointerId)) move(event.clientX);
    });
    bar.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -24, ArrowRight: 24 }[event.key];
      if (!step) return;
      event.preventDefault();
      move(bar.getBoundingClientRect().left + 4 + step);
    });
    return bar;
  }

  /** Arrow keys go along the bar. @param {KeyboardEvent} event */
  walk(event) {
    const buttons = [...this.bar.querySelectorAll("button")];
    const at = buttons.findIndex((b) => b === event.target);
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (at < 0 || !step) return;
    event.preventDefault();
    buttons[(at + step + buttons.length) % buttons.length].focus();
  }
}

/** Makes the tabs of an output panes; null where it has nothing to lay out. @param {HTMLElement} root */
export function panesOf(root) {
  const tabs = tabsOf(root);
  return tabs && new Panes(root, tabs);
}
