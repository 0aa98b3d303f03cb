// @ts-check
/**
 * Boxes whose inside was left out of the output: where a kernel is alive it has them.
 *
 * @typedef {import("./stretch.js").Box} Box
 * @typedef {import("./stretch.js").Data} Data
 * @typedef {{row: any, shut: [number, string][]}} Sent
 */

/** The doors that only a kernel opens. */
export class Doors {
  /** @param {Data} data @param {HTMLElement} host */
  constructor(data, host) {
    this.data = data;
    this.root = host.closest(".jl") ?? host;
    this.graph = [...this.root.querySelectorAll(".jaxlens-graph")].indexOf(host);
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
