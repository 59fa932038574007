"""Every letter and digit of a text can be read on the page, laid out or as it was written."""

import re
import string
from collections import Counter
from html.parser import HTMLParser
from unicodedata import normalize

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from annotation.rendering import render

_TOKENS = {"mi", "mn", "mo", "mtext"}
_UNSEEN = {"mphantom"}
_NAMES = re.compile(r"\\(?:begin|end)\{(?:pmatrix|align\*?|cases)\}|\\[a-zA-Z]+")


class Eyes(HTMLParser):
    """What a browser paints: in MathML only text right within a token element, and no phantom."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.open, self.text = [], ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        if tag == "li":
            self.text += dict(attrs).get("value") or ""
        if tag not in ("br", "hr"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        self.open.pop()

    def handle_data(self, data):
        is_formula = "math" in self.open
        within_token = bool(_TOKENS & set(self.open[:-1])) or self.open[-1:] == ["mspace"]
        if is_formula and (
            within_token or self.open[-1] not in _TOKENS or _UNSEEN & set(self.open)
        ):
            return
        self.text += data


def missing(text, html):
    """The letters and digits that can't be read, names of commands aside if a formula is set."""
    needed = _NAMES.sub("", text) if "<math" in html else text
    seen = Eyes(re.sub('<p class="note".*?</p>', "", html)).text
    lost = Counter(normalize("NFKC", needed)) - Counter(normalize("NFKC", seen))
    return {letter for letter in lost if letter.isalnum()}


LOSING = [
    "So the price is $100 - 20% = 80$ in the end.",
    r"\(25% \times 80 = 20\)",
    r"\[ \text{Discount} = 20% \times 50 = 10 \]",
    r"$\hat x = \mathop{\mathrm{argmax}}_{x} f(x)$",
    r"$a \mathrel{R} b \mathbin{S} c$",
    r"$\phantom{secret} x$",
    r"$\sideset{a}{b}\sum$",
    r"$\mathchoice{a}{b}{c}{d}$",
    r"$x \hspace{1cm} y$",
    r"$\href{https://a.example}{x}$",
    "$$\n50% of x % of y\n$$",
    "5. five\n4. four\n1. one",
    "01. one\n02. two",
    "|a|b|\n|-|-|\n|1|2|3|",
    "```answer 42\nx\n```",
    '[a](u "title 1")',
    '![a](u "title 1")',
    "![a $x$ b](u)",
    "![[text](target)](u)",
    "[text](https://köln.example/straße/東京)",
    "[text](x?a&copy;b)",
    "&copy; &nbsp; &#65; &notAnEntity;",
    "see [1]\n\n[1]: https://a.example",
    "<script>alert(1)</script> <!-- hidden 1 -->",
]


@pytest.mark.parametrize("text", LOSING)
def test_what_formatting_used_to_hide_can_be_read(text):
    assert missing(text, render(text)) == set()


@pytest.mark.parametrize(
    "text",
    [
        "So the price is $100 - 20% = 80$ in the end.",
        "I have $20 and you have 30$.",
        "PATH=$HOME:$PATH and $a=$b",
        "US$5 or 6$",
        "df$x+df$y",
        "$5 or 6$",
    ],
)
def test_dollar_signs_that_are_no_formula_stay(text):
    html = render(text)
    assert "<math" not in html
    assert html.count("$") == text.count("$")


@pytest.mark.parametrize(
    "text",
    [
        "$42$",
        "$n$th",
        "10$^{-3}$",
        "CO$_2$",
        "设$x$为",
        r"5$\times$ 5",
        r"$\iint f dx dy$",
        r"$50\%$",
        r"\(20% x\)",
        r"$x \text{ if this holds}$",
        r"$\mathop{\mathrm{argmax}}_x f$",
        r"$\operatorname{arg max}_x f$",
        r"\[\begin{array}{lcr}a&b&c\end{array}\]",
        r"\[\begin{cases}1 & \text{if so}\\ 0\end{cases}\]",
    ],
)
def test_a_formula_that_shows_everything_is_set(text):
    html = render(text)
    assert "<math" in html
    assert 'class="note"' not in html


def test_a_note_says_what_is_shown_as_written_and_why():
    whole = render("**a**\n\n|a|b|\n|-|-|\n|1|2|3|")
    assert whole.startswith('<p class="note" dir="auto">Shown as written, because')
    assert "**a**" in whole
    formula = render(r"**a** $\phantom{b}$")
    assert formula.startswith('<p class="note" dir="auto">Formulas that')
    assert "<strong>a</strong>" in formula
    assert r"$\phantom{b}$" in formula
    assert 'class="note"' not in render("**a** $b$ `c`")


def test_a_formula_as_written_does_not_hide_what_is_missing_elsewhere():
    """Neither the note nor the name of an image may stand in for letters of the text."""
    text = "$\\phantom{q}$\n\n![a](b)\n\n|a|\n|-|\n|1|Image shown as written in full display|"
    assert "|Image shown as written" in render(text)


WORDS = st.sampled_from(
    """a 7 word 3.14 100% $5 $x$ US$ naïve Straße מילה كلمة ٤٢ слово 東京 हिन्दी 👩‍🔬 e\u0301 ½ x² ℝ
    snake_case *b* **bold** ~~no~~ `c0de` [t](u1) [t](<u 2> "T3") ![i](s4) <https://e.example/ö>
    <b>html</b> <!--c--> &amp; &lt;p&gt; &#x41; \\* \\_ \\$ $a_1$ $50%$ \\(y%z\\) $$k$$ | # >
    - 1. 12) \\[p=1\\] $\\frac{p}{q}$ $\\mathop{op}_i$ $\\text{in 5%}$ $\\phantom{g}$ $\\mathbb{N}$
    \\\\ ` $ {
    """.split()
)
LINE = st.lists(WORDS, min_size=1, max_size=6).map(" ".join)
BLOCK = st.one_of(
    LINE,
    LINE.map("# {}".format),
    st.builds("{}\n===".format, LINE),
    st.builds("{}. {}\n{}. {}".format, st.integers(0, 1200), LINE, st.integers(0, 1200), LINE),
    st.builds("- {}\n  - {}\n- {}".format, LINE, LINE, LINE),
    st.builds("> {}\n> {}".format, LINE, LINE),
    st.builds("```{}\n{}\n```".format, st.sampled_from(["", "python", "js t=1", "ö 2"]), LINE),
    st.builds("    {}".format, LINE),
    st.builds("|{}|b|\n|:-|-:|\n|{}|{}|{}".format, LINE, LINE, LINE, LINE),
    st.builds("$$\n{}\n$$".format, LINE),
    st.builds("\\begin{{align}}\n{} &= 1 \\\\\n2 &= {}\n\\end{{align}}".format, LINE, LINE),
    st.builds("\\[\n\\begin{{pmatrix}}1 & {}\\end{{pmatrix}}\n\\]".format, LINE),
    st.builds("<div class='{}'>\n{}\n</div>".format, LINE, LINE),
    st.builds("[{}]: https://e.example '{}'".format, LINE, LINE),
    st.text(string.printable, max_size=40),
    st.text(max_size=20),
)


@pytest.mark.system
@settings(max_examples=1000, deadline=None, derandomize=True)
@given(text=st.lists(BLOCK, min_size=1, max_size=4).map("\n\n".join))
def test_no_letter_of_a_thousand_texts_is_lost(text):
    assert missing(text, render(text)) == set()
