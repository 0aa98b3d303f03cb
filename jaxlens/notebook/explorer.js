// @ts-check
/**
 * The line between a live kernel and the outputs of one view: those on the page that carry its
 * key, and those that this widget shows itself.
 *
 * The viewer in an output works without it. With it `root.jaxlens.fetch(what)` asks the kernel
 * for what was left out (`notebook/widgets/viewer_requests.py` lists the questions), and a selection goes both ways.
 *
 * @typedef {{
 *   get(name: string): any,
 *   set(name: string, value: any): void,
 *   save_changes(): void,
 *   send(content: any): void,
 *   on(name: string, react: (...given: any[]) => void): void,
 *   off(name: string, react: (...given: any[]) => void): void,
 * }} Model
 * @typedef {(what: object, patience?: number) => Promise<any>} Fetch
 * @typedef {{fetch?: Fetch, serving?: Fetch[], ready?: Promise<any>}} Lens
 * @typedef {HTMLElement & {jaxlens?: Lens}} Root
 * @typedef {{stage: string, id: string} | {line: string} | null} Node
 */

const PATIENCE = 20_000; // ms, 0 for no end; a kernel that runs a cell answers when it is done

/** The node of an event or a trait, in the one form in which they are compared.
 * @param {any} node @returns {Node} */
function plain(node) {
  if (node?.line) return { line: String(node.line) };
  if (node?.stage && node?.id) return { stage: String(node.stage), id: String(node.id) };
  return null;
}

/** @param {any} a @param {any} b */
const same = (a, b) => JSON.stringify(plain(a)) === JSON.stringify(plain(b));

/** Asks the kernel; every question is answered, or fails once patience is out.
 * @param {Model} model @param {AbortSignal} signal
 * @returns {Fetch} */
function asking(model, signal) {
  /** @type {Map<number, {resolve: (data: any) => void, reject: (why: Error) => void}>} */
  const waiting = new Map();
  let last = 0;
  /** @param {any} message */
  const hear = (message) => {
    const waiter = waiting.get(message?.answer);
    if (!waiter) return;
    waiting.delete(message.answer);
    if ("error" in message) waiter.reject(new Error(String(message.error)));
    else waiter.resolve(message.ok);
  };
  model.on("msg:custom", hear);
  signal.addEventListener("abort", () => {
    model.off("msg:custom", hear);
    for (const { reject } of waiting.values()) reject(new Error("the kernel let go of this output"));
    waiting.clear();
  });
  return (what, patience = PATIENCE) =>
    new Promise((resolve, reject) => {
      const ask = ++last;
      waiting.set(ask, { resolve, reject });
      const end = () => {
        if (waiting.delete(ask)) reject(new Error("the kernel does not answer: busy, or gone"));
      };
      if (patience) setTimeout(end, patience);
      model.send({ ask, what });
    });
}

/** Models that are being set to the node of a click, which the page shows already. @type {Set<Model>} */
const updating = new Set();

/** Joins an output to its kernel, once; another Explorer of the view may serve it too.
 * @param {Root} root @param {Model} model @param {Fetch} fetch
 * @param {WeakSet<Root>} joined @param {AbortSignal} signal */
function join(root, model, fetch, joined, signal) {
  if (joined.has(root)) return;
  joined.add(root);
  const own = (root.jaxlens ??= {});
  const serving = (own.serving ??= []);
  serving.push(fetch);
  own.fetch = fetch;
  root.dataset.kernel = "live";
  root.addEventListener(
    "jl-pin",
    (event) => {
      const node = plain(/** @type {CustomEvent} */ (event).detail);
      if (same(node, model.get("selection"))) return;
      updating.add(model);
      model.set("selection", node);
      updating.delete(model);
      model.save_changes();
    },
    { signal },
  );
  signal.addEventListener("abort", () => {
    serving.splice(serving.indexOf(fetch), 1);
    own.fetch = serving.at(-1);
    if (!own.fetch) delete root.dataset.kernel;
  });
  root.dispatchEvent(new CustomEvent("jl-kernel", { bubbles: true }));
  if (model.get("selection")) ready(root).then(() => pin(root, model.get("selection")));
}

/** Waits until an output can be pinned in. @param {Root} root */
async function ready(root) {
  await new Promise((done) => setTimeout(done));
  await root.jaxlens?.ready;
}

