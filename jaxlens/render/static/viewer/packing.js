// @ts-check
/**
 * Reads text as `html/packing.py` writes it: deflated, and in base 85 with digits that HTML, JSON
 * and strings of JavaScript do not escape. The installer of every output holds this file.
 */

/** @param {string} text @returns {Uint8Array<ArrayBuffer>} */
function bytesOf(text) {
  const full = `${text}||||`;
  const view = new DataView(new ArrayBuffer(full.length));
  for (let n = 0, word = 0; n < full.length; n++) {
    const code = full.charCodeAt(n);
    word = (n % 5 && word) * 85 + (code === 125 ? 20 : code === 126 ? 52 : code - 40);
    if (n % 5 === 4) view.setUint32(((n - 4) * 4) / 5, word);
  }
  return new Uint8Array(view.buffer, 0, (text.length * 4) / 5);
}

/** @param {string} pack @returns {Promise<string>} */
export async function inflated(pack) {
  const plain = new Blob([bytesOf(pack)]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Response(plain).text();
}
