"""The report as LaTeX: its chapters, sentences and tables, to take into a paper.

It is made from the report's own page, so that it says what the page says. `PageReader` reads the
page for any typesetter, also for the PDF. Every table is set with booktabs and longtable. The file
can be set by pdfLaTeX as well as by XeLaTeX and LuaLaTeX, and needs no other file.
"""

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Protocol

from annotation.results.report.page import Paper
from judging.core.formatting import NARROW_SPACE

HEAD = r"""\documentclass{article}
\usepackage{iftex}
\ifPDFTeX\usepackage[T1]{fontenc}\usepackage[utf8]{inputenc}\usepackage{textcomp}\fi
\usepackage{array,booktabs,longtable}
\usepackage[margin=2cm]{geometry}
% A sign that pdfLaTeX may not have: its number, and the sign itself for engines that know it.
\ifPDFTeX\newcommand{\sign}[2]{{\scriptsize[U+#1]}}\else\newcommand{\sign}[2]{#2}\fi
\setlength{\tabcolsep}{4pt}
\setlength{\LTcapwidth}{\textwidth}
"""
BEGIN = "\\begin{document}\n"
TAIL = "\\end{document}\n"

_SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#",
    "_": r"\_", "%": r"\%", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': r"\textquotedbl{}",
    "\N{NO-BREAK SPACE}": "~", "\N{NARROW NO-BREAK SPACE}": r"\,", "\N{MINUS SIGN}": "$-$",
    "–": "--", "—": "---", "“": "``", "”": "''", "‘": "`", "’": "'", "…": r"\dots{}",
    "±": r"$\pm$", "×": r"$\times$", "≥": r"$\geq$", "≤": r"$\leq$", "½": r"$\frac{1}{2}$",
    "→": r"$\rightarrow$", "←": r"$\leftarrow$", "·": r"$\cdot$", "≈": r"$\approx$",
    "α": r"$\alpha$", "β": r"$\beta$", "γ": r"$\gamma$", "δ": r"$\delta$", "ε": r"$\varepsilon$",
    "κ": r"$\kappa$", "λ": r"$\lambda$", "ν": r"$\nu$", "ρ": r"$\rho$", "σ": r"$\sigma$",
    "τ": r"$\tau$", "ω": r"$\omega$", "Δ": r"$\Delta$", "²": r"$^2$", "⁻": r"$^{-}$",
    **{sign: rf"$_{{{number}}}$" for number, sign in enumerate("₀₁₂₃₄₅₆₇₈₉")},
}  # fmt: skip
# What the T1 encoding and inputenc have beyond ASCII: the letters of western languages.
_KNOWN = re.compile(r"[ -~À-ÖØ-öø-ÿĀ-ž§©®°¡¿]")


def escaped(text: str) -> str:
    """Return text that LaTeX sets as it is, whatever it holds."""
    return "".join(map(_sign, text))


def _sign(sign: str) -> str:
    if sign in _SPECIAL:
        return _SPECIAL[sign]
    if sign.isspace():
        return " "
    if _KNOWN.fullmatch(sign):
        return sign
    return rf"\sign{{{ord(sign):04X}}}{{{sign}}}" if sign.isprintable() else ""


# Text that ends the environment can't occur: a BibTeX entry is written by FairJudge alone.
_BIBTEX = "\\begin{filecontents*}[overwrite]{fairjudge-report.bib}\n%s\n\\end{filecontents*}\n"


def as_latex(page: str, paper: Paper) -> str:
    """Return a document from the page of a report, without its drawings and links.

    The methods paragraph with citations and the list of references come last. Setting the document
    also writes the references as `fairjudge-report.bib`.
    """
    blocks = PageReader(_Latex(paper)).blocks_of(page)
    methods = " ".join(escaped(method.text) + _cited(method.keys) for method in paper.methods)
    works = [rf"\bibitem{{{key}}} {escaped(text)}" for key, text in paper.references.items()]
    end = [
        f"\\section*{{Methods}}\n\n{methods}\n",
        "\n".join([r"\begin{thebibliography}{99}", *works, r"\end{thebibliography}", ""]),
    ]
    return "".join([HEAD, _BIBTEX % paper.bibtex, BEGIN, *blocks, *end, TAIL])


def _cited(keys: tuple[str, ...]) -> str:
    return rf"~\cite{{{','.join(keys)}}}" if keys else ""


_BLOCKS = {"p", "div", "section", "li", "dt", "dd", "blockquote", "pre", "ul", "ol", "dl", "figure"}
_LEFT_OUT = {"head", "nav", "svg", "script", "style", "button", "form"}
# Elements without an end.
_VOID = {"br", "hr", "img", "input", "meta", "link", "col", "wbr"}
HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6", "summary")


@dataclass(frozen=True)
class Cell:
    """text: as it is set. span: the columns that it covers. is_number: it is set to the right."""

    text: str
    span: int = 1
    is_number: bool = False


