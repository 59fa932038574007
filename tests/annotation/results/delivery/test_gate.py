"""Gates: verdicts by interval, looks that share one error, and what it takes to decide."""

import io
import json
import random
import xml.etree.ElementTree as ElementTree
from argparse import ArgumentTypeError
from decimal import Decimal

import pytest
from django.core.management import CommandError, call_command

from annotation.models import GateLook, Item
from annotation.results.delivery.gate import decide_gate, frozen_set
from annotation.results.delivery.gate_files import junit, markdown
from annotation.results.delivery.requirements import MEASURES, parse
from annotation.results.demo import finished_study
from annotation.results.management.verdicts import minutes
from annotation.results.report.report import report_json
from annotation.results.sections.analysis import Analysis
from judging.core.errors import Misuse, UserError
from judging.dataset.models import Example
from judging.methods.intervals.looks import Ruling
from judging.projects.models import Project
from tests.factories import make_annotator, make_examples, make_run, make_verdict, make_vote

CHATGPT = "ChatGPT, published"


@pytest.fixture(scope="module")
def slug(rows_of_module):
    return finished_study().slug


@pytest.fixture
def study(slug, db):
    project = Project.objects.get(slug=slug)
    return project, project.runs.get(name=CHATGPT)


def decide(project, run, *texts, **more):
    return decide_gate(project, run, [parse(text) for text in texts], **more)


def gate(*arguments):
    """Run the command. Returns its exit code, standard output and error."""
    out, err = io.StringIO(), io.StringIO()
    code = 0
    try:
        call_command("gate", *arguments, stdout=out, stderr=err)
    except SystemExit as ended:
        code = ended.code
    except CommandError as refused:
        code, err = refused.returncode, io.StringIO(str(refused))
    return code, out.getvalue(), err.getvalue()


@pytest.mark.parametrize(
    ("requirement", "verdict"),
    [
        ("accuracy>=0.45", "pass"),
        ("accuracy>=0.56", "inconclusive"),
        ("accuracy>=0.9", "fail"),
        ("accuracy<=0.9", "pass"),
        ("accuracy<=20%", "fail"),
        ("kappa>=-0.5", "pass"),
        ("kappa>=.9", "fail"),
        ("coverage>=0.9", "pass"),
        ("certificate<=0.01", "fail"),
        ("certificate<=0.3", "inconclusive"),
    ],
)
def test_the_verdict_is_by_the_interval_and_never_by_the_point(study, requirement, verdict):
    decision = decide(*study, requirement)
    assert decision.verdict == verdict
    assert (decision.needed is not None) == (verdict == "inconclusive")


def test_the_first_look_has_the_figures_of_the_report(study):
    project, run = study
    told = report_json(Analysis(project, run))
    first = {name: measure(Analysis(project, run), 0.95) for name, (measure, _) in MEASURES.items()}
    assert first["accuracy"].as_json() == told["ties"]["half"]["accuracy"]
    assert first["final_accuracy"].value == told["review"]["final_accuracy"]["value"]
    assert first["final_accuracy"].low == told["review"]["final_accuracy"]["low"]
    assert first["agreement"].as_json() == told["people"]["agreement"]
    assert first["alpha"].as_json() == told["people"]["krippendorff_alpha"]
    assert first["coverage"].as_json() == told["coverage"]["judged"]
    row = next(
        row for row in told["methods"] if row["accuracy"] == told["ties"]["half"]["accuracy"]
    )
    assert first["kappa"].as_json() == row["kappa"]
    for pair in told["models"]["pairwise"]:
        wanted = parse(f"win_rate({pair['model_1']}, {pair['model_2']})>=0.5")
        assert wanted.figure(Analysis(project, run), 0.95).as_json() == pair["people"]


@pytest.mark.parametrize(
    "text",
    ["accuracy", "accuracy=0.5", "precision>=0.5", "accuracy>=x", "accuracy>=1.5", "accuracy>=nan",
     "win_rate>=0.5", "win_rate()>=0.5", "accuracy(maple)>=0.5", "certificate>=0.1", "",
     "accuracy>=0.5; rm -rf", "win_rate(a,b,c)>=0.5", "accuracy>=-0.1", "accuracy>=150%",
     "accuracy>=1e-999999"],
)  # fmt: skip
def test_a_requirement_that_is_none_is_refused_with_what_is_possible(text):
    with pytest.raises(Misuse) as refused:
        parse(text)
    possible = (
        "accuracy>=0.85",
        "(MODEL)",
        "is not a number",
        "write 0.85",
        "certificate<=",
        "12 decimals",
    )
    assert any(words in str(refused.value) for words in possible)


