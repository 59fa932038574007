"""The report as a PDF: tagged, the same each time, and no text of anybody's is a command in it."""

import json
import re
import zlib

import pytest
import typst
from django.core.management import call_command
from hypothesis import example, given, settings
from hypothesis import strategies as st

from annotation.results.delivery import pdf
from annotation.results.delivery.pdf import as_pdf
from annotation.results.report.page import Cited, Paper
from annotation.results.report.report import CHAPTERS
from judging.projects.models import Role
from tests.factories import make_examples, make_member, make_run, make_verdict

real_set = pdf._set
PAPER = Paper("n = 9 pairs. FairJudge 1.0.", (Cited("So.", ("fairjudge",)),))
HOSTILE = r'#import "x" \input{/etc/passwd} $x$ 50% "a_b" #1 & {x} [y] ~^ <b> // /* @z'


def set_as(page, **changes):
    return as_pdf(page, PAPER, "Report", {} | changes)


def text_of(content):
    """The text of a PDF whose streams Typst compressed, by the maps of its fonts."""
    streams = re.findall(rb"stream\r?\n(.*?)\r?\nendstream", content, re.DOTALL)
    parts = [content]
    for stream in streams:
        try:
            parts.append(zlib.decompress(stream))
        except zlib.error:
            continue
    return b"\n".join(parts).decode("latin-1")


def outline_of(content):
    """The titles of the bookmarks, in their order."""
    found = re.findall(rb"/Title ?(\(.*?[^\\]\)|<[0-9A-F]+>)", content, re.DOTALL)
    return [one[1:-1].decode("latin-1") for one in found]


def test_it_is_tagged_titled_numbered_and_the_same_each_time():
    page = """<h1>Report</h1><h1>1. Verdict</h1><h3>Deep</h3><p>a</p><ul><li>b</li></ul>
      <table><thead><tr><th>Model</th><th class="num">n</th></tr></thead><tbody>
      <tr><td>x</td><td class="num">3</td></tr><tr><td colspan="2">all</td></tr></tbody></table>
      <table><tr><td>no head</td></tr></table><pre>@misc{a,\n  b}</pre>"""
    first = set_as(page)
    assert first == set_as(page)
    assert first.startswith(b"%PDF-1.7")
    objects = text_of(first)
    for tag in ("/Table", "/TH", "/TD", "/Caption", "/H1", "/H2", "/LI"):
        assert tag in objects, tag
    assert "pdfuaid:part" in objects
    assert "CreationDate" not in objects
    assert "/Lang" in objects


@settings(max_examples=40, deadline=None)
@example(["0🏻", "é̂", "🏳️‍🌈", "]🏻"])
@given(st.lists(st.text(max_size=20), min_size=1, max_size=6))
def test_whatever_texts_hold_the_report_is_set(texts):
    rows = "".join(f"<tr><td>{escaped(one)}</td></tr>" for one in texts)
    page = f"<h1>{escaped(texts[0])}</h1><table>{rows}</table><p><b>{escaped(texts[-1])}</b></p>"
    assert set_as(page).startswith(b"%PDF")


def escaped(text):
    return text.replace("&", "&amp;").replace("<", "&lt;")


def test_no_text_is_a_command():
    quoted = pdf._quoted(HOSTILE + "\n\u2028 中 \u202e")
    # Typst itself says what the string holds.
    source = f"#metadata({quoted}) <it>".encode()
    (found,) = json.loads(typst.query(source, "<it>", field="value"))
    assert found == HOSTILE + "   中 "
    sets = pdf._Typst(PAPER, {}, set())
    assert sets.escaped(f" {HOSTILE}\n") == f" #{pdf._quoted(HOSTILE)}; "


def test_a_sign_that_no_font_has_is_named_by_its_number_in_a_note(monkeypatch):
    monkeypatch.setattr(pdf, "_fonts", lambda: typst.Fonts(include_system_fonts=False))
    sources = []

    def setting(module, source):
        sources.append(source)
        return real_set(module, source)

    monkeypatch.setattr(pdf, "_set", setting)
    assert set_as("<h1>اسم 中文</h1><p>中</p>").startswith(b"%PDF")
    before, after = sources
    assert "[U+4E2D]" not in before
    assert after.count("[U+4E2D]") == 2
    assert "2 signs of names and texts" in after
    assert "U+4E2D, U+6587" in after
    # Arabic is in a font that comes with Typst.
    assert "U+0627" not in after


@pytest.mark.system
@pytest.mark.django_db
def test_the_report_of_a_run_has_all_chapters_in_order_with_plots(project, tmp_path, client):
    project.name = HOSTILE
    project.save()
    run = make_run(project, name=HOSTILE)
    pairs = make_examples(project, 12, model_1=HOSTILE, model_2="اسم 中文", gold_label="win")
    for pair in pairs:
        make_verdict(run, pair, 0.5 if pair.number % 3 else 0.0, rank=pair.number + 1)
    paths = [tmp_path / "one.pdf", tmp_path / "two.pdf"]
    for path in paths:
        call_command("report", project.slug, run="latest", output=path)
    content = paths[0].read_bytes()
    assert content == paths[1].read_bytes()
    titles = [one for one in outline_of(content) if re.match(r"\d\. ", one)]
    seven = [one.title for one in CHAPTERS if not one.method] + ["Export"]
    assert titles == [f"{n}. {title}" for n, title in enumerate(seven, 1)]
    assert text_of(content).count("/Figure") >= 4
    owner = make_member(project, Role.OWNER, "olga")
    client.force_login(owner)
    client.post("/p/vicuna/look", {"next": "/p/vicuna/results"})
    sent = client.post("/p/vicuna/report.pdf", {"run": "1"})
    assert b"".join(sent) == content
    assert sent.headers["Content-Disposition"].endswith('vicuna-run1-report.pdf"')
