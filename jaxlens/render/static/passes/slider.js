// @ts-check
/**
 * What moves the pass scrubber: a bar for the instructions after each step, the slider under
 * them, and buttons. It knows which step it stands at, and tells when that changes.
 */
import { button, create } from "../viewer/elements.js";

/** @typedef {import("./rows.js").PassStepData} PassStepData */

export class PassSlide {
  /** @param {PassStepData[]} steps @param {() => void} moved */
  constructor(steps, moved) {
    this.steps = steps;
    this.moved = moved;
    this.last = steps.length - 1;
    this.at = Math.min(1, this.last);
    this.slider = create("input", "", { type: "range", min: "0", max: `${this.last}`, "aria-label": "Pass" });
    this.slider.addEventListener("input", () => this.go(Number(this.slider.value)));
    this.bars = steps.map((_, place) => this.bar(place));
    const spark = create("div", "spark", { "aria-hidden": "true" }, ...this.bars);
    this.track = create("div", "slide", {}, spark, this.slider);
    this.track.style.setProperty("--steps", `${steps.length}`);
    this.buttons = [
      button("First", "", () => this.go(0)),
      button("Back", "", () => this.go(this.at - 1)),
      button("Forward", "", () => this.go(this.at + 1)),
      button("Last", "", () => this.go(this.last)),
    ];
  }

  /** @param {number} place a step; its bar is as high as its program is long */
  bar(place) {
    const most = Math.max(1, ...this.steps.map((step) => step.size ?? 0));
    const inner = create("i");
    inner.style.height = `${(100 * (this.steps[place].size ?? 0)) / most}%`;
    const bar = create("i", "", { title: this.label(place) }, inner);
    bar.addEventListener("click", () => this.go(place));
    return bar;
  }

  /** @param {number} place */
  label(place) {
    const { name, size } = this.steps[place];
    const counted = size === null ? "" : `, ${size.toLocaleString("en")} instructions`;
    return `${place} of ${this.last}: ${place ? name : "before optimisation"}${counted}`;
  }

  /** @param {number} place @param {boolean} [again] whether to tell of it though it is there */
  go(place, again = false) {
    const next = Math.max(0, Math.min(place, this.last));
    if (next === this.at && !again) return;
    this.at = next;
    this.show();
    this.moved();
  }

  show() {
    this.slider.value = `${this.at}`;
    this.slider.setAttribute("aria-valuetext", this.label(this.at));
    this.bars.forEach((bar, place) => bar.classList.toggle("now", place === this.at));
  }
}
