"""The map of the course opens lessons by mouse and keyboard, from its tables and its drawing."""

import jaxlens

OPENED = """() => {
  window.opened = [];
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href]");
    if (link) { event.preventDefault(); opened.push(link.getAttribute("href")); }
  });
  // As a notebook that edits the cell on Enter
  document.addEventListener("keydown", (e) => e.key === "Enter" && e.preventDefault(), true);
}"""


def test_a_title_a_number_and_a_box_open_their_lesson(saved, tmp_path):
    page = saved(jaxlens.course.progress(tmp_path).html())
    page.evaluate(OPENED)
    link = page.get_by_role("link", name="When it compiles", exact=True)
    link.click()
    link.focus()
    page.keyboard.press("Enter")
    page.get_by_role("link", name="9. When it compiles", exact=True).first.click()
    page.get_by_role("button", name="What needs what").click()
    page.locator(".jaxlens-figure [role=link]", has_text="22. What is fused").click()
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    *opened, last = page.evaluate("opened")
    assert opened == ["09_when_it_compiles.ipynb"] * 3 + ["22_what_is_fused.ipynb"] * 2
    assert last != "22_what_is_fused.ipynb"
