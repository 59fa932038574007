"""What programs can do besides: settings, the primary run, people of a round, files, and HEAD."""

import io
import json
from decimal import Decimal

import jsonschema_rs
import pyarrow.parquet as parquet
import pytest

from annotation.models import Item, Seat
from annotation.results.demo import finished_study
from annotation.rounds.opening import RoundSettings, open_round
from fairjudge_site.api import tables
from fairjudge_site.api.reference import document
from fairjudge_site.api.urls import api
from judging.dataset.models import HumanScore
from judging.projects.models import AuditEvent, Export, Project
from judging.runs.models import Call
from tests.factories import (
    make_annotator,
    make_examples,
    make_member,
    make_run,
    make_verdict,
    make_vote,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def client(token_for, owner, settings, tmp_path):
    settings.MEDIA_ROOT = tmp_path
    return token_for(owner)


@pytest.fixture
def judged(project):
    """Four judged examples of two categories, and one vote on each."""
    run = make_run(project)
    project.primary_run = run
    project.save()
    for number, example in enumerate(make_examples(project, 4)):
        example.category = "odd" if number % 2 else "even"
        example.save()
        make_verdict(
            run, example, 0.25, rank=number + 1, usd=Decimal("0.0123456789"),
            label="lose" if number == 3 else "win",
        )  # fmt: skip
    round_ = open_round(project, None, run, RoundSettings(everything=True, votes=1, seed=1))
    person = make_annotator(project, "ana")
    for item in Item.objects.order_by("example__number")[:2]:
        make_vote(item, person, "lose")
    return round_


def test_settings_that_are_sent_change_and_others_stay(client, project):
    before = client.get("projects/vicuna/settings").json()
    changed = client.ask(
        "PATCH", "projects/vicuna/settings",
        {"question_asked": "Which helps?", "criteria": ["clarity"], "wage_usd": "12.5",
         "both_bad": True},
    )  # fmt: skip
    assert changed.status_code == 200
    now = client.get("projects/vicuna/settings").json()
    assert now == changed.json()
    assert now == before | {
        "question_asked": "Which helps?", "criteria": ["clarity"], "wage_usd": "12.5000",
        "both_bad": True,
    }  # fmt: skip
    assert client.ask("PATCH", "projects/vicuna/settings", {"both_bad": False}).status_code == 200
    project.refresh_from_db()
    assert (project.both_bad, project.wage_usd) == (False, Decimal("12.5"))
    event = AuditEvent.objects.filter(action="settings changed").first()
    assert event.detail["question_asked"]["now"] == "Which helps?"


def test_the_rule_of_the_overall_answer_is_set_and_read(client, project):
    rule = {"overall_from": "weighted", "criterion_weights": {"tone": 1, "accuracy": "2.5"},
            "tie_margin": "0.5", "criteria": ["accuracy", "tone"]}  # fmt: skip
    changed = client.ask("PATCH", "projects/vicuna/settings", rule)
    assert changed.status_code == 200
    now = changed.json()
    assert now["criterion_weights"] == {"accuracy": "2.5", "tone": "1"}
    project.refresh_from_db()
    assert project.criteria_rule.to_json()["weights"] == ["2.5", "1"]
    body = {"criteria": ["accuracy"]}
    refused = client.ask("PATCH", "projects/vicuna/settings", body)
    assert "Remove what isn't a criterion: tone" in refused.json()["detail"]


@pytest.mark.parametrize(
    "body",
    [{"wage_usd": -1}, {"scale": "seven"}, {"name": ""}, {"criteria": ["a\nb\0"]},
     {"criteria": [f"c{n}" for n in range(13)]}, {"name": "   "},
     {"overall_from": "lexicographic"}, {"tie_margin": -1}],
)  # fmt: skip
def test_settings_that_can_not_be_are_refused_by_field(client, project, body):
    refused = client.ask("PATCH", "projects/vicuna/settings", body)
    assert (refused.status_code, refused.json()["code"]) == (422, "field_unusable")
    assert refused.json()["field"].startswith(f"body.{next(iter(body))}")
    assert Project.objects.get(pk=project.pk).name == project.name


def test_the_primary_run_is_chosen(client, project, judged):
    other = make_run(project)
    refused = client.post(f"projects/vicuna/runs/{other.number}/primary")
    assert (refused.status_code, "no verdicts" in refused.json()["detail"]) == (422, True)
    make_verdict(other, project.examples.first(), 0.5)
    assert client.post(f"projects/vicuna/runs/{other.number}/primary").status_code == 200
    assert client.get("projects/vicuna").json()["primary_run"] == other.number


def test_a_budget_is_changed(client, project):
    price = {"prompt": "1", "completion": "2", "source": "given"}
    run = make_run(project, state="paused", price=price)
    changed = client.post(f"projects/vicuna/runs/{run.number}/budget", {"budget_usd": "2.5"})
    assert (changed.status_code, changed.json()["budget_usd"]) == (200, "2.500000")
    free = make_run(project, state="paused")
    refused = client.post(f"projects/vicuna/runs/{free.number}/budget", {"budget_usd": "2.5"})
    assert (refused.status_code, refused.json()["code"]) == (422, "refused")


def test_people_are_assigned_to_a_round(client, project):
    make_examples(project, 2)
    open_round(project, None, None, RoundSettings(everything=True, votes=1, seed=1))
    ana = make_annotator(project, "ana")
    address = "projects/vicuna/rounds/1/people"
    assert client.post(address, {"annotators": [ana.number], "limit": 2}).status_code == 200
    assert list(Seat.objects.values_list("annotator", "limit")) == [(ana.pk, 2)]
    refused = client.post(address, {"annotators": [99]})
    assert (refused.status_code, refused.json()["field"]) == (422, "body.annotators")
    assert client.post(address, {"annotators": []}).status_code == 200
    assert not Seat.objects.filter(limit=2).exists()


def test_recorded_judgments_become_a_run_once(client, project):
    make_examples(project, 2)
    rows = b"".join(
        json.dumps({"external_id": f"e{n}", "order": order, "outcome": "win"}).encode() + b"\n"
        for n in range(2)
        for order in ("original", "swapped")
    )
    key = {"Idempotency-Key": "j"}
    made = client.post("projects/vicuna/judgments?name=published", rows, **key)
    assert made.status_code == 201
    assert (
        client.post("projects/vicuna/judgments?name=published", rows, **key).json() == made.json()
    )
    run = client.get(made["Location"]).json()
    assert (run["name"], run["state"], run["ranked"]) == ("published", "done", True)
    assert Call.objects.count() == 4
    bad = client.post("projects/vicuna/judgments", b'{"external_id": "x", "outcome": "win"}\n')
    assert (bad.status_code, "Nothing was imported" in bad.json()["detail"]) == (422, True)


def test_scores_of_single_responses_are_imported(client, project):
    row = (
        b'{"external_id": "p", "input": "Q", "output": "A", "model": "m", "criterion": "fluency",'
        b' "rater": "r", "value": 3}\n'
    )
    assert client.post("projects/vicuna/scores", row).json() == {
        "items": 1, "added": 1, "known": 0, "conflicts": [],
    }  # fmt: skip
    assert client.post("projects/vicuna/scores", row).json()["known"] == 1
    assert HumanScore.objects.count() == 1


def read(response):
    return parquet.read_table(io.BytesIO(b"".join(response)))


def test_a_parquet_file_has_the_rows_and_types_of_the_table(client, judged):
    table = read(client.get("projects/vicuna/labels.parquet"))
    lines = b"".join(client.get("projects/vicuna/labels.jsonl")).splitlines()
    rows = [json.loads(line) for line in lines]
    assert table.column_names == list(rows[0])
    found = table.to_pylist()
    for name in ("external_id", "final_label", "source", "bpde", "rank", "n_votes"):
        assert [row[name] for row in found] == [row[name] for row in rows]
    assert [row["judge_usd"] for row in found] == [Decimal("0.0123456789")] * 4
    kinds = {field.name: str(field.type) for field in table.schema}
    assert (kinds["rank"], kinds["bpde"], kinds["question"]) == ("int64", "double", "string")
    assert kinds["judge_usd"] == "decimal128(38, 18)"
    votes = read(client.get("projects/vicuna/votes.parquet"))
    assert str(votes.schema.field("submitted_at").type) == "timestamp[us, tz=UTC]"
    assert votes.num_rows == 2
    preferences = read(client.get("projects/vicuna/preferences.parquet"))
    assert preferences.num_rows == 4
    assert read(client.get("projects/vicuna/samples.parquet")).num_rows == 0
    assert [row["format"] for row in client.get("projects/vicuna/exports").json()["items"]] == [
        "parquet", "jsonl", "parquet", "parquet", "parquet",
    ]  # fmt: skip
    assert Export.objects.first().n_rows == 4


def test_a_parquet_file_has_what_may_be_added_to_other_files(client, judged, monkeypatch):
    asked = []
    monkeypatch.setattr(tables, "export", lambda *of: asked.append(of[-1]) or iter(()))
    for kind in ("parquet", "jsonl"):
        assert client.get(f"projects/vicuna/labels.{kind}?model=dawid_skene").status_code == 200
        assert client.get(f"projects/vicuna/people.{kind}?background=true").status_code == 200
    assert [(one.model, one.background) for one in asked] == 2 * [
        ("dawid_skene", False),
        ("", True),
    ]
    refused = client.get("projects/vicuna/labels.parquet?model=another")
    assert refused.status_code == 422


def test_a_large_parquet_file_comes_in_groups(client, judged, monkeypatch):
    monkeypatch.setattr("annotation.results.tables.typed._ROWS_A_GROUP", 3)
    response = client.get("projects/vicuna/labels.parquet")
    pieces = list(response)
    assert len(pieces) == 3
    file = parquet.ParquetFile(io.BytesIO(b"".join(pieces)))
    assert (file.num_row_groups, file.metadata.num_rows) == (2, 4)


@pytest.mark.parametrize(
    ("table", "query", "ids"),
    [
        ("labels", "category=odd", ["e1", "e3"]),
        ("labels", "final_label=win", ["e2"]),
        ("labels", "source=judge&category=even", ["e2"]),
        ("labels", "external_id=e1", ["e1"]),
        ("votes", "label=lose&external_id=e0", ["e0"]),
        ("votes", "annotator=nobody", []),
        ("preferences", "source=judge", ["e2", "e3"]),
    ],
)
def test_filters_leave_rows_out_of_pages_and_streams(client, judged, table, query, ids):
    page = client.get(f"projects/vicuna/tables/{table}?{query}").json()
    assert [row["external_id"] for row in page["items"]] == ids
    lines = b"".join(client.get(f"projects/vicuna/{table}.jsonl?{query}")).splitlines()
    assert [json.loads(line)["external_id"] for line in lines] == ids
    assert Export.objects.get().n_rows == len(ids)
    assert Export.objects.get().options["values"]


def test_pages_of_filtered_rows_follow_each_other(client, judged):
    first = client.get("projects/vicuna/tables/labels?category=odd&limit=1").json()
    second = client.get(
        f"projects/vicuna/tables/labels?category=odd&limit=1&cursor={first['next_cursor']}"
    ).json()
    assert [row["external_id"] for row in first["items"] + second["items"]] == ["e1", "e3"]
    assert second["next_cursor"] is None


def test_a_filter_that_the_table_has_no_column_for_is_refused(client, judged):
    refused = client.get("projects/vicuna/votes.jsonl?category=odd")
    assert (refused.status_code, refused.json()["code"]) == (422, "refused")
    assert "no column category" in refused.json()["detail"]


def test_head_has_the_headers_of_get_and_no_body(client, judged, project):
    for path in ("projects/vicuna", "projects/vicuna/runs", "projects/vicuna/tables/labels"):
        got, head = client.get(path), client.ask("HEAD", path)
        assert (head.status_code, head.content) == (200, b"")
        assert head["ETag"] == got["ETag"]
        assert head["Content-Length"] == str(len(got.content))
        assert client.ask("HEAD", path, **{"If-None-Match": got["ETag"]}).status_code == 304
    assert client.ask("HEAD", "projects/unknown").status_code == 404
    assert client.ask("HEAD", "projects/vicuna/runs/1/pause").status_code == 405
    assert client.ask("HEAD", "projects/vicuna/labels.csv").status_code == 200
    assert not Export.objects.exists()


def validator(path):
    """Checks an answer against what the schema says of it."""
    schema = document(api)
    content = schema["paths"][f"/api/v1/{path}"]["get"]["responses"]["200"]["content"]
    described = content["application/json"]["x-report"]
    return jsonschema_rs.validator_for(described | {"x-reports": schema["x-reports"]})


@pytest.mark.system
def test_a_report_is_as_its_schema_says(token_for, settings):
    project = finished_study()
    client = token_for(make_member(project, "owner"))
    project.refresh_from_db()
    for run in project.runs.all():
        address = f"projects/{project.slug}/runs/{run.number}"
        report = client.get(f"{address}/report")
        assert report.status_code == 200
        validator("projects/{slug}/runs/{number}/report").validate(report.json())
        part = client.get(f"{address}/certificate").json()
        validator("projects/{slug}/runs/{number}/certificate").validate(part)
    people = client.get(f"projects/{project.slug}/report/people").json()
    validator("projects/{slug}/report/people").validate(people)


@pytest.mark.system
def test_the_schema_of_a_report_finds_a_key_that_is_missing_or_has_another_type(token_for):
    project = finished_study()
    client = token_for(make_member(project, "owner"))
    report = client.get(f"projects/{project.slug}/runs/1/report").json()
    check = validator("projects/{slug}/runs/{number}/report")
    assert not check.is_valid({key: part for key, part in report.items() if key != "cost"})
    assert not check.is_valid(report | {"coverage": report["coverage"] | {"examples": "80"}})
    assert not check.is_valid(report | {"methods": [{}]})


def test_a_report_of_a_small_project_is_as_its_schema_says(client, judged):
    report = client.get("projects/vicuna/runs/1/report").json()
    validator("projects/{slug}/runs/{number}/report").validate(report)