/** Pins a node in an output, as a click there would, and brings it into sight.
 * @param {Element} root @param {any} given */
function pin(root, given) {
  const detail = plain(given);
  root.dispatchEvent(new CustomEvent("jl-pin", { detail, bubbles: true }));
  if (detail && "id" in detail)
    root.dispatchEvent(new CustomEvent("jl-reveal", { detail, bubbles: true }));
}

/** The outputs of a view on a page. @param {Document} page @param {Model} model @returns {Root[]} */
const outputs = (page, model) => [
  .../** @type {NodeListOf<HTMLElement>} */ (
    page.querySelectorAll(`.jaxlens[data-key="${CSS.escape(model.get("key"))}"]`)
  ),
];

/** Serves the outputs of the view on a page, those that are there and those that come.
 * @param {Document} page @param {Model} model @param {AbortSignal} signal */
function serve(page, model, signal) {
  const fetch = asking(model, signal);
  /** @type {WeakSet<Root>} */
  const joined = new WeakSet();
  // An output says which panes it shows when it comes to life, and whenever that changes.
  page.addEventListener(
    "jl-panes",
    (event) => {
      const root = /** @type {Root} */ (event.target);
      if (root.dataset?.key !== model.get("key")) return;
      join(root, model, fetch, joined, signal);
      const { open } = /** @type {CustomEvent} */ (event).detail;
      if (JSON.stringify(open) === JSON.stringify(model.get("panes"))) return;
      model.set("panes", open);
      model.save_changes();
    },
    { signal, capture: true }, // it does not bubble
  );
  const select = () => {
    if (updating.has(model)) return;
    for (const root of outputs(page, model)) pin(root, model.get("selection"));
  };
  model.on("change:selection", select);
  signal.addEventListener("abort", () => model.off("change:selection", select));
  for (const root of outputs(page, model)) join(root, model, fetch, joined, signal);
}

/** @param {{model: Model}} given */
function initialize({ model }) {
  const end = new AbortController();
  serve(document, model, end.signal);
  const over = () => end.abort();
  model.on("destroy", over);
  end.signal.addEventListener("abort", () => model.off("destroy", over));
  return over;
}

/** Shows the view in a widget of its own; the scripts in it bring it to life.
 * @param {{model: Model, el: HTMLElement}} given */
function render({ model, el }) {
  const end = new AbortController();
  const show = (/** @type {string} */ html) => {
    if (el.getRootNode() instanceof ShadowRoot) frame(el, html, model, end.signal);
    else el.replaceChildren(document.createRange().createContextualFragment(html));
  };
  if (model.get("html")) show(model.get("html"));
  else
    asking(model, end.signal)({ html: true }).then(
      show,
      (why) => end.signal.aborted || el.replaceChildren(String(why.message)),
    );
  return () => end.abort();
}

/** Shows the view in a frame, as high as its content: in a shadow tree, where marimo has its widgets,
 * neither the scripts of an output find it nor do its styles reach it.
 * @param {HTMLElement} el @param {string} html @param {Model} model @param {AbortSignal} signal */
function frame(el, html, model, signal) {
  const inner = document.createElement("iframe");
  inner.title = "jaxlens";
  inner.style.cssText = "border:0;display:block;width:100%";
  const theme = () => (getComputedStyle(el).colorScheme.includes("dark") ? "dark" : "light");
  inner.addEventListener("load", () => {
    const page = /** @type {Document} */ (inner.contentDocument);
    new ResizeObserver(() => {
      inner.style.height = `${page.documentElement.offsetHeight}px`;
    }).observe(page.documentElement);
    serve(page, model, signal);
  });
  const follow = new MutationObserver(() => {
    if (inner.contentDocument) inner.contentDocument.documentElement.dataset.theme = theme();
  });
  for (const place of [document.documentElement, document.body]) follow.observe(place, { attributes: true });
  signal.addEventListener("abort", () => follow.disconnect());
  inner.srcdoc = `<!doctype html><html lang=en data-theme=${theme()}><meta charset=utf-8>`
    + `<style>body { margin: 0 } html { overflow-y: hidden }</style><body>${html}`;
  el.replaceChildren(inner);
}

export default { initialize, render };
