"""Every public function of the methods says what it takes, returns and raises."""

import ast
import re
from pathlib import Path

import pytest

import judging.methods

ROOT = Path(judging.methods.__file__).parent


def undocumented(source):
    """Return what is missing, as `function: what`, in the public functions of a module."""
    missing = []
    tree = ast.parse(source)
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            if not ast.get_docstring(node):
                missing.append(f"{node.name}: docstring")
        elif isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            missing += [f"{node.name}: {what}" for what in _missing_parts(node)]
    return missing


def _missing_parts(function):
    text = ast.get_docstring(function) or ""
    sections = re.split(r"^(Args|Returns|Raises):", text, flags=re.MULTILINE)
    parts = dict(zip(sections[1::2], sections[2::2], strict=True))
    given = function.args
    starred = [argument for argument in (given.vararg, given.kwarg) if argument]
    for argument in [*given.posonlyargs, *given.args, *given.kwonlyargs, *starred]:
        # A line names one argument or several, before its colon.
        entry = rf"^[\w\s,]*\b{argument.arg}\b[\w\s,]*:"
        if not re.search(entry, parts.get("Args", ""), flags=re.MULTILINE):
            yield f"argument {argument.arg}"
    returns = function.returns
    nothing = isinstance(returns, ast.Constant) and returns.value is None
    if not nothing and not parts.get("Returns", "").strip():
        yield "Returns"
    raises = any(
        isinstance(node, ast.Raise) and node.exc is not None for node in ast.walk(function)
    )
    if raises and "Raises" not in parts and "Raise" not in text:
        yield "Raises"


@pytest.mark.parametrize(
    "module", sorted(ROOT.rglob("*.py")), ids=lambda path: path.relative_to(ROOT).as_posix()
)
def test_public_functions_say_what_they_take_and_return(module):
    assert undocumented(module.read_text(encoding="utf-8")) == []


def test_a_missing_docstring_section_or_argument_is_found():
    source = '''
def silent(x): return x
def half(x, y):
    """Add.

    Args: x: a number.
    """
def whole(x, y):
    """Add.

    Args:
        x, y: numbers.
    Returns: their sum.
    """
    raise ValueError
def _private(x): ...
class Bare: ...
'''
    assert undocumented(source) == [
        "silent: argument x",
        "silent: Returns",
        "half: argument y",
        "half: Returns",
        "whole: Raises",
        "Bare: docstring",
    ]
