"""Examples, runs, rounds, votes and tables by the interface, from pairs to labels."""

import json

import pytest

from annotation.models import Item, Round, Vote
from annotation.results.report import cache
from judging.dataset import writing
from judging.dataset.models import Example, Import
from judging.projects.models import AuditEvent, Export
from judging.runs.models import Run
from tests.factories import make_examples, make_run, make_verdict

pytestmark = pytest.mark.django_db


def lines(*rows) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def pair(name, response="a", **more):
    return {
        "external_id": name, "question": f"Q {name}?", "response_1": response, "response_2": "b",
        "model_1": "maple-7b", "model_2": "birch-3b",
    } | more  # fmt: skip


@pytest.fixture(autouse=True)
def media(settings, tmp_path):
    settings.MEDIA_ROOT = tmp_path
    return tmp_path


@pytest.fixture
def as_owner(token_for, owner):
    return token_for(owner)


def written(client, response):
    """The import, as a worker has written it."""
    assert response.status_code == 202, response.content
    writing.write(Import.objects.get(number=response.json()["number"]).pk)
    return client.get(response["Location"]).json()


def test_examples_come_in_once_however_often_they_are_sent(as_owner, project):
    rows = lines(pair("a"), pair("b"))
    first = written(as_owner, as_owner.post("projects/vicuna/examples", rows))
    assert (first["state"], first["written"], first["known"]) == ("done", 2, 0)
    again = written(as_owner, as_owner.post("projects/vicuna/examples", rows))
    assert (again["written"], again["known"]) == (0, 2)
    changed = lines(pair("b", "other"), pair("c"))
    third = written(as_owner, as_owner.post("projects/vicuna/examples", changed))
    assert (third["written"], third["conflicts"]) == (1, 1)
    assert "b" in third["conflicting"][0]
    assert Example.objects.get(external_id="b").response_1 == "a"


def test_conversations_go_in_and_come_out_as_they_were(as_owner, project):
    lists = {
        "question": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "?"}],
        "response_1": [{"role": "assistant", "content": [{"type": "text", "text": "Yes."}]}],
    }
    rows = lines(pair("c", **lists), pair("d"))
    written(as_owner, as_owner.post("projects/vicuna/examples", rows))
    chat, plain = as_owner.get("projects/vicuna/examples").json()["items"]
    assert chat["fairjudge_conversation"] == lists
    assert (chat["question"], chat["response_1"]) == ("System:\nBe brief.\n\nUser:\n?", "Yes.")
    assert plain["fairjudge_conversation"] is None
    again = written(as_owner, as_owner.post("projects/vicuna/examples", lines(chat, plain)))
    assert (again["written"], again["known"], again["conflicts"]) == (0, 2, 0)


def test_an_invalid_line_is_named_and_nothing_is_imported(as_owner, project, media):
    rows = lines(pair("a"), pair("b", gold_label="maybe")) + b"{broken\n"
    refused = as_owner.post("projects/vicuna/examples", rows)
    problem = refused.json()
    assert (refused.status_code, problem["code"]) == (422, "rows_invalid")
    assert [error["line"] for error in problem["errors"]] == [2, 3]
    assert problem["errors"][0]["field"] == "gold_label"
    assert not Import.objects.exists()
    assert not [path for path in media.rglob("*") if path.is_file()]
    done = written(as_owner, as_owner.post("projects/vicuna/examples?skip_invalid=true", rows))
    assert (done["written"], done["refused"]) == (1, 2)


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"{}", "application/json", 422),
        (b"{}", "text/html", 415),
        (b"a", "multipart/form-data; boundary=x", 415),
        (b"", "application/x-ndjson", 422),
        (b"\xff\xfe\x00", "text/csv", 422),
    ],
)
def test_what_is_no_table_is_refused(as_owner, project, body, kind, status):
    refused = as_owner.post("projects/vicuna/examples", body, **{"Content-Type": kind})
    assert refused.status_code == status
    assert not Import.objects.exists()


def test_a_body_over_the_limit_is_refused(as_owner, project, settings, media):
    settings.FAIRJUDGE_MAX_UPLOAD_BYTES = 1000
    refused = as_owner.post("projects/vicuna/examples", lines(*[pair(str(n)) for n in range(99)]))
    assert (refused.status_code, refused.json()["code"]) == (413, "too_large")
    assert not Import.objects.exists()


def test_an_upload_with_a_key_is_recorded_once(as_owner, project, media):
    rows, key = lines(pair("a")), {"Idempotency-Key": "up"}
    first = as_owner.post("projects/vicuna/examples", rows, **key)
    again = as_owner.post("projects/vicuna/examples", rows, **key)
    assert (again.status_code, again.content) == (202, first.content)
    assert Import.objects.count() == 1
    assert len([path for path in media.rglob("*") if path.is_file()]) == 1
    other = as_owner.post("projects/vicuna/examples", lines(pair("z")), **key)
    assert other.status_code == 409


