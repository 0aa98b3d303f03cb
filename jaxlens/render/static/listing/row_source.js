// @ts-check
/**
 * Where the rows of a long listing come from. A list asks a source for what it is about to show,
 * so a source may make rows as they are looked at.
 *
 * @typedef {object} Source
 * @property {number} count how many rows it has
 * @property {number} wide the most columns of a row
 * @property {(n: number) => string} html what row n shows; names of programs are escaped
 * @property {(n: number) => string} text the same without marks, for search and copy
 * @property {(n: number) => string} id its node, "" for none
 * @property {(n: number) => string} owner the source line that owns it ("cell 3:4"), "" for none
 * @property {(n: number) => number} folds how many rows it stands for until it is opened
 */
import { firstWord, idOf, KIND_TAGS } from "../viewer/rows.js";

/** @typedef {{rows: string[], ids: (number | string)[], lines: string[], owner: number[], wide: number, rule?: string[]}} Written a rule finds words that are not marked: `lazy_lines.Rule` */

/** @type {Record<string, string>} */
const ENTITIES = { "&": "&amp;", "<": "&lt;", ">": "&gt;" };

/** Rows as `payload.lines_data` writes them, with a control character before each kind of words. @implements {Source} */
class WrittenRows {
  /** @param {Written} data */
  constructor({ rows, ids, lines, owner, wide, rule }) {
    this.rows = rows;
    this.rule = rule ?? ["(?!)", ""];
    this.count = rows.length;
    this.wide = wide;
    this.lines = ["", ...lines];
    this.owners = owner;
    let last = "";
    this.ids = ids.map((id, n) => (typeof id === "string" ? (last = id) : id > 0 ? (last = this.named(id, n, last)) : ""));
    this.folded = ids.map((id) => (typeof id === "number" && id < 0 ? -id : 0));
  }

  /** A node that is not named: 1 the row's first word, 2 that of the row before, 3 the next number. @param {number} how @param {number} n @param {string} last */
  named(how, n, last) {
    if (how === 1) return firstWord(this.text(n));
    return how === 2 ? last : last.replace(/\d+$/, (digits) => String(Number(digits) + 1));
  }

  /** @param {number} n */
  html(n) {
    const [source, signs] = this.rule;
    return this.rows[n].replace(new RegExp(source, "g"), (_, ...words) => [...signs].map((sign, i) => words[i] && `${sign}${words[i]}\0`).join(""))
      .replace(/[&<>]/g, (sign) => ENTITIES[sign])
      .replace(/([\0-\x08])([^\0-\x08]*)/g, (_, sign, words) => {
        const tag = KIND_TAGS[sign.charCodeAt(0)];
        return tag ? `<${tag}${tag === "tt" ? " hidden=1" : ""}>${words}</${tag}>` : words;
      }) || "<br>";
  }

  /** @param {number} n */
  text(n) {
    return this.rows[n].replace(/[\0-\x08]/g, "");
  }

  /** @param {number} n */
  id(n) {
    return this.ids[n];
  }

  /** @param {number} n */
  owner(n) {
    return this.lines[this.owners[n]];
  }

  /** @param {number} n */
  folds(n) {
    return this.folded[n];
  }
}

/** The rows that stand in the HTML. @implements {Source} */
export class ShownRows {
  /** @param {Element} pre */
  constructor(pre) {
    this.rows = [...pre.children].flatMap((run) => [...run.children]);
    this.shown = this.rows.map((row) => row.innerHTML);
    this.count = this.rows.length;
    this.wide = Math.max(0, ...this.rows.map((row) => row.textContent?.length ?? 0));
  }

  /** @param {number} n */
  html(n) {
    return this.shown[n];
  }

  /** @param {number} n */
  text(n) {
    return this.rows[n].textContent ?? "";
  }

  /** @param {number} n */
  id(n) {
    return idOf(this.rows[n]);
  }

  /** @param {number} n */
  owner(n) {
    return this.rows[n].parentElement?.getAttribute("data-line") ?? "";
  }

  /** @param {number} n */
  folds(n) {
    return Number(this.rows[n].getAttribute("data-folds"));
  }
}

/** What stands beside a listing: a line of JSON, then the rows. @param {string} text @returns {Source} */
export function writtenSource(text) {
  const [head, ...rows] = text.split("\n");
  return new WrittenRows({ ...JSON.parse(head), rows });
}

/** What a kernel answers. @param {any} data @returns {Source} */
export const answeredSource = (data) => new WrittenRows({ ...data, rows: data.rows.split("\n") });
