"""No number, text or file name that a request carries makes a page fail."""

import re
from decimal import Decimal
from html import unescape

import pytest
from django.urls import URLPattern, get_resolver

from annotation.people.invitations import Terms, invite
from annotation.rounds.opening import RoundSettings, open_round
from tests.factories import make_annotator, make_examples, make_run, make_verdict
from tests.test_access_walk import an_eighth

pytestmark = pytest.mark.system

ODD = ["9" * 30, "1e400000", "NaN", "1" * 5000, "\0"]
PARAMETERS = (
    "page", "run", "like", "endpoint", "beta", "sort", "view", "skipped", "copy", "votes", "q",
    "label", "from", "to", "rank", "order",
)  # fmt: skip
FIELD = re.compile(r"<(?:input|select|textarea)\b[^>]*>")
ATTRIBUTE = re.compile(r'\b(name|value|type)="([^"]*)"')
FORM = re.compile(r"<form\b([^>]*)>(.*?)</form>", re.DOTALL)
WHOLE = pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.long)])
ACTION = re.compile(r'(?:action|hx-post)="([^"]*)"')


@pytest.fixture
def project(project):
    """A project with something on every page."""
    run = make_run(project)
    for example in make_examples(project, 6):
        make_verdict(run, example, 0.5, rank=example.number + 1)
    project.primary_run = run
    project.save()
    open_round(project, None, run, RoundSettings(beta=Decimal(50), votes=2))
    make_annotator(project)
    return project


@pytest.fixture
def client(client):
    client.raise_request_exception = False
    return client


def addresses(project):
    """Each address of the site that is about the project, with the numbers that it has."""

    def walk(patterns, before):
        for pattern in patterns:
            path = before + str(pattern.pattern)
            if isinstance(pattern, URLPattern):
                yield path
            else:
                yield from walk(pattern.url_patterns, path)

    for path in walk(get_resolver().url_patterns, ""):
        if "<slug:slug>" in path and "(?P" not in path:
            yield "/" + path.replace("<slug:slug>", project.slug)


def fails(response):
    return response.status_code >= 500


def test_an_odd_number_in_an_address_is_not_found(as_owner, project):
    failed = [
        path
        for path in addresses(project)
        for value in ("9" * 30, "9223372036854775808")
        for shown in [re.sub("<int:[a-z]+>", value, path)]
        if "<int" in path and (fails(as_owner.get(shown)) or fails(as_owner.post(shown)))
    ]
    assert failed == []


@WHOLE
def test_odd_parameters_of_an_address(as_owner, project, whole):
    failed = []
    for path in addresses(project) if whole else an_eighth(addresses(project)):
        shown = re.sub("<int:[a-z]+>", "1", path)
        if as_owner.get(shown).status_code != 200:
            continue
        for value in [*ODD, "-1", "𝟡٣", "9223372036854775808", "0.1e-999"]:
            # Half of them, so that what refuses one parameter doesn't hide the others.
            for sent in (PARAMETERS[::2], PARAMETERS[1::2]):
                if fails(as_owner.get(shown, dict.fromkeys(sent, value))):
                    failed.append((path, sent, value[:20]))
    assert failed == []


def forms_of(page, path):
    """Yield each form's address and its fields with the values that they have."""
    for head, body in FORM.findall(page):
        found = ACTION.search(head)
        fields = {}
        for field in FIELD.findall(body):
            attributes = dict(ATTRIBUTE.findall(field))
            if "name" in attributes and attributes.get("type") != "file":
                fields[attributes["name"]] = unescape(attributes.get("value", ""))
        if 'method="post"' in head or "hx-post" in head:
            yield unescape(found[1]) if found and found[1] else path, fields


# These end what the others are about.
ENDINGS = ("/delete", "/close", "/leave", "/undo", "/logout/", "/revoke")


@WHOLE
def test_odd_values_of_every_field(as_owner, project, whole):
    invite(project, None, Terms())
    failed, seen = [], set()
    for path in addresses(project) if whole else an_eighth(addresses(project)):
        shown = re.sub("<int:[a-z]+>", "1", path)
        response = as_owner.get(shown)
        if response.status_code != 200:
            continue
        for action, fields in forms_of(response.content.decode(), shown):
            names = frozenset(fields)
            if action.endswith(ENDINGS) or (action, names) in seen:
                continue
            seen.add((action, names))
            for number, name in enumerate(sorted(names)):
                # Each value meets each kind of field somewhere; each field meets the largest.
                for value in (ODD[0], ODD[1 + number % 4]):
                    sent = fields | {name: value}
                    if fails(as_owner.post(action, sent)):
                        failed.append((action, name, value[:20]))
    assert failed == []
    assert len(seen) > (8 if whole else 1)
