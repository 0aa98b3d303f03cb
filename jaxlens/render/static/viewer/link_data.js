// @ts-check
/**
 * The links of an output (`render/link_data.py`): two things are linked where they share an atom, so
 * each question is which ids of a stage have an atom of a set.
 *
 * @typedef {number | number[]} Runs
 * @typedef {Record<string, Runs | Record<string, Runs>>} ByLine by line, or by line and expression
 * @typedef {{atoms: Record<string, [ids: string[], sets: Runs[]]>, lines?: ByLine,
 *   calls?: ByLine, fates?: Record<string, string>, ends?: Record<string, number>,
 *   how?: Record<string, Record<string, string>>, stacks?: string[][],
 *   stack?: Record<string, number>, made?: Record<string, string[]>, left?: string[],
 *   alike?: number[]}} EmbeddedLinks
 */

const ORDER = ["kernels", "optimized", "hlo", "stablehlo", "jaxpr"];

/** A negative number says how many follow the number before it. @param {Runs} runs */
export function unrolled(runs) {
  if (typeof runs === "number") return [runs];
  /** @type {number[]} */
  const atoms = [];
  for (const n of runs)
    if (n >= 0) atoms.push(n);
    else for (let k = 0, last = atoms[atoms.length - 1]; k < -n; k++) atoms.push(++last);
  return atoms;
}

/** Runs of consecutive equations, as first and count. @typedef {[number, number][]} Stretch */

/**
 * The sets of a program of which nothing was lowered. They are embedded by groups of equations that
 * have all in common (`Alike` in `render/link_data.py`); the atom of `eN` is N.
 * @param {{alike: number[], lines?: ByLine, calls?: ByLine,
 *   stack?: number[], made?: string[][]}} data
 */
function expand({ alike, lines, calls, stack, made }) {
  const jaxpr = new Map();
  const stackOf = new Map();
  const madeOf = new Map();
  /** @type {Stretch[]} */
  const members = [];
  for (let at = 0, n = 0; at < alike.length; at += 2) {
    const [count, group] = [alike[at], alike[at + 1]];
    (members[group] ??= []).push([n, count]);
    const [place, by] = [stack?.[group] ?? -1, made?.[group] ?? []];
    for (const end = n + count; n < end; n++) {
      const id = `e${n}`;
      jaxpr.set(id, n);
      if (place >= 0) stackOf.set(id, place);
      if (by.length) madeOf.set(id, by);
    }
  }
  const atomsOf = (/** @type {Runs} */ groups) => {
    const stretches = unrolled(groups).flatMap((group) => members[group] ?? []);
    stretches.sort(([a], [b]) => a - b);
    return stretches.flatMap(([first, count]) => (count > 1 ? [first, 1 - count] : [first]));
  };
  const stages = new Map([["jaxpr", jaxpr]]);
  return { stages, atomsOf, lines: byLine(lines, atomsOf), calls: byLine(calls, atomsOf), stack: stackOf, made: madeOf };
}

/** Whether it is said by expression (source/expressions.js). @param {any} said @returns {said is Record<string, Runs>} */
export const divided = (said) => typeof said === "object" && !Array.isArray(said);

/** @param {ByLine | undefined} said @param {(runs: Runs) => Runs} atomsOf @returns {Map<string, Runs>} */
const byLine = (said, atomsOf) => new Map(Object.entries(said ?? {}).map(([line, runs]) =>
  [line, atomsOf(divided(runs) ? [...new Set(Object.values(runs).flatMap(unrolled))] : runs)]));

/** The atoms of each id, from columns (`payload._columns`). @param {[ids: string[], sets: Runs[]]} columns @returns {Map<string, Runs>} */
function nodesOf([ids, sets]) {
  let last = 0;
  return new Map(ids.map((id, n) => [id, [sets[n]].flat().map((step, at) => (at && step < 0 ? ((last -= step), step) : (last += step)))]));
}

/** @param {Record<string, any> | undefined} record */
const mapFrom = (record) => new Map(Object.entries(record ?? {}));

export class LinkData {
  /** @param {EmbeddedLinks} data */
  constructor(data) {
    this.data = data;
    this.linked = Object.keys(data.atoms).length > 0;
    /** @type {Map<string, Map<string, Runs>>} */
    this.stages = new Map();
    for (const [stage, nodes] of Object.entries(data.atoms)) this.stages.set(stage, nodesOf(nodes));
    this.atomsOf = (/** @type {Runs} */ runs) => runs;
    this.lines = byLine(data.lines, this.atomsOf);
    this.calls = byLine(data.calls, this.atomsOf);
    /** Atoms by line and expression. @type {Map<string, Map<string, Set<number>>>} */
    this.expressions = new Map();
    this.fates = /** @type {Map<string, string>} */ (mapFrom(data.fates));
    this.ends = /** @type {Map<string, number>} */ (mapFrom(data.ends));
    this.made = /** @type {Map<string, string[]>} */ (mapFrom(data.made));
    this.stack = /** @type {Map<string, number>} */ (mapFrom(data.stack));
    if (data.alike) Object.assign(this, expand(/** @type {any} */ (data)));
    /** @type {Map<string, Map<number, string[]>>} */
    this.by = new Map();
    /** Results of `gathered` by set of atoms. @type {WeakMap<object, Map<object, Set<string>>>} */
    this.memo = new WeakMap();
  }

