// @ts-check
/**
 * Entry of the viewer: tabs become panes, and what is pointed at is highlighted in every stage.
 * Without scripts everything still opens and closes.
 *
 * Other scripts use `root.jaxlens`: `ready` (a promise of the rest), `web` (the link data),
 * `atoms(stage, id)`, `ids(stage, atom)`, `lines`, `panes`, `links` (the highlighter), and
 * `fetch(what)`, which a live kernel sets.
 */
import { embedded, insertLateHtml } from "./elements.js";
import { LinkData } from "./link_data.js";
import { panesOf } from "./panes.js";
import { Highlighter } from "./highlight.js";
import { splitCode } from "./rows.js";
import { searchIn } from "./search.js";
import { rulers } from "./overview_ruler.js";
import { nodeDetails } from "./node_details.js";
import { follows, reveals } from "./reveal.js";
import { keysIn } from "./keyboard.js";
import { asksIn } from "./ask.js";
import { tableColumns } from "./table_columns.js";
import { transformsIn } from "./transforms.js";

/** What else an output gets, in order. @type {((root: HTMLElement) => void)[]} */
const PARTS = [searchIn, reveals, nodeDetails, keysIn, transformsIn, asksIn, rulers, tableColumns, follows];

let listening = false;

/** The title of a line with folded pieces is its whole text. @param {Event} event */
function showFolded(event) {
  const line = event.target instanceof Element ? event.target.closest(".jaxlens [data-id]") : null;
  if (line instanceof HTMLElement && !line.title && line.querySelector("tt"))
    line.title = (line.textContent ?? "").trim();
}

let groups = 0;

/** Tabs inside a pane: one stays open, and equal outputs have groups of their own. @param {HTMLElement} root */
function nestedTabs(root) {
  for (const tabs of root.querySelectorAll(".pane-tabs:not([data-live])")) {
    const panes = [...tabs.children].filter((pane) => pane instanceof HTMLDetailsElement);
    const open = panes.findIndex((pane) => pane.open);
    const name = `jl-tabs-${++groups}`;
    panes.forEach((pane) => pane.setAttribute("name", name));
    if (panes.length) panes[Math.max(open, 0)].open = true;
  }
}

/** A tab that is open stays so. @param {Event} event */
function keepOpen(event) {
  const tab = event.target instanceof Element ? event.target.closest(".jaxlens .pane-tabs > details[open] > summary") : null;
  if (tab) event.preventDefault();
}

const OWN_KEYS = /^(?:Arrow(?:Up|Down|Left|Right)|Home|End|Enter| |[1-9?\/jknNcC[\]])$/;

/**
 * Keys that the viewer has a use for do not reach the notebook's shortcuts, which in some front
 * ends see a key before anything on the page does. @param {KeyboardEvent} event
 */
function keepKeys(event) {
  const { target } = event;
  const root = target instanceof Element ? target.closest(".jaxlens") : null;
  if (!root || !(target instanceof Element) || event.ctrlKey || event.metaKey || event.altKey) return;
  const ends = event.key === "Escape" && root.querySelector(".pin");
  if (!ends && (!OWN_KEYS.test(event.key) || (event.key === "Enter" && event.shiftKey))) return;
  // A selector may match the target itself
  target.setAttribute("data-lm-suppress-shortcuts", "");
  setTimeout(() => target.removeAttribute("data-lm-suppress-shortcuts"));
}

/** @param {HTMLElement} root */
async function activate(root) {
  root.classList.toggle("framed", window !== window.top);
  const panes = panesOf(root);
  nestedTabs(root);
  splitCode(root);
  const lens = /** @type {any} */ (root).jaxlens ?? {};
  /** @type {any} */ (root).jaxlens = lens;
  lens.panes = panes;
  const data = Promise.all([embedded(root, "web"), insertLateHtml(root)]);
  lens.ready = data.then(([links]) => {
    const web = new LinkData(links ?? { atoms: {} });
    Object.assign(lens, {
      web,
      lines: web.lines,
      atoms: web.atoms.bind(web),
      ids: web.ids.bind(web),
      links: new Highlighter(root, web),
    });
    for (const part of PARTS) part(root);
    setTimeout(() => web.warm(), 100);
    return lens;
  });
  await lens.ready;
}

/** Brings every output under `root` to life that is not yet. @param {ParentNode} root */
export function live(root) {
  if (!listening) {
    listening = true;
    document.addEventListener("click", keepOpen);
    document.addEventListener("mouseover", showFolded);
    window.addEventListener("keydown", keepKeys, { capture: true });
  }
  for (const output of root.querySelectorAll(".jaxlens:not([data-live])")) {
    if (!(output instanceof HTMLElement)) continue;
    output.setAttribute("data-live", "");
    activate(output);
  }
}
