// @ts-check
/**
 * Which boxes stand for which nodes, and which boxes are neighbours. Nothing here is drawn.
 *
 * @typedef {import("./stretch.js").Box} Box
 * @typedef {import("./stretch.js").Data} Data
 * @typedef {{row: any, shut: [number, string][]}} Sent
 */

import { within } from "./stretch.js";

const PORTS = ["input", "output", "constant"];

/** The ids that `["e3", "e12-e40"]` stands for. @param {string[]} rows @returns {string[]} */
export function spelled(rows) {
  return rows.flatMap((row) => {
    const run = /^(\D)(\d+)-\1(\d+)$/.exec(row);
    if (!run) return [row];
    const [low, high] = [+run[2], +run[3]];
    return Array.from({ length: high - low + 1 }, (_, n) => run[1] + (low + n));
  });
}

/** The nodes of a drawing by box, by panel and by id. */
export class NodeIndex {
  /** @param {Data} data */
  constructor(data) {
    this.data = data;
    /** @type {Map<Box, string[]>} */
    this.own = new Map();
    /** @type {Map<Box, Set<string>>} */
    this.folds = new Map();
    /** @type {Map<number, Set<string>>} */
    this.nodesIn = new Map([[-1, new Set()]]);
    /** @type {Map<number, [number, number]>} where a panel opens first: panel and box */
    this.door = new Map();
    data.panels.forEach(([, , , , boxes], panel) =>
      boxes.forEach(([, , , , inside], n) => {
        if (inside > 0 && !this.door.has(inside)) this.door.set(inside, [panel, n]);
      }));
  }

  /** What a box stands for itself, its contents aside. @param {Box} box @returns {string[]} */
  of(box) {
    let ids = this.own.get(box);
    if (!ids) {
      const port = PORTS.includes(this.data.kinds[box[3]]);
      ids = box[13] ? spelled(box[13]) : port ? [] : [box[0]];
      this.own.set(box, ids);
    }
    return ids;
  }

  /** The nodes of a fold that opens. @param {Box} box @returns {Set<string>} */
  folded(box) {
    const ids = this.folds.get(box) ?? new Set(spelled(box[14] ?? []));
    this.folds.set(box, ids);
    return ids;
  }

  /** Whether it is a run of nodes, none of which it is itself. @param {Box} box */
  isFold(box) {
    const call = this.data.kinds[box[3]] === "call";
    return call && !!box[13] && !this.of(box).includes(box[0]);
  }

  /** Every node in a panel and in what opens in it. @param {number} panel @returns {Set<string>} */
  in(panel) {
    const cached = this.nodesIn.get(panel);
    if (cached) return cached;
    /** @type {Set<string>} */
    const ids = new Set();
    const seen = new Set([panel]);
    for (const at of seen)
      for (const box of this.data.panels[at][4]) {
        for (const id of this.of(box)) ids.add(id);
        if (box[14]) for (const id of this.folded(box)) ids.add(id);
        else if (box[4] >= 0) seen.add(box[4]);
      }
    this.nodesIn.set(panel, ids);
    return ids;
  }

  /** The place of the box that stands for a node: the deepest there is. @param {string} id */
  find(id) {
    let best = "";
    this.data.panels.forEach(([, , , , boxes], panel) =>
      boxes.forEach((box, n) => {
        if (!this.of(box).includes(id)) return;
        const path = this.place(panel, n);
        // A box of its own says more than a fold that holds it.
        if (path !== undefined && (!best || box[0] === id)) best = path;
      }));
    return best;
  }

  /** @param {number} panel @param {number} n @returns {string | undefined} the first place of a box */
  place(panel, n) {
    const steps = [n];
    const seen = new Set();
    while (panel) {
      const door = this.door.get(panel);
      if (!door || seen.has(panel)) return undefined;
      seen.add(panel);
      [panel, n] = door;
      steps.unshift(n);
    }
    return steps.join(".");
  }
}

/** The panel that a place is in, and the number of its box there. @param {Data} data @param {string} path */
export function homeOf(data, path) {
  const steps = path.split(".").map(Number);
  let panel = 0;
  for (const n of steps.slice(0, -1)) panel = data.panels[panel][4][n][4];
  return { panel, n: steps[steps.length - 1], outer: steps.slice(0, -1).join(".") };
}

/** Boxes one edge on: `side` 1 for readers, 0 for what is read. @param {Data} data @param {string} path @param {0 | 1} side */
export function linked(data, path, side) {
  const { panel, n, outer } = homeOf(data, path);
  const rows = data.panels[panel][5].filter((edge) => edge[1 - side] === n);
  return [...new Set(rows.map((edge) => within(outer, edge[side])))];
}

/** Boxes whose inside was left out of the output; a live kernel serves it. */
export class ClosedBoxes {
  /** @param {Data} data @param {HTMLElement} host */
  constructor(data, host) {
    this.data = data;
    this.root = host.closest(".jaxlens") ?? host;
    this.graph = [...this.root.querySelectorAll(".jaxlens-drawing")].indexOf(host);
    /** @type {Map<Box, string>} */
    this.shut = new Map();
    for (const [panel, n, name] of data.shut ?? []) this.shut.set(data.panels[panel][4][n], name);
  }

  /** @returns {((what: object) => Promise<Sent>) | undefined} */
  get fetch() {
    return /** @type {any} */ (this.root).jaxlens?.fetch;
  }

  /** Whether there is something in a box, here or with a kernel. @param {Box} box */
  opens(box) {
    return box[4] >= 0 || this.shut.has(box);
  }

  /** Whether what is in a box was left out, and there is no kernel to ask. @param {Box} box */
  locked(box) {
    return box[4] < 0 && this.shut.has(box) && !this.fetch;
  }

  /** Brings what is in a box. @param {Box} box @returns {Promise<boolean>} whether it opens now */
  async bring(box) {
    const name = this.shut.get(box);
    if (name === undefined || !this.fetch) return false;
    const { row, shut } = await this.fetch({ panel: { graph: this.graph, name } });
    if (box[4] >= 0) return true;
    const place = this.data.panels.push(row) - 1;
    for (const [n, inner] of shut) this.shut.set(row[4][n], inner);
    for (const [other, same] of [...this.shut])
      if (same === name) {
        other[4] = place;
        if (other[13] && other[0] === name) [other[13], other[14]] = [[], other[13]];
        else if (other[13] && !other[13].includes(other[0])) other[13] = [];
        this.shut.delete(other);
      }
    return true;
  }
}
