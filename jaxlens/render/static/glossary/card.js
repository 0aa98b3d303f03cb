// @ts-check
/**
 * Explains words: a card beside an operation, an attribute, a name or a pass that the pointer rests
 * on, or for the current row when `h` is pressed. `glossary_help.py` embeds the entries.
 *
 * The card has a sentence for a first meeting, the lesson and the page; "more" opens what an expert
 * wants to know, and so does `h` once more, which also moves the focus into the card. A third `h`,
 * or Escape, takes it away and gives the focus back. The card keeps off the rows next to the one
 * pointed at. It stays while the pointer is on it, so its links can be followed. Other scripts ask for a card by an event
 * `jl-help` on any element of the output: `{kind, word, x, y}`, or null to take it away.
 */
import { create, embedded } from "../viewer/elements.js";
import { idOf, onPage, scrollTo, stageAt } from "../viewer/rows.js";

/** @typedef {{left: number, right: number, top: number, bottom: number}} HelpBox */
/** @typedef {{kind: string, word: string, op: string, row: Element | null, box: HelpBox}} HelpWord */
/** @typedef {[string, number, ...number[]]} HelpEntry a sentence, its page, its lesson, its texts */
/** @typedef {Record<string, Record<string, HelpEntry>> & {pages: [string, string][], texts?: string[], lessons?: Record<string, string>}} HelpData */

const SHOW_AFTER = 300;
const HIDE_AFTER = 250;
// Attributes of one row
const HELP_SHOWN = 8;
const LETTER = /[\w.$-]/;
const NEW_TAB = { target: "_blank", rel: "noopener noreferrer" };
const HELP_STAGES = /** @type {Record<string, string>} */ ({
  jaxpr: "primitive", stablehlo: "op", llvm: "llvm", asm: "asm",
});
const HELP_KINDS = /** @type {Record<string, string>} */ ({
  primitive: "primitive", op: "op", instruction: "HLO instruction", attribute: "attribute",
  target: "target of a call", llvm: "LLVM instruction", asm: "machine instruction",
  ptx: "PTX instruction", pass: "pass",
});
// A layout such as {1,0}, in a type
const LAYOUT = /\{\d[^}]*\}/g;

/** What the operations of a row are called in the glossary. @param {Element} row */
function helpKind(row) {
  const stage = stageAt(row);
  if (stage) return HELP_STAGES[stage] ?? "instruction";
  const id = idOf(row);
  return /^e\d+$/.test(id) ? "primitive" : /^s\d+$/.test(id) ? "op" : "instruction";
}

/** The text at a point of the window. @param {number} x @param {number} y @returns {{node: Node, offset: number} | null} */
function caretAt(x, y) {
  const page = /** @type {any} */ (document);
  const at = page.caretPositionFromPoint?.(x, y);
  if (at) return { node: at.offsetNode, offset: at.offset };
  const range = page.caretRangeFromPoint?.(x, y);
  return range && { node: range.startContainer, offset: range.startOffset };
}

/**
 * The word at a point, with its place; null where there is none.
 * @param {number} x @param {number} y @returns {{text: string, box: DOMRect} | null}
 */
function wordAt(x, y) {
  const at = caretAt(x, y);
  if (!(at?.node instanceof Text)) return null;
  const { data } = at.node;
  let [start, end] = [at.offset, at.offset];
  const layout = [...data.matchAll(LAYOUT)].find(({ index, 0: text }) => index <= start && start < index + text.length);
  if (layout) [start, end] = [layout.index, layout.index + layout[0].length];
  while (!layout && start > 0 && LETTER.test(data[start - 1])) start--;
  while (!layout && end < data.length && LETTER.test(data[end])) end++;
  const range = document.createRange();
  range.setStart(at.node, start);
  range.setEnd(at.node, end);
  const box = range.getBoundingClientRect();
  const inside = x >= box.left - 1 && x <= box.right + 1 && y >= box.top && y <= box.bottom;
  return start < end && inside ? { text: layout ? "layout" : data.slice(start, end), box } : null;
}

/** The word that a cell of a table consists of. @param {Element} cell @returns {HelpWord} */
function cellWord(cell) {
  const word = (cell.textContent ?? "").replaceAll("\u00a0", " ");
  return { kind: "cell", word, op: "", row: cell, box: cell.getBoundingClientRect() };
}

