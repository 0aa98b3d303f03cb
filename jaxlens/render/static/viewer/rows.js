// @ts-check
/**
 * What a row of the HTML shows: a node of a stage, or a line of the user's code.
 *
 * @typedef {{stage: string, id: string} | {line: string}} Node
 */

const SHOWN = "[data-id], .S .c > *";
const FIXED = [
  ".L > .c:not(.vl) > div > div", ".S .c > * > :first-child", ".S .u > div",
  ".d > div", ".F > li", "tbody > tr", "summary[data-id]", "[data-row]",
].join(",");

/** The ids of a row; an empty attribute means its first word. @param {Element} row */
export function idOf(row) {
  const id = row.getAttribute("data-id") ?? "";
  return id || !row.hasAttribute("data-id") ? id
    : /^\s*(?:ROOT )?(\S+)/.exec(row.textContent ?? "")?.[1] ?? "";
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
  return "line" in a ? "line" in b && a.line === b.line
    : "id" in b && a.id === b.id && a.stage === b.stage;
}

/** Whether an element can be seen: it is in no closed fold (which keeps its boxes) and no filter hid it. @param {Element} row */
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
  const body = row.closest(".pb");
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
  for (const pre of root.querySelectorAll(".L > .c"))
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

/** Rows that stand in the HTML of a pane, in order. */
class Fixed {
  /** @param {HTMLElement[]} rows */
  constructor(rows) {
    this.rows = rows;
    this.count = rows.length;
    /** @type {HTMLElement[]} */
    this.pointed = [];
  }

  /** @param {number} n */
  text(n) {
    return this.rows[n].textContent ?? "";
  }

  /** @param {number} n */
  inSight(n) {
    return onPage(this.rows[n]);
  }

  /** Brings a row into sight. @param {number} n @param {ScrollLogicalPosition} [where] @returns {HTMLElement} */
  show(n, where = "nearest") {
    unfold(this.rows[n]);
    scrollTo(this.rows[n], where);
    return this.rows[n];
  }

  /** Hides all rows but these; null for none hidden. @param {Set<number> | null} kept */
  only(kept) {
    this.rows.forEach((row, n) => row.classList.toggle("gone", kept !== null && !kept.has(n)));
  }

  /** Marks what is found and where the keys are. @param {Set<number>} hits @param {number} cursor */
  point(hits, cursor) {
    for (const row of this.pointed) row.classList.remove("hit", "cur");
    this.pointed = [...hits].map((n) => this.rows[n]);
    for (const row of this.pointed) row.classList.add("hit");
    if (cursor < 0) return;
    this.rows[cursor].classList.add("cur");
    this.pointed.push(this.rows[cursor]);
  }

  /** @param {Element} row */
  find(row) {
    return this.rows.findIndex((other) => other === row || other.contains(row));
  }

  /** @param {string} mark */
  marked(mark) {
    return this.rows.flatMap((row, n) => (row.classList.contains(mark) && onPage(row) ? [n] : []));
  }
}

/** @typedef {Fixed | import("../listing/long_list.js").Long} Section */
/** @typedef {{section: Section, n: number}} Spot */

/** A pane's rows: those in its HTML, with each long list where it stands. */
export class PaneRows {
  /** @param {HTMLElement} body @param {(list: Element) => import("../listing/long_list.js").Long | undefined} listOf */
  constructor(body, listOf) {
    this.body = body;
    this.listOf = listOf;
    /** @type {Spot | null} */
    this.cursor = null;
  }

  /** Rows came or went. */
  forget() {
    this.known = undefined;
  }

  /** @returns {Section[]} */
  get sections() {
    const first = this.known?.[0];
    if (this.known && !(first instanceof Fixed && !first.rows[0].isConnected)) return this.known;
    /** @type {Section[]} */
    const found = [];
    /** @type {HTMLElement[]} */
    let rows = [];
    const close = () => rows.length && found.push(new Fixed(rows));
    for (const row of this.body.querySelectorAll(`${FIXED},.vl`)) {
      const list = row.classList.contains("vl") ? this.listOf(row) : undefined;
      if (list) {
        close();
        rows = [];
        found.push(list);
      } else if (row instanceof HTMLElement && !row.parentElement?.closest(".vl")) rows.push(row);
    }
    close();
    return (this.known = found);
  }

  /** The row that an element is or stands in. @param {Element} element @returns {Spot | null} */
  find(element) {
    for (const section of this.sections) {
      const n = section.find(element);
      if (n >= 0) return { section, n };
    }
    return null;
  }

  /** The next row in sight from a spot on, `step` 1 or -1. @param {Spot | null} from @param {number} step @returns {Spot | null} */
  next(from, step) {
    const { sections } = this;
    let at = from ? sections.indexOf(from.section) : step > 0 ? 0 : sections.length - 1;
    let n = from ? from.n + step : step > 0 ? 0 : (sections[at]?.count ?? 0) - 1;
    for (; at >= 0 && at < sections.length; at += step, n = step > 0 ? 0 : (sections[at]?.count ?? 0) - 1)
      for (; n >= 0 && n < sections[at].count; n += step)
        if (sections[at].inSight(n)) return { section: sections[at], n };
    return null;
  }

  /** All rows with a mark, in order. @param {string} mark @returns {Spot[]} */
  marked(mark) {
    return this.sections.flatMap((section) => section.marked(mark).map((n) => ({ section, n })));
  }
}
