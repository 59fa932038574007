"""The cheapest plan of a project: learned, priced, opened, carried out, and checked."""

import json
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from annotation.models import Item, Job, Round, Selection
from annotation.results.data.samples import samples_array
from annotation.results.demo import JUDGES, PUBLISHED
from annotation.results.planner import cheapest
from annotation.results.planner import ways as ways_module
from annotation.results.planner.cheapest import (
    Wish,
    answer_here,
    asked_of,
    cheapest_asked,
    find_cheapest,
    goal_checks,
    kept_answer,
    open_plan,
    progress_of,
    settings_of,
    waiting_job,
    who_labels,
)
from annotation.results.planner.ways import (
    Price,
    labels_by,
    learning_sample,
    price_of,
    ways,
)
from annotation.results.sections.routing import columns_of, texts_of
from annotation.rounds.opening import RoundSettings, open_round
from annotation.votes.agreement import SIGN
from annotation.votes.imports import import_votes
from judging.core.errors import UserError
from judging.dataset.writing import import_files
from judging.llm.prices import PriceSnapshot, TokenRate
from judging.methods.intervals.estimates import Undefined, most_unseen
from judging.methods.intervals.win_rate import AuditedLabels, win_rate
from judging.methods.review.pipelines import SHARES, Asked, Goal
from judging.methods.review.routing import routing
from judging.projects.models import Project
from judging.runs.models import Call, Run
from judging.runs.recorded.writing import import_judgments
from tests.annotation.results.learning import biased_run, go_on, gold, label_all
from tests.factories import make_annotator, make_examples, make_project, make_run

PRICES = {1: Decimal("0.001"), 2: Decimal("0.05")}


@pytest.fixture(scope="module")
def slug(rows_of_module):
    """The published judges of the demo, and the known labels as votes, without a round."""
    project = make_project("published")
    import_files(project, None, [PUBLISHED / "pairs.jsonl"])
    import_votes(project, None, PUBLISHED / "votes.csv")
    for name, file in JUDGES.items():
        import_judgments(project, None, [PUBLISHED / file], name=name)
    return project.slug


@pytest.fixture
def study(slug, db):
    return Project.objects.get(slug=slug)


@pytest.fixture(scope="module")
def told_once(slug):
    return {}


@pytest.fixture
def told(study, told_once):
    """The answer about the published judges, computed once for this module."""
    if not told_once:
        told_once.update(find_cheapest(study, Wish(prices=PRICES)))
    return dict(told_once)


def rows_by(told, **wanted):
    return [row for row in told["rows"] if wanted.items() <= row.items()]


def test_published_judges_are_compared_in_every_way(study, told):
    assert told["plans"] > 400
    assert (told["labels"], told["examples"], told["votes"]) == (100, 100, 1)
    best = told["rows"][told["best"] - 1]
    assert best["shown"]
    assert best["low"] >= 0.9
    # Every cheaper plan of the list is not shown, and people alone cost more.
    assert not any(row["shown"] for row in told["rows"][: told["best"] - 1])
    (alone,) = rows_by(told, route="people")
    assert Decimal(best["usd"]) < Decimal(alone["usd"]) == Decimal("37.5")
    # 100 examples at .05, and a vote at .375 for one in ten.
    assert Decimal(best["judge_usd"]) == Decimal("5")
    assert Decimal(best["people_usd"]) == Decimal("0.375") * round(100 * best["share"])
    assert best["words"] in told["sentence"]
    assert "GPT-4, published" in best["words"]
    assert told["labels_needed"] > 100
    assert f"about {told['labels_needed']} examples drawn at random" in told["takes"]
    run = study.runs.get(number=2)
    assert (best["runs"], best["orders"], best["k"]) == ([2], 2, run.k)
    whole = next(row for row in told["rows"] if row["runs"] == [2] and row["whole"])
    fewer = next(row for row in told["rows"] if row["runs"] == [2] and not row["whole"])
    assert Decimal(fewer["judge_usd"]) < Decimal(whole["judge_usd"])


