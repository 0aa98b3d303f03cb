// @ts-check
/**
 * The expressions on the user's lines: what stands under the pointer is lit apart from the rest of
 * its line, and the expressions are marked that became what is pointed at elsewhere. They are marked
 * in the browser's highlight registry, so that the rows stay as they are; where a browser has none,
 * lines are lit as a whole.
 */
import { divided, unrolled } from "../viewer/link_data.js";

/** @typedef {import("../viewer/rows.js").Node} Node */
/** @typedef {Map<string, Set<number>>} Parts atoms by columns, as `Parts` of render/link_data.py has them */

const NO_END = 1e6;

/** @param {string} part @returns {number[]} */
function columnsOf(part) {
  const [from, to] = part.split("-");
  return [Number(from), to?.includes("+") ? NO_END : Number(to)];
}

/** @param {string} part */
const sizeOf = (part) => columnsOf(part).reduce((from, to) => to - from);

/** The smallest first. @param {Parts | undefined} parts */
const inOrder = (parts) => [...parts?.keys() ?? []].filter(Boolean).sort((a, b) => sizeOf(a) - sizeOf(b));

/**
 * Where an expression stands in a row: the code follows its number and two blanks, without the
 * blanks that all rows of its pane begin with. Columns count bytes.
 * @param {Element} row @param {string} part
 */
function rangeOf(row, part) {
  const text = row.querySelector(":scope > i")?.nextSibling;
  if (!(text instanceof Text) || !part) return null;
  const code = new TextEncoder().encode(text.data.slice(2).trimEnd());
  const indent = Number(row.closest("[data-indent]")?.getAttribute("data-indent") ?? 0);
  const [from, to] = columnsOf(part).map((column) => 2 + new TextDecoder().decode(code.subarray(0, Math.max(column - indent, 0))).length);
  const range = new Range();
  range.setStart(text, from);
  range.setEnd(text, to);
  return range;
}

/** The smallest expressions that atoms came from: each atom counts for one. @param {Parts | undefined} parts @param {Set<number>} atoms */
function madeOf(parts, atoms) {
  const left = new Set(atoms);
  return inOrder(parts).filter((part) => [...parts?.get(part) ?? []].filter((atom) => left.delete(atom)).length);
}

class Expressions {
  /** @param {HTMLElement} root @param {any} lens */
  constructor(root, lens) {
    this.lens = lens;
    this.lines = this.read(lens.web);
    /** The expressions that are marked. @type {Range[]} */
    this.ranges = [];
    lens.web.expressions = this.lines;
    lens.links.refine = this.refine.bind(this);
    root.addEventListener("pointermove", (event) => {
      const row = event.target instanceof Element ? event.target.closest(".source-lines .rows > * > :first-child") : null;
      const { point } = lens.links;
      if (row && point?.line) row.dispatchEvent(new CustomEvent("jl-point", { bubbles: true, detail: this.refine(row, { line: point.line }, event) }));
    });
    root.addEventListener("jl-light", (event) => this.paint(/** @type {CustomEvent} */ (event).detail));
  }

  /** What the expressions on each line stand for, own or in calls. @param {any} web */
  read({ data, atomsOf }) {
    /** @type {Map<string, Parts>} */
    const lines = new Map();
    for (const record of [data.lines, data.calls])
      for (const [line, said] of Object.entries(record ?? {}))
        for (const [part, runs] of divided(said) ? Object.entries(said) : []) {
          const parts = lines.get(line) ?? new Map();
          const own = parts.get(part) ?? new Set();
          for (const atom of unrolled(atomsOf(runs))) own.add(atom);
          lines.set(line, parts.set(part, own));
        }
    return lines;
  }

  /** The smallest expression that the pointer is on, else the line. @param {Element} row @param {Node} node @param {MouseEvent} event @returns {Node} */
  refine(row, node, { clientX: x, clientY: y }) {
    const parts = "line" in node && this.lines.get(node.line);
    if (!parts || parts.size < 2) return node;
    const on = (/** @type {DOMRect} */ { left, right, top, bottom }) => left <= x && x < right && top <= y && y < bottom;
    const part = inOrder(parts).find((part) => [...rangeOf(row, part)?.getClientRects() ?? []].some(on));
    return part ? { ...node, part } : node;
  }

  /** Marks the expression that is pointed at, or those that the atoms came from. @param {{line: string, part: string, atoms: Set<number>}} lit */
  paint({ line, part, atoms }) {
    const registry = /** @type {any} */ (globalThis.CSS)?.highlights;
    if (!registry) return;
    const marked = registry.get("jl-expression") ?? new /** @type {any} */ (globalThis).Highlight();
    registry.set("jl-expression", marked);
    for (const range of this.ranges) marked.delete(range);
    const { web, links } = this.lens;
    const lines = line ? [line] : [...web.owners(atoms), ...web.callers(atoms)];
    this.ranges = lines.flatMap((name) => {
      const parts = line ? [part] : madeOf(this.lines.get(name), atoms);
      return (links.places.get(`\n${name}`) ?? []).flatMap((/** @type {{row: Element}} */ { row }) => parts.flatMap((one) => rangeOf(row, one) ?? []));
    });
    for (const range of this.ranges) marked.add(range);
    const place = this.lens.panes?.tabs.parentElement?.querySelector(".node-details > div > b");
    if (line && part && place && this.ranges[0]) place.textContent = `${line}  ${this.ranges[0]}`;
  }
}

/** Gives every output under `root` that has lines of the user's its expressions. @param {ParentNode} root */
export function live(root) {
  for (const output of root.querySelectorAll(".jaxlens:not([data-expressions])")) {
    if (!(output instanceof HTMLElement)) continue;
    output.setAttribute("data-expressions", "");
    /** @type {any} */ (output).jaxlens?.ready.then((/** @type {any} */ lens) => lens.web.linked && new Expressions(output, lens));
  }
}
