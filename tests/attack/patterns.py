"""Times every regular expression of the product on texts that are made to be slow for it.

Each pattern is taken apart. What its repetitions repeat is repeated a hundred thousand characters
long, after what leads to them and before what lets the match fail. A pattern that backtracks over
all of that takes minutes, a good one milliseconds.
"""

import ast
import importlib
import pkgutil
import re
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, product
from pathlib import Path
from re import _constants as kinds  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from types import ModuleType
from typing import Any

PACKAGES = ("judging", "annotation", "fairjudge_site")
LENGTH = 100_000
MOST_SECONDS = 1.0
# Shorter texts first: an exponential pattern shows itself on these already.
LENGTHS = (30, 2_000, LENGTH)
FAILING = ("", "\0!")
SCANNING = ("search", "sub", "split", "findall", "finditer", "subn")
AT_START = ("match", "fullmatch")
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Used:
    """A pattern, where it is, and the methods by which it is used there."""

    where: str
    pattern: re.Pattern[str]
    methods: tuple[str, ...]


@dataclass(frozen=True)
class Slow:
    """A pattern that took too long, and on which text."""

    where: str
    pattern: str
    text: str
    length: int
    seconds: float

    def __str__(self) -> str:
        return (
            f"{self.where}: {self.pattern!r} takes {self.seconds:.1f} s on {self.length} "
            f"characters, such as {self.text!r}"
        )


def modules() -> Iterator[ModuleType]:
    for package in PACKAGES:
        root = importlib.import_module(package)
        for found in pkgutil.walk_packages(root.__path__, f"{package}."):
            # allauth is loaded only where a provider is configured, and `oidc` holds no pattern.
            if found.name.rpartition(".")[2] not in ("__main__", "wsgi", "oidc"):
                yield importlib.import_module(found.name)


def patterns_of(module: ModuleType) -> Iterator[Used]:
    """Return those that a module holds, also in tables, and those that it gives to `re` itself."""
    source = Path(module.__file__ or "").read_text("utf-8")
    for name, value in vars(module).items():
        for pattern in inside(value):
            if isinstance(pattern.pattern, str):
                yield Used(f"{module.__name__}.{name}", pattern, methods_of(source, name))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and is_of_re(node.func) and node.args:
            text = node.args[0]
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                method = node.func.attr  # type: ignore[attr-defined]
                if method in SCANNING + AT_START:
                    ways = (method if method in AT_START else "search",)
                    yield Used(f"{module.__name__}:{node.lineno}", re.compile(text.value), ways)


def is_of_re(function: ast.expr) -> bool:
    return (
        isinstance(function, ast.Attribute)
        and isinstance(function.value, ast.Name)
        and function.value.id == "re"
    )


def inside(value: Any, depth: int = 3) -> Iterator[re.Pattern[str]]:
    if isinstance(value, re.Pattern):
        yield value
    elif depth and isinstance(value, dict):
        yield from chain.from_iterable(inside(each, depth - 1) for each in value.values())
    elif depth and isinstance(value, list | tuple | set | frozenset):
        yield from chain.from_iterable(inside(each, depth - 1) for each in value)


# They are asked at one place of a text alone, in a loop or through a table, which isn't seen here.
AT_ONE_PLACE = ("_BELONGS", "_RANGE", "_TAKEN_BACK", "_ESCAPED_CELL")
# What these read is cut to this many characters first.
CUT = {"SPAN": 64, "limits:": 100, "_OWN_LINE": 60}


def longest_of(where: str) -> int:
    return next((most for name, most in CUT.items() if name in where), LENGTH)


def methods_of(source: str, name: str) -> tuple[str, ...]:
    """Return how a pattern of this name is used, or how a search would, if that can't be seen."""
    if name in AT_ONE_PLACE:
        return ("match",)
    used = set(re.findall(rf"\b{re.escape(name)}(?:\[[^\]]*\])?\.(\w+)\(", source))
    scanning = used & set(SCANNING)
    return ("search",) if scanning or not used & set(AT_START) else tuple(used & set(AT_START))


def sample(nodes: Any) -> str:
    """Return a text that these parts of a pattern match, more or less."""
    return "".join(sample_of(*node) for node in nodes)


