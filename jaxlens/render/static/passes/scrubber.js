// @ts-check
/**
 * The pass scrubber: a slider over the passes that changed something, above it a bar for the
 * instructions after each, below it what the pass did and the rows that it changed.
 *
 * The rows have the stage `pass:INDEX`, so that pointing and lighting work as in any listing.
 * All is built when the pane is first seen; without it a table says the same.
 */
import { button, create, embedded } from "../viewer/elements.js";
import { scrollTo } from "../viewer/rows.js";
import { atomsOfRow, endsAt, fillStep, passPlan, decodePasses, passRow } from "./rows.js";
import { PassSlide } from "./slider.js";

/** @typedef {import("./rows.js").PassData} PassData */
/** @typedef {import("./rows.js").PassStepData} PassStepData */
/** @typedef {{stage?: string, id?: string} | null} PassSpot */

// Drawn at once; more on demand
const PASS_ROWS = 1500;

/** The scrubber of one pane. */
export class PassScrubber {
  ended = button("Where it ended", "", () => this.jump());
  whole = create("input", "", { type: "checkbox" });
  said = create("div", "said", { "aria-live": "polite" });
  rows = create("pre", "rows", { "data-own": "marks", role: "group" });
  table = create("details", "", {}, create("summary", "", {}, "All passes in a table"));
  head = create("div", "scrub");

  /** @param {HTMLElement} pane @param {PassData} data */
  constructor(pane, data) {
    this.data = data;
    this.root = /** @type {HTMLElement & {jaxlens?: any}} */ (pane.closest(".jaxlens"));
    this.slide = new PassSlide(data.steps, () => this.show());
    /** @type {PassSpot} */
    this.pinned = null;
    /** @type {{atoms: Set<number>, calls?: Set<number>, stage?: string, id?: string}} */
    this.lit = { atoms: new Set() };
    /** @type {Map<HTMLElement, number[]>} rows on the page, and the lines that each shows or stands for */
    this.drawn = new Map();
    /** The source line of the row made last: the first of a run tells it. */
    this.owner = "";
    /** @type {number | undefined} */
    this.end = undefined;
    this.build(pane);
    /** @param {string} name @param {(detail: any) => void} act */
    const listen = (name, act) =>
      this.root.addEventListener(name, (event) => act(/** @type {CustomEvent} */ (event).detail));
    listen("jl-pin", (spot) => this.pin(spot));
    listen("jl-light", (light) => this.light(light));
    listen("jl-reveal", (spot) => this.reveal(spot));
    listen("jl-kernel", () => this.step.lines || this.draw());
    this.slide.go(this.slide.at, true);
  }

  get step() {
    return this.data.steps[this.slide.at];
  }

  /** @param {HTMLElement} pane */
  build(pane) {
    this.whole.addEventListener("change", () => this.draw());
    const label = create("label", "", {}, this.whole, " whole program");
    const buttons = create("div", "buttons", {}, ...this.slide.buttons, this.ended, label);
    this.head.append(this.slide.track, buttons, this.said);
    this.table.append(...pane.childNodes);
    this.table.addEventListener("click", (event) => this.choose(event.target));
    if (!pane.closest(".pane-body")) this.rows.tabIndex = 0;
    pane.append(this.head, this.rows, this.table);
  }

  /** Shows the step that the scrubber stands at. */
  show() {
    const { step } = this;
    const { at } = this.slide;
    for (const row of this.tableRows())
      if (row.cells[0].textContent === `${step.index}`) row.setAttribute("aria-current", "step");
      else row.removeAttribute("aria-current");
    const sizes = this.data.steps.slice(Math.max(at - 1, 0), at + 1).map(({ size }) => size);
    const counts = sizes.map((n) => n?.toLocaleString("en")).filter(Boolean).join(" → ");
    const facts = [counts && `${counts} instructions`, step.did].filter(Boolean).join(": ");
    this.said.replaceChildren(
      create("b", "", { "data-pass": step.name.replace(/^start of /, "") }, at ? `${step.index}: ${step.title}` : step.title),
      create("span", "", {}, facts),
      create("div", "", {}, step.for),
    );
    this.rows.setAttribute("data-stage", `pass:${step.index}`);
    this.rows.setAttribute("aria-label", `program after ${step.name}`);
    (this.rows.closest(".pane-body") ?? this.rows).scrollTop = 0;
    this.draw();
    this.pin(this.pinned);
  }

