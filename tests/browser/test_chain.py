"""The chain of stages over a look: one order in all magics, counts, and stages not yet made."""

import jax.numpy as jnp
import pytest

import jaxlens
from jaxlens.questions import askable
from tests.browser.test_axe import violations

NAMES = (
    "Your code,jaxpr,StableHLO,HLO,fusion,optimised HLO,kernels,LLVM,assembly,"
    "graph,HLO graph,passes,cost,memory,times"
).split(",")
STEP = ".bar.chain > button"


def norm(x, w):
    centred = x - x.mean(-1, keepdims=True)
    return centred / jnp.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * w


@pytest.fixture(scope="module")
def cap():
    return jaxlens.capture(norm, jnp.ones((16, 32)), jnp.ones(32))


def names(page):
    """The steps without their counts."""
    return page.locator(STEP).evaluate_all("all => all.map(e => e.firstChild.textContent.trim())")


def count(page, key):
    return page.locator(f".bar [data-key={key}] small").inner_text()


def test_all_looks_have_the_same_steps_in_the_same_order(saved, cap):
    opened = {
        "jaxpr": ["source", "jaxpr"],
        "hlo": ["source", "change"],
        "compile": ["source", "kernels"],
        "explore": ["source", "graph"],
    }
    for verb, keys in opened.items():
        page = saved(getattr(jaxlens, verb)(cap).html())
        shown = page.locator(".bar [aria-pressed=true]")
        assert shown.evaluate_all("all => all.map(e => e.dataset.key)") == keys
        elsewhere = {"times"} if verb == "compile" else set()  # its table is above the panes
        assert names(page) == [name for name in NAMES if name not in elsewhere]
        lacking = page.locator(".bar [data-lacks]").count()
        assert lacking + page.locator(".bar [data-key]").count() == len(NAMES) - len(elsewhere)
        assert bool(lacking) == (verb != "explore")


def test_one_thing_has_one_count_in_chain_and_sentence(saved, cap):
    page = saved(jaxlens.explore(cap).html())
    equations = sum(len(region.nodes) for region in cap.jaxpr.module.regions.values())
    kernels = len(cap.kernels)
    before, after = count(page, "change").split(" to ")
    assert count(page, "jaxpr") == str(equations)
    assert count(page, "kernels") == str(kernels)
    assert count(page, "optimized") == after
    first = page.locator(".findings > li").first.inner_text()
    joined = f"fusion joined {before} operations into {after}."
    assert first.startswith(f"{equations} equations became {kernels} kernels; {joined}")


@pytest.mark.parametrize("light", [True, False], ids=["light", "dark"])
def test_a_stage_that_a_dead_page_lacks_says_how_to_get_it(saved, cap, light):
    page = saved(jaxlens.jaxpr(cap).html(), light=light)
    page.locator("[data-lacks=llvm]").click()
    said = page.get_by_text("This page does not hold LLVM: run the cell with %%explore")
    assert said.is_visible()
    assert said.evaluate("e => e.getBoundingClientRect().height < 25")
    assert violations(page) == []
    page.locator(".bar [data-key=jaxpr]").click()
    assert said.count() == 0


def test_the_chain_goes_by_keyboard(saved, cap):
    page = saved(jaxlens.jaxpr(cap).html())
    page.locator(".bar [data-key=source]").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    focused = "document.activeElement.closest('[data-key]').dataset.key"
    assert page.evaluate(focused) == "jaxpr"
    assert page.locator(".bar [data-key=jaxpr]").get_attribute("aria-pressed") == "false"  # shut
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    assert page.get_by_text("This page does not hold StableHLO").is_visible()
    page.keyboard.press("2")  # a number is the same stage in all looks
    page.keyboard.press("8")
    assert page.get_by_text("This page does not hold LLVM").is_visible()


def test_ask_finds_a_question_and_says_which_line_answers_it(saved, cap):
    page = saved(jaxlens.compile(cap).html())
    page.locator(".bar [data-key=source]").focus()
    page.keyboard.press("Control+k")
    box = page.get_by_role("combobox", name="Ask")
    assert box.evaluate("e => e === document.activeElement")
    options = page.get_by_role("option")
    assert options.count() == len(askable())
    assert violations(page) == []
    page.keyboard.type("nan")
    assert options.count() < len(askable())
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowDown")
    chosen = page.locator("[role=option][aria-selected=true]").inner_text()
    assert "Where does the first NaN come from?" in chosen
    page.keyboard.press("Enter")
    assert not box.is_visible()
    assert page.get_by_text("run the cell with %%check --nan").is_visible()
    page.get_by_role("button", name="Ask").click()
    page.keyboard.press("Escape")
    assert not box.is_visible()


