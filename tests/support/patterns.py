"""Every regular expression of the package, its uses, and texts that are slow to match."""

import ast
import importlib
import re
import re._compiler as compiler
import re._constants as constants
import re._parser as parser
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import jaxlens

ROOT = Path(jaxlens.__file__).parent
_METHODS = ("match", "fullmatch", "search", "findall", "finditer", "sub", "subn", "split")
_FLAGS = {"MULTILINE": re.M, "VERBOSE": re.X, "DOTALL": re.S, "IGNORECASE": re.I, "ASCII": re.A}


@dataclass(frozen=True)
class Use:
    """A pattern and the methods that it is used with.

    Attributes:
        name: "ir/hlo/reader.py: _LINE", or with the line number where it has no name.
        pattern: The pattern.
        methods: Of `re`.
    """

    name: str
    pattern: re.Pattern[str]
    methods: tuple[str, ...]


def uses():
    """Each pattern that has a name in a module, and each that is written where it is used."""
    methods: dict[tuple[str, str], set[str]] = defaultdict(set)
    inline: list[Use] = []
    files = sorted(ROOT.rglob("*.py"))
    for file in files:
        where = file.relative_to(ROOT).as_posix()
        nodes = list(ast.walk(ast.parse(file.read_text())))
        for node in nodes:
            if not isinstance(node, ast.Attribute) or node.attr not in _METHODS:
                continue
            value = node.value
            if isinstance(value, ast.Name) and value.id == "re":
                continue
            if isinstance(value, ast.Name | ast.Attribute):
                name = value.id if isinstance(value, ast.Name) else value.attr
                methods[where, name].add(node.attr)
        inline += _inline(where, nodes)
    seen: set[int] = set()
    for file in files:
        module = _imported(file)
        for name, value in vars(module).items() if module else ():
            patterns = value.values() if isinstance(value, dict) else (value,)
            patterns = value if isinstance(value, tuple | list) else patterns
            for pattern in patterns:
                if not isinstance(pattern, re.Pattern) or id(pattern) in seen:
                    continue
                if not isinstance(pattern.pattern, str):
                    continue
                seen.add(id(pattern))
                where = f"{file.relative_to(ROOT).as_posix()}: {name}"
                used = methods[file.relative_to(ROOT).as_posix(), name]
                yield Use(where, pattern, tuple(sorted(used)) or ("search",))
    yield from inline


def _imported(file):
    name = ".".join(("jaxlens", *file.relative_to(ROOT).with_suffix("").parts))
    if name.endswith("__main__"):
        return None
    return importlib.import_module(name.removesuffix(".__init__"))


def _inline(where, nodes):
    found = []
    for node in nodes:
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="re"), attr=method),
                args=[ast.Constant(value=str(pattern)), *_],
            ) if method in _METHODS:
                found.append(Use(f"{where}:{node.lineno}", re.compile(pattern), (method,)))
    return found


def texts(pattern):
    """Texts that take some patterns long: beginning, what is repeated, and end.

    One sign over and over, the signs of the pattern and some others; and what it matches, repeated
    as a whole and in each of its loops, with an end that it does not match.
    """
    tree = parser.parse(pattern.pattern, pattern.flags)
    signs = set(_literals(tree)) | set("aA0 _.=\"'\\/([{<%@#,;:-\n\t")
    for sign in sorted(signs):
        yield "", sign, "\0"
    whole = _example(tree, 1)
    for part in {whole, whole[:-1], *_loops(tree)}:
        if part:
            yield "", part, "\0"
            yield whole[:-1], part, "\0"
    for before, part in _within(tree):
        if part:
            yield before, part, "\0"


def _literals(tree):
    for op, value in tree:
        if op in (constants.LITERAL, constants.NOT_LITERAL):
            yield chr(value)
        for inner in _inner(op, value):
            yield from _literals(inner)


def _inner(op, value):
    if op in (constants.MAX_REPEAT, constants.MIN_REPEAT, constants.POSSESSIVE_REPEAT):
        return [value[2]]
    if op is constants.SUBPATTERN:
        return [value[3]]
    if op is constants.BRANCH:
        return list(value[1])
    if op in (constants.ASSERT, constants.ASSERT_NOT):
        return [value[1]]
    if op is constants.ATOMIC_GROUP:
        return [value]
    return []


def _loops(tree):
    """What each loop of a pattern matches once."""
    for op, value in tree:
        if op in (constants.MAX_REPEAT, constants.MIN_REPEAT, constants.POSSESSIVE_REPEAT):
            yield _example(value[2], 1)
        for inner in _inner(op, value):
            yield from _loops(inner)


def _within(tree, before=""):
    """Each loop with what stands before it in the pattern."""
    for op, value in tree:
        if op in (constants.MAX_REPEAT, constants.MIN_REPEAT, constants.POSSESSIVE_REPEAT):
            yield before, _example(value[2], 1)
        for inner in _inner(op, value):
            yield from _within(inner, before)
        before += _example([(op, value)], 1)


def _example(tree, times):
    """A text that a part of a pattern matches."""
    return "".join(_one(op, value, times) for op, value in tree)


def _one(op, value, times):
    if op is constants.LITERAL:
        return chr(value)
    if op in (constants.NOT_LITERAL, constants.ANY, constants.IN):
        return _sign(op, value)
    if op in (constants.MAX_REPEAT, constants.MIN_REPEAT, constants.POSSESSIVE_REPEAT):
        return _example(value[2], times) * max(value[0], times if value[1] else 0)
    if op is constants.BRANCH:
        return _example(value[1][0], times)
    inner = _inner(op, value) if op not in (constants.ASSERT, constants.ASSERT_NOT) else []
    return "".join(_example(part, times) for part in inner)


def _sign(op, value):
    """The first sign that a class of signs matches."""
    one = compiler.compile(parser.SubPattern(parser.State(), [(op, value)]))
    signs = map(chr, (*b"ab0 _.=x,", *range(32, 127), 10, 9, 0))
    return next((sign for sign in signs if one.match(sign)), "a")
