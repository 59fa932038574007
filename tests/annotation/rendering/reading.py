"""Reads rendered HTML back, as a browser would, for the tests to look at."""

import json
from html.parser import HTMLParser
from pathlib import Path

CORPUS = json.loads((Path(__file__).parents[1] / "xss_corpus.json").read_text(encoding="utf-8"))
_VOID = {"br", "hr", "img"}


class Reading(HTMLParser):
    """The elements as (tag, attributes), the text, and the tags still open at the end."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.comments: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data

    def handle_comment(self, data):
        self.comments.append(data)

    handle_decl = handle_pi = unknown_decl = handle_comment

    @property
    def tags(self) -> list[str]:
        return [tag for tag, _ in self.elements]


def assert_harmless(html: str) -> None:
    """Only elements and attributes that neither run, load, link, place nor name anything."""
    reading = Reading(html)
    assert reading.open == []
    assert reading.comments == []
    allowed = set(
        """p div blockquote ul ol li table thead tbody tr th td h4 h5 h6 hr pre code span bdi br em
        strong s mark math mrow mi mn mo mtext mspace mfrac msqrt mroot msub msup msubsup munder
        mover munderover mtable mtr mtd mstyle mpadded menclose mphantom""".split()
    )
    assert set(reading.tags) <= allowed
    for _, attributes in reading.elements:
        for name, value in attributes.items():
            assert name in allowed_attributes
            assert value is not None
            assert not set(value) & set("\"'<>():/;&"), (name, value)
        for word in (attributes.get("class") or "").split():
            assert word.startswith(("code-", "to-", "formula")) or word in page_classes


page_classes = {"plain", "note", "info", "inside", "link", "image", "target"}
allowed_attributes = set(
    """accent accentunder class columnalign columnlines depth dir display displaystyle fence form
    height largeop linethickness lspace mathsize mathvariant maxsize minsize movablelimits notation
    rowlines rowspacing rspace scriptlevel start stretchy value voffset width""".split()
)
