"""Extracts what pages say, and compiles the translations: `make messages`.

Templates, Python and scripts are read by Babel. Each language has a catalog in `locale/`, which
people translate. Next to it is what Django reads (`.mo`), and what scripts of a page read is in
`static/js/words/`. Both are committed, so that a clone and a wheel need no tool.
"""

import io
import json
import re
import sys
from functools import cache
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.extract import extract, extract_javascript, extract_python
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po
from django.utils.translation.template import templatize

ROOT = Path(__file__).resolve().parent.parent
LOCALE, WORDS = ROOT / "locale", ROOT / "static" / "js" / "words"
# By the name that Django gives to the folder. English is what the sources say.
LANGUAGES = {"de": "de", "es": "es", "fr": "fr", "zh-hans": "zh_Hans", "ar": "ar"}
PACKAGES = ("annotation", "fairjudge_site", "judging")
# The texts of scripts are apart, since only they are sent to browsers.
SCRIPT = "script"
_KEYWORDS = {
    "_": None, "_lazy": None, "noop": None, "gettext": None, "ngettext": (1, 2),
    "pgettext": ((1, "c"), 2), "npgettext": ((1, "c"), 2, 3),
}  # fmt: skip
_FIGURE = re.compile(r"%\((\w+)\)s|\{(\w+)\}|(%%)")


@cache
def sources() -> dict[str, list[tuple[str, str, tuple[str, ...] | str]]]:
    """Return by file what it says, as context, and a text or its singular and plural."""
    said: dict[str, list[tuple[str, str, tuple[str, ...] | str]]] = {}
    for path in sorted(ROOT.glob("templates/**/*")):
        if path.suffix in (".html", ".txt") and "i18n" in (text := path.read_text("utf-8")):
            code = templatize(text, origin=str(path))
            # What is no text stands there as letters, which Python's indentation doesn't fit.
            plain = "\n".join(line.strip() for line in code.splitlines())
            said[_name(path)] = _found(extract_python, plain, _KEYWORDS)
    for package in PACKAGES:
        for path in sorted(ROOT.glob(f"{package}/**/*.py")):
            # Reading them all takes seconds.
            if "gettext" in (text := path.read_text("utf-8")):
                said[_name(path)] = _found(extract_python, text, _KEYWORDS)
    for path in [*sorted(ROOT.glob("static/js/*.js")), *sorted(ROOT.glob("static/js/annotate/*"))]:
        if path.name not in ("vega.js", "words.js"):
            texts = _found(extract_javascript, path.read_text("utf-8"), {"t": None})
            said[_name(path)] = [(SCRIPT, *rest) for _, *rest in texts]
    return {name: found for name, found in said.items() if found}


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _found(method: object, text: str, keywords: dict) -> list:
    read = extract(method, io.BytesIO(text.encode()), keywords, options={"encoding": "utf-8"})
    return [(context or "", message) for _, message, _, context in read]


class Texts(Catalog):
    """A catalog whose head changes with neither the day nor the release of Babel."""

    @property
    def mime_headers(self) -> list[tuple[str, str]]:
        return [
            ("Language", str(self.locale)),
            ("Plural-Forms", self.plural_forms),
            ("MIME-Version", "1.0"),
            ("Content-Type", "text/plain; charset=utf-8"),
            ("Content-Transfer-Encoding", "8bit"),
        ]


def path_of(language: str, suffix: str = "po") -> Path:
    return LOCALE / LANGUAGES[language] / "LC_MESSAGES" / f"django.{suffix}"


def catalog_of(language: str) -> Catalog:
    """Return a language's catalog as it is stored, or an empty one."""
    if not path_of(language).exists():
        return Catalog(LANGUAGES[language])
    with path_of(language).open("rb") as file:
        return read_po(file, locale=LANGUAGES[language])


def updated(language: str) -> Texts:
    """Return the texts that the sources have now, with the translations that are stored."""
    stored = catalog_of(language)
    head = "# After a change here, run `make messages`, which brings it to the pages."
    catalog = Texts(LANGUAGES[language], header_comment=head, charset="utf-8", fuzzy=False)
    for name, found in sources().items():
        for context, text in found:
            kept = stored.get(text, context or None)
            string = kept.string if kept is not None else ""
            if isinstance(string, str) == isinstance(text, tuple):
                # It is new, or has a plural only now.
                string = ("",) * catalog.num_plurals if isinstance(text, tuple) else ""
            notes = kept.user_comments if kept is not None else ()
            flags = kept.flags if kept is not None and kept.fuzzy else ()
            catalog.add(text, string, [(name, 0)], flags, (), notes, context=context or None)
    return catalog


def written(catalog: Catalog) -> bytes:
    out = io.BytesIO()
    write_po(out, catalog, width=100, include_lineno=False, sort_by_file=True)
    return out.getvalue()


def compiled(catalog: Catalog) -> bytes:
    """Return what Django reads. A text without a whole translation is left out."""
    out, whole = io.BytesIO(), Texts(str(catalog.locale), charset="utf-8", fuzzy=False)
    for each in catalog:
        if each.id and is_translated(each.string) and not each.fuzzy:
            whole.add(each.id, each.string, context=each.context)
    write_mo(out, whole)
    return out.getvalue()


def words(catalog: Catalog) -> str:
    """Return the script with what scripts say in this language."""
    said = {each.id: each.string for each in catalog if each.context == SCRIPT and each.string}
    lines = json.dumps(said, ensure_ascii=False, indent=0, sort_keys=True)
    note = "// Written by `make messages` from the catalog in locale/."
    return f"{note}\nwindow.translations = {lines};\n"


def figures(text: str) -> list[str]:
    """Return the placeholders of a text, in alphabetical order."""
    return sorted("".join(filter(None, found.groups())) for found in _FIGURE.finditer(text))


def is_translated(string: object) -> bool:
    return all(string) if isinstance(string, tuple | list) else bool(string)


def main() -> None:
    for language in LANGUAGES:
        catalog = updated(language)
        path_of(language).parent.mkdir(parents=True, exist_ok=True)
        path_of(language).write_bytes(written(catalog))
        path_of(language, "mo").write_bytes(compiled(catalog))
        WORDS.mkdir(exist_ok=True)
        (WORDS / f"{language}.js").write_text(words(catalog), "utf-8")
        open_ = [each for each in catalog if each.id and not is_translated(each.string)]
        sys.stdout.write(f"{language}: {len(catalog)} texts, {len(open_)} to translate\n")


if __name__ == "__main__":
    main()
