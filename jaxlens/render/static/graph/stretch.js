// @ts-check
/**
 * Where everything is when some boxes stand open, without a new layout.
 *
 * When a box grows from w0 x h0 to w1 x h1, each axis is mapped by a monotone piecewise linear function: slope
 * w1 / w0 across the box's own interval (h1 / h0 in y), 1 elsewhere. Where intervals of several open boxes
 * overlap, the greatest slope applies. Other boxes keep their size and move with their centre.
 *
 *     closed   |--[2  4]--[5 6]--|           box 2..4 grows from 2 to 6 wide: slope 3 on 2..4
 *     map      2 -> 2,  4 -> 8,  5 -> 9      its centre 3 -> 5
 *     open     |--[2        8]--[9 10]--|    the box is 5 - 3 .. 5 + 3, the other moved by 4
 *
 * Boxes that do not overlap before do not overlap after: every slope is at least 1, so no distance shrinks; the
 * image of an open box's interval, on each side of its centre, is at least half the grown box; and images of
 * disjoint intervals are disjoint.
 *
 * @typedef {[string, string, string, number, number, string, string, number, number, number,
 *   number, number, number, string[]?, string[]?]} Box
 * id, label, detail, kind, inside, hint, line, x, y, w, h, columns of label and detail, nodes,
 * nodes of a fold that opens
 * @typedef {any[]} Edge tail, head, type, points, columns of the label, x, y, place, label
 * @typedef {[string, number, number, number, Box[], Edge[], Record<string, ([string, number] | 0)[]>?]} Panel
 * title, free, w, h, boxes, edges, heat
 * @typedef {{kinds: string[], panels: Panel[], open: string[], note: string, locked: string, stage: string,
 *   hues: Record<string, number>, links?: Record<string, string>, after?: string[], shut: [number, number, string][]}} Data
 * @typedef {{path: string, box: Box, x: number, y: number, w: number, h: number,
 *   open: boolean}} Drawn
 * @typedef {{path: string, edge: Edge, points: number[], x: number, y: number}} Wire
 * @typedef {{w: number, h: number, layers: {boxes: Drawn[], wires: Wire[]}[]}} Scene
 */

const PAD = 8;
export const HEADER = 26;
const PIECE = 40;
const REACH = 6;
export const FREE = 8;
export const LABEL = 13;
export const DETAIL = 11;
export const EDGE = 10;
export const ADVANCE = 0.6;

/** @param {string} path @param {number} n */
export const within = (path, n) => (path ? `${path}.${n}` : `${n}`);

/**
 * The map of one axis for boxes given as [centre, closed size, open size].
 * @param {number[][]} grown
 * @returns {(t: number) => number}
 */
function stretch(grown) {
  const strips = grown.filter(([, a, b]) => b > a).map(([c, a, b]) => [c - a / 2, c + a / 2, b / a]);
  const marks = [...new Set(strips.flatMap(([low, high]) => [low, high]))].sort((a, b) => a - b);
  const images = marks.slice(0, 1);
  for (let n = 1; n < marks.length; n++) {
    const [low, high] = [marks[n - 1], marks[n]];
    let slope = 1;
    for (const [a, b, s] of strips) if (a <= low && high <= b && s > slope) slope = s;
    images.push(images[n - 1] + slope * (high - low));
  }
  return (t) => {
    let n = marks.length - 1;
    while (n >= 0 && marks[n] > t) n--;
    if (n < 0) return t;
    if (n === marks.length - 1) return images[n] + (t - marks[n]);
    const share = (t - marks[n]) / (marks[n + 1] - marks[n]);
    return images[n] + share * (images[n + 1] - images[n]);
  };
}

/** @param {number[]} p @param {number} piece @param {number} t */
function sample(p, piece, t) {
  const n = 6 * piece;
  const u = 1 - t;
  const [a, b, c, d] = [u * u * u, 3 * u * u * t, 3 * u * t * t, t * t * t];
  return [
    a * p[n] + b * p[n + 2] + c * p[n + 4] + d * p[n + 6],
    a * p[n + 1] + b * p[n + 3] + c * p[n + 5] + d * p[n + 7],
  ];
}

