// @ts-check
/** Installs the assets of an output (`html/assets.py`): once per page and version. */

import { inflated } from "./packing.js";

/**
 * @param {string} pack programs of the kits, with "\0" between
 * @param {[key: string, needs: string][]} kits
 */
export function install(pack, kits) {
  const page = /** @type {any} */ (window);
  let programs;
  // While the page is read, the last output may lack its end: what is brought to life is whole.
  const read = document.readyState !== "loading" ? null
    : new Promise((done) => document.addEventListener("DOMContentLoaded", done, { once: true }));
  kits.forEach(([key, needs], n) => {
    // An element's id is a property of `window` too, so the promise has a name of its own.
    const id = "jl-" + key, name = "jaxlens-" + key;
    for (const style of document.querySelectorAll(`style[data-jl="${key}"]`))
      if (!document.getElementById(id)) document.head.append(Object.assign(style, { id }));
      else if (style.id !== id) style.remove();
    const start = async () => {
      // An inserted element turns text into a program where only inline scripts may run.
      const script = document.createElement("script");
      script.textContent = (await (programs ??= inflated(pack))).split("\0")[n];
      document.head.append(script);
      script.remove();
      return script.live(inflated, await page["jaxlens-" + needs]);
    };
    if (page.DecompressionStream) Promise.all([page[name] ??= start(), read]).then(([live]) => live(document));
  });
}
