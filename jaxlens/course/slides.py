"""Slides of a lesson for a class: a plan of 45 minutes, and the predictions to vote on.

The page is one file without scripts: a slide fills the screen, Page Down goes on, and an answer is
shown when it is opened.
"""

import re

from jaxlens.course.build import sources
from jaxlens.course.library import puzzle
from jaxlens.course.predict import Prediction, predictions
from jaxlens.course.puzzle import lesson_of
from jaxlens.ir.lessons import Lesson
from jaxlens.render.html.marks import escaped, prose

_MINUTES = 45
_TAKES = {"## ": 2, "%%predict ": 4, "%%puzzle ": 9}  # minutes
_STEP = re.compile(r"^(## |%%predict |%%puzzle )(.++)$", re.MULTILINE)
_STYLE = """
:root{color-scheme:light dark}
html{scroll-snap-type:y mandatory;font:1.5rem/1.45 system-ui,sans-serif}
body{margin:0}
section{box-sizing:border-box;min-height:100vh;padding:5vh 7vw;scroll-snap-align:start}
pre,code{font-family:ui-monospace,monospace;font-size:.9em}
pre{overflow:auto;padding:.7em 1em;border-left:4px solid #8a5d00}
ol.choices{list-style:upper-alpha}
summary{cursor:pointer;font-weight:600}
td,th{text-align:left;padding:.15em 1em .15em 0}
td:first-child{text-align:right;font-variant-numeric:tabular-nums}
"""


def slides(lesson: Lesson) -> str:
    """Returns the page of a lesson; computes the answers of its predictions.

    Raises:
        UnavailableError: This installation holds no sources of lessons.
    """
    asked = [p for p in predictions().values() if lesson_of(p.id) == lesson.number]
    title = f"{lesson.number}. {lesson.title}"
    shown = "".join(f"<section>{part}</section>\n" for part in (_plan(lesson), *map(_slide, asked)))
    return (
        "<!doctype html><html lang=en><head><meta charset=utf-8>"
        "<meta name=viewport content='width=device-width,initial-scale=1'>"
        f"<title>{escaped(title)}</title><style>{_STYLE}</style></head><body>\n{shown}</body></html>\n"
    )


def _plan(lesson: Lesson) -> str:
    text = (sources() / f"{lesson.file}.md").read_text("utf-8")
    opening = " ".join(text.partition("\n\n")[0].split())
    rows = "".join(
        f"<tr><td>{minute}</td><td>{prose(what)}</td></tr>" for minute, what in _steps(text)
    )
    return (
        f"<h1>{lesson.number}. {escaped(lesson.title)}</h1><p>{prose(opening)}</p>"
        f"<table><tr><th>minute</th><th>in {_MINUTES} minutes</th></tr>{rows}</table>"
    )


def _steps(text: str) -> list[tuple[str, str]]:
    """Returns what is done in class, each with the minute at which it begins; then what is left."""
    minute, planned, left = _TAKES["## "], [("0", "how it begins")], []
    for step in _STEP.finditer(text):
        kind, about = step.groups()
        if kind == "## " and about.startswith(("You can now", "What this", "Read next")):
            break
        if minute + _TAKES[kind] > _MINUTES:
            left.append(("at home", _told(kind, about)))
        else:
            planned.append((str(minute), _told(kind, about)))
            minute += _TAKES[kind]
    return planned + left


def _told(kind: str, about: str) -> str:
    if kind == "%%predict ":
        return f"vote on {about}, then look"
    return f"puzzle {about}: {puzzle(about).title}" if kind == "%%puzzle " else about


def _slide(asked: Prediction) -> str:
    choices = "".join(f"<li>{prose(choice)}</li>" for choice in asked.choices)
    vote = f"<ol class=choices>{choices}</ol>" if choices else "<p>Write down a number.</p>"
    code = "\n".join(map(escaped, asked.code.strip().splitlines()))
    answer = str(asked.truth(asked.names()))
    return (
        f"<h2>{asked.id}</h2><p>{prose(asked.question)}</p>"
        f"<pre>{code}</pre>{vote}"
        f"<details><summary>The answer</summary><p><b>{escaped(answer)}</b></p>"
        f"<p>{prose(asked.why)}</p></details>"
    )
