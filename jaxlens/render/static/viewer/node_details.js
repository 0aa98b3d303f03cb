// @ts-check
/**
 * The strip under the panes about the pinned node, else the one pointed at: its fate, links to its
 * nodes at each stage, and its Python call stack. The strip keeps its height, so that nothing moves
 * while the pointer does.
 */
import { button, create } from "./elements.js";
import { lists } from "./rows.js";

/** @typedef {{stage: string, id: string, line: string, atoms: Set<number>, calls: Set<number>}} Reach */

const STAGES_IN_ORDER = ["jaxpr", "stablehlo", "hlo", "optimized", "kernels"];
const STAGE_NAMES = { jaxpr: "jaxpr", stablehlo: "StableHLO", hlo: "HLO before optimisation", before: "the program before fusion", optimized: "Optimised HLO", kernels: "Kernels" };
/** @type {Record<string, string>} */
const NOUNS = { jaxpr: "equation", stablehlo: "op" };
const HOW = {
  stamped: "known by exact ids carried through the compiler",
  value: "known because both compute the same of the same",
  named: "known by name, opcode and type",
  span: "known by source position",
  inferred: "inferred from neighbours",
};
const HINT = "Point at anything to see what it came from and what it became. Click pins it, Escape lets go (keys: ?).";

/** @param {number} n @param {string} noun */
const counted = (n, noun) => `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;

/** @param {string} words */
const sentence = (words) => (/[.!?]$/.test(words) ? words : `${words}.`);

/** A node's name; a fold of a graph has those of all that is in it. @param {string} id */
function nameOf(id) {
  const ids = id.split(" ");
  if (ids.length <= 3) return id;
  const number = (/** @type {string} */ one) => Number(/\d+$/.exec(one)?.[0] ?? 0);
  const [low, high] = ids.reduce(([low, high], one) =>
    [number(one) < number(low) ? one : low, number(one) > number(high) ? one : high], [ids[0], ids[0]]);
  return `${low} … ${high}`;
}

export class NodeDetails {
  /** @param {HTMLElement} root */
  constructor(root) {
    this.root = root;
    this.lens = /** @type {any} */ (root).jaxlens;
    this.strip = create("div", "node-details", { role: "group", "aria-label": "What is pinned or pointed at" });
    this.announcement = create("div", "screen-reader", { "aria-live": "polite" });
    // Without links it would have nothing to say.
    this.strip.hidden = !this.lens.web.linked;
    this.lens.panes.tabs.after(this.strip, this.announcement);
    this.shown = "";
    this.turns = new Map();
    root.addEventListener("jl-light", () => this.show());
    root.addEventListener("jl-pin", () => this.announce(this.lens.links.reach(this.lens.links.pinned)));
    this.show();
  }

  show() {
    const { links } = this.lens;
    const node = links.pinned ?? links.point;
    const key = JSON.stringify([node, Boolean(links.pinned)]);
    if (key === this.shown) return;
    this.shown = key;
    const reach = links.reach(node);
    this.strip.classList.toggle("pinned", Boolean(links.pinned));
    if (!node) return this.strip.replaceChildren(create("div", "hint", {}, HINT));
    const first = create("div", "", {}, create("b", "", {}, reach.line || nameOf(reach.id)), " ", ...this.description(reach));
    if (links.pinned) first.append(" ", button("×", "Let go (Escape)", () => this.unpin()));
    this.strip.replaceChildren(first, this.ways(reach), ...this.lineage(reach));
  }

  unpin() {
    this.root.dispatchEvent(new CustomEvent("jl-pin", { detail: null }));
  }

  /** A description in words. @param {Reach} reach */
  description(reach) {
    const { web } = this.lens;
    if (reach.line) return [this.lineSummary(reach)];
    const fate = reach.stage === "jaxpr" ? web.fates.get(reach.id) : "";
    const ids = reach.id.split(" ");
    const word = ids.length > 3 ? counted(ids.length, NOUNS[reach.stage] ?? "instruction") : this.opcode(reach);
    const parts = [create("code", "", {}, word), ` in ${this.title(reach.stage)}${fate ? `: ${sentence(fate)}` : "."}`];
    const madeBy = web.made.get(reach.id);
    if (reach.stage === "jaxpr" && madeBy?.length) parts.push(` Made by ${madeBy.join(" of ")}.`);
    const how = web.how(reach.stage, reach.id);
    if (how) parts.push(create("small", "", { title: /** @type {any} */ (HOW)[how] ?? "" }, how));
    if (!reach.atoms.size) parts.push(" What it came from is not known.");
    return parts;
  }

  /** @param {Reach} reach */
  lineSummary({ atoms, calls }) {
    if (!atoms.size && !calls.size) return "maps to nothing: no equation was made here";
    const noun = this.lens.web.stages.has("stablehlo") ? "op" : "equation";
    const own = atoms.size ? `owns ${counted(atoms.size, noun)}` : `owns no ${noun}`;
    return `${own}${calls.size ? `, ${counted(calls.size, `more ${noun}`)} in calls` : ""}${this.fateSummary(atoms.size ? atoms : calls)}.`;
  }

  /** What became of the equations of a line, the most frequent first. @param {Set<number>} atoms */
  fateSummary(atoms) {
    const { web } = this.lens;
    /** @type {Map<string, string[]>} */
    const kinds = new Map();
    const equations = web.touched("jaxpr", atoms);
    for (const id of equations) {
      const word = /^\w+/.exec(web.fates.get(id) ?? "")?.[0].toLowerCase();
      if (word) kinds.set(word, [...(kinds.get(word) ?? []), id]);
    }
    const parts = [...kinds].sort((a, b) => b[1].length - a[1].length).map(([word, ids]) => {
      const into = word === "fused" ? web.touched("kernels", ids.flatMap((id) => web.atoms("jaxpr", id))) : new Set();
      const does = word === "became" ? "became a loop or branch" : word === "unknown" ? "of unknown fate" : word;
      return `${ids.length.toLocaleString("en")} ${does}${into.size ? ` into ${counted(into.size, "kernel")}` : ""}`;
    });
    return parts.length ? `; of ${counted(equations.size, "equation")}: ${parts.join(", ")}` : "";
  }

  /** The operation of a row. @param {Reach} reach */
  opcode({ stage, id }) {
    const place = this.lens.links.places.get(`${stage}\n${id}`)?.[0];
    const word = place?.row.querySelector("b")?.textContent;
    if (word) return word;
    for (const pre of this.root.querySelectorAll(".long-list")) {
      const list = lists.get(pre);
      const n = list?.at.get(id)?.[0];
      if (list?.stage === stage && n !== undefined) return /<b>(.*?)<\/b>/.exec(list.html(n))?.[1] ?? "";
    }
    return "";
  }

  /** @param {string} stage */
  title(stage) {
    return /** @type {any} */ (STAGE_NAMES)[stage] ?? stage;
  }

  /** How many it is at each stage. @param {Reach} reach @returns {[string, Set<string>][]} */
  counts(reach) {
    const { web } = this.lens;
    const atoms = reach.atoms.size ? reach.atoms : reach.calls;
    return STAGES_IN_ORDER.map((stage) => [stage, web.touched(stage, atoms)]);
  }

  /** Buttons that go there; each click to the next. @param {Reach} reach */
  ways(reach) {
    const row = create("div", "ways");
    const lines = reach.line ? [] : [...this.lens.web.owners(reach.atoms)];
    if (lines.length) row.append(button(lines.length === 1 ? lines[0] : counted(lines.length, "line"), `Your code: ${lines.join(", ")}`, () => this.go("", lines)));
    for (const [stage, ids] of this.counts(reach))
      if (ids.size > Number(stage === reach.stage)) row.append(button(`${this.title(stage)} ${ids.size.toLocaleString("en")}`, `Show them: ${[...ids].slice(0, 20).join(", ")}`, () => this.go(stage, [...ids])));
    return row;
  }

  /** @param {string} stage @param {string[]} ids */
  go(stage, ids) {
    const turn = this.turns.get(stage) ?? 0;
    this.turns.set(stage, turn + 1);
    const at = ids[turn % ids.length];
    this.root.dispatchEvent(new CustomEvent("jl-reveal", { detail: stage ? { stage, id: at } : { line: at } }));
  }

  /** The Python lines of an equation, behind a click. @param {Reach} reach */
  lineage(reach) {
    const { web } = this.lens;
    let ids = reach.stage === "jaxpr" ? [reach.id] : [];
    if (!ids.length && reach.atoms.size) ids = [...web.touched("jaxpr", [reach.atoms.values().next().value])];
    const stack = ids.map((id) => web.lineage(id)).find((lines) => lines.length);
    if (!stack || reach.line) return [];
    const list = create("ol", "", {}, ...stack.map((/** @type {string} */ line) => create("li", "", {}, line)));
    const summary = create("summary", "", {}, `${stack[0]}${stack.length > 1 ? `, through ${counted(stack.length, "line")} of Python` : ""}`);
    return [create("details", "", {}, summary, list)];
  }

  /** For screen readers. @param {Reach} reach @param {string} [row] text of the row */
  announce(reach, row = "") {
    if (!reach.id && !reach.line) {
      this.announcement.textContent = row;
      return;
    }
    const most = this.counts(reach).filter(([stage, ids]) => ids.size && stage !== reach.stage && stage !== "kernels").pop();
    const fate = reach.stage === "jaxpr" ? this.lens.web.fates.get(reach.id) : "";
    const name = reach.line || `${nameOf(reach.id)} ${this.opcode(reach)}`;
    const count = most ? `: ${counted(most[1].size, most[0] === "jaxpr" ? "equation" : "instruction")} in ${this.title(most[0])}` : "";
    const line = reach.line && !most ? `: ${this.lineSummary(reach)}` : "";
    const pinned = this.strip.classList.contains("pinned") ? "pinned, " : "";
    this.announcement.textContent = `${pinned}${name}${count}${line}${fate ? `, ${fate}` : ""}`;
  }
}

/** @param {HTMLElement} root */
export function nodeDetails(root) {
  const lens = /** @type {any} */ (root).jaxlens;
  if (lens.panes && (lens.web.linked || root.querySelector("[data-pane] [data-id]"))) lens.nodeDetails = new NodeDetails(root);
}
