from itertools import pairwise

import pytest

from judging.methods.portia.splitting import MAX_CHARACTERS, boundaries, code_blocks

# A broken bar marks where the block may be cut; elsewhere it may not.
STATEMENTS = {
    "python": (
        "import os.path\n\n"
        "¦# what follows. It is named.\n@dec\nclass A:\n    x = 1\n\n"
        "    ¦def a(self):\n        y = 1\n        return y\n\n"
        "    ¦# second\n    def b(self): pass\n"
        "¦if x:\n    a()\n    b()\nelse:\n    c()\n"
        "¦for i in x:\n    a.b. c()\n    d()\n"
        "¦print(1); print(2)  # the end. Really.\n"
    ),
    "java": (
        "import java.util.*;\n"
        "¦/** Main. It runs. */\npublic class Main {\n  int x;\n"
        "  ¦// one\n  void f() {\n    g();\n    h();\n  }\n"
        "  ¦@Override\n  public String toString() { return x; }\n}\n"
    ),
    "js": (
        "const a = 1 // one. two.\n"
        "¦export class B {\n  c() { return 1 }\n  ¦d() {\n    e()\n    f()\n  }\n}\n"
        "¦a.b(() => {\n  c()\n  d()\n})\n"
    ),
    "ts": (
        "interface A { x: number }\n"
        "¦namespace N {\n  const y = 1;\n  ¦export class C { z() {} }\n}\n¦let w: A;\n"
    ),
    "tsx": "const A = () => <b>Hi. You.</b>;\n¦export default A;\n",
    "c": "#include <a.h>\n¦int f() {\n  a();\n  b();\n}\n¦int main() { return 0; }\n",
    "c++": (
        "#include <a>\n¦namespace n {\nclass A {\n public:\n  void f();\n"
        " ¦private:\n  int x;\n};\n¦int g() { return 1; }\n}\n"
        "¦template <class T>\nclass Q {\n  void h();\n  ¦void i();\n};\n"
    ),
    "c#": (
        "using System;\n¦namespace N {\n  class A {\n    int x;\n    ¦void F() { g(); }\n  }\n"
        "  ¦class B { }\n}\n"
    ),
    "go": "package main\n\n¦func f() {\n\ta()\n\tb()\n}\n\n¦type T struct {\n\ta int\n\tb int\n}\n",
    "rust": (
        "use a;\n¦#[derive(Debug)]\nstruct A {\n  x: i32,\n  y: i32,\n}\n"
        "¦impl A {\n  fn f() {}\n  ¦/// Doc. It is.\n  fn g() {}\n}\n"
    ),
    "ruby": (
        "require 'a'\n¦module M\n  class A\n    def f\n      1\n      2\n    end\n\n"
        "    ¦def g; end\n  end\nend\n¦puts 1\n"
    ),
    "php": ("<?php\n$x = 1;\n¦class A {\n  function f() { a(); }\n  ¦function g() {}\n}\n¦f();\n"),
    "bash": "#!/bin/sh\nset -e\n¦# c\nfor i in a; do\n  b\n  c\ndone\n¦ls | wc\n",
}
BARE_PHP = "$x = 1;\n¦echo $x;\n"


def parts(text):
    return [text[start:stop] for start, stop in pairwise((0, *boundaries(text), len(text)))]


def assert_cut(opening, marked, closing="```", indent=""):
    """Cut before the block, behind it, and inside it where the bars are."""
    code = "".join(indent + line for line in marked.splitlines(keepends=True))
    whole = f"Look here:\n{indent}¦{opening}\n{code}{indent}{closing}\n¦That. ¦Is it."
    assert parts(whole.replace("¦", "")) == whole.split("¦")


@pytest.mark.parametrize("language", STATEMENTS)
def test_code_is_cut_between_statements_only(language):
    assert_cut(f"```{language}", STATEMENTS[language])


def test_code_within_a_list_item_is_read_without_its_indentation():
    assert_cut("```python", STATEMENTS["python"], indent="   ")


def test_characters_of_several_bytes_do_not_shift_the_cuts():
    assert_cut("~~~~py", "x = '你好𝒳é'; y = 1\n¦z = '😀😀'\n¦print(z)\n", closing="~~~~")


def test_php_needs_no_opening_tag():
    assert_cut("```php", BARE_PHP)


@pytest.mark.parametrize(
    "opening", ["```Python", "``` python title=a.py", "```{.python .numberLines}", "```python3"]
)
def test_the_language_is_the_first_word_behind_the_fence(opening):
    assert_cut(opening, "x = 1\n¦y = 2\n")


@pytest.mark.parametrize(
    ("opening", "code"),
    [
        ("```", "x = 1. Yes.\ny = 2\n"),
        ("```brainf", "a. B. C.\n\nD. E.\n"),
        ("```python", "def f(:\n  x. Y.\n\ny = 1\n"),
        ("```python", ">>> x = 1\n1\n>>> y = 2\n"),
        ("```python", ""),
        ("```text", "First. Second.\n\n# Third. Fourth.\n- fifth\n"),
    ],
)
def test_code_of_no_known_language_or_that_does_not_parse_stays_whole(opening, code):
    assert_cut(opening, code)


def test_a_block_that_is_not_closed_runs_to_the_end():
    assert parts("Text. More text.\n```\ncode. code. code.") == [
        "Text. ",
        "More text.\n",
        "```\ncode. code. code.",
    ]


def test_a_shorter_or_another_fence_does_not_close_a_block():
    text = "````\n```\nA. B.\n~~~\n````\nC is here. D."
    assert parts(text)[0] == "````\n```\nA. B.\n~~~\n````\n"


def test_backquotes_within_a_line_open_no_block():
    text = "```a``` is code. So is ```b. c```. Yes."
    assert list(code_blocks(text)) == []
    assert len(parts(text)) == 3


def test_a_very_long_block_stays_whole():
    code = "x = 1\n" * (MAX_CHARACTERS // 6 + 1)
    assert parts(f"Here.\n```python\n{code}```\n") == ["Here.\n", f"```python\n{code}```\n"]
