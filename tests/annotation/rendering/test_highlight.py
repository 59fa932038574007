"""Code is coloured through classes and otherwise left alone."""

import pytest

from annotation.rendering import render
from annotation.rendering.gate import CODE_CLASSES, LANGUAGES, highlight, sanitise
from tests.annotation.rendering.reading import Reading


def test_python_is_coloured():
    html = render("```python\ndef f(x): return '<script>'\n```")
    assert html.startswith(
        '<pre dir="ltr"><span class="info">python</span><code><span class="code-k">def</span>'
    )
    assert "&lt;script&gt;" in html
    assert Reading(html).text == "pythondef f(x): return '<script>'\n\n"


@pytest.mark.system
@pytest.mark.parametrize("language", sorted(LANGUAGES))
def test_no_language_changes_the_code(language):
    code = "\n\n  a = 'b' # <c> & \"d\"\n\t{e: f};\r\n-- g\n\n"
    reading = Reading(sanitise(highlight(code, language)))
    assert reading.text == code.replace("\r\n", "\n")
    classes = {name for _, attributes in reading.elements for name in attributes["class"].split()}
    assert classes <= CODE_CLASSES


@pytest.mark.parametrize("info", ["", "brainfuck", "PYTHON3.99", "../python"])
def test_an_unknown_language_is_shown_without_colours(info):
    label = f'<span class="info">{info}</span>' if info else ""
    assert render(f"```{info}\nif <b>\n```") == (
        f'<pre dir="ltr">{label}<code>if &lt;b&gt;\n</code></pre>\n'
    )


def test_the_language_is_the_first_word_in_any_case():
    assert "code-k" in render("~~~ Python title=x\nif x: pass\n~~~")


def test_indented_code_is_code():
    assert render("    <b>\n      c") == ('<pre dir="ltr"><code>&lt;b&gt;\n  c\n</code></pre>\n')


@pytest.mark.parametrize("code", ["x = 1\n" * 1100, "x = 1;" * 60, "x" + "\n" * 9 + "x = 1"])
def test_code_beyond_the_bounds_has_no_colours(code):
    assert highlight("x = 1", "python") != "x = 1"
    assert highlight(code, "python") == code


def test_the_bound_holds_for_all_blocks_of_a_text_together():
    block = "```python\n" + "x = 1\n" * 900 + "```\n"
    rendered = render(block * 4).split("</pre>")
    assert ["<code><span" in block for block in rendered[:4]] == [True, True, False, False]
