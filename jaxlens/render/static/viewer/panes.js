// @ts-check
/**
 * Tabs become panes: a bar with their names, up to three of them side by side, each scrolling
 * on its own, the room between them movable. What was chosen is remembered by the output.
 *
 * A pane stays the `<details data-pane>` that it was, open when it is shown.
 */

/** @typedef {{key: string, title: string, details: HTMLDetailsElement, head: HTMLElement,
 *   body: HTMLElement, button: HTMLButtonElement}} Pane */

const MOST = 3;
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

/**
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag @param {string} kind @param {Record<string, string>} [attributes]
 * @param {(Node | string)[]} inside
 * @returns {HTMLElementTagNameMap[T]}
 */
export function made(tag, kind, attributes = {}, ...inside) {
  const element = document.createElement(tag);
  if (kind) element.className = kind;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...inside);
  return element;
}

/** A button that says what it does; a sign has that for its name. @param {string} text @param {string} title @param {() => void} act @param {AbortSignal} signal */
export function button(text, title, act, signal) {
  const found = made("button", "", { type: "button", title, ...(/\w/.test(text) ? {} : { "aria-label": title }) }, text);
  found.addEventListener("click", act, { signal });
  return found;
}

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

/** The tabs of an output; what stands alone becomes the only one. @param {HTMLElement} root */
function tabsOf(root) {
  const tabs = root.querySelector(":scope > .T");
  if (tabs instanceof HTMLElement) return tabs;
  const blocks = [...root.children].filter((e) => e.matches(".L, .S, .D, details, .W"));
  if (!blocks.some((e) => e.matches(".L, .S, .D"))) return null;
  const inner = made("div", "");
  const alone = made("div", "T", {}, made("details", "", { "data-pane": "alone" }, made("summary", ""), inner));
  blocks[0].before(alone);
  inner.append(...blocks);
  return alone;
}

/** Where a user's line goes on when it wraps: right of its own beginning. @param {Element} line */
function hang(line) {
  const blanks = /^\s*\d*(\s*)/.exec(line.textContent ?? "")?.[1].length ?? 0;
  if (line instanceof HTMLElement) line.style.setProperty("--in", String(blanks + 4));
}

export class Panes {
  /** @param {HTMLElement} root @param {HTMLElement} tabs @param {AbortSignal} signal */
  constructor(root, tabs, signal) {
    this.root = root;
    this.tabs = tabs;
    this.signal = signal;
    tabs.setAttribute("data-live", "");
    this.bar = made("div", "bar", { role: "toolbar", "aria-label": "Panes" });
    /** @type {Pane[]} */
    this.all = [...tabs.children].filter((e) => e instanceof HTMLDetailsElement).map((e) => this.pane(e));
    this.tools = made("span", "tools");
    this.bar.append(...this.all.map((pane) => pane.button), this.tools);
    if (this.all.length > 1)
      this.tools.append(button("+", "One more pane beside (or Shift-click a name)", () => this.add(), signal));
    else this.bar.classList.add("alone");
    tabs.before(this.bar);
    /** Keys of what is shown, what was chosen last at the end. @type {string[]} */
    this.shown = [];
    this.bar.addEventListener("keydown", (event) => this.walk(event), { signal });
    this.restore();
    const sized = new ResizeObserver(() => this.fit());
    sized.observe(root);
    signal.addEventListener("abort", () => sized.disconnect(), { once: true });
  }

  /** @param {HTMLDetailsElement} details @returns {Pane} */
  pane(details) {
    const summary = /** @type {HTMLElement} */ (details.querySelector(":scope > summary"));
    const body = /** @type {HTMLElement} */ (details.querySelector(":scope > div"));
    const [key, title] = [details.getAttribute("data-pane") ?? "", summary.textContent ?? ""];
    details.removeAttribute("name");
    body.classList.add("pb");
    for (const [name, value] of [["tabindex", "0"], ["role", "group"], ["aria-label", title]])
      body.setAttribute(name, value);
    for (const inner of body.querySelectorAll(".c, .W")) inner.removeAttribute("tabindex");
    for (const line of body.querySelectorAll(".S .c > * > :first-child")) hang(line);
    const head = made("div", "ph", {}, made("b", "", {}, title));
    const frame = made("div", "pw");
    body.replaceWith(made("div", "pp", {}, head, frame));
    frame.append(body);
    this.edge(frame, body);
    const chosen = button(title, summary.title || title, () => {}, this.signal);
    chosen.setAttribute("data-key", key);
    chosen.setAttribute("aria-label", title);
    chosen.addEventListener("click", (event) => this.choose(key, event.shiftKey || event.ctrlKey || event.metaKey), { signal: this.signal });
    return { key, title, details, head, body, button: chosen };
  }

  /** Says whether a pane goes on at its right. @param {HTMLElement} frame @param {HTMLElement} body */
  edge(frame, body) {
    const { root, signal } = this;
    const look = () => frame.classList.toggle("more", body.scrollWidth - body.clientWidth - body.scrollLeft > 4);
    const sized = new ResizeObserver(look);
    sized.observe(body);
    signal.addEventListener("abort", () => sized.disconnect(), { once: true });
    body.addEventListener("scroll", look, { signal, passive: true });
    for (const type of ["jl-rows", "jl-panes"]) root.addEventListener(type, look, { signal });
    body.addEventListener("toggle", look, { signal, capture: true });
  }

  get most() {
    return this.root.clientWidth < NARROW ? 1 : MOST;
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
    return `${this.root.getAttribute("data-verb")}: ${this.all.map((pane) => pane.key)}`;
  }

  restore() {
    const kept = remembered();
    const known = (/** @type {unknown} */ keys) =>
      Array.isArray(keys) ? keys.filter((key) => this.all.some((pane) => pane.key === key)) : [];
    const before = [this.root.getAttribute("data-key") ?? "", this.kind].map((key) => known(kept[key])).find((keys) => keys.length);
    const telling = TELLING[this.root.getAttribute("data-verb") ?? ""] ?? [];
    const [first] = this.all;
    const width = this.root.clientWidth || WIDE;
    const beside = known(telling).filter((key) => key !== first.key).slice(0, width >= WIDEST ? 2 : width >= WIDE ? 1 : 0);
    this.shown = before ?? [first.key, ...beside];
    this.show();
  }

  /** Where there is less room now, the panes chosen last stay. */
  fit() {
    if (!this.root.clientWidth) return;
    this.root.classList.toggle("narrow", this.root.clientWidth < NARROW);
    if (this.shown.length > this.most) {
      this.shown = this.shown.slice(-this.most);
      this.show();
    }
  }

  show() {
    for (const bar of this.tabs.querySelectorAll(":scope > .sp")) bar.remove();
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
    const bar = made("div", "sp", { role: "separator", tabindex: "0", "aria-orientation": "vertical",
      "aria-label": `Room of ${left.title}`, "aria-valuemin": "10", "aria-valuemax": "90", "aria-valuenow": "50" });
    const { signal } = this;
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
    }, { signal });
    bar.addEventListener("pointermove", (event) => {
      if (bar.hasPointerCapture(event.pointerId)) move(event.clientX);
    }, { signal });
    bar.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -24, ArrowRight: 24 }[event.key];
      if (!step) return;
      event.preventDefault();
      move(bar.getBoundingClientRect().left + 4 + step);
    }, { signal });
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

/** Makes the tabs of an output panes; null where it has nothing to lay out. @param {HTMLElement} root @param {AbortSignal} signal */
export function panesOf(root, signal) {
  const tabs = tabsOf(root);
  return tabs && new Panes(root, tabs, signal);
}