def test_a_run_without_a_price_is_left_out_and_named(study):
    told = find_cheapest(study, Wish(prices={2: Decimal("0.05")}))
    assert told["left_out"] == ["ChatGPT, published is left out, because its price is not known."]
    assert not any(1 in row["runs"] for row in told["rows"])


def test_runs_beyond_the_newest_are_counted_as_left_out(study, monkeypatch):
    monkeypatch.setattr(ways_module, "MOST_RUNS", 1)
    told = find_cheapest(study, Wish(prices=PRICES))
    assert told["left_out"] == ["1 older run left out, because the newest 1 are compared."]


def test_the_other_goals_have_an_audit_in_their_cost(study):
    wide = find_cheapest(study, Wish(goal=Goal.WIN_RATE, value=Decimal("0.15"), prices=PRICES))
    best = wide["rows"][wide["best"] - 1]
    assert best["audit"] >= 10
    assert best["high"] <= 0.15
    run, settings = settings_of(study, wide, best)
    assert (run.number, settings.audit) == (best["runs"][0], best["audit"])
    narrow = find_cheapest(study, Wish(goal=Goal.WIN_RATE, value=Decimal("0.02"), prices=PRICES))
    assert narrow["best"] is None
    assert narrow["sentence"].startswith("No plan can be shown to reach it")
    sure = find_cheapest(
        study, Wish(goal=Goal.CERTIFICATE, value=Decimal("0.3"), prices=PRICES, examples=5_000)
    )
    best = sure["rows"][sure["best"] - 1]
    assert best["audit"] > 0
    assert best["words"] != sure["rows"][sure["second"] - 1]["words"]
    assert sure["examples"] == 5_000


def test_values_that_are_no_goal_are_named(study):
    with pytest.raises(UserError, match="value: Enter a share from 50"):
        find_cheapest(study, Wish(value=Decimal("0.2")))
    with pytest.raises(UserError, match="confidence"):
        find_cheapest(study, Wish(confidence=Decimal(1)))
    found = Wish(examples=0, prices={1: Decimal(-1)}).problems()
    assert [name for name, _ in found] == ["examples", "prices"]


@pytest.mark.databases
def test_an_answer_is_kept_until_the_data_change(study, told, monkeypatch):
    wish = Wish(prices=PRICES)
    assert kept_answer(study, wish) is None
    found = answer_here(study, None, wish)
    assert found["rows"] == told["rows"]
    monkeypatch.setattr(cheapest, "find_cheapest", None)
    assert kept_answer(study, wish)["rows"] == told["rows"]
    again = []
    cheapest_asked(study, None, wish.to_json() | {"open_round": False}, again.append)
    assert again[0]["rows"] == told["rows"]
    assert kept_answer(study, Wish(value=Decimal("0.8"), prices=PRICES)) is None
    study.wage_usd = Decimal(20)
    study.save()
    assert kept_answer(study, wish) is None


def test_a_worker_says_how_far_it_is(study, told):
    job = Job.objects.create(
        project=study, kind=Job.Kind.CHEAPEST, asked=asked_of(study, Wish(prices=PRICES))
    )
    assert waiting_job(study, Wish(prices=PRICES)) == job
    assert progress_of(job) is None
    kept = []
    cheapest_asked(study, None, job.asked, kept.append)
    assert progress_of(job) == (1, 2)
    assert kept[0]["rows"] == told["rows"]


