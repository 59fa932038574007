"""Confidence, reasons and marked text: what is stored, kept, exported, read back and shown."""

import csv
import json

import pytest
from django.urls import reverse

from annotation.models import Draft, Item, Protocol, Vote
from annotation.pages.forms import SettingsForm
from annotation.people.personal_data import erase_annotator, held_about
from annotation.results.tables.exports import ExportRequest, export, vote_columns
from annotation.rounds.opening import RoundSettings, current_protocol, open_round
from annotation.votes.imports import import_votes
from judging.core.errors import UserError
from judging.core.text import HIDDEN_NAME
from tests.annotation.screen.posting import ALL, first_item, post, text_of
from tests.factories import make_annotator, make_examples, make_project, make_vote

pytestmark = [pytest.mark.django_db, pytest.mark.databases]
TAGS = ["factual error", "a, b"]
FIRST, SECOND = "I am maple-7b 😀 and **right**.", "The other 好 one."
ASKED = {"ask_confidence": True, "reason_tags": TAGS, "ask_spans": True}


@pytest.fixture
def asking(project):
    for name, value in ASKED.items():
        setattr(project, name, value)
    project.hide_models = True
    project.save()
    return project


@pytest.fixture
def round_(asking):
    make_examples(asking, 3, response_1=FIRST, response_2=SECOND)
    return open_round(asking, None, None, ALL)


@pytest.fixture
def ana(client, annotator):
    client.force_login(annotator)
    return client


def side_of_first(token):
    return "left" if Draft.objects.get(token=token).left_response == 1 else "right"


def shown_marks(words):
    shown = FIRST.replace("maple-7b", HIDDEN_NAME)
    return f"{shown.index(words)}-{shown.index(words) + len(words)}"


def marks(token, words="and **right"):
    return {f"spans-{side_of_first(token)}": shown_marks(words)}


def span(words, text=FIRST, response=1):
    start = text.index(words)
    return {"response": response, "start": start, "end": start + len(words), "text": words}


def test_all_of_it_is_stored_by_response_and_never_by_side(ana, round_):
    sides = set()
    for _ in range(3):
        token = first_item(ana, round_)
        sides.add(side_of_first(token))
        said = {"overall": "left", "confidence": "medium", "reason-2": "1"} | marks(token)
        assert post(ana, token, **said).status_code == 302
        assert Vote.objects.get(item__drafts__token=token).answer == {
            "overall": "left",
            "confidence": "medium",
            "reasons": ["a, b"],
            "spans": [span("and **right")],
        }
    assert sides == {"left", "right"}


def test_confidence_has_to_be_said_and_the_rest_need_not_be(ana, round_):
    token = first_item(ana, round_)
    answer = post(ana, token, overall="tie", **marks(token))
    assert answer.status_code == 422
    assert "Say how sure you are" in text_of(answer)
    # Nothing that was marked is lost.
    assert Draft.objects.get(token=token).answer["spans"] == [span("and **right")]
    assert post(ana, token, overall="tie", confidence="low").status_code == 302
    assert Vote.objects.get().answer == {"overall": "tie", "confidence": "low"}


def test_a_draft_keeps_them_and_the_page_shows_them_again(ana, round_):
    token = first_item(ana, round_)
    said = {"confidence": "high", "reason-1": "1"} | marks(token, HIDDEN_NAME)
    assert post(ana, token, "draft", **said).status_code == 204
    assert Draft.objects.get(token=token).answer["spans"] == [span("maple-7b")]
    page = ana.get(f"/annotate/{token}").text
    (place,) = [marks(token, HIDDEN_NAME)[f"spans-{side_of_first(token)}"]]
    assert f'name="spans-{side_of_first(token)}" value="{place}"' in page
    assert "maple-7b" not in page
    assert 'name="reason-1" value="1" checked' in page
    assert 'value="high" checked' in page


def test_a_change_keeps_what_was_marked_before_as_a_revision(ana, round_):
    token = first_item(ana, round_)
    post(ana, token, overall="left", confidence="low", **marks(token))
    post(ana, token, overall="left", confidence="low", edit="1", **marks(token, "am"))
    vote = Vote.objects.get()
    assert vote.answer["spans"] == [span("am")]
    assert vote.revisions.get().answer["spans"] == [span("and **right")]


