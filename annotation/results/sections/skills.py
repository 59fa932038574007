"""People as instruments: their skill, the labels that models of their votes give, their noise."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from annotation.results.data.figures import Plot, intervals, optional, plot, value_of
from annotation.results.data.sheet import Sheet
from annotation.results.sections.analysis import Analysis
from annotation.results.sections.people import read_again
from judging.core.formatting import percent
from judging.methods.agreement.accuracy import Comparison, accuracy
from judging.methods.agreement.noise import without_noise
from judging.methods.agreement.skills import DawidSkene, Hierarchical, dawid_skene, two_way_alpha
from judging.methods.arrays import Booleans, Codes, Floats, Signs
from judging.methods.intervals.bootstrap import share
from judging.methods.intervals.estimates import Figure, Undefined
from judging.projects.models import Project

# The model is sure of a label that is at least so likely.
CERTAIN = 0.9
NOBODY_TWICE = "nobody had a pair again"
MAJORITY = str(Project.LabelRule.MAJORITY)
NAMES = {
    MAJORITY: "majority",
    str(Project.LabelRule.DAWID_SKENE): "Dawid–Skene",
    str(Project.LabelRule.HIERARCHICAL): "hierarchical",
}


@dataclass(frozen=True)
class Skill:
    """n: votes. skill: how often the annotator says what is right, by the hierarchical model.

    dawid_skene: the same by Dawid and Skene's model, which gives no interval."""

    annotator: str
    n: int
    skill: Figure
    dawid_skene: float


@dataclass(frozen=True, kw_only=True)
class LabelsByRule:
    """win, tie, lose: examples by what the votes come to. differ: those that the majority labels
    otherwise or not at all. judge_accuracy: of the judge, if these labels are right; None without a
    run."""

    rule: str
    win: int
    tie: int
    lose: int
    differ: int
    judge_accuracy: Figure | None = optional()

    @property
    def name(self) -> str:
        return NAMES[self.rule]


@dataclass(frozen=True)
class SkillFigures:
    """rule: which of these labels are final. examples, votes: that the models rest on.

    two_way_alpha: Krippendorff's alpha, with limits for other examples and other annotators.
    guesses: how often a vote is a guess because the example is hard. uncertain: examples on whose
    label the hierarchical model is less than 90 % sure."""

    rule: str
    examples: int
    votes: int
    two_way_alpha: Figure
    guesses: Figure
    uncertain: int
    annotators: Sequence[Skill]
    labels: Sequence[LabelsByRule]

    @property
    def name(self) -> str:
        return NAMES[self.rule]

    @property
    def by_model(self) -> bool:
        return self.rule != MAJORITY


@dataclass(frozen=True)
class NoiseFigures:
    """with_one_vote: how often the judge says what one vote says. between_votes: how often two
    votes say the same. corrected: how often the judge would agree with people without noise.

    share: of the disagreement with one vote, the share that is people's noise. with_themselves: how
    often people give the same label again, over all people."""

    with_one_vote: Figure
    between_votes: Figure
    corrected: Figure
    share: Figure
    with_themselves: Figure

    @property
    def sentence(self) -> str:
        """Say it in a sentence; empty if nothing can be said."""
        if isinstance(self.share, Undefined) or isinstance(self.corrected, Undefined):
            return ""
        return (
            f"About {percent(self.share.value)} of the disagreement between the judge and one vote "
            f"is people's own noise. Without it, the judge would agree with people on about "
            f"{percent(self.corrected.value)} of the examples."
        )


def skills(sheet: Sheet, project: Project, run: bool = True) -> SkillFigures | Undefined:
    """Measure people by both models of votes, over the votes that labels rest on."""
    ballots = sheet.ballots
    rows, votes = ballots.rows, ballots.cast
    if isinstance(votes, Undefined):
        return Undefined("nobody has voted yet")
    simple, pooled = dawid_skene(votes), ballots.pooled
    if isinstance(simple, Undefined):
        return simple
    if isinstance(pooled, Undefined):
        return pooled
    return SkillFigures(
        rule=str(project.label_rule),
        examples=len(rows),
        votes=len(votes.label),
        # Seeded by the number of examples, so that the same votes always give the same interval.
        two_way_alpha=two_way_alpha(votes, sheet.question[rows], np.random.default_rng(len(rows))),
        guesses=pooled.mean_difficulty(),
        uncertain=int((pooled.posterior.max(axis=1) < CERTAIN).sum()),
        annotators=_annotators(ballots.names, ballots.present, simple, pooled),
        # Both models rest on the same votes as the majority, so that only the rule makes a
        # difference.
        labels=_labels(sheet, rows, simple.posterior, pooled.posterior, run),
    )