/** @param {number[]} p @param {number} n @param {number} t @param {number} step */
function ahead(p, n, t, step) {
  const u = 1 - t;
  const [x, y] = sample(p, n / 6, t);
  const [a, b, c] = [3 * u * u * step, 6 * u * t * step, 3 * t * t * step];
  return [
    x + a * (p[n + 2] - p[n]) + b * (p[n + 4] - p[n + 2]) + c * (p[n + 6] - p[n + 4]),
    y + a * (p[n + 3] - p[n + 1]) + b * (p[n + 5] - p[n + 3]) + c * (p[n + 7] - p[n + 5]),
  ];
}

/** @param {number[]} p @returns {number[]} */
function partsOf(p) {
  const counts = [];
  for (let n = 0; n < p.length - 4; n += 6) {
    let length = 0;
    for (const k of [n, n + 2, n + 4])
      length += Math.abs(p[k + 2] - p[k]) + Math.abs(p[k + 3] - p[k + 1]);
    counts.push(Math.min(8, 1 + Math.floor(length / PIECE)));
  }
  return counts;
}

/** @param {number[]} p @param {number[]} parts */
function cut(p, parts) {
  const out = p.slice(0, 2);
  parts.forEach((count, piece) => {
    for (let part = 0; part < count; part++) {
      const [a, b] = [part / count, (part + 1) / count];
      out.push(...ahead(p, 6 * piece, a, (b - a) / 3));
      out.push(...ahead(p, 6 * piece, b, (a - b) / 3));
      out.push(...sample(p, piece, b));
    }
  });
  return [...out, ...p.slice(-2)];
}

/** Room that the words of an open box take. @param {Box} box */
function titleWidth(box) {
  const detail = box[12] * DETAIL * ADVANCE;
  return 24 + box[11] * LABEL * ADVANCE + (detail ? 10 + detail : 0) + 10;
}

/** A panel on the page: its maps, and the sizes of its open boxes. */
class Placed {
  /** @param {Panel} panel */
  constructor(panel) {
    this.panel = panel;
    /** @type {Map<number, number[]>} */
    this.inner = new Map();
    /** @type {Map<number, number[]>} */
    this.sizes = new Map();
    this.mapX = stretch([]);
    this.mapY = this.mapX;
    this.w = panel[2];
    this.h = panel[3];
  }

  grow() {
    const boxes = this.panel[4];
    for (const [n, [w, h]] of this.inner)
      this.sizes.set(n, [
        Math.max(boxes[n][9], w + 2 * PAD, titleWidth(boxes[n])),
        Math.max(boxes[n][10], h + HEADER + PAD),
      ]);
    const grown = [...this.sizes];
    this.mapX = stretch(grown.map(([n, [w]]) => [boxes[n][7], boxes[n][9], w]));
    this.mapY = stretch(grown.map(([n, [, h]]) => [boxes[n][8], boxes[n][10], h]));
    this.w = this.mapX(this.panel[2]);
    this.h = this.mapY(this.panel[3]);
  }

  /** @param {number} n */
  size(n) {
    const box = this.panel[4][n];
    return this.sizes.get(n) ?? [box[9], box[10]];
  }

  /** @param {number} x @param {number} y @param {number} n */
  onBorder(x, y, n) {
    const box = this.panel[4][n];
    const [w, h] = this.size(n);
    const across = Math.min(1, Math.max(-1, (x - box[7]) / (box[9] / 2)));
    const down = Math.min(1, Math.max(-1, (y - box[8]) / (box[10] / 2)));
    return [this.mapX(box[7]) + across * (w / 2), this.mapY(box[8]) + down * (h / 2)];
  }

  /** @param {number[]} old @param {Edge} edge */
  bend(old, edge) {
    const tip = old.length - 2;
    const base = old.length - 4;
    const out = old.map((p, n) => (n % 2 ? this.mapY(p) : this.mapX(p)));
    [out[tip], out[tip + 1]] = this.onBorder(old[tip], old[tip + 1], edge[1]);
    let [startX, startY] = this.onBorder(old[0], old[1], edge[0]);
    let endX = out[tip] + old[base] - old[tip];
    let endY = out[tip + 1] + old[base + 1] - old[tip + 1];
    [startX, startY] = [startX - out[0], startY - out[1]];
    [endX, endY] = [endX - out[base], endY - out[base + 1]];
    const reach = Math.min(base / 2, REACH);
    for (let n = 0; n < reach; n++) {
      const share = 1 - n / reach;
      out[2 * n] += startX * share;
      out[2 * n + 1] += startY * share;
      out[base - 2 * n] += endX * share;
      out[base - 2 * n + 1] += endY * share;
    }
    return out;
  }

