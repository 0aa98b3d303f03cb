"""The pass scrubber in a real browser: it slides, plays, jumps, and lights what Python links."""

import json
from dataclasses import replace

import pytest

import jaxlens
from jaxlens.notebook.widgets.viewer_requests import step_rows
from jaxlens.render.document import Document, Line, PassRow, PassSteps, Piece, walk
from jaxlens.render.html.document_html import html
from tests.support import programs
from tests.support.browsing import CONTRAST, PAGE
from tests.support.documents import explore as document
from tests.support.viewer_pages import choose


@pytest.fixture(scope="module")
def capture():
    function, args = programs.mlp_step()
    return jaxlens.capture(function, *args)


@pytest.fixture(scope="module")
def explored(capture):
    return document(capture)


@pytest.fixture(scope="module")
def steps(explored):
    (found,) = [s.part for s in walk(explored.blocks) if isinstance(s.part, PassSteps)]
    return found


@pytest.fixture
def show(new_page):
    """`show(document) -> page`, with the passes in sight."""

    def show_(shown, light=True, before=""):
        page = new_page(1300, 1000)
        if before == "clock":
            page.clock.install()
        page.set_content(PAGE.format("true" if light else "false", html(shown)))
        page.wait_for_selector(".jaxlens[data-live]", state="attached")
        page.evaluate("document.querySelector('.jaxlens').jaxlens.ready.then(() => null)")
        tab = page.locator(".bar [data-key=passes]")
        if tab.count() and tab.get_attribute("aria-pressed") != "true":
            choose(page, "source", "optimized", "passes")
        page.wait_for_selector(".passes .slide")
        return page

    return show_


def slider(page):
    return page.get_by_role("slider", name="Pass")


def told(page):
    return slider(page).get_attribute("aria-valuetext")


def place_of(steps, index):
    return next(n for n, step in enumerate(steps.steps) if step.index >= index)


def label(steps, place):
    step = steps.steps[place]
    name = step.name if place else "before optimisation"
    return f"{place} of {len(steps.steps) - 1}: {name}, {step.size} instructions"


def go(page, steps, place):
    slider(page).focus()
    page.keyboard.press("Home")
    for _ in range(place):
        page.keyboard.press("ArrowRight")
    assert told(page) == label(steps, place)


def marked(page):
    """Mark, id and whether it is gone, of each row that is not as it was."""
    return page.evaluate(
        "[...document.querySelectorAll('.passes pre > [data-id]')]"
        ".filter(r => r.firstChild.textContent)"
        ".map(r => [r.firstChild.textContent.slice(2), r.dataset.id, r.matches('.was')])"
    )


def test_the_slider_goes_through_the_steps_by_keyboard_and_shows_the_rows(show, explored, steps):
    page = show(explored)
    assert told(page) == label(steps, 1)
    for place, step in enumerate(steps.steps):
        go(page, steps, place)
        assert marked(page) == [
            ["was" if row.gone and row.mark == "rewritten" else row.mark, row.line.id, row.gone]
            for row in step.rows
            if row.line.id and row.mark != "same"
        ]
        said = page.locator(".passes .said").inner_text()
        assert step.title in said
        assert step.did in said
        assert step.meaning in said


def test_the_whole_program_stands_there_with_the_line_of_each_run(show, explored, steps):
    page = show(explored)
    go(page, steps, 1)
    page.get_by_label("whole program").check()
    ids = page.evaluate(
        "[...document.querySelectorAll('.passes pre > [data-id]')].map(r => r.dataset.id)"
    )
    assert ids == [row.line.id for row in steps.steps[1].rows if row.line.id and not row.gone]
    rows = page.locator(".passes pre.rows > div").evaluate_all(
        "all => all.map(e => [e.title, getComputedStyle(e, '::after').content])"
    )
    owners = [owner for owner, _ in rows]
    assert len({*owners}) > 3
    for (owner, said), before in zip(rows, ["", *owners], strict=False):
        assert said == (f'"{owner}"' if owner != before else "none")


