"""A leaked tracer: the line that computed it, and the name that still refers to it."""

import ast
import re
from traceback import walk_tb
from types import TracebackType
from typing import Any

from jaxlens.call.arguments.closed_over_names import Binding, closed_over
from jaxlens.ir.jaxpr.python_text import parsed
from jaxlens.ir.spans import describe
from jaxlens.questions.failure.facts import TracedValue
from jaxlens.questions.failure.measure.failing_value import tracers
from jaxlens.stages.trace.sources import source_text

_CREATION = re.compile(
    r"(?:value was created on line|\] made at) (.{1,500}?):(\d++)(?::\d++)? \(([^()\n]{0,200}+)\)"
)
_TYPE = re.compile(r"(?:intermediate value with type|had ended:) ([a-z]+)(\S*)")
_SHORT = {"float": "f", "uint": "u", "int": "i", "complex": "c"}


def leaked_value(error: BaseException, text: str = "") -> TracedValue:
    """Reads the leaked value from the message of the exception.

    Args:
        error: JAX's UnexpectedTracerError.
        text: Name of the value in the user's code; "" if unknown.
    """
    message = str(error)
    creation, kind = _CREATION.search(message), _TYPE.search(message)
    return TracedValue(
        text,
        _SHORT.get(kind[1], kind[1]) + kind[2] if kind else "",
        made_at=f"{describe(creation[1]).name}:{creation[2]}" if creation else "",
        function=creation[3] if creation else "",
    )


def holder(traceback: TracebackType | None, function: Any, owner: Any) -> Binding | None:
    """Returns the binding through which a function reaches the leaked tracer; None if none does.

    Args:
        traceback: Traceback of JAX's error, unfiltered.
        function: The function that was traced.
        owner: The object that the function is a method of.
    """
    bindings = closed_over(function, owner)
    leaked = (tracer for frame, _ in walk_tb(traceback) for tracer in tracers(frame))
    return next((binding for t in leaked for binding in bindings.get(id(t), ())), None)


def reading_line(binding: Binding) -> tuple[str, str] | None:
    """Returns the place where a function reads a binding, "cell 2:3", and the text of the line."""
    span = binding.span
    if span is None:
        return None
    text = source_text(span.key)
    root = re.split(r"[.\[]", binding.name)[0]
    for function in ast.walk(parsed(text) or ast.Module([], [])):
        if isinstance(function, ast.FunctionDef | ast.Lambda) and function.lineno == span.line:
            for part in ast.walk(function):
                if isinstance(part, ast.Name) and part.id == root:
                    code = text.splitlines()[part.lineno - 1].strip()
                    return f"{span.file}:{part.lineno}", code
    return None