  /** @returns {HTMLTableRowElement[]} */
  tableRows() {
    return [...this.table.querySelectorAll("tbody tr")].map(
      (row) => /** @type {HTMLTableRowElement} */ (row),
    );
  }

  /** @param {EventTarget | null} target a place in the table */
  choose(target) {
    const row = target instanceof Element ? target.closest("tbody tr") : null;
    const index = row?.firstElementChild?.textContent;
    const place = this.data.steps.findIndex((step) => `${step.index}` === index);
    if (place >= 0) this.slide.go(place);
  }

  /** Writes the rows of the step: those that changed, or the program after it. */
  draw() {
    const { step } = this;
    if (!step.lines) this.ask(step);
    else this.write(step, passPlan(this.data, step, this.whole.checked || !this.slide.at));
  }

  /** @param {PassStepData} step @param {(number | number[])[]} plan */
  write(step, plan) {
    this.drawn.clear();
    this.owner = "";
    this.link(step);
    const shown = plan.slice(0, PASS_ROWS).map((item) => this.item(step, item));
    const left = plan.slice(PASS_ROWS).flat();
    if (left.length) shown.push(this.folded(step, left, `${left.length} more rows`));
    if (plan.every(Array.isArray)) shown.unshift(create("em", "", {}, "Every row is as it was.\n"));
    this.rows.replaceChildren(...shown);
    this.settle();
  }

  /** @param {PassStepData} step @param {number | number[]} item */
  item(step, item) {
    if (Array.isArray(item)) return this.folded(step, item, `${item.length} the same`);
    return this.row(step, item);
  }

  /** @param {PassStepData} step @param {number} place */
  row(step, place) {
    const element = passRow(this.data, step, place);
    element.classList.toggle("own", element.title !== this.owner);
    this.owner = element.title;
    this.drawn.set(element, [step.lines?.[place] ?? 0]);
    return element;
  }

  /** Tells the web which atoms the rows of a step have. @param {PassStepData} step */
  link(step) {
    /** @type {Record<string, number[]>} */
    const nodes = {};
    for (const line of step.lines ?? []) {
      const [, id, , ...runs] = this.data.lines[line];
      if (id && runs.length) nodes[id] = runs;
    }
    this.root.jaxlens?.web?.add(`pass:${step.index}`, nodes);
  }

  /** A button that gives way to its rows. @param {PassStepData} step @param {number[]} rows @param {string} text */
  folded(step, rows, text) {
    const element = button(text, "", () => {
      const next = rows.slice(0, PASS_ROWS).map((place) => this.row(step, place));
      const left = rows.slice(PASS_ROWS);
      this.drawn.delete(element);
      next[0].tabIndex = -1;
      if (left.length) next.push(this.folded(step, left, `${left.length} more rows`));
      element.replaceWith(...next);
      next[0].focus();
      this.settle();
    });
    element.setAttribute("data-row", "");
    this.drawn.set(element, rows.map((place) => step.lines?.[place] ?? 0));
    return element;
  }

  /** A step whose rows did not travel with the output: a live kernel may have them. @param {PassStepData} step */
  async ask(step) {
    const fetch = this.root.jaxlens?.fetch;
    this.rows.replaceChildren(fetch ? "Asking the kernel for this step …" : this.data.note);
    if (!fetch) return;
    try {
      const sent = decodePasses(await fetch({ pass: step.index }));
      if (sent.steps[0]?.title !== step.title) throw new Error("the kernel has other passes now");
      fillStep(this.data, step, sent);
    } catch (error) {
      this.rows.replaceChildren(`${this.data.note} (${error})`);
      return;
    }
    if (this.step === step) this.draw();
  }

  /**
   * Marks the rows that have an atom of what is lit, and the one that is pinned.
   * @param {{atoms: Set<number>, calls?: Set<number>, stage?: string, id?: string}} light
   */
  light(light) {
    this.lit = light;
    this.relight();
  }

  /** Rows came or went. */
  settle() {
    this.relight();
    this.root.dispatchEvent(new CustomEvent("jl-rows"));
  }