def test_the_figures_that_are_possible_are_named():
    with pytest.raises(Misuse, match=r"accuracy, final_accuracy, kappa, .*win_rate\(MODEL\)"):
        parse("precision>=0.5")


def test_a_model_that_nobody_compares_is_named_with_those_that_are(study):
    project, run = study
    with pytest.raises(Misuse, match="models are: "):
        decide(project, run, "win_rate(nobody)>=0.5")
    assert not GateLook.objects.exists()


def test_the_same_data_is_the_same_look_and_new_votes_are_a_new_one_at_a_higher_level(open_project):
    project, run, round_ = open_project
    vote_all(round_, right=0.9)
    first = decide(project, run, "accuracy>=0.5")
    again = decide(project, run, "accuracy>=0.5")
    assert (first.look, again.look, first.confidence) == (1, 1, 0.95)
    assert first.answers == again.answers
    # Written otherwise, they are the same requirements.
    assert decide(project, run, "accuracy >= 50%").look == 1
    other = make_round(project, run, 20, seed=7)
    vote_all(other, right=0.9)
    second = decide(project, run, "accuracy>=0.5")
    assert second.look == 2
    assert second.confidence == pytest.approx(1 - 2 * 0.05 / 6)
    assert GateLook.objects.count() == 2
    # Another set of requirements has an error of its own.
    assert decide(project, run, "accuracy>=0.6").look == 1


def test_examples_that_changed_are_refused_until_the_gate_restarts(open_project):
    project, run, round_ = open_project
    vote_all(round_, right=0.9)
    before = frozen_set(project)
    decide(project, run, "accuracy>=0.5")
    Example.objects.filter(pk=project.examples.first().pk).update(question="another question")
    assert frozen_set(project) != before
    with pytest.raises(UserError, match=r"have changed since .*--restart"):
        decide(project, run, "accuracy>=0.5")
    assert GateLook.objects.count() == 1
    assert decide(project, run, "accuracy>=0.5", restart=True).look == 1
    assert decide(project, run, "accuracy>=0.5").look == 1


@pytest.fixture
def open_project(project):
    """200 judged examples, and an open round that audits 40 of them with one vote each."""
    run = make_run(project)
    project.primary_run = run
    project.save()
    for example in make_examples(project, 200):
        make_verdict(run, example, 0.1)
    return project, run, make_round(project, run, 40, seed=5)


def make_round(project, run, audit, seed):
    from annotation.rounds.opening import RoundSettings, open_round

    settings = RoundSettings(beta=Decimal(0), audit=audit, votes=1, seed=seed, partial=True)
    return open_round(project, None, run, settings)


def vote_all(round_, right, seed=3):
    """One vote on each open item, which agrees with the judge in this share of them."""
    person = round_.project.annotators.first() or make_annotator(round_.project, "ana")
    items = list(Item.objects.filter(round=round_).exclude(state=Item.State.COMPLETE))
    wrong = set(random.Random(seed).sample(range(len(items)), round((1 - right) * len(items))))
    for place, item in enumerate(items):
        label = item.example.verdicts.get().label
        if place in wrong:
            label = "lose" if label == "win" else "win"
        make_vote(item, person, label)


def test_an_open_round_is_what_it_waits_for_and_its_votes_are_counted(open_project):
    project, run, round_ = open_project
    decision = decide(project, run, "accuracy>=0.5")
    assert decision.verdict is Ruling.INCONCLUSIVE
    assert not GateLook.objects.exists(), "nothing was seen, so no error is spent"
    needed = decision.needed
    assert (needed.votes, len(needed.examples), needed.round) == (40, 40, round_.number)
    assert needed.usd == 40 * round_.minutes_per_vote * round_.wage_usd / 60
    assert "40 more votes on these 40 examples" in needed.sentence