  /** Makes the indexes ahead of the first look-up. */
  warm() {
    for (const [stage, nodes] of this.stages) this.index(stage, nodes);
    this.owners([]);
    this.callers([]);
  }

  /** Nodes of a stage that came later, such as a pass. @param {string} stage @param {Record<string, Runs>} nodes */
  add(stage, nodes) {
    this.stages.set(stage, mapFrom(nodes));
    this.by.delete(stage);
  }

  /** Lines of machine code have the nodes of their kernels. @param {string} stage */
  nodes(stage) {
    return this.stages.get(stage) ?? (stage === "llvm" || stage === "asm" ? this.stages.get("kernels") : undefined);
  }

  /** @param {string} stage @param {string} id */
  has(stage, id) {
    return this.nodes(stage)?.has(id) ?? false;
  }

  /** The nodes of an id that names several, with blanks between. @param {string} stage @param {string} id */
  parts(stage, id) {
    return id.includes(" ") && !this.has(stage, id) ? id.split(" ") : [id];
  }

  /** @param {string} stage @param {string} id @returns {number[]} */
  atoms(stage, id) {
    const runs = this.nodes(stage)?.get(id);
    if (runs !== undefined) return unrolled(runs);
    return id.includes(" ") ? this.parts(stage, id).flatMap((part) => this.atoms(stage, part)) : [];
  }

  /** @param {Map<string, Runs>} lines @param {string} line @returns {number[]} */
  of(lines, line) {
    const runs = lines.get(line);
    return runs === undefined ? [] : unrolled(runs);
  }

  /** Ids of a stage that hold an atom. @param {string} stage @param {number} atom @returns {string[]} */
  ids(stage, atom) {
    return this.index(stage, this.nodes(stage)).get(atom) ?? [];
  }

  /** @param {string} name @param {Map<string, Runs> | undefined} nodes */
  index(name, nodes) {
    let index = this.by.get(name);
    if (!index) {
      this.by.set(name, (index = new Map()));
      for (const [id, runs] of nodes ?? [])
        for (const atom of unrolled(runs)) {
          const ids = index.get(atom);
          if (ids) ids.push(id);
          else index.set(atom, [id]);
        }
    }
    return index;
  }

  /** All ids of a stage with an atom of the set. @param {string} stage @param {Iterable<number>} atoms */
  touched(stage, atoms) {
    return this.gathered(this.index(stage, this.nodes(stage)), atoms);
  }

  /** Source lines that own an atom of the set. @param {Iterable<number>} atoms */
  owners(atoms) {
    return this.gathered(this.index("\0lines", this.lines), atoms);
  }

  /** Source lines in whose calls an atom of the set was made. @param {Iterable<number>} atoms */
  callers(atoms) {
    return this.gathered(this.index("\0calls", this.calls), atoms);
  }

  /** Ids of an index with an atom of the set; the result is cached, so callers do not change it. @param {Map<number, string[]>} index @param {Iterable<number>} atoms */
  gathered(index, atoms) {
    const memo = this.memo.get(atoms) ?? new Map();
    this.memo.set(atoms, memo);
    /** @type {Set<string>} */
    const ids = memo.get(index) ?? new Set();
    if (memo.has(index)) return ids;
    memo.set(index, ids);
    for (const atom of atoms) for (const id of index.get(atom) ?? []) ids.add(id);
    return ids;
  }

  /** The stage of an id: the one named, if that has it, else the last one that does. @param {string} named @param {string} id */
  stageOf(named, id) {
    const first = id.split(" ", 1)[0];
    if (this.has(named, first)) return named;
    return ORDER.find((stage) => this.has(stage, first)) ?? named;
  }

  /** The evidence for a node's links. @param {string} stage @param {string} id */
  how(stage, id) {
    const known = this.data.how?.[stage];
    return known && ((Object.hasOwn(known, id) && known[id]) || known[""]);
  }

  /** Python call stack of an equation, its owner first. @param {string} id @returns {string[]} */
  lineage(id) {
    const place = this.stack.get(id);
    return place === undefined ? [] : this.data.stacks?.[place] ?? [];
  }
}
