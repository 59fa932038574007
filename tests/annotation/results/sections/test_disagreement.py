"""Why judge and people disagree, where guidelines leave gaps, and what a new protocol changed."""

import io
from decimal import Decimal

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from annotation.models import Round, Vote
from annotation.results.delivery.verify import verify
from annotation.results.report.report import report
from annotation.results.report.text import report_lines
from annotation.results.sections.analysis import Analysis
from annotation.rounds.changes import close
from annotation.rounds.opening import RoundSettings, open_round
from judging.dataset.models import Example, Tag, Tagging
from judging.dataset.subsets import Subset
from judging.projects.models import Project, Role
from judging.projects.tokens import issue_token
from judging.runs.models import Run, Verdict
from tests.factories import (
    make_annotator,
    make_examples,
    make_member,
    make_project,
    make_run,
    make_verdict,
    make_vote,
)

pytestmark = pytest.mark.django_db
HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def run():
    return run_with_gaps()


def run_with_gaps():
    """60 examples, which three people all call a win; on 14 of the 20 about mathematics, the judge
    calls a loss, and on 2 of the others."""
    project = make_project("gaps", criteria=["Correct"])
    run = make_run(project)
    examples = make_examples(project, 60, category="chat")
    project.examples.filter(number__lt=20).update(category=HOSTILE)
    tag = Tag.objects.create(project=project, name="proof")
    for example in examples:
        lost = example.number < 14 or example.number in (30, 31)
        label = "lose" if lost else "win"
        make_verdict(run, example, 0.1, rank=example.number + 1, label=label)
        if example.number < 5:
            Tagging.objects.create(tag=tag, example=example)
    people = [make_annotator(project) for _ in range(3)]
    label_all(project, run, people, lambda example, person: "win")
    return Run.objects.select_related("project").get(pk=run.pk)


def label_all(project, run, people, says, subset=None):
    more = {} if subset is None else {"subset": subset}
    settings = RoundSettings(everything=True, votes=3, seed=1, **more)
    round_ = open_round(project, None, run, settings)
    for item in round_.items.select_related("example", "round__protocol"):
        for place, person in enumerate(people):
            make_vote(item, person, says(item.example, place))
    close(Round.objects.get(pk=round_.pk), None)


@pytest.mark.system
def test_disagreements_that_nothing_explains_are_gaps_of_their_category(run, tmp_path):
    found = report(Analysis(run.project, run)).disagreement
    assert (found.n, found.labelled, found.number) == (16, 60, 16)
    assert sum(one.number for one in found.parts) == pytest.approx(16)
    parts = {one.source: one for one in found.parts}
    # Three votes alike leave little to people's noise, and there are no samples.
    assert parts["rest"].share.value > 0.9
    assert parts["judge_noise"].share.reason.startswith("not measured")
    assert parts["rest"].share.low < parts["rest"].share.value <= parts["rest"].share.high
    assert found.unexplained == 16
    first = found.gaps[0]
    assert (first.kind, first.value, first.inside, first.gaps) == ("category", HOSTILE, 20, 14)
    assert first.p_holm < 0.001
    assert first.expected == pytest.approx(20 * 16 / 60)
    tag = next(one for one in found.gaps if one.kind == "tag")
    assert (tag.value, tag.inside, tag.gaps, tag.examples) == (
        "proof",
        5,
        5,
        ["e0", "e1", "e2", "e3", "e4"],
    )
    assert found.effect.reason.startswith("no example has a label")
    path = tmp_path / "report.zip"
    call_command("report", "gaps", run="1", output=path)
    assert verify(path) == []
    lines = "\n".join(report_lines(Analysis(run.project, run)))
    assert "not explained" in lines


def test_the_page_links_to_the_filter_that_shows_the_examples(run, client):
    project = run.project
    Project.objects.filter(pk=project.pk).update(primary_run=run)
    client.force_login(make_member(project, Role.OWNER))
    session = client.session
    session.save()
    page = client.get(reverse("results_page", args=["gaps", "people"]), {"run": 1}, follow=True)
    text = page.content.decode()
    if "Why do judge and people disagree" not in text:
        page = client.post(reverse("look", args=["gaps"]), follow=True)
        page = client.get(reverse("results_page", args=["gaps", "people"]), {"run": 1})
        text = page.content.decode()
    assert "Why do judge and people disagree?" in text
    assert HOSTILE not in text
    assert "?run=1&amp;tag=proof&amp;people=differs" in text
    shown = client.get(f"{reverse('examples', args=['gaps'])}?run=1&tag=proof&people=differs")
    rows = [row.example.external_id for row, *_ in shown.context["rows"]]
    assert rows == ["e0", "e1", "e2", "e3", "e4"]


def ask_again_with_a_clause(run):
    """People see with the clause what the judge saw in ten of the fourteen."""
    project = run.project
    Project.objects.filter(pk=project.pk).update(guidelines="A wrong proof never wins.")
    project.refresh_from_db()
    people = [make_annotator(project) for _ in range(3)]
    subset = Subset.chosen([f"category={HOSTILE}"])

    def says(example, person):
        return "lose" if example.number < 10 else "win"

    label_all(project, run, people, says, subset)


