// @ts-check
/**
 * Transforms: a row of buttons, each of which puts one round the function of a look. A live kernel
 * makes the program, which takes the place of this output and begins with what changed; undo brings
 * this one back.
 */
import { instead } from "./chain.js";
import { button, create } from "./elements.js";

/** Each transform, with its argument, examples of that, and what it takes. */
const TRANSFORMS = [
  ["jit"],
  ["grad", "argnums", "0 or x", "Arguments by position or name: 0, or 0,1, or x"],
  ["vmap", "in_axes", "0,None", "0 for all arguments, or one for each: 0,None"],
  ["jvp"],
  ["checkpoint"],
];
const WORDS = ["The program is being made", "A transform needs a live kernel: run the cell, then press it again."];

class Transforms {
  /** @param {HTMLElement} root @param {import("./panes.js").Panes} panes */
  constructor(root, panes) {
    this.root = root;
    this.panes = panes;
    this.switch = button("transform", "Put jit, grad, vmap, jvp or checkpoint round this function", () => this.toggle());
    this.row = create("div", "transforms", { role: "group", "aria-label": "Transforms" });
    for (const [name, argument, example, title] of TRANSFORMS) {
      const box = create("input", "", { type: "text", title: title ?? "", "aria-label": `${argument} of ${name}`, placeholder: example ?? "", spellcheck: "false" });
      const press = button(name, `${name} of this function`, () => this.put(name, box.value));
      this.row.append(press, ...(argument ? [create("label", "", {}, `${argument} `, box)] : []));
      box.addEventListener("keydown", (event) => event.key === "Enter" && press.click());
    }
    this.row.addEventListener("keydown", (event) => {
      // Letters and arrows belong to the boxes, and not to the panes
      event.stopPropagation();
      if (event.key === "Escape") this.toggle(false);
    });
    panes.tools.prepend(this.switch);
    panes.bar.after(this.row);
    this.toggle(false);
  }

  /** @param {boolean} [open] */
  toggle(open = this.row.hidden) {
    if (this.row.contains(document.activeElement)) this.switch.focus();
    this.row.hidden = !open;
    this.switch.setAttribute("aria-expanded", String(open));
    this.panes.fit();
  }

  /** @param {string} name @param {string} value */
  async put(name, value) {
    const fresh = await instead(this.panes, "", { transform: [name, value] }, WORDS);
    /** @type {any} */ (fresh)?.jaxlens.transforms.follows(this, name);
  }

  /** @param {Transforms} before those of the output that this one took the place of @param {string} name what was put round it */
  follows(before, name) {
    const undo = button(`undo ${name}`, `Back to the program without ${name}`, () => {
      this.root.replaceWith(before.root);
      before.panes.fit();
      before.switch.focus();
    });
    undo.classList.add("undo");
    this.row.append(undo);
    this.toggle(true);
    undo.focus();
  }
}

/** @param {HTMLElement} root */
export function transformsIn(root) {
  const lens = /** @type {any} */ (root).jaxlens;
  if (lens.panes?.tabs.dataset.chain) lens.transforms = new Transforms(root, lens.panes);
}