def test_judges_in_a_row_open_a_round_of_what_none_is_sure_of(study, told):
    made = find_cheapest(study, Wish(value=Decimal("0.75"), prices=PRICES))
    # The row of judges need not be the best: any plan that is listed can be opened.
    row = next((one for one in made["rows"] if one["route"] == "row"), None)
    if row is None:
        row = made["rows"][0] | {"route": "row", "runs": [1, 2], "threshold": 0.0, "votes": 1}
        row |= {"check": 10, "share": 0.1, "number": 99}
        made["rows"].append(row)
    labelled = list(who_labels(study, made, row["number"]))
    by_people = {one["external_id"] for one in labelled if one["label_from"] == "people"}
    names = {one["label_from"] for one in labelled}
    assert names == {"people", "ChatGPT, published", "GPT-4, published"}
    assert all((one["label"] is None) == (one["label_from"] == "people") for one in labelled)
    round_ = open_plan(study, None, made, row["number"])
    asked = set(Item.objects.filter(round=round_).values_list("example__external_id", flat=True))
    assert by_people < asked
    stored = round_.parameters["goal"]
    assert stored["row"]["runs"] == [1, 2]
    assert len(asked) == len(by_people) + len(stored["row"]["audit"])
    check = goal_checks(study)[0]
    assert check.round == round_.number
    # The known labels came as votes before, so none of them is fresh.
    assert check.reached is None


def test_the_command_prints_plans_and_writes_who_labels(study, told, capsys, tmp_path):
    output, people = tmp_path / "who.jsonl", tmp_path / "people.txt"
    prices = ["--price", "1=0.001", "--price", "2=0.05"]
    call_command("cheapest", study.slug, *prices, output=output, people=people)
    text = capsys.readouterr().out
    assert text.startswith(told["sentence"])
    assert "[recommended]" in text
    best = told["rows"][told["best"] - 1]
    assert len(people.read_text().splitlines()) == 1 + round(100 * best["share"])
    lines = [json.loads(line) for line in output.read_text().splitlines()]
    assert len(lines) == 100
    call_command("cheapest", study.slug, *prices, "--open", json=True)
    found = json.loads(capsys.readouterr().out)
    round_ = Round.objects.get(project=study, number=found["round"])
    assert round_.parameters["goal"] == {"goal": "accuracy", "value": "0.9", "confidence": "0.95"}
    assert round_.parameters["beta"] == str(Decimal(repr(100 * best["share"])))
    assert found["checks"][0]["round"] == round_.number
    for wrong in (["--price", "two=1"], ["--accuracy", "2"], ["--plan", "99", "--open"]):
        with pytest.raises((CommandError, UserError)):
            call_command("cheapest", study.slug, *wrong)


def test_what_a_sample_costs_follows_calls_and_orders():
    run = Run(method="mec_bpc", k=3)
    # Two orders, one call each: prompts are a third of .6, completions the rest.
    price = Price(0.6, 0.2, 1.0)
    assert price.of(run, 3, 3, 2, one_by_one=False) == pytest.approx(0.6)
    assert price.of(run, 1, 3, 1, one_by_one=False) == pytest.approx(0.1 + 0.2 / 3)
    # Asked one at a time, each sample pays for its prompt.
    assert price.of(run, 2, 3, 2, one_by_one=True) == pytest.approx(0.4 + 0.4 * 2 / 3)
    each = Price(0.6, 0.2, 3.0)
    assert each.of(run, 1, 3, 2, one_by_one=False) == pytest.approx(0.2)


@pytest.mark.django_db
def test_a_run_is_priced_by_its_own_calls_or_by_those_it_copied(project):
    examples = make_examples(project, 4)
    rate = TokenRate(Decimal(1))
    price = PriceSnapshot(rate, rate, rate, "a test").to_json()
    first = make_run(project, price=price, k=1)
    second = make_run(project, price=price, k=1)
    for example in examples:
        for run, copied in ((first, None), (second, first.number)):
            for part in ("original", "swapped"):
                Call.objects.create(
                    run=run, example=example, part=part, state="done", reused_from=copied,
                    claimed_at=timezone.now(), usd=None if copied else Decimal("0.02"),
                )  # fmt: skip
    whole = 0.02 * 2
    assert price_of(first, {}).whole == pytest.approx(whole)
    assert price_of(second, {}).whole == pytest.approx(whole)
    assert price_of(second, {second.number: Decimal(1)}).whole == 1
    assert price_of(make_run(project, price=None), {}) is None


