// @ts-check
/**
 * One question of the panel `jaxlens.Lenses`: a button that opens its answer below it, and beneath
 * the question its answer in a sentence, with how that is known.
 *
 * @typedef {{
 *   get(name: string): any,
 *   set(name: string, value: any): void,
 *   save_changes(): void,
 *   on(name: string, react: () => void): void,
 *   off(name: string, react: () => void): void,
 * }} Model
 */

/**
 * A part of a sentence, in which code stands between backticks.
 * @param {string} text @param {number} index
 */
function part(text, index) {
  if (index % 2 === 0) return text;
  const code = document.createElement("code");
  code.textContent = text;
  return code;
}

/** @param {{model: Model, el: HTMLElement}} given */
function render({ model, el }) {
  const button = document.createElement("button");
  const answer = document.createElement("p");
  const known = document.createElement("small");
  button.type = "button";
  el.classList.add("jaxlens-question");
  el.replaceChildren(button, answer);
  const draw = () => {
    button.textContent = model.get("question");
    button.setAttribute("aria-expanded", String(model.get("expanded")));
    known.textContent = model.get("known");
    const sentence = model.get("sentence").split("`").map(part);
    answer.replaceChildren(...sentence, ...(model.get("known") ? [" ", known] : []));
    answer.hidden = !model.get("sentence");
  };
  const toggle = () => {
    model.set("expanded", !model.get("expanded"));
    model.save_changes();
  };
  button.addEventListener("click", toggle);
  model.on("change", draw);
  draw();
  return () => model.off("change", draw);
}

export default { render };
