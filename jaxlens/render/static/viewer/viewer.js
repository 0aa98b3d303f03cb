// @ts-check
/**
 * Brings outputs to life: tabs become panes, and what is pointed at lights up where it came from
 * and where it went. Without this script everything still opens and closes.
 *
 * `root.jaxlens` is what other scripts count on: `ready` (a promise of the rest), `web`,
 * `atoms(stage, id)`, `ids(stage, atom)`, `lines`, `panes`, `links`, and `fetch(what)`, which
 * a live kernel puts there.
 */
import { unfurled, unpacked } from "./embedded_data.js";
import { Web } from "./link_data.js";
import { panesOf } from "./panes.js";
import { Links } from "./highlight.js";
import { splitCode } from "./rows.js";
import { longLists } from "../listing/long_list.js";
import { searchIn } from "./search.js";
import { rulers } from "./overview_ruler.js";
import { about } from "./node_details.js";
import { reveals } from "./reveal.js";
import { follows } from "./follow.js";
import { keysIn } from "./keyboard.js";
import { helpOf } from "./glossary_card.js";

/** What else an output gets, in order. @type {((root: HTMLElement, signal: AbortSignal) => void)[]} */
const PARTS = [searchIn, reveals, about, helpOf, keysIn, rulers, longLists, follows];

/** @type {AbortController | undefined} */
let living;

/** A line with folded pieces tells them when pointed at. @param {Event} event */
function tellFolds(event) {
  const line = event.target instanceof Element ? event.target.closest(".jl [data-id]") : null;
  if (line instanceof HTMLElement && !line.title && line.querySelector("s"))
    line.title = (line.textContent ?? "").trim();
}

let groups = 0;

/** Tabs inside a pane: one stays open, and equal outputs do not share them. @param {HTMLElement} root */
function ownTabs(root) {
  for (const tabs of root.querySelectorAll(".T:not([data-live])")) {
    const panes = [...tabs.children].filter((pane) => pane instanceof HTMLDetailsElement);
    const open = panes.findIndex((pane) => pane.open);
    const name = `jl-tabs-${++groups}`;
    panes.forEach((pane) => pane.setAttribute("name", name));
    if (panes.length) panes[Math.max(open, 0)].open = true;
  }
}

/** A tab that is open stays so. @param {Event} event */
function keepOpen(event) {
  const tab = event.target instanceof Element ? event.target.closest(".jl .T > details[open] > summary") : null;
  if (tab) event.preventDefault();
}

const OWN_KEYS = /^(?:Arrow(?:Up|Down|Left|Right)|Home|End|Enter| |[1-9?\/jknNcC[\]])$/;

/**
 * Keys that the viewer has a use for do not reach the notebook's shortcuts, which in some front
 * ends see a key before anything on the page does. @param {KeyboardEvent} event
 */
function keepKeys(event) {
  const { target } = event;
  const root = target instanceof Element ? target.closest(".jl") : null;
  if (!root || !(target instanceof Element) || event.ctrlKey || event.metaKey || event.altKey) return;
  const ends = event.key === "Escape" && root.querySelector(".pin");
  if (!ends && (!OWN_KEYS.test(event.key) || (event.key === "Enter" && event.shiftKey))) return;
  target.setAttribute("data-lm-suppress-shortcuts", ""); // a selector may match the target itself
  setTimeout(() => target.removeAttribute("data-lm-suppress-shortcuts"));
}

/** @param {HTMLElement} root @param {AbortSignal} signal */
async function wake(root, signal) {
  root.classList.toggle("framed", window !== window.top);
  const panes = panesOf(root, signal);
  ownTabs(root);
  splitCode(root);
  const lens = /** @type {any} */ (root).jaxlens ?? {};
  /** @type {any} */ (root).jaxlens = lens;
  lens.panes = panes;
  const data = Promise.all([unpacked(root, "web"), unfurled(root)]);
  lens.ready = data.then(([found]) => {
    const web = new Web(found ?? { atoms: {} });
    Object.assign(lens, {
      web,
      lines: web.lines,
      atoms: web.atoms.bind(web),
      ids: web.ids.bind(web),
      links: new Links(root, web, signal),
    });
    for (const part of PARTS) part(root, signal);
    setTimeout(() => web.warm(), 100);
    return lens;
  });
  await lens.ready;
}

/**
 * Brings every output under `root` to life that is not yet.
 * @param {ParentNode} root
 * @returns {() => void} ends it for the whole page
 */
export function live(root) {
  if (!living) {
    living = new AbortController();
    const { signal } = living;
    document.addEventListener("click", keepOpen, { signal });
    document.addEventListener("mouseover", tellFolds, { signal });
    window.addEventListener("keydown", keepKeys, { signal, capture: true });
  }
  for (const output of root.querySelectorAll(".jl:not([data-live])")) {
    if (!(output instanceof HTMLElement)) continue;
    output.setAttribute("data-live", "");
    wake(output, living.signal);
  }
  return () => {
    living?.abort();
    living = undefined;
  };
}
