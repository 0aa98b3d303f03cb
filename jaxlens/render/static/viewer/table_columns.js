// @ts-check
/**
 * Columns of a table that do not fit beside the others go below their row, each with its name, so
 * that none is out of sight. The first columns stay; how many depends on the room of the pane. The
 * name of a number sorts kernels by it.
 */
import { button, create } from "./elements.js";

/** Width that a column is given before it breaks, in pixels. */
const BREAKS = 120;

/** What each column would like, in pixels: a name without spaces does not break. @param {HTMLTableElement} table */
function wishes(table) {
  const widths = () => [...table.rows[0].cells].map(({ offsetWidth }) => offsetWidth);
  table.classList.add("unbroken");
  const whole = widths();
  table.classList.remove("unbroken");
  table.style.width = "0";
  const least = widths();
  table.style.width = "";
  return whole.map((width, n) => (table.rows[0].cells[n].className ? width : Math.max(least[n], Math.min(width, BREAKS))));
}

/** @param {HTMLTableElement} table @param {number} kept columns that stand side by side */
function layOut(table, kept) {
  for (const row of table.querySelectorAll(".below")) row.remove();
  const [head, ...rows] = [...table.rows].map((row) => [...row.cells]);
  for (const cells of [head, ...rows]) cells.forEach((cell, n) => (cell.hidden = n >= kept));
  for (const cells of rows) {
    // Copies of what is in the cells: links must not be out of reach there
    const parts = cells.flatMap(({ hidden, textContent, childNodes }, n) => hidden && textContent ? [create("span", "", {}, create("i", "", {}, head[n].textContent ?? ""), " ", ...[...childNodes].map((node) => node.cloneNode(true)))] : []);
    const row = cells[0].parentElement;
    row?.classList.toggle("above", parts.length > 0);
    const id = row?.getAttribute("data-id");
    if (parts.length) row?.after(create("tr", "below", id ? { "data-id": id } : {}, create("td", "", { colspan: `${kept}` }, ...parts)));
  }
}

/** Orders of magnitude of the prefixes that amounts and durations have. */
const PREFIXES = "n µ m  k M G T P E".split(" ");

/** The number of a cell: `1.05 Mflop`, `26.9 ns`; -1 for none. @param {Element} cell */
function valueOf(cell) {
  const [, digits, prefix = ""] = /^([\d.,]+)\s*([nµmkMGTPE](?=[Bfs]))?/.exec(cell.textContent ?? "") ?? [];
  return digits ? Number(digits.replaceAll(",", "")) * 1000 ** (PREFIXES.indexOf(prefix) - 3) : -1;
}

/** Buttons that sort the rows by a number, the largest first. @param {HTMLElement} root @param {HTMLTableElement} table */
function sortable(root, table) {
  const heads = [...table.rows[0].cells];
  heads.forEach((head, n) => {
    if (!head.matches(".num")) return;
    const name = head.textContent ?? "";
    const sort = button(name, `Sort by ${name}`, () => {
      const rows = [...table.tBodies[0].rows].filter((row) => !row.matches(".below"));
      const groups = rows.map((row) => ({ value: valueOf(row.cells[n]), parts: row.nextElementSibling?.matches(".below") ? [row, row.nextElementSibling] : [row] }));
      table.tBodies[0].append(...groups.sort((a, b) => b.value - a.value).flatMap(({ parts }) => parts));
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", "descending");
      root.dispatchEvent(new CustomEvent("jl-rows"));
    });
    head.replaceChildren(sort);
  });
}

/** @param {HTMLElement} root */
export function tableColumns(root) {
  for (const table of root.querySelectorAll(".table-box > table")) {
    // Those have their own places and clicks.
    if (!(table instanceof HTMLTableElement) || table.closest(".passes, [data-verb=course]")) continue;
    /** @type {number[] | undefined} */
    let widths;
    let before = 0;
    if (table.dataset.stage?.startsWith("kernels")) sortable(root, table);
    new ResizeObserver(([{ contentRect }]) => {
      let room = contentRect.width;
      if (!room) return;
      const over = (widths ??= wishes(table)).findIndex((width) => (room -= width) < 0);
      const kept = over < 0 ? widths.length : Math.max(over, 2);
      if (kept === (before || widths.length)) return;
      layOut(table, (before = kept));
      root.dispatchEvent(new CustomEvent("jl-rows"));
    }).observe(/** @type {Element} */ (table.parentElement));
  }
}
