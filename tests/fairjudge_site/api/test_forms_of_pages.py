"""What the forms of pages do, by programs: undoing, members, decisions, flags and templates."""

import io
import zipfile

import pytest

from annotation.models import Flag, Item
from annotation.rounds import growing
from annotation.rounds.opening import RoundSettings, open_round
from judging.dataset import writing
from judging.dataset.models import Example, Import
from judging.projects.models import AuditEvent, Membership, Role
from judging.runs.models import JudgeTemplate
from tests.factories import (
    make_annotator,
    make_examples,
    make_import,
    make_member,
    make_run,
    make_verdict,
    make_vote,
)

pytestmark = pytest.mark.django_db
HERE = "projects/vicuna"
TEMPLATE = {
    "name": "own", "form": "relation", "reply": "verdict_mark", "sample_reply": "Better: [[A]]",
    "text": "{question} {first} {second} Answer [[A]], [[B]] or [[C]].",
}  # fmt: skip


@pytest.fixture
def client(token_for, owner, settings, tmp_path):
    settings.MEDIA_ROOT = tmp_path
    return token_for(owner)


@pytest.fixture
def round_(project):
    """Two people gave two items different labels; nobody has voted on the third."""
    make_examples(project, 3)
    round_ = open_round(project, None, None, RoundSettings(everything=True, votes=2, seed=1))
    people = [make_annotator(project, name) for name in ("ana", "ben")]
    for item in Item.objects.order_by("example__number")[:2]:
        for person, label in zip(people, ("win", "lose"), strict=True):
            make_vote(item, person, label)
    return round_


def asked(response, status=200):
    assert response.status_code == status, response.content
    return response.json()


def test_an_import_is_undone_and_stays_in_the_list(client, project):
    row = {"question": "Q?", "response_1": "a", "response_2": "b"}
    sent = asked(client.post(f"{HERE}/examples", b'{"question":"Q?","response_1":"a",'
                             b'"response_2":"b"}\n'), 202)  # fmt: skip
    writing.write(Import.objects.get().pk)
    assert Example.objects.get().question == row["question"]
    key = {"Idempotency-Key": "undo"}
    undone = asked(client.post(f"{HERE}/imports/{sent['number']}/undo", **key))
    assert (undone["state"], undone["kind"]) == ("undone", "examples")
    assert asked(client.post(f"{HERE}/imports/{sent['number']}/undo", **key)) == undone
    assert not Example.objects.exists()
    assert asked(client.get(f"{HERE}/imports"))["items"] == [undone]
    assert AuditEvent.objects.filter(action="import undone").count() == 1


def test_examples_that_were_judged_and_imports_of_votes_are_not_undone(client, project):
    example, *_ = make_examples(project, 2)
    make_verdict(make_run(project), example, 0.5)
    refused = asked(client.post(f"{HERE}/imports/1/undo"), 422)
    assert "judged" in refused["detail"]
    votes = make_import(project, kind=Import.Kind.VOTES)
    refused = asked(client.post(f"{HERE}/imports/{votes.number}/undo"), 422)
    assert refused["detail"] == "An import of votes can't be undone. Nothing was changed."
    assert asked(client.get(f"{HERE}/imports/{votes.number}"))["kind"] == "votes"
    assert Example.objects.count() == 2
    assert client.get(f"{HERE}/imports/99").status_code == 404


def test_decisions_are_found_made_and_taken_back(client, token_for, project, round_):
    at = f"{HERE}/rounds/1"
    waiting = [one["external_id"] for one in asked(client.get(f"{at}/undecided"))["items"]]
    assert waiting == ["e0", "e1"]
    decision = {"external_id": "e0", "label": "tie", "reason": "Both say the same."}
    made = asked(client.post(f"{at}/decisions", decision), 201)
    assert made["by"] == "olga"
    assert asked(client.get(f"{at}/decisions"))["items"] == [made]
    assert [one["external_id"] for one in asked(client.get(f"{at}/undecided"))["items"]] == ["e1"]
    other = token_for(make_member(project, Role.RESEARCHER, "rosa"))
    refused = asked(other.post(f"{at}/decisions/{made['id']}/undo"), 422)
    assert "your own" in refused["detail"]
    assert asked(client.post(f"{at}/decisions/{made['id']}/undo")) == made
    assert asked(client.get(f"{at}/decisions"))["items"] == []
    assert len(asked(client.get(f"{at}/undecided"))["items"]) == 2
    assert client.post(f"{at}/decisions/{made['id']}/undo").status_code == 404


def test_a_flag_is_settled_once(client, project, round_):
    item = Item.objects.filter(round=round_).first()
    flag = Flag.objects.create(item=item, annotator=project.annotators.first(), reason="odd")
    (listed,) = asked(client.get(f"{HERE}/rounds/1/flags"))["items"]
    assert (listed["reason"], listed["settled_at"]) == ("odd", None)
    settled = asked(client.post(f"{HERE}/rounds/1/flags/{flag.pk}/settle"))
    assert settled["settled_at"]
    assert asked(client.post(f"{HERE}/rounds/1/flags/{flag.pk}/settle")) == settled
    assert AuditEvent.objects.filter(action="flag settled").count() == 1
    assert client.post(f"{HERE}/rounds/1/flags/{flag.pk + 1}/settle").status_code == 404


