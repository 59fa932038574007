"""Plain English: no banned word and no sentence over 35 words in anything that people read.

That is every template, every text in the product's Python that reads like a sentence, the docs and
README. Docstrings and comments hold no banned word either. The words are those that made readers
stop; CONTRIBUTING.md names the rules.
"""

import ast
import html
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
LONGEST = 35
BANNED = (
    "anew", "beside", "stands", "whoever", "so many", "goes by", "comes along", "speaks of",
    "foretold", "reckoned", "mend", "mends", "mended", "an example's", "for want of", "by lot",
    "whose place",
)  # fmt: skip
_BANNED = re.compile(rf"\b(?:{'|'.join(map(re.escape, BANNED))})\b", re.IGNORECASE)
# Texts for a judge, which are the science's own words, and the words that people are shown as data.
NOT_OURS = ("judging/llm/", "judging/demo/", "/migrations/", "docs/reference/")


class Text(NamedTuple):
    path: str
    line: int
    text: str


def sentences(text: str) -> Iterator[str]:
    """Split where a sentence ends. An abbreviation or a number does not end one."""
    for part in re.split(r"(?<=[.!?])[”\")*_]*\s+(?=[“\"(*_`\[]?[A-Z0-9–…])|\n{2,}", text):
        if part.strip():
            yield " ".join(part.split())


def words(sentence: str) -> int:
    return len(re.findall(r"[\w][\w’'./%-]*", sentence))


def template_texts() -> Iterator[Text]:
    for path in sorted((ROOT / "templates").rglob("*.html")):
        source = path.read_text()
        source = re.sub(r"{% comment %}.*?{% endcomment %}", "", source, flags=re.DOTALL)
        # What a branch says is a sentence of its own or a part of the one around it.
        source = re.sub(r"{% (?:el(?:se|if)|include|url)\b.*?%}", "\n\n", source)
        source = re.sub(r"{% term [^%]*?\"([^\"]*)\"\s*%}", r"\1", source)
        source = re.sub(r"{%.*?%}", "", source, flags=re.DOTALL)
        source = re.sub(r"{{.*?}}", "x", source, flags=re.DOTALL)
        source = re.sub(r"</?(?:a|b|bdi|code|em|i|kbd|small|span|strong|time)\b[^>]*>", "", source)
        for block in re.split(r"<[^>]*>|\n{2,}", html.unescape(source)):
            yield Text(str(path.relative_to(ROOT)), 0, block)


def python_texts() -> Iterator[Text]:
    for room in ("annotation", "judging", "fairjudge_site", "client"):
        for path in sorted((ROOT / room).rglob("*.py")):
            name = str(path.relative_to(ROOT))
            if any(part in name for part in NOT_OURS):
                continue
            tree = ast.parse(path.read_text())
            skipped = _not_for_people(tree)
            for node in ast.walk(tree):
                if id(node) in skipped or not isinstance(node, ast.Constant | ast.JoinedStr):
                    continue
                text = _said(node)
                # A list of names holds no full stop and no comma. A title or a help text may not
                # either, so a banned word is looked for in every text of three words.
                is_sentence = len(text.split()) >= 4 and re.search("[.,:?]", text)
                is_short = len(text.split()) >= 3 and _BANNED.search(text)
                if (is_sentence or is_short) and not re.search(r"SELECT |\\[bwsd]", text):
                    yield Text(name, node.lineno, text)


_WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def notes() -> Iterator[Text]:
    """Yield each docstring and each comment."""
    for room in ("annotation", "judging", "fairjudge_site", "client"):
        for path in sorted((ROOT / room).rglob("*.py")):
            name, source = str(path.relative_to(ROOT)), path.read_text()
            if "/migrations/" in name:
                continue
            for node in ast.walk(ast.parse(source)):
                if isinstance(
                    node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
                ):
                    yield Text(name, getattr(node, "lineno", 1), ast.get_docstring(node) or "")
            for token in tokenize.generate_tokens(io.StringIO(source).readline):
                if token.type == tokenize.COMMENT:
                    yield Text(name, token.start[0], token.string)


# A note that begins so says what it is about only by the line below it.
_FRAGMENT = re.compile(r"# (?:Of|Whose|Those of) |(?:Of|Whose|Those of) ")


def fragments() -> Iterator[str]:
    """Yield where a docstring, or the first line of a comment, has no subject."""
    before = ("", 0)
    for path, line, text in notes():
        goes_on = text.startswith("#") and before == (path, line - 1)
        before = (path, line)
        if not goes_on and _FRAGMENT.match(text):
            yield f"{path}:{line} {text[:80]}"


def _said(node: ast.Constant | ast.JoinedStr) -> str:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    parts = (part.value if isinstance(part, ast.Constant) else "x" for part in node.values)
    return "".join(map(str, parts))


def _not_for_people(tree: ast.AST) -> set[int]:
    """Docstrings, and the parts of an f-string, which are read as a whole."""
    skipped = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            skipped.add(id(node.value))
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(child) for child in ast.walk(node) if child is not node}
    return skipped


def doc_texts() -> Iterator[Text]:
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        name = str(path.relative_to(ROOT))
        if any(part in name for part in NOT_OURS):
            continue
        source = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.DOTALL | re.MULTILINE)
        source = re.sub(r"\$\$.*?\$\$", "x", source, flags=re.DOTALL)
        source = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", source)
        source = re.sub(r"`[^`]*`", "X", source)
        # A list's item, a heading and a table's cell each begin something new.
        source = re.sub(r"^\s*(?:[-*+]|\d+\.|#+|>)\s+", "\n\n", source, flags=re.MULTILINE)
        source = re.sub(r"^\|.*$", lambda row: row[0].replace("|", "\n\n"), source, flags=re.M)
        for block in re.split(r"\n{2,}", source):
            yield Text(name, 0, block)


def faults() -> Iterator[tuple[str, str]]:
    for texts in (template_texts, python_texts, doc_texts):
        for path, line, text in texts():
            if found := _BANNED.search(text):
                yield path, f"{path}:{line} “{found[0]}”: {' '.join(text.split())[:160]}"
            for sentence in sentences(text):
                if (n := words(sentence)) > LONGEST:
                    yield path, f"{path}:{line} {n} words: {sentence}"


def test_no_banned_word_and_no_sentence_that_must_be_read_twice():
    found = [fault for _, fault in faults()]
    assert not found, "\n".join(found)


def test_no_banned_word_in_docstrings_and_comments():
    found = [f"{path}:{line} {word[0]}" for path, line, text in notes()
             if (word := _BANNED.search(" ".join(text.split())))]  # fmt: skip
    assert found == []


def test_docstrings_and_comments_begin_with_their_subject():
    assert list(fragments()) == []


@pytest.mark.parametrize(
    ("text", "n"),
    [("One. Two is e.g. three.", 2), ("It is 0.5 of 3. Then more.", 2), ("No end", 1)],
)
def test_sentences_are_told_apart(text, n):
    assert len(list(sentences(text))) == n


def test_a_long_sentence_and_a_banned_word_would_be_found():
    assert words("word " * 36) > LONGEST
    assert _BANNED.search("Upload it anew.")
    assert not _BANNED.search("Understands the amendment besides.")


def test_a_percent_sign_stays_with_its_number():
    """A plain space between them would let a line end there."""
    apart = re.compile(r"(?<=[0-9}]) %(?![}\w(])")
    found = [
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / "templates").rglob("*.html"))
        if apart.search(path.read_text())
    ]
    assert found == []