def sample_of(kind: Any, value: Any) -> str:
    if kind is kinds.LITERAL:
        return chr(value)
    if kind is kinds.NOT_LITERAL:
        return "b" if value != ord("b") else "c"
    if kind is kinds.ANY:
        return "a"
    if kind is kinds.IN:
        return member_of(value)
    if kind in (kinds.MAX_REPEAT, kinds.MIN_REPEAT, kinds.POSSESSIVE_REPEAT):
        return sample(value[2]) * max(value[0], 1)
    if kind is kinds.SUBPATTERN:
        return sample(value[-1])
    if kind is kinds.BRANCH:
        return sample(value[1][0])
    if kind is kinds.ATOMIC_GROUP:
        return sample(value)
    return ""


CLASSES = {
    "CATEGORY_DIGIT": "1", "CATEGORY_NOT_DIGIT": "a", "CATEGORY_SPACE": " ",
    "CATEGORY_NOT_SPACE": "a", "CATEGORY_WORD": "a", "CATEGORY_NOT_WORD": "-",
}  # fmt: skip


def member_of(value: Any) -> str:
    negated = value[0][0] is kinds.NEGATE
    members = [(kind, what) for kind, what in value if kind is not kinds.NEGATE]
    if not negated:
        return "".join(sorted({first_of(*member) for member in members}))[:1] or "a"
    taken = re.compile("[" + "".join(re.escape(first_of(*member)) for member in members) + "]")
    return next(letter for letter in "ab1 -\n<x" if not taken.match(letter))


def first_of(kind: Any, what: Any) -> str:
    if kind is kinds.LITERAL:
        return chr(what)
    if kind is kinds.RANGE:
        return chr(what[0])
    return CLASSES.get(str(what), "a")


def repeated(nodes: Any, before: str = "") -> Iterator[tuple[str, str]]:
    """Return what leads to each repetition, and what it repeats."""
    for node in nodes:
        kind, value = node
        if kind in (kinds.MAX_REPEAT, kinds.MIN_REPEAT) and value[1] > 20:
            yield before, sample(value[2])
            yield from repeated(value[2], before)
        elif kind is kinds.SUBPATTERN:
            yield from repeated(value[-1], before)
        elif kind is kinds.BRANCH:
            for way in value[1]:
                yield from repeated(way, before)
                yield before, sample(way)
        elif kind in (kinds.ASSERT, kinds.ASSERT_NOT):
            yield from repeated(value[1], before)
        elif kind in (kinds.MAX_REPEAT, kinds.MIN_REPEAT):
            yield from repeated(value[2], before)
        before += sample_of(kind, value)


def texts(pattern: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    """Return texts that are hard for this pattern, as a beginning and what is repeated."""
    parts = parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG)
    ways = {(before, pump) for before, pump in repeated(parts) if pump}
    pumps = sorted({pump for _, pump in ways})
    yield from ways
    yield from ((("", before + pump)) for before, pump in ways if before)
    yield from (("", before) for before, _ in ways if before)
    yield from (("", one + other) for one, other in product(pumps[:6], pumps[:6]) if one != other)
    yield from (("", common) for common in ("a", " ", "\n", "1", "<", "[", "(", '"', "a ", "\\"))


class TookTooLong(Exception):
    """The alarm rang."""


def timed(call: Callable[[], object], most: float) -> float | None:
    """Return the processor's seconds of a call, or None if it took longer than `most`."""

    def stop(number: int, frame: object) -> None:
        raise TookTooLong

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, most)
    began = time.process_time()
    try:
        call()
        return time.process_time() - began
    except TookTooLong:
        return None
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def slowness(used: Used, most_texts: int | None = None) -> tuple[int, Slow | None]:
    """Return how many texts were tried, and the first one that took too long."""
    tried, length = 0, longest_of(used.where)
    hard = list(dict.fromkeys(texts(used.pattern)))[:most_texts]
    for (before, pump), end in product(hard, FAILING):
        for long in (each for each in LENGTHS if each <= length):
            text = before + pump * (long // len(pump)) + end
            for method in used.methods:
                tried += 1
                ask = getattr(used.pattern, method)
                taken = timed(lambda ask=ask, text=text: ask(text), MOST_SECONDS)
                if taken is None:
                    what = used.pattern.pattern
                    return tried, Slow(used.where, what, text[:60], len(text), MOST_SECONDS)
    return tried, None