  relight() {
    const { atoms, calls, stage, id } = this.lit;
    const here = this.rows.getAttribute("data-stage");
    for (const [row, lines] of this.drawn) {
      const own = lines.flatMap((line) => atomsOfRow(this.data, line));
      const name = row.getAttribute("data-id");
      const lit = own.some((atom) => atoms.has(atom));
      row.classList.toggle("lit", lit);
      row.classList.toggle("call", !lit && own.some((atom) => calls?.has(atom)));
      row.classList.toggle("pointed", stage === here && name === id);
      row.classList.toggle("pin", this.pinned?.stage === here && name === this.pinned?.id);
    }
  }

  /** What is pinned decides what "where it ended" means. @param {PassSpot} spot */
  pin(spot) {
    this.pinned = spot;
    const id = spot?.id;
    this.end = id ? this.endOf(spot?.stage ?? "", id) : undefined;
    this.ended.disabled = this.end === undefined || this.end < 0;
    this.ended.textContent = !id || this.end === undefined ? "Where it ended"
      : this.end < 0 ? `No pass ended ${id}` : `Where ${id} ended`;
    this.ended.title = !id ? "Pin an equation or an instruction first"
      : this.end === undefined ? `It is not known which pass ended ${id}` : "";
  }

  /**
   * The step at which an equation or an instruction ended; -1 for none, undefined where that is
   * not known.
   * @param {string} stage @param {string} id
   */
  endOf(stage, id) {
    const { steps } = this.data;
    if (stage === "jaxpr" || stage === "stablehlo") {
      const { web } = this.root.jaxlens ?? {};
      if (!web?.ends.size) return undefined;
      const equations = stage === "jaxpr" ? [id] : [...web.touched("jaxpr", web.atoms(stage, id))];
      const index = equations.map((each) => web.ends.get(each)).find((n) => n !== undefined);
      return index === undefined ? -1 : steps.findIndex((step) => step.index >= index);
    }
    if (stage !== "hlo" && !stage.startsWith("pass:")) return undefined;
    const from = Math.max(0, steps.findIndex((step) => `pass:${step.index}` === stage));
    const place = steps.findIndex((step, n) => n >= from && endsAt(this.data, step, id));
    return place >= 0 || steps.slice(from).every((step) => step.lines) ? place : undefined;
  }

  /** Goes to where the pinned node ended, and to its row there. */
  jump() {
    if (this.end === undefined || this.end < 0) return;
    const id = this.pinned?.id ?? "";
    this.whole.checked = false;
    this.slide.go(this.end, true);
    const rows = [...this.drawn.keys()];
    const row = rows.find((row) => row.matches(".was.lit")) ?? rows.find((row) => row.matches(".lit"));
    this.look(rows.find((row) => row.matches(".was") && row.dataset.id === id) ?? row);
  }

  /** @param {HTMLElement | undefined} row */
  look(row) {
    if (!row) return;
    scrollTo(row, "center");
    const hidden = this.head.getBoundingClientRect().bottom - row.getBoundingClientRect().top;
    const body = row.closest(".pane-body");
    if (body && hidden > -24) body.scrollTop -= hidden + 24;
  }

  /** Another pane asks for a row of a step. @param {PassSpot} spot */
  reveal(spot) {
    const place = this.data.steps.findIndex((step) => `pass:${step.index}` === spot?.stage);
    if (place < 0) return;
    this.whole.checked = true;
    this.slide.go(place, true);
    this.look([...this.drawn.keys()].find((row) => row.dataset.id === spot?.id));
  }
}

/** Builds the scrubber of each pane of an output when it is first seen. @param {HTMLElement} root */
function passesIn(root) {
  const watch = new IntersectionObserver((seen) => {
    for (const { target, isIntersecting } of seen) {
      if (!isIntersecting || !(target instanceof HTMLElement)) continue;
      watch.unobserve(target);
      embedded(target, "passes").then((data) => data && new PassScrubber(target, decodePasses(data)));
    }
  });
  root.querySelectorAll(".passes").forEach((pane) => watch.observe(pane));
}

/** Brings the scrubbers of every output under `root` to life once its links are there. @param {ParentNode} root */
export function live(root) {
  for (const output of root.querySelectorAll(".jaxlens:not([data-passes])")) {
    if (!(output instanceof HTMLElement) || !output.querySelector(".passes")) continue;
    output.setAttribute("data-passes", "");
    /** @type {any} */ (output).jaxlens?.ready.then(() => passesIn(output));
  }
}
