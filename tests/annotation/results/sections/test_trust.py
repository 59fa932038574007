"""The certificate: planned with the round, asked for at its looks, and what stands beside it."""

from datetime import timedelta
from decimal import Decimal

import pytest
from django.utils import timezone

from annotation.models import Annotator, Draft, Item, Round
from annotation.queue.queue import claim_next, skip
from annotation.results.data.sheet import sheet_of
from annotation.results.report.report import report_json
from annotation.results.sections.analysis import Analysis
from annotation.results.sections.trust import (
    NO_AUDIT,
    Replacement,
    alt_test,
    audit_of,
    replacement_of,
)
from annotation.results.sections.trust import certificate as certificate_of
from annotation.rounds import changes
from annotation.rounds.opening import RoundSettings, open_round
from annotation.votes.voting import record_vote
from judging.core.errors import UserError
from judging.methods.review.certificate import upper_bound
from judging.projects.models import AuditEvent, Project
from tests.factories import make_annotator, make_examples, make_run, make_verdict, make_vote

N, M, AUDIT = 100, 20, 40


@pytest.fixture
def run(project):
    """A hundred examples judged a win. The first twenty have the largest BPDE."""
    run, examples = make_run(project), make_examples(project, N)
    scores = [1.0 if example.number < M else 0.25 * (example.number % 2) for example in examples]
    by_rank = sorted(zip(examples, scores, strict=True), key=lambda one: -one[1])
    for rank, (example, bpde) in enumerate(by_rank, start=1):
        make_verdict(run, example, bpde, rank=rank)
    return run


@pytest.fixture
def audited(project, run):
    """Opens the round, and votes for response 1 but where `wrong` says otherwise."""

    def label(wrong=lambda item: False, stop_after=None, **settings):
        person = make_annotator(project)
        given = RoundSettings(beta=Decimal(20), votes=1, audit=AUDIT, seed=5, **settings)
        round_ = open_round(project, None, run, given)
        items = Item.objects.filter(round=round_, selection__kind="audit").order_by("audit_order")
        left_out = set(items[stop_after:].values_list("pk", flat=True)) if stop_after else set()
        vote_on_all(round_, person, wrong, left_out)
        return sheet_of(project, run)

    return label


def certificate(sheet, run):
    return certificate_of(sheet, audit_of(sheet, run), NO_AUDIT)


def unchecked(run):
    return Analysis(run.project, run).unchecked


def vote_on_all(round_, person, wrong, left_out):
    while isinstance(draft := claim_next(round_, person), Draft):
        if draft.item_id in left_out:
            skip(draft)
            continue
        left_is_1 = draft.left_response == 1
        says_1 = not wrong(draft.item)
        record_vote(draft, {"overall": "left" if left_is_1 == says_1 else "right"})


def test_the_plan_is_stored_with_the_round(project, run, audited):
    audited(epsilon=0.1, looks=(30, 40))
    plan = Round.objects.get().certificate_plan
    assert (plan["epsilon"], plan["alpha"], plan["looks"]) == (0.1, 0.05, [30, 40])
    # The distinct values among the eighty that were not selected.
    assert plan["grid"] == [0.0, 0.25]


def test_an_audit_without_an_error_certifies_everything(run, audited):
    found = certificate(audited(), run)
    assert found.issued is True
    assert found.threshold == 0.25
    assert found.n_from_judge == N - M - AUDIT
    assert found.share_from_judge.value == pytest.approx((N - M - AUDIT) / N)
    assert found.bound.value == upper_bound(N - M, AUDIT, 0, 0.05)
    assert unchecked(run).value == 1


def test_bounds_that_one_may_choose_among_share_their_error(project, run, audited):
    """Two thresholds, two looks, and two runs with an audit: an eighth of 5 % each."""
    sheet = audited(looks=(20, 40))
    other = make_run(project)
    for example in project.examples.all():
        make_verdict(other, example, 0.5, rank=example.number + 1)
    open_round(project, None, other, RoundSettings(beta=Decimal(10), votes=1, audit=5))
    low, high = certificate(sheet, run).bounds
    for one in (low, high):
        assert one.bound == upper_bound(one.n_set, one.n_audited, 0, 0.05 / 8)


def test_too_many_errors_certify_nothing(run, audited):
    found = certificate(audited(lambda item: item.audit_order is not None), run)
    assert found.issued is False
    assert "may be wrong" in found.reason
    assert unchecked(run).value == 0
    assert [one.n_wrong for one in found.bounds][-1] == AUDIT


