// @ts-check
/**
 * Tabs become panes: a bar with their names, up to three of them side by side, each scrolling
 * on its own, the room between them movable; where the output is narrow, one below the other.
 * What a reader chose for one output of a verb, the next ones open with.
 *
 * A pane stays the `<details data-pane>` that it was, open when it is shown.
 */
import { stepsOf } from "./chain.js";
import { button, create } from "./elements.js";

/** @typedef {{key: string, title: string, details: HTMLDetailsElement, head: HTMLElement,
 *   body: HTMLElement, button: HTMLButtonElement}} Pane */

const MOST = 3;
const MOST_NARROW = 2;
const LONG = 40;
const NARROW = 560;
const WIDE = 1000;
const WIDEST = 1500;
/** Pixels that a pane needs for each share of the room: with less they stand one below the other. */
const SHARE = 380;
/** Panes whose rows are long have more shares than one. @type {Record<string, number>} */
const SHARES = { change: 2, kernels: 2 };
const STORE = "jaxlens-layout";

/** @typedef {{open: string[], room: Record<string, number>, clusters: boolean}} Layout */

/** The layouts that a reader chose, by name; none where the page may not store any. @returns {Record<string, Layout>} */
function layouts() {
  try {
    return { ...JSON.parse(localStorage.getItem(STORE) ?? "{}") };
  } catch {
    return {};
  }
}

