// @ts-check
/**
 * The live drawing of a figure: boxes open in place, the plane pans and zooms.
 *
 * Thinking is Python's: `figure_data.py` gives panels with positions; the arithmetic of
 * opening is `stretch.py`'s, line by line, and a test compares the two. All text of the
 * program becomes text nodes and attribute values, never markup.
 *
 * @typedef {[string, string, string, number, number, string, string,
 *   number, number, number, number, number, number]} Box
 * id, label, detail, kind, inside, hint, line, x, y, w, h, columns of label and detail
 * @typedef {any[]} Edge tail, head, type, points, columns of the label, x, y, place, label
 * @typedef {[string, number, number, number, Box[], Edge[]]} Panel
 * title, free, w, h, boxes, edges
 * @typedef {{kinds: string[], panels: Panel[], open: string[], note: string}} Data
 * @typedef {{path: string, box: Box, x: number, y: number, w: number, h: number,
 *   open: boolean}} Drawn
 * @typedef {{path: string, edge: Edge, points: number[], x: number, y: number}} Wire
 */

const PAD = 8;
const HEADER = 26;
const PIECE = 40;
const REACH = 6;
const FREE = 8;
const LABEL = 13;
const DETAIL = 11;
const EDGE = 10;
const ADVANCE = 0.6;

/** @param {string} path @param {number} n */
const within = (path, n) => (path ? `${path}.${n}` : `${n}`);

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
        Math.max(boxes[n][9], w + 2 * PAD),
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

/** @param {number} value */
const num = (value) => String(Math.round(value * 10) / 10);

/**
 * An SVG element; `title` and `text` are its children, every other key an attribute.
 * @param {string} tag
 * @param {Record<string, string | number>} attributes
 * @param {...(Element | string)} children
 */
function element(tag, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes))
    if (value !== "") made.setAttribute(name, String(value));
  made.append(...children);
  return made;
}

/** @param {string} kind @param {number} x @param {number} y @returns {number[][] | undefined} */
function corners(kind, x, y) {
  if (kind === "reduce") return [[-x, -y], [x, -y], [x - 8, y], [-x + 8, y]];
  if (kind === "move") return [[-x + 8, -y], [x, -y], [x - 8, y], [-x, y]];
  if (kind === "control")
    return [[-x + 8, -y], [x - 8, -y], [x, 0], [x - 8, y], [-x + 8, y], [-x, 0]];
  if (kind === "collective")
    return [
      [-x + 7, -y], [x - 7, -y], [x, -y + 7], [x, y - 7],
      [x - 7, y], [-x + 7, y], [-x, y - 7], [-x, -y + 7],
    ];
  return undefined;
}

/** @param {string} kind @param {number} w @param {number} h @param {number} rx @param {boolean} inner */
const rect = (kind, w, h, rx, inner) =>
  element("rect", {
    class: inner ? "in" : "ou", x: num(-w / 2), y: num(-h / 2), width: num(w), height: num(h), rx,
  });

/** @param {string} kind @param {number} w @param {number} h @param {boolean} open */
function outline(kind, w, h, open) {
  if (open) return [rect(kind, w, h, 8, false)];
  if (["input", "output", "constant", "quiet"].includes(kind)) {
    const outer = rect(kind, w, h, h / 2, false);
    return kind === "output" ? [outer, rect(kind, w - 6, h - 6, (h - 6) / 2, true)] : [outer];
  }
  const points = corners(kind, w / 2, h / 2);
  if (points) return [element("path", { class: "ou", d: `M${points.map((p) => p.map(num).join(" ")).join("L")}z` })];
  const shape = rect(kind, w, h, { elementwise: 6, random: 6, matmul: 0 }[kind] ?? 2, false);
  if (kind !== "call") return [shape];
  const [x, y] = [w / 2 - 4, h / 2];
  const d = `M${num(x)} ${num(-y)}v${num(h)}M${num(-x)} ${num(-y)}v${num(h)}`;
  return [shape, element("path", { class: "in", d })];
}

/** @param {string} text @param {number} columns @param {number} size @param {number} x @param {number} y @param {string} kind */
function words(text, columns, size, x, y, kind) {
  if (!text) return [];
  const name = `${kind}${size === DETAIL ? " sm" : ""}`.trim();
  const at = { class: name, x: num(x), y: num(y), textLength: num(columns * size * ADVANCE) };
  return [element("text", at, text)];
}

