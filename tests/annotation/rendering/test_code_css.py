"""The colours of code can be read on their paper, and have rules for what the gate lets through."""

import re

import pytest
from django.contrib.staticfiles import finders

from annotation.rendering import gate

PAIR = re.compile(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)")


def read(name):
    with open(finders.find(f"css/{name}"), encoding="utf-8") as file:
        return file.read()


def luminance(colour):
    """Relative luminance (WCAG 2.2, of sRGB)."""
    channels = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one, other):
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def colours():
    found = PAIR.findall(read("code.css") + read("app.css"))
    return {name: pair for name, *pair in found}


def test_contrast_is_that_of_the_standard():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_code_can_be_read(scheme):
    palette = {name: pair[scheme] for name, pair in colours().items()}
    inks = {name for name in palette if name.startswith("code-")}
    assert len(inks) >= 6
    for name in sorted(inks):
        assert contrast(palette[name], palette["raised"]) >= 4.5, name
    assert contrast(palette["ink"], palette["differs"]) >= 7


def test_every_rule_is_for_a_class_that_passes_the_gate():
    passing = set().union(*gate.CLASSES.values())
    rules = re.sub(r"/\*.*?\*/|\{[^}]*\}", " ", read("code.css"), flags=re.DOTALL)
    named = set(re.findall(r"\.([a-z][\w-]*)", rules)) - {"response", "span"}
    assert named
    assert named <= passing
    assert {name for name in passing if not name.startswith("code-")} <= named


def test_the_stylesheet_loads_nothing():
    assert "url(" not in read("code.css")
    assert "@import" not in read("code.css")
