"""The table of people: what each figure is, by hand, and what never stands in it."""

import csv
import io

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from annotation.models import Item
from annotation.people import crowds
from annotation.people.annotators import annotator_named
from annotation.people.background import read_questions, written
from annotation.people.crowds import PanelIds
from annotation.people.personal_data import erase_person
from annotation.results.tables.exports import ExportRequest, export
from annotation.results.tables.people import PEOPLE_COLUMNS
from annotation.rounds.opening import RoundSettings, open_round
from judging.dataset.models import Example
from judging.projects.models import Membership, Project, Role
from tests.annotation.crowd import set_up
from tests.factories import make_annotator, make_examples, make_vote

pytestmark = [pytest.mark.django_db, pytest.mark.databases]


@pytest.fixture
def round_(project):
    make_examples(project, 4)
    return open_round(project, None, None, RoundSettings(everything=True, votes=3))


def rows_of(project, **options):
    data = b"".join(export(project, None, None, ExportRequest(what="people", **options)))
    return list(csv.DictReader(io.StringIO(data.decode())))


def items(round_):
    return list(Item.objects.filter(round=round_).select_related("example").order_by("example"))


def by_hand(round_, votes, **fields):
    """votes: by annotator, one letter an example, in order; a dot for none."""
    labels = {"w": "win", "t": "tie", "l": "lose"}
    for annotator, letters in votes.items():
        for item, letter in zip(items(round_), letters, strict=False):
            if letter != ".":
                make_vote(item, annotator, labels[letter], **fields)


def test_agreement_with_the_others_by_hand(project, round_):
    ana, ben, cia = (make_annotator(project, name) for name in ("ana", "ben", "cia"))
    by_hand(round_, {ana: "wwl.", ben: "wlt.", cia: "wl.w"})
    first, second, third = rows_of(project)
    # ana: others say w,w (agrees), l,l (not), t (not); the last is not hers.
    assert (float(first["agreement"]), first["agreement_n"]) == (pytest.approx(1 / 3), "3")
    # ben: others w,w; w,l have no majority; l.
    assert (float(second["agreement"]), second["agreement_n"]) == (0.5, "2")
    # cia: others w,w; w,l have none; nobody else voted on the last.
    assert (float(third["agreement"]), third["agreement_n"]) == (1.0, "1")


def test_hours_and_pay_by_the_rounds_rate(project, round_):
    round_.wage_usd, round_.minutes_per_vote = "12", "2"
    round_.save()
    ana = make_annotator(project, "ana")
    by_hand(round_, {ana: "ww"}, active_seconds=90.0)
    (row,) = rows_of(project)
    assert (row["votes"], row["active_seconds"], row["hours"]) == ("2", "180.0", "0.05")
    # Two votes of two minutes each at 12 USD an hour; measured, 0.05 hours.
    assert row["usd"] == "0.8"
    round_.cost_basis = Project.CostBasis.MEASURED
    round_.save()
    assert rows_of(project)[0]["usd"] == "0.6"


def test_checks_are_counted_and_are_no_agreement(project, round_):
    ana, ben = make_annotator(project, "ana"), make_annotator(project, "ben")
    Example.objects.filter(external_id__in=["e0", "e1"]).update(is_check=True, gold_label="win")
    by_hand(round_, {ana: "wlw.", ben: "..w."})
    first, second = rows_of(project)
    assert (first["checks"], first["checks_passed"], first["agreement_n"]) == ("2", "1", "1")
    assert (second["checks"], second["checks_passed"]) == ("0", "0")


def test_side_bias_is_a_share_with_its_number(project, round_):
    ana = make_annotator(project, "ana")
    for item, left in zip(items(round_), (1, 2, 1, 2), strict=True):
        # Always the response on the left.
        make_vote(item, ana, "win" if left == 1 else "lose", left_response=left)
    (row,) = rows_of(project)
    assert (row["left_rate"], row["left_n"]) == ("1.0", "4")
    # Fisher's exact test of [[2, 0], [0, 2]]: 2 of the 6 tables.
    assert float(row["left_p"]) == pytest.approx(1 / 3)


