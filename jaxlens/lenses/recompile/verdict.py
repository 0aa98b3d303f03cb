"""Whether this very call would have hit JAX's caches, and what is new in it."""

from jaxlens.ir.facts import Verdict
from jaxlens.report import Finding, Report, Trust, count

_WORK = {
    "trace": "it is traced, lowered and compiled",
    "compile": "it is lowered and compiled again; tracing is served from the cache",
}


def report(answer: Verdict) -> Report:
    """The verdict as findings: the answer first, then one line per difference.

    Where it cannot be known, the reason is the answer.
    """
    trust: Trust = "unknown" if answer.hit is None else "compared"
    told = answer.reasons if answer.hit is not None and answer.earlier else ()
    return Report(
        "Cache", (Finding(sentence(answer), trust), *(Finding(reason, trust) for reason in told))
    )


def sentence(answer: Verdict) -> str:
    """The verdict in one sentence."""
    known = f"the function has {count(answer.earlier, 'earlier call signature')}"
    if answer.hit is None:
        return f"Cache: {'; '.join(answer.reasons) or 'not known for this call'}."
    if answer.hit:
        return f"Cache: this call would hit; nothing would be traced or compiled ({known})."
    if not answer.earlier:
        return "Cache: this call would miss; this function was never called before."
    work = _WORK.get(answer.layer, "it is compiled")
    return f"Cache: this call would miss: {work} ({known})."
