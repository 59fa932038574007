"""The whole report on recorded judges, through import, database and analysis."""

import json

import numpy as np
import pytest
from django.core.management import call_command

from annotation.results.report.report import report_json
from annotation.results.sections.analysis import Analysis
from annotation.results.sections.methods import ADAPTIVE
from annotation.votes.imports import import_votes
from judging.dataset.writing import import_files
from judging.runs.models import Run
from judging.runs.recorded.writing import import_judgments
from tests.factories import make_examples, make_project, make_run, make_verdict

# The keys that scripts depend on.
KEYS = """project run coverage methods position conflict_by_gap by_category orders hitlc ties people
win_rate certificate alt_test length ablation models cost portia calibration judge_card""".split()


def figures_of(run):
    return report_json(Analysis(run.project, run))


@pytest.fixture
def llmbar(db, test_data):
    """The report on one judge and subset, from one of LLMBar's prompts or from both."""

    def read(subset, judge, *prompts):
        folder = test_data / "llmbar" / subset / judge
        files = [folder / prompt / "result.json" for prompt in prompts]
        project = make_project()
        import_files(project, None, files[:1], file_format="llmbar")
        return figures_of(import_judgments(project, None, files, file_format="llmbar"))

    return read


@pytest.mark.parametrize(
    ("subset", "judge", "prompt", "n", "first", "swapped", "same"),
    [
        ("Natural", "GPT-4", "Swap", 100, 92, 93, 93),
        ("Natural", "GPT-4", "Swap_CoT", 100, 93, 94, 93),
        ("Natural", "ChatGPT", "Swap", 100, 69, 77, 62),
        ("Natural", "ChatGPT", "Swap_CoT", 100, 71, 78, 63),
        ("Adversarial/Neighbor", "GPT-4", "Swap", 134, 99, 99, 120),
        ("Adversarial/Neighbor", "GPT-4", "Swap_CoT", 134, 98, 98, 118),
        ("Adversarial/Neighbor", "ChatGPT", "Swap", 134, 31, 31, 82),
    ],
)
def test_llmbar_comes_out_as_recorded(llmbar, subset, judge, prompt, n, first, swapped, same):
    found = llmbar(subset, judge, prompt)
    orders = found["orders"]
    assert found["coverage"]["basis"] == "gold"
    assert orders["original"]["accuracy_over_all"]["value"] * n == pytest.approx(first)
    assert orders["swapped"]["accuracy_over_all"]["value"] * n == pytest.approx(swapped)
    assert orders["consistency"]["value"] * n == pytest.approx(same)
    assert found["position"]["conflict_rate"]["value"] == pytest.approx(1 - same / n)


def test_a_figure_has_one_interval_wherever_it_stands(llmbar):
    found = llmbar("Natural", "ChatGPT", "Swap", "Swap_CoT")
    rows = {(row["name"], row["k"], row["beta"]): row for row in found["methods"]}
    own = rows["MEC+BPC", 2, 0]
    assert found["ablation"][-1]["accuracy"] == own["accuracy"]
    assert found["ablation"][-1]["kappa"] == own["kappa"]
    assert found["ties"]["half"]["accuracy"] == own["accuracy"]
    at = found["hitlc"]["beta"].index(20)
    reviewed, curve = rows["MEC+BPC+HITLC", 2, 20]["accuracy"], found["hitlc"]["bpde"][at]
    assert [reviewed[end] for end in ("low", "high")] == [curve[end] for end in ("low", "high")]
    assert found["hitlc"]["gain"][0]["reason"] == "nothing is reviewed"


def test_an_unparsable_judgment_is_outside_and_counted(llmbar):
    orders = llmbar("Adversarial/Neighbor", "ChatGPT", "Swap_CoT")["orders"]
    right = [orders[name]["accuracy_over_all"]["value"] * 134 for name in ("original", "swapped")]
    assert right == pytest.approx([30, 32])
    assert orders["consistency"]["n"] == 133
    assert orders["consistency"]["value"] * 133 == pytest.approx(83)


def test_the_convention_for_ties_turns_the_conclusion_over(llmbar):
    found = llmbar("Adversarial/Neighbor", "ChatGPT", "Swap", "Swap_CoT")
    assert found["ties"]["half"]["auroc"]["value"] == pytest.approx(0.21, abs=0.005)
    assert found["ties"]["wrong"]["auroc"]["value"] == pytest.approx(0.66, abs=0.005)
    assert found["hitlc"]["auroc"] == found["ties"]["half"]["auroc"]
    assert found["hitlc"]["no_better_than_chance"]
    assert [row["k"] for row in found["methods"] if row["name"] == "MEC+BPC"] == [1, 2]


def test_the_curve_starts_at_the_judge_and_ends_at_one(llmbar):
    found = llmbar("Natural", "ChatGPT", "Swap", "Swap_CoT")
    curves = found["hitlc"]
    judge = found["methods"][-6]
    assert (judge["name"], judge["k"], judge["beta"]) == ("MEC+BPC", 2, 0)
    for name in ("bpde", "random", "oracle", "one_order", "margin"):
        values = [one["value"] for one in curves[name]]
        assert len(values) == len(curves["beta"])
        assert values[0] == pytest.approx(judge["accuracy_over_all"]["value"])
        assert values[-1] == pytest.approx(1)
        assert values == sorted(values)
        oracle = [one["value"] for one in curves["oracle"]]
        assert all(a <= b + 1e-9 for a, b in zip(values, oracle, strict=True))