@pytest.fixture
def learned(project, tmp_path):
    """300 examples of a biased judge; people have labelled 120 that were drawn at random."""
    run = biased_run(project, tmp_path, n=300)
    people = [make_annotator(project, name) for name in ("kim", "lee", "ana")]
    settings = RoundSettings(beta=Decimal(0), audit=120, votes=3, seed=4)
    round_ = open_round(project, None, run, settings)
    return run, people, round_


@pytest.mark.system
@pytest.mark.databases
@pytest.mark.django_db
def test_from_a_learning_round_to_a_goal_checked_on_fresh_labels(project, learned):
    run, people, round_ = learned
    wish = Wish(value=Decimal("0.8"), prices={run.number: Decimal("0.01")})
    before = find_cheapest(project, wish)
    assert (before["best"], before["has_sample"]) == (None, False)
    assert "120 of 120 labels of the random sample are still missing" in before["sentence"]
    assert before["labels_needed"] == 130
    label_all(round_, people)
    sample = learning_sample(project)
    assert len(sample) == 120
    # One of three votes is the label of all: people agree here.
    assert sample.votes == 3
    assert set(sample.right) == {1, 3}
    assert sample.right[1].mean() == 1
    told = find_cheapest(project, wish)
    best = told["rows"][told["best"] - 1]
    assert best["share"] < 1
    assert best["votes"] == 1
    opened = open_plan(project, None, told)
    assert opened.votes_per_item == 1
    (check,) = goal_checks(project)
    assert check.reached is None
    # The judge's errors are learned better than BPDE finds them, so the round learns first.
    assert best["route"] == "learned"
    label_all(opened, people)
    assert goal_checks(project)[0].reached is None
    go_on()
    label_all(opened, people)
    (check,) = goal_checks(project)
    audit = Item.objects.filter(round=opened, selection__kind=Selection.Kind.AUDIT)
    before_it = set(Item.objects.filter(round=round_).values_list("example", flat=True))
    fresh = [item for item in audit if item.example_id not in before_it]
    assert check.audited == len(fresh) < audit.count()
    judge = dict(run.verdicts.values_list("example", "label"))
    wrong = sum(judge[item.example_id] != gold(item.example) for item in fresh)
    assert check.wrong == wrong
    rest = 300 - Item.objects.filter(round=opened, selection__kind__in=["top", "learn"]).count()
    most = most_unseen(rest - len(fresh), len(fresh), wrong, 0.05)
    assert check.figure == pytest.approx(1 - most / 300)
    assert check.reached == (check.figure >= 0.8)
    # What checks a goal chooses nothing: the sample is that of the first round still.
    assert len(learning_sample(project)) == 120


@pytest.mark.django_db
def test_a_learned_plan_reaches_what_is_predicted_when_its_round_is_carried_out(project, learned):
    """Most labels of a small share teach, and are no better than random ones."""
    run, people, round_ = learned
    label_all(round_, people)
    sample = learning_sample(project)
    asked = Asked(Goal.ACCURACY, 0.9, 0.95, 300, 1.0)
    found, _ = ways(sample, asked, {run.number: Decimal(1)})
    learned_ways = [one for one in found if one.route == "learned"]
    # Labels of as many votes as a plan has teach its rank.
    assert sorted(one.chain.votes for one in learned_ways) == [1, 3]
    (way,) = [one for one in learned_ways if one.chain.votes == 3]
    sheet = sample.analysis.sheet
    told = np.array([SIGN[gold(one)] for one in project.examples.order_by("pk")])
    for share in (0.3, 0.4, 0.6):
        predicted = 1 - way.chain.lost.mean(axis=0)[SHARES.tolist().index(share)]
        reached = [carried_out(sheet, run, told, share, seed) for seed in range(12)]
        assert predicted == pytest.approx(np.mean(reached), abs=0.04)
    # If nearly all examples would have to teach, nothing is left to rank.
    few, _ = ways(sample, replace(asked, examples=65), {run.number: Decimal(1)})
    assert "learned" not in {one.route for one in few}
    row = {"runs": [run.number], "route": "learned", "share": 0.4, "votes": 1, "check": 20}
    _, settings = settings_of(project, Wish().to_json() | {"labels": 120}, row)
    assert (settings.learn, settings.beta) == (60, Decimal(40))


