"""The report as a PDF: its chapters, tables and plots, tagged for screen readers (PDF/UA-1).

Typst sets it, from the report's own page. It gets every text as a string, so that no text is a
command. The same report gives the same bytes wherever the same fonts are installed.
"""

import importlib
import re
import unicodedata
from functools import cache
from tempfile import TemporaryDirectory
from typing import Any

from annotation.results.data.figures import NEEDS_CONVERTER, Plot, as_svg, can_draw
from annotation.results.delivery.latex import Cell, PageReader, Table
from annotation.results.report.page import Paper
from judging.core.errors import UserError
from judging.core.formatting import NARROW_SPACE, number_of

NEEDS_TYPST = (
    "A PDF needs the package typst, which is not installed here. Install it with: pip install "
    "'fairjudge[pdf]'"
)
_HEAD = (
    '#set document(title: %(title)s, author: "FairJudge", keywords: ("FairJudge", "LLM judge"),',
    "  description: %(description)s, date: none)",
    '#set text(lang: "en", size: 10pt, font: ("Libertinus Serif", "DejaVu Sans"))',
    '#set page(paper: "a4", margin: 2cm, numbering: "1 / 1")',
    "#set par(justify: false)",
    "#show title: set text(size: 18pt)",
    "#show heading.where(level: 1): set text(size: 14pt)",
    "#show heading.where(level: 1): set block(above: 2em)",
    "#show figure.where(kind: table): set block(breakable: true)",
    "#show figure.where(kind: table): set figure.caption(position: top)",
    "#show figure.caption: set text(size: 9pt)",
    "#show figure.caption: set align(left)",
    "#set table(stroke: none, inset: (x: 4pt, y: 3pt))",
)
_INLINE = {
    "strong": "strong", "b": "strong", "em": "emph", "i": "emph", "sub": "sub", "sup": "super",
}  # fmt: skip
_LEVELS = {"h1": 1, "h2": 2, "h3": 3}
# Signs that change how others are joined or directed. All else that can't be printed is left out.
_JOINERS = "\u200c\u200d"
_UNSHOWN = re.compile(r'the text `"((?:[^"\\]|\\.)*)"` could not be displayed')
# As Rust writes a string in an error.
_ESCAPED = re.compile(r"\\u\{([0-9a-f]+)\}|\\(.)")
_NUMBERED = re.compile(r"\\u\{([0-9a-f]+)\}")
_CHANGING = ("Sk", "Mn", "Mc", "Me", "Cf")
_ASCII = frozenset(map(chr, range(128)))
_MOST_WIDE, _WIDE = 8, 5


def as_pdf(page: str, paper: Paper, title: str, plots: dict[str, Plot]) -> bytes:
    """Return the PDF of a report's page.

    Args:
        page: Has a comment `drawing:NAME` in the place of each plot.

    Raises:
        UserError: The extra `pdf` isn't installed.
    """
    typst = _typst()
    # Each sign that no font has is replaced by its number, and then all is set again.
    missing: set[str] = set()
    while True:
        source = _source(page, paper, title, plots, missing)
        try:
            return _set(typst, source)
        except typst.TypstError as error:
            more = _unshown(error.diagnostic, source) - missing
            if not more:
                raise
            missing |= more


def _unshown(diagnostic: str, source: str) -> set[str]:
    """Return the signs that an error of Typst says no font has.

    A sign that only changes the one before it is not named itself, but what it changes is.
    """
    named = {sign for text in _UNSHOWN.findall(diagnostic) for sign in _ESCAPED.sub(_escaped, text)}
    if not named:
        return set()
    beyond = {chr(int(number, 16)) for number in _NUMBERED.findall(source)}
    changing = {sign for sign in beyond if unicodedata.category(sign) in _CHANGING}
    return {sign for sign in named if sign not in _ASCII} or changing


def _escaped(match: re.Match[str]) -> str:
    return chr(int(match[1], 16)) if match[1] else match[2]


def _typst() -> Any:
    try:
        return importlib.import_module("typst")
    except ImportError:
        raise UserError(NEEDS_TYPST) from None


@cache
def _fonts() -> Any:
    return _typst().Fonts()


def _set(typst: Any, source: str) -> bytes:
    # An empty folder, so that there is no file to read.
    with TemporaryDirectory() as folder:
        # No time is written, so that the same report gives the same bytes.
        made: bytes = typst.compile(
            source.encode(), root=folder, font_paths=_fonts(), pdf_standards=["ua-1"], timestamp=0
        )
    return made


def _source(page: str, paper: Paper, title: str, plots: dict[str, Plot], missing: set[str]) -> str:
    sets = _Typst(paper, plots, missing)
    blocks = PageReader(sets).blocks_of(page)
    about = {
        "title": sets.string(title),
        "description": sets.string(f"A report of FairJudge. {paper.design}"),
    }
    end = [sets.heading("h1", sets.escaped("Methods")), sets.paragraph("p", sets.methods())]
    end.append(sets.heading("h1", sets.escaped("References")))
    end += [sets.paragraph("li", sets.escaped(work)) for work in paper.references.values()]
    note = []
    if missing:
        numbers = ", ".join(f"U+{ord(sign):04X}" for sign in sorted(missing)[:_MOST_WIDE])
        more = ", …" if len(missing) > _MOST_WIDE else ""
        said_of = (
            f"{number_of(len(missing), 'sign')} of names and texts can't be shown, because no font "
            f"of this machine has {'it' if len(missing) == 1 else 'them'}. Numbers replace them: "
            f"{numbers}{more}. Install a font that has them, such as Noto Sans CJK, and write the "
            "report again."
        )
        note = [sets.paragraph("p", sets.escaped(said_of))]
    # The title comes first, then what concerns all that follows.
    return "".join(["\n".join(_HEAD) % about, "\n", *blocks[:1], *note, *blocks[1:], *end])


