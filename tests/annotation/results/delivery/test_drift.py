"""Two runs compared: the same three exits, by interval, and what changed where."""

import io
import json

import pytest
from django.core.management import CommandError, call_command

from annotation.models import GateLook
from annotation.results.demo import finished_study
from tests.factories import make_examples, make_run, make_verdict


def compare(*arguments):
    out = io.StringIO()
    try:
        call_command("compare", *arguments, stdout=out, stderr=io.StringIO())
    except SystemExit as ended:
        return ended.code, out.getvalue()
    except CommandError as refused:
        return refused.returncode, str(refused)
    return 0, out.getvalue()


@pytest.fixture
def two_runs(project):
    """300 examples of two categories; run B turns 30 labels of one of them, and nobody voted."""
    examples = make_examples(project, 150, category="code") + make_examples(project, 150)
    before, after = make_run(project), make_run(project)
    for place, example in enumerate(examples):
        make_verdict(before, example, 0.1)
        make_verdict(after, example, 0.1, label="lose" if place < 30 else "win")
    return project


@pytest.mark.system
def test_a_judge_that_became_worse_fails_and_one_that_became_better_passes(db):
    study = finished_study()
    assert compare(study.slug, "1", "2")[0] == 0
    assert compare(study.slug, "2", "1")[0] == 10
    assert compare(study.slug, "2", "1", "--margin", "0.34")[0] == 11
    # Each margin is a question of its own, and the same data is no new look.
    assert compare(study.slug, "2", "1", "--margin", "0.34")[0] == 11
    assert GateLook.objects.count() == 3
    # Spelled otherwise, it is the same question, and shares its error.
    assert compare(study.slug, "2", "1", "--margin", "0.340")[0] == 11
    assert GateLook.objects.count() == 3


def test_without_labels_the_win_rate_has_to_stay_and_the_category_that_moved_is_named(two_runs):
    code, out = compare("vicuna", "1", "2", "--json")
    told = json.loads(out)
    assert (code, told["verdict"], told["judged_by_both"]) == (10, "fail", 300)
    # 30 of 300 labels went from win to lose: a shift of -0.1.
    assert told["shift"]["value"] == pytest.approx(-0.1)
    assert told["changed"]["value"] == pytest.approx(0.1)
    code_rows, generic = told["by_category"]
    assert (code_rows["category"], code_rows["changed"]["value"]) == ("code", 0.2)
    assert code_rows["p_holm"] < 0.001 < generic["p_holm"]
    assert generic["changed"]["value"] == 0
    assert compare("vicuna", "1", "2", "--margin", "0.2")[0] == 0
    assert compare("vicuna", "1", "2", "--margin", "0.1")[0] == 11


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["1", "1"], 2), (["1", "2", "--margin", "0"], 2), (["1", "9"], 1), (["nobody", "1"], 1)],
)
def test_what_can_not_be_compared_is_refused(two_runs, arguments, code):
    assert compare("vicuna", *arguments)[0] == code
    assert not GateLook.objects.exists()