def test_self_agreement_where_an_example_was_asked_about_again(project, round_):
    ana = make_annotator(project, "ana")
    by_hand(round_, {ana: "wwt."})
    project.guidelines = "Other guidelines, the same question."
    project.save()
    again = open_round(project, None, None, RoundSettings(everything=True, votes=1))
    assert again.protocol != round_.protocol
    by_hand(again, {ana: "wl.."})
    (row,) = rows_of(project)
    assert (row["self_agreement"], row["self_agreement_n"], row["rounds"]) == ("0.5", "2", "2")


def test_groups(project, round_, owner):
    by_hand(round_, {make_annotator(project, "ana"): "w"})
    by_hand(round_, {annotator_named(project, "gpt"): "w"}, source="import", active_seconds=None)
    crowds.begin(set_up(round_, owner), PanelIds("w1", "s", "t"), {})
    member, imported, crowd = rows_of(project)
    assert [one["group"] for one in (member, imported, crowd)] == ["member", "imported", "crowd"]
    assert (imported["votes"], imported["imported_votes"], imported["usd"]) == ("0", "1", "0")
    assert imported["hours"] == ""
    assert (crowd["votes"], crowd["crowd_state"], member["crowd_state"]) == ("0", "working", "")


QUESTIONS = "choice: Do you read English? | yes | no!\ntext: Job?"


@pytest.fixture
def came(round_, owner):
    link = set_up(round_, owner, questions=written(read_questions(QUESTIONS)))
    answers = {"Do you read English?": "yes", "Job?": "=baker"}
    return crowds.begin(link, PanelIds("worker-secret", "study-secret", "session-secret"), answers)


@pytest.mark.parametrize("what", ["people", "votes", "labels"])
@pytest.mark.parametrize("names", [True, False])
def test_no_export_holds_the_panels_ids(project, round_, came, what, names):
    by_hand(round_, {came.annotator: "wwww"})
    wanted = ExportRequest(what=what, names=names, background=True)
    assert b"secret" not in b"".join(export(project, None, None, wanted))


def test_the_hash_is_the_same_for_a_person_and_goes_with_erasing(project, came):
    (row,) = rows_of(project)
    assert len(row["crowd_id"]) == 16
    assert rows_of(project)[0]["crowd_id"] == row["crowd_id"]
    erase_person(came.annotator.user, None)
    assert rows_of(project)[0]["crowd_id"] == ""


def test_answers_about_oneself_only_where_they_are_asked_for(project, came):
    (row,) = rows_of(project)
    assert set(row) == {*PEOPLE_COLUMNS, "fairjudge_escape"}
    (row,) = rows_of(project, background=True)
    assert row["background:Do you read English?"] == "yes"
    assert row["background:Job?"] == "'=baker"


def test_the_command_writes_it(project, came, tmp_path):
    path = tmp_path / "people.jsonl"
    call_command("export", project.slug, what="people", background=True, output=path)
    assert '"background:Job?": "=baker"' in path.read_text()
    assert project.exports.get().options["background"] is True
    with pytest.raises(CommandError, match="needs --what people"):
        call_command("export", project.slug, what="votes", background=True, output=path)


def test_a_researcher_gets_it_blind_and_without_answers(client, project, came, researcher):
    client.force_login(researcher)
    address = reverse("export", args=[project.slug])
    content = b"".join(client.post(address, {"what": "people"}))
    assert b"annotator-1" in content
    assert Membership.objects.get(user=researcher).unblinded_at is None
    assert client.post(address, {"what": "people", "background": "on"}).status_code == 403
    Membership.objects.filter(user=researcher).update(role=Role.OWNER)
    assert b"baker" in b"".join(client.post(address, {"what": "people", "background": "on"}))


def test_many_people_take_as_many_queries_as_one(project, round_, django_assert_num_queries):
    by_hand(round_, {make_annotator(project, "ana"): "w"})
    with CaptureQueriesContext(connection) as one:
        rows_of(project, background=True)
    by_hand(round_, {make_annotator(project, f"p{n}"): "www" for n in range(2)})
    with django_assert_num_queries(len(one)):
        assert len(rows_of(project, background=True)) == 3