def test_examples_are_listed_by_pages_and_filters(as_owner, project):
    make_examples(project, 7)
    page = as_owner.get("projects/vicuna/examples?limit=5").json()
    assert len(page["items"]) == 5
    rest = as_owner.get(f"projects/vicuna/examples?limit=5&cursor={page['next_cursor']}").json()
    assert (len(rest["items"]), rest["next_cursor"]) == (2, None)
    name = page["items"][3]["external_id"]
    only = as_owner.get(f"projects/vicuna/examples?external_id={name}").json()["items"]
    assert [row["external_id"] for row in only] == [name]
    assert as_owner.get("projects/vicuna/examples?model=nobody").json()["items"] == []
    assert as_owner.get("projects/vicuna/examples?category=%00").status_code == 422


JUDGE = {"endpoint": "local", "model": "smollm2", "k": 1}


@pytest.fixture
def starter(token_for, project, outsider):
    project.memberships.create(user=outsider, role="researcher")
    make_examples(project, 3)
    return token_for(outsider)


def test_a_run_is_estimated_started_paused_and_cancelled(starter, project):
    cost = starter.post("projects/vicuna/runs/estimate", JUDGE).json()
    assert (cost["examples"], cost["calls"], cost["model"]) == (3, 6, "smollm2")
    assert not Run.objects.exists()
    key = {"Idempotency-Key": "r"}
    started = starter.post("projects/vicuna/runs", JUDGE, **key)
    assert (started.status_code, started.json()["state"]) == (202, "queued")
    again = starter.post("projects/vicuna/runs", JUDGE, **key)
    assert again.content == started.content
    assert Run.objects.count() == 1
    where = started["Location"]
    standing = starter.get(where).json()
    assert (standing["expected"], standing["settled"]) == (6, 0)
    assert starter.post(f"{where}/pause").json()["state"] == "paused"
    assert starter.post(f"{where}/resume", {}).json()["state"] == "queued"
    assert starter.post(f"{where}/cancel").json()["state"] == "cancelled"
    refused = starter.post("projects/vicuna/runs", JUDGE | {"name": started.json()["name"]})
    assert (refused.status_code, refused.json()["code"]) == (422, "refused")
    assert starter.get(f"{where}/report").status_code == 422
    assert {"run started", "run paused"} <= set(
        AuditEvent.objects.filter(actor="otto").values_list("action", flat=True)
    )


def test_a_run_that_is_not_made_leaves_no_answer(starter, project, monkeypatch):
    from fairjudge_site.api import gate

    def crash(*args):
        raise RuntimeError("the process is gone")

    key = {"Idempotency-Key": "r"}
    with monkeypatch.context() as patched:
        patched.setattr(gate, "_keep", crash)
        assert starter.post("projects/vicuna/runs", JUDGE, **key).status_code == 500
    assert not Run.objects.exists()
    assert starter.post("projects/vicuna/runs", JUDGE, **key).status_code == 202


@pytest.mark.parametrize(
    "wrong", [{"k": 0}, {"seed": 2**40}, {"endpoint": "nowhere"}, {"method": "magic"}, {"k": "x"}]
)
def test_a_run_that_cannot_be_is_refused(starter, project, wrong):
    refused = starter.post("projects/vicuna/runs", JUDGE | wrong)
    assert refused.status_code == 422
    assert refused["Content-Type"] == "application/problem+json"
    assert not Run.objects.exists()


def test_a_round_is_planned_opened_and_steered(as_owner, project):
    make_examples(project, 4)
    plan = as_owner.post("projects/vicuna/rounds/plan", {"everything": True, "votes": 2}).json()
    assert (plan["selected"], plan["new_votes"], plan["problems"]) == (4, 8, [])
    assert not Round.every.exists()
    key = {"Idempotency-Key": "o"}
    opened = as_owner.post("projects/vicuna/rounds", {"everything": True, "seed": 1}, **key)
    assert opened.status_code == 202
    again = as_owner.post("projects/vicuna/rounds", {"everything": True, "seed": 1}, **key)
    assert again.content == opened.content
    assert Round.every.count() == 1
    where = opened["Location"]
    standing = as_owner.get(where).json()
    assert (standing["state"], standing["items"], standing["votes_asked"]) == ("open", 4, 12)
    assert as_owner.post(f"{where}/pause").json()["state"] == "paused"
    twice = as_owner.post(f"{where}/pause")
    assert twice.status_code == 422
    assert as_owner.post(f"{where}/resume").json()["state"] == "open"
    assert as_owner.post(f"{where}/votes", {"votes": 5}).json()["votes_per_item"] == 5
    assert as_owner.post(f"{where}/extend", {"beta": 50}).status_code == 422
    assert as_owner.post(f"{where}/close").json()["state"] == "closed"
    assert as_owner.post(f"{where}/reopen").json()["state"] == "open"
    both = as_owner.post("projects/vicuna/rounds", {"everything": True, "beta": 20})
    assert (both.status_code, both.json()["field"]) == (422, "body.beta")


