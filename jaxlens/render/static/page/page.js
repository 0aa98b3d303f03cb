// @ts-check
/**
 * In a page of one output (`html/page.py`) the address names what is pinned: `page.html#e12`, with
 * the stage where a later one has the name too (`#hlo/dot.1`), or a line of the user's
 * (`#cell 3:4`). Such an address opens the page with that pin, and a pin changes the address.
 */

/** What an address names. @param {any} lens @param {string} hash @returns {object | null} */
function nodeAt({ web }, hash) {
  const name = decodeURIComponent(hash.slice(1));
  if (!name) return null;
  if (web.lines.has(name) || web.calls.has(name)) return { line: name };
  const [, stage, id] = /^(?:(\w+)\/)?(.*)$/s.exec(name) ?? [];
  const found = web.stageOf(stage ?? "", id);
  return web.has(found, id) ? { stage: found, id } : null;
}

/** @param {any} lens @param {any} node */
function nameOf({ web }, node) {
  if (node.line) return node.line;
  return web.stageOf("", node.id) === node.stage ? node.id : `${node.stage}/${node.id}`;
}

/** @param {ParentNode} page */
export async function live(page) {
  const root = page.querySelector(".jaxlens");
  const lens = await /** @type {any} */ (root)?.jaxlens?.ready;
  if (!root || !lens || root.hasAttribute("data-address")) return;
  root.setAttribute("data-address", "");
  const follow = () => {
    const detail = nodeAt(lens, location.hash);
    if (!detail) return;
    for (const type of ["jl-pin", "jl-reveal"]) root.dispatchEvent(new CustomEvent(type, { detail }));
  };
  root.addEventListener("jl-pin", () => {
    const { pinned } = lens.links;
    if (JSON.stringify(nodeAt(lens, location.hash)) === JSON.stringify(pinned)) return;
    history.replaceState(null, "", pinned ? `#${encodeURI(nameOf(lens, pinned))}` : location.pathname + location.search);
  });
  addEventListener("hashchange", follow);
  follow();
}
