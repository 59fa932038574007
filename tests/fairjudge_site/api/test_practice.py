"""Training, qualifications and pairs that come again by API and by command, as pages have them."""

import json

import pytest
from django.contrib.messages import get_messages
from django.core.management import CommandError, call_command
from django.urls import reverse

from annotation.models import Draft, Round
from annotation.queue.queue import claim_next
from annotation.votes.voting import record_vote
from judging.dataset.models import Example
from judging.projects.models import AuditEvent
from tests.factories import make_annotator, make_examples

pytestmark = [pytest.mark.django_db, pytest.mark.databases]


@pytest.fixture
def pools(project):
    for check_for in ("training", "qualification"):
        make_examples(project, 4, is_check=True, gold_label="win", check_for=check_for)
    make_examples(project, 3)


def answered(round_, person, right):
    draft = claim_next(round_, person, again=True)
    side = draft.left_response if right else 3 - draft.left_response
    record_vote(draft, {"overall": "left" if side == 1 else "right"})


def test_rounds_are_opened_and_their_results_read_by_api(token_for, owner, project, pools):
    fj, ana = token_for(owner), make_annotator(project, "ana")
    rounds = f"projects/{project.slug}/rounds"
    made = fj.post(rounds, {"kind": "training", "pairs": 2})
    assert (made.status_code, made.json()["kind"]) == (202, "training")
    exam = {"kind": "qualification", "pairs": 2, "tries": 2, "pass_mark": "50", "after": 1}
    assert fj.post(rounds, exam).json()["after"] == 1
    real = {"everything": True, "votes": 1, "after": 2, "repeat_percent": 50, "repeat_after": 1}
    assert fj.post(rounds, real).json() | {"opened_at": ""} == {
        "number": 3, "kind": "routed", "after": 2, "state": "opening", "stage": "only", "run": None,
        "votes_per_item": 1, "frame_size": 3, "frame": None, "opened_at": "", "closed_at": None,
    }  # fmt: skip
    training, qualification, third = Round.objects.order_by("number")
    assert third.parameters["repeat_percent"] == third.repeat_percent == 50
    answered(training, ana, True)
    answered(training, ana, False)
    for right in (False, False, True, False):
        answered(qualification, ana, right)
    said = fj.get(f"{rounds}/2/practice").json()
    (person,) = said.pop("people")
    assert said == {
        "kind": "qualification", "pairs": 2, "pass_mark": "50", "tries": 2,
        "passed": 1, "failed": 0,
    }  # fmt: skip
    assert (person["annotator"], person["state"], person["answered"]) == (ana.number, "passed", 4)
    assert [(one["right"], one["passed"]) for one in person["results"]] == [(0, False), (1, True)]
    assert isinstance(claim_next(third, ana), Draft)
    for wrong, said in (
        ({"kind": "training", "everything": True}, "no β"),
        ({"kind": "qualification"}, "how many pairs"),
        ({"everything": True, "after": 9}, "no round 9"),
        ({"everything": True, "after": 3}, "nobody can pass it"),
    ):
        refused = fj.post(rounds, wrong)
        assert refused.status_code in (409, 422), refused.json()
        assert said in refused.json()["detail"]
    assert fj.post(f"{rounds}/plan", {"kind": "training"}).status_code == 422
    assert Round.every.count() == 3


def test_rounds_are_opened_by_command(project, pools, capsys):
    call_command("open_round", project.slug, "--train", "--json")
    said = json.loads(capsys.readouterr().out)
    assert (said["round"], said["kind"], said["items"]) == (1, "training", 4)
    options = ["--qualify", "2", "--pass-mark", "75", "--tries", "2", "--after", "1"]
    call_command("open_round", project.slug, *options)
    assert "Round 2 (qualification) is open: 4 pairs" in capsys.readouterr().out
    options = ["--all", "--after", "2", "--repeat", "20", "--repeat-after", "5"]
    call_command("open_round", project.slug, *options)
    first, second, third = Round.objects.order_by("number")
    assert (second.after, third.after) == (first, second)
    assert (second.parameters["pass_mark"], second.parameters["tries"]) == ("75", 2)
    assert (third.repeat_percent, third.parameters["repeat_after"]) == (20, 5)
    for wrong in (["--all", "--tries", "2"], ["--train"], ["--all", "--after", "7"]):
        with pytest.raises(CommandError):
            call_command("open_round", project.slug, *wrong)


def test_pages_open_rounds_and_change_what_people_are_told(as_owner, owner, project, pools):
    page = reverse("practice", args=[project.slug])
    assert "4 pairs for training" in as_owner.get(page).content.decode()
    refused = as_owner.post(page, {"kind": "qualification", "pairs": 3, "tries": 2})
    assert refused.status_code == 422
    assert "6 are needed" in refused.content.decode()
    assert as_owner.post(page, {"kind": "training"}).status_code == 302
    training = Round.objects.get()
    fields = {"kind": "qualification", "pairs": 2, "pass_mark": 50, "after": training.pk}
    assert as_owner.post(page, fields).status_code == 302
    assert Round.objects.get(number=2).after == training
    shown = as_owner.get(reverse("round", args=[project.slug, 2])).content.decode()
    assert "People who answer 50" in shown
    plan = {"how": "all", "votes": 1, "after": Round.objects.get(number=2).pk}
    plan |= {"repeat_percent": 10, "repeat_after": 4}
    assert as_owner.post(reverse("plan", args=[project.slug]), plan).status_code == 302
    third = Round.objects.get(number=3)
    assert (third.after.number, third.repeat_percent) == (2, 10)
    ana = make_annotator(project, "ana")
    answered(training, ana, True)
    for number in (1, 2, 3):
        assert as_owner.get(reverse("round", args=[project.slug, number])).status_code == 200
        assert (
            as_owner.get(reverse("round_standing", args=[project.slug, number])).status_code == 200
        )
    example = Example.objects.filter(check_for="training").first()
    where = reverse("example_check", args=[project.slug, example.pk])
    fields = {"check_for": "training", "gold_label": "win", "explanation": "Since it is."}
    as_owner.post(where, fields)
    example.refresh_from_db()
    assert example.explanation == "Since it is."
    assert AuditEvent.objects.filter(action="check changed").count() == 1
    other = as_owner.post(where, fields | {"gold_label": "lose"})
    assert "A round already asks about this pair" in told(other)
    example.refresh_from_db()
    assert example.gold_label == "win"
    plain = Example.objects.filter(is_check=False).first()
    where = reverse("example_check", args=[project.slug, plain.pk])
    assert "This example isn't a check" in told(as_owner.post(where, fields))


def told(response):
    return " ".join(str(one) for one in get_messages(response.wsgi_request))
