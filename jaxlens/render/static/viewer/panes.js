// @ts-check
/**
 * Tabs become panes: a bar with their names, up to three of them side by side, each scrolling
 * on its own, the room between them movable; where the output is narrow, one below the other.
 * The user's code is the first, as wide as its lines. Panes are as high as the window lets the
 * output be. What a reader chose for one output of a verb, the next ones open with.
 *
 * A pane stays the `<details data-pane>` that it was, open when it is shown.
 */
import { stepsOf } from "./chain.js";
import { button, create } from "./elements.js";

/** @typedef {{key: string, title: string, details: HTMLDetailsElement, head: HTMLElement,
 *   body: HTMLElement, button: HTMLButtonElement, need: number}} Pane */

const MOST = 3;
const MOST_NARROW = 2;
const LONG = 40;
const NARROW = 560;
const WIDEST = 1500;
/** Pixels that a pane needs: with less they stand one below the other. */
const LEAST = 320;
/** Pixels of the window that an output and its padding leave to the notebook, and those of panes at most and at least. */
const AROUND = 124;
const TALLEST = 680;
const LOWEST = 200;
/** Pixels round an output in full screen. */
const EDGE = 12;
/** Panes whose rows are long have more shares than one. @type {Record<string, number>} */
const SHARES = { change: 2, kernels: 2 };
const STORE = "jaxlens-layout";
/** Width of a character of code in pixels, and characters of a note beside it: without its bar, and with it. */
const CHARACTER = 7.25;
const NOTE = 18;
const NOTE_WITH_BAR = 26;
const BARS = 560;

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

/** Where a user's line goes on when it wraps: right of its own beginning; its note follows it. @param {Element} line */
function hang(line) {
  const code = line.querySelector(":scope > span")?.previousSibling;
  if (code instanceof Text) code.data = code.data.trimEnd();
  const blanks = /^\s*\d*(\s*)/.exec(line.textContent ?? "")?.[1].length ?? 0;
  if (line instanceof HTMLElement) line.style.setProperty("--indent", String(blanks + 4));
}

/** Pixels that the user's lines need to be whole; 0 for another pane. @param {HTMLElement} body */
function needOf(body) {
  const rows = [...body.querySelectorAll(":scope > .source-lines > .rows > * > :first-child")];
  const widest = (/** @type {number} */ most) => Math.max(0, ...rows.map((row) => {
    const note = row.querySelector("span")?.textContent ?? "";
    const code = (row.textContent ?? "").slice(0, -note.length || undefined).trimEnd();
    return code.length + (note ? Math.min(note.trim().length, most) + 2 : 0);
  }));
  const pixels = (/** @type {number} */ characters) => rows.length && Math.ceil((characters + 3) * CHARACTER + 36);
  const narrow = pixels(widest(NOTE));
  return narrow <= BARS ? narrow : pixels(widest(0) + NOTE_WITH_BAR);
}

