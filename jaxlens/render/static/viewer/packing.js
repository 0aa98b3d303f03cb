// @ts-check
/**
 * Bytes as `html/packing.py` writes them: five characters for four bytes, none of which HTML, JSON or a
 * string of JavaScript would escape.
 */

/** @param {string} text @returns {Uint8Array<ArrayBuffer>} */
export function bytesOf(text) {
  const size = Math.floor((text.length * 4) / 5);
  const full = text.padEnd(Math.ceil(text.length / 5) * 5, "|");
  const view = new DataView(new ArrayBuffer((full.length / 5) * 4));
  for (let n = 0, word = 0; n < full.length; n++) {
    const code = full.charCodeAt(n);
    word = word * 85 + (code === 125 ? 20 : code === 126 ? 52 : code - 40);
    if (n % 5 === 4) {
      view.setUint32(((n - 4) / 5) * 4, word);
      word = 0;
    }
  }
  return new Uint8Array(view.buffer, 0, size);
}