def test_who_cant_judge_says_nothing_of_being_sure_and_keeps_marks(ana, asking):
    asking.cant_judge = True
    asking.save()
    make_examples(asking, 1, response_1=FIRST)
    round_ = open_round(asking, None, None, ALL)
    token = first_item(ana, round_)
    said = {"overall": "cant_judge", "comment": "no idea", "confidence": "low"} | marks(token)
    post(ana, token, **said)
    assert Vote.objects.get().answer == {"overall": "cant_judge", "spans": [span("and **right")]}


@pytest.mark.parametrize(
    "sent", ["5-3", "999-1000", "x", "0-0", "1" * 5000, "-", "3-3,", "99999999999999999999-1"]
)
def test_marks_that_are_none_do_no_harm(ana, round_, sent):
    token = first_item(ana, round_)
    both = {"spans-left": sent, "spans-right": sent}
    assert post(ana, token, overall="left", confidence="low", **both).status_code == 302
    assert "spans" not in Vote.objects.get().answer


def test_without_them_nothing_is_asked_read_or_stored(ana, project):
    make_examples(project, 1)
    round_ = open_round(project, None, None, ALL)
    token = first_item(ana, round_)
    page = ana.get(f"/annotate/{token}").text
    assert not any(word in page for word in ("confidence", "spans", "reason-", "more.js", "789WM"))
    said = {"confidence": "low", "reason-1": "1", "spans-left": "0-3"}
    post(ana, token, overall="left", **said)
    assert Vote.objects.get().answer == {"overall": "left"}
    assert not {"confidence", "reasons", "spans"} & set(vote_columns(project))


def test_a_protocol_that_asks_none_has_the_digest_of_before(project):
    before = current_protocol(project)
    for name, value in ASKED.items():
        setattr(project, name, value)
        assert current_protocol(project).digest != before.digest
        setattr(project, name, type(value)())
    assert current_protocol(project) == before
    assert Protocol.objects.filter(project=project).count() == 4


@pytest.mark.parametrize("lines", ["\n".join("abcdefghij"), "x" * 41, "one;two", "a\x07b"])
def test_reasons_that_cant_be_offered_are_refused(project, lines):
    form = SettingsForm({"reason_tags": lines}, instance=project)
    assert "reason_tags" in form.errors


def test_reasons_are_one_a_line(as_owner, project):
    url = reverse("settings", args=[project.slug])
    page = as_owner.get(url)
    sent = {name: page.context["form"][name].value() or "" for name in page.context["form"].fields}
    sent = {name: value for name, value in sent.items() if value is not False}
    sent |= {"reason_tags": " too  long\r\n\r\ntoo long\r\nwrong", "ask_spans": "on"}
    assert as_owner.post(url, sent).status_code == 302
    project.refresh_from_db()
    assert (project.reason_tags, project.ask_spans) == (["too long", "wrong"], True)
    assert project.ask_confidence is False


def test_a_person_reads_what_they_marked_by_side_and_without_names(ana, annotator, round_):
    token = first_item(ana, round_)
    post(ana, token, overall="left", confidence="low", **marks(token, f"am {HIDDEN_NAME}"))
    second = first_item(ana, round_)
    post(ana, second, "draft", **marks(second, "am"))
    held = {row["about"]: row for row in held_about(annotator)}
    side = side_of_first(token)
    assert held["vote"]["answer"]["spans"] == [{"side": side, "text": f"am {HIDDEN_NAME}"}]
    assert [one["text"] for one in held["draft"]["answer"]["spans"]] == ["am"]
    assert not {"left_response", "model_1"} & set(held["vote"])
    assert "maple-7b" not in json.dumps(list(held_about(annotator)), default=str)


def test_who_is_erased_leaves_votes_that_quote_nobody_but_the_responses(ana, annotator, round_):
    token = first_item(ana, round_)
    post(ana, token, overall="left", confidence="low", comment="mine", **marks(token))
    person = Vote.objects.get().annotator
    erase_annotator(person, None)
    vote = Vote.objects.get()
    assert (vote.comment, vote.answer["spans"]) == ("", [span("and **right")])
    erase_annotator(person, None, remove_votes=True)
    assert not Vote.every.exists()


@pytest.fixture
def voted(asking):
    """Two people who disagree, and mark what they mean."""
    make_examples(asking, 1, response_1=FIRST, response_2=SECOND)
    round_ = open_round(asking, None, None, RoundSettings(everything=True, votes=2, seed=3))
    (item,) = Item.objects.filter(round=round_)
    for name, label, said in (
        ("zoe", "win", [span("and **right"), span("好 one", SECOND, 2)]),
        ("ida", "lose", [span("maple-7b")]),
    ):
        answer = {"overall": "left", "confidence": "low", "reasons": TAGS, "spans": said}
        make_vote(item, make_annotator(asking, name), label, answer=answer, left_response=1)
    return asking


