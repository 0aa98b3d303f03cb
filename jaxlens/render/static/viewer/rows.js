// @ts-check
/**
 * What a row of the HTML shows: a node of a stage, or a line of the user's code.
 *
 * @typedef {{stage: string, id: string} | {line: string, part?: string}} Node a part is an expression
 */

const SHOWN = "[data-id], .source-lines .rows > *";
const FIXED = [
  ".listing > .rows:not(.long-list) > div > div", ".source-lines .rows > * > :first-child", ".source-lines .indented > div",
  ".diff-rows > div > div", ".findings > li", "tbody > tr:not(.below)", "summary[data-id]", "[data-row]",
].join(",");

/** Elements of the kinds of words, as `MARKS` in `render/html/marks.py` numbers them. */
export const KIND_TAGS = ["", "b", "var", "samp", "small", "em", "strong", "tt", "mark"];

/** The first word of a row, after ROOT. @param {string} text */
export const firstWord = (text) => /^\s*(?:ROOT )?(\S+)/.exec(text)?.[1] ?? "";

/** The ids of a row; an empty attribute means its first word. @param {Element} row */
export function idOf(row) {
  const id = row.getAttribute("data-id");
  return id === "" ? firstWord(row.textContent ?? "") : id ?? "";
}

/** @param {Element} row */
export const stageAt = (row) => row.closest("[data-stage]")?.getAttribute("data-stage") ?? "";

/** The name of a line in the pane of the user's code. @param {Element} row */
export function lineOf(row) {
  const file = row.closest("[data-file]")?.getAttribute("data-file");
  return row.getAttribute("data-line") ?? `${file}:${parseInt(row.querySelector("i")?.textContent ?? "")}`;
}

/**
 * What is shown where something was pointed at, and the element that shows it.
 * @param {EventTarget | null} target
 * @returns {{row: HTMLElement, node: Node} | null}
 */
export function shownAt(target) {
  const row = target instanceof Element ? target.closest(SHOWN) : null;
  if (!(row instanceof HTMLElement)) return null;
  if (row.hasAttribute("data-id")) {
    const id = idOf(row);
    return id ? { row, node: { stage: stageAt(row), id } } : null;
  }
  const head = row.firstElementChild;
  return head instanceof HTMLElement ? { row: head, node: { line: lineOf(row) } } : null;
}

/** @param {Node | null} a @param {Node | null} b */
export function sameNode(a, b) {
  if (!a || !b) return a === b;
  return "line" in a ? "line" in b && a.line === b.line && a.part === b.part
    : "id" in b && a.id === b.id && a.stage === b.stage;
}

/** Whether an element can be seen: it is in no closed fold (which keeps its boxes). @param {Element} row */
export const onPage = (row) => row.checkVisibility?.() ?? row.getClientRects().length > 0;

/** Opens the folds that hide an element. @param {Element} row */
export function unfold(row) {
  for (let fold = row.parentElement?.closest("details"); fold; fold = fold.parentElement?.closest("details")) {
    if (fold.hasAttribute("data-pane")) break;
    if (row.parentElement !== fold || row.localName !== "summary") fold.open = true;
  }
}

/** Scrolls a row's pane, and no more of the page than it must. @param {HTMLElement} row @param {ScrollLogicalPosition} where */
export function scrollTo(row, where) {
  const body = row.closest(".pane-body");
  if (!(body instanceof HTMLElement)) return row.scrollIntoView({ block: "nearest" });
  const [at, view] = [row.getBoundingClientRect(), body.getBoundingClientRect()];
  const [above, below] = [at.top - view.top - 28, at.bottom - view.bottom + 8];
  if (where === "center" && (above < 0 || below > 0))
    body.scrollTop += at.top - view.top - body.clientHeight / 3;
  else if (above < 0) body.scrollTop += above;
  else if (below > 0) body.scrollTop += below;
}

/** Lines of another language become rows. @param {HTMLElement} root */
export function splitCode(root) {
  for (const pre of root.querySelectorAll(".listing > .rows"))
    if (!pre.firstElementChild && pre.textContent) {
      const lines = pre.textContent.replace(/\n$/, "").split("\n");
      const run = document.createElement("div");
      for (const line of lines) {
        const row = run.appendChild(document.createElement("div"));
        if (line) row.textContent = line;
        else row.append(document.createElement("br"));
      }
      pre.replaceChildren(run);
    }
}

/** Top of an element in the content of the pane that scrolls it. @param {HTMLElement} body @param {Element} element */
const topIn = (body, element) => element.getBoundingClientRect().top - body.getBoundingClientRect().top + body.scrollTop;

/** The long lists of the page, by their elements. @type {WeakMap<Element, import("../listing/long_list.js").LongList>} */
export const lists = new WeakMap();

/** Rows in an order, which may leave some out. */
export class OrderedRows {
  /** Numbers of the rows in order, null for all as they are. @type {number[] | null} */
  order = null;
  /** Places of the rows in `order`, -1 for none. @type {Int32Array | undefined} */
  places;
  /** @returns {number} */
  get count() {
    return 0;
  }

  get length() {
    return this.order?.length ?? this.count;
  }

  /** Place of a row, -1 for none. @param {number} n */
  place(n) {
    return this.places ? (this.places[n] ?? -1) : n;
  }

  /** The row at a place. @param {number} place */
  numberAt(place) {
    return this.order ? this.order[place] : place;
  }
}