/** @param {string} name @param {Layout} [layout] none to forget it */
function remember(name, layout) {
  try {
    localStorage.setItem(STORE, JSON.stringify({ ...layouts(), [name]: layout }));
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
    this.steps = stepsOf(this);
    this.said = create("div", "notice", { "aria-live": "polite" });
    this.bar.append(...this.steps.map((step) => step.button));
    if (this.steps.length > 1) {
      this.bar.append(this.tools);
      this.tools.append(
        button("+", "One more pane beside (or Shift-click a name)", () => this.add()),
        button("↺", "Back to the panes of the start", () => this.reset()),
      );
    } else {
      this.bar.classList.add("alone");
      this.all[0].head.append(this.tools);
    }
    tabs.before(this.bar, this.said);
    /** Keys of what is shown, what was chosen last at the end. @type {string[]} */
    this.shown = [];
    /** Shares that the reader gave to panes. @type {Record<string, number>} */
    this.room = {};
    this.bar.addEventListener("keydown", (event) => this.walk(event));
    tabs.addEventListener("change", ({ target }) => target instanceof Element && target.closest(".cluster-switch") && this.keep());
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

  /** Shows a pane as `show` does, and remembers the layout. @param {string} key @param {boolean} [beside] */
  choose(key, beside = false) {
    this.said.textContent = "";
    this.take(key, beside);
    this.keep();
  }

  /** Shows a pane in the place of the one chosen last, or beside; hides one that is shown. @param {string} key @param {boolean} beside */
  take(key, beside) {
    if (this.shown.includes(key)) {
      if (this.shown.length > 1) this.shown = this.shown.filter((other) => other !== key);
    } else if (beside && this.shown.length < this.most) this.shown.push(key);
    else {
      const given = this.shown.findLast((other) => other !== "source" || this.shown.length === 1);
      this.shown = [...this.shown.filter((other) => other !== given), key];
    }
    this.show();
  }

  /** One more, the first that is not shown. */
  add() {
    const next = this.all.find((pane) => !this.shown.includes(pane.key));
    if (next && this.shown.length < this.most) this.choose(next.key, true);
  }

  /** What the layout is remembered by: the verb, and its first pane, which differs by option. */
  get name() {
    return `${this.verb} ${this.all[0].key}`;
  }

  /** The verb whose panes these are: evidence of a puzzle has one of its own. */
  get verb() {
    return this.tabs.closest("[data-verb]")?.getAttribute("data-verb") ?? "";
  }

  /** Remembers what is shown, and how wide. */
  keep() {
    remember(this.name, { open: this.shown, room: this.room, clusters: this.switches.some(({ checked }) => checked) });
  }

  /** What draws a diff as clusters. @returns {HTMLInputElement[]} */
  get switches() {
    return /** @type {any} */ ([...this.tabs.querySelectorAll(".cluster-switch > input")]);
  }

  /** Forgets what was chosen. */
  reset() {
    remember(this.name);
    this.restore();
  }

  restore() {
    const { open, room, clusters } = layouts()[this.name] ?? {};
    const valid = (/** @type {unknown} */ keys) =>
      Array.isArray(keys) ? keys.filter((key) => this.all.some((pane) => pane.key === key)).slice(0, MOST) : [];
    const given = valid(this.tabs.getAttribute("data-open")?.split(" "));
    const width = this.root.clientWidth || WIDE;
    this.room = { ...room };
    for (const each of this.switches) each.checked = Boolean(clusters);
    this.shown = [valid(open), given.slice(0, width >= WIDEST ? 3 : 2), [this.all[0].key]].find((keys) => keys.length) ?? [];
    this.show();
  }

  /** Where there is less room now, the panes chosen last stay. */
  fit() {
    if (!this.root.clientWidth) return;
    this.stack();
    if (this.shown.length > this.most) {
      this.shown = this.shown.slice(-this.most);
      this.show();
    }
  }

  /** Panes stand one below the other where side by side their rows would break. */
  stack() {
    const shares = this.open.reduce((sum, { key }) => sum + (SHARES[key] ?? 1), 0);
    this.tabs.classList.toggle("stacked", this.root.clientWidth < Math.max(WIDE, SHARE * shares));
  }

  show() {
    for (const bar of this.tabs.querySelectorAll(":scope > .splitter")) bar.remove();
    for (const pane of this.all) {
      pane.details.open = this.shown.includes(pane.key);
      pane.button.setAttribute("aria-pressed", String(pane.details.open));
      pane.button.tabIndex = pane.details.open ? 0 : -1;
      pane.details.style.flexGrow = String(this.room[pane.key] || SHARES[pane.key] || 1);
    }
    this.stack();
    const { open } = this;
    open.forEach((pane, n) => n && pane.details.before(this.splitter(open[n - 1], pane)));
    this.root.dispatchEvent(new CustomEvent("jl-panes", { bubbles: true, detail: { open: open.map((pane) => pane.key) } }));
  }

  /** Makes sure that a pane is shown. @param {string} key */
  reveal(key) {
    if (!this.shown.includes(key)) this.take(key, this.shown.length === 1 && this.root.clientWidth >= WIDE);
  }

  /** What parts two panes; it moves by pointer and by arrow keys. @param {Pane} left @param {Pane} right */
  splitter(left, right) {
    const bar = create("div", "splitter", { role: "separator", tabindex: "0", "aria-orientation": "vertical",
      "aria-label": `Room of ${left.title}`, "aria-valuemin": "10", "aria-valuemax": "90" });
    const [one, two] = [left, right].map(({ details }) => Number(details.style.flexGrow));
    const say = (/** @type {number} */ share) => bar.setAttribute("aria-valuenow", String(Math.round(share * 100)));
    say(one / (one + two));
    const move = (/** @type {number} */ x) => {
      const from = left.details.getBoundingClientRect().left;
      const to = right.details.getBoundingClientRect().right;
      const share = Math.min(0.9, Math.max(0.1, (x - from) / (to - from)));
      const sum = [left, right].reduce((all, { details }) => all + Number(details.style.flexGrow), 0);
      for (const [{ key, details }, part] of /** @type {[Pane, number][]} */ ([[left, share], [right, 1 - share]]))
        details.style.flexGrow = String((this.room[key] = part * sum));
      say(share);
    };
    bar.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      bar.setPointerCapture(event.pointerId);
    });
    bar.addEventListener("pointermove", (event) => {
      if (bar.hasPointerCapture(event.pointerId)) move(event.clientX);
    });
    bar.addEventListener("lostpointercapture", () => this.keep());
    bar.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -24, ArrowRight: 24 }[event.key];
      if (!step) return;
      event.preventDefault();
      move(bar.getBoundingClientRect().left + 4 + step);
      this.keep();
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
