// @ts-check
/** Creates elements, and reads the data that Python embeds beside them (`html/payload.py`). */

import { inflated } from "./packing.js";

/**
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag @param {string} className @param {Record<string, string>} [attributes]
 * @param {(Node | string)[]} children text stays text
 * @returns {HTMLElementTagNameMap[T]}
 */
export function create(tag, className = "", attributes = {}, ...children) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** A button; one with a sign for its text has the title as its name. @param {string} text @param {string} title @param {(event: MouseEvent) => void} act */
export function button(text, title, act) {
  const label = /\w/.test(text) ? {} : { "aria-label": title };
  const element = create("button", "", { type: "button", ...(title ? { title } : {}), ...label }, text);
  element.addEventListener("click", act);
  return element;
}

const NUMBERED = /(%|\b(?:[es]|[a-z_][\w-]*\.|[a-z_]{3,}))(0|[1-9]\d{0,6})(?!\d)/gi;

/** The text of embedded data, in which numbers of names are steps (`packing.stepped`). @param {any} pack */
export async function textOf(pack) {
  /** @type {Record<string, number>} */
  const last = {};
  return (await inflated(pack)).replace(NUMBERED, (_, name, step) =>
    name + (last[name] = ((last[name] ?? 0) + (step % 2 ? ~step : step) / 2 + 1e7) % 1e7));
}

/**
 * The data of one name embedded in `host`; null where there is none.
 * @param {ParentNode} host @param {string} name @returns {Promise<any>}
 */
export async function embedded(host, name) {
  const source = host.querySelector(`script[data-jl="${name}"]`);
  return source && JSON.parse(await textOf(source.textContent));
}

/**
 * Puts HTML that is embedded deflated (`payload.late_html`) in the place of its data, and the names
 * of many nodes (`payload.without_long`) on their element.
 * @param {HTMLElement} root
 */
export const insertLateHtml = (root) => Promise.all([...root.querySelectorAll('script[data-jl="late"]')].map(async (source) => {
  const data = JSON.parse(await textOf(source.textContent));
  if (data.map) source.parentElement?.setAttribute("data-id", data);
  source.outerHTML = data.map ? "" : data;
}));
