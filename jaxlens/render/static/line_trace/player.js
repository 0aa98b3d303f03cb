// @ts-check
/**
 * The trace tape: goes through a function's lines as JAX traced them, forwards and backwards, with
 * the variables as they were and the equations recorded so far. What it shows is Python's data
 * (`render/html/line_trace.py`); a step back is all steps up to it played again, so both ways say the same.
 */
import { button, create, embedded } from "../viewer/elements.js";

/** @typedef {[number, number, number, number, number, string[], string[], string, string[]]} TapeStep */
/** @typedef {{files: [string, [number, string][]][], names: string[], steps: TapeStep[], eqns: Record<string, string>}} TapeData */

const [CALL, AFTER, RESUME] = [0, 3, 5];
const WORDS = ["start of ", "", "end of ", "", "pause of ", "on in "];
const NEWEST = 12;
/** Steps up to which the table of all of them is open. */
const FEW = 12;

class Player {
  /** @param {HTMLElement} root @param {HTMLElement} host @param {TapeData} tape */
  constructor(root, host, tape) {
    Object.assign(this, { root, tape });
    this.root = root;
    this.tape = tape;
    this.at = 0;
    this.file = -2;
    const last = tape.steps.length - 1;
    this.slide = create("input", "", { type: "range", min: "0", max: String(last), value: "0", "aria-label": "Step" });
    this.slide.addEventListener("input", () => this.go(Number(this.slide.value)));
    this.said = create("span", "now", { role: "status" });
    const go = (/** @type {string} */ sign, /** @type {string} */ title, /** @type {() => number} */ where) =>
      button(sign, title, () => this.go(where()));
    const buttons = create("div", "buttons", {},
      go("|◀", "First step", () => 0),
      go("◀", "One step back", () => this.at - 1),
      go("▶", "One step on", () => this.at + 1),
      go("over", "On, over the call", () => this.over()),
      go("▶|", "Last step", () => last),
      this.said,
    );
    this.code = create("pre", "rows", { tabindex: "0", role: "group", "aria-label": "Code" });
    this.vars = create("tbody", "");
    this.rows = create("div", "");
    const table = create("table", "", {}, create("caption", "", {}, "Variables"), this.vars);
    const side = create("div", "side", {}, table, create("b", "", {}, "Recorded"), this.rows);
    const player = create("div", "trace-player", {}, buttons, this.slide, create("div", "both", {}, this.code, side));
    const all = create("details", "", {}, create("summary", "", {}, "All steps"));
    all.append(...[...host.childNodes].filter((node) => !(node instanceof HTMLScriptElement)));
    all.open = last < FEW;
    host.prepend(player, all);
    this.go(0);
  }

  /** The next step that is no deeper than this one. */
  over() {
    const { steps } = this.tape;
    let next = this.at + 1;
    while (next < steps.length - 1 && steps[next][4] > steps[this.at][4]) next++;
    return next;
  }

  /** Plays the tape up to a step. @param {number} at */
  go(at) {
    const { steps } = this.tape;
    this.at = Math.max(0, Math.min(at, steps.length - 1));
    this.slide.value = String(this.at);
    /** @type {Map<string, [string, boolean]>[]} */
    const frames = [];
    /** @type {string[]} */
    const eqns = [];
    for (let n = 0; n <= this.at; n++) {
      const [event, , , , depth, bound, recorded] = steps[n];
      if (event === CALL || event === RESUME) frames.splice(depth, frames.length, new Map());
      frames.length = Math.min(frames.length, depth + 1);
      const frame = frames[depth];
      frame?.forEach((value) => (value[1] = false));
      for (let i = 0; i < bound.length; i += 2) frame?.set(bound[i], [bound[i + 1], true]);
      eqns.push(...recorded);
    }
    this.show(steps[this.at], frames[steps[this.at][4]] ?? new Map(), eqns);
  }

  /** @param {TapeStep} step @param {Map<string, [string, boolean]>} frame @param {string[]} eqns */
  show([event, file, line, name, , , recorded, printed, notes], frame, eqns) {
    const { names, files, steps } = this.tape;
    const words = event === AFTER ? "JAX, when the function is done" : WORDS[event] + names[name];
    this.said.textContent = `step ${this.at + 1} of ${steps.length}: ${words}`;
    if (file !== this.file && file >= 0) this.list(file);
    for (const row of this.code.children)
      if (row.toggleAttribute("aria-current", event !== AFTER && row.getAttribute("data-n") === String(line))) this.seen(row);
    this.code.querySelectorAll(".said").forEach((old) => old.remove());
    const said = [...(printed ? [`prints: ${printed}`] : []), ...notes];
    const current = this.code.querySelector("[aria-current]");
    if (said.length) (current ?? this.code).append(...said.map((text) => create("div", "said", {}, text)));
    this.vars.replaceChildren(...[...frame].map(([variable, [text, now]]) =>
      create("tr", now ? "new" : "", {}, create("th", "", { scope: "row" }, variable), create("td", "", {}, text, now ? " ●" : ""))));
    const from = Math.max(0, Math.min(eqns.length - NEWEST, eqns.length - recorded.length));
    const shown = eqns.slice(Math.min(from, Math.max(0, eqns.length - NEWEST)));
    const more = eqns.length - shown.length;
    this.rows.replaceChildren(
      ...(more ? [create("div", "remark", {}, `${more} before`)] : []),
      ...shown.map((id) => create("div", recorded.includes(id) ? "new" : "", { "data-id": id }, `${recorded.includes(id) ? "● " : "  "}${this.tape.eqns[id] ?? id}`)),
      ...(eqns.length ? [] : [create("div", "remark", {}, "no equation yet")]),
    );
    const stage = recorded.length ? { stage: "jaxpr", id: recorded[recorded.length - 1] } : null;
    this.root.dispatchEvent(new CustomEvent("jl-point", { detail: stage ?? (event === AFTER ? null : { line: `${files[file]?.[0]}:${line}` }) }));
  }

  /** Scrolls the code, and nothing else, until a line can be seen. @param {Element} row */
  seen(row) {
    const [inner, outer] = [row.getBoundingClientRect(), this.code.getBoundingClientRect()];
    if (inner.top < outer.top || inner.bottom > outer.bottom) this.code.scrollTop += inner.top - outer.top - outer.height / 3;
  }

  /** @param {number} file */
  list(file) {
    const lines = this.tape.files[file]?.[1] ?? [];
    this.file = file;
    let before = 0;
    this.code.replaceChildren(...lines.flatMap(([number, text]) => {
      const gap = before && number > before + 1 ? [create("div", "remark", {}, "⋯")] : [];
      before = number;
      return [...gap, create("div", "", { "data-n": String(number) }, create("i", "", {}, String(number)), text || " ")];
    }));
  }
}

/** Brings the line traces of every output under `root` to life. @param {ParentNode} root */
export function live(root) {
  for (const host of root.querySelectorAll(".jaxlens .line-trace:not([data-live])")) {
    const output = host.closest(".jaxlens");
    if (!(host instanceof HTMLElement) || !(output instanceof HTMLElement)) continue;
    host.setAttribute("data-live", "");
    const ready = /** @type {any} */ (output).jaxlens?.ready;
    Promise.all([embedded(host, "tape"), ready]).then(([trace]) => {
      if (trace) new Player(output, host, trace);
    });
  }
}
