"""A second decision never overturns the first in silence: two people, or two tabs of one."""

import re
from decimal import Decimal
from html import unescape

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse

from annotation.models import Adjudication, CrowdLink, Flag, Item
from annotation.queue.queue import claim_next, flag
from annotation.rounds.opening import RoundSettings, open_round
from judging.dataset.models import Import
from judging.dataset.pages.imports import MappingForm
from judging.projects import webhooks
from judging.projects.models import AuditEvent, Membership, Project, Role
from judging.runs.models import JudgeTemplate, Run
from tests.annotation.pages.test_crowd import FORM as TERMS
from tests.factories import (
    make_annotator,
    make_examples,
    make_member,
    make_run,
    make_verdict,
    make_vote,
)

pytestmark = [pytest.mark.django_db, pytest.mark.databases]


@pytest.fixture
def ben(project):
    return make_member(project, Role.OWNER, "Ben")


@pytest.fixture
def tabs(client, owner, ben):
    """Two tabs, of the owner and of Ben, each with the forms that its page had when it opened."""
    other = type(client)()
    client.force_login(owner)
    other.force_login(ben)
    return Tab(client), Tab(other)


class Tab:
    def __init__(self, client):
        self.client, self.forms = client, {}

    def open(self, url):
        """Read the forms of a page, with what a browser would send back."""
        page = self.client.get(url)
        assert page.status_code == 200
        self.read(page.text, url)
        return page.text

    def read(self, text, url):
        for tag, body in re.findall(r"<form\b([^>]*)>(.*?)</form>", text, re.DOTALL):
            action = re.search(r'action="([^"]*)"', tag)
            sent = {}
            for attributes in re.findall(r"<input\b([^>]*)>", body):
                of = dict(re.findall(r'([\w-]+)="([^"]*)"', attributes))
                if of.get("type") == "hidden":
                    sent[of["name"]] = unescape(of["value"])
            self.forms[action.group(1) if action else url] = sent

    def post(self, url, **fields):
        page = self.client.post(url, self.forms[url] | fields, follow=True)
        self.read(page.text, url)
        return unescape(page.text)


def split_item(project):
    make_examples(project, 1)
    round_ = open_round(project, None, None, RoundSettings(everything=True, votes=2, seed=1))
    item = Item.objects.get()
    for name, label in (("ann", "win"), ("bob", "lose")):
        make_vote(item, make_annotator(project, name), label)
    Item.objects.update(state=Item.State.ADJUDICATE)
    return reverse("round_item", args=[project.slug, round_.number, item.pk])


def decided():
    return list(Adjudication.objects.order_by("pk").values_list("label", flat=True))


def test_a_decision_that_somebody_made_meanwhile_is_not_replaced_in_silence(project, tabs):
    mine, bens = tabs
    url = split_item(project)
    mine.open(url), bens.open(url)
    bens.post(url, label="win", reason="Cites its source.")
    page = mine.post(url, label="lose", reason="Shorter.")
    assert decided() == ["win"]
    assert re.search(r"Ben decided this \(win: Cites its source\.\) .* ago", page)
    assert "Shorter." in page
    mine.post(url, label="lose", reason="Shorter.")
    assert decided() == ["win", "lose"]


def test_two_tabs_of_one_person_are_asked_too(project, tabs):
    mine, _ = tabs
    url = split_item(project)
    mine.open(url)
    old = dict(mine.forms[url])
    mine.post(url, label="win", reason="First.")
    mine.forms[url] = old
    assert "You decided this" in mine.post(url, label="tie", reason="Second.")
    assert decided() == ["win"]


def test_the_same_decision_sent_twice_is_one(project, tabs):
    mine, bens = tabs
    url = split_item(project)
    mine.open(url), bens.open(url)
    old = dict(mine.forms[url])
    for _ in range(2):
        mine.forms[url] = old
        assert "Decided." in mine.post(url, label="tie", reason="Both cite.")
    assert decided() == ["tie"]
    assert "decided this" in bens.post(url, label="tie", reason="Both cite.")


def test_a_decision_by_who_saw_the_last_one_and_by_a_script_is_taken(project, tabs):
    mine, bens = tabs
    url = split_item(project)
    bens.open(url)
    bens.post(url, label="win", reason="First.")
    mine.open(url)
    mine.post(url, label="lose", reason="Second.")
    mine.forms[url] = {}
    mine.post(url, label="tie", reason="By a script, which sends no version.")
    assert decided() == ["win", "lose", "tie"]


