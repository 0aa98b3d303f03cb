// @ts-check
/**
 * Ask: the questions about the program of a look, by their sentence. A live kernel answers one in a
 * pane of its own; a page without one says which line does.
 */
import { instead } from "./chain.js";
import { button, create, embedded } from "./elements.js";

/** @typedef {[name: string, sentence: string, line: string]} Question */

class Ask {
  /** @param {HTMLElement} root @param {Question[]} questions */
  constructor(root, questions) {
    this.root = root;
    this.panes = /** @type {import("./panes.js").Panes} */ (/** @type {any} */ (root).jaxlens.panes);
    this.open = button("Ask", "Ask a question about this program (Ctrl-K)", () => this.toggle());
    this.open.setAttribute("aria-expanded", "false");
    this.open.setAttribute("aria-haspopup", "listbox");
    const id = `${root.dataset.key}-asks-${Math.random().toString(36).slice(2)}`;
    this.list = create("ul", "", { role: "listbox", "aria-label": "Questions", id });
    this.box = create("input", "", { type: "text", role: "combobox", "aria-label": "Ask", "aria-expanded": "true",
      "aria-controls": id, "aria-autocomplete": "list", placeholder: "Ask about this program", spellcheck: "false", autocomplete: "off" });
    this.options = questions.map(([name, sentence, line], n) => {
      const option = create("li", "", { role: "option", id: `${id}-${n}`, "aria-selected": "false" }, sentence, " ", create("code", "", {}, line));
      option.addEventListener("click", () => this.ask(name, line));
      return option;
    });
    this.list.append(...this.options);
    // The box keeps the focus while one is clicked
    this.list.addEventListener("mousedown", (event) => event.preventDefault());
    this.dialog = create("div", "ask", { role: "dialog", "aria-label": "Ask", hidden: "" }, this.box, this.list);
    this.panes.tools.prepend(this.open);
    this.panes.bar.after(this.dialog);
    this.box.addEventListener("input", () => this.filter());
    this.box.addEventListener("keydown", (event) => this.key(event));
    this.dialog.addEventListener("focusout", ({ relatedTarget }) => {
      if (!this.dialog.contains(/** @type {Node | null} */ (relatedTarget)) && relatedTarget !== this.open) this.toggle(false);
    });
    // On its way down: in a notebook these keys may be the front end's
    window.addEventListener("keydown", (event) => {
      if (!(event.ctrlKey || event.metaKey) || event.key !== "k" || !root.contains(document.activeElement)) return;
      event.preventDefault();
      event.stopPropagation();
      this.toggle(true);
    }, { capture: true });
  }

  /** @param {boolean} [open] */
  toggle(open = Boolean(this.dialog.hidden)) {
    this.dialog.hidden = !open;
    this.open.setAttribute("aria-expanded", String(open));
    if (!open) return;
    this.box.value = "";
    this.filter();
    this.box.focus({ preventScroll: true });
  }

  /** The options that have all words that were typed. */
  filter() {
    const words = this.box.value.toLowerCase().split(/\s+/);
    for (const option of this.options)
      option.hidden = !words.every((word) => option.textContent?.toLowerCase().includes(word));
    this.choose(this.found[0]);
  }

  get found() {
    return this.options.filter((option) => !option.hidden);
  }

  /** @param {HTMLElement | undefined} chosen */
  choose(chosen) {
    this.chosen = chosen;
    for (const option of this.options) option.setAttribute("aria-selected", String(option === chosen));
    this.box.setAttribute("aria-activedescendant", chosen?.id ?? "");
    chosen?.scrollIntoView({ block: "nearest" });
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const { found } = this;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) this.choose(found[(found.findIndex((option) => option === this.chosen) + step + found.length) % found.length]);
    else if (event.key === "Enter") this.chosen?.click();
    else if (event.key === "Escape") {
      this.toggle(false);
      this.open.focus();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** @param {string} name @param {string} line */
  ask(name, line) {
    this.toggle(false);
    this.open.focus();
    instead(this.panes, `ask-${name}`, { question: name }, ["The question is being answered", `The answer is not in this page: run the cell with ${line}.`]);
  }
}

/** @param {HTMLElement} root */
export async function asksIn(root) {
  const questions = await embedded(root, "asks");
  if (questions && /** @type {any} */ (root).jaxlens.panes) new Ask(root, questions);
}
