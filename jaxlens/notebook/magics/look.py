"""Runs one cell under a magic as it would run without, and captures what it computes.

A bare call of the user's function is captured instead of made. Every other statement runs once,
and its call is captured just before it is made. If there is no such call, or it cannot be traced,
the output shows the jitted programs that the cell called.

An error of a capture never reaches the cell. Only an option of the magic's own line that cannot be
met raises an error, after the cell has run.
"""

import ast
import copy
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from jaxlens import progress
from jaxlens.errors import CellError, LensError, OptionError, TargetError, UnavailableError
from jaxlens.notebook.cell import run_cell as cells
from jaxlens.notebook.cell.callee import MISSING, Namespace, resolve
from jaxlens.notebook.cell.effects import Reached
from jaxlens.notebook.cell.evaluate_call import (
    EmptyError,
    EvaluatedCall,
    LineError,
    call_text,
    define,
    evaluated,
    may_look,
    names_text,
    no_call,
    on_shapes,
    short,
)
from jaxlens.notebook.cell.find_calls import (
    Candidate,
    binds,
    calls_beside,
    calls_in,
    expression_in,
    loads,
    waited_for,
)
from jaxlens.notebook.cell.offers import offering
from jaxlens.notebook.cell.printed import Printed
from jaxlens.notebook.magics.magic_line import MagicLine, unfit
from jaxlens.notebook.magics.tracebacks import add_notes, in_traced_code
from jaxlens.viewer.called_programs_report import after_run, not_looked_at

if TYPE_CHECKING:
    from jaxlens.captures import Capture  # not imported by %load_ext
    from jaxlens.views.view import View  # not imported by %load_ext

Show = Callable[["View[Any]"], None]


class _NotMadeError(Exception):
    """Leaves a bare call where it would be made: it was captured instead, or must not be made."""