SETTINGS = {
    "name": "Vicuna",
    "description": "",
    "question_asked": "Which is better?",
    "guidelines": "Be fair.",
    "scale": "three",
    "criteria": "",
    "rendering": "markdown",
    "no_majority": "adjudicate",
    "wage_usd": "7.5",
    "minutes_per_vote": "3",
    "annotator_advantage": "0.15",
    "cost_basis": "assumed",
}


@pytest.fixture
def settings_url(project):
    now = SETTINGS | {"criteria": []}
    Project.objects.filter(pk=project.pk).update(**now)
    return reverse("settings", args=[project.slug])


@pytest.mark.parametrize(
    ("name", "bens_value", "my_value"),
    [
        ("guidelines", "Ben's.", "Mine."),
        ("criteria", "depth", "accuracy\ndepth"),
        ("wage_usd", "10", "12"),
        ("scale", "five", "three"),
    ],
)
def test_a_setting_that_both_changed_is_asked_for(
    project, tabs, settings_url, name, bens_value, my_value
):
    mine, bens = tabs
    mine.open(settings_url), bens.open(settings_url)
    bens.post(settings_url, **SETTINGS | {name: bens_value})
    after_ben = getattr(Project.objects.get(), name)
    page = mine.post(settings_url, **SETTINGS | {name: my_value, "description": "New."})
    if my_value == SETTINGS[name]:
        # Not chosen here: the page only showed it. Ben's holds, and the rest is saved.
        assert getattr(Project.objects.get(), name) == after_ben
        assert Project.objects.get().description == "New."
        return
    assert "Ben changed this to" in page
    assert getattr(Project.objects.get(), name) == after_ben
    assert Project.objects.get().description == ""
    mine.post(settings_url, **SETTINGS | {name: my_value, "description": "New."})
    assert getattr(Project.objects.get(), name) != after_ben
    assert Project.objects.get().description == "New."


def test_a_setting_that_only_the_other_changed_is_not_set_back(project, tabs, settings_url):
    mine, bens = tabs
    mine.open(settings_url), bens.open(settings_url)
    bens.post(settings_url, **SETTINGS | {"guidelines": "Ben's.", "leave_out_unblinded": "on"})
    # A mistake in another field: the form that comes back shows what Ben set.
    page = mine.post(settings_url, **SETTINGS | {"wage_usd": "-1"})
    assert "Ben's." in page
    mine.post(settings_url, **SETTINGS | {"guidelines": "Ben's.", "leave_out_unblinded": "on"})
    found = Project.objects.get()
    assert (found.guidelines, found.leave_out_unblinded) == ("Ben's.", True)
    assert AuditEvent.objects.filter(action="settings changed").count() == 1


def test_settings_without_a_version_are_taken_as_before(project, tabs, settings_url):
    mine, _ = tabs
    mine.forms[settings_url] = {}
    mine.post(settings_url, **SETTINGS | {"guidelines": "By a script."})
    assert Project.objects.get().guidelines == "By a script."


@pytest.mark.parametrize(
    ("first", "second", "fields"),
    [
        ("round_votes", "round_votes", [{"votes": 3}, {"votes": 5}]),
        ("round_people", "round_people", [{"limit": 3}, {"limit": 5}]),
        ("round_pause", "round_close", [{}, {}]),
        ("round_close", "round_votes", [{}, {"votes": 3}]),
    ],
)
def test_a_change_to_a_round_is_asked_for_if_it_was_changed_meanwhile(
    project, tabs, first, second, fields
):
    mine, bens = tabs
    make_examples(project, 1)
    round_ = open_round(project, None, None, RoundSettings(everything=True, votes=2, seed=1))
    page, *urls = (
        reverse(name, args=[project.slug, round_.number]) for name in ("round", first, second)
    )
    mine.open(page), bens.open(page)
    bens.post(urls[0], **fields[0])
    before = AuditEvent.objects.count()
    assert re.search(r"Ben .* ago, after this page was loaded", mine.post(urls[1], **fields[1]))
    assert AuditEvent.objects.count() == before
    if first == "round_close":
        return
    mine.open(page)
    mine.post(urls[1], **fields[1])
    assert AuditEvent.objects.count() == before + 1


