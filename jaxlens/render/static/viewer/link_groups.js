// @ts-check
/**
 * The web of a program of which nothing was lowered: it travels as groups of equations that have
 * all in common (`Alike` in `render/link_data.py`), and this makes of it what every other web is. The
 * atom of `eN` is N.
 *
 * @typedef {import("./link_data.js").Runs} Runs
 */

/** Runs of equations that follow each other, as first and count. @typedef {[number, number][]} Stretch */

/**
 * @param {{alike: number[], lines?: Record<string, Runs>, calls?: Record<string, Runs>,
 *   stack?: number[], made?: string[][]}} data
 * @param {(runs: Runs) => number[]} unrolled
 */
export function spread({ alike, lines, calls, stack, made }, unrolled) {
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
  const atoms = (/** @type {Record<string, Runs> | undefined} */ named) =>
    new Map(Object.entries(named ?? {}).map(([name, groups]) => {
      const stretches = unrolled(groups).flatMap((group) => members[group] ?? []);
      stretches.sort(([a], [b]) => a - b);
      return [name, stretches.flatMap(([first, count]) => (count > 1 ? [first, 1 - count] : [first]))];
    }));
  const stages = new Map([["jaxpr", jaxpr]]);
  return { stages, lines: atoms(lines), calls: atoms(calls), stack: stackOf, made: madeOf };
}
