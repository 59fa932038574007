r"""Formulas between the delimiters that models use, and money that is none."""

import pytest

from annotation.rendering import render
from annotation.rendering.mathematics import FORMULA_CHARACTERS, to_mathml
from tests.annotation.rendering.reading import Reading

SQUARE = "<msup><mi>x</mi><mn>2</mn></msup>"


@pytest.mark.parametrize(
    "text", ["$x^2$", r"\(x^2\)", "a $x^2$.", "**$x^2$**", "- $x^2$", "# $x^2$"]
)
def test_a_formula_within_a_line(text):
    assert f'<math display="inline"><mrow>{SQUARE}</mrow></math>' in render(text)


@pytest.mark.parametrize(
    "text",
    [
        "$$x^2$$",
        r"\[x^2\]",
        "$$\nx^2\n$$",
        "\\[\nx^2\n\\]",
        "text\n$$x^2$$\ntext",
        "> $$\n> x^2\n> $$",
        "- a\n  \\[\n  x^2\n  \\]\n- b",
        "a $$x^2$$ b",
    ],
)
def test_a_formula_of_its_own(text):
    assert f'<math display="block"><mrow>{SQUARE}</mrow></math>' in render(text)


def test_markdown_leaves_the_inside_of_a_formula_alone():
    html = render(r"$a_1 * b_2 * c_{3}$ and \(a \\ b\)")
    assert "<em>" not in html
    assert html.count("<msub>") == 3


def test_a_formula_over_lines_is_neither_heading_nor_list():
    html = render("$$\na\n= b\n- c\n$$")
    assert set(Reading(html).tags) == {"div", "math", "mrow", "mi", "mo"}


@pytest.mark.parametrize("name", ["aligned", "gathered", "gather*", "multline", "eqnarray"])
def test_aligned_lines_are_lines_and_show_no_ampersand(name):
    html = render(rf"\[\begin{{{name}}}a &= 1 \\ b &= 2\end{{{name}}}\]")
    assert html.count("<mtr>") == 2
    assert "&amp;" not in html


def test_an_environment_is_a_formula():
    html = render("\\begin{align}\na &= b \\\\\nc &= d\n\\end{align}")
    assert Reading(html).tags.count("mtr") == 2


@pytest.mark.parametrize(
    "text",
    [
        "It costs $5 and $10.",
        "between $5-$10",
        "$ 5 and 6$",
        "US$ 3, A$ 4",
        "`$x$`",
        r"\$x\$",
        "one $x\nand y$ two",
        "$$",
        "$$ $$",
        r"\(\)",
        r"\[ open",
        "```\n$x$\n```",
    ],
)
def test_what_is_no_formula_stays_text(text):
    reading = Reading(render(text))
    assert "math" not in reading.tags
    assert "$" in reading.text or "(" in reading.text or "[" in reading.text


def test_text_in_a_formula_is_escaped():
    mathml = to_mathml(r"\text{<b><i>} < 1", block=False)
    assert Reading(mathml).text.replace("\xa0", " ") == "<b><i><1"
    assert set(Reading(mathml).tags) == {"math", "mrow", "mtext", "mo", "mn"}


@pytest.mark.parametrize(
    "source",
    [
        r"x^{",
        r"\frac{1}",
        r"\left( x",
        "{" * 900,
        "x^" * 900,
        r"\begin{matrix} a",
        r"\newcommand{\a}{\b\b}\a",
        r"\def\a{x}\a",
        "x" * (FORMULA_CHARACTERS + 1),
    ],
)
def test_what_cannot_be_set_is_shown_as_written(source):
    assert to_mathml(source, block=True) is None
    shown = Reading(render(f"$$\n{source}\n$$"))
    assert "math" not in shown.tags
    assert source in shown.text


def test_a_broken_formula_does_not_harm_the_next():
    html = render(r"$\frac{1}$ and $x^2$")
    assert r'<code class="formula-source">$\frac{1}$</code>' in html
    assert SQUARE in html


def test_links_colours_and_classes_leave_no_trace():
    html = render(r"$\href{https://a.example}{x} \color{red}{y} \class{primary}{z}$")
    assert not {"href", "mathcolor"} & {
        name for _, attributes in Reading(html).elements for name in attributes
    }
    assert "primary" not in {attributes.get("class") for _, attributes in Reading(html).elements}
