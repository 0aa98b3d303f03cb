// @ts-check
/**
 * Draws a scene as SVG: the shapes of `render/graph/svg.py`, and what only a live drawing has.
 *
 * All text of the program becomes text nodes and attribute values, never markup.
 */

import { ADVANCE, DETAIL, EDGE, HEADER, LABEL, within } from "./stretch.js";
/** @typedef {import("./stretch.js").Drawn} Drawn */
/** @typedef {import("./stretch.js").Wire} Wire */
/** @typedef {import("./stretch.js").Data} Data */

/** @param {number} value */
export const num = (value) => String(Math.round(value * 10) / 10);

/**
 * An SVG element; `title` and `text` are its children, every other key an attribute.
 * @param {string} tag
 * @param {Record<string, string | number>} attributes
 * @param {...(Element | string)} children
 */
export function element(tag, attributes, ...children) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes))
    if (value !== "") svg.setAttribute(name, String(value));
  svg.append(...children);
  return svg;
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
    class: inner ? "inner" : "shape", x: num(-w / 2), y: num(-h / 2), width: num(w), height: num(h), rx,
  });

/** @param {string} kind @param {number} w @param {number} h @param {boolean} open */
function outline(kind, w, h, open) {
  if (open) return [rect(kind, w, h, 8, false)];
  if (["input", "output", "constant", "quiet"].includes(kind)) {
    const outer = rect(kind, w, h, h / 2, false);
    return kind === "output" ? [outer, rect(kind, w - 6, h - 6, (h - 6) / 2, true)] : [outer];
  }
  const points = corners(kind, w / 2, h / 2);
  if (points) return [element("path", { class: "shape", d: `M${points.map((p) => p.map(num).join(" ")).join("L")}z` })];
  const shape = rect(kind, w, h, { elementwise: 6, random: 6, matmul: 0 }[kind] ?? 2, false);
  if (kind !== "call") return [shape];
  const [x, y] = [w / 2 - 4, h / 2];
  const d = `M${num(x)} ${num(-y)}v${num(h)}M${num(-x)} ${num(-y)}v${num(h)}`;
  return [shape, element("path", { class: "inner", d })];
}

/** @param {string} text @param {number} columns @param {number} size @param {number} x @param {number} y @param {string} kind */
function words(text, columns, size, x, y, kind) {
  if (!text) return [];
  const name = kind || (size === DETAIL ? "small" : "");
  const at = { class: name, x: num(x), y: num(y), textLength: num(columns * size * ADVANCE) };
  return [element("text", at, text)];
}

/** The marker that opens and shuts a box, with room round it to hit. @param {number} x @param {number} y @param {string} d */
const door = (x, y, d) =>
  element(
    "g",
    { class: "door" },
    element("rect", { x: num(x - 10), y: num(y - 13), width: 22, height: 26 }),
    element("path", { class: "marker", d }),
  );

/** @param {Drawn} drawn @param {string} kind @param {boolean} opens */
function texts({ box, w, h, open }, kind, opens) {
  const [, label, detail, , , , , , , , , columns, small] = box;
  if (open) {
    const [x, y] = [-w / 2 + 24, -h / 2 + HEADER / 2 + 5];
    return [
      door(x - 10, y - 5, `M${num(x - 14)} ${num(y - 7.5)}h8l-4 6z`),
      ...words(label, columns, LABEL, x, y, "start"),
      ...words(detail, small, DETAIL, x + columns * LABEL * ADVANCE + 10, y, "start detail"),
    ];
  }
  const quiet = (kind === "quiet" || kind === "constant") && !opens;
  const size = quiet ? DETAIL : LABEL;
  const x = opens ? 7 : 0;
  const first = detail ? (quiet ? -2 : -3) : size * 0.35;
  return [
    ...(!opens ? [] : [door(-w / 2 + 11, 0, `M${num(-w / 2 + 9)} -4v8l6-4z`)]),
    ...words(label, columns, size, x, first, ""),
    ...words(detail, small, DETAIL, x, quiet ? 10.5 : 12, "detail"),
  ];
}