def carried_out(sheet, run, told, share, seed):
    """The accuracy of a round that learns from 60 random labels and then selects by rank."""
    rng = np.random.default_rng(seed)
    drawn = rng.permutation(len(sheet))[:60]
    samples, texts = samples_array(run, sheet.ids), texts_of(run.project, run, sheet)
    columns = columns_of(sheet, run, samples, (), texts)
    wrong = (sheet.judge != told).astype(float)
    fit = routing(columns, sheet.level, sheet.judged, drawn, wrong[drawn], rng)
    score = (fit.probability if fit.used else sheet.level).copy()
    score[drawn] = np.inf
    seen = np.argsort(-score)[: round(share * len(sheet))]
    wrong[seen] = 0
    return 1 - wrong.mean()


@pytest.mark.django_db
def test_labels_of_fewer_votes_teach_what_a_plan_with_fewer_votes_knows(project, learned):
    """In half of the examples one of three people disagrees, so one vote is wrong in a sixth."""
    _, people, round_ = learned

    def odd(example, person):
        right = gold(example)
        disagrees = person == people[0] and example.number % 2
        return {"win": "lose", "lose": "win"}[right] if disagrees else right

    label_all(round_, people, odd)
    sample = learning_sample(project)
    human = sample.analysis.sheet.human[sample.places]
    rng = np.random.default_rng(1)
    assert (labels_by(sample, 3, rng) == human).all()
    other = np.mean([labels_by(sample, 1, rng) != human for _ in range(40)])
    assert other == pytest.approx(1 / 6, abs=0.03)


def gold_of_all(project):
    for example in project.examples.all():
        project.examples.filter(pk=example.pk).update(gold_label=gold(example))


@pytest.mark.django_db
def test_a_run_that_stops_early_pays_for_its_pilot(project, tmp_path):
    """60 examples are all pilot, and so is a fifth of 2,000."""
    biased_run(project, tmp_path, n=120)
    gold_of_all(project)
    usd = {}
    for examples in (60, 2_000):
        asked = Asked(Goal.ACCURACY, 0.9, 0.95, examples, 1.0)
        found, _ = ways(learning_sample(project), asked, {1: Decimal(1)})
        (usd[examples],) = {float(way.chain.usd[0]) for way in found if way.adaptive}
    assert usd[60] == pytest.approx(1)
    # At best, the other four fifths are asked once in each order instead of twice.
    assert 0.6 <= usd[2_000] < 0.9


@pytest.mark.django_db
def test_texts_are_read_once_for_all_runs(project, tmp_path):
    biased_run(project, tmp_path, n=120)
    gold_of_all(project)
    asked, prices = Asked(Goal.ACCURACY, 0.9, 0.95, 300, 1.0), dict.fromkeys((1, 2, 3), Decimal(1))
    read = []
    for runs in (1, 3):
        while project.runs.count() < runs:
            name = f"again {project.runs.count()}"
            import_judgments(project, None, [tmp_path / "judgments.jsonl"], name=name)
        sample = learning_sample(project)
        with CaptureQueriesContext(connection) as queries:
            found, _ = ways(sample, asked, prices)
        assert sum(way.route == "learned" for way in found) == runs
        read.append(sum("LENGTH(" in one["sql"].upper() for one in queries))
    assert read == [1, 1]


@pytest.mark.django_db
def test_a_routed_round_with_an_audit_is_thinned_to_equal_chances(project, tmp_path):
    run = biased_run(project, tmp_path, n=200)
    people = [make_annotator(project, "kim")]
    settings = RoundSettings(beta=Decimal(20), audit=40, votes=1, seed=4)
    round_ = open_round(project, None, run, settings)
    assert isinstance(learning_sample(project), Undefined)
    label_all(round_, people)
    sample = learning_sample(project)
    top = set(
        Item.objects.filter(round=round_, selection__kind="top").values_list("example", flat=True)
    )
    drawn = set(sample.analysis.sheet.ids[sample.places].tolist())
    # 40 of 160 were audited, so a fourth of the 40 that were selected stays.
    assert (len(drawn), len(drawn & top)) == (50, 10)


