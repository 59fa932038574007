"""The catalogs of translations hold all that pages say, and what is read is made from them."""

import ast
import re
from html.parser import HTMLParser

import catalogs
import pytest
from babel.messages.mofile import read_mo
from catalogs import LANGUAGES, is_translated
from django.conf import settings
from django.template.base import Lexer, TokenType
from django.utils.translation import to_locale

# Attributes that people read, so that they are in another language.
SPOKEN = {"title", "aria-label", "alt"}


class Tags(HTMLParser):
    """Collects the tags of a text with their attributes."""

    def __init__(self, text):
        super().__init__()
        self.seen = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, tuple(sorted(each for each in attrs if each[0] not in SPOKEN))))

    def handle_endtag(self, tag):
        self.seen.append(("/" + tag, ()))


def texts_of(catalog):
    """Return the translations by context and source, where a source may be a pair."""
    return {
        (each.context or "", each.id if isinstance(each.id, str) else tuple(each.id)): (
            each.string if isinstance(each.string, str) else tuple(each.string)
        )
        for each in catalog
        if each.id
    }


@pytest.fixture(scope="module", params=LANGUAGES)
def language(request):
    return request.param


@pytest.fixture(scope="module")
def catalog(language):
    return catalogs.catalog_of(language)


def test_each_language_of_the_site_has_its_catalog():
    offered = [code for code, _ in settings.LANGUAGES if code != "en"]
    assert {code: to_locale(code) for code in offered} == LANGUAGES


def test_a_catalog_has_the_texts_of_the_sources_and_no_others(language, catalog):
    stored, now = catalogs.path_of(language).read_bytes(), catalogs.updated(language)
    assert set(texts_of(catalog)) == set(texts_of(now)), "Run `make messages`."
    assert stored == catalogs.written(now), "Run `make messages`."
    assert not catalog.obsolete


def test_each_text_is_translated(catalog):
    assert [each.id for each in catalog if each.id and not is_translated(each.string)] == []
    assert [each.id for each in catalog if each.id and each.fuzzy] == []


def test_what_is_read_is_made_from_the_catalog(language, catalog):
    with catalogs.path_of(language, "mo").open("rb") as file:
        read = read_mo(file)
    whole = {key: said for key, said in texts_of(catalog).items() if is_translated(said)}
    assert texts_of(read) == whole, "Run `make messages`."
    script = (catalogs.WORDS / f"{language}.js").read_text("utf-8")
    assert script == catalogs.words(catalog), "Run `make messages`."


def test_translations_keep_the_values_and_the_tags(catalog):
    wrong = [
        (source, said)
        for (context, sources), strings in texts_of(catalog).items()
        for source, said in pairs(sources, strings)
        if said and differs(source, said, may_leave_out=isinstance(sources, tuple))
    ]
    assert wrong == []


def pairs(sources, strings):
    """Each translation with its source. A form of a plural belongs to the plural's source."""
    if isinstance(sources, str):
        return [(sources, strings)]
    return [(sources[1], each) for each in strings]


def differs(source, said, may_leave_out):
    """A form for one or two things may leave out the number and nothing else."""
    lost = set(catalogs.figures(source)) - set(catalogs.figures(said))
    added = set(catalogs.figures(said)) - set(catalogs.figures(source))
    is_short = lost and not (may_leave_out and lost <= {"n", "n_skipped"})
    return bool(
        is_short
        or added
        or (not lost and catalogs.figures(source) != catalogs.figures(said))
        or sorted(Tags(source).seen) != sorted(Tags(said).seen)
        or source[:1].isspace() != said[:1].isspace()
        or source[-1:].isspace() != said[-1:].isspace()
    )


