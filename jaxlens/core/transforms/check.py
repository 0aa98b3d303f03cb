"""The rules of the jaxpr language, as a checker: every transformation must obey them."""

from collections.abc import Sequence

from jaxlens.core.kernel.jaxpr import Atom, ClosedJaxpr, Jaxpr, JaxprEqn, Var, subjaxprs


def check_jaxpr(jaxpr: Jaxpr | ClosedJaxpr) -> None:
    """Checks that each variable is defined once and before use, and that all types agree.

    Raises:
        TypeError: They do not; names the equation and the rule that it breaks.
    """
    inner = jaxpr.jaxpr if isinstance(jaxpr, ClosedJaxpr) else jaxpr
    defined = {*inner.constvars, *inner.invars}
    if len(defined) != len(inner.constvars) + len(inner.invars):
        raise TypeError("a jaxpr's parameters must be different variables")
    for eqn in inner.eqns:
        _check_defined(eqn.invars, defined, eqn)
        for sub in subjaxprs(eqn.params):
            check_jaxpr(sub)
        types = eqn.primitive.abstract(*(atom.aval for atom in eqn.invars), **eqn.params)
        types = list(types) if eqn.primitive.multiple_results else [types]
        results = [var.aval for var in eqn.outvars]
        if [aval.strong for aval in types] != [aval.strong for aval in results]:
            raise TypeError(f"{eqn}: its rule gives {types}, its results are {results}{_at(eqn)}")
        for var in eqn.outvars:
            if var in defined:
                raise TypeError(f"{eqn}: a result is defined already{_at(eqn)}")
            defined.add(var)
    _check_defined(inner.outvars, defined, None)


def _check_defined(atoms: Sequence[Atom], defined: set[Var], eqn: JaxprEqn | None) -> None:
    for atom in atoms:
        if isinstance(atom, Var) and atom not in defined:
            where = f"{eqn}{_at(eqn)}" if eqn else "the results"
            raise TypeError(f"{where}: a variable is used before it is defined")


def _at(eqn: JaxprEqn) -> str:
    return f" (from {eqn.source_info})"
