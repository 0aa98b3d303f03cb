"""Rewrites a statement so that a callback receives each candidate call before it is made.

`f(a, *b, k=c)` becomes `OFFER(f, a, *b, k=c)(*ARGS(), **KWARGS())`: callee and arguments are
evaluated once and in Python's order, and the call itself is made in the user's frame, at its
position in the user's text. OFFER, ARGS and KWARGS are constants of the code object, so that no
namespace has a name of jaxlens.
"""

import ast
import warnings
from collections.abc import Callable, Mapping, Sequence
from types import CodeType
from typing import Any

from jaxlens.notebook.cell.find_calls import Candidate

Taker = Callable[[Candidate, Any, tuple[Any, ...], dict[str, Any]], None]


class Offer:
    """One call: passes its evaluated function and arguments to a callback, then to the call.

    Args:
        candidate: The call in the text.
        take: Called with the candidate, the function and its arguments before each call.
    """

    def __init__(self, candidate: Candidate, take: Taker) -> None:
        self._candidate = candidate
        self._take = take
        self._args: tuple[Any, ...] = ()
        self._kwargs: dict[str, Any] = {}

    def offer(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Passes the evaluated call to the callback, and returns the function to call."""
        self._take(self._candidate, function, args, kwargs)
        self._args, self._kwargs = args, kwargs
        return function

    def args(self) -> tuple[Any, ...]:
        """Returns the positional arguments, and drops the references to them."""
        args, self._args = self._args, ()
        return args

    def kwargs(self) -> dict[str, Any]:
        """Returns the keyword arguments, and drops the references to them."""
        kwargs, self._kwargs = self._kwargs, {}
        return kwargs


def offering(
    statement: ast.stmt, candidates: Sequence[Candidate], take: Taker
) -> tuple[ast.stmt, dict[str, Any]]:
    """Returns the statement with its candidates rewritten, and the objects for its constants."""
    objects: dict[str, Any] = {}
    calls: dict[int, ast.Call] = {}
    for number, candidate in enumerate(candidates):
        offer = Offer(candidate, take)
        marks = [f"\0jaxlens {part} {number}" for part in ("offer", "args", "kwargs")]
        objects.update(zip(marks, (offer.offer, offer.args, offer.kwargs), strict=True))
        calls[id(candidate.call)] = _offered(candidate, *marks)
    return _Replacing(calls).visit(statement), objects


def compiled(compile_: Callable[[], CodeType], objects: Mapping[str, Any]) -> CodeType:
    """Compiles code, and replaces its placeholder constants by objects."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # "'str' object is not callable"
        return _with_objects(compile_(), objects)


def _with_objects(code: CodeType, objects: Mapping[str, Any]) -> CodeType:
    constants = tuple(
        objects.get(const, const)
        if isinstance(const, str)
        else _with_objects(const, objects)
        if isinstance(const, CodeType)
        else const
        for const in code.co_consts
    )
    return code.replace(co_consts=constants)


def _offered(candidate: Candidate, offer: str, args: str, kwargs: str) -> ast.Call:
    """Builds the call at its position in the text; inner nodes keep their own."""
    call = candidate.call
    offered = [candidate.function, *call.args]
    function: ast.expr = ast.Call(ast.Constant(offer), offered, call.keywords)
    if candidate.method:
        function = ast.Attribute(function, candidate.method, ast.Load())
    given, named = (ast.Call(ast.Constant(mark), [], []) for mark in (args, kwargs))
    rewritten = ast.Call(
        function, [ast.Starred(given, ast.Load())], [ast.keyword(arg=None, value=named)]
    )
    for node in ast.walk(rewritten):
        if not hasattr(node, "lineno") and "lineno" in node._attributes:
            ast.copy_location(node, call)
    return rewritten


class _Replacing(ast.NodeTransformer):
    """Replaces calls by others, also within their arguments."""

    def __init__(self, calls: Mapping[int, ast.Call]) -> None:
        self._calls = calls

    def visit_Call(self, node: ast.Call) -> ast.AST:
        rewritten = self._calls.get(id(node))
        return self.generic_visit(node if rewritten is None else rewritten)