def written(project, path):
    request = ExportRequest(what="votes", format=path.suffix[1:])
    path.write_bytes(b"".join(export(project, None, None, request)))
    return path


@pytest.mark.parametrize("form", ["csv", "jsonl", "json", "xlsx", "parquet"])
def test_an_export_read_back_into_an_empty_project_is_the_same(voted, tmp_path, form):
    path = written(voted, tmp_path / f"votes.{form}")
    other = make_project()
    make_examples(other, 1, response_1=FIRST, response_2=SECOND)
    assert import_votes(other, None, path).added == 2
    assert [vote.answer for vote in Vote.objects.filter(example__project=other).order_by("pk")] == [
        vote.answer for vote in Vote.objects.filter(example__project=voted).order_by("pk")
    ]
    # Its own protocol asks for nothing of it. The columns are there, since there is something.
    again = written(other, tmp_path / f"again.{form}")
    assert import_votes(voted, None, path).added == 0
    if form == "jsonl":
        rows = [json.loads(line) for line in again.read_text().splitlines()]
        assert rows[1]["spans"] == [span("maple-7b")]
        assert (rows[0]["confidence"], rows[0]["reasons"]) == ("low", "factual error;a, b")


def test_the_columns_are_before_the_last_one(voted, tmp_path):
    with written(voted, tmp_path / "votes.csv").open(newline="") as file:
        head, row, _ = csv.reader(file)
    last = ["unblinded", "language", "fairjudge_escape"]
    assert head[-6:] == ["confidence", "reasons", "spans", *last]
    assert json.loads(row[-4])[1]["text"] == "好 one"


@pytest.mark.parametrize(
    ("column", "cell", "said"),
    [
        ("confidence", "very", "low, medium"),
        ("reasons", "x" * 300, "reasons of"),
        ("spans", "no json", "should be a JSON list"),
        ("spans", '[{"response":1,"start":4,"end":2}]', "a start before their end"),
        ("spans", '[{"response":1,"start":0,"end":900}]', "has 30 characters"),
        ("spans", '[{"response":2,"start":0,"end":3,"text":"Thi"}]', "quotes another text"),
        ("spans", "[" * 100_000, "should be a JSON list"),
    ],
)
def test_what_cant_be_read_is_refused_by_its_line(project, tmp_path, column, cell, said):
    make_examples(project, 1, response_1=FIRST, response_2=SECOND)
    path = tmp_path / "votes.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(
            [("external_id", "annotator", "label", column), ("e0", "zoe", "win", cell)]
        )
    with pytest.raises(UserError) as refused:
        import_votes(project, None, path)
    assert "line 2" in str(refused.value)
    assert said in str(refused.value)
    assert not Vote.objects.exists()


def test_who_decides_sees_them_after_a_first_choice(as_researcher, voted):
    item = Item.objects.get()
    url = reverse("round_item", args=[voted.slug, item.round.number, item.pk])
    blind = as_researcher.get(url).text
    assert not any(word in blind for word in ("factual error", "Unsure", "spans.js", "好 one</q>"))
    as_researcher.post(url, {"first": "1", "choice": "left"})
    page = as_researcher.get(url)
    text = page.text
    assert text.count("Unsure.") == 2
    assert "factual error" in text
    assert f"{HIDDEN_NAME}</q>" in text
    assert "maple-7b" not in text
    left = page.context["left_number"]
    marked = page.context["marked"]
    of_first = marked["marked-left" if left == 1 else "marked-right"]
    shown = of_first["text"]
    assert {(shown[one["start"] : one["end"]], one["who"]) for one in of_first["spans"]} == {
        ("and **right", "annotator-1"), (HIDDEN_NAME, "annotator-2"),
    }  # fmt: skip


def test_the_page_of_an_example_shows_who_marked_what(as_owner, voted):
    example = voted.examples.get()
    url = reverse("example", args=[voted.slug, example.pk])
    page = as_owner.get(url, {"run": "people"})
    found = page.context["marked"]
    assert [one["who"] for one in found["marked-1"]["spans"]] == ["annotator-1", "annotator-2"]
    assert [one["start"] for one in found["marked-2"]["spans"]] == [SECOND.index("好")]
    assert 'data-spans="marked-2"' in page.text
    assert "response 2: " in page.text