def test_a_crowd_link_that_somebody_changed_or_withdrew_meanwhile_is_asked_for(project, tabs):
    mine, bens = tabs
    make_examples(project, 1)
    round_ = open_round(project, None, None, RoundSettings(everything=True, votes=2, seed=1))
    url = reverse("round_crowd", args=[project.slug, round_.number])
    mine.open(url)
    mine.post(url, **TERMS)
    mine.open(url), bens.open(url)
    bens.post(url, **TERMS | {"max_people": 9})
    assert "Ben changed the crowd link" in mine.post(url, **TERMS)
    assert CrowdLink.objects.get().max_people == 9
    # A mistake in a form that was overtaken doesn't make it one for what holds now.
    bens.open(url)
    mine.post(url, **TERMS | {"max_people": 7})
    assert CrowdLink.objects.get().max_people == 7
    bens.post(url, **TERMS | {"max_people": 0})
    assert "You changed" not in bens.post(url, **TERMS)
    assert CrowdLink.objects.get().max_people == 7
    mine.open(url), bens.open(url)
    withdrawal = reverse("round_crowd_withdraw", args=[project.slug, round_.number])
    bens.post(withdrawal)
    assert "Ben withdrew the crowd link" in mine.post(url, **TERMS)
    assert CrowdLink.objects.get().withdrawn_at is not None
    mine.post(url, **TERMS)
    assert CrowdLink.objects.get().withdrawn_at is None


def member_rita(project):
    """A member, the page that shows her, and the address that changes her."""
    make_member(project, Role.ANNOTATOR, "rita")
    member = Membership.objects.get(user__username="rita")
    pages = (
        reverse("people", args=[project.slug]),
        reverse("member", args=[project.slug, member.pk]),
    )
    return member, *pages


def test_a_role_that_somebody_changed_meanwhile_is_asked_for(project, tabs):
    mine, bens = tabs
    member, page, url = member_rita(project)
    bens.forms[url] = mine.forms[url] = {"made_for": "annotator"}
    assert 'name="made_for" value="annotator"' in mine.open(page)
    mine.forms[url] = {"made_for": "annotator"}
    bens.post(url, role="owner")
    assert "Ben made rita owner" in mine.post(url, role="researcher")
    member.refresh_from_db()
    assert member.role == "owner"


def test_a_flag_whose_reason_changed_is_not_settled_unread(project, tabs):
    mine, _ = tabs
    make_examples(project, 1)
    round_ = open_round(project, None, None, RoundSettings(everything=True, votes=1, seed=1))
    draft = claim_next(round_, make_annotator(project, "ana"))
    row = flag(draft, "A typo.")
    page = reverse("round", args=[project.slug, round_.number])
    url = reverse("flag_settle", args=[project.slug, round_.number, row.pk])
    mine.open(page)
    flag(draft, "It names the model.")
    assert "The flag has changed" in mine.post(url)
    assert Flag.objects.get().settled_at is None
    mine.open(page)
    mine.post(url)
    assert Flag.objects.get().settled_at is not None


def test_a_member_who_got_another_role_meanwhile_is_not_removed_unread(project, tabs):
    mine, bens = tabs
    member, page, url = member_rita(project)
    mine.open(page), bens.open(page)
    bens.post(url, role="owner")
    assert "Ben made rita owner" in mine.post(url, remove="")
    assert Membership.objects.filter(pk=member.pk).exists()
    mine.open(page)
    mine.post(url, remove="")
    assert not Membership.objects.filter(pk=member.pk).exists()


TEMPLATE = {
    "name": "mine",
    "reply": "verdict_mark",
    "low": "1",
    "high": "10",
    "text": "[Question]\n{question}\n[The Start of A]\n{first}\n[The End of A]\n"
    "[The Start of B]\n{second}\n[The End of B]\nEnd with [[A]], [[B]] or [[C]].",
    "sample_reply": "[[A]]",
}


def written():
    return [one.text.rpartition(" ")[2] for one in JudgeTemplate.objects.order_by("pk")]


def test_a_template_that_somebody_wrote_meanwhile_is_not_replaced_in_silence(project, tabs):
    mine, bens = tabs
    url = reverse("template_write", args=[project.slug])
    mine.open(url), bens.open(url)
    bens.post(url, **TEMPLATE | {"text": f"{TEMPLATE['text']} Ben's", "keep": "1"})
    change = TEMPLATE | {"text": f"{TEMPLATE['text']} Mine"}
    # Trying it out keeps nothing, and takes no note of Ben's either.
    mine.post(url, **change, **{"try": "1"})
    page = mine.post(url, **change, keep="1")
    assert "Ben wrote a version of mine" in page
    assert written() == ["Ben's"]
    mine.post(url, **change, keep="1")
    assert written() == ["Ben's", "Mine"]
    bens.post(url, **TEMPLATE | {"name": "other", "keep": "1"})
    assert len(written()) == 3


