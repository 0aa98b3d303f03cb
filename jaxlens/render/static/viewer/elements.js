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

/**
 * The data of one name embedded in `host`; null where there is none.
 * @param {ParentNode} host @param {string} name @returns {Promise<any>}
 */
export async function embedded(host, name) {
  const source = host.querySelector(`script[data-jl="${name}"]`);
  return source?.textContent ? JSON.parse(await inflated(source.textContent)) : null;
}

/**
 * Puts HTML that is embedded deflated (`payload.late_html`) in the place of its data.
 * @param {HTMLElement} root
 */
export const insertLateHtml = (root) => Promise.all([...root.querySelectorAll('script[data-jl="late"]')].map(
  async (source) => (source.outerHTML = JSON.parse(await inflated(source.textContent ?? ""))),
));