@pytest.mark.parametrize("light", [True, False], ids=["light", "dark"])
def test_transforms_open_by_key_and_say_that_they_need_a_kernel(saved, cap, light):
    page = saved(jaxlens.jaxpr(cap).html(), light=light)
    switch = page.get_by_role("button", name="transform", exact=True)
    switch.press("Enter")
    assert violations(page) == []
    page.get_by_label("in_axes of vmap").fill("0,None")
    page.keyboard.press("Enter")
    assert page.get_by_text("A transform needs a live kernel").is_visible()
    page.keyboard.press("Escape")
    assert not page.get_by_role("group", name="Transforms").is_visible()
    assert switch.evaluate("e => e === document.activeElement")


@pytest.fixture(scope="module")
def live(open_notebook):
    """The page of a notebook with three looks."""
    cells = [
        "%load_ext jaxlens\nimport jax.numpy as jnp\nfrom jaxlens import core",
        "def f(x, w):\n    return ((x @ w) ** 2).sum()",
        "%%jaxpr\nf(jnp.ones(3), jnp.ones((3, 4)))",
        "%%jaxpr\nf(core.array([1.0, 2.0]), core.array([[1.0], [2.0]]))",
        "%%jaxpr\n(lambda x: jnp.tanh(x @ x).sum())(jnp.ones((8, 8)))",
    ]
    page = open_notebook("chain.ipynb", cells)
    page.locator(".jaxlens[data-kernel=live]").nth(2).wait_for()
    return page


def test_a_live_kernel_puts_transforms_round_a_function_and_undo_takes_them_off(live):
    page = live
    for n, by in ((0, ""), (1, ", by jaxlens.core")):
        root = page.locator(".jaxlens").nth(n)
        title = root.locator(".title-line")
        root.locator(".bar [data-key=graph]").click()  # which stays open
        shown = root.locator(".bar [aria-pressed=true]").all_inner_texts()
        root.get_by_role("button", name="transform", exact=True).click()
        root.get_by_label("argnums of grad").fill("w")
        root.get_by_role("button", name="grad", exact=True).click()
        root.get_by_role("button", name="undo grad").wait_for()
        assert title.inner_text().startswith("grad(f)(x, w)")
        assert by in title.inner_text()
        assert root.locator(".findings").first.inner_text().startswith("grad made ")
        assert root.locator(".bar [aria-pressed=true]").all_inner_texts() == shown
        root.get_by_label("in_axes of vmap").fill("0,None")
        page.keyboard.press("Enter")
        undo = root.get_by_role("button", name="undo vmap")
        undo.wait_for()
        assert title.inner_text().startswith("vmap(grad(f))(x, w) with x f32[8,")
        assert undo.evaluate("e => e === document.activeElement")
        page.keyboard.press("Enter")
        assert title.inner_text().startswith("grad(f)(x, w)")
        root.get_by_role("button", name="grad", exact=True).click()
        root.get_by_text("Gradient only defined for scalar-output functions").wait_for()
        root.get_by_role("button", name="undo grad").click()
        assert title.inner_text().startswith("f(x, w)")
        assert page.locator(".jaxlens").count() == 3


def test_a_live_kernel_makes_what_a_look_lacks_in_its_place(live):
    page, root = live, live.locator(".jaxlens").nth(2)
    root.locator("[data-pane=source] details[data-line] > summary").first.click()
    assert root.locator(".pin:visible").count()
    root.locator("[data-lacks=optimized]").click()
    page.locator(".jaxlens[data-verb=explore] .bar [data-key=optimized]").wait_for()
    assert page.locator(".jaxlens").count() == 3
    assert root.locator(".bar [data-lacks]").count() == 0
    assert root.locator("details[data-pane=optimized] .pane-body").is_visible()
    page.locator(".jaxlens[data-verb=explore][data-kernel=live]").wait_for()
    what = {"lines": {"listing": 0, "from": 0, "to": 2}}
    assert "lambda" in root.evaluate("(root, what) => root.jaxlens.fetch(what)", what)["rows"]
    assert root.locator(".pin:visible").count()
    assert root.locator(".bar [data-key=optimized]").evaluate("e => e === document.activeElement")
    page.keyboard.press("Control+k")
    page.get_by_role("option", name="Which line owns the memory peak?").click()
    answer = page.locator("details[data-pane=ask-memory] .pane-body")
    answer.get_by_text("The peak is").wait_for()
    assert page.locator(".jaxlens").count() == 3
    assert root.locator(".bar [data-key=ask-memory]").get_attribute("aria-pressed") == "true"
    assert root.locator(".pin:visible").count()
