"""The report as LaTeX: its chapters, sentences and tables, to take into a paper.

It is made from the report's own page, so that it says what the page says. Every table is set with
booktabs and longtable. The file can be set by pdfLaTeX as well as by XeLaTeX and LuaLaTeX.
"""

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser

HEAD = r"""\documentclass{article}
\usepackage{iftex}
\ifPDFTeX\usepackage[T1]{fontenc}\usepackage[utf8]{inputenc}\usepackage{textcomp}\fi
\usepackage{booktabs,longtable}
\usepackage[margin=2cm]{geometry}
% A sign that pdfLaTeX may not have: its number, and the sign itself for engines that know it.
\ifPDFTeX\newcommand{\sign}[2]{{\scriptsize[U+#1]}}\else\newcommand{\sign}[2]{#2}\fi
\setlength{\tabcolsep}{4pt}
\begin{document}
"""
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


def as_latex(page: str) -> str:
    """Return a document from the page of a report, without its drawings and links."""
    reader = _Reader()
    reader.feed(page)
    reader.close()
    reader.end_block()
    return f"{HEAD}{''.join(reader.blocks)}{TAIL}"


_HEADINGS = {"h1": r"\section*", "h2": r"\subsection*", "h3": r"\subsubsection*"}
_HEADINGS |= dict.fromkeys(("h4", "h5", "h6", "summary"), r"\paragraph*")
_INLINE = {
    "strong": r"\textbf", "b": r"\textbf", "em": r"\emph", "i": r"\emph", "code": r"\texttt",
    "kbd": r"\texttt", "sub": r"\textsubscript", "sup": r"\textsuperscript",
}  # fmt: skip
_BLOCKS = {"p", "div", "section", "li", "dt", "dd", "blockquote", "pre", "ul", "ol", "dl", "figure"}
_LEFT_OUT = {"head", "nav", "svg", "script", "style", "button", "form"}
# Elements without an end.
_VOID = {"br", "hr", "img", "input", "meta", "link", "col", "wbr"}


# Of more signs a cell is broken into lines, and the type of a row is small.
LONG_CELL, LONG_ROW = 40, 80


@dataclass
class _Table:
    """rows: each a list of cells, as they are set; n_head: how many of them are the head."""

    rows: list[list[str | None]] = field(default_factory=list)
    numbers: set[int] = field(default_factory=set)
    n_head: int = 0
    in_head: bool = False

    def text(self) -> str:
        width = max(map(len, self.rows))
        rows = [row + [""] * (width - len(row)) for row in self.rows]
        wrapped = rf"p{{{min(0.3, 0.8 / width):.2f}\textwidth}}"
        longest = [max(len(row[place] or "") for row in rows) for place in range(width)]
        kinds = "".join(
            wrapped if length > LONG_CELL else "r" if place in self.numbers else "l"
            for place, length in enumerate(longest)
        )
        lines = [" & ".join(cell for cell in row if cell is not None) + r" \\" for row in rows]
        head, body = lines[: self.n_head], lines[self.n_head :]
        parts = [rf"\begin{{longtable}}{{{kinds}}}", r"\toprule", *head]
        parts += [r"\midrule", r"\endhead"] if head else [r"\endhead"]
        text = "\n".join([*parts, *body, r"\bottomrule", r"\end{longtable}"])
        row = sum(min(cell, LONG_CELL) for cell in longest)
        size = r"\scriptsize" if row > 2 * LONG_ROW else r"\footnotesize" if row > LONG_ROW else ""
        return f"{{{size}\n{text}\n}}\n\n" if size else f"{text}\n\n"


def _around(tag: str, attributes: dict[str, str | None]) -> tuple[str, str]:
    """Return what is set before and after the content of an element within a line."""
    if tag in _INLINE:
        return _INLINE[tag] + "{", "}"
    # An interval; where there is none, a title says why.
    if attributes.get("class") == "interval" and "title" not in attributes:
        return "[", "]"
    return ("", ":~") if tag == "dt" else ("", "")


def _is_unseen(attributes: dict[str, str | None]) -> bool:
    """What only a screen reader says, such as “95 % interval”."""
    return "visually-hidden" in (attributes.get("class") or "").split()


class _Reader(HTMLParser):
    """Turns elements into blocks of LaTeX, one after another."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.blocks: list[str] = []
        self.words: list[str] = []
        self.left_out = 0
        # Each open element with what is set at its end.
        self.open: list[tuple[str, str]] = []
        self.table: _Table | None = None
        self.spans: list[int] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag in _VOID:
            self.words.append(" ")
        elif self.left_out or tag in _LEFT_OUT or "hidden" in found or _is_unseen(found):
            self.left_out += 1
            self.open.append((tag, ""))
        else:
            self._begin(tag, found)
            before, after = _around(tag, found)
            self.words.append(before)
            self.open.append((tag, after))

    def _begin(self, tag: str, attributes: dict[str, str | None]) -> None:
        if tag == "table":
            self.end_block()
            self.table = _Table()
        elif self.table is not None:
            self._begin_in_table(self.table, tag, attributes)
        elif tag != "dd" and (tag in _BLOCKS or tag in _HEADINGS):
            self.end_block()

    def _begin_in_table(self, table: _Table, tag: str, attributes: dict[str, str | None]) -> None:
        if tag == "thead":
            table.in_head = True
        elif tag == "tr":
            table.rows.append([])
            table.n_head += table.in_head
        elif tag in ("td", "th"):
            self.words = []
            self.spans.append(int(attributes.get("colspan") or 1))
            if "num" in (attributes.get("class") or "").split():
                table.numbers.add(len(table.rows[-1]))
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
        if tag == "caption":
            self.table, table = None, self.table
            self.end_block(r"\paragraph*")
            self.table = table
        elif tag == "table" and self.table is not None:
            table, self.table, self.words = self.table, None, []
            if any(table.rows):
                self.blocks.append(table.text())
        elif self.table is not None:
            self._end_in_table(self.table, tag)
        elif tag in _HEADINGS:
            self.end_block(_HEADINGS[tag])
        elif tag != "dt" and tag in _BLOCKS:
            self.end_block()

    def _end_in_table(self, table: _Table, tag: str) -> None:
        if tag == "thead":
            table.in_head = False
        elif tag in ("td", "th"):
            cell, span = self._taken(), self.spans.pop()
            if span > 1:
                cell = rf"\multicolumn{{{span}}}{{l}}{{{cell}}}"
            # What it covers is no cell of its own.
            table.rows[-1] += [cell, *[None] * (span - 1)]

    def handle_data(self, data: str) -> None:
        if not self.left_out:
            self.words.append(escaped(data))

    def _taken(self) -> str:
        text = " ".join("".join(self.words).split())
        self.words = []
        return text

    def end_block(self, heading: str = "") -> None:
        """Put what was read into a paragraph, or under a heading."""
        if self.table is None and (text := self._taken()):
            self.blocks.append(f"{heading}{{{text}}}\n\n" if heading else f"{text}\n\n")