def test_the_round_that_is_named_is_the_one_that_opens(open_project):
    project, _run, round_ = open_project
    vote_all(round_, right=0.75)
    call = [project.slug, "--require", "accuracy>=0.65", "--votes", "1"]
    code, out, _ = gate(*call, "--json")
    told = json.loads(out)
    assert (code, told["verdict"]) == (11, "inconclusive")
    wanted = told["needed"]
    assert wanted["opens_round"]
    assert wanted["votes"] == len(wanted["examples"]) > 0
    code, _, err = gate(*call, "--open-round", "--json")
    assert code == 11, err
    opened = project.rounds.latest("number")
    assert opened.number == round_.number + 1
    items = Item.objects.filter(round=opened).exclude(state=Item.State.COMPLETE)
    assert sorted(items.values_list("example__external_id", flat=True)) == wanted["examples"]
    # Asked again, it names the open round and opens none.
    code, out, _ = gate(*call, "--open-round", "--json")
    assert json.loads(out)["needed"]["round"] == opened.number
    assert project.rounds.count() == 2
    vote_all(opened, right=0.75)
    code, out, _ = gate(*call, "--wait", "--json")
    assert json.loads(out)["look"] == 2


def test_new_examples_are_asked_for_only_if_every_example_has_a_label(open_project):
    project, run, round_ = open_project
    vote_all(round_, right=0.75)
    says = "Every example already has a label"
    assert says not in decide(project, run, "accuracy>=0.73").needed.sentence
    for place, example in enumerate(project.examples.all()):
        example.gold_label = "win" if place % 4 else "lose"
        example.save()
    run.verdicts.update(label="win")
    found = decide(project, run, "accuracy>=0.73", restart=True)
    assert says in found.needed.sentence
    assert found.needed.more_examples > 0


def test_waiting_ends_when_people_finish_and_is_resumable_when_they_do_not(
    open_project, monkeypatch
):
    from annotation.results.management import verdicts

    project, run, round_ = open_project
    monkeypatch.setattr(verdicts.time, "sleep", lambda seconds: vote_all(round_, right=1))
    code, out, _ = gate(project.slug, "--require", "accuracy>=0.5", "--wait", "--json")
    assert (code, json.loads(out)["verdict"]) == (0, "pass")
    make_round(project, run, 60, seed=11)
    code, _, err = gate(project.slug, "--require", "accuracy>=0.9", "--wait", "--timeout", "0")
    assert code == 4
    assert "stays open" in err


def test_three_exits_and_four_outputs(study, tmp_path):
    project, _run = study
    for bound, code in (("0.4", 0), ("0.9", 10), ("0.56", 11)):
        files = tmp_path / f"{bound}.xml", tmp_path / f"{bound}.md"
        found, out, _ = gate(
            project.slug, "--run", CHATGPT, "--require", f"accuracy>={bound}",
            "--junit", str(files[0]), "--markdown", str(files[1]),
        )  # fmt: skip
        assert found == code
        word = {0: "pass", 10: "fail", 11: "inconclusive"}[code]
        assert out.startswith(word.upper())
        suite = ElementTree.parse(files[0]).getroot()
        assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == (
            "1", str(int(code == 10)), str(int(code == 11)),
        )  # fmt: skip
        assert f"{word}:" in files[1].read_text()


def test_hostile_names_are_text_in_every_output(open_project):
    project, run, round_ = open_project
    hostile = "<img src=x onerror=alert(1)>|[a](javascript:x)`\x1b[2J\u202e"
    run.name = hostile
    run.save()
    vote_all(round_, right=0.9)
    decision = decide(project, run, "accuracy>=0.5")
    summary = markdown(decision)
    assert not set("<[`\x1b\u202e") & set(summary)
    assert summary.count("|") == 3 * 4
    root = ElementTree.fromstring(junit(decision))
    assert "<img src=x" in root.get("name")


def test_usage_errors_end_with_2_and_unknown_projects_with_1(study):
    project, _ = study
    assert gate(project.slug)[0] == 2
    assert gate(project.slug, "--require", "precision>=1")[0] == 2
    assert gate("none", "--require", "accuracy>=0.5")[0] == 1
    for wrong in ("--votes=0", "--votes=100"):
        assert gate(project.slug, "--require", "accuracy>=0.5", wrong)[0] == 2
    for wrong in ("nan", "inf", "-1", "soon"):
        with pytest.raises(ArgumentTypeError):
            minutes(wrong)
    assert not GateLook.objects.exists()
