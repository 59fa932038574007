"""Every comparison form from the judge to the report: k samples, both orders, people, figures."""

from decimal import Decimal
from fractions import Fraction

import pytest

from annotation.models import Draft
from annotation.queue.queue import claim_next
from annotation.results.merge.final_labels import merged
from annotation.results.report.report import report_json
from annotation.results.sections.analysis import Analysis
from annotation.rounds.opening import RoundSettings, open_round
from annotation.votes.voting import record_vote
from judging.dataset.models import Example
from judging.methods.verdicts.verdicts import entropy
from judging.runs.models import Parse, Verdict
from judging.runs.templates import template_from
from tests.factories import make_annotator, make_examples, make_project
from tests.judging.runs.judging import judged, loopback
from tests.judging.runs.portia_pairs import response
from tests.loopback.portia import StagedJudge, undecided

pytestmark = pytest.mark.django_db(transaction=True)

N, K = 10, 3
OWN = """
form = "score"
reply = "score_pair"
scale = [1, 10]
sample_reply = "8 6"
text = '''
{question}
[The Start of Assistant A's response]
{first}
[The End of Assistant A's response]
[The Start of Assistant B's response]
{second}
[The End of Assistant B's response]
By {criteria}: a line of only two values, from 1 to 10.
'''
"""
# What one sample says of responses 1 and 2 where response 1 wins.
SCORES, SHARES, RATINGS = (9, 3), (1, 0), (7, 1)
CASES = [
    ("score", "faireval-table3", SCORES),
    ("score", "faireval-table3-json", SCORES),
    ("score", "faireval-table1", SCORES),
    ("score", "portia-table14", SCORES),
    ("score", "own", SCORES),
    ("relation", "portia-table13", SHARES),
    ("relation", "faireval-table5", SHARES),
    ("likert", "portia-table15", RATINGS),
]

# A report takes a second or two; the other templates of a form differ from these in their reply.
REPORTED = ("faireval-table3", "portia-table13", "faireval-table5", "portia-table15")


def pairs():
    """Half of them of one length, about which the judge wavers."""
    project = make_project(criteria=["accuracy"])
    for number in range(N):
        lengths = (6, 3) if number % 2 else (4, 4)
        first, second = (response(number + i, n) for i, n in enumerate(lengths))
        make_examples(project, 1, response_1=first, response_2=second, gold_label="win")
    return project


def expected(verdict, win):
    """CS and BPDE from the outcomes alone, with equations 2 to 5."""
    of = {"win": win, "tie": (Fraction(sum(win), 2),) * 2, "lose": win[::-1]}
    orders = [[label for label in order if label] for order in verdict.outcomes.values()]
    means = [[sum(Fraction(of[x][i]) for x in o) / len(o) for i in (0, 1)] for o in orders]
    shares = tuple(
        sum(Fraction(o.count(x), len(o)) for o in orders) / 2 for x in ("win", "tie", "lose")
    )
    return float(sum(m[0] for m in means) / 2), float(sum(m[1] for m in means) / 2), entropy(shares)


@pytest.mark.parametrize(("form", "template", "win"), CASES)
def test_a_form_goes_from_the_judge_to_the_report(settings, tmp_path, form, template, win):
    project = pairs()
    if template == "own":
        path = tmp_path / "own.toml"
        path.write_text(OWN)
        template = template_from(path)
    with loopback(settings, judge=StagedJudge(undecided, seed=5)):
        run = judged(project, form=form, template=template, k=K)
    statuses = Parse.objects.filter(sample__call__run=run).values_list("status", flat=True)
    assert list(statuses) == ["valid"] * N * 2 * K
    verdicts = list(Verdict.objects.filter(run=run).order_by("example__number"))
    for verdict in verdicts:
        found = verdict.cs_1, verdict.cs_2, verdict.bpde
        assert found == pytest.approx(expected(verdict, win))
    assert [v.label for v in verdicts[1::2]] == ["win"] * (N // 2)
    assert {v.bpde for v in verdicts[1::2]} == {0.0}
    assert sum(v.bpde > 0 for v in verdicts[::2]) > N // 4

    Example.objects.filter(project=project).update(gold_label=None)
    reviewed = review(project, run)
    ranked = [v.example_id for v in sorted(verdicts, key=lambda v: v.rank)]
    assert set(reviewed) == set(ranked[: N // 5])
    labels = [one for one in merged(project, run) if one.example.pk in reviewed]
    assert {(one.label, one.source) for one in labels} == {("tie", "majority")}
    if template in REPORTED:
        check_report(project, run)


def check_report(project, run):
    found = report_json(Analysis(project, run))
    assert found["coverage"]["judged"]["value"] == 1
    assert found["coverage"]["samples"] == {"valid": N * 2 * K}
    assert found["position"]["conflict_rate"]["n"] == N
    accuracy = next(row for row in found["methods"] if row.get("run") and row["beta"] == 0)
    assert accuracy["accuracy"]["value"] is not None
    assert found["win_rate"]["judge"]["value"] is not None
    assert found["portia"]["reason"]


def review(project, run):
    """People find every one of the most contested fifth, and of the audit, a tie."""
    round_ = open_round(
        project, None, run, RoundSettings(beta=Decimal(20), votes=1, audit=N - N // 5)
    )
    person = make_annotator(project)
    while isinstance(draft := claim_next(round_, person), Draft):
        record_vote(draft, {"overall": "tie", "criteria": {"accuracy": "tie"}})
    tops = round_.items.filter(selection__kind="top")
    return list(tops.values_list("example_id", flat=True))