def _annotators(
    names: Sequence[str], present: Booleans, simple: DawidSkene, pooled: Hierarchical
) -> list[Skill]:
    n_votes = present.sum(axis=0)
    return [
        Skill(name, int(n), pooled.skill(place, int(n)), float(simple.skill[place]))
        for place, (name, n) in enumerate(zip(names, n_votes, strict=True))
    ]


def _labels(
    sheet: Sheet, rows: Codes, simple: Floats, pooled: Floats, run: bool
) -> list[LabelsByRule]:
    sign, has = sheet.ballots.counts.majority()
    majority, there = sign[rows], has[rows]
    by_rule: list[tuple[str, Signs, Booleans]] = [(MAJORITY, majority, there)]
    for rule, posterior in zip(list(NAMES)[1:], (simple, pooled), strict=True):
        # Columns are win, tie and lose, so that a column's sign is 1 less its place.
        labels = (1 - posterior.argmax(axis=1)).astype(np.int8)
        by_rule.append((rule, labels, np.ones(len(rows), bool)))
    return [
        LabelsByRule(
            rule=rule,
            win=int((there_is & (labels == 1)).sum()),
            tie=int((there_is & (labels == 0)).sum()),
            lose=int((there_is & (labels == -1)).sum()),
            differ=int((~there | (labels != majority))[there_is].sum()),
            judge_accuracy=_accuracy(sheet, rows, labels, there_is) if run else None,
        )
        for rule, labels, there_is in by_rule
    ]


def _accuracy(sheet: Sheet, rows: Codes, labels: Signs, there: Booleans) -> Figure:
    """Return how often the judge is right if the label that the votes give is the right one."""
    known = sheet.known
    if isinstance(known, Undefined):
        return known
    place = np.full(len(sheet), -1, np.intp)
    # `labels` has the examples with votes alone, and a known label can be of another example.
    place[rows[there]] = np.flatnonzero(there)
    inside = place[known.rows] >= 0
    chosen = known.rows[inside]
    if not len(chosen):
        return Undefined("no example with a known label has votes")
    return accuracy(
        Comparison(
            sheet.judge[chosen],
            sheet.judged[chosen],
            labels[place[chosen]],
            known.weight[inside],
            known.stratum[inside],
            sheet.question[chosen],
            knows_ties=sheet.knows_ties,
        )
    )


SKILLS, NOISE = "skills", "noise"


def noise(of: Analysis) -> NoiseFigures | Undefined:
    """Return how much of the disagreement between judge and people is people's own."""
    sheet, known = of.sheet, of.sheet.known
    if isinstance(known, Undefined):
        return known
    rows = known.rows
    attenuation = without_noise(
        sheet.judge[rows], sheet.judged[rows], sheet.ballots.counts.counts[rows], of.rng,
        weight=known.weight, stratum=known.stratum, question=sheet.question[rows],
    )  # fmt: skip
    return NoiseFigures(
        attenuation.with_one_vote, attenuation.between_votes, attenuation.corrected,
        attenuation.share, _with_themselves(of),
    )  # fmt: skip


def _with_themselves(of: Analysis) -> Figure:
    """Return how often people agree with themselves. A person's pairs are drawn together."""
    again = of.own("self_agreement", read_again)
    if isinstance(again, Undefined):
        return Undefined(NOBODY_TWICE)
    return share(again.arrays["same"], again.arrays["person"], reason=NOBODY_TWICE)


def skills_plot(figures: SkillFigures | Undefined) -> Plot:
    rows = []
    for annotator in () if isinstance(figures, Undefined) else figures.annotators:
        drawn = value_of(annotator.skill)
        rows.append({"annotator": annotator.annotator} | drawn)
    bars = intervals("annotator", "share of right labels")
    caption = (
        "How often each annotator says what is right, by the hierarchical model, with 95\u202f% "
        "intervals. The line is at one half."
    )
    return plot(SKILLS, "Annotators' skill", caption, rows if len(rows) > 1 else [], bars)