/** A line of its owner's hue under the words. @param {Drawn} drawn @param {number | undefined} hue */
function underline({ w, h, open }, hue) {
  if (hue === undefined) return [];
  const [left, y] = open ? [-w / 2 + 10, -h / 2 + HEADER - 2] : [-w / 2 + 12, h / 2 - (h < 24 ? 3 : 4.5)];
  const width = open ? Math.min(w - 20, 120) : w - 24;
  return [element("rect", { class: `hue-line hue${hue}`, x: num(left), y: num(y), width: num(width), height: 2.5, rx: 1 })];
}

/**
 * @param {Drawn} drawn
 * @param {Data} data
 * @param {boolean} opens
 * @returns {SVGElement}
 */
export function boxElement(drawn, data, opens) {
  const { box, path, x, y, w, h, open } = drawn;
  const [id, label, detail, kindAt, , hint, line] = box;
  const kind = data.kinds[kindAt];
  const said = hint || (detail ? `${label} ${detail}` : label);
  return element(
    "g",
    {
      class: `graph-box ${kind === "call" ? "called" : kind}${open ? " open" : ""}`,
      transform: `translate(${num(x)} ${num(y)})`,
      "data-path": path, "data-node": id,
      // Its title is its name
      ...(data.links?.[id] ? { role: "link" } : { role: "button", "aria-pressed": "false" }),
      "aria-expanded": opens ? String(open) : "",
      tabindex: -1,
    },
    element("title", {}, said),
    ...outline(kind, w, h, open),
    ...underline(drawn, data.hues?.[line]),
    ...texts(drawn, kind, opens),
  );
}

/** Shades a box by a figure, which stands under its corner and in its name. @param {Element} shape @param {Drawn} drawn @param {[string, number]} heat */
export function shade(shape, { w, h }, [said, share]) {
  shape.classList.add("shaded");
  shape.setAttribute("style", `--heat: ${num(share * 60)}%`);
  shape.querySelector("title")?.append(`; ${said}`);
  shape.append(element("text", { class: "edge-label start", x: num(-w / 2), y: num(h / 2 + 11) }, said));
}

/** How many of the marked nodes a shut box holds, on its corner. @param {Drawn} drawn @param {number} count */
export function badge({ w, h }, count) {
  const said = count.toLocaleString("en");
  const width = 8 + said.length * 6.2;
  return element(
    "g",
    { class: "node-count", transform: `translate(${num(w / 2 - 2)} ${num(-h / 2 + 1)})` },
    element("rect", { x: num(-width / 2), y: -8, width: num(width), height: 16, rx: 8 }),
    element("text", { class: "small", x: 0, y: 3.8 }, said),
  );
}

/** Words under a box, over all else. @param {Drawn} drawn @param {string} said */
export function remark({ x, y, h }, said) {
  const width = 16 + said.length * DETAIL * ADVANCE;
  return element(
    "g",
    { class: "box-remark", role: "status", transform: `translate(${num(Math.max(x, width / 2 + 4))} ${num(y + h / 2 + 14)})` },
    element("rect", { x: num(-width / 2), y: -10, width: num(width), height: 20, rx: 5 }),
    element("text", { class: "small", x: 0, y: 4 }, said),
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

/** @param {Wire} wire @returns {Element[]} the edge, and its label if it has one */
export function wireElements({ path, edge, points, x, y }) {
  const ends = { "data-tail": within(path, edge[0]), "data-head": within(path, edge[1]) };
  const line = element(
    "g",
    { class: "edge", ...ends },
    ...(edge[2] ? [element("title", {}, edge[2])] : []),
    element("path", { d: curve(points) }),
    element("path", { class: "arrow", d: arrow(points) }),
  );
  if (edge.length < 8) return [line];
  const length = num(edge[4] * EDGE * ADVANCE);
  const at = { class: "edge-label", x: num(x), y: num(y + 3.5), textLength: length };
  return [line, element("text", at, edge[8] ?? edge[2])];
}
