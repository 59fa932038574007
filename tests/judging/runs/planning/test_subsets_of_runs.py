"""A run over a part of the examples, and answers that are copied from an earlier run."""

import json
import zipfile
from decimal import Decimal

import pytest
from django.core.management import CommandError, call_command

from annotation.results.report.report import coverage, report
from annotation.results.sections.analysis import Analysis
from annotation.results.tables.exports import label_rows, sample_rows
from annotation.rounds.opening import RoundSettings, open_round
from judging.core.errors import UserError
from judging.dataset.subsets import Subset, freeze
from judging.methods.intervals.estimates import Undefined
from judging.runs.engine.progress import progress_of
from judging.runs.models import Call, Parse, Run, Sample, Verdict
from judging.runs.planning.estimate import estimate_run
from tests.factories import make_examples
from tests.judging.runs.judging import judged
from tests.judging.runs.judging import loopback as any_loopback
from tests.loopback.judges import BiasedJudge

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.databases]
MATH = Subset.chosen(["category=math"])


def loopback(settings):
    """A judge whose replies differ, so that none looks like a cache's."""
    return any_loopback(settings, judge=BiasedJudge())


@pytest.fixture
def project(project):
    make_examples(project, 4, category="math")
    make_examples(project, 8, category="code")
    return project


def test_a_run_asks_about_its_part_alone_and_later_imports_dont_change_it(settings, project):
    with loopback(settings):
        run = judged(project, subset=MATH, k=1)
        make_examples(project, 3, category="math")
        assert run.state == Run.State.DONE
        again = progress_of(run)
    assert (again.examples, again.expected, again.settled) == (4, 8, 8)
    verdicts = Verdict.objects.filter(run=run)
    names = set(verdicts.values_list("example__external_id", flat=True))
    assert names == {"e0", "e1", "e2", "e3"}
    assert sorted(verdicts.values_list("rank", flat=True)) == [1, 2, 3, 4]
    found = coverage(Analysis(project, run))
    assert (found.examples, found.frame, found.judged.value) == (4, "with category math", 1.0)
    rows = list(label_rows(project, run, names=False))
    assert [row["external_id"] for row in rows] == ["e0", "e1", "e2", "e3"]


def test_the_estimate_prices_the_part(settings, project):
    with loopback(settings):
        price = (Decimal(1), Decimal(1))
        whole = estimate_run(project, endpoint="loop", price=price)
        part = estimate_run(project, endpoint="loop", price=price, subset=MATH)
        sample = Subset.chosen(["category=code"], sample=2, seed=1)
        small = estimate_run(project, endpoint="loop", price=price, subset=sample)
    assert (whole.n_examples, part.n_examples, small.n_examples) == (12, 4, 2)
    assert (whole.n_calls, part.n_calls, small.n_calls) == (24, 8, 4)
    assert part.usd < whole.usd / 2
    assert part.frame == "with category math"
    assert not project.frames.exists()


def test_the_command_takes_conditions_samples_and_ids(settings, project, tmp_path, capsys):
    path = tmp_path / "ids.txt"
    path.write_text("external_id\ne3\n\ne5\n", encoding="utf-8")
    with loopback(settings):
        judge = {"endpoint": "loop", "k": 1}
        call_command("judge", project.slug, where=["category=code"], sample=2, seed=1, **judge)
        call_command("judge", project.slug, examples=path, **judge)
        call_command("judge", project.slug, "--estimate", where=["category=math"], **judge)
        with pytest.raises(CommandError, match="keeps the examples"):
            call_command("judge", project.slug, resume="1", where=["category=math"])
        with pytest.raises(CommandError, match="is no condition"):
            call_command("judge", project.slug, where=["math"], **judge)
    assert "4 examples with category math, 8 calls" in capsys.readouterr().out
    first, second = project.runs.order_by("number")
    assert first.frame.words == "with category code, drawn at random (seed 1)"
    assert first.frame.members.count() == 2
    names = second.frame.members.values_list("example__external_id", flat=True)
    assert sorted(names) == ["e3", "e5"]


def test_a_run_over_all_takes_the_place_of_a_pilot_as_primary_run(settings, project):
    with loopback(settings):
        pilot = judged(project, subset=MATH, k=1)
        project.refresh_from_db()
        assert project.primary_run == pilot
        whole = judged(project, k=1)
        project.refresh_from_db()
        assert project.primary_run == whole
        judged(project, subset=MATH, k=1)
    project.refresh_from_db()
    assert project.primary_run == whole


def test_a_round_over_a_part_selects_and_audits_there(settings, project):
    with loopback(settings):
        run = judged(project, k=1)
    part = RoundSettings(beta=Decimal(50), audit=1, votes=1, subset=MATH, seed=1)
    round_ = open_round(project, None, run, part)
    assert round_.frame_size == 4
    items = list(round_.items.values_list("example__category", flat=True))
    assert items == ["math"] * 3
    # Over all examples, the audited one of a part stands for itself alone.
    whole, part = Analysis(project, run), Analysis(project, run, freeze(project, MATH))
    assert (int(whole.sheet.audited.sum()), int(whole.sheet.selected.sum())) == (0, 3)
    assert (int(part.sheet.audited.sum()), int(part.sheet.selected.sum())) == (1, 2)
    assert report(part).coverage.frame == "with category math"
    # Nor does it certify anything about them.
    assert isinstance(whole.audit, Undefined)
    assert part.audit.number == round_.number


