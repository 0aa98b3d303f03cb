"""The verb on the programs that transforms make."""

from typing import Any

from jaxlens.answers import ask
from jaxlens.captures import Capture
from jaxlens.capturing import Function, captured
from jaxlens.questions.trace.ladder.facts import Ladder
from jaxlens.questions.trace.row import LADDER, all_rungs
from jaxlens.views.view import View

__all__ = ["ladder"]


def ladder(f: Function | Capture, /, *args: Any, **kwargs: Any) -> View[Ladder]:
    """Shows what each transform makes: `loss`, `grad(loss)`, `vmap(grad(loss))` side by side.

    Args:
        f: A transformed function such as `jax.vmap(jax.grad(loss))`, or a Capture of one; or
            several Captures, that of the function itself first, which may be saved ones.
        *args: The function's arguments, with the batch axes that the outermost `vmap` maps.
        **kwargs: Its keyword arguments.

    Returns:
        An answer with `.rungs` (each with `.title`, `.equations`, `.forward`, `.backward`),
        `.equations` of each rung, and `.rules` that JAX used.

    Raises:
        UnavailableError: The function has no transform that can be undone.
    """

    if isinstance(f, Capture) and all(isinstance(arg, Capture) for arg in args) and args:
        captures: tuple[Capture, ...] = (f, *args)
    else:
        captures = all_rungs(captured("ladder", f, args, kwargs))
    return ask(LADDER, captures[-1], rungs=captures)