def test_runs_that_are_the_same_open_in_place(show, explored, steps):
    page = show(explored)
    go(page, steps, 1)
    fold = page.locator(".passes pre > button").first
    hidden = int(fold.inner_text().split()[-3])
    before = page.locator(".passes pre > div").count()
    fold.click()
    assert page.locator(".passes pre > div").count() == before + hidden


def test_buttons_bars_and_the_table_step_too(show, explored, steps):
    page = show(explored)
    last = len(steps.steps) - 1
    for button, place in (
        ("Last", last),
        ("Forward", last),
        ("Back", last - 1),
        ("First", 0),
        ("Forward", 1),
    ):
        page.get_by_role("button", name=button, exact=True).click()
        assert told(page) == label(steps, place)
    page.locator(".passes .spark > i").nth(4).click()
    assert told(page) == label(steps, 4)
    page.get_by_text("All passes in a table").click()
    page.locator(".passes tbody tr").nth(2).click()
    assert told(page) == label(steps, 3)
    assert (
        page.locator(".passes tr[aria-current=step] td").nth(1).inner_text() == steps.steps[3].name
    )


def equations(explored, steps):
    """An equation for each pass that ended one."""
    first: dict[int, str] = {}
    for id, index in explored.web.ends.items():
        first.setdefault(place_of(steps, index), id)
    return list(first.values())


def test_it_jumps_to_the_pass_that_ended_the_pinned_equation(show, explored, steps):
    page = show(explored)
    page.locator(".bar [data-key=optimized]").click()  # makes room
    page.locator(".bar [data-key=jaxpr]").click(modifiers=["Shift"])
    ended = page.locator(".passes .buttons button").last
    assert ended.is_disabled()
    chosen = equations(explored, steps)
    assert len(chosen) >= 2
    kept = next(id for id in explored.web.fates if id not in explored.web.ends)
    page.locator(f"[data-pane=jaxpr] [data-id={kept}]").first.click()
    assert ended.inner_text() == f"No pass ended {kept}"
    assert ended.is_disabled()
    for id in chosen:
        page.locator(f"[data-pane=jaxpr] [data-id={id}]").first.click()
        assert ended.inner_text() == f"Where {id} ended"
        ended.click()
        place = place_of(steps, explored.web.ends[id])
        assert told(page) == label(steps, place)
        atoms = set(explored.web.atoms["jaxpr"][id])
        step = steps.steps[place]
        linked = [
            row.line.id
            for row in step.rows
            if row.mark != "same" and atoms & set(step.atoms.get(row.line.id, ()))
        ]
        lit = page.locator(".passes pre > .lit")
        lit.first.wait_for()
        shown = lit.evaluate_all("rows => rows.map(r => r.dataset.id)")
        assert [id for id in shown if id in linked] == linked
        assert page.evaluate(
            "(() => { const p = document.querySelector('.passes pre > .lit').closest('.pane-body')"
            ".getBoundingClientRect(); return [...document.querySelectorAll('.passes pre > .lit')]"
            ".some(r => { const b = r.getBoundingClientRect(); return b.top >= p.top &&"
            " b.bottom <= p.bottom }) })()"
        )
    page.keyboard.press("Escape")


def test_it_jumps_to_where_an_instruction_ended(show, explored, steps):
    page = show(explored)
    go(page, steps, 0)
    fusion = next(n for n, step in enumerate(steps.steps) if step.name == "fusion")
    id = next(row.line.id for row in steps.steps[fusion].rows if row.gone and row.mark == "fused")
    page.locator(f".passes pre [data-id='{id}']").click()
    ended = page.get_by_role("button", name=f"Where {id} ended")
    place = next(
        n
        for n, step in enumerate(steps.steps)
        if any(row.gone and row.line.id == id for row in step.rows)
    )
    ended.click()
    assert told(page) == label(steps, place)
    assert page.locator(f".passes pre .was[data-id='{id}']").count() == 1


def lit_lines(page):
    return set(
        page.evaluate(
            "[...document.querySelectorAll('[data-pane=source] .rows > * > :first-child.lit')]"
            ".map(r => parseInt(r.querySelector('i').textContent))"
        )
    )