/** What stands under the pointer. @param {Element} target @param {number} x @param {number} y @returns {HelpWord | null} */
function pointedWord(target, x, y) {
  const named = target.closest("[data-pass]");
  if (named instanceof HTMLElement)
    return { kind: "pass", word: named.dataset.pass ?? "", op: "", row: null, box: named.getBoundingClientRect() };
  const cell = target.closest("tbody td");
  if (cell) return cellWord(cell);
  const row = target.closest("[data-id], pre.rows > div > div");
  if (!row || !target.closest(".jaxlens pre, .jaxlens .passes")) return null;
  const kind = helpKind(row);
  const op = row.querySelector("b")?.textContent ?? "";
  const mark = target.closest("b");
  if (mark) return { kind, word: mark.textContent ?? "", op: "", row, box: mark.getBoundingClientRect() };
  const word = wordAt(x, y);
  if (!word) return null;
  const behind = target.closest("em") && /^\s*\/\/ ([a-z][\w-]*)/.exec(target.textContent ?? "")?.[1];
  const of = behind === word.text ? kind : "attribute";
  return { kind: of, word: word.text, op, row, box: word.box };
}

class GlossaryCard {
  /** @param {HTMLElement} root @param {HelpData} data */
  constructor(root, data) {
    this.root = root;
    this.data = data;
    this.card = create("div", "tip", { role: "status", popover: "manual" });
    root.append(this.card);
    /** @type {HelpWord | null} what is pointed at */
    this.word = null;
    /** @type {HelpWord | null} what the card stands beside */
    this.shown = null;
    /** @type {HTMLElement | null} what had the focus before the card */
    this.from = null;
    this.timer = 0;
    this.leaving = 0;
    this.listen();
  }
  listen() {
    const { root } = this;
    root.addEventListener("pointermove", (event) => this.move(event), { passive: true });
    root.addEventListener("pointerleave", () => this.leave());
    root.addEventListener("pointerdown", (event) => {
      if (event.target instanceof Node && !this.card.contains(event.target)) this.hide();
    });
    window.addEventListener("keydown", (event) => this.key(event), { capture: true });
    root.addEventListener("jl-help", (event) => this.request(/** @type {CustomEvent} */ (event).detail));
    // It grew or shrank
    this.card.addEventListener("toggle", () => this.open && this.shown && this.place(this.shown), { capture: true });
    document.addEventListener("scroll", (event) => {
      if (event.target instanceof Node && !this.card.contains(event.target)) this.hide();
    }, { capture: true, passive: true });
  }

  /** The entry of a word; an attribute may have one of its own at its operation. @param {HelpWord} word */
  meaning({ kind, word: written, op }) {
    const word = written.replace(/^"|"$/g, "");
    const entries = kind === "asm" && word.includes(".") ? this.data.ptx : this.data[kind];
    const get = (/** @type {Record<string, HelpEntry> | undefined} */ of, /** @type {string} */ name) =>
      of && Object.hasOwn(of, name) ? of[name] : undefined;
    if (kind === "cell") return get(this.data.word, word) ?? get(this.data.pass, word.replace(/^start of /, ""));
    if (kind !== "attribute") return get(entries, word);
    return get(entries, `${op}.${word}`) ?? get(entries, word) ?? get(this.data.target, word) ?? get(this.data.word, word);
  }

  get open() {
    return this.card.classList.contains("on");
  }

  /** @param {PointerEvent} event */
  move(event) {
    const { target, clientX, clientY } = event;
    if (event.pointerType === "touch" || event.buttons || !(target instanceof Element)) return;
    // A drawing asks itself
    if (target.closest("[data-path]")) return;
    if (this.card.contains(target)) return clearTimeout(this.leaving);
    const word = pointedWord(target, clientX, clientY);
    if (word && this.word && word.row === this.word.row && word.word === this.word.word && word.box.left === this.word.box.left)
      return;
    clearTimeout(this.timer);
    this.word = word;
    if (this.open) this.leave();
    if (word && this.meaning(word)) this.timer = window.setTimeout(() => this.show([word]), SHOW_AFTER);
  }

  leave() {
    clearTimeout(this.timer);
    clearTimeout(this.leaving);
    this.leaving = window.setTimeout(() => this.hide(), HIDE_AFTER);
  }

  hide() {
    clearTimeout(this.timer);
    clearTimeout(this.leaving);
    this.word = null;
    if (!this.open) return;
    this.card.classList.remove("on");
    const inside = this.card.contains(document.activeElement);
    if (this.card.hidePopover) this.card.hidePopover();
    if (inside) this.from?.focus({ preventScroll: true });
  }

