// @ts-check
/** The buttons over a drawing, and what its "?" says. */

/** Keys and what they do; `keyboard.js` acts on them. @type {[string, string][]} */
const KEYS = [
  ["↓ ↑", "along the edges: to what reads the box, to what it reads; into and out of an open box"],
  ["← →", "to the box beside it"],
  ["Enter", "open or shut the box (also: its marker, or a double click)"],
  ["Space", "pin the box, in all panes (also: a click)"],
  ["n", "only its neighbours: one step, two steps, all again"],
  ["h", "what its operation does"],
  ["f", "fit the whole picture"],
  ["+ −", "zoom (also: Ctrl and the wheel); 1 for actual size"],
  ["Shift and arrows", "move the picture (also: drag it)"],
  ["Escape", "end neighbours, then the pin, then shut the box around"],
  ["?", "these keys"],
];

/**
 * @param {[string, string, () => void][]} acts face, name and what it does, for each button
 * @param {AbortSignal} signal
 */
export function toolbar(acts, signal) {
  const bar = document.createElement("div");
  bar.className = "tools";
  bar.setAttribute("role", "group");
  bar.setAttribute("aria-label", "Graph");
  for (const [face, name, act] of acts) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = face;
    button.title = name;
    if (!/\w/.test(face)) button.setAttribute("aria-label", name);
    button.addEventListener("click", act, { signal });
    bar.append(button);
  }
  return bar;
}

/** The table of keys, shut at first. */
export function keyTable() {
  const table = document.createElement("dl");
  table.className = "keys";
  table.hidden = true;
  for (const [keys, does] of KEYS) {
    const [term, words] = [document.createElement("dt"), document.createElement("dd")];
    term.textContent = keys;
    words.textContent = does;
    table.append(term, words);
  }
  return table;
}
