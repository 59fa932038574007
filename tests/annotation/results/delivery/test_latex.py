"""The report as LaTeX: it says what the page says, and no text of anybody's is a command in it."""

import re
import shutil
import subprocess

import pytest
from django.core.management import call_command
from hypothesis import given
from hypothesis import strategies as st

from annotation.results.delivery.latex import as_latex, escaped
from annotation.results.report.page import Cited, Paper, release
from judging.dataset.models import Example
from tests.factories import make_examples, make_run, make_verdict

PAPER = Paper(
    "n = 9 pairs. FairJudge 1.0.",
    (Cited("We did 50% so.", ("wang2024large",)), Cited("It was computed.", ("fairjudge",))),
)
HOSTILE = r"\input{/etc/passwd} $x$ 50% a_b #1 & {x} ~^"


def body_of(page):
    text = as_latex(page, PAPER).split(r"\begin{document}")[1]
    return text.split(r"\section*{Methods}")[0].strip()


def is_balanced(text):
    """Whether each brace and each environment that opens is closed, as TeX reads them."""
    text = re.sub(r"\\[{}$&#_%\\]", "", text)
    depth = 0
    for sign in text:
        depth += {"{": 1, "}": -1}.get(sign, 0)
        if depth < 0:
            return False
    within: list[str] = []
    for which, name in re.findall(r"\\(begin|end)\{(\w+)\}", text):
        if which == "begin":
            within.append(name)
        elif not within or within.pop() != name:
            return False
    return depth == 0 and not within


def test_a_table_is_set_with_its_head_numbers_and_intervals():
    page = """
      <div role="region" aria-label="Win rate of a_b">
      <table><thead><tr><th>Model</th><th class="num">Win rate</th></tr></thead><tbody>
      <tr><td>a_b &amp; c</td><td class="num">42 <span class="interval"><span
        class="visually-hidden">95 % interval </span>32–52</span></td></tr>
      <tr><td colspan="2">all <b>ties</b></td></tr></tbody></table></div>
      <h2>Costs</h2><table><tr><td>judge</td><td class="num">3</td></tr></table>"""
    assert body_of(page).splitlines() == [
        r"\begin{longtable}{lr}",
        r"\caption[]{Win rate of a\_b. Estimates with 95\,\% confidence intervals in brackets. "
        r"n = 9 pairs. FairJudge 1.0.}\\",
        r"\toprule",
        r"Model & Win rate \\",
        r"\midrule",
        r"\endfirsthead",
        r"\toprule",
        r"Model & Win rate \\",
        r"\midrule",
        r"\endhead",
        r"a\_b \& c & 42 [32--52] \\",
        r"\multicolumn{2}{l}{all \textbf{ties}} \\",
        r"\bottomrule",
        r"\end{longtable}",
        "",
        r"\subsection*{Costs}",
        "",
        r"\begin{longtable}{lr}",
        r"\caption[]{Costs. n = 9 pairs. FairJudge 1.0.}\\",
        r"\toprule",
        r"judge & 3 \\",
        r"\bottomrule",
        r"\end{longtable}",
    ]


def test_the_methods_cite_works_that_are_listed_and_in_bibtex():
    text = as_latex("<p>x</p>", PAPER)
    assert r"We did 50\% so.~\cite{wang2024large} It was computed.~\cite{fairjudge}" in text
    cited = set(re.findall(r"\\cite\{(\w+)\}", text))
    assert cited == set(re.findall(r"\\bibitem\{(\w+)\}", text))
    assert cited == set(re.findall(r"^@\w+\{(\w+),$", text, re.MULTILINE))
    assert PAPER.text == (
        f"We did 50% so (Wang et al., 2024). It was computed (FairJudge, {release()})."
    )


def test_headings_terms_and_code_are_set_and_what_is_not_text_is_left_out():
    page = """<head><title>x</title></head><h1>Report</h1><nav><a>Contents</a></nav>
      <p>By <code>a_b</code>,<br>κ ≥ ½</p><dl><dt>n</dt><dd>3</dd></dl>
      <figure><svg><text>drawn</text></svg><figcaption>The curve</figcaption></figure>
      <p hidden>unseen</p>"""
    assert body_of(page).split("\n\n") == [
        r"\section*{Report}",
        r"By \texttt{a\_b}, $\kappa$ $\geq$ $\frac{1}{2}$",
        "n:~3",
        "The curve",
    ]


@pytest.mark.parametrize(
    ("text", "set_as"),
    [
        (r"\input{x}", r"\textbackslash{}input\{x\}"),
        ("50 % & $1_2^3#~", r"50 \% \& \$1\_2\textasciicircum{}3\#\textasciitilde{}"),
        ("Ärger", "Ärger"),
        ("中", r"\sign{4E2D}{中}"),
        ("a\x00\x1b‮b", "ab"),
        ("CS₁ − CS₂", "CS$_{1}$ $-$ CS$_{2}$"),
    ],
)
def test_texts_are_set_as_they_are(text, set_as):
    assert escaped(text) == set_as


@given(st.text())
def test_no_text_opens_a_group_or_a_command_of_its_own(text):
    found = escaped(text)
    assert is_balanced(found)
    known = r"\\(text\w+|sign|[{}$&#_%,]|dots|times|pm|geq|leq|frac|cdot|approx|left\w+|right\w+"
    known += r"|alpha|beta|gamma|delta|varepsilon|kappa|lambda|nu|rho|sigma|tau|omega|Delta)"
    assert "\\" not in re.sub(known, "", found)


@pytest.mark.django_db
def test_the_report_of_a_run_is_written_whatever_its_names_hold(project, tmp_path):
    project.name = HOSTILE
    project.save()
    run = make_run(project, name=HOSTILE)
    for example in make_examples(project, 12, model_1=HOSTILE, model_2="中文"):
        Example.objects.filter(pk=example.pk).update(gold_label="win")
        make_verdict(run, example, 0.5 if example.number % 3 else 0.0, rank=example.number + 1)
    path = tmp_path / "report.tex"
    call_command("report", project.slug, run="latest", output=path)
    text = path.read_text()
    assert is_balanced(text.split(r"\LTcapwidth", 1)[-1].split("}", 1)[1])
    assert r"\input" not in text
    assert r"\textbackslash{}input\{/etc/passwd\}" in text
    assert r"\sign{4E2D}{中}" in text
    assert text.count(r"\begin{longtable}") >= 3
    assert r"\section*{1. Verdict}" in text
    assert "n = 12 pairs unless a column says otherwise" in text
    for row in re.findall(r"\\endhead\n(.*?)\\bottomrule", text, re.DOTALL):
        assert all(line.endswith(r"\\") for line in row.strip().splitlines())


@pytest.mark.django_db
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs pdflatex to set the file")
def test_latex_sets_the_report(project, tmp_path):
    project.name = f"{HOSTILE} اختبار ½ ₁ <script>"
    project.save()
    run = make_run(project)
    for example in make_examples(project, 12, model_1=HOSTILE, model_2="中文", gold_label="win"):
        make_verdict(run, example, 0.5, rank=example.number + 1)
    call_command("report", project.slug, run="latest", format="latex", output=tmp_path / "r.tex")
    command = [
        "pdflatex",
        "-interaction=nonstopmode",
        "-halt-on-error",
        "-no-shell-escape",
        "r.tex",
    ]
    for _ in range(2):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=120, check=False)
    log = done.stdout.decode(errors="replace")
    assert done.returncode == 0, log[-2000:]
    assert "undefined" not in log
    assert (tmp_path / "fairjudge-report.bib").read_text().count("@") >= 3
