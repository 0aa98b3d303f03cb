// @ts-check
/**
 * The chain of stages over the panes of a look (`CHAIN` in `views/listings/panes.py`), each with its
 * count. A click on a stage that this look did not make has a live kernel make all of them, in the
 * place of this output.
 */
import { button, create } from "./elements.js";

/** @typedef {import("./panes.js").Panes} Panes */
/** @typedef {import("./panes.js").Pane} Pane */
/** @typedef {{button: HTMLButtonElement, pane?: Pane}} Step without a pane: not made */

/** The steps over panes: those of the chain, else the panes. @param {Panes} panes @returns {Step[]} */
export function stepsOf(panes) {
  const { chain } = panes.tabs.dataset;
  if (!chain) return panes.all.map((pane) => ({ button: pane.button, pane }));
  panes.bar.classList.add("chain");
  return chain.split("|").flatMap((part, n) => part.split(";").map((named) => {
    const [key, name] = named.split(":");
    const pane = panes.all.find((each) => each.key === key);
    const step = pane ? made(pane, name) : lacking(panes, key, name);
    step.classList.toggle("aside", n > 0);
    return { button: step, pane };
  }));
}

/** @param {Pane} pane @param {string} name */
function made({ button, details }, name) {
  const count = details.dataset.count ?? "";
  const number = /^[\d,]+(?: to [\d,]+)?/.exec(count)?.[0];
  button.replaceChildren(name, ...(number ? [" ", create("small", "", {}, number)] : []));
  button.dataset.label = button.textContent ?? "";
  button.setAttribute("aria-label", `${name} ${count}`.trim());
  if (count) button.title = `${count}. ${button.title}`;
  return button;
}

/** @param {Panes} panes @param {string} key @param {string} name */
function lacking(panes, key, name) {
  const said = [
    "All stages are being made",
    `This page does not hold ${name}: run the cell with %%explore, which makes all stages.`,
  ];
  const step = button(name, `${name} was not made for this output`, () => instead(panes, key, { further: key }, said));
  step.dataset.lacks = key;
  step.tabIndex = -1;
  return step;
}

/**
 * Asks the kernel for another output, and shows a pane of it.
 * @param {Panes} panes @param {string} key of the pane; "" for the panes that are open here @param {object} what the request
 * @param {string[]} words said while it is waited for, and where no kernel is here
 * @returns {Promise<HTMLElement | undefined>} the other output
 */
export async function instead({ root, said }, key, what, [waits, dead]) {
  const lens = /** @type {any} */ (root).jaxlens;
  if (said.querySelector("progress")) return;
  if (!lens.fetch) {
    said.textContent = dead;
    return;
  }
  const [since, time] = [Date.now(), create("span")];
  const clock = setInterval(() => (time.textContent = `${Math.round((Date.now() - since) / 1000)} s`), 500);
  said.replaceChildren(waits, " ", create("progress", "", { "aria-label": waits }), " ", time);
  try {
    const fresh = await replace(root, await lens.fetch(what, 0), key);
    said.replaceChildren();
    return fresh;
  } catch (why) {
    said.textContent = /** @type {Error} */ (why).message;
  } finally {
    clearInterval(clock);
  }
}

/** Puts another output in the place of one, with the same pin and one pane open. @param {HTMLElement} root @param {string} html @param {string} key */
async function replace(root, html, key) {
  const { panes: before, links: { pinned } } = /** @type {any} */ (root).jaxlens;
  const whole = document.createRange().createContextualFragment(html);
  const fresh = /** @type {HTMLElement} */ (whole.querySelector(".jaxlens"));
  const alive = new Promise((done) => fresh.addEventListener("jl-panes", done, { once: true }));
  root.replaceWith(whole);
  await alive;
  const { panes } = await /** @type {any} */ (fresh).jaxlens.ready;
  if (key) panes.reveal(key);
  else panes.showAll(before.shown);
  panes.all.find((/** @type {Pane} */ pane) => pane.key === key)?.button.focus();
  if (pinned) fresh.dispatchEvent(new CustomEvent("jl-pin", { bubbles: true, detail: pinned }));
  return fresh;
}