def test_a_clause_asks_only_the_affected_again_and_its_effect_has_an_interval(run):
    project = run.project
    before = Vote.objects.filter(example__project=project).count()
    ask_again_with_a_clause(run)
    asked = Round.objects.get(number=2)
    assert asked.items.count() == 20
    assert asked.protocol.number == 2
    votes = Vote.objects.filter(example__project=project)
    assert votes.count() == before + 60
    assert votes.filter(protocol__number=1).count() == before
    run = Run.objects.select_related("project").get(pk=run.pk)
    effect = report(Analysis(run.project, run)).disagreement.effect
    assert (effect.n, effect.disagreed) == (20, 14)
    assert effect.agreement_before.value == pytest.approx(6 / 20)
    assert effect.agreement_after.value == pytest.approx(16 / 20)
    assert effect.change.value == pytest.approx(0.5)
    assert 0 < effect.change.low < 0.5 < effect.change.high
    assert effect.warning == ""


def test_asking_only_disagreements_again_is_warned_about(run):
    project = run.project
    Project.objects.filter(pk=project.pk).update(guidelines="A wrong proof never wins.")
    project.refresh_from_db()
    people = [make_annotator(project) for _ in range(3)]
    names = Example.objects.filter(verdicts__label="lose", project=project)
    subset = Subset.chosen(ids=names.values_list("external_id", flat=True))
    label_all(project, run, people, lambda example, person: "lose", subset)
    run = Run.objects.select_related("project").get(pk=run.pk)
    found = report(Analysis(run.project, run)).disagreement
    # All agree now, so that nothing is left to explain.
    assert found.reason == "judge and people disagree on no example"
    Verdict.objects.filter(run=run, example__external_id="e59").update(label="tie")
    effect = report(Analysis(run.project, run)).disagreement.effect
    assert effect.n == effect.disagreed == 16
    assert "Only disagreements were asked again" in effect.warning
    assert Decimal(str(effect.change.value)) == 1


def opened_with(clause, *arguments, where=f"category={HOSTILE}"):
    chosen = ("--where", where) if where else ()
    call_command(
        "open_round", "gaps", "--clause", clause, *chosen, *arguments,
        stdout=io.StringIO(), stderr=io.StringIO(),
    )  # fmt: skip
    return Round.objects.order_by("-number").first()


def test_one_command_adds_a_clause_and_asks_the_affected_again(run, client):
    project = run.project
    Project.objects.filter(pk=project.pk).update(primary_run=run, guidelines="Be fair.\n")
    asked = opened_with("A wrong proof never wins.")
    assert (asked.items.count(), asked.protocol.number) == (20, 2)
    both = "Be fair.\n\nA wrong proof never wins."
    project.refresh_from_db()
    assert project.guidelines == asked.protocol.guidelines == both
    event = project.audit_events.get(action="settings changed")
    assert event.detail == {"guidelines": {"before": "Be fair.\n", "now": both}}
    # Votes under the earlier version are kept, and none of them counts in the round.
    assert not asked.items.filter(state="complete").exists()
    assert Vote.objects.filter(protocol__number=1).count() == 180

    # What is refused changes nothing.
    for refused, said in (
        (("A wrong proof never wins.",), "have this clause already"),
        (("x" * 5_001,), "A clause is a text of at most 5,000 characters"),
        (("Another.", "--beta", "20"), "all of them are asked again"),
        (("Another.", "--train"), "all of them are asked again"),
    ):
        with pytest.raises(CommandError, match=said):
            opened_with(*refused)
    with pytest.raises(CommandError, match="the examples that it affects"):
        opened_with("Another.", where="")
    with pytest.raises(CommandError, match="There is no example with category nothing"):
        opened_with("Another.", where="category=nothing")
    with pytest.raises(CommandError, match="Choose how much is labelled"):
        call_command("open_round", "gaps", stdout=io.StringIO(), stderr=io.StringIO())
    Project.objects.filter(pk=project.pk).update(translations={"de": {"question_asked": "Was?"}})
    with pytest.raises(CommandError, match="people of other languages would not read"):
        opened_with("Another.")
    project.refresh_from_db()
    assert (project.guidelines, Round.objects.count()) == (both, 2)


def test_only_an_owner_adds_a_clause_by_program(run):
    project = run.project
    Project.objects.filter(pk=project.pk).update(primary_run=run)
    body = {"everything": True, "votes": 3, "where": ["category=" + HOSTILE], "clause": "Be exact."}
    at, answers = "/api/v1/projects/gaps/rounds", []
    for role in (Role.RESEARCHER, Role.OWNER):
        token = issue_token(make_member(project, role), "test", ["read", "write"])[1]
        sent = {"content_type": "application/json", "headers": {"Authorization": f"Bearer {token}"}}
        answers.append(Client().post(at, body, **sent))
    assert [one.status_code for one in answers] == [403, 202]
    project.refresh_from_db()
    assert project.guidelines == "Be exact."
    assert Round.objects.get(number=2).protocol.guidelines == "Be exact."
