/** What the theme leaves to do: lessons by their pages, and all by keyboard. */
const root = document.documentElement.dataset.content_root ?? "./";

// A lesson's address in an output is that of its notebook; here it is a page.
for (const event of ["pointerover", "focusin"]) {
  document.addEventListener(event, ({ target }) => {
    const link = target.closest?.("a[href$='.ipynb']");
    const name = link?.getAttribute("href").split("/").at(-1).replace(/ipynb$/, "html");
    if (name) link.href = `${root}course/${name}`;
  });
}

document.querySelector(".sidebar-drawer")?.setAttribute("aria-label", "Pages");
document.querySelector(".toc-drawer")?.setAttribute("aria-label", "On this page");
for (const wide of document.querySelectorAll(".highlight > pre, .table-wrapper")) wide.tabIndex = 0;
