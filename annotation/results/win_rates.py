"""Is model 1 better? Four win rates of response 1, and what trusting the judge does to them."""

import numpy as np

from annotation.results.figures import Json, lacking, shown
from annotation.results.sheet import Sheet
from judging.methods.arrays import Booleans, Codes, Signs
from judging.methods.clustered import design_effect
from judging.methods.estimates import Estimate, Figure, Undefined
from judging.methods.win_rate import (
    AuditedLabels,
    Scale,
    everyone_labelled,
    judge_bias,
    vote_noise,
    win_rate,
)

HOLLOW = "sampling error only; the judge's bias on unreviewed examples is not in it"
# A judge without a label says nothing for either side.
EVEN = 0.5


def win_rates(sheet: Sheet) -> Json:
    """For examples like these. `judge` and `final` are hollow: they do not answer about people."""
    judge = of_labels(sheet, sheet.judge, sheet.judged)
    final = of_labels(sheet, sheet.final, sheet.has_final)
    hollow = {"judge": _hollow(judge), "final": _hollow(final)}
    labels = audited_labels(sheet)
    if isinstance(labels, Undefined):
        names = ("people", "judge_and_people", "bias", "width_ratio")
        noisy = [f"{name}_with_vote_noise" for name in names[:2]]
        return hollow | lacking(labels, *names, *noisy)
    people, both = win_rate(labels, lam=0), win_rate(labels)
    noise = votes_noise(sheet)
    return hollow | {
        "people": people.as_json(),
        "judge_and_people": both.as_json(),
        "people_with_vote_noise": _noisy(labels, noise, lam=0),
        "judge_and_people_with_vote_noise": _noisy(labels, noise),
        "bias": _bias(sheet, labels).as_json(),
        "width_ratio": _ratio(both, people),
    }


def of_labels(sheet: Sheet, labels: Signs, rows: Booleans) -> Figure:
    """The mean of these labels where they are; the same figure wherever it stands."""
    return mean_of(labels[rows], sheet.question[rows])


def mean_of(labels: Signs, question: Codes) -> Figure:
    """Other examples like these would be of other questions."""
    values = Scale.WIN_RATE.points(labels)
    effect, questions = design_effect(values, question)
    return everyone_labelled(values, effect=effect, questions=questions)


def audited_labels(sheet: Sheet) -> AuditedLabels | Undefined:
    """Y of the selected, f of the rest, and both of the audit."""
    known = sheet.known
    if isinstance(known, Undefined):
        return known
    points = Scale.WIN_RATE.points
    human = points(sheet.human)
    if sheet.everyone:
        values, nothing = human[known.rows], np.zeros(0)
        apart = design_effect(values, sheet.question[known.rows])
        return AuditedLabels(values, nothing, nothing, nothing, *apart)
    judge, audited = _judge(sheet), sheet.audited & ~sheet.selected
    apart = design_effect(np.where(sheet.selected | audited, human, judge), sheet.question)
    return AuditedLabels(
        human[sheet.selected], judge[~sheet.selected], human[audited], judge[audited], *apart
    )


def votes_noise(sheet: Sheet) -> float | Undefined:
    """What other votes of the same people's kind would change, as a variance of the win rate.

    Without it the interval is about what this procedure, with these votes, says.
    """
    known = sheet.known
    if isinstance(known, Undefined):
        return known
    if sheet.basis == "gold":
        return Undefined("known labels have no votes whose noise could be told")
    spread = sheet.ballots.counts.score_variance()
    audited = sheet.audited & ~sheet.selected
    selected = known.rows if sheet.everyone else np.flatnonzero(sheet.selected)
    seen = selected if sheet.everyone else np.flatnonzero(sheet.selected | audited)
    single = int(np.isnan(spread[seen]).sum())
    if single:
        return Undefined(f"{single} of {len(seen)} examples have fewer than two votes")
    if sheet.everyone:
        return vote_noise(spread[selected], np.zeros(0), 0, len(selected))
    n_rest = int((~sheet.selected).sum())
    return vote_noise(spread[selected], spread[audited], n_rest, len(sheet))


def _noisy(labels: AuditedLabels, noise: float | Undefined, lam: float | None = None) -> Json:
    if isinstance(noise, Undefined):
        return noise.as_json()
    return win_rate(labels, lam=lam, noise=noise).as_json()


def _judge(sheet: Sheet) -> np.ndarray:
    return np.where(sheet.judged, Scale.WIN_RATE.points(sheet.judge), EVEN)


def _bias(sheet: Sheet, labels: AuditedLabels) -> Figure:
    """Where people labelled everything it is known and not estimated."""
    known = sheet.known
    if not sheet.everyone or isinstance(known, Undefined):
        return judge_bias(labels)
    error = _judge(sheet)[known.rows] - Scale.WIN_RATE.points(sheet.human[known.rows])
    return Estimate(float(error.mean()), len(error), note="every label is known")


def _hollow(found: Figure) -> Json:
    return found.as_json() | ({"hollow": HOLLOW} if isinstance(found, Estimate) else {})


def _ratio(both: Figure, people: Figure) -> Json:
    """Above 1 the judge's labels make the interval wider than people's alone."""
    widths = [_width(one) for one in (both, people)]
    if None in widths or not widths[1]:
        return Undefined("one of the two has no interval").as_json()
    return shown(widths[0] / widths[1])


def _width(found: Figure) -> float | None:
    if isinstance(found, Undefined) or found.low is None or found.high is None:
        return None
    return found.high - found.low
