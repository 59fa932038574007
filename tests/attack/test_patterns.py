"""No regular expression and no parser takes long on a text that was made to be slow for it."""

import random
import re

import pytest

from judging.llm.client.errors import duration
from judging.llm.parsing.parse import parse
from judging.llm.prompts import templates
from tests.attack.patterns import (
    LENGTH,
    MOST_SECONDS,
    Used,
    modules,
    patterns_of,
    slowness,
    texts,
    timed,
)

PLANTED = [r"(a+)+$", r"<b>.*?</b>", r"x[ \t]*(?:y|z)?[ \t]*!", r"\s+$"]
# What each took a minute or more before.
BLANKS = "\t" * LENGTH
REPLIES = {
    "blanks after a label": f"assistant\t#1{BLANKS}",
    "blanks after a colon": f"scores\tof\tthe\tassistant\t#1\t(a)\t:{BLANKS}",
    "blanks after a word": f"\tand\tthe\tscores{BLANKS}",
    "blanks after a number": f"assistant 1: 7{BLANKS}x",
    "dots after a number": "7" + "." * LENGTH,
    "commas after a label": f"Final scores: or {',' * 2000} or x",
    "labels": "Scores of Assistant 1 (a): " * 4000,
}


def all_patterns() -> list[Used]:
    found = {(u.pattern, u.methods): u for module in modules() for u in patterns_of(module)}
    return sorted(found.values(), key=lambda used: used.where)


def test_every_pattern_is_quick_on_every_text(whole, figure):
    patterns = all_patterns()
    assert len(patterns) > 150
    some = patterns if whole else random.Random(11).sample(patterns, 12)
    results = [slowness(used, None if whole else 4) for used in some]
    figure("patterns: regular expressions", len(some))
    figure(f"patterns: texts of {LENGTH} characters", sum(tried for tried, _ in results))
    slow = [str(found) for _, found in results if found is not None]
    figure(f"patterns: slower than {MOST_SECONDS:g} s", len(slow))
    assert slow == []


@pytest.mark.parametrize("text", REPLIES.values(), ids=REPLIES)
@pytest.mark.parametrize(
    "name", ["faireval-table1", "faireval-table3", "faireval-table3-json", "portia-table13"]
)
def test_a_hostile_reply_is_read_at_once(text, name):
    template = templates.template(name)
    assert timed(lambda: parse(template, text, "stop"), 2 * MOST_SECONDS) is not None


def test_replies_that_are_slow_for_any_pattern_are_read_at_once(whole, figure):
    """As whole replies, by each kind of template."""
    kinds = {(t.reply, t.form): t for t in map(templates.template, templates.names())}
    hard = {
        text
        for used in all_patterns()
        if used.where.startswith(("judging.llm.parsing", "judging.llm.prompts"))
        for text in texts(used.pattern)
    }
    some = random.Random(13).sample(sorted(hard), 150 if whole else 5)
    slow = []
    for before, pump in some:
        text = before + pump * (20_000 // len(pump)) + "\nThe score of Assistant 1: 7"
        for template in kinds.values():
            if timed(lambda t=template, text=text: parse(t, text, "stop"), 3.0) is None:
                slow.append((template.name, before, pump))
    figure("patterns: hostile replies, by all kinds of templates", len(some) * len(kinds))
    assert slow == []


def test_a_time_in_a_header_that_never_ends_is_none():
    assert timed(lambda: duration("1" * 10**6 + "x", 0.0), 0.2) is not None
    assert duration("1" * 100, 0.0) is None
    assert duration("1m30s", 0.0) == 90


@pytest.mark.parametrize("pattern", PLANTED)
def test_a_slow_pattern_is_found(pattern):
    _, slow = slowness(Used("planted", re.compile(pattern, re.DOTALL), ("search",)))
    assert slow is not None
    assert "planted" in str(slow)
