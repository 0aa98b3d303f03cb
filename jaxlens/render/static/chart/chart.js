// @ts-check
/**
 * Puts each chart's drawing in the place of its picture: in the colours of the page, with words
 * for what is pointed at, and linked with the panes beside it.
 */

/** @param {HTMLImageElement} image @returns {Element} its drawing, without the style of a card */
function drawn(image) {
  const bytes = Uint8Array.from(atob(image.src.split(",")[1]), (c) => c.charCodeAt(0));
  const read = new DOMParser().parseFromString(new TextDecoder().decode(bytes), "image/svg+xml");
  const svg = document.adoptNode(read.documentElement);
  svg.querySelector("style")?.remove();
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", image.alt);
  return svg;
}

/** Marks what is linked with what is pointed at. @param {Element} host @param {any} lit */
function mark(host, { atoms, stage, id }) {
  const own = host.getAttribute("data-stage") ?? "";
  const lens = /** @type {any} */ (host.closest(".jaxlens")).jaxlens;
  for (const shape of host.querySelectorAll("[data-id]")) {
    const node = shape.getAttribute("data-id");
    const linked = lens.atoms(own, node).some((/** @type {number} */ atom) => atoms.has(atom));
    shape.classList.toggle("lit", linked || (stage === own && id === node));
  }
}

/** @param {ParentNode} root */
export function live(root) {
  for (const host of root.querySelectorAll(".jaxlens .chart-figure:not([data-live])")) {
    const image = host.querySelector("img");
    if (!image) continue;
    host.setAttribute("data-live", "");
    image.replaceWith(drawn(image));
    host.closest(".jaxlens")?.addEventListener("jl-light", (event) => mark(host, /** @type {CustomEvent} */ (event).detail));
  }
}
