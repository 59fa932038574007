from decimal import Decimal

import pytest
from django.utils import timezone

from judging.projects.models import AuditEvent
from judging.runs.engine.working import work_on
from judging.runs.models import Batch, Run, Sample
from tests.factories import make_run, make_verdict
from tests.judging.runs.judging import ENDPOINT, judged, loopback, started
from tests.loopback import completion

# The engine works in threads of its own, which must see what the test wrote.
pytestmark = pytest.mark.django_db(transaction=True)

MODEL = "loopback-judge"


def test_pausing_stopping_and_resuming(act, project, examples, server):
    run = started(project, model=MODEL)
    act("run_pause")
    run.refresh_from_db()
    assert run.state == Run.State.PAUSED
    act("run_resume")
    run.refresh_from_db()
    assert run.state == Run.State.QUEUED
    act("run_cancel")
    act("run_cancel")
    run.refresh_from_db()
    assert run.state == Run.State.CANCELLED
    actions = AuditEvent.objects.order_by("pk").values_list("action", flat=True)
    assert list(actions)[-3:] == ["run paused", "run resumed", "run stopped"]
    assert AuditEvent.objects.get(action="run resumed").detail["budget"] is None


def test_a_status_is_asked_again_only_when_a_person_says_so(act, project, examples, settings):
    with loopback(settings, [completion("No.")]) as server:
        run = judged(project, method="ec", model=MODEL, concurrency=1)
        asked = server.requests
        act("run_resume")
        work_on(run)
        assert server.requests == asked
        act("run_resume", retry=["unparsed"], max_tokens="700")
        work_on(run)
        assert server.requests == asked + 1
    run.refresh_from_db()
    assert run.max_tokens == 700
    assert Sample.objects.filter(call__run=run, attempt=1).count() == 1


def test_a_status_that_cannot_be_asked_again_changes_nothing(act, project, examples, server):
    run = judged(project, k=2, model=MODEL)
    assert act("run_resume", retry=["valid"]).status_code == 422
    run.refresh_from_db()
    assert run.state == Run.State.DONE


def test_resuming_at_another_address_is_refused_with_the_reason(act, project, examples, settings):
    with loopback(settings):
        judged(project, model=MODEL)
    settings.FAIRJUDGE_ENDPOINTS = {ENDPOINT: {"base_url": "http://else/v1", "key_variable": ""}}
    response = act("run_resume")
    assert response.status_code == 422
    assert "Answers of two judges are never mixed" in response.content.decode()


def test_whoever_may_not_spend_can_stop_a_run_and_not_go_on(
    act, project, researcher, examples, server
):
    run = started(project, model=MODEL)
    researcher.user_permissions.clear()
    assert act("run_pause").status_code == 302
    assert act("run_resume").status_code == 403
    assert act("run_budget", budget="9").status_code == 403
    run.refresh_from_db()
    assert (run.state, run.budget_usd) == (Run.State.PAUSED, None)


def test_the_budget_is_raised_and_no_amount_is_refused(act, project, examples, server):
    run = judged(project, price=(Decimal(10), Decimal(30)), model=MODEL)
    act("run_budget", budget="12.5")
    run.refresh_from_db()
    assert run.budget_usd == Decimal("12.5")
    assert act("run_budget", budget="NaN").status_code == 422
    assert act("run_budget", budget="-1").status_code == 422


def test_the_primary_run_is_chosen_and_one_without_verdicts_is_not(act, project, examples):
    run = make_run(project, ranked_at=None)
    assert act("run_primary").status_code == 422
    Run.objects.filter(pk=run.pk).update(ranked_at=timezone.now())
    make_verdict(run, examples[0], 0.5)
    act("run_primary")
    act("run_primary")
    project.refresh_from_db()
    assert project.primary_run == run
    assert AuditEvent.objects.filter(action="primary run chosen").count() == 1


def test_a_run_that_judged_no_example_is_no_primary_one(page, act, project, examples):
    run = make_run(project, ranked_at=timezone.now())
    make_verdict(run, examples[0], None)
    assert "Make this the primary run" not in page()
    refused = act("run_primary")
    assert refused.status_code == 422
    assert "has no verdicts yet. Nothing was changed." in refused.content.decode()
    project.refresh_from_db()
    assert project.primary_run is None
    make_verdict(run, examples[1], 0.5)
    assert "Make this the primary run" in page()


def test_a_failed_run_offers_to_cancel_what_its_endpoint_still_has(page, act, project, examples):
    run = make_run(project, state=Run.State.FAILED)
    assert "Cancel its batches" not in page()
    Batch.objects.create(run=run, state="in_progress", remote_id="batch_1")
    run.parameters = {"batch": {"usual_price": None}}
    run.save()
    assert "Cancel its batches" in page()
    act("run_cancel")
    run.refresh_from_db()
    assert run.state == Run.State.CANCELLING
    assert "Cancel its batches" not in page()