  /** @param {Edge} edge @param {number[]} points @param {number[]} parts */
  labelAt(edge, points, parts) {
    if (edge.length < 8) return [0, 0];
    const [, , , old, columns, oldX, oldY, at] = edge;
    const piece = Math.floor(at);
    const share = at % 1;
    const part = Math.floor(share * parts[piece]);
    let before = part;
    for (let n = 0; n < piece; n++) before += parts[n];
    const [ax, ay] = sample(old, piece, share);
    const [bx, by] = sample(points, before, share * parts[piece] - part);
    const [x, y] = [bx + (oldX - ax), by + (oldY - ay)];
    for (const [n, [w, h]] of this.sizes) {
      const box = this.panel[4][n];
      const nearX = Math.abs(x - this.mapX(box[7])) < (columns * EDGE * ADVANCE + w) / 2;
      if (nearX && Math.abs(y - this.mapY(box[8])) < (EDGE * 1.2 + h) / 2)
        return [this.mapX(oldX), this.mapY(oldY)];
    }
    return [x, y];
  }
}

/**
 * Where everything is when the places in `open` stand open; outer panels come first.
 * @param {Data} data
 * @param {Set<string>} open
 * @returns {Scene}
 */
export function scene(data, open) {
  /** @type {Map<string, Placed>} */
  const frames = new Map([["", new Placed(data.panels[0])]]);
  const waiting = [""];
  while (waiting.length) {
    const path = /** @type {string} */ (waiting.pop());
    const inner = [];
    for (const [n, box] of /** @type {Placed} */ (frames.get(path)).panel[4].entries())
      if (box[4] >= 0 && open.has(within(path, n))) {
        frames.set(within(path, n), new Placed(data.panels[box[4]]));
        inner.push(within(path, n));
      }
    waiting.push(...inner.reverse());
  }
  const depth = (/** @type {string} */ path) => (path ? path.split(".").length : 0);
  for (const path of [...frames.keys()].sort((a, b) => depth(b) - depth(a))) {
    const own = /** @type {Placed} */ (frames.get(path));
    own.grow();
    if (!path) continue;
    const dot = path.lastIndexOf(".");
    frames.get(dot < 0 ? "" : path.slice(0, dot))?.inner.set(+path.slice(dot + 1), [own.w, own.h]);
  }
  /** @type {{boxes: Drawn[], wires: Wire[]}[]} */
  const layers = [];
  const origins = new Map([["", [0, 0]]]);
  for (const [path, own] of frames) {
    const [left, top] = /** @type {number[]} */ (origins.get(path));
    const boxes = own.panel[4].map((box, n) => {
      const [w, h] = own.size(n);
      const [x, y] = [left + own.mapX(box[7]), top + own.mapY(box[8])];
      const inner = own.inner.get(n);
      if (inner) origins.set(within(path, n), [x - inner[0] / 2, y - h / 2 + HEADER]);
      return { path: within(path, n), box, x, y, w, h, open: !!inner };
    });
    const wires = own.panel[5].map((edge) => {
      let points = edge[3];
      let [x, y] = edge.length < 8 ? [0, 0] : [edge[5], edge[6]];
      if (own.sizes.size) {
        const parts = partsOf(points);
        points = own.bend(cut(points, parts), edge);
        [x, y] = own.labelAt(edge, points, parts);
      }
      points = points.map((/** @type {number} */ p, /** @type {number} */ n) => p + (n % 2 ? top : left));
      return { path, edge, points, x: left + x, y: top + y };
    });
    layers.push({ boxes, wires });
  }
  const page = /** @type {Placed} */ (frames.get(""));
  return { w: page.w, h: page.h, layers };
}
