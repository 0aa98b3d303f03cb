// @ts-check
/**
 * What a row of the HTML shows: a node of a stage, or a line of the user's code.
 *
 * @typedef {{stage: string, id: string} | {line: string}} Node
 */

const SHOWN = "[data-id], .S .c > *";
const FIXED = [
  ".L > .c:not(.v) > div > div", ".S .c > * > :first-child", ".S .u > div",
  ".d > div", ".F > li", "tr", "summary[data-id]", "[data-row]",
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

/** Whether an element takes up room: it is in no closed fold and no filter hid it. @param {Element} row */
export const onPage = (row) => row.getClientRects().length > 0;

/** Opens the folds that hide an element. @param {Element} row */
export function unfold(row) {
  for (let fold = row.parentElement?.closest("details"); fold; fold = fold.parentElement?.closest("details")) {
    if (fold.hasAttribute("data-pane")) break;
    if (row.parentElement !== fold || row.localName !== "summary") fold.open = true;
  }
}

/** Rows of a pane that stand in its HTML, in order. */
export class Fixed {
  /** @param {HTMLElement[]} rows */
  constructor(rows) {
    this.rows = rows;
    this.count = rows.length;
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

/**
 * A pane's rows: those in its HTML, with each long list where it stands.
 * @param {HTMLElement} body @param {(list: Element) => any} listOf
 * @returns {any[]} each with `count`, `text(n)`, `inSight(n)`, `show(n)` and `only(kept)`
 */
export function sections(body, listOf) {
  const found = [];
  /** @type {HTMLElement[]} */
  let rows = [];
  for (const row of body.querySelectorAll(`${FIXED},.v`)) {
    if (!(row instanceof HTMLElement)) continue;
    if (!row.classList.contains("v")) {
      if (!row.parentElement?.closest(".v")) rows.push(row);
      continue;
    }
    if (rows.length) found.push(new Fixed(rows));
    rows = [];
    found.push(listOf(row));
  }
  if (rows.length) found.push(new Fixed(rows));
  return found;
}