def test_a_look_takes_a_prefix_of_the_order_drawn(run, audited):
    """Thirty are settled in the order drawn, so the look at 30 is due and that at 40 is not."""
    found = certificate(audited(stop_after=30, looks=(30, 40), epsilon=0.2), run)
    assert found.resolved == 30
    assert found.n_audited == 30
    assert found.bound.value == upper_bound(N - M, 30, 0, 0.05 / 2)


def test_the_plot_of_an_unfinished_audit_has_its_table(run, audited, client, owner):
    audited(stop_after=30)
    client.force_login(owner)
    page = client.get(f"/p/{run.project.slug}/results/trust").text
    assert "still wait for a label" in page
    assert 'id="plot-trust"' in page
    assert '<th scope="row">Unreviewed labels of the judge</th>' in page


def test_a_look_after_the_end_of_the_audit_is_refused(project, run):
    with pytest.raises(UserError, match="can't be checked after"):
        open_round(project, None, run, RoundSettings(beta=Decimal(20), audit=5, looks=(6,)))


def test_an_extended_cut_takes_the_audited_within_it_into_the_selected(run, audited):
    before = audited(lambda item: item.bpde == 0.25, looks=(30, 40), epsilon=0.2)
    round_ = Round.objects.get()
    changes.extend(round_, None, Decimal(50))
    vote_on_all(round_, Annotator.objects.get(), lambda item: False, set())
    after = sheet_of(run.project, run)
    covered = int((before.audited & after.selected).sum())
    assert covered == Item.objects.filter(selection__kind="audit", rank__lte=50).count() > 0
    assert (after.selected.sum(), after.audited.sum()) == (50, AUDIT - covered)
    weights = after.known.weight
    assert weights.sum() == pytest.approx(N)
    # 50 selected stand for themselves, the audited that are left for the 50 others.
    assert set(weights.tolist()) == {1.0, 50 / (AUDIT - covered)}
    # What is below both cuts is the same set, with the same audited examples in it.
    found, bound = certificate(after, run), certificate(before, run).bounds[0]
    assert found.resolved == AUDIT
    assert (bound.threshold, bound.n_set) == (0.0, 40)
    assert found.bounds[0].n_audited == bound.n_audited
    assert unchecked(run).n == AUDIT - covered


def test_without_an_audit_nothing_is_certified(project, run):
    open_round(project, None, run, RoundSettings(beta=Decimal(20), votes=1))
    assert Round.objects.get().certificate_plan is None
    found = certificate(sheet_of(project, run), run)
    assert "no audit" in found.reason
    assert "three annotators" in alt_test(sheet_of(project, run), replacement_of(project)).reason


@pytest.mark.system
def test_the_judges_advantage_is_the_projects_and_a_later_change_is_said(project, run):
    """Three people label thirty examples alike, and the judge says what they say on 28 of them."""
    assert replacement_of(project) == Replacement(0.15, changed=False)
    change = {"before": "0.15", "now": "0.3"}
    early = AuditEvent.objects.create(
        project=project, action="settings changed", detail={"annotator_advantage": change}
    )
    Project.objects.update(annotator_advantage="0.3")
    people = [make_annotator(project) for _ in range(3)]
    round_ = open_round(project, None, run, RoundSettings(beta=Decimal(100), votes=3))
    for item in round_.items.select_related("example", "round__protocol"):
        for person in people:
            make_vote(item, person, "win" if item.example.number % 15 else "lose")
    project.refresh_from_db()
    found = report_json(Analysis(project, run))["alt_test"]
    assert (found["epsilon"], found["epsilon_changed"]) == (0.3, False)
    AuditEvent.objects.filter(pk=early.pk).update(at=timezone.now() + timedelta(hours=1))
    found = report_json(Analysis(project, run))["alt_test"]
    assert found["epsilon_changed"] is True


def test_agreement_after_a_routed_round_leads_with_the_audit(project, run):
    """People disagree on every selected example, and never on an audited one."""
    first, second = (make_annotator(project) for _ in range(2))
    given = RoundSettings(beta=Decimal(20), votes=2, audit=AUDIT, seed=5)
    round_ = open_round(project, None, run, given)
    for item in round_.items.select_related("example", "round__protocol", "selection"):
        make_vote(item, first, "win")
        make_vote(item, second, "lose" if item.selection.kind == "top" else "win")
    found = report_json(Analysis(project, run))["people"]
    assert found["audit"]["n"] == AUDIT
    assert found["audit"]["agreement"]["value"] == 1
    assert found["agreement"]["value"] == pytest.approx(AUDIT / (AUDIT + M))
