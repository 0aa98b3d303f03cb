"""The memory chart in a page: it names what is under the pointer or the keys, zooms, and links."""

from dataclasses import replace

import pytest

import jaxlens
from jaxlens.ir.compile_log import KeyChange
from jaxlens.jobs.record.facts import facts
from jaxlens.jobs.record.report import document
from jaxlens.questions.timeline.events import CodeLine, Dispatch, Execution, RunTimeline, Wait
from jaxlens.questions.timeline.verbs import answer
from jaxlens.views.view import View
from tests.jobs.record.job_records import compiled, job, process
from tests.support.paths import RECORDS

WORDS = ".chart-figure [role=status]"
PARTS = "i => { const box = i.viewBox.baseVal; return [box.x, box.y, box.width, box.height] }"


@pytest.fixture(scope="module")
def markup():
    capture = jaxlens.load(RECORDS / "mlp_step.cpu.jaxlens")
    return jaxlens.memory(capture).html()


@pytest.fixture
def page(saved, markup):
    page = saved(markup)
    page.locator(".jaxlens-chart[tabindex]").wait_for()
    return page


def part(page):
    return page.locator(".jaxlens-chart .plot").evaluate(PARTS)


def test_what_is_under_the_pointer_is_named_and_lights_its_row(page):
    rect = page.locator(".plot rect", has=page.locator("title", has_text="params['w1']"))
    rect.hover()
    assert page.locator(WORDS).inner_text() == "params['w1'] f32[64,128], 32.8 kB, argument"
    lit = page.locator(".pane-body tr.pointed, .pane-body tr.lit").all_inner_texts()
    assert any("params['w1']" in text for text in lit)


def test_keys_name_each_part_zoom_and_pin(page):
    chart = page.locator(".jaxlens-chart")
    whole = part(page)
    chart.focus()
    said = []
    for key in ("Home", "ArrowRight", "ArrowRight", "ArrowLeft", "End"):
        page.keyboard.press(key)
        said.append(page.locator(WORDS).inner_text())
    assert said[1] == said[3]
    assert len(set(said)) == 4
    assert all(" B, " in text or "kB, " in text for text in said)
    page.keyboard.press("Home")
    page.keyboard.press("+")
    page.keyboard.press("+")
    assert part(page)[2] == pytest.approx(whole[2] / 1.6**2)
    # Names of what is in sight take the place of those of the whole.
    assert any(
        "params['w1'] f32[64,128]" in t for t in page.locator(".near text").all_text_contents()
    )
    assert not page.locator(".labels").is_visible()
    bottom, *_, top = page.locator(".ticks text").all_text_contents()
    assert (bottom, top) != ("0 B", "104 kB")
    page.keyboard.press("Enter")
    pinned = page.locator(".pane-body tr.pin").all_inner_texts()
    assert any(text.startswith("params['w1']") for text in pinned)
    page.keyboard.press("Enter")
    assert page.locator(".pane-body tr.pin").count() == 0
    page.keyboard.press("0")
    assert part(page) == whole
    assert page.locator(".ticks text").first.text_content() == "0 B"


def test_the_wheel_zooms_with_control_only_and_a_zoomed_plot_is_dragged(page):
    whole = part(page)
    box = page.locator(".jaxlens-chart").bounding_box()
    page.mouse.move(box["x"] + 400, box["y"] + 250)
    page.mouse.wheel(0, -300)
    assert part(page) == whole
    page.keyboard.down("Control")
    page.mouse.wheel(0, -300)
    page.keyboard.up("Control")
    page.wait_for_function("document.querySelector('.jaxlens-chart.zoomed')")
    before = part(page)
    page.mouse.down()
    page.mouse.move(box["x"] + 450, box["y"] + 250, steps=4)
    page.mouse.up()
    after = part(page)
    assert after[0] < before[0]
    assert after[2:] == before[2:]
    assert page.locator(".pane-body tr.pin").count() == 0  # a drag is no click
    page.get_by_role("button", name="all", exact=True).click()
    assert part(page) == whole


def test_lanes_over_time_zoom_along_time_and_keys_keep_to_a_lane(saved):
    step, loss = CodeLine("cell 3:4", "w, loss = step(w)"), CodeLine("cell 3:5", "float(loss)")
    starts = [0.01 * turn for turn in range(4)]
    run = RunTimeline(
        0.04,
        tuple(Dispatch(f"step{n}", start, 0.001, step) for n, start in enumerate(starts)),
        tuple(Wait(start + 0.001, 0.008, loss, "step") for start in starts),
        tuple(Execution("CPU 0", "step", start + 0.001, 0.008, step) for start in starts),
    )
    page = saved(answer(run, "cell").html(), ready=".jaxlens-chart[tabindex]")
    chart = page.locator(".jaxlens-chart[tabindex]")
    chart.focus()
    page.keyboard.press("Home")
    assert page.locator(WORDS).inner_text().startswith("step0, 1 ms, dispatched, cell 3:4")
    page.keyboard.press("ArrowRight")
    assert page.locator(WORDS).inner_text().startswith("step1, 1 ms, dispatched")
    page.keyboard.press("ArrowDown")
    assert page.locator(WORDS).inner_text().startswith("step, 8 ms, Python waits for it, cell 3:5")
    whole = part(page)
    page.keyboard.press("+")
    zoomed = part(page)
    assert zoomed[2] == pytest.approx(whole[2] / 1.6)
    assert zoomed[1::2] == whole[1::2]  # all lanes stay
    ticks = page.locator(".ticks text").all_text_contents()
    assert ticks != ["0 s", "10 ms", "20 ms", "30 ms", "40 ms"]
    page.keyboard.press("0")
    ticks = page.locator(".ticks text").all_text_contents()
    assert ticks == ["0 s", "10 ms", "20 ms", "30 ms", "40 ms"]


@pytest.mark.parametrize("width", [1200, 420])
def test_programs_of_a_record_open_from_folded_rows(new_page, tmp_path, width):
    names = "a" * 24, "b" * 24
    calls = [replace(compiled(n, program=name), program=name) for n, name in enumerate(names, 1)]
    long = "PyTreeDef({'b':*,'w':*})" * 5  # does not break
    calls = [replace(c, call=replace(c.call, changes=(KeyChange("new", long),))) for c in calls]
    record = replace(job(process(0, *calls, count=1)), programs=dict.fromkeys(names, ()))
    pages = {name: f"a-programs/{name}.html" for name in names}
    (tmp_path / "a-programs").mkdir()
    for address in pages.values():
        (tmp_path / address).write_text(f"<title>{address}</title>")
    known = replace(facts(record, lambda *_: None), pages=pages)
    View(None, lambda: document(known)).save(tmp_path / "a.html")
    page = new_page(width)
    home = (tmp_path / "a.html").as_uri()
    page.goto(home)
    for name in names:  # by click, in the rows below
        page.locator(".below a", has_text=name[:8]).click()
        page.wait_for_url(f"**/{name}.html")
        page.goto(home)
    page.locator(".below a").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/{names[0]}.html")
