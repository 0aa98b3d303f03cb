// @ts-check
/**
 * Data that Python put beside the HTML (`render/html/payload.py`): JSON, deflated.
 */

import { bytesOf } from "./packing.js";

/** @param {string} pack @returns {Promise<string>} */
export async function inflated(pack) {
  const plain = new Blob([bytesOf(pack)]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Response(plain).text();
}

/**
 * Puts HTML that travelled deflated (`html_data.late_html`) where it belongs.
 * @param {HTMLElement} root
 */
export const unfurled = (root) => Promise.all([...root.querySelectorAll('script[data-jl="late"]')].map(
  async (source) => (source.outerHTML = JSON.parse(await inflated(source.textContent ?? ""))),
));

/**
 * The data of one name that stands in `host`; null where there is none.
 * @param {ParentNode} host @param {string} name @returns {Promise<any>}
 */
export async function unpacked(host, name) {
  const source = host.querySelector(`script[data-jl="${name}"]`);
  return source?.textContent ? JSON.parse(await inflated(source.textContent)) : null;
}