@dataclass
class Table:
    """rows: each a list of cells; n_head: how many of them are the head. title: what it shows.

    has_intervals: a cell holds an interval, so that the caption says which.
    """

    title: str = ""
    rows: list[list[Cell]] = field(default_factory=list)
    n_head: int = 0
    in_head: bool = False
    has_intervals: bool = False

    @property
    def width(self) -> int:
        return max(sum(cell.span for cell in row) for row in self.rows)

    def numbers(self) -> list[bool]:
        """Return for each column whether it holds numbers."""
        numeric = [False] * self.width
        for row in self.rows:
            place = 0
            for cell in row:
                numeric[place] |= cell.is_number and cell.span == 1
                place += cell.span
        return numeric


class Typesetter(Protocol):
    """How texts, headings and tables are written. All it gets as `text` is set already.

    line_break, space: within preformatted text.
    """

    line_break: str
    space: str

    def escaped(self, text: str) -> str: ...
    def around(self, tag: str, attributes: dict[str, str | None]) -> tuple[str, str]: ...
    def heading(self, tag: str, text: str) -> str: ...
    def paragraph(self, tag: str, text: str) -> str: ...
    def table(self, table: Table) -> str: ...
    def drawing(self, name: str) -> str: ...


_INLINE = {
    "strong": r"\textbf", "b": r"\textbf", "em": r"\emph", "i": r"\emph", "code": r"\texttt",
    "kbd": r"\texttt", "sub": r"\textsubscript", "sup": r"\textsuperscript",
}  # fmt: skip
_SECTIONS = {"h1": r"\section*", "h2": r"\subsection*", "h3": r"\subsubsection*"}
# A cell with more characters is broken into lines, and a row with more is set in small type.
LONG_CELL, LONG_ROW = 40, 80


class _Latex:
    line_break, space = r"\newline{}", "~"

    def __init__(self, paper: Paper) -> None:
        self.paper = paper

    def escaped(self, text: str) -> str:
        return escaped(text)

    def around(self, tag: str, attributes: dict[str, str | None]) -> tuple[str, str]:
        """Return what is set before and after the content of an element within a line."""
        if tag in _INLINE:
            return _INLINE[tag] + "{", "}"
        return ("", ":~") if tag == "dt" else ("", "")

    def heading(self, tag: str, text: str) -> str:
        command = _SECTIONS.get(tag, r"\paragraph*")
        return f"{command}{{{text}}}\n\n"

    def paragraph(self, tag: str, text: str) -> str:
        return f"{text}\n\n"

    def drawing(self, name: str) -> str:
        return ""

    def table(self, table: Table) -> str:
        width, numbers = table.width, table.numbers()
        longest = [0] * width
        for row in table.rows:
            place = 0
            for cell in row:
                if cell.span == 1:
                    longest[place] = max(longest[place], len(cell.text))
                place += cell.span
        share = rf"\arraybackslash}}p{{{min(0.3, 0.8 / width):.2f}\textwidth}}"
        kinds = "".join(
            (
                rf">{{\ragged{'left' if number else 'right'}{share}"
                if length > LONG_CELL
                else "lr"[number]
            )
            for length, number in zip(longest, numbers, strict=True)
        )
        lines = [_row(row, width) for row in table.rows]
        head, body = lines[: table.n_head], lines[table.n_head :]
        first = [rf"\caption[]{{{self._caption(table)}}}\\", r"\toprule", *head]
        # longtable repeats a head on every page, and the caption belongs on the first one only.
        again = [r"\toprule", *head, r"\midrule", r"\endhead"] if head else [r"\toprule"]
        parts = [*first, r"\midrule", r"\endfirsthead", *again] if head else first
        text = "\n".join(
            [rf"\begin{{longtable}}{{{kinds}}}", *parts, *body, r"\bottomrule", r"\end{longtable}"]
        )
        across = sum(min(cell, LONG_CELL) for cell in longest)
        size = r"\scriptsize" if across > 2 * LONG_ROW else ""
        size = size or (r"\footnotesize" if across > LONG_ROW else "")
        return f"{{{size}\n{text}\n}}\n\n" if size else f"{text}\n\n"

    def _caption(self, table: Table) -> str:
        limits = f"Estimates with 95{NARROW_SPACE}% confidence intervals in brackets. "
        note = (limits if table.has_intervals else "") + self.paper.design
        return " ".join(filter(None, [table.title and f"{table.title}.", escaped(note)]))


def _row(row: list[Cell], width: int) -> str:
    cells = [
        cell.text if cell.span == 1 else rf"\multicolumn{{{cell.span}}}{{l}}{{{cell.text}}}"
        for cell in row
    ]
    cells += [""] * (width - sum(cell.span for cell in row))
    return " & ".join(cells) + r" \\"


