"""The map of the course opens lessons by mouse and keyboard, from its tables and its drawing."""

import pytest

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


@pytest.fixture
def course_map(saved, tmp_path):
    page = saved(jaxlens.course.progress(tmp_path).html())
    page.evaluate(OPENED)
    return page


def opened(page):
    return page.evaluate("opened")


def test_a_title_opens_its_lesson(course_map):
    link = course_map.get_by_role("link", name="When it compiles", exact=True)
    link.click()
    link.focus()
    course_map.keyboard.press("Enter")
    assert opened(course_map) == ["07_when_it_compiles.ipynb"] * 2


def test_a_number_says_which_lesson_it_is(course_map):
    course_map.get_by_role("link", name="7. When it compiles", exact=True).first.click()
    assert opened(course_map) == ["07_when_it_compiles.ipynb"]


def test_a_box_opens_its_lesson(course_map):
    course_map.get_by_role("button", name="What needs what").click()
    box = course_map.locator(".jaxlens-figure [role=link]", has_text="20. What is fused")
    box.click()
    course_map.keyboard.press("Enter")
    assert opened(course_map) == ["20_what_is_fused.ipynb"] * 2
    course_map.keyboard.press("ArrowDown")
    course_map.keyboard.press("Enter")
    assert len(opened(course_map)) == 3
    assert opened(course_map)[2] != "20_what_is_fused.ipynb"
