"""The tags that every page writes its figures, labels and words with."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from html.parser import HTMLParser
from pathlib import Path

import pytest
from django.conf import settings
from django.template import Context, RequestContext, Template
from django.test import RequestFactory

from judging.core.glossary import GLOSSARY
from judging.methods.intervals.estimates import Estimate
from judging.templatetags import fairjudge as tags


class Words(HTMLParser):
    """What a reader gets of a piece of HTML."""

    def __init__(self):
        super().__init__()
        self.text = ""

    def handle_data(self, data):
        self.text += data


def html(source, **context):
    return Template("{% load fairjudge %}" + source).render(Context(context))


def words(source, **context):
    reader = Words()
    reader.feed(html(source, **context))
    return reader.text


def test_a_number_carries_its_interval_and_says_what_it_is():
    assert words("{% number 0.732 low=0.691 high=0.771 %}") == ".732 95 % interval .69–.77"


def test_coverage_is_said_only_where_it_is_not_full():
    assert words("{% number 0.4 n=76 of=80 %}") == ".400 on 76 of 80"
    assert words("{% number 0.4 n=80 of=80 %}") == ".400"


def test_a_number_that_is_undefined_says_why():
    assert words("{% number None reason='one order only' %}") == "one order only"
    assert words("{% number None %}") == "not known"


def test_a_share_can_be_written_in_per_cent():
    assert words("{% number 0.462 low=0.35 high=0.57 percent=True %}") == (
        "46.2\u202f% 95 % interval 35–57"
    )


@dataclass
class Measured:
    value: float
    low: float
    high: float
    n: int


def test_an_estimate_is_read_from_the_report_or_from_the_analysis():
    kept = {"value": 0.5, "low": 0.4, "high": 0.6, "n": 9}
    expected = ".500 95 % interval .40–.60 on 9 of 10"
    assert words("{% estimate e of=10 %}", e=kept) == expected
    assert words("{% estimate e of=10 %}", e=Measured(**kept)) == expected
    assert words("{% estimate e %}", e={"value": None, "reason": "one rater"}) == "one rater"


def test_a_label_has_its_word_beside_its_colour():
    assert words("{% label 'win' %}") == "response 1 wins"
    assert words("{% label 'lose' 'maple' 'birch' %}") == "birch wins"
    assert words("{% label 'tie' 'maple' 'birch' %}") == "tie"
    assert html("{% label 'win' 'maple' '' %}").startswith('<span class="label win">')
    assert words("{% label None %}") == "no label"


def test_a_label_that_is_none_of_the_three_is_an_error():
    with pytest.raises(ValueError, match="not a label"):
        html("{% label 'winn' %}")


@pytest.mark.parametrize(
    "source",
    [
        "{% label 'win' text %}",
        "{% shares 1 2 3 text text %}",
        "{% number None reason=text %}",
        "{% progress 1 2 text %}",
        "{% term 'BPDE' text %}",
        "{% include 'parts/empty.html' with title=text text=text url=text action=text %}",
        "{% include 'parts/confirm.html' with id='x' title=text text=text name=text button=text %}",
    ],
)
def test_no_part_lets_markup_through(source):
    rendered = html(source, text="\"'><script>alert(1)</script>")
    assert "<script" not in rendered
    assert "\"'>" not in rendered


def test_shares_fill_the_bar():
    rendered = html("{% shares 41 12 27 %}")
    assert 'class="w" x="0.0" width="51.25"' in rendered
    assert 'class="l" x="66.25" width="33.75"' in rendered
    unnamed = "response 1 wins 41 tie 12 response 2 wins 27"
    assert " ".join(words("{% shares 41 12 27 %}").split()) == unnamed
    named = "{% shares 41 12 27 'maple' 'birch' %}"
    assert " ".join(words(named).split()) == "maple wins 41 tie 12 birch wins 27"
    assert words("{% shares 0 0 0 %}") == "none yet"


def test_progress_without_a_known_total_has_no_bar():
    assert "<progress" not in html("{% progress 3 None 'read' %}")
    assert words("{% progress 3 16 'judged' %}") == "3 of 16 judged"


def test_times_are_written_in_utc():
    when = datetime(2026, 3, 1, 14, 30, tzinfo=timezone(timedelta(hours=2)))
    rendered = html("{{ when|moment }}", when=when)
    assert rendered == (
        '<time datetime="2026-03-01T12:30:00Z" data-local>2026-03-01 12:30 UTC</time>'
    )
    assert html("{{ when|moment }}", when=None) == "never"


def test_ago_counts_from_now():
    when = datetime.now(UTC) - timedelta(minutes=5)
    assert words("{{ when|ago }}", when=when) == "5 min ago"


def sorted_by(query):
    request = RequestFactory().get("/" + query)
    source = "{% load fairjudge %}{% sort_header 'BPDE' 'bpde' %}"
    return Template(source).render(RequestContext(request))


def test_a_head_that_sorts_turns_around_and_goes_back_to_page_one():
    assert 'aria-sort="none"><a href="?q=x&amp;sort=bpde">' in sorted_by("?q=x&page=4")
    assert 'aria-sort="ascending"><a href="?sort=-bpde">' in sorted_by("?sort=bpde")
    assert 'aria-sort="descending"><a href="?sort=bpde">' in sorted_by("?sort=-bpde")


def test_every_word_of_the_glossary_is_one_sentence_with_a_place_of_its_own():
    assert all(entry.meaning.endswith(".") and entry.meaning for entry in GLOSSARY.values())
    assert len({entry.anchor for entry in GLOSSARY.values()}) == len(GLOSSARY)
    assert all(entry.anchor for entry in GLOSSARY.values())


def test_a_glossary_word_leads_to_its_sentence():
    rendered = html("{% term 'BPDE' 'entropy' %}")
    assert 'href="/docs/glossary#bpde"' in rendered
    assert ">entropy</a>" in rendered
    page = html("{% include 'glossary.html' %}", terms=GLOSSARY.values())
    assert 'id="bpde"' in page


# Letters are read in mail programs, which know no style sheets of a site.
TEMPLATES = sorted(
    path
    for path in (Path(settings.BASE_DIR) / "templates").rglob("*.html")
    if path.parent.name != "mail"
)


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_no_template_needs_what_the_content_policy_forbids(path):
    """Inline styles and scripts, handlers, and the parts of htmx that evaluate text."""
    text = path.read_text(encoding="utf-8")
    lowered = text.lower()
    for forbidden in (" style=", "<style", "hx-on", "js:", "javascript:", "hx-vars"):
        assert forbidden not in lowered, forbidden
    for handler in (" onclick", " onload", " onerror", " onsubmit", " onchange", " oninput"):
        assert handler not in lowered, handler
    for trigger in lowered.split('hx-trigger="')[1:]:
        assert "[" not in trigger.split('"')[0], "a filtered trigger fires always"
    for script in lowered.split("<script")[1:]:
        assert "src=" in script.split(">")[0], "inline script"
    assert "|safe" not in lowered


def test_a_p_value_is_never_shown_as_0():
    assert html("{% p_value p %}", p=1e-6) == "p &lt; .001"
    assert html("{% p_value p True %}", p=1e-6) == "&lt; .001"
    assert html("{% p_value p %}", p=0.0114) == "p = .011"


def test_why_there_is_no_interval_is_said():
    found = Estimate(0.5, 1, note="all examples have the same question")
    html = tags.estimate(found)
    assert ">.500" in html
    assert 'title="all examples have the same question">no interval<' in html


@pytest.mark.parametrize(
    ("value", "options", "shown"),
    [
        (1.0954, "", "1.10"),
        (12.345, "", "12.3"),
        (0.5, "", ".500"),
        (1.0, "percent=True", "100\u202f%"),
        (0.42, "percent=True", "42.0\u202f%"),
        (0.0, "percent=True", "0.0\u202f%"),
    ],
)
def test_a_number_has_three_significant_figures_at_most(value, options, shown):
    assert words(f"{{% number value {options} %}}", value=value) == shown


def test_an_excerpt_is_one_line_that_names_its_images():
    stored = f"sha256:{'0a' * 32}"
    text = f"Which animal?\n\n![A photo]({stored}) and ![]({stored})"
    assert words("{{ text|brief }}", text=text) == "Which animal? [image: A photo] and [image]"
    # The beginning of a text may end within the address.
    for end in (1, 7, 30):
        cut = f"See ![A photo]({stored[:end]}"
        assert words("{{ text|brief }}", text=cut) == "See [image: A photo]"
        assert words("{{ text|brief }}", text=f"{cut}…") == "See [image: A photo]"
    link = "![A photo](https://example.org/a.png) " + "word " * 9
    assert words("{{ text|brief:40 }}", text=link) == "![A photo](https://example.org/a.png) wo …"