def _quoted(text: str) -> str:
    """Return a string of Typst that holds this text, whatever it is."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{re.sub(r"[^ -~]", lambda sign: _in_string(sign[0]), escaped)}"'


def _in_string(sign: str) -> str:
    """Write signs beyond ASCII by number, so that none is taken for a space before it is set."""
    if sign.isprintable() or sign in _JOINERS or sign in f"\N{NO-BREAK SPACE}{NARROW_SPACE}":
        return f"\\u{{{ord(sign):x}}}"
    return " " if sign.isspace() else ""


class _Typst:
    line_break, space = "#linebreak();", '#"\\u{a0}";'

    def __init__(self, paper: Paper, plots: dict[str, Plot], missing: set[str]) -> None:
        self.paper, self.plots, self.missing = paper, plots, missing
        self.level = 0

    def _shown(self, text: str) -> str:
        if not self.missing:
            return text
        return "".join(f"[U+{ord(sign):04X}]" if sign in self.missing else sign for sign in text)

    def string(self, text: str) -> str:
        return _quoted(text)

    def escaped(self, text: str) -> str:
        if not text.strip(" \n\t\r\f"):
            return " " if text else ""
        # Only these signs are spaces of HTML. Without an argument, `strip` would take no-break
        # spaces too.
        inner = text.strip(" \n\t\r\f")
        before = " " if text[0] in " \n\t\r\f" else ""
        after = " " if text[-1] in " \n\t\r\f" else ""
        words = re.sub(r"[ \n\t\r\f]+", " ", self._shown(inner))
        return f"{before}#{_quoted(words)};{after}"

    def methods(self) -> str:
        return self.escaped(self.paper.text)

    def around(self, tag: str, attributes: dict[str, str | None]) -> tuple[str, str]:
        if tag in _INLINE:
            return f"#{_INLINE[tag]}[", "];"
        if tag in ("code", "kbd"):
            return '#text(font: "DejaVu Sans Mono", size: 0.85em)[', "];"
        return ("", ":#sym.space;") if tag == "dt" else ("", "")

    def heading(self, tag: str, text: str) -> str:
        if tag not in _LEVELS:
            return f"#strong[{text}]\n\n"
        if not self.level:
            # The first one is the title, under which chapters begin at the first level.
            self.level = _LEVELS["h1"]
            return f"#title[{text}]\n\n"
        # PDF/UA lets no level be left out.
        self.level = min(_LEVELS[tag], self.level + 1)
        return f"#heading(level: {self.level})[{text}]\n\n"

    def paragraph(self, tag: str, text: str) -> str:
        return f"- {text}\n" if tag == "li" else f"\n{text}\n\n"

    def drawing(self, name: str) -> str:
        shown = self.plots.get(name)
        if shown is None:
            return ""
        if not can_draw():
            return self.paragraph("p", self.escaped(NEEDS_CONVERTER))
        caption = f"{shown.title}. {shown.caption}"
        # Signs of a picture are those of names, which are written out in the same page.
        drawn = f'image(bytes({_quoted(self._shown(as_svg(shown)))}), format: "svg", width: 85%, '
        drawn += f"alt: {_quoted(self._shown(caption))})"
        return f"#figure({drawn}, caption: [{self.escaped(caption)}])\n\n"

    def table(self, table: Table) -> str:
        kinds = ", ".join("right" if number else "left" for number in table.numbers())
        head, body = table.rows[: table.n_head], table.rows[table.n_head :]
        wide = table.width
        lines = ["table.hline()"]
        if head:
            lines.append(f"table.header({_cells(head, wide)})")
            lines.append("table.hline(stroke: 0.5pt)")
        lines += [_cells(body, wide), "table.hline()"]
        size = "7pt" if wide > _MOST_WIDE else "8pt" if wide > _WIDE else "9pt"
        limits = (
            f"Estimates with 95{NARROW_SPACE}% confidence intervals. "
            if table.has_intervals
            else ""
        )
        caption = " ".join(filter(None, [table.title and f"{table.title}#\".\";",
                                         self.escaped(limits + self.paper.design)]))  # fmt: skip
        made = f"table(columns: {wide}, align: ({kinds},), {', '.join(filter(None, lines))})"
        set_in = f"[#set text(size: {size});#{made}]"
        return f"#figure({set_in}, kind: table, supplement: [Table], caption: [{caption}])\n\n"


def _cells(rows: list[list[Cell]], width: int) -> str:
    made = []
    for row in rows:
        made += [
            f"[{cell.text}]" if cell.span == 1 else f"table.cell(colspan: {cell.span})[{cell.text}]"
            for cell in row
        ]
        # Typst fills a table cell by cell, so that a short row would shift all that follow.
        made += ["[]"] * (width - sum(cell.span for cell in row))
    return ", ".join(made)
