"""The view of a program under one more transform, which begins with what that changed."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from jaxlens import api
from jaxlens.answers import ask
from jaxlens.captures import Capture
from jaxlens.errors import LensError, UnavailableError
from jaxlens.notebook.widgets.viewer_requests import NOT_SAVED
from jaxlens.questions import askable
from jaxlens.render.document import Document, Findings, Tabs
from jaxlens.report import Finding
from jaxlens.views.view import View


def with_transform(view: View[Any], name: str, value: str) -> View[Any]:
    """Returns the same look at a program under one more transform.

    Args:
        view: A look at a call.
        name: "jit", "grad", "vmap", "jvp" or "checkpoint".
        value: The argnums of a `grad`, the in_axes of a `vmap`; "" for their default.

    Raises:
        LensError: The program has no function here, or the value does not fit it.
        Exception: What JAX says of a transform that does not fit.
    """
    if view.capture is None:
        raise UnavailableError("there is no program behind this view")
    made = api.transformed(view.capture, name, value.strip())
    shown: View[Any] = getattr(api, view.document.verb)(made).compute()
    rules = tuple(_rules(made))
    was, now = _sizes(view.document), _sizes(shown.document)
    counts = tuple(_counts(was, now)) if set(now) != {"jaxpr"} or not rules else ()
    told = Findings((*rules, *counts, NOT_SAVED))
    both = replace(shown.document, blocks=(told, *shown.document.blocks))
    return View(made, lambda: both)


def _rules(capture: Capture) -> Iterator[Finding]:
    """Yields what the outermost transform made of the equations, as the ladder says it."""
    with suppress(LensError):
        ladder = ask(askable()["ladder"], capture)
        made = [rung.transform for rung in ladder.facts.rungs[1:]]  # a sentence for each
        if capture.program.transforms[0] in made:
            last = len(made) - 1 - made[::-1].index(capture.program.transforms[0])
            yield ladder.findings[last]
            yield from ladder.findings[len(made) :]


def _counts(was: Mapping[str, str], now: Mapping[str, str]) -> Iterator[Finding]:
    """Yields how much each stage had and has; nothing where none has a count."""
    both = [name for name in now if name in was]
    changes = [f"{name} {was[name]} to {now[name]}" for name in both if was[name] != now[name]]
    if changes:
        yield Finding(f"What each stage has, before and now: {', '.join(changes)}.")
    elif both:
        yield Finding(f"Each stage has as much as before: {', '.join(both)}.")


def _sizes(document: Document) -> dict[str, str]:
    """Returns the number of the count of each step of the chain, by the step's name."""
    tabs = next(block for block in document.blocks if isinstance(block, Tabs) and block.chain)
    stages = {tab.key: tab.count for tab in tabs.tabs if tab.count}
    return {
        name: stages[key].partition(" ")[0]
        for key, name in tabs.chain[0].items()
        if key in stages and " to " not in stages[key]
    }
