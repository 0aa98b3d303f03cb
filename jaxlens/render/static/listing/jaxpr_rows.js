// @ts-check
/**
 * The rows of a large jaxpr, put together from columns as `views/listings/jaxpr_rows.py` writes them: each is a
 * template with the letters of its variables, as `views/listings/equation.py` has it.
 */
import { MarkedRows, readers } from "./row_source.js";

/**
 * @typedef {[types: string[], words: string, literals: string[], operands: number]} Template
 * @typedef {[region: number, low: number, high: number, indent: number]} Equations
 * @typedef {[words: string, id: string, owner: number]} Single
 * @typedef {object} Region
 * @property {number} owner
 * @property {number[]} starts the first of each run of ids
 * @property {number[]} numbers and its id
 * @property {Int32Array} template by step
 * @property {Int32Array} place by step
 * @property {Int32Array} back by operand
 * @property {Int32Array} names by value
 * @property {Map<number, string>} called by value, where the user's code has a name for it
 * @property {Int32Array} made the first value of each step
 * @property {Int32Array} read the first operand of each step
 */

const [TYPE_SIGN, LITERAL_SIGN, COMMENT_SIGN, FOLD_SIGN] = ["\x02", "\x03", "\x05", "\x07"];
const FOLDED = /\x07[^\0-\x08]*/g;
const LETTERS = "abcdefghijklmnopqrstuvwxyz";

/** a, b, ..., z, ba, bb, ... @param {number} number @returns {string} */
const letters = (number) => (number < 26 ? "" : letters(Math.floor(number / 26))) + LETTERS[number % 26];

/** The last of some numbers in order that is not above one. @param {number[]} starts @param {number} n */
function lastBelow(starts, n) {
  let [low, high] = [0, starts.length];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (starts[middle] > n) high = middle;
    else low = middle;
  }
  return low;
}

/** The user's names by value. @param {number[]} pairs distance from the value before, and name @param {string[]} names */
function named(pairs, names) {
  const called = new Map();
  for (let n = 0, value = 0; n < pairs.length; n += 2) called.set((value += pairs[n]), names[pairs[n + 1]]);
  return called;
}

class JaxprRows extends MarkedRows {
  /** @param {string} text */
  constructor(text) {
    super();
    const end = text.indexOf("\n");
    const { templates, places, lines, names, called, regions, rows } = JSON.parse(text.slice(0, end));
    this.templates = /** @type {Template[]} */ (templates);
    this.words = this.templates.map(([, words]) => words.match(/[\0-\x08][^\0-\x08]*/g) ?? []);
    this.places = /** @type {[string, number][]} */ (places);
    this.lines = /** @type {string[]} */ (lines);
    this.parts = /** @type {(Equations | Single)[]} */ (rows);
    const codes = text.slice(end + 1)[Symbol.iterator]();
    const column = (/** @type {number} */ size) => Int32Array.from({ length: size }, () => {
      const code = codes.next().value?.codePointAt(0) ?? 0;
      return code < 0xe000 ? code : code - 0x800;
    });
    this.regions = /** @type {number[][]} */ (regions).map((sizes, n) => this.region(sizes, column, named(called[n], names)));
    this.count = 0;
    this.starts = this.parts.map((part) => {
      const start = this.count;
      this.count += part.length === 4 ? part[2] - part[1] : 1;
      return start;
    });
    this.wide = this.widest();
  }

  /** @param {number[]} sizes @param {(size: number) => Int32Array} column @param {Map<number, string>} called @returns {Region} */
  region([parameters, owner, steps, operands, values, ...ids], column, called) {
    const [template, place, back, names] = [steps, steps, operands, values].map(column);
    let last = -1;
    names.forEach((code, n) => (names[n] = last += 1 + (code % 2 ? -(code + 1) / 2 : code / 2)));
    const [made, read] = [new Int32Array(steps + 1), new Int32Array(steps + 1)];
    made[0] = parameters;
    template.forEach((number, step) => {
      const [types, , , reads] = this.templates[number];
      made[step + 1] = made[step] + types.length;
      read[step + 1] = read[step] + reads;
    });
    const runs = [0, 1].map((side) => ids.filter((_, n) => n % 2 === side));
    return { owner, starts: runs[0], numbers: runs[1], template, place, back, names, called, made, read };
  }