def test_retiring_what_somebody_retired_does_not_restore_it(project, tabs):
    mine, bens = tabs
    write = reverse("template_write", args=[project.slug])
    mine.open(write)
    mine.post(write, **TEMPLATE, keep="1")
    version = JudgeTemplate.objects.get()
    page = reverse("template", args=[project.slug, version.pk])
    url = reverse("template_retire", args=[project.slug, version.pk])
    mine.open(page), bens.open(page)
    bens.post(url)
    mine.post(url)
    assert JudgeTemplate.objects.get().retired_at is not None
    mine.open(page)
    mine.post(url)
    assert JudgeTemplate.objects.get().retired_at is None


def test_a_secret_of_a_webhook_that_somebody_replaced_meanwhile_is_not_replaced(
    project, tabs, receiver
):
    """The receiver got the other one, which would sign for a day only."""
    mine, bens = tabs
    hook = webhooks.add_webhook(project, None, receiver.url, ["run.done"])
    url = reverse("webhook", args=[project.slug, hook.number])

    def shown(page):
        (version,) = re.findall(r'name="made_for" value="(\w+)"', page)
        return {"rotate": "", "made_for": version}

    first = shown(mine.open(url))
    assert shown(bens.open(url)) == first
    bens.post(url, **first)
    hook.refresh_from_db()
    salt = hook.salt
    said = mine.post(url, **first)
    assert "Ben made a new secret for this webhook" in said
    hook.refresh_from_db()
    assert hook.salt == salt
    mine.post(url, **shown(said))
    hook.refresh_from_db()
    assert (hook.salt != salt, hook.former_salt) == (True, salt)


def test_a_budget_that_somebody_changed_meanwhile_is_asked_for(project, tabs):
    mine, bens = tabs
    price = {"prompt": "1", "completion": "1", "cached": "1", "source": "given"}
    run = make_run(
        project, state=Run.State.PAUSED, price=price, budget_usd=Decimal(1), ranked_at=None
    )
    url = reverse("run_budget", args=[project.slug, run.number])
    version = "before"
    mine.forms[url] = bens.forms[url] = {}
    bens.post(url, budget="2")
    mine.forms[url] = {"made_for": version}
    assert "Ben changed the budget" in mine.post(url, budget="3")
    run.refresh_from_db()
    assert run.budget_usd == 2


def test_another_primary_run_that_somebody_chose_meanwhile_is_asked_for(project, tabs):
    mine, bens = tabs
    (example,) = make_examples(project, 1)
    runs = [make_run(project) for _ in range(3)]
    for run in runs:
        make_verdict(run, example, 0.1)
    Project.objects.filter(pk=project.pk).update(primary_run=runs[0])
    pages = [reverse("run", args=[project.slug, run.number]) for run in runs]
    urls = [reverse("run_primary", args=[project.slug, run.number]) for run in runs]
    mine.open(pages[1]), bens.open(pages[2])
    bens.post(urls[2])
    assert f"Ben chose {runs[2].name} as primary run" in mine.post(urls[1])
    assert Project.objects.get().primary_run_id == runs[2].pk
    mine.post(urls[1])
    assert Project.objects.get().primary_run_id == runs[1].pk


def test_a_file_that_somebody_reads_otherwise_is_not_imported_unread(
    project, tabs, settings, tmp_path
):
    mine, bens = tabs
    settings.MEDIA_ROOT = tmp_path
    text = "id,question,response_1,response_2,other\n1,q,a,b,c\n"
    file = SimpleUploadedFile("pairs.csv", text.encode())
    imports = reverse("imports", args=[project.slug])
    mine.client.post(imports, {"files": [file], "file_format": "auto"})
    imported = Import.objects.get()
    page, begin, check = (
        reverse(name, args=[project.slug, imported.number])
        for name in ("import_detail", "import_begin", "import_check")
    )
    mine.open(page), bens.open(page)
    form = MappingForm(imported.summary)
    chosen = {name: form.fields[name].initial for name in form.columns}
    of_column = {column: name for name, column in form.columns.items()}
    other, second = of_column["other"], of_column["response_2"]
    bens.post(check, **chosen | {other: "response_2", second: chosen[other]})
    assert "Somebody changed how the columns of this file are read" in mine.post(begin)
    imported.refresh_from_db()
    assert imported.state == Import.State.CHECKED
    mine.open(page)
    mine.post(begin)
    imported.refresh_from_db()
    assert imported.state != Import.State.CHECKED