@pytest.mark.system
def test_pandalm_agrees_as_independently_computed(db, test_data, reference):
    expected = reference("pandalm_expected.json")
    project = make_project()
    folder = test_data / "pandalm"
    people, judge = folder / "testset-v1.json", folder / "gpt-3.5-turbo-testset-v1.json"
    import_files(project, None, [people], file_format="pandalm")
    import_votes(project, None, people, file_format="pandalm")
    found = figures_of(import_judgments(project, None, [judge], file_format="pandalm"))
    agreed = found["people"]
    for name, key in [
        ("fleiss_kappa", "fleiss"),
        ("krippendorff_alpha", "krippendorff_nominal"),
        ("gwet_ac1", "gwet_ac1"),
    ]:
        assert agreed[name]["value"] == pytest.approx(expected[key], abs=1e-12)
        assert agreed[name]["low"] < expected[key] < agreed[name]["high"]
    # Annotators are numbered as their votes come in, which is not the file's numbering.
    for one in agreed["pairwise"]:
        assert one["kappa"]["low"] < one["kappa"]["value"] < one["kappa"]["high"]
        assert one["kappa_linear"]["low"] < one["kappa_linear"]["value"]
    for one in agreed["annotators"]:
        assert one["with_the_others"]["low"] < one["with_the_others"]["value"]
        assert one["with_the_others"]["n"] < one["with_majority"]["n"] == 999
    pairs = sorted((one["agreement"]["value"], one["kappa"]["value"]) for one in agreed["pairwise"])
    percent, cohen = expected["percent_agreement"], expected["cohen"]
    assert np.array(pairs) == pytest.approx(np.array(sorted((percent[p], cohen[p]) for p in cohen)))
    judged = found["methods"]
    own = next(row for row in judged if row.get("run") and row["beta"] == 0)
    dropped = expected["gpt35"]["garbage_dropped"]
    assert own["accuracy"]["value"] == pytest.approx(dropped["accuracy"])
    assert own["accuracy"]["n"] == dropped["n"]
    assert own["kappa"]["value"] == pytest.approx(dropped["kappa"])
    wrong = expected["gpt35"]["garbage_as_own_class_wrong"]
    assert own["accuracy_over_all"]["value"] == pytest.approx(wrong["accuracy"])
    assert found["position"]["conflict_rate"]["reason"] == "this run asked in one order only"
    assert found["alt_test"]["omega"]["n"] == 3
    rate, noisy = (found["win_rate"][f"people{more}"] for more in ("", "_with_vote_noise"))
    assert rate["value"] == noisy["value"] == pytest.approx((422 + 105 / 2) / 999)
    assert noisy["low"] < rate["low"] < rate["high"] < noisy["high"]


def numbers_without_a_reason(found, path=""):
    """Paths of figures that are neither a number nor say why they are none."""
    if isinstance(found, dict):
        if found.get("value", 0) is None and not found.get("reason"):
            yield path
        for name, part in found.items():
            yield from numbers_without_a_reason(part, f"{path}.{name}")
    elif isinstance(found, list):
        for place, part in enumerate(found):
            yield from numbers_without_a_reason(part, f"{path}[{place}]")


def test_without_people_every_figure_says_why_it_is_none(project):
    run = make_run(project)
    for example in make_examples(project, 3):
        make_verdict(run, example, 0.1, rank=example.number + 1)
    found = json.loads(json.dumps(figures_of(run), allow_nan=False))
    assert set(KEYS) <= set(found)
    assert not list(numbers_without_a_reason(found))
    assert "no human labels" in found["methods"][-1]["accuracy"]["reason"]
    assert found["certificate"]["issued"] is False


def test_an_adaptive_run_has_no_ablation_over_k_and_no_plot_by_gap(llmbar):
    found = llmbar("Natural", "ChatGPT", "Swap", "Swap_CoT")
    assert [row["accuracy"]["value"] is None for row in found["ablation"]] == [False] * 4
    run = Run.objects.get()
    run.parameters["adaptive"] = {"confidence": 0.95}
    run.save()
    adaptive = figures_of(run)
    assert adaptive["run"]["adaptive"]
    derived = [row for row in adaptive["methods"] if row.get("judge_usd_estimated")]
    nulls = [
        *(row[name] for row in [*adaptive["ablation"], *derived] for name in ("accuracy", "kappa")),
        *(bar[name] for bar in adaptive["conflict_by_gap"] for name in bar if "samples" in name),
    ]
    assert {one["reason"] for one in nulls} == {ADAPTIVE.reason}
    assert adaptive["position"] == found["position"]


def test_an_empty_project_has_a_report_too(project):
    found = json.loads(json.dumps(figures_of(make_run(project)), allow_nan=False))
    assert not list(numbers_without_a_reason(found))


def test_the_command_prints_the_same(project, capsys):
    run = make_run(project)
    for example in make_examples(project, 3):
        make_verdict(run, example, 0.1, rank=example.number + 1)
    project.primary_run = run
    project.save()
    run.refresh_from_db()
    call_command("report", project.slug, json=True)
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(figures_of(run)))
