"""Cuts the frames of jaxlens out of the traceback of an exception of the user's.

The exception object stays the same. An error inside jaxlens keeps every frame, so that it can be
reported. `jaxlens.core` is a library that the user calls: its errors concern the user's line, so
its frames are removed as well.
"""

import os
import sys
from types import TracebackType

from jaxlens.errors import OWN

_CORE = os.path.join(OWN, "core", "")
_PYTHON = os.path.dirname(os.__file__) + os.sep
# Functions of NumPy's and JAX's are called through this file while a timeline is recorded.
_HOOKS = os.path.join(OWN, "compat", "waits.py")


def user_frames(trace: TracebackType | None) -> TracebackType | None:
    """Returns a traceback without the frames of jaxlens.

    Args:
        trace: A whole traceback, outermost frame first.

    Returns:
        The frames below jaxlens's, from the user's first frame on; JAX's frames if none is
        the user's, none if that function does not take its arguments; the whole traceback if the
        innermost frame is jaxlens's.
    """
    links = []
    link = trace
    while link is not None:
        links.append(link)
        link = link.tb_next
    own = [_is_own(link) for link in links]
    if not any(own) or (own[-1] and _file(links[-1]).startswith(OWN)):
        return trace
    under = [link for link in links[own.index(True) :] if not _is_own(link)]
    start = len(under) if own[-1] else 0  # the call of the user's function failed
    first = next((i for i, link in enumerate(under) if _is_users(link)), start)
    hidden = _is_of_python_or_core if any(map(_is_users, under)) else _is_pythons
    chain = None
    for link in reversed(under[first:]):
        if not hidden(link):
            chain = TracebackType(chain, link.tb_frame, link.tb_lasti, link.tb_lineno)
    return chain


def below(trace: TracebackType | None) -> TracebackType | None:
    """Returns a traceback from the first frame on that is neither jaxlens's nor Python's."""
    while trace is not None and (_is_own(trace) or _is_pythons(trace)):
        trace = trace.tb_next
    return trace


def raised(error: BaseException) -> int:
    """Shows an error of the user's code as Python would; returns the exit status."""
    shown = error.with_traceback(user_frames(below(error.__traceback__)))
    sys.excepthook(type(error), shown, shown.__traceback__)
    return 130 if isinstance(error, KeyboardInterrupt) else 1


def _is_own(link: TracebackType) -> bool:
    from jaxlens.ir.spans import BOUNDARY  # not imported by %load_ext

    file = _file(link)
    library = _is_core(link) or file == _HOOKS
    return file == BOUNDARY or (file.startswith(OWN) and not library)


def _is_core(link: TracebackType) -> bool:
    return _file(link).startswith(_CORE)


def _is_users(link: TracebackType) -> bool:
    return not _is_of_python_or_core(link) and "site-packages" not in _file(link)


def _is_of_python_or_core(link: TracebackType) -> bool:
    return _is_pythons(link) or _is_core(link)


def _is_pythons(link: TracebackType) -> bool:
    """Whether a frame is of the standard library, or between the user's and NumPy's or JAX's."""
    name = _file(link)
    is_python = name.startswith(_PYTHON) and "site-packages" not in name
    return is_python or name == _HOOKS or name.startswith("<frozen")


def _file(link: TracebackType) -> str:
    return link.tb_frame.f_code.co_filename
