"""What the forms of pages do, by programs: undoing, members, crowds, deletion and templates."""

import io
import json
import re
import zipfile

import pytest

from annotation import deletion
from annotation.models import CrowdSubmission, Flag, Item, Vote
from annotation.people import crowds
from annotation.rounds import growing
from annotation.rounds.opening import RoundSettings, open_round
from judging.core.errors import UserError
from judging.dataset import writing
from judging.dataset.models import Example, Import
from judging.projects.accounts import password_link_behind
from judging.projects.models import (
    ApiToken,
    AuditEvent,
    Deletion,
    KeptAnswer,
    Membership,
    PasswordLink,
    Project,
    Role,
)
from judging.runs.models import JudgeTemplate
from tests.factories import (
    make_annotator,
    make_examples,
    make_import,
    make_member,
    make_project,
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
    assert asked(client.post(f"{HERE}/rounds/2/cancel", **key)) == cancelled
    assert client.get(f"{HERE}/rounds/2").status_code == 404
    assert AuditEvent.objects.filter(action="change cancelled").count() == 1
    assert asked(client.post(f"{HERE}/rounds/1/close"))["state"] == "closed"
    assert asked(client.post(f"{HERE}/rounds/1/cancel"))["state"] == "open"


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


@pytest.mark.system
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
    assert client.get(f"{HERE}/runs/{judged.number}/report.docx").status_code == 422


TERMS = {
    "consent": "We pay you.", "completion_code": "C1", "screened_code": "S1", "max_people": 3,
    "questions": ["choice: Do you read English? | yes | no!"],
}  # fmt: skip


def came(round_, worker, label="win"):
    """A person of a panel, with a vote on the first item."""
    ids = crowds.PanelIds(worker, "study", f"session-of-{worker}-long")
    submission = crowds.begin(round_.crowd_link, ids, {})
    make_vote(Item.objects.order_by("pk").last(), submission.annotator, label)
    crowds.end(submission, CrowdSubmission.State.COMPLETE)
    return submission


def test_a_crowd_link_is_made_changed_and_withdrawn(client, round_):
    at = f"{HERE}/rounds/1/crowd"
    assert client.get(at).status_code == 404
    refused = asked(client.post(at, {"consent": "So."}), 422)
    assert refused["field"] == "body.completion_code"
    made = asked(client.post(at, TERMS))
    assert (made["questions"], made["max_pairs"], made["submissions"]) == (
        TERMS["questions"],
        20,
        {},
    )
    token = re.search("/crowd/([^/?]+)", made["link"])[1]
    assert crowds.open_link(token).round == round_
    changed = asked(client.post(at, {"max_pairs": 5, "version": made["version"]}))
    assert (changed["max_pairs"], changed["consent"]) == (5, "We pay you.")
    late = asked(client.post(at, {"max_pairs": 9, "version": made["version"]}), 409)
    assert late["code"] == "changed_meanwhile"
    wrong = asked(client.post(at, {"questions": ["No form"]}), 422)
    assert wrong["field"] == "body.questions"
    # Both links lead to the same place: each is signed anew.
    assert asked(client.get(at)) == changed
    assert crowds.open_link(token).max_pairs == 5
    assert asked(client.post(f"{at}/withdraw"))["link"] is None
    again = asked(client.post(at, {}))
    assert again["link"] is not None
    with pytest.raises(UserError):
        crowds.open_link(token)


def test_texts_of_a_crowd_link_are_given_in_several_languages(client, round_):
    at = f"{HERE}/rounds/1/crowd"
    question = "choice: Lesen Sie Englisch? | ja | nein!"
    german = {"consent": "Wir zahlen.", "completion_text": "Danke.", "screened_text": ""}
    terms = TERMS | {"completion_text": "Thanks.", "translations": {"de": german}}
    refused = asked(client.post(at, terms), 422)
    assert "Questions about the person" in refused["detail"]
    german["questions"] = [question]
    made = asked(client.post(at, terms))
    assert made["translations"] == {"de": german}
    assert made["completion_text"] == "Thanks."
    assert asked(client.post(at, {"max_pairs": 7}))["translations"] == {"de": german}
    # Another question without its translation would leave people in two languages.
    two = {"questions": [*TERMS["questions"], "text: What do you do?"]}
    assert "2 questions above" in asked(client.post(at, two), 422)["detail"]
    assert asked(client.post(at, two | {"translations": {}}))["translations"] == {}


def test_submissions_are_listed_paid_and_marked(client, project, round_):
    asked(client.post(f"{HERE}/rounds/1/crowd", TERMS))
    for worker in ("w1", "w2"):
        came(round_, worker)
    at = f"{HERE}/rounds/1/crowd"
    listed = asked(client.get(f"{at}/submissions"))["items"]
    assert [(one["state"], one["votes"]) for one in listed] == [("complete", 1)] * 2
    assert "w1" not in str(listed)
    downloads = AuditEvent.objects.filter(action="crowd file downloaded")
    assert client.ask("HEAD", f"{at}/submissions.csv").status_code == 200
    assert not downloads.exists()
    lines = b"".join(client.get(f"{at}/submissions.csv")).decode().splitlines()
    assert [line.split(",")[0] for line in lines] == ["worker_id", "w1", "w2"]
    assert downloads.count() == 1
    refused = asked(client.post(f"{at}/marks", b"worker_id,status\nw1,perhaps\n"), 422)
    assert "Row 2" in refused["detail"]
    key = {"Idempotency-Key": "marks"}
    panel = b"worker_id,status\nw1,rejected\nw2,approved\nw3,approved\n"
    marked = asked(client.post(f"{at}/marks?aside=true", panel, **key))
    assert marked == {"changed": 2, "unknown": 1, "votes_aside": 1}
    assert asked(client.post(f"{at}/marks?aside=true", panel, **key)) == marked
    assert asked(client.post(f"{at}/aside")) == {"votes": 0}
    assert asked(client.get(at))["submissions"] == {"approved": 1, "rejected": 1}
    assert Vote.every.filter(aside_at__isnull=False).count() == 1


def test_a_project_is_deleted_once_its_name_is_given(client, token_for, project, owner, round_):
    refused = asked(client.post(f"{HERE}/delete", {"confirm": "another"}), 422)
    assert "Nothing was deleted" in refused["detail"]
    key = {"Idempotency-Key": "delete"}
    gone = asked(client.post(f"{HERE}/delete", {"confirm": "vicuna"}, **key), 202)
    assert asked(client.post(f"{HERE}/delete", {"confirm": "vicuna"}, **key), 202) == gone
    assert (gone["slug"], gone["done"]) == ("vicuna", 0)
    assert client.get(HERE).status_code == 404
    assert asked(client.get("deletions"))["items"] == [gone]
    outsider = token_for(make_member(make_project("another"), Role.OWNER))
    assert asked(outsider.get("deletions"))["items"] == []
    assert deletion.go_on(Deletion.objects.get().pk)
    assert asked(client.get("deletions"))["items"] == []
    assert not Project.every.filter(pk=project.pk).exists()


def test_a_token_of_one_project_deletes_it_and_ends(token_for, owner, project):
    client = token_for(owner, project=project)
    assert asked(client.post(f"{HERE}/delete", {"confirm": "vicuna"}), 202)["slug"] == "vicuna"
    assert client.get("me").status_code == 401
    assert deletion.go_on(Deletion.objects.get().pk)
    assert not ApiToken.objects.exists()


def test_a_person_leaves_by_themselves(client, token_for, project):
    hers = token_for(make_member(project, Role.RESEARCHER, "rosa"))
    key = {"Idempotency-Key": "leave"}
    was = asked(hers.post(f"{HERE}/leave", **key))
    assert (was["slug"], was["role"]) == ("vicuna", "researcher")
    assert asked(hers.post(f"{HERE}/leave", **key)) == was
    assert hers.get(HERE).status_code == 404
    assert "owner" in asked(client.post(f"{HERE}/leave"), 422)["detail"]


def test_a_password_link_is_told_and_nowhere_kept(client, project):
    rosa = make_member(project, Role.RESEARCHER, "rosa")
    number = project.memberships.get(user=rosa).pk
    key = {"Idempotency-Key": "link"}
    made = asked(client.post(f"{HERE}/members/{number}/password-link", **key))
    token = made["link"].rstrip("/").rpartition("/")[2]
    assert made["user"] == "rosa"
    assert password_link_behind(rosa, token) is not None
    assert token.rpartition("-")[2] not in KeptAnswer.objects.get().body
    again = asked(client.post(f"{HERE}/members/{number}/password-link", **key))
    assert PasswordLink.objects.get() == password_link_behind(
        rosa, again["link"].rstrip("/").rpartition("/")[2]
    )
    PasswordLink.objects.all().delete()
    ended = asked(client.post(f"{HERE}/members/{number}/password-link", **key), 422)
    assert "was used" in ended["detail"]
    # A login that opens more than this project is for the operator.
    make_project("another").memberships.create(user=rosa, role=Role.RESEARCHER)
    refused = asked(client.post(f"{HERE}/members/{number}/password-link"), 422)
    assert "Only an operator" in refused["detail"]


def test_columns_and_codes_are_mapped_and_refused_rows_come_back(client, project):
    rows = b"ask,one,two,said\nQ?,a,b,1\nQ2?,,,9\n"
    at = f"{HERE}/examples"
    how = "columns=ask%3Dquestion&columns=one%3Dresponse_1&columns=two%3Dresponse_2"
    how += "&columns=said%3Dgold_label&labels=1%3Dwin,2%3Dlose"
    kind = {"Content-Type": "text/csv"}
    assert asked(client.post(at, rows, **kind), 422)["code"] == "rows_invalid"
    wrong = asked(client.post(f"{at}?columns=ask%3Dspeed", rows, **kind), 422)
    assert "ask=speed" in wrong["detail"]
    found = asked(client.post(f"{at}/estimate?{how}&skip_invalid=true", rows, **kind))
    assert found["columns"]["question"] == "ask"
    assert found["file_columns"] == ["ask", "one", "two", "said"]
    sent = asked(client.post(f"{at}?{how}&skip_invalid=true", rows, **kind), 202)
    writing.write(Import.objects.get().pk)
    assert Example.objects.get().gold_label == "win"
    done = asked(client.get(f"{HERE}/imports/{sent['number']}"))
    assert (done["written"], done["refused"], len(done["refused_files"])) == (1, 1, 1)
    refused = b"".join(client.get(f"{HERE}/imports/{sent['number']}/refused/0"))
    assert refused == b"ask,one,two,said\nQ2?,,,9\n"
    assert client.get(f"{HERE}/imports/{sent['number']}/refused/1").status_code == 404


def test_an_import_that_stopped_goes_on(client, project, token_for):
    sent = asked(client.post(f"{HERE}/examples", b'{"question":"Q?","response_1":"a",'
                             b'"response_2":"b","model_1":"m","model_2":"n"}\n'), 202)  # fmt: skip
    Import.objects.update(state=Import.State.INTERRUPTED, lease_until=None)
    at = f"{HERE}/imports/{sent['number']}/begin"
    rosa = token_for(make_member(project, Role.RESEARCHER, "rosa"))
    assert rosa.post(at, {"hide_models": True}).status_code == 403
    assert asked(client.post(at, {"hide_models": True}), 202)["state"] == "writing"
    writing.write(Import.objects.get().pk)
    assert Example.objects.count() == 1
    assert Project.objects.get(pk=project.pk).hide_models


def test_models_of_an_endpoint_and_files_for_other_tools(client, project, owner, round_):
    found = asked(client.get(f"{HERE}/models"))
    assert (found["endpoint"], len(found["models"])) == ("local", 1)
    assert "local" in found["endpoints"]
    assert (
        "no endpoint nowhere" in asked(client.get(f"{HERE}/models?endpoint=nowhere"), 422)["detail"]
    )
    tasks = json.loads(b"".join(client.get(f"{HERE}/for/label_studio.json")))
    assert len(tasks) == 3
    assert set(tasks[0]["data"]) >= {"question", "response_a", "external_id"}
    assert project.exports.get().what == "label_studio"
    assert asked(client.get(f"{HERE}/for/alpaca_eval.json"), 422)["code"] == "refused"


def test_only_owners_read_what_people_of_a_panel_said(client, token_for, project, round_):
    crowd = TERMS | {"questions": ["text: What do you work as?"]}
    asked(client.post(f"{HERE}/rounds/1/crowd", crowd))
    ids = crowds.PanelIds("w1", "study", "session-of-w1-long-enough")
    crowds.begin(round_.crowd_link, ids, {"What do you work as?": "baker"})
    at = f"{HERE}/people.csv?background=true"
    assert b"baker" in b"".join(client.get(at))
    rosa = token_for(make_member(project, Role.RESEARCHER, "rosa"))
    assert rosa.get(at).status_code == 403
    assert b"baker" not in b"".join(rosa.get(f"{HERE}/people.csv"))


def test_a_plot_is_a_file_for_a_paper(client, project, round_):
    run = make_run(project)
    for example in project.examples.all():
        make_verdict(run, example, 0.5)
    refused = asked(client.get(f"{HERE}/runs/{run.number}/plots/none.svg"), 422)
    name = refused["detail"].partition("Plots: ")[2].rstrip(".").split(", ")[0]
    drawn = client.get(f"{HERE}/runs/{run.number}/plots/{name}.svg")
    assert (drawn["Content-Type"], b"<svg" in drawn.content[:500]) == ("image/svg+xml", True)


def test_observers_read_by_pseudonym_and_owners_give_new_roles(client, token_for, project, round_):
    oona = make_member(project, Role.RESEARCHER, "oona")
    number = project.memberships.get(user=oona).pk
    made = asked(client.post(f"{HERE}/members/{number}/role", {"role": "observer"}))
    assert made["role"] == "observer"
    invited = asked(client.post(f"{HERE}/invitations", {"role": "reviewer"}), 201)
    assert invited["role"] == "reviewer"
    hers = token_for(oona)
    assert hers.get(f"{HERE}/tables/people").status_code == 200
    for path in ("tables/people?names=true", "people.csv?names=true", "people.csv?background=true"):
        assert hers.get(f"{HERE}/{path}").status_code == 403, path
    assert hers.get(f"{HERE}/rounds").status_code == 403