def test_pointing_lights_what_python_links_both_ways(show, explored, steps):
    page = show(explored)
    web = explored.web
    tried = 0
    for place in (1, 7):
        step = steps.steps[place]
        go(page, steps, place)
        for row in [row for row in step.rows if row.line.id and row.mark != "same"][:40:8]:
            page.locator(f".passes pre [data-id='{row.line.id}']").first.hover()
            page.wait_for_timeout(60)
            atoms = set(step.atoms.get(row.line.id, ()))
            owners = {name for name, owned in web.lines.items() if atoms & set(owned)}
            assert lit_lines(page) == {int(name.rpartition(":")[2]) for name in owners}
            tried += bool(owners)
    assert tried > 3
    step = steps.steps[7]
    line = next(iter(web.lines))
    page.locator("[data-pane=source] .rows > * > :first-child").filter(
        has_text=f"{line.rpartition(':')[2]}"
    ).first.hover(position={"x": 14, "y": 8})  # its number: the whole line, not an expression
    page.wait_for_timeout(60)
    shown = page.evaluate(
        "[...document.querySelectorAll('.passes pre > [data-id]')].map(r =>"
        " [r.dataset.id, r.matches('.lit')])"
    )
    atoms = set(web.lines[line])
    assert any(lit for _, lit in shown)
    for id, lit in shown:
        assert lit == bool(atoms & set(step.atoms.get(id, ()))), id


def test_a_live_kernel_gives_the_rows_that_were_left_out(show, capture, explored, steps):
    bare = [replace(step, rows=None, atoms={}) for step in steps.steps]
    block = replace(steps, steps=(*steps.steps[:2], *bare[2:]), note="Left out here.")
    page = show(Document("hlo", "f", (block,)))
    page.get_by_role("button", name="Forward").click()
    assert page.locator(".passes pre").inner_text() == "Left out here."
    answer = json.dumps(step_rows(capture, steps.steps[3].index))
    page.evaluate(
        "answer => { document.querySelector('.jaxlens').jaxlens.fetch = async (what) =>"
        " ({ ...JSON.parse(answer), asked: (window.asked = what) }) }",
        answer,
    )
    page.get_by_role("button", name="Forward").click()
    page.locator(".passes pre > [data-id]").first.wait_for()
    assert page.evaluate("window.asked") == {"pass": steps.steps[3].index}
    assert [id for _, id, _ in marked(page)] == [
        row.line.id for row in steps.steps[3].rows if row.line.id and row.mark != "same"
    ]
    page.get_by_role("button", name="Back").click()
    page.get_by_text("the kernel has other passes now").wait_for()


@pytest.mark.parametrize("light", [True, False])
def test_text_has_contrast_in_both_themes(show, steps, light):
    page = show(Document("hlo", "f", (steps,)), light=light)
    for place in range(len(steps.steps)):
        go(page, steps, place)
        for row in page.locator(".passes pre [data-id]").all()[:1]:
            row.hover()
        assert page.evaluate(CONTRAST) == []


def test_names_that_look_like_markup_do_nothing(show, steps):
    name = "</script><img src=x onerror=\"document.title='run'\"><b>"
    line = Line((Piece(name, "name"), Piece(" = "), Piece(name, "op")), name, 0, name)
    step = replace(
        steps.steps[1],
        title=name,
        name=name,
        did=name,
        meaning=name,
        rows=(PassRow("removed", line, True, name),),
    )
    block = replace(steps, steps=(steps.steps[0], step), note=name)
    page = show(Document("hlo", name, (block,)))
    page.locator(".passes pre > [data-id]").first.hover()
    page.locator(".passes pre > [data-id]").first.click()
    assert page.locator(".passes pre > [data-id]").get_attribute("data-id") == name
    assert page.locator(".passes .said").inner_text().count("<img") == 3
    assert page.title() == ""
    assert page.locator(".jaxlens img").count() == 0


def test_without_scripts_the_first_rows_of_the_table_stand_there(new_page, steps):
    page = new_page(java_script_enabled=False)
    page.set_content(PAGE.format("true", html(Document("hlo", "f", (steps,)))))
    text = page.locator(".passes").inner_text()
    assert "more rows here where scripts run" in text
    for step in steps.steps[1:4]:
        assert step.name in text or f"start of {step.title.split(' / ')[0]}" in text
        assert step.meaning in text
        assert step.did in text