  /** About the most columns of a row: as if all variables of an equation had the longest name. */
  widest() {
    const most = (/** @type {Iterable<number>} */ sizes) => {
      let largest = 0;
      for (const size of sizes) largest = Math.max(largest, size);
      return largest;
    };
    const own = most(this.regions.map(({ called }) => most([...called.values()].map((name) => name.length + 3))));
    const name = letters(most(this.regions.map(({ names }) => most(names)))).length;
    const indent = most(this.parts.map((part) => (part.length === 4 ? part[3] : 0)));
    const sizes = this.templates.map(([types, words, literals, operands]) =>
      [...types, words, ...literals].join("").replace(FOLDED, "").length
        + 2 * indent + 2 + (types.length + operands) * (name + 1) + types.length * own);
    const singles = this.parts.map((part) => (part.length === 4 ? 0 : part[0].replace(FOLDED, "").length));
    return Math.max(most(sizes), most(singles));
  }

  /** The part that holds a row, and which step or none. @param {number} n @returns {[Equations | Single, number]} */
  at(n) {
    const place = lastBelow(this.starts, n);
    const part = this.parts[place];
    return [part, part.length === 4 ? part[1] + n - this.starts[place] : -1];
  }

  /** @param {number} n */
  row(n) {
    const [part, step] = this.at(n);
    return part.length === 4 ? this.equation(this.regions[part[0]], step, part[3]) : part[0];
  }

  /** @param {Region} region @param {number} step @param {number} indent */
  equation(region, step, indent) {
    const number = region.template[step];
    const [types, , literals] = this.templates[number];
    let [row, last] = ["", "\0"];
    const put = (/** @type {string} */ sign, /** @type {string} */ words) => {
      if (words) row += sign === last ? words : sign + words;
      if (words) last = sign;
    };
    put("\0", "  ".repeat(indent));
    const first = region.made[step];
    types.forEach((type, n) => {
      const name = region.names[first + n];
      const letter = name < 0 ? "_" : letters(name);
      put("\0", letter);
      const own = region.called.get(first + n);
      if (own && own !== letter) put(COMMENT_SIGN, ` (${own})`);
      put(TYPE_SIGN, type);
      put("\0", " ");
    });
    if (types.length) put("\0", "= ");
    for (const word of this.words[number]) put(word[0], word.slice(1));
    let literal = 0;
    for (const distance of region.back.subarray(region.read[step], region.read[step + 1])) {
      const name = region.names[first - distance];
      if (!distance) put(LITERAL_SIGN, literals[literal++]);
      else put("\0", name < 0 ? ` _${-name}` : ` ${letters(name)}`);
    }
    const [scope] = this.places[region.place[step]];
    if (scope) put(FOLD_SIGN, `  # in ${scope}`);
    return row;
  }

  /** @param {number} n */
  id(n) {
    const [part, step] = this.at(n);
    if (part.length !== 4) return part[1];
    const { starts, numbers } = this.regions[part[0]];
    const run = lastBelow(starts, step);
    return `e${numbers[run] + step - starts[run]}`;
  }

  /** @param {number} n */
  owner(n) {
    const [part, step] = this.at(n);
    if (part.length !== 4) return this.lines[part[2]] ?? "";
    const region = this.regions[part[0]];
    const own = this.places[region.place[step]][1];
    return this.lines[own < 0 ? region.owner : own] ?? "";
  }
}

/** Tells the lists that wait for this reader that it is there. @param {ParentNode} root */
export function live(root) {
  readers.jaxpr = (text) => new JaxprRows(text);
  for (const output of root.querySelectorAll(".jaxlens")) output.dispatchEvent(new CustomEvent("jl-reader"));
}
