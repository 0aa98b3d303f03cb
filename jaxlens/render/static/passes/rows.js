// @ts-check
/**
 * A step of the pass scrubber as rows: which are shown, and each as an element.
 * Rows were matched and marked in Python (`views/passes/rows.py`); rows without an id are titles of
 * computations. All words are text nodes.
 */
import { create } from "../viewer/elements.js";
import { unrolled } from "../viewer/link_data.js";
import { KIND_TAGS } from "../viewer/rows.js";

/**
 * @typedef {[text: string, id: string, owner: number, ...atoms: number[]]} PassLine
 * @typedef {{index: number, title: string, name: string, size: number | null, did: string,
 *   for: string, marks?: string, lines?: number[], notes?: number[]}} PassStepData
 * @typedef {{marks: Record<string, [word: string, sign: string, tint: string]>, note: string,
 *   steps: PassStepData[], lines: PassLine[], owners: [name: string, hue: number][],
 *   notes: string[]}} PassData
 */

const PASS_SAME = "a";
// Rows that are the same and stand alone between others are shown
const PASS_NEAR = 2;

/**
 * What is shown of a step: rows, and between them runs of rows that are the same.
 * @param {PassData} data @param {PassStepData} step @param {boolean} whole
 * @returns {(number | number[])[]} places of rows; a list of them stands behind a button
 */
export function passPlan(data, step, whole) {
  const rows = (step.lines ?? []).map((_, row) => row);
  const marks = step.marks ?? "";
  if (whole) return rows.filter((row) => marks[row] === marks[row].toLowerCase());
  /** @type {(number | number[])[]} */
  const plan = [];
  /** @param {number[]} run */
  const fold = (run) => {
    const last = plan.at(-1);
    if (Array.isArray(last)) last.push(...run);
    else plan.push([...run]);
  };
  for (const part of passParts(data, step, rows)) {
    if (part.every((row) => marks[row] === PASS_SAME)) fold(part);
    else {
      plan.push(part[0]);
      for (const row of part.slice(1)) marks[row] === PASS_SAME ? fold([row]) : plan.push(row);
    }
  }
  const titled = (/** @type {number} */ row) => !data.lines[step.lines?.[row] ?? 0][1];
  return plan.flatMap((item) =>
    Array.isArray(item) && item.length <= PASS_NEAR && !item.some(titled) ? item : [item],
  );
}

/**
 * The rows of each computation, its title first.
 * @param {PassData} data @param {PassStepData} step @param {number[]} rows
 */
function passParts(data, step, rows) {
  /** @type {number[][]} */
  const parts = [];
  for (const row of rows) {
    const titled = !data.lines[step.lines?.[row] ?? 0][1];
    if (titled || !parts.length) parts.push([]);
    parts[parts.length - 1].push(row);
  }
  return parts;
}

/**
 * One row: what became of it, what it says, and a note on that.
 * @param {PassData} data @param {PassStepData} step @param {number} row
 */
export function passRow(data, step, row) {
  const [text, id, owner] = data.lines[step.lines?.[row] ?? 0];
  const letter = step.marks?.[row] ?? PASS_SAME;
  const [word, sign, tint] = data.marks[letter.toLowerCase()];
  const gone = letter !== letter.toLowerCase();
  const said = gone && word === "rewritten" ? "was" : word;
  const mark = create("i", "", {}, letter === PASS_SAME ? "" : `${sign} ${said}`);
  if (tint) mark.style.background = tint;
  const note = step.notes?.[row] ?? 0;
  const [line, hue] = owner ? data.owners[owner - 1] : ["", -1];
  const element = create("div", hue < 0 ? "" : `hue${hue}`, {}, mark, ...passWords(text));
  if (note) element.append(create("u", "", {}, data.notes[note - 1]));
  if (id) element.setAttribute("data-id", id);
  if (line) element.title = line;
  element.classList.toggle("was", gone);
  element.classList.toggle("title", !id);
  element.setAttribute("data-row", "");
  return element;
}

/** @param {PassData} data @param {number} line */
export function atomsOfRow(data, line) {
  const [, , , ...runs] = data.lines[line];
  return unrolled(runs);
}

/** Whether a step is the last of an instruction. @param {PassData} data @param {PassStepData} step @param {string} id */
export const endsAt = (data, step, id) =>
  (step.lines ?? []).some(
    (line, row) => data.lines[line][1] === id && (step.marks?.[row] ?? "a") < "a",
  );

/** @param {string} text with a control character before each kind of words */
const passWords = (text) =>
  text.split(/(?=[\0-\x08])/).map((piece) => {
    const tag = KIND_TAGS[piece.charCodeAt(0)];
    return tag ? create(tag, "", {}, piece.slice(1)) : piece.replace("\0", "");
  });

/**
 * Puts in full what travels short: ids that are the first word, numbers of lines.
 * @param {any} data as Python wrote it @returns {PassData}
 */
export function decodePasses(data) {
  for (const line of data.lines)
    if (line[1] === 1) line[1] = /^(?:ROOT )?(\S+)/.exec(line[0].replace(/[\0-\x08]/g, ""))?.[1];
  for (const step of data.steps) {
    let at = 0;
    step.lines = step.lines?.map((/** @type {number} */ by) => (at += by));
  }
  return data;
}

/**
 * Puts the rows that a live kernel sent where the step has none.
 * @param {PassData} data @param {PassStepData} step @param {PassData} sent
 */
export function fillStep(data, step, sent) {
  const [lines, owners, notes] = [data.lines.length, data.owners.length, data.notes.length];
  data.owners.push(...sent.owners);
  data.notes.push(...sent.notes);
  for (const [text, id, owner, ...atoms] of sent.lines)
    data.lines.push([text, id, owner && owner + owners, ...atoms]);
  const [filled] = sent.steps;
  Object.assign(step, filled, {
    lines: filled.lines?.map((line) => line + lines),
    notes: filled.notes?.map((note) => note && note + notes),
  });
}
