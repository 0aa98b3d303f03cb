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
 * @typedef {(what: object) => Promise<any>} Fetch
 * @typedef {{fetch?: Fetch, serving?: Fetch[], ready?: Promise<any>}} Lens
 * @typedef {HTMLElement & {jaxlens?: Lens}} Root
 * @typedef {{stage: string, id: string} | {line: string} | null} Node
 */

const PATIENCE = 20_000; // ms; a kernel that runs a cell answers when it is done

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
  return (what) =>
    new Promise((resolve, reject) => {
      const ask = ++last;
      waiting.set(ask, { resolve, reject });
      setTimeout(() => {
        if (waiting.delete(ask)) reject(new Error("the kernel does not answer: busy, or gone"));
      }, PATIENCE);
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

/** @param {Model} model @returns {Root[]} */
const outputs = (model) => [
  .../** @type {NodeListOf<HTMLElement>} */ (
    document.querySelectorAll(`.jaxlens[data-key="${CSS.escape(model.get("key"))}"]`)
  ),
];

/** Serves the outputs of the view, those that are there and those that come.
 * @param {{model: Model}} given */
function initialize({ model }) {
  const end = new AbortController();
  const { signal } = end;
  const fetch = asking(model, signal);
  /** @type {WeakSet<Root>} */
  const joined = new WeakSet();
  // An output says which panes it shows when it comes to life, and whenever that changes.
  document.addEventListener(
    "jl-panes",
    (event) => {
      const root = event.target;
      if (!(root instanceof HTMLElement) || root.dataset.key !== model.get("key")) return;
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
    for (const root of outputs(model)) pin(root, model.get("selection"));
  };
  model.on("change:selection", select);
  const over = () => end.abort();
  model.on("destroy", over);
  signal.addEventListener("abort", () => {
    model.off("change:selection", select);
    model.off("destroy", over);
  });
  for (const root of outputs(model)) join(root, model, fetch, joined, signal);
  return over;
}

/** Shows the view in a widget of its own; the scripts in it bring it to life.
 * @param {{model: Model, el: HTMLElement}} given */
function render({ model, el }) {
  const end = new AbortController();
  asking(model, end.signal)({ html: true }).then(
    (html) => el.replaceChildren(document.createRange().createContextualFragment(html)),
    (why) => end.signal.aborted || el.replaceChildren(String(why.message)),
  );
  return () => end.abort();
}

export default { initialize, render };