/** @param {Drawn} drawn @param {string} kind */
function texts({ box, w, h, open }, kind) {
  const [, label, detail, , inside, , , , , , , columns, small] = box;
  const marker = (/** @type {string} */ d) => element("path", { class: "mk", d });
  if (open) {
    const [x, y] = [-w / 2 + 24, -h / 2 + HEADER / 2 + 5];
    return [
      marker(`M${num(x - 14)} ${num(y - 7.5)}h8l-4 6z`),
      ...words(label, columns, LABEL, x, y, "st"),
      ...words(detail, small, DETAIL, x + columns * LABEL * ADVANCE + 10, y, "st dt"),
    ];
  }
  const quiet = (kind === "quiet" || kind === "constant") && inside < 0;
  const size = quiet ? DETAIL : LABEL;
  const x = inside < 0 ? 0 : 7;
  const first = detail ? (quiet ? -2 : -3) : size * 0.35;
  return [
    ...(inside < 0 ? [] : [marker(`M${num(-w / 2 + 9)} -4v8l6-4z`)]),
    ...words(label, columns, size, x, first, ""),
    ...words(detail, small, DETAIL, x, quiet ? 10.5 : 12, "dt"),
  ];
}

/** @param {Drawn} drawn @param {string[]} kinds */
function boxElement(drawn, kinds) {
  const { box, path, x, y, w, h, open } = drawn;
  const [id, label, detail, kindAt, inside, hint, line] = box;
  const kind = kinds[kindAt];
  const opens = inside >= 0;
  const said = hint || (detail ? `${label} ${detail}` : label);
  return element(
    "g",
    {
      class: `bx ${kind}${open ? " open" : ""}`,
      transform: `translate(${num(x)} ${num(y)})`,
      "data-id": id, "data-line": line, "data-path": path,
      role: opens ? "button" : "img",
      "aria-label": said, "aria-expanded": opens ? String(open) : "",
      tabindex: -1,
    },
    element("title", {}, said),
    ...outline(kind, w, h, open),
    ...texts(drawn, kind),
  );
}

/** @param {number[]} p */
function curve(p) {
  const rest = p.slice(2, -2).map(num).join(" ");
  return `M${num(p[0])} ${num(p[1])}C${rest}`;
}

/** @param {number[]} p */
function arrow(p) {
  const [x, y, tipX, tipY] = p.slice(-4);
  const length = Math.hypot(tipX - x, tipY - y) || 1;
  const [sx, sy] = [(-(tipY - y) / length) * 2.6, ((tipX - x) / length) * 2.6];
  return `M${num(tipX)} ${num(tipY)}L${num(x + sx)} ${num(y + sy)} ${num(x - sx)} ${num(y - sy)}z`;
}

/** @param {Wire} wire */
function wireElements({ path, edge, points, x, y }) {
  const ends = { "data-tail": within(path, edge[0]), "data-head": within(path, edge[1]) };
  const line = element(
    "g",
    { class: "ed", ...ends },
    ...(edge[2] ? [element("title", {}, edge[2])] : []),
    element("path", { d: curve(points) }),
    element("path", { class: "ar", d: arrow(points) }),
  );
  if (edge.length < 8) return [line];
  const length = num(edge[4] * EDGE * ADVANCE);
  const at = { class: "lb", x: num(x), y: num(y + 3.5), textLength: length };
  return [line, element("text", at, edge[8] ?? edge[2])];
}

/** One drawing on the page. */
class Drawing {
  /** @param {HTMLElement} host @param {Data} data @param {AbortSignal} signal */
  constructor(host, data, signal) {
    this.data = data;
    this.open = new Set(data.open);
    this.focus = "0";
    this.view = document.createElement("div");
    this.view.className = "view";
    this.svg = element("svg", {
      class: "jaxlens-figure", role: "group",
      "aria-label": host.querySelector("img")?.alt ?? data.panels[0][0],
    });
    this.view.append(this.svg);
    this.tools = this.toolbar(signal);
    const parts = [this.tools, this.view];
    if (data.note) {
      const note = document.createElement("div");
      note.className = "note";
      note.textContent = data.note;
      parts.push(note);
    }
    this.draw();
    this.zoom = 1;
    host.replaceChildren(...parts);
    drawings.set(this.svg, this);
    this.fit();
    if (!host.clientWidth) this.fitWhenShown(host, signal);
    this.listen(signal);
  }

  /** Behind a closed tab there is no width to fit. @param {HTMLElement} host @param {AbortSignal} signal */
  fitWhenShown(host, signal) {
    const shown = new ResizeObserver(() => {
      if (!host.clientWidth) return;
      shown.disconnect();
      this.fit();
    });
    shown.observe(host);
    signal.addEventListener("abort", () => shown.disconnect(), { once: true });
  }