  /** `h` tells of the row at hand, then tells more; Escape takes the card away before it does anything else. @param {KeyboardEvent} event */
  key(event) {
    if (event.key === "Escape" && this.open) {
      event.stopImmediatePropagation();
      return this.hide();
    }
    const { target } = event;
    if (event.key !== "h" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (!(target instanceof Element) || !this.root.contains(target)) return;
    if (target.closest("input:not([type=range], [type=checkbox]), select, textarea, [contenteditable=true], svg")) return;
    if (this.open) {
      event.preventDefault();
      return this.more();
    }
    const explain = this.explains(target);
    if (!explain) return;
    event.preventDefault();
    explain();
  }

  /** Opens what the card has for experts, and goes into it; takes it away if that is open. */
  more() {
    const folds = [...this.card.querySelectorAll("details:not([open])")];
    const [first] = this.card.querySelectorAll("summary");
    if (!folds.length) return this.hide();
    for (const fold of folds) fold.setAttribute("open", "");
    if (!this.card.contains(document.activeElement)) this.from = /** @type {HTMLElement | null} */ (document.activeElement);
    first.focus({ preventScroll: true });
    this.card.scrollTop = 0;
  }

  /** What `h` explains: a pass, a row, a table. @param {Element} target @returns {(() => void) | null} */
  explains(target) {
    const pass = target.closest(".scrub")?.querySelector("[data-pass]");
    const word = pass && pointedWord(pass, 0, 0);
    if (word && this.meaning(word)) return () => this.show([word]);
    const row = this.currentRow(target);
    if (row && row.localName !== "tr") return () => this.explainRow(row);
    const table = row ?? target.closest(".table-box");
    return table && (() => this.explainWords([...table.querySelectorAll(row ? "td" : "tbody td")].map(cellWord), table));
  }

  /** The row that has the focus, else one that is pointed at, that the keys are at or that is pinned, of this pane if it can be. @param {Element} target */
  currentRow(target) {
    const pane = target.closest("details[data-pane]");
    const marked = [".pointed:hover", ".row-cursor", ".pointed", ".pin"].flatMap((mark) => [...this.root.querySelectorAll(mark)]).filter(onPage);
    return target.closest("[data-id]") ?? marked.find((row) => pane?.contains(row)) ?? marked[0] ?? null;
  }

  /** Tells of a row's operation and attributes. @param {Element} row */
  explainRow(row) {
    if (row instanceof HTMLElement) scrollTo(row, "nearest");
    const [box, mark] = [row.getBoundingClientRect(), row.querySelector("b")];
    const op = mark?.textContent ?? "";
    const start = { row, box: mark?.getBoundingClientRect() ?? box };
    const words = op ? [{ kind: helpKind(row), word: op, op: "", ...start }] : [];
    // Without what is folded
    const text = row instanceof HTMLElement ? row.innerText : "";
    for (const [name] of text.matchAll(/[\w.-]+(?= ?=)|\bk[A-Z]\w+/g))
      words.push({ kind: "attribute", word: name, op, ...start });
    if (!op) for (const [name] of text.matchAll(/[\w.-]+/g)) words.push({ kind: "word", word: name, op, ...start });
    this.explainWords(words, row);
  }

  /** @param {HelpWord[]} words @param {Element} row what they are of */
  explainWords(words, row) {
    const seen = new Set();
    const known = words.filter((word) => this.meaning(word) && !seen.has(word.word) && seen.add(word.word));
    if (known.length) return this.show(known.slice(0, HELP_SHOWN + 1));
    const text = row.closest(".source-lines") ? "A line of yours. Enter pins it: what it became is lit in every pane. Space opens what lies under it."
      : "The glossary has no word of this row.";
    this.show([{ kind: "", word: "", op: "", row, box: row.getBoundingClientRect() }], text);
  }

  /** Another pane asks, of a word of a kind or a stage. @param {{kind?: string, stage?: string, word: string, x: number, y: number, op?: string} | null} detail */
  request(detail) {
    if (!detail) return this.card.matches(":hover") ? undefined : this.hide();
    const { stage = "", kind = HELP_STAGES[stage] ?? "instruction", word, x, y, op = "" } = detail;
    const request = { kind, word, op, row: null, box: { left: x, right: x, top: y, bottom: y } };
    if (this.meaning(request)) this.show([request]);
    else this.hide();
  }

  /** @param {HelpWord[]} words the first is what is pointed at @param {string} [text] what to say where none is known */
  show(words, text) {
    const [{ row }] = words;
    if (row && !row.isConnected) return;
    // What folds hold; two boxes would lie on each other
    row?.removeAttribute("title");
    clearTimeout(this.leaving);
    this.card.replaceChildren(...(text ? [text] : words.map((word) => this.entry(word))));
    /** @type {Set<string>} */
    const shown = new Set();
    // A page or a lesson once, at the first word that has it
    for (const link of this.card.querySelectorAll("a, i.lesson")) {
      const name = link.textContent ?? "";
      if (shown.has(name)) link.remove();
      shown.add(name);
    }
    this.card.classList.add("on");
    if (this.card.showPopover && !this.card.matches(":popover-open")) this.card.showPopover();
    [this.shown] = words;
    this.place(words[0]);
  }

  /** A word, what it is, the sentence, the lesson and the page, and more. @param {HelpWord} word */
  entry(word) {
    const meaning = /** @type {HelpEntry} */ (this.meaning(word));
    const [sentence, own, lesson, ...texts] = meaning;
    const of = word.op ? this.meaning({ ...word, kind: word.row ? helpKind(word.row) : "", word: word.op, op: "" }) : undefined;
    const plain = word.kind === "attribute" && meaning === this.data.word?.[word.word];
    const kind = plain ? "" : word.kind === "attribute" && word.op ? `of ${word.op}` : HELP_KINDS[word.kind] ?? "";
    const [name, address] = this.data.pages[own < 0 && of ? of[1] : own] ?? [];
    const links = [this.lesson(lesson), name ? create("a", "", { href: address, ...NEW_TAB }, name) : ""].filter(Boolean);
    const element = create("div", "", {}, create("b", "", {}, word.word), " ", create("i", "", {}, kind), create("p", "", {}, sentence));
    const told = texts.map((place) => create("p", "", {}, this.data.texts?.[place] ?? ""));
    const more = told.length ? [create("details", "", {}, create("summary", "", {}, "more"), ...told)] : [];
    if (links.length || more.length) element.append(create("div", "links", {}, ...links, ...more));
    return element;
  }

  /** The lesson that teaches a word: a link where there is one. @param {number} number */
  lesson(number) {
    if (!number) return "";
    const own = this.root.querySelector(`.lessons [data-lesson="${number}"]`);
    if (!(own instanceof HTMLAnchorElement)) return create("i", "lesson", {}, this.data.lessons?.[number] ?? "");
    const link = create("a", "", { href: own.href, "data-lesson": `${number}`, ...NEW_TAB }, own.textContent ?? "");
    // JupyterLab opens notebooks by what it has done to the link that came with the output
    link.addEventListener("click", (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      for (const [name, value] of Object.entries(NEW_TAB)) own.setAttribute(name, value);
      own.click();
    });
    return link;
  }

  /** Right of the rows that it would lie on, else a row's height below or above. @param {HelpWord} word */
  place({ row, box }) {
    const { offsetWidth: wide, offsetHeight: high } = this.card;
    const gap = row ? Math.min(row.getBoundingClientRect().height, 24) + 4 : 14;
    const end = row ? this.end(row, box, high) : Infinity;
    const edge = Math.min(innerWidth, row?.closest(".pane-body, .rows")?.getBoundingClientRect().right ?? innerWidth);
    let [left, top] = [box.left, box.bottom + gap];
    if (end + 16 + wide < edge) [left, top] = [end + 16, box.top - 2];
    else if (top + high > innerHeight - 4) top = box.top - gap - high;
    this.card.style.left = `${Math.max(4, Math.min(left, innerWidth - wide - 4))}px`;
    this.card.style.top = `${Math.max(4, Math.min(top, innerHeight - high - 4))}px`;
  }

  /** Where the text of the rows ends that a card beside this one would lie on. @param {Element} row @param {HelpBox} box @param {number} high */
  end(row, box, high) {
    const range = document.createRange();
    let end = 0;
    const rows = [...(row.parentElement?.closest("pre")?.querySelectorAll("[data-id]") ?? [])];
    const place = rows.indexOf(row);
    for (const near of place < 0 ? [row] : rows.slice(Math.max(place - 1, 0), place + 8)) {
      const { top, bottom } = near.getBoundingClientRect();
      if (bottom < box.top || top > box.top + high) continue;
      range.selectNodeContents(near);
      end = Math.max(end, range.getBoundingClientRect().right);
    }
    return end;
  }
}

/** Gives every output under `root` that has entries its cards. @param {ParentNode} root */
export function live(root) {
  for (const output of root.querySelectorAll(".jaxlens:not([data-glossary])")) {
    if (!(output instanceof HTMLElement)) continue;
    output.setAttribute("data-glossary", "");
    embedded(output, "help").then((data) => data && new GlossaryCard(output, data));
  }
}