def test_a_round_of_a_run_over_a_part_stays_in_it(settings, project):
    with loopback(settings):
        run = judged(project, subset=MATH, k=1)
    round_ = open_round(project, None, run, RoundSettings(beta=Decimal(50), votes=1, audit=2))
    assert (round_.frame_id, round_.frame_size, round_.items.count()) == (run.frame_id, 4, 4)
    code = Subset.chosen(["category=code"])
    with pytest.raises(UserError, match="There is no example with category code"):
        open_round(project, None, run, RoundSettings(everything=True, subset=code))


def test_identical_answers_are_copied_at_no_cost_and_marked(settings, project):
    price = (Decimal(1), Decimal(1))
    with loopback(settings) as server:
        pilot = judged(project, subset=MATH, k=2, price=price)
        asked = len(server.log)
        estimate = estimate_run(project, endpoint="loop", k=3, price=price, reuse=True)
        whole = judged(project, k=3, price=price, reuse=True, concurrency=1)
        new = server.log[asked:]
    # Four examples in two orders have two of three samples already.
    assert estimate.reused == 16
    assert progress_of(whole).reused == 16
    assert sum(entry.n for entry in new) == 12 * 2 * 3 - 16
    copies = whole.calls.exclude(reused_from=None)
    assert set(copies.values_list("reused_from", "usd")) == {(pilot.number, Decimal(0))}
    assert whole.spent_usd == sum(call.usd for call in whole.calls.all())
    assert Verdict.objects.filter(run=whole, state="judged").count() == 12
    for copy in Sample.objects.filter(call__in=copies).select_related("call"):
        source = Sample.objects.get(
            call__run=pilot, call__example=copy.call.example, call__part=copy.call.part,
            slot=copy.slot,
        )  # fmt: skip
        assert (copy.raw_text, copy.logprobs) == (source.raw_text, source.logprobs)
        given, read = (Parse.objects.get(sample=one, current=True) for one in (source, copy))
        assert (read.outcome, read.score_1, read.status) == (
            given.outcome, given.score_1, given.status,
        )  # fmt: skip
    assert coverage(Analysis(project, whole)).reused == 16
    marks = [row["reused_from"] for row in sample_rows(whole)]
    assert (marks.count(pilot.number), marks.count(None)) == (16, 72 - 16)


@pytest.mark.parametrize(
    "other",
    [{"temperature": Decimal("0.5")}, {"max_tokens": 700}, {"method": "mec", "form": "relation"}],
)
def test_nothing_is_copied_from_a_run_with_other_settings(settings, project, other):
    with loopback(settings):
        judged(project, subset=MATH, k=1, **other)
        run = judged(project, subset=MATH, k=1, reuse=True)
    assert not run.calls.exclude(reused_from=None).exists()


def test_nothing_is_copied_from_another_address(settings, project):
    with loopback(settings):
        judged(project, subset=MATH, k=1)
    with loopback(settings):
        run = judged(project, subset=MATH, k=1, reuse=True)
    assert not run.calls.exclude(reused_from=None).exists()


def test_what_a_cache_repeated_is_asked_again(settings, project):
    with any_loopback(settings):
        pilot = judged(project, subset=MATH, k=1)
        assert pilot.calls.filter(noticed="repeated").count() == 7
        run = judged(project, subset=MATH, k=1, reuse=True)
    assert run.calls.exclude(reused_from=None).count() == 1


def test_without_asking_for_it_nothing_is_copied(settings, project):
    with loopback(settings):
        judged(project, subset=MATH, k=1)
        run = judged(project, subset=MATH, k=1)
    assert Call.objects.filter(run=run, reused_from=None).count() == 8


def test_a_run_that_is_all_copies_sends_nothing(settings, project):
    with loopback(settings) as server:
        judged(project, k=2)
        asked = len(server.log)
        run = judged(project, subset=MATH, k=2, reuse=True, budget=Decimal(0), price=(1, 1))
        assert len(server.log) == asked
    assert (run.state, run.reason, run.spent_usd) == (Run.State.DONE, "", 0)
    assert Verdict.objects.filter(run=run, state="judged").count() == 4


@pytest.mark.system
def test_a_package_of_a_part_holds_by_its_own_tables(settings, project, tmp_path, capsys):
    with loopback(settings):
        judged(project, k=1)
    path = tmp_path / "report.zip"
    call_command("report", project.slug, where=["category=math"], output=path)
    call_command("verify", path)
    with zipfile.ZipFile(path) as archive:
        labels = archive.read("labels.csv").decode().splitlines()
        figures = json.loads(archive.read("report.json"))
        methods = archive.read("methods.md").decode()
    assert len(labels) == 1 + 4
    assert figures["coverage"]["frame"] == "with category math"
    assert "Examples: 4 with category math" in methods
    call_command(
        "export",
        project.slug,
        where=["category=code"],
        what="samples",
        format="jsonl",
        output=tmp_path / "samples.jsonl",
    )
    assert project.exports.latest("pk").n_rows == 8 * 2
    assert project.exports.latest("pk").options["subset"] == {"where": [["category", ["code"]]]}