def test_each_plural_has_all_forms_of_its_language(language, catalog):
    forms = {"de": 2, "es": 3, "fr": 3, "zh-hans": 1, "ar": 6}[language]
    assert catalog.num_plurals == forms
    wrong = [
        each.id for each in catalog if each.id and each.pluralizable and len(each.string) != forms
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("Hello %(name)s", "Hallo %(nam)s"),
        ("Hello {name}", "Hallo"),
        ("100 %% of it", "100 % davon"),
        ('Press <kbd class="a">Esc</kbd>', 'Drücke <kbd class="b">Esc</kbd>'),
        ("Press <kbd>Esc</kbd>", "Drücke <kbd>Esc</kbd"),
        ("Press <kbd>Esc</kbd>", "Drücke <kbd>Esc</kbd><script>"),
        ("Time: ", "Zeit:"),
    ],
)
def test_a_lost_value_or_tag_is_found(source, said):
    assert differs(source, said, may_leave_out=False)


def test_a_form_for_one_may_leave_out_the_number_only():
    assert not differs("%(n)s pairs of %(x)s", "ein Paar von %(x)s", may_leave_out=True)
    assert differs("%(n)s pairs of %(x)s", "%(n)s Paare", may_leave_out=True)


# Pages about projects are in English: so are their parts. A folder or a template may only go.
IN_ENGLISH = {
    "annotation/people/people.html", "annotation/people/team.html", "annotation/people/teams.html",
    "annotation/results/", "annotation/rounds/", "annotation/settings/", "api/", "docs/",
    "glossary.html", "judging/", "look_first.html", "parts/confirm.html", "parts/look_first.html",
    "parts/translations.html", "project_base.html", "results/", "site/",
}  # fmt: skip
MOST_IN_ENGLISH = 17
# Modules with sentences for annotators, with the number of their sentences for others, which may
# only become smaller. Those that say nothing to annotators are not here.
MODULES = {
    "annotation/letters.py": 2,
    "annotation/people/annotators.py": 2,
    "annotation/people/crowds.py": 9,
    "annotation/people/invitations.py": 2,
    "annotation/people/personal_data.py": 0,
    "annotation/queue/drafts.py": 0,
    "annotation/rendering/markdown.py": 0,
    "annotation/rendering/responses.py": 0,
    "annotation/screen/actions.py": 0,
    "annotation/screen/blind.py": 0,
    "annotation/screen/crowd.py": 0,
    "annotation/screen/hand.py": 1,
    "annotation/screen/progress.py": 0,
    "annotation/screen/views.py": 0,
    "annotation/votes/voting.py": 6,
    "fairjudge_site/account.py": 0,
    "fairjudge_site/oidc.py": 0,
    "fairjudge_site/requests.py": 2,
    "fairjudge_site/sign_on.py": 4,
    "judging/projects/accounts.py": 3,
    "judging/projects/factors.py": 0,
    "judging/projects/logins.py": 2,
    "judging/projects/mail.py": 5,
}
# What is called so in each language.
NAME = "FairJudge"
READ_ALOUD = SPOKEN | {"placeholder", "data-missing", "data-reason", "data-unseen"}
LETTERS = re.compile(r"[A-Za-z]{2,}")
SENTENCE = re.compile(r"[A-Z“][^\n]*[a-z’'”,:] [a-z]")
MARKS = {"_", "_lazy", "gettext", "ngettext", "pgettext", "npgettext", "noop", "Http404"}
# Of tags whose words are no text.
SILENT_TAGS = {"blocktranslate", "extends", "get_current_language", "load", "static", "translate"}


class Said(HTMLParser):
    """Collects what people read of a page: text, and attributes that are read aloud."""

    def __init__(self, text):
        super().__init__()
        self.found, self.skips = [], 0
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.skips += tag in ("script", "style")
        self.found += [value for name, value in attrs if name in READ_ALOUD and value]

    def handle_endtag(self, tag):
        self.skips -= tag in ("script", "style")

    def handle_data(self, data):
        if not self.skips:
            self.found.append(data)