/** Rows that stand in the HTML of a pane, in order; `LongList` has the same methods. */
class StaticRows extends OrderedRows {
  /** @param {HTMLElement[]} rows @param {HTMLElement} body what scrolls */
  constructor(rows, body) {
    super();
    this.rows = rows;
    this.body = body;
    /** @type {HTMLElement[]} */
    this.pointed = [];
  }

  get count() {
    return this.rows.length;
  }

  /** @param {number} n */
  text(n) {
    return this.rows[n].textContent ?? "";
  }

  /** Whether no fold hides it. @param {number} n */
  inSight(n) {
    return onPage(this.rows[n]);
  }

  /** Opens or closes the fold that a row is in. @param {number} n @returns {boolean} whether it is in one */
  toggle(n) {
    const row = this.rows[n];
    if (row instanceof HTMLButtonElement) return row.click(), true;
    const fold = row.closest("details");
    if (!fold || fold.hasAttribute("data-pane")) return false;
    fold.open = !fold.open;
    return true;
  }

  /** Top of a row in the content of its pane. @param {number} n */
  y(n) {
    return topIn(this.body, this.rows[n]);
  }

  /** Scrolls a row into view. @param {number} n @param {ScrollLogicalPosition} [where] @returns {HTMLElement} */
  show(n, where = "nearest") {
    unfold(this.rows[n]);
    scrollTo(this.rows[n], where);
    return this.rows[n];
  }

  /** Marks the matches of a search and the row that the keys are at. @param {Set<number>} hits @param {number} cursor */
  point(hits, cursor) {
    for (const row of this.pointed) row.classList.remove("hit", "row-cursor");
    this.pointed = [...hits].map((n) => this.rows[n]);
    for (const row of this.pointed) row.classList.add("hit");
    if (cursor < 0) return;
    this.rows[cursor].classList.add("row-cursor");
    this.pointed.push(this.rows[cursor]);
  }

  /** The row that an element is or stands in, else -1. @param {Element} element */
  find(element) {
    return this.rows.findIndex((row) => row === element || row.contains(element));
  }

  /** The first row of a node, alone or with others, else -1; a row without a stage has that of any node of its id. @param {Node} node */
  indexOf(node) {
    return this.rows.findIndex((row) => {
      const shown = shownAt(row)?.node ?? null;
      return sameNode(shown, node) || (shown && "id" in shown && "id" in node && [node.stage, ""].includes(shown.stage) && shown.id.split(" ").includes(node.id));
    });
  }

  /** The first row whose top is in view, else -1. */
  firstInView() {
    const { top: from, bottom: to } = this.body.getBoundingClientRect();
    return this.rows.findIndex((row) => {
      const { top, height } = row.getBoundingClientRect();
      return height && top >= from && top < to;
    });
  }

  /** The rows in sight with a mark. @param {string} mark */
  marked(mark) {
    return this.rows.flatMap((row, n) => (row.classList.contains(mark) && onPage(row) ? [n] : []));
  }

  /** Tops of the rows with a mark, or of the closed folds that hide them. @param {string} mark */
  heights(mark) {
    return this.rows.flatMap((row) => {
      if (!row.classList.contains(mark)) return [];
      const shown = onPage(row) ? row : row.closest("details:not([open])")?.firstElementChild;
      return shown && onPage(shown) ? [topIn(this.body, shown)] : [];
    });
  }
}

/** @typedef {StaticRows | import("../listing/long_list.js").LongList} Section */
/** @typedef {{section: Section, n: number}} Spot */

/** The rows of a pane: those in its HTML, and each long list in its place. */
export class PaneRows {
  /** @param {HTMLElement} body */
  constructor(body) {
    this.body = body;
    /** @type {Spot | null} */
    this.cursor = null;
  }

  /** To be called when rows came or went. */
  forget() {
    this.known = undefined;
  }

  /** @returns {Section[]} */
  get sections() {
    const first = this.known?.[0];
    if (this.known && !(first instanceof StaticRows && !first.rows[0].isConnected)) return this.known;
    /** @type {Section[]} */
    const sections = [];
    /** @type {HTMLElement[]} */
    let rows = [];
    const close = () => rows.length && sections.push(new StaticRows(rows, this.body));
    for (const row of this.body.querySelectorAll(`${FIXED},.long-list`)) {
      const list = lists.get(row);
      if (list) {
        close();
        rows = [];
        sections.push(list);
      } else if (row instanceof HTMLElement && !row.parentElement?.closest(".long-list")) rows.push(row);
    }
    close();
    return (this.known = sections);
  }

  /** The first spot that a question to each section finds; -1 is none. @param {(section: Section) => number} ask @returns {Spot | null} */
  first(ask) {
    for (const section of this.sections) {
      const n = ask(section);
      if (n >= 0) return { section, n };
    }
    return null;
  }

  /** The next row in sight from a spot on, `step` 1 or -1. @param {Spot | null} from @param {number} step @returns {Spot | null} */
  next(from, step) {
    const { sections } = this;
    let at = from ? sections.indexOf(from.section) : step > 0 ? 0 : sections.length - 1;
    let place = from ? from.section.place(from.n) + step : step > 0 ? 0 : sections[at]?.length - 1;
    for (; at >= 0 && at < sections.length; at += step, place = step > 0 ? 0 : sections[at]?.length - 1)
      for (const section = sections[at]; place >= 0 && place < section.length; place += step) {
        const n = section.numberAt(place);
        if (section.inSight(n)) return { section, n };
      }
    return null;
  }

  /** All rows with a mark, in order. @param {string} mark @returns {Spot[]} */
  marked(mark) {
    return this.sections.flatMap((section) => section.marked(mark).map((n) => ({ section, n })));
  }
}