export class Panes {
  /** @param {HTMLElement} root @param {HTMLElement} tabs */
  constructor(root, tabs) {
    this.root = root;
    this.tabs = tabs;
    tabs.setAttribute("data-live", "");
    /** Key of the pane that stands first without scripts. */
    this.first = tabs.firstElementChild?.getAttribute("data-pane") ?? "";
    /** What the layout is remembered by: the verb and this pane, which differs by option. */
    this.name = `${this.verb} ${this.first}`;
    tabs.prepend(...tabs.querySelectorAll(":scope > [data-pane=source]"));
    this.bar = create("div", "bar", { role: "toolbar", "aria-label": "Panes" });
    /** @type {Pane[]} */
    this.all = [...tabs.children].filter((e) => e instanceof HTMLDetailsElement).map((e) => this.pane(e));
    this.tools = create("span", "tools");
    this.steps = stepsOf(this);
    this.said = create("div", "notice", { "aria-live": "polite" });
    this.bar.append(...this.steps.map((step) => step.button));
    if (document.fullscreenEnabled)
      this.tools.append(button("□", "Full screen (Escape leaves)", () => root.requestFullscreen()));
    if (this.steps.length > 1) {
      this.bar.append(this.tools);
      this.tools.prepend(
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
    new ResizeObserver(() => requestAnimationFrame(() => this.fit())).observe(root);
    const fit = () => (root.isConnected ? this.fit() : removeEventListener("resize", fit));
    addEventListener("resize", fit);
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
    return { key, title, details, head, body, button: chosen, need: needOf(body) };
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
    this.room = { ...room };
    for (const each of this.switches) each.checked = Boolean(clusters);
    this.shown = [valid(open), given.slice(0, this.root.clientWidth >= WIDEST ? 3 : 2), [this.first]].find((keys) => keys.length) ?? [];
    this.show();
  }

  /** Where there is less room now, the panes chosen last stay. */
  fit() {
    if (!this.root.clientWidth) return;
    if (this.shown.length > this.most) {
      this.shown = this.shown.slice(-this.most);
      this.show();
    } else this.place();
  }

  /** Gives panes their place and room; with too little they stand one below the other. */
  place() {
    const { open, root } = this;
    const stacked = root.clientWidth < LEAST * open.length;
    this.tabs.classList.toggle("stacked", stacked);
    for (const { key, details, need } of open) {
      const fitted = need > 0 && open.length > 1 && !this.room[key];
      details.classList.toggle("fitted", fitted);
      details.classList.toggle("whole", fitted && !stacked && need <= 0.4 * root.clientWidth);
      details.style.setProperty("--need", `${need}px`);
      details.style.flexGrow = String(this.room[key] || (fitted ? 0 : SHARES[key] || 1));
    }
    if (!root.classList.contains("framed")) this.heighten(stacked);
  }

  /** Makes panes as high as the window lets the output be; what is pinned stays in sight. @param {boolean} stacked */
  heighten(stacked) {
    const { open, root, tabs } = this;
    const bodies = open.map(({ body }) => body);
    const heights = bodies.map(({ offsetHeight }) => offsetHeight);
    const full = document.fullscreenElement === root;
    const above = tabs.getBoundingClientRect().top - root.getBoundingClientRect().top + root.scrollTop;
    const heads = tabs.offsetHeight - (stacked ? heights.reduce((sum, height) => sum + height, 0) : Math.max(...heights));
    const strip = root.querySelector(".node-details");
    const room = innerHeight - (full ? 2 * EDGE : AROUND) - above - heads - (strip instanceof HTMLElement ? strip.offsetHeight : 0);
    const tall = Math.max(LOWEST, Math.min(full ? Infinity : TALLEST, stacked ? room / open.length : room));
    root.style.setProperty("--tall", `${Math.floor(tall)}px`);
    bodies.forEach((body, n) => {
      const row = body.querySelector(".pin");
      const over = row ? row.getBoundingClientRect().bottom - body.getBoundingClientRect().bottom : 0;
      if (over > 0 && over <= heights[n] - body.offsetHeight) body.scrollTop += over;
    });
  }

  show() {
    for (const bar of this.tabs.querySelectorAll(":scope > .splitter")) bar.remove();
    for (const pane of this.all) {
      pane.details.open = this.shown.includes(pane.key);
      pane.button.setAttribute("aria-pressed", String(pane.details.open));
      pane.button.tabIndex = pane.details.open ? 0 : -1;
    }
    this.place();
    const { open } = this;
    open.forEach((pane, n) => n && pane.details.before(this.splitter(open[n - 1], pane)));
    this.root.dispatchEvent(new CustomEvent("jl-panes", { bubbles: true, detail: { open: open.map((pane) => pane.key) } }));
  }

  /** Shows the panes of these keys, as far as there are such. @param {string[]} keys */
  showAll(keys) {
    const found = keys.filter((key) => this.all.some((pane) => pane.key === key));
    if (found.length) this.shown = found;
    this.show();
  }

  /** Makes sure that a pane is shown. @param {string} key */
  reveal(key) {
    if (!this.shown.includes(key)) this.take(key, this.shown.length === 1 && this.root.clientWidth >= 2 * LEAST);
  }

  /** What parts two panes; it moves by pointer and by arrow keys. @param {Pane} left @param {Pane} right */
  splitter(left, right) {
    const bar = create("div", "splitter", { role: "separator", tabindex: "0", "aria-orientation": "vertical",
      "aria-label": `Room of ${left.title}`, "aria-valuemin": "10", "aria-valuemax": "90" });
    const widths = () => [left, right].map(({ details }) => details.offsetWidth);
    const say = ([one, two] = widths()) => bar.setAttribute("aria-valuenow", String(Math.round((100 * one) / (one + two || 1))));
    say();
    const move = (/** @type {number} */ x) => {
      const { open } = this;
      const whole = open.reduce((sum, { details }) => sum + details.offsetWidth, 0);
      for (const { key, details } of open) this.room[key] = (details.offsetWidth / whole) * open.length;
      const from = left.details.getBoundingClientRect().left;
      const to = right.details.getBoundingClientRect().right;
      const share = Math.min(0.9, Math.max(0.1, (x - from) / (to - from)));
      const sum = this.room[left.key] + this.room[right.key];
      [this.room[left.key], this.room[right.key]] = [share * sum, (1 - share) * sum];
      this.place();
      say();
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