def test_votes_come_in_and_go_out_with_the_labels(as_owner, project):
    names = [one.external_id for one in make_examples(project, 3)]
    votes = lines(*({"external_id": name, "label": "win", "annotator": "zoe"} for name in names))
    added = as_owner.post("projects/vicuna/votes", votes)
    assert (added.status_code, added.json()["added"]) == (201, 3)
    again = as_owner.post("projects/vicuna/votes", votes).json()
    assert (again["added"], again["known"]) == (0, 3)
    assert Vote.objects.count() == 3
    wrong = as_owner.post("projects/vicuna/votes", lines({"external_id": "?", "label": "win"}))
    assert wrong.status_code == 422
    stream = as_owner.get("projects/vicuna/votes.jsonl")
    rows = [json.loads(line) for line in b"".join(stream).splitlines()]
    assert [row["external_id"] for row in rows] == names
    assert stream["Content-Type"] == "application/x-ndjson"
    page = as_owner.get("projects/vicuna/tables/votes?limit=2").json()
    assert page["items"] == rows[:2]
    cursor = page["next_cursor"]
    rest = as_owner.get(f"projects/vicuna/tables/votes?limit=2&cursor={cursor}").json()
    assert (rest["items"], rest["next_cursor"]) == (rows[2:], None)
    csv = b"".join(as_owner.get("projects/vicuna/labels.csv")).decode()
    assert csv.startswith("external_id,")
    assert Export.objects.count() == 2
    assert as_owner.get("projects/vicuna/samples.csv").status_code == 422
    assert as_owner.get("projects/vicuna/nothing.csv").status_code == 422


def test_a_decision_settles_an_item(as_owner, project):
    make_examples(project, 1)
    where = as_owner.post("projects/vicuna/rounds", {"everything": True})["Location"]
    name = Example.objects.get().external_id
    body = {"external_id": name, "label": "tie", "reason": "Both say the same."}
    early = as_owner.post(f"{where}/decisions", body)
    assert "waiting for votes" in early.json()["detail"]
    Item.objects.update(state=Item.State.ADJUDICATE)
    done = as_owner.post(f"{where}/decisions", body)
    assert (done.status_code, done.json()["label"]) == (201, "tie")
    assert as_owner.post(f"{where}/decisions", body | {"external_id": "?"}).status_code == 404


def test_the_report_and_its_certificate_are_those_of_the_command(as_owner, project, monkeypatch):
    # Also of many examples, if there is no worker to wait for.
    monkeypatch.setattr(cache, "MOST_AT_ONCE", 2)
    run = make_run(project)
    for example in make_examples(project, 3):
        make_verdict(run, example, 0.5)
    Run.objects.update(ranked_at="2026-01-01T00:00:00Z", state="done")
    report = as_owner.get("projects/vicuna/runs/1/report")
    assert report.status_code == 200, report.content
    assert report.json()["run"]["number"] == 1
    certificate = as_owner.get("projects/vicuna/runs/1/certificate").json()
    assert certificate == report.json()["certificate"]


def test_what_people_say_is_reported_without_a_run(as_owner, project):
    make_examples(project, 2)
    where = "projects/vicuna/report/people"
    refused = as_owner.get(where)
    assert (refused.status_code, refused.json()["code"]) == (422, "refused")
    votes = lines(
        {"external_id": "e0", "label": "win", "annotator": "ann"},
        {"external_id": "e0", "label": "win", "annotator": "bob"},
    )
    assert as_owner.post("projects/vicuna/votes", votes).status_code == 201
    found = as_owner.get(where).json()
    assert (found["run"], found["voted"], found["labels"]["win"]) == (None, 1, 1)
    assert found["people"]["agreement"]["n"] == 1


def test_owners_invite_and_withdraw(as_owner, project):
    made = as_owner.post("projects/vicuna/invitations", {"uses": 2, "note": "team"})
    assert made.status_code == 201
    assert "/join/" in made.json()["link"]
    listed = as_owner.get("projects/vicuna/invitations").json()["items"]
    # A link is signed with the time at which it is shown.
    assert listed == [made.json()]
    as_owner.post(f"projects/vicuna/invitations/{made.json()['id']}/revoke")
    assert as_owner.get("projects/vicuna/invitations").json()["items"] == []
    assert as_owner.post("projects/vicuna/invitations/9999999/revoke").status_code == 404
    assert as_owner.get("projects/vicuna/runs/99999999999").status_code == 422