GOAL = {"goal": "win_rate", "value": "0.2", "confidence": "0.95"}


@pytest.mark.django_db
def test_a_win_rate_is_checked_by_fresh_labels_alone(project, learned):
    """Labels that chose the plan would make its interval narrower than the check may promise."""
    run, people, round_ = learned
    label_all(round_, people)
    settings = RoundSettings(beta=Decimal(10), audit=60, votes=1, seed=9, goal=GOAL)
    opened = open_round(project, None, run, settings)
    label_all(opened, people)
    (check,) = goal_checks(project)
    said = run.verdicts.values_list("example", "label")
    judge = {pk: (1 + SIGN[label]) / 2 for pk, label in said}
    right = {one.pk: (1 + SIGN[gold(one)]) / 2 for one in project.examples.all()}
    items = Item.objects.filter(round=opened)
    top, audit = (
        set(items.filter(selection__kind=kind).values_list("example", flat=True))
        for kind in ("top", "audit")
    )
    fresh = audit - set(Item.objects.filter(round=round_).values_list("example", flat=True))
    assert check.audited == len(fresh) < 60
    parts = [right[pk] for pk in top], [judge[pk] for pk in judge.keys() - top]
    parts += [right[pk] for pk in sorted(fresh)], [judge[pk] for pk in sorted(fresh)]
    found = win_rate(AuditedLabels(*map(np.array, parts)))
    assert check.figure == pytest.approx((found.high - found.low) / 2)


@pytest.mark.django_db
def test_judges_in_a_row_have_a_win_rate_that_is_checked(project, tmp_path):
    run = biased_run(project, tmp_path, n=200)
    people = [make_annotator(project, "kim")]
    row = {"runs": [run.number], "threshold": 0.0, "route": "row", "share": 0.4, "votes": 1}
    told = GOAL | {"rows": [row | {"number": 1, "check": 40}], "best": 1, "sentence": ""}
    opened = open_plan(project, None, told)
    label_all(opened, people)
    (check,) = goal_checks(project)
    assert check.audited == 40
    assert 0.02 < check.figure < 0.25
    assert check.reached == (check.figure <= 0.2)


@pytest.mark.django_db
def test_an_audited_example_without_a_label_by_the_judge_is_not_right(project, tmp_path):
    """People say tie, and a missing label is no tie."""
    run = biased_run(project, tmp_path, n=60)
    run.verdicts.update(label=None, state="unjudged", bpde=None)
    goal = GOAL | {"goal": "certificate"}
    settings = RoundSettings(beta=Decimal(0), audit=30, votes=1, seed=2, goal=goal)
    opened = open_round(project, None, run, settings)
    label_all(opened, [make_annotator(project, "kim")], lambda example, person: "tie")
    (check,) = goal_checks(project)
    assert (check.audited, check.wrong) == (30, 30)


@pytest.mark.django_db
def test_without_a_run_or_examples_it_says_what_to_do(project):
    with pytest.raises(UserError, match="Import some first"):
        find_cheapest(project, Wish())
    make_examples(project, 3)
    told = find_cheapest(project, Wish())
    assert told["sentence"] == (
        "Plans can't be compared yet: no run of a judge is finished. "
        "Judge the examples first, and then have people label a random sample."
    )


@pytest.mark.django_db
def test_nobody_is_unblinded_by_a_project_without_examples(project, owner):
    client = Client()
    client.force_login(owner)
    page = client.get(reverse("project_cheapest", args=[project.slug])).text
    assert "Do you want to see what the judge said?" not in page
    make_examples(project, 3)
    page = client.get(reverse("project_cheapest", args=[project.slug])).text
    assert "Do you want to see what the judge said?" in page