def _is_unseen(attributes: dict[str, str | None]) -> bool:
    """What only a screen reader says, such as “95 % interval”, or what a page alone shows."""
    return "visually-hidden" in _classes(attributes) or "data-page-only" in attributes


def _classes(attributes: dict[str, str | None]) -> list[str]:
    return (attributes.get("class") or "").split()


class PageReader(HTMLParser):
    """Turns the elements of a page into blocks of a document, one after another."""

    def __init__(self, typesetter: Typesetter) -> None:
        super().__init__(convert_charrefs=True)
        self.sets = typesetter
        self.blocks: list[str] = []
        self.words: list[str] = []
        self.left_out = 0
        # Each open element with what is set at its end.
        self.open: list[tuple[str, str]] = []
        self.table: Table | None = None
        self.cells: list[tuple[int, bool]] = []
        self.named = ""

    def blocks_of(self, page: str) -> list[str]:
        self.feed(page)
        self.close()
        self._end_block("p")
        return self.blocks

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        # A line break separates words like a space.
        if tag in _VOID:
            self.words.append(" ")
        elif self.left_out or tag in _LEFT_OUT or "hidden" in attributes or _is_unseen(attributes):
            self.left_out += 1
            self.open.append((tag, ""))
        else:
            self._begin(tag, attributes)
            before, after = self._around(tag, attributes)
            self.words.append(before)
            self.open.append((tag, after))

    def _around(self, tag: str, attributes: dict[str, str | None]) -> tuple[str, str]:
        # An interval; where there is none, a title says why.
        if "interval" in _classes(attributes) and "title" not in attributes:
            if self.table is not None:
                self.table.has_intervals = True
            return self.sets.escaped("["), self.sets.escaped("]")
        return self.sets.around(tag, attributes)

    def _begin(self, tag: str, attributes: dict[str, str | None]) -> None:
        if tag == "table":
            self._end_block("p")
            self.table = Table(self.named)
        elif self.table is not None:
            self._begin_in_table(self.table, tag, attributes)
        # A term and its description are one paragraph.
        elif tag != "dd" and (tag in _BLOCKS or tag in HEADINGS):
            self._end_block("p")
            if attributes.get("role") == "region" and (label := attributes.get("aria-label")):
                self.named = self.sets.escaped(label)

    def _begin_in_table(self, table: Table, tag: str, attributes: dict[str, str | None]) -> None:
        if tag == "thead":
            table.in_head = True
        elif tag == "tr":
            table.rows.append([])
            table.n_head += table.in_head
        elif tag in ("td", "th"):
            self.words = []
            span = int(attributes.get("colspan") or 1)
            self.cells.append((span, "num" in _classes(attributes)))
        elif tag in _BLOCKS:
            self.words.append(" ")

    def handle_endtag(self, tag: str) -> None:
        # What the page left open, such as a cell, ends with what is around it.
        while any(tag == name for name, _ in self.open):
            last, after = self.open.pop()
            if self.left_out:
                self.left_out -= 1
            else:
                self.words.append(after)
                self._end(last)
            if last == tag:
                return

    def _end(self, tag: str) -> None:
        if tag == "table" and self.table is not None:
            table, self.table, self.words = self.table, None, []
            if any(table.rows):
                self.blocks.append(self.sets.table(table))
        elif self.table is not None:
            self._end_in_table(self.table, tag)
        elif tag in HEADINGS or (tag != "dt" and tag in _BLOCKS):
            self._end_block(tag)

    def _end_in_table(self, table: Table, tag: str) -> None:
        if tag == "caption":
            table.title = self._taken().rstrip(".")
        elif tag == "thead":
            table.in_head = False
        elif tag in ("td", "th"):
            span, is_number = self.cells.pop()
            table.rows[-1].append(Cell(self._taken(), span, is_number))

    def handle_comment(self, data: str) -> None:
        name = data.strip().removeprefix("drawing:")
        if name != data.strip() and not self.left_out and self.table is None:
            self._end_block("p")
            self.blocks.append(self.sets.drawing(name))

    def handle_data(self, data: str) -> None:
        if self.left_out:
            return
        if any(name == "pre" for name, _ in self.open):
            lines = (
                self.sets.escaped(line.lstrip(" ")).join(
                    [self.sets.space * (len(line) - len(line.lstrip(" "))), ""]
                )
                for line in data.strip("\n").split("\n")
            )
            self.words.append(self.sets.line_break.join(lines))
        else:
            self.words.append(self.sets.escaped(data))

    def _taken(self) -> str:
        text = " ".join("".join(self.words).split())
        self.words = []
        return text

    def _end_block(self, tag: str) -> None:
        """Put what was read into a paragraph, or under a heading."""
        if self.table is not None or not (text := self._taken()):
            return
        if tag in HEADINGS:
            self.named = text
            self.blocks.append(self.sets.heading(tag, text))
        else:
            self.blocks.append(self.sets.paragraph(tag, text))