def test_what_a_round_still_writes_is_cancelled(client, project, round_, monkeypatch):
    refused = asked(client.post(f"{HERE}/rounds/1/cancel"), 422)
    assert "Nothing that can be cancelled" in refused["detail"]
    # All is left to a worker, which never comes.
    monkeypatch.setattr(growing, "AT_ONCE", 0)
    asked(client.post(f"{HERE}/rounds", {"everything": True, "votes": 2}), 202)
    assert asked(client.get(f"{HERE}/rounds/2"))["state"] == "opening"
    key = {"Idempotency-Key": "cancel"}
    cancelled = asked(client.post(f"{HERE}/rounds/2/cancel", **key))
    assert (cancelled["number"], cancelled["state"]) == (2, "opening")
    assert client.get(f"{HERE}/rounds/2").status_code == 404
    assert AuditEvent.objects.filter(action="change cancelled").count() == 1


def test_members_get_roles_and_leave_and_their_tokens_end_with_them(
    client, token_for, project, owner
):
    rosa = make_member(project, Role.RESEARCHER, "rosa")
    hers = token_for(rosa)
    named = {one["user"]: one for one in asked(client.get(f"{HERE}/members"))["items"]}
    assert (named["olga"]["role"], named["rosa"]["role"]) == ("owner", "researcher")
    assert hers.get(f"{HERE}/runs").status_code == 200
    number = named["rosa"]["id"]
    lowered = asked(client.post(f"{HERE}/members/{number}/role", {"role": "annotator"}))
    assert lowered == named["rosa"] | {"role": "annotator"}
    assert hers.get(f"{HERE}/runs").status_code == 403
    key = {"Idempotency-Key": "remove"}
    removed = asked(client.post(f"{HERE}/members/{number}/remove", **key))
    assert asked(client.post(f"{HERE}/members/{number}/remove", **key)) == removed == lowered
    assert hers.get(HERE).status_code == 404
    assert client.post(f"{HERE}/members/{number}/remove").status_code == 404
    assert Membership.objects.filter(project=project, role=Role.OWNER).count() == 1
    for path, body in (("role", {"role": "annotator"}), ("remove", None)):
        refused = asked(client.post(f"{HERE}/members/{named['olga']['id']}/{path}", body), 422)
        assert "owner" in refused["detail"]
    events = asked(client.get(f"{HERE}/trail"))["items"]
    assert [one["detail"]["now"] for one in events if one["action"] == "role changed"] == [
        "annotator"
    ]


def test_a_template_is_kept_in_versions_and_used_by_runs(client, project):
    first = asked(client.post(f"{HERE}/templates", TEMPLATE), 201)
    assert asked(client.post(f"{HERE}/templates", TEMPLATE), 201) == first
    later = asked(
        client.post(f"{HERE}/templates", TEMPLATE | {"text": f"Short. {TEMPLATE['text']}"}), 201
    )
    assert asked(client.get(f"{HERE}/templates"))["items"] == [first, later]
    assert asked(client.post(f"{HERE}/templates/{later['id']}/retire"))["retired_at"]
    assert JudgeTemplate.objects.get(retired_at=None).pk == first["id"]
    assert asked(client.post(f"{HERE}/templates/{later['id']}/restore"))["retired_at"] is None
    assert client.post(f"{HERE}/templates/{later['id'] + 1}/retire").status_code == 404
    make_examples(project, 1)
    run = {"endpoint": "local", "model": "smollm2", "template": "own", "form": "relation"}
    assert asked(client.post(f"{HERE}/runs/estimate", run))["calls"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"text": "No slots, [[A]]."}, "{question}"),
        ({"sample_reply": "Nothing that can be read"}, "sample reply"),
        ({"form": "score", "reply": "score_lines", "scale": ["10", "1"]}, "below its highest"),
        ({"form": "poem"}, "The form is one of"),
    ],
)
def test_a_template_that_can_not_be_read_is_refused(client, project, change, said):
    refused = asked(client.post(f"{HERE}/templates", TEMPLATE | change), 422)
    assert said in refused["detail"]
    assert not JudgeTemplate.objects.exists()


def test_the_table_of_people_shows_nothing_of_a_judge(client, project, owner, round_):
    lines = b"".join(client.get(f"{HERE}/people.csv")).decode().splitlines()
    assert lines[0].startswith("annotator,")
    assert len(lines) == 3
    (first, _) = asked(client.get(f"{HERE}/tables/people"))["items"]
    assert (first["annotator"], first["votes"]) == ("annotator-1", 2)
    assert Membership.objects.get(project=project, user=owner).unblinded_at is None
    assert project.exports.get().what == "people"


def test_the_report_is_a_file(client, project, round_):
    make_run(project, ranked_at=None)
    assert asked(client.get(f"{HERE}/runs/1/report.zip"), 422)["code"] == "refused"
    judged = make_run(project)
    for example in project.examples.all():
        make_verdict(judged, example, 0.5)
    for kind, begins in (("html", b"<!doctype html>"), ("tex", b"\\documentclass"), ("zip", b"PK")):
        answer = client.get(f"{HERE}/runs/{judged.number}/report.{kind}")
        content = b"".join(answer)
        assert (answer.status_code, begins in content[:400]) == (200, True), content[:400]
    assert "report.json" in zipfile.ZipFile(io.BytesIO(content)).namelist()
    assert client.get(f"{HERE}/runs/{judged.number}/report.pdf").status_code == 422