def unmarked_in_template(text):
    """What a template says in English, whatever the language is."""
    kept, inside, found = [], "", []
    for token in Lexer(text).tokenize():
        name = token.contents.split(" ")[0] if token.token_type == TokenType.BLOCK else ""
        if inside:
            inside = "" if name == f"end{inside}" else inside
        elif name in ("blocktranslate", "comment"):
            inside = name
        elif name == "block" and token.contents.endswith("_class"):
            # It is a name of the style sheets.
            inside = "block"
        elif token.token_type == TokenType.TEXT:
            kept.append(token.contents)
        elif name and name not in SILENT_TAGS:
            found += [
                each for each in re.findall(r'"([^"]*)"', token.contents) if SENTENCE.match(each)
            ]
    found += [each.strip() for each in Said("".join(kept)).found]
    return [each for each in found if LETTERS.search(each.replace(NAME, ""))]


def unmarked_in_module(text):
    """Sentences of a module that no mark of gettext encloses, without docstrings."""
    tree = ast.parse(text)
    marked = set()
    for node in ast.walk(tree):
        named = getattr(node.func, "id", "") if isinstance(node, ast.Call) else ""
        is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if named in MARKS or is_docstring:
            marked |= {id(each) for each in ast.walk(node)}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            marked |= {id(each) for each in node.values}
            texts = (each.value if isinstance(each, ast.Constant) else "x" for each in node.values)
            said = "".join(texts)
        else:
            said = getattr(node, "value", "") if isinstance(node, ast.Constant) else ""
        if id(node) not in marked and isinstance(said, str) and SENTENCE.match(said):
            found.append(said)
    return found


def templates_in_english(name):
    return any(name == each or (each[-1] == "/" and name.startswith(each)) for each in IN_ENGLISH)


def test_a_page_that_annotators_meet_says_nothing_outside_gettext():
    folder = catalogs.ROOT / "templates"
    said, used = {}, set()
    for path in [*folder.rglob("*.html"), *folder.rglob("*.txt")]:
        name, text = path.relative_to(folder).as_posix(), path.read_text("utf-8")
        if templates_in_english(name):
            continue
        if found := unmarked_in_template(text):
            said[name] = found
        used |= {(name, each) for each in re.findall(r'{% (?:include|extends) "([^"]+)"', text)}
    assert said == {}
    assert {pair for pair in used if templates_in_english(pair[1])} == set()
    assert len(IN_ENGLISH) <= MOST_IN_ENGLISH
    assert {each for each in IN_ENGLISH if not (folder / each).exists()} == set()


def test_a_module_says_to_annotators_nothing_outside_gettext():
    found = {
        name: unmarked_in_module((catalogs.ROOT / name).read_text("utf-8")) for name in MODULES
    }
    assert {name: each for name, each in found.items() if len(each) > MODULES[name]} == {}
    assert {name: len(each) for name, each in found.items()} == MODULES


@pytest.mark.parametrize(
    "text",
    [
        "<p>Try again.</p>",
        "{% if x %}Try{% endif %}",
        '<input placeholder="Your name">',
        '<a aria-label="Close" href="/">×</a>',
        '{% include "parts/empty.html" with title="Nothing is here" %}',
    ],
)
def test_an_unmarked_text_of_a_template_is_found(text):
    assert unmarked_in_template(text)


def test_a_marked_text_of_a_template_is_none():
    text = (
        '{% load i18n %}{% comment %}A note.{% endcomment %}<p class="quiet">'
        '{% translate "Try again." %}{% blocktranslate %}Try <b>it</b>.{% endblocktranslate %}'
        "</p><script>Try again</script>FairJudge"
    )
    assert unmarked_in_template(text) == []


def test_an_unmarked_sentence_of_a_module_is_found():
    code = '"""Doc of it."""\nraise UserError({})\n'
    assert unmarked_in_module(code.format('"Try it again."')) == ["Try it again."]
    assert unmarked_in_module(code.format('f"The name {x} is taken."'))
    assert unmarked_in_module(code.format('_("Try it again.")')) == []