  /** @param {AbortSignal} signal */
  toolbar(signal) {
    const bar = document.createElement("div");
    bar.className = "tools";
    /** @type {[string, string, () => void][]} */
    const buttons = [
      ["−", "Zoom out", () => this.scale(this.zoom / 1.25)],
      ["+", "Zoom in", () => this.scale(this.zoom * 1.25)],
      ["fit", "Fit the width", () => this.fit()],
      ["1:1", "Actual size", () => this.scale(1)],
    ];
    for (const [text, title, act] of buttons) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = text;
      button.title = title;
      button.setAttribute("aria-label", title);
      button.addEventListener("click", act, { signal });
      bar.append(button);
    }
    return bar;
  }

  draw() {
    const { w, h, layers } = scene(this.data, this.open);
    [this.w, this.h] = [w, h];
    const parts = [element("rect", { class: "card", width: num(w), height: num(h), rx: 8 })];
    /** @type {Map<string, Drawn>} */
    this.boxes = new Map();
    for (const { boxes, wires } of layers) {
      const make = (/** @type {Drawn} */ box) => boxElement(box, this.data.kinds);
      const [lines, labels] = [[], []].map(() => /** @type {Element[]} */ ([]));
      for (const wire of wires) {
        const [line, label] = wireElements(wire);
        lines.push(line);
        if (label) labels.push(label);
      }
      parts.push(...boxes.filter((box) => box.open).map(make), ...lines, ...labels);
      parts.push(...boxes.filter((box) => !box.open).map(make));
      for (const box of boxes) this.boxes.set(box.path, box);
    }
    this.svg.setAttribute("viewBox", `0 0 ${num(w)} ${num(h)}`);
    this.svg.replaceChildren(...parts);
    if (!this.boxes.has(this.focus)) this.focus = "0";
    this.at(this.focus)?.setAttribute("tabindex", "0");
  }

  /** @param {string} path @returns {SVGElement | null} */
  at(path) {
    return this.svg.querySelector(`[data-path="${path}"]`);
  }

  /** @param {number} zoom @param {number} [x] @param {number} [y] point of the view that stays */
  scale(zoom, x = this.view.clientWidth / 2, y = this.view.clientHeight / 2) {
    const next = Math.min(3, Math.max(0.2, zoom));
    const [left, top] = [(this.view.scrollLeft + x) / this.zoom, (this.view.scrollTop + y) / this.zoom];
    this.zoom = next;
    this.resize();
    this.view.scrollTo(left * next - x, top * next - y);
  }

  resize() {
    this.svg.setAttribute("width", num((this.w ?? 0) * this.zoom));
    this.svg.setAttribute("height", num((this.h ?? 0) * this.zoom));
  }

  /** As wide as there is room, at most actual size and at least half of it. */
  fit() {
    const host = this.view.parentElement?.parentElement;
    const room = host?.clientWidth || 900;
    this.zoom = Math.min(1, Math.max(0.5, room / (this.w || 1)));
    this.resize();
  }

  /** Opens or closes a box, which keeps its place in the view. @param {string} path */
  toggle(path) {
    const drawn = this.boxes?.get(path);
    if (!drawn || drawn.box[4] < 0) return;
    const before = this.at(path)?.getBoundingClientRect();
    if (this.open.has(path)) this.open.delete(path);
    else this.openFreely(path, drawn.box[4]);
    this.focus = path;
    this.draw();
    this.resize();
    const after = this.at(path)?.getBoundingClientRect();
    if (before && after)
      this.view.scrollBy(
        after.left + Math.min(after.width / 2, this.view.clientWidth / 2) - before.left - before.width / 2,
        after.top - before.top,
      );
    this.at(path)?.focus({ preventScroll: true });
  }

  /** A panel that only leads on opens with what it leads to. @param {string} path @param {number} panel */
  openFreely(path, panel) {
    /** @type {[string, number][]} */
    const waiting = [[path, panel]];
    for (let next = waiting.pop(); next; next = waiting.pop()) {
      const [place, inside] = next;
      this.open.add(place);
      const [, free, , , boxes] = this.data.panels[inside];
      if (free && place.split(".").length - path.split(".").length < FREE)
        boxes.forEach((box, n) => box[4] >= 0 && waiting.push([within(place, n), box[4]]));
    }
  }

  /** @param {string} path */
  select(path) {
    this.at(this.focus)?.setAttribute("tabindex", "-1");
    this.focus = path;
    const box = this.at(path);
    box?.setAttribute("tabindex", "0");
    box?.focus({ preventScroll: true });
    box?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  /** The nearest box that way. @param {number} dx @param {number} dy */
  walk(dx, dy) {
    const from = this.boxes?.get(this.focus);
    if (!from || !this.boxes) return;
    let best = "";
    let least = Infinity;
    for (const [path, { x, y, open }] of this.boxes) {
      const along = (x - from.x) * dx + (y - from.y) * dy;
      const aside = Math.abs((x - from.x) * dy) + Math.abs((y - from.y) * dx);
      if (path === this.focus || along < 2 || (open && this.focus.startsWith(`${path}.`))) continue;
      if (along + 3 * aside < least) [best, least] = [path, along + 3 * aside];
    }
    if (best) this.select(best);
  }

  /** @param {AbortSignal} signal */
  listen(signal) {
    const boxOf = (/** @type {EventTarget | null} */ target) =>
      target instanceof Element ? target.closest("[data-path]")?.getAttribute("data-path") ?? "" : "";
    let moved = false;
    this.svg.addEventListener("click", (event) => {
      const path = boxOf(event.target);
      if (!path || moved) return;
      const drawn = this.boxes?.get(path);
      this.select(path);
      if (drawn && drawn.box[4] >= 0) this.toggle(path);
    }, { signal });
    this.svg.addEventListener("focusin", (event) => {
      const path = boxOf(event.target);
      if (path) this.focus = path;
    }, { signal });
    for (const [type, hot] of /** @type {[string, boolean][]} */ ([["mouseover", true], ["mouseout", false], ["focusin", true], ["focusout", false]]))
      this.svg.addEventListener(type, (event) => this.light(boxOf(event.target), hot), { signal });
    this.view.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const box = this.view.getBoundingClientRect();
      this.scale(this.zoom * Math.exp(-event.deltaY / 300), event.clientX - box.left, event.clientY - box.top);
    }, { signal, passive: false });
    this.view.addEventListener("pointerdown", (event) => {
      moved = false;
      if (event.button || event.pointerType === "touch") return;
      const [x, y, left, top] = [event.clientX, event.clientY, this.view.scrollLeft, this.view.scrollTop];
      const drag = new AbortController();
      const both = { signal: AbortSignal.any([signal, drag.signal]) };
      window.addEventListener("pointermove", (move) => {
        if (Math.hypot(move.clientX - x, move.clientY - y) > 4) moved = true;
        if (moved) this.view.scrollTo(left + x - move.clientX, top + y - move.clientY);
      }, both);
      for (const end of ["pointerup", "pointercancel"])
        window.addEventListener(end, () => drag.abort(), both);
    }, { signal });
  }

  /** Marks the edges of a box. @param {string} path @param {boolean} hot */
  light(path, hot) {
    if (!path) return;
    for (const wire of this.svg.querySelectorAll(`[data-tail="${path}"],[data-head="${path}"]`))
      wire.classList.toggle("hot", hot);
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    /** @type {Record<string, () => void>} */
    const acts = {
      Enter: () => this.toggle(this.focus),
      " ": () => this.toggle(this.focus),
      ArrowLeft: () => this.walk(-1, 0),
      ArrowRight: () => this.walk(1, 0),
      ArrowUp: () => this.walk(0, -1),
      ArrowDown: () => this.walk(0, 1),
      Escape: () => {
        const dot = this.focus.lastIndexOf(".");
        if (dot > 0) this.toggle(this.focus.slice(0, dot));
      },
    };
    const act = event.ctrlKey || event.metaKey || event.altKey ? undefined : acts[event.key];
    if (!act) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  }
}

/** @type {AbortController | undefined} */
let listening;
/** @type {WeakMap<Element, Drawing>} */
const drawings = new WeakMap();

/** Keys go to the drawing first: a notebook takes them on their way down. @param {KeyboardEvent} event */
function keyDown(event) {
  const svg = event.target instanceof Element ? event.target.closest(".jaxlens-figure") : null;
  if (svg) drawings.get(svg)?.key(event);
}

/**
 * Draws every figure under `root` that is still a picture.
 * @param {ParentNode} root
 * @returns {() => void} ends it for the whole page
 */
export function live(root) {
  if (!listening) {
    listening = new AbortController();
    window.addEventListener("keydown", keyDown, { capture: true, signal: listening.signal });
  }
  for (const host of root.querySelectorAll(".jaxlens-graph:not([data-live])")) {
    const source = host.querySelector('script[type="application/json"]');
    if (!(host instanceof HTMLElement) || !source?.textContent) continue;
    host.setAttribute("data-live", "");
    new Drawing(host, JSON.parse(source.textContent), listening.signal);
  }
  return () => {
    listening?.abort();
    listening = undefined;
  };
}
