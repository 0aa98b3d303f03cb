// @ts-check
/**
 * Data that Python put beside the HTML (`html_data.py`): JSON, deflated.
 */

import { bytesOf } from "./base85.js";

/** @param {string} pack @returns {Promise<string>} */
export async function inflated(pack) {
  const plain = new Blob([bytesOf(pack)]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Response(plain).text();
}

/**
 * The data of one name that stands in `host`; null where there is none.
 * @param {ParentNode} host @param {string} name @returns {Promise<any>}
 */
export async function unpacked(host, name) {
  const source = host.querySelector(`script[data-jl="${name}"]`);
  return source?.textContent ? JSON.parse(await inflated(source.textContent)) : null;
}