class Looking:
    """One run of a cell, or of the statement behind a line magic.

    Args:
        shell: IPython's shell.
        magic: The magic's parsed line.
        code: The parsed cell.
        show: Displays a view.
        text: The cell's text; None for a line magic, whose value is returned.
        previewed: Returns a function that shows the HTML of panes while others are waited for.
    """

    def __init__(
        self,
        shell: Any,
        magic: MagicLine,
        code: cells.ParsedCell,
        show: Show,
        text: str | None = None,
        previewed: Callable[[Callable[[], str]], Callable[[], None]] | None = None,
    ) -> None:
        self._shell = shell
        self._magic = magic
        self._code = code
        self._show = show
        self._previewed = previewed
        self._line = text is None
        # None for a line magic, which gives its value to IPython.
        self._shows_last = None if text is None else cells.shows_last(shell, text)
        # As written: to offer a call, its statement is rewritten in place.
        self._written = copy.deepcopy(code.body)
        self._ending = self._written[-1] if code.body else None
        self._calls: Any = None
        # Spared: the last statement is not run, as it donates.
        self._shown = self._done = self._spared = False
        self._failure: tuple[str, Exception | None] = "", None  # of a call not captured
        self._mistake: LensError | None = None  # of the magic's line
        self._value: Any = None  # of the last expression, where it ran
        self._tried = False  # whether the best call of the last statement was captured
        self._order: list[int] = []
        self._pending: dict[int, EvaluatedCall] = {}  # calls that ran and may be captured later
        self._earlier: list[EvaluatedCall] = []  # likewise, of the statements above the last

    def run(self) -> Any:
        """Runs the cell and shows its capture; returns the value of a line magic's expression.

        Raises:
            LensError: An option of the magic's line cannot be met.
        """
        cells.check(self._shell, self._code)
        self._refuse_shapes()
        with self._answered():
            return self._run()

    @contextmanager
    def _answered(self) -> Iterator[None]:
        """Wraps the run of a cell, and shows the fallback output if the run has shown no view."""
        try:
            yield
        except Exception as error:
            add_notes(self._failure[1], error)
            raise
        finally:
            self._done = True  # a generator that outlives the cell may still offer its calls
            if self._calls is not None:
                self._calls.__exit__()
        if self._mistake is not None:
            raise self._mistake
        if not self._shown and not self._opened():
            self._show(self._answer())

    # ---- running ---------------------------------------------------------------------------

    def _run(self) -> Any:
        body = self._code.body
        # The names that the last line reads: `out`, which may come from `out = f(x)`.
        reads = set(loads(body[-1])) if body else set()
        for statement in body[:-1]:
            self._watch()
            if reads & binds(statement):
                self._run_offering(statement, self._keep)
                self._earlier = [*self._pending.values(), *self._earlier]
                self._pending = {}
            else:
                cells.run_one(self._shell, self._code, statement)
        self._watch()
        value = self._last(body[-1]) if body else None
        self._look_at([*self._in_order(), *self._earlier])
        return value

    def _watch(self, always: bool = False) -> None:
        """Starts to record calls of jitted functions, once JAX or jaxlens.core is imported."""
        imported = "jax" in sys.modules or "jaxlens.core" in sys.modules
        if self._calls is None and (imported or always):
            from jaxlens.listen.cell_calls import CellCalls

            self._calls = CellCalls()
            self._calls.__enter__()

    def _last(self, last: ast.stmt) -> Any:
        if self._magic.take.in_:
            self._watch(always=True)
            self._show_only(self._function_on_shapes(last))
            return None
        self._watch(always=names_text(last, self._shell.user_ns))
        if self._calls is None:
            return self._run_one(last)
        if self._is_program(last):
            return None
        names = self._names()
        call = self._bare(last, names)
        if call is not None:
            return self._staged(last, call)
        candidates = calls_in(last, names)
        if candidates:
            return self._run_offering(last, self._take, candidates)
        own = self._earlier or any(program.own for program in self._calls.programs)
        if (expression := expression_in(last, names, bool(own))) is not None:
            self._look_at_expression(expression, names)
        return self._run_one(last)

    def _names(self) -> Namespace:
        from jaxlens.call.arguments.pytrees import holds_arrays, is_array
        from jaxlens.compat import computes

        def holds(value: Any) -> bool:
            try:
                return holds_arrays(value)
            except Exception:  # an object that JAX cannot go through
                return False

        return Namespace(self._shell.user_ns, is_array, holds, computes)

    def _is_program(self, last: ast.stmt) -> bool:
        """Shows an existing program that the last line names: `lowered`, "a folder"."""
        from jaxlens.stages.existing.opening import is_program

        named = ast.Name | ast.Attribute | ast.Subscript | ast.Constant
        if not (isinstance(last, ast.Expr) and isinstance(last.value, named)):
            return False
        value: Any
        if isinstance(last.value, ast.Constant):
            value = last.value.value
        else:
            value = resolve(last.value, self._names())
        if value is MISSING or not is_program(value):
            return False
        self._show_only(EvaluatedCall(value, name=short(last.value)))
        return True

    def _bare(self, last: ast.stmt, names: Namespace) -> ast.Call | None:
        """Returns the call that a cell ends in, if it is a call of the user's own function."""
        if not isinstance(last, ast.Expr):
            return None
        expression = waited_for(last.value)
        if not isinstance(expression, ast.Call):
            return None
        own = any(c.call is expression and not c.method for c in calls_in(last, names))
        callee = resolve(expression.func, names)
        # Constructing an object is not a program.
        return expression if own and not isinstance(callee, type) else None

    def _staged(self, last: ast.stmt, node: ast.Call) -> Any:
        """Captures a bare call, and makes it only if it could not be captured.

        `jax.make_jaxpr(f)(x)` is captured as `f(x)`, and made too.
        """

        def offered(candidate: Candidate, function: Any, args: Any, kwargs: Any) -> None:
            call = evaluated(candidate, function, args, kwargs)
            if self._magic.take.core:  # an error names what jaxlens.core lacks
                self._show_only(call)
                raise _NotMadeError
            if may_look(call.function):
                staged = call.function is function
                if self._look(call, staged) and staged:
                    raise _NotMadeError
                self._spared = staged and donates(call, self._failure[1])
            if self._mistake is not None or self._spared:
                raise _NotMadeError

        statement, objects = offering(last, [Candidate(node)], offered)
        with suppress(_NotMadeError):
            return self._run_one(statement, objects)

    def _run_offering(
        self,
        statement: ast.stmt,
        take: Callable[[Candidate, EvaluatedCall], None],
        candidates: list[Candidate] | None = None,
    ) -> Any:
        """Runs a statement, and passes its candidate calls to `take` before they are made."""
        if self._calls is None:
            return self._run_one(statement, last=False)
        last = candidates is not None
        if candidates is None:
            candidates = calls_in(statement, self._names())

        def offered(c: Candidate, function: Any, args: Any, kwargs: Any) -> None:
            if self._shown or self._done or not may_look(function):
                return
            try:
                take(c, evaluated(c, function, args, kwargs))
            except Exception as error:  # an error of a capture never reaches the cell
                self._fail(short(c.call), error)

        self._order = [id(c) for c in candidates]
        statement, objects = offering(statement, candidates, offered)
        return self._run_one(statement, objects, last=last)

    def _run_one(
        self, statement: ast.stmt, objects: dict[str, Any] | None = None, last: bool = True
    ) -> Any:
        shown = self._shows_last if last or self._line else False
        value = cells.run_last(self._shell, self._code, statement, objects, shown=shown)
        self._value = value if last else None
        return value if self._line else None

    def _take(self, candidate: Candidate, call: EvaluatedCall) -> None:
        """Captures the best call of the last statement before it is made; stores the others."""
        if self._order.index(id(candidate)):
            self._keep(candidate, call)
        elif not self._tried:
            self._tried = True
            if not self._look(call):
                self._look_at(self._in_order())
                self._pending = {}
            if isinstance(call.function, type):
                self._failure = "", None  # constructing an object need not be a program

    def _keep(self, candidate: Candidate, call: EvaluatedCall) -> None:
        """Stores a call with abstract arguments, to be captured if no better call can be."""
        from jaxlens.listen.cell_calls import abstracted

        number = self._order.index(id(candidate))
        if number not in self._pending:
            args, kwargs = abstracted(call.args, call.kwargs)
            self._pending[number] = EvaluatedCall(
                call.function, args, kwargs, call.name, node=call.node
            )

    def _in_order(self) -> list[EvaluatedCall]:
        """Returns the stored calls, the best first."""
        return [self._pending[number] for number in sorted(self._pending)]

    def _look_at(self, calls: list[EvaluatedCall]) -> None:
        """Captures and shows the first of several calls that can be captured."""
        for call in calls:
            if not self._shown and self._mistake is None:
                failure = self._failure
                self._look(call, after=True)
                self._failure = failure  # the output reports the best call's failure

    def _look(self, call: EvaluatedCall, staged: bool = False, after: bool = False) -> bool:
        """Captures and shows a call; returns False if it cannot be captured.

        Args:
            call: The call.
            staged: Whether the capture replaces the call.
            after: Whether the cell has already made the call.
        """
        reached = Reached([call.function, *call.args, *call.kwargs.values()])
        if reached.once:
            error = CellError(f"{reached.once}, so it is not traced beside its run")
            self._fail(call_text(call), error)
            return False
        view = None
        with self._calls.paused(), Printed() as printed:
            try:
                view = self._view(call, results=True)
            except Exception as error:
                self._refused(call, error, staged)
            finally:
                if view is None or not staged:
                    reached.put_back()
        if view is None:
            return False
        if staged:
            printed.show()
        if after:
            view = replace(view, build=partial(after_run, view.document, self._magic.verb))
        # To what a cell computes the calls above its last statement matter too.
        whole = self._magic.verb == "check"
        if beside := calls_beside(self._written, call.node, self._names(), whole):
            others = list(dict.fromkeys(short(node) for node in beside))
            looked_at = short(call.node) if call.node is not None else ""
            view = replace(view, build=partial(not_looked_at, looked_at, others, view.document))
        self._shown_now(view)
        return True

    def _fail(self, name: str, error: Exception) -> None:
        """Records why a call could not be captured; the output reports the first failure."""
        if self._failure[1] is None:
            self._failure = name, error

    def _refused(self, call: EvaluatedCall, error: Exception, staged: bool) -> None:
        """Records why a capture failed: an option of the magic's line, or the function."""
        from jaxlens.stages.existing.opening import is_program

        if isinstance(error, LineError):
            # A stage that an existing program lacks is not an error of the magic's line.
            wrong = staged and not is_program(call.function)
            if isinstance(error.error, UnavailableError) and not wrong:
                self._fail(call_text(call), error.error)
            else:
                self._mistake = error.error
        elif not isinstance(error, EmptyError):
            self._fail(call_text(call), error)

    def _view(self, call: EvaluatedCall, results: bool = False) -> "View[Any]":
        """Captures a call, and computes the view that the verb shows of it."""
        from jaxlens import api

        magic, code = self._magic, self._code

        def view() -> "View[Any]":
            with progress.step(f"jaxlens looks at {call.name or 'the call'}"):
                return looked()

        def looked() -> "View[Any]":
            targets = magic.take.target
            if len(targets) > 1:
                return beside(targets)
            capture = self._capture(call, *targets) if targets else self._fitted(call)
            if results and capture.program.unjitted and not capture.outputs:
                raise EmptyError
            try:
                shown: View[Any] = getattr(api, magic.verb)(capture, **magic.show)
                with progress.when_idle(self._preview(capture)):
                    return shown.compute()
            except LensError as error:
                raise LineError(error) from None
            except Exception:
                # What does not compile for a target of the line is answered, and not run instead.
                from jaxlens.viewer.side_by_side_report import uncompiled

                if targets and (why := uncompiled(capture)):
                    raise LineError(why) from None
                raise

        def beside(targets: Sequence[str]) -> "View[Any]":
            from jaxlens.viewer.side_by_side import on_targets

            programs = self._captures(call, targets)
            try:
                return on_targets(programs, magic.verb, magic.show.get("full", False)).compute()
            except LensError as error:
                raise LineError(error) from None

        try:
            computed: View[Any] = cells.call_at(self._shell, code, call.node, view)
        except LensError as error:
            if not magic.take.core:
                raise
            raise LineError(error) from None
        return computed

    def _preview(self, capture: Any) -> Callable[[], None]:
        """Returns a function that shows the panes of a trace while XLA compiles."""
        from jaxlens import api

        def html() -> str:
            return api.jaxpr(capture).html()

        return self._previewed(html) if self._previewed is not None else lambda: None

    def _fitted(self, call: EvaluatedCall) -> Any:
        """Captures a call for the device of --fits, as `jaxlens.fits` does; else for this one."""
        from jaxlens.program.published_limits import target_of

        show = self._magic.show
        device = "" if show.get("run") else str(show.get("fits") or "")  # no other's can run
        with suppress(LensError, LineError):  # a program, or what cannot be compiled for here
            if device and (target := target_of(device)):
                return self._capture(call, target)
        return self._capture(call)

    def _captures(
        self, call: EvaluatedCall, targets: Sequence[str]
    ) -> "list[tuple[str, Capture | LensError]]":
        """Captures a call for several targets; the program of an unknown one is its error."""
        programs: dict[str, Capture | LensError] = {}
        for target in dict.fromkeys(targets):
            try:
                programs[target] = self._capture(call, target)
            except LineError as error:
                programs[target] = error.error
        return list(programs.items())

    def _capture(self, call: EvaluatedCall, target: str = "") -> Any:
        """Captures a call for a target, and traces it unless it is an existing program."""
        from jaxlens import api
        from jaxlens.stages.existing.opening import is_program

        take, program = self._magic.take, is_program(call.function)
        try:
            capture = api.take(
                call.function,
                call.args,
                call.kwargs,
                name=call.name,
                target=target,
                shapes=call.shapes,
                transforms=take.transforms,
                core=take.core,
            )
        except (OptionError, TargetError, UnavailableError) as error:
            if isinstance(error, TargetError) or take.transforms or call.shapes or program:
                raise LineError(error) from None
            raise
        if not program:
            # Errors of tracing are raised here; the tape records one trace, which is the first.
            show = self._magic.show
            try:
                capture.tape if show.get("tape") or show.get("bytecode") else capture.jaxpr
            except Exception as error:
                if take.transforms and (not in_traced_code(error) or self._fits_alone(call)):
                    raise LineError(unfit(take.transforms, call_text(call), error)) from None
                raise
        return capture

    def _fits_alone(self, call: EvaluatedCall) -> bool:
        """Whether a call can be traced without the transforms of the magic's line."""
        from jaxlens import api

        take = self._magic.take
        try:
            alone = api.take(
                call.function, call.args, call.kwargs, shapes=call.shapes, core=take.core
            )
            return alone.jaxpr is not None
        except Exception:  # the function itself cannot be traced
            return False

    def _look_at_expression(self, expression: ast.expr, names: Namespace) -> None:
        values = {n: names.values[n] for n in loads(expression) if n in names.values}
        inputs = {name: value for name, value in values.items() if names.holds(value)}
        function = define(self._shell, self._code, expression, list(inputs))
        if not Reached(values.values()).once:
            self._look(EvaluatedCall(function, tuple(inputs.values()), name="expression"))

    def _show_only(self, call: EvaluatedCall) -> None:
        """Captures and shows a call that is not made, or raises why it cannot be captured."""
        with self._calls.paused():
            try:
                view = self._view(call)
            except LineError as error:
                raise error.error from None
            self._shown_now(view)

    def _shown_now(self, view: "View[Any]") -> None:
        self._shown = True
        self._show(view)

    # ---- shapes ----------------------------------------------------------------------------

    def _refuse_shapes(self) -> None:
        """Raises, before anything runs, if the last line under `--in` has arguments itself."""
        if self._magic.take.in_ and self._code.body:
            on_shapes(self._code.body[-1])

    def _function_on_shapes(self, last: ast.stmt) -> EvaluatedCall:
        expression = on_shapes(last)
        if isinstance(last, ast.FunctionDef):
            cells.run_one(self._shell, self._code, last)
            function = self._shell.user_ns[last.name]
            return EvaluatedCall(function, name=last.name, shapes=self._magic.take.in_)
        assert expression is not None
        function = cells.evaluate(self._shell, self._code, expression)
        name = short(expression)
        if not callable(function):
            raise CellError(f"{name} is a {type(function).__name__} and no function")
        return EvaluatedCall(function, name=name, shapes=self._magic.take.in_)

    # ---- fallback output -------------------------------------------------------------------

    def _answer(self) -> "View[Any]":
        """Returns the view of the programs that the cell called."""
        from jaxlens.notebook.magics.called_programs import answer

        with self._calls.paused() if self._calls is not None else nullcontext():
            return answer(
                self._magic,
                self._calls.programs if self._calls is not None else (),
                *self._failure,
                self._spared,
                no_call(self._ending, self._shell.user_ns),
            )

    def _opened(self) -> bool:
        """Shows the program that the last expression returned, such as `lowered.as_text()`."""
        from jaxlens.stages.existing.opening import is_program

        value = self._value
        if "jax" not in sys.modules or value is None or self._calls is None:
            return False

        if not is_program(value):
            return False
        name = short(self._ending.value) if isinstance(self._ending, ast.Expr) else ""
        try:
            self._show_only(EvaluatedCall(value, name=name))
        except LensError as error:
            self._failure = name, error
        return self._shown


def donates(call: EvaluatedCall, error: Exception | None) -> bool:
    """Whether a call takes away arrays of the user's.

    Args:
        call: The call.
        error: Why it could not be captured. One of the user's function is raised by the call
            too, before it takes anything.
    """
    from jaxlens import api  # not imported by %load_ext

    if error is not None and not isinstance(error, LensError) and in_traced_code(error):
        return False
    with suppress(Exception):  # it is refused, as the call will be
        program = api.take(call.function, call.args, call.kwargs).program
        return any(one.donated for one in program.inputs)
    return False
