"""How people work: how they agree, which side they choose, how fast they vote, what they say on
each criterion, and which criteria explain their overall votes."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from django.db.models import Q
from django.db.models.query import QuerySet

from annotation.models import Annotator, Protocol, Vote
from annotation.results.data.figures import (
    Data,
    Number,
    Plot,
    Sentence,
    colour,
    intervals,
    optional,
    plot,
    tooltip,
    value_of,
    x_axis,
)
from annotation.results.data.figures import share as share_of
from annotation.results.data.sheet import Ballots, Sheet
from annotation.results.merge.final_labels import repeated_answers
from annotation.results.sections.analysis import Analysis
from annotation.votes.agreement import SIGN, criteria_asked, criterion_answers
from judging.core.formatting import count, number_of
from judging.methods.agreement.accuracy import Comparison, Design
from judging.methods.agreement.annotators import SideBias, pooled_side_bias, side_bias, side_table
from judging.methods.agreement.votes import (
    NO_MAJORITY,
    Statistic,
    agreement_interval,
    agrees_with_majority,
    beyond_chance,
    category_counts,
    equally_often,
    fleiss_kappa,
    gwet_ac1,
    kappa,
    krippendorff_alpha,
    percent_agreement,
)
from judging.methods.arrays import Booleans, Codes, Counts
from judging.methods.intervals.bootstrap import design_effect, share
from judging.methods.intervals.covariates import Explanation, explained_by
from judging.methods.intervals.estimates import Figure, Undefined, holm_of_tested, median, wilson
from judging.methods.intervals.win_rate import AuditedLabels, win_rate, win_rate_test
from judging.projects.models import Project

SIGNS = (1, 0, -1)
# Pairs of more annotators than this fill pages without saying more.
MOST_PAIRED = 12
NOTHING_SHARED = Undefined("these two share no example")


@dataclass(frozen=True)
class PairAgreement:
    """Two annotators, on the examples that both voted on."""

    annotators: tuple[str, str]
    agreement: Figure
    kappa: Figure
    kappa_linear: Figure


@dataclass(frozen=True)
class AnnotatorAgreement:
    """n: votes. with_majority counts the annotator's own vote in it, with_the_others does not."""

    annotator: str
    n: int
    with_majority: Figure
    with_the_others: Figure


@dataclass(frozen=True)
class NoSideBias:
    annotator: str
    left_rate: Undefined


@dataclass(frozen=True)
class SideBiasFigures:
    """left_rate: how often the left response won. p_holm: adjusted for the number of annotators."""

    annotator: str
    left_rate: Figure
    p: float | None
    p_holm: float | None


@dataclass(frozen=True, kw_only=True)
class PooledSideBias:
    odds_ratio: Number | Undefined
    p: float | None = optional()


@dataclass(frozen=True)
class VotersAgree:
    """n: examples with votes. fleiss_votes: votes of each of those that Fleiss' kappa is over."""

    n: int
    agreement: Figure
    fleiss_kappa: Figure
    fleiss_votes: int
    krippendorff_alpha: Figure
    gwet_ac1: Figure


@dataclass(frozen=True, kw_only=True)
class PeopleFigures:
    """Over the votes that the labels rest on; `on` says which examples these are.

    audit: over the audited examples alone, if some were selected by rank: only these are like all
    that the judge labels. fleiss_votes: votes of each of the examples that Fleiss' kappa is over.
    """

    on: str
    audit: VotersAgree | None = optional()
    agreement: Figure
    fleiss_kappa: Figure
    fleiss_votes: int
    krippendorff_alpha: Figure
    gwet_ac1: Figure
    pairwise: Sequence[PairAgreement]
    annotators: Sequence[AnnotatorAgreement]
    side_bias: Sequence[SideBiasFigures | NoSideBias]
    side_bias_pooled: PooledSideBias


def people(sheet: Sheet, rng: np.random.Generator) -> PeopleFigures:
    ballots = sheet.ballots
    counts = category_counts(ballots.votes, ballots.present, SIGNS)
    n_votes = counts.sum(axis=1)
    # All draw from one generator, so that their order is part of the figures.
    every = _agreement(counts, sheet.question, rng)
    audited = sheet.audited & ~sheet.selected & (n_votes > 0)
    # People disagree most on what was selected by rank, so only the audit tells how they agree
    # elsewhere.
    routed = audited.any() and not sheet.everyone and bool((sheet.selected & (n_votes > 0)).any())
    # A generator of its own, so that an audit doesn't change the draws for the figures after it.
    own = np.random.default_rng(int(audited.sum()))
    return PeopleFigures(
        on=_on(sheet, n_votes > 0),
        audit=_agreement(counts[audited], sheet.question[audited], own) if routed else None,
        agreement=every.agreement,
        fleiss_kappa=every.fleiss_kappa,
        fleiss_votes=every.fleiss_votes,
        krippendorff_alpha=every.krippendorff_alpha,
        gwet_ac1=every.gwet_ac1,
        pairwise=_pairwise(ballots, sheet.question, rng),
        annotators=[
            _annotator(ballots, rater, name, sheet.question)
            for rater, name in enumerate(ballots.names)
        ],
        side_bias=_side_bias(ballots),
        side_bias_pooled=_pooled(ballots),
    )


def voters_agree(sheet: Sheet, rng: np.random.Generator, confidence: float = 0.95) -> VotersAgree:
    """Return how all voters agree, over the votes that the labels rest on."""
    ballots = sheet.ballots
    counts = category_counts(ballots.votes, ballots.present, SIGNS)
    return _agreement(counts, sheet.question, rng, confidence)


def _agreement(
    counts: Counts, question: Codes, rng: np.random.Generator, confidence: float = 0.95
) -> VotersAgree:
    n_votes = counts.sum(axis=1)
    twice, (fleiss_votes, alike) = n_votes >= 2, equally_often(counts)

    def over(statistic: Statistic, rows: Booleans) -> Figure:
        return agreement_interval(statistic, counts[rows], question[rows], rng, confidence)

    return VotersAgree(
        n=int((n_votes > 0).sum()), agreement=over(percent_agreement, twice),
        # Fleiss' kappa needs the same number of votes on every example.
        fleiss_kappa=over(fleiss_kappa, alike), fleiss_votes=fleiss_votes,
        # Examples with one vote count in the chance term of AC1, though they have no pair of votes.
        krippendorff_alpha=over(krippendorff_alpha, twice), gwet_ac1=over(gwet_ac1, n_votes >= 1),
    )  # fmt: skip


def _on(sheet: Sheet, asked: Codes) -> str:
    if sheet.everyone:
        return f"the {int(asked.sum())} of {number_of(len(sheet), 'example')} that have votes"
    selected, audited = int((asked & sheet.selected).sum()), int((asked & sheet.audited).sum())
    elsewhere = int((asked & ~sheet.selected & ~sheet.audited).sum())
    if elsewhere and not selected + audited:
        return (
            f"the {elsewhere} of {number_of(len(sheet), 'example')} that have votes from elsewhere"
        )
    by_rank = f"the {number_of(selected, 'example')} selected by rank, where people disagree most"
    parts = [by_rank, f"{audited} audited"]
    if elsewhere:
        parts.append(f"{elsewhere} with votes from elsewhere")
    return f"{', '.join(parts[:-1])}, and {parts[-1]}"


def _pairwise(ballots: Ballots, question: Codes, rng: np.random.Generator) -> list[PairAgreement]:
    busiest = np.argsort(-ballots.present.sum(axis=0), kind="stable")[:MOST_PAIRED]
    rows = []
    for a, b in combinations(sorted(busiest.tolist()), 2):
        both = np.flatnonzero(ballots.present[:, a] & ballots.present[:, b])
        first, second = ballots.votes[both, a], ballots.votes[both, b]
        n = len(both)
        nothing = np.zeros(n, np.intp)
        pair = Comparison(first, np.ones(n, bool), second, np.ones(n), nothing, question[both])
        agreed = share(first == second, question[both], reason=NOTHING_SHARED.reason)
        names, linear = (ballots.names[a], ballots.names[b]), {"linear": True}
        rows.append(PairAgreement(names, agreed, _kappa(pair, rng), _kappa(pair, rng, **linear)))
    return rows


def _kappa(pair: Comparison, rng: np.random.Generator, *, linear: bool = False) -> Figure:
    return kappa(pair, rng, linear=linear) if len(pair) else NOTHING_SHARED


def _annotator(ballots: Ballots, rater: int, name: str, question: Codes) -> AnnotatorAgreement:
    def agrees(*, own_vote: bool) -> Figure:
        votes = ballots.votes, ballots.present
        rows, agreed = agrees_with_majority(*votes, rater, own_vote=own_vote)
        return share(agreed, question[rows], reason=NO_MAJORITY)

    n = int(ballots.present[:, rater].sum())
    return AnnotatorAgreement(name, n, agrees(own_vote=True), agrees(own_vote=False))


def _tables(ballots: Ballots) -> list[np.ndarray]:
    tables = []
    for rater in range(len(ballots.names)):
        # Imported votes often don't say which response was on the left.
        rows = ballots.present[:, rater] & (ballots.left[:, rater] > 0)
        tables.append(side_table(ballots.votes[rows, rater], ballots.left[rows, rater] == 1))
    return tables


def _side_bias(ballots: Ballots) -> list[SideBiasFigures | NoSideBias]:
    biases = side_bias(dict(zip(ballots.names, _tables(ballots), strict=True)))
    return [_lean(name, bias) for name, bias in biases.items()]


def _lean(name: str, bias: SideBias | Undefined) -> SideBiasFigures | NoSideBias:
    if isinstance(bias, Undefined):
        return NoSideBias(name, bias)
    # The rate times n is a whole number but for rounding.
    rate: Figure = wilson(round(bias.left_rate * bias.n), bias.n)
    return SideBiasFigures(name, rate, bias.p, bias.p_holm)


def _pooled(ballots: Ballots) -> PooledSideBias:
    bias = pooled_side_bias(_tables(ballots))
    if isinstance(bias, Undefined):
        return PooledSideBias(odds_ratio=bias)
    ratio = bias.odds_ratio
    odds = ratio if isinstance(ratio, Undefined) else Number(float(ratio))
    return PooledSideBias(odds_ratio=odds, p=bias.p)


NAME = "pace"
# Points of one person's line; with fewer votes than this times five each point has five.
MOST_POINTS, FEWEST_VOTES = 20, 5
NO_TIMES = Undefined("no vote on the annotators' screen that counts was timed")


@dataclass(frozen=True)
class PacePoint:
    """The median over some votes, by their places in the order given."""

    from_: int
    to: int
    seconds: Figure


@dataclass(frozen=True)
class Pace:
    annotator: str
    n: int
    median_seconds: Figure
    points: Sequence[PacePoint]


def pace(analysis: Analysis) -> list[Pace]:
    """Return an entry for each person, in the order in which they joined."""
    times = analysis.own(NAME, read)
    return [] if isinstance(times, Undefined) else by_person(times)


def read(analysis: Analysis) -> Data | Undefined:
    return times_of(analysis.project)


def times_of(project: Project) -> Data | Undefined:
    """Return the active seconds of votes given on the screen, by person, from 2 queries."""
    rows = list(_timed(project).values_list("annotator", "active_seconds"))
    if not rows:
        return NO_TIMES
    people = Annotator.objects.in_bulk({person for person, _ in rows})
    joined = sorted(people.values(), key=lambda person: person.number)
    place = {person.pk: n for n, person in enumerate(joined)}
    arrays = {
        "person": np.array([place[person] for person, _ in rows], dtype=np.intp),
        "seconds": np.array([seconds for _, seconds in rows], dtype=np.float64),
    }
    return Data(arrays, {"names": [person.pseudonym for person in joined]})


def _timed(project: Project) -> QuerySet[Vote]:
    # A point of the line is the median of consecutive votes. Two votes may have the same time.
    return Vote.objects.filter(
        item__round__project=project, source=Vote.Source.SCREEN, active_seconds__isnull=False
    ).order_by("submitted_at", "pk")


def by_person(times: Data) -> list[Pace]:
    person, seconds = times.arrays["person"], times.arrays["seconds"]
    rows = []
    for place, name in enumerate(times.plain["names"]):
        theirs = seconds[person == place]
        parts = np.array_split(theirs, min(MOST_POINTS, max(1, len(theirs) // FEWEST_VOTES)))
        starts = np.cumsum([0, *map(len, parts)])
        points = [
            PacePoint(int(start) + 1, int(start) + len(part), median(part))
            for start, part in zip(starts, parts, strict=False)
        ]
        rows.append(Pace(name, len(theirs), median(theirs), points))
    return rows


SELF = "self_agreement"
NOT_ASKED_AGAIN = Undefined("no pair was asked of the same person again")


@dataclass(frozen=True)
class SelfAgreement:
    """How often a person gave the same label when they had a pair again, the sides exchanged."""

    annotator: str
    agreement: Figure


def self_agreement(analysis: Analysis) -> list[SelfAgreement]:
    """Return an entry for each person, in the order in which they joined."""
    again = analysis.own(SELF, read_again)
    return [] if isinstance(again, Undefined) else with_themselves(again)


def read_again(analysis: Analysis) -> Data | Undefined:
    return again_of(analysis.project)


def again_of(project: Project) -> Data | Undefined:
    """Read whether both answers to a pair that a person had again are the same. Two queries."""
    answers = repeated_answers(project)
    if not answers:
        return NOT_ASKED_AGAIN
    names = list(dict.fromkeys(pair.annotator.pseudonym for pair in answers))
    arrays = {
        "person": np.array([names.index(pair.annotator.pseudonym) for pair in answers], np.intp),
        "same": np.array([pair.label == pair.first_label for pair in answers], np.bool_),
    }
    return Data(arrays, {"names": names})


def with_themselves(again: Data) -> list[SelfAgreement]:
    rows = []
    for place, name in enumerate(again.plain["names"]):
        same = again.arrays["same"][again.arrays["person"] == place]
        # An unweighted share, for which Wilson's interval holds.
        rows.append(SelfAgreement(name, wilson(int(same.sum()), len(same))))
    return rows


def pace_plot(paces: Sequence[Pace]) -> Plot:
    rows = []
    for entry in paces:
        for point in entry.points:
            drawn = value_of(point.seconds)
            row = {"vote": point.to, "annotator": entry.annotator}
            row |= {"votes": f"{point.from_}–{point.to}", "seconds": drawn.pop("value")}
            rows.append(row | drawn)
    names = [entry.annotator for entry in paces]
    lines = {
        "mark": {"type": "line", "point": {"size": 24}},
        "encoding": {
            "x": x_axis("vote", "their votes so far") | {"axis": {"tickMinStep": 1}},
            "y": {"field": "seconds", "type": "quantitative", "title": "active seconds per vote"},
            "color": colour("annotator", names),
            "tooltip": tooltip("annotator", "votes", "seconds", "low", "high"),
        },
    }
    caption = "Each point is the median of some consecutive votes. Imported votes aren't counted."
    return plot(NAME, "Annotators' pace", caption, rows, lines)


def answer(figures: PeopleFigures) -> Sentence:
    """Say how often two people agree, and whether that is more than chance would give."""
    agreed, beyond = figures.agreement, figures.krippendorff_alpha
    if isinstance(agreed, Undefined):
        return Sentence(f"How often people agree isn't known yet: {agreed.reason}.", "people")
    # Agreement by itself can be high by chance alone, so the sentence says what alpha's interval
    # shows.
    chance = "It isn't clear whether that is more than chance would give."
    warns = True
    if not isinstance(beyond, Undefined) and beyond.low is not None and beyond.high is not None:
        if beyond.low > 0:
            chance, warns = "That is more than chance would give.", False
        elif beyond.high < 0:
            chance = "That is less than chance would give."
    return Sentence(
        f"Two people who label the same pair agree on {share_of(agreed, 'pairs')}. {chance}",
        "people",
        warns=warns,
    )


def agreement_plot(figures: PeopleFigures) -> Plot:
    rows = []
    for pair in figures.pairwise:
        if not isinstance(pair.kappa, Undefined):
            for first, second in (pair.annotators, pair.annotators[::-1]):
                rows.append({"first": first, "second": second, "kappa": pair.kappa.value})
    shared = {
        "x": {"field": "first", "type": "nominal", "title": None},
        "y": {"field": "second", "type": "nominal", "title": None},
        "tooltip": tooltip("first", "second", "kappa"),
    }
    shade = {"field": "kappa", "type": "quantitative", "title": "kappa"}
    # Kappa has a scale of its own: shades over what there is would make small differences large.
    shade["scale"] = {"domain": [0, 1], "clamp": True}
    number = {"field": "kappa", "type": "quantitative", "format": ".2f"}
    matrix = {
        "layer": [
            {"mark": "rect", "encoding": shared | {"color": shade}},
            # Text has the ink of the page, and no shade is too dark for it.
            {"mark": {"type": "text", "fontSize": 13}, "encoding": shared | {"text": number}},
        ]
    }
    return plot("people", "Agreement of each pair of people", "Cohen's kappa.", rows, matrix)


CRITERIA = "criteria"
NO_CRITERIA = Undefined("no vote that counts answers a criterion")
NONE_WHOLE = Undefined("no vote that counts answers every criterion")
DERIVED = Undefined("the overall votes were derived from the criteria by the protocol's rule")
# No answer on this criterion.
MISSING = -9
SIGNIFICANT = 0.05


@dataclass(frozen=True, kw_only=True)
class CriterionFigures:
    """What people say on a criterion.

    n, votes: examples with votes on it, and these votes. win_rate: of response 1, over the
    examples; agreement, krippendorff_alpha: of two votes. same_as_overall: share of the votes whose
    answer is the overall vote. slope: log odds of an overall win against a loss when the answer
    moves from a tie to (much) better, the other answers staying as they are.

    Each p_holm is adjusted over the criteria: that the win rate isn't one half, that people agree
    beyond chance, that the criterion counts for the overall vote.
    """

    criterion: str
    n: int
    votes: int
    win_rate: Figure
    p_win_rate_holm: float | None = optional()
    agreement: Figure
    krippendorff_alpha: Figure
    p_agreement_holm: float | None = optional()
    same_as_overall: Figure
    slope: Figure
    p_slope_holm: float | None = optional()


@dataclass(frozen=True, kw_only=True)
class CriteriaFigures:
    """agreement_on: which examples the agreement is over. explained: votes that answer every
    criterion, on which the slopes rest. questions: their questions."""

    agreement_on: str
    explained: int
    questions: int
    criteria: Sequence[CriterionFigures]

    @property
    def has_slopes(self) -> bool:
        return any(not isinstance(criterion.slope, Undefined) for criterion in self.criteria)

    @property
    def sentence(self) -> str:
        """Say which criteria count for the overall vote, by the adjusted p of their slopes."""
        slopes = [criterion.slope for criterion in self.criteria]
        reasons = [slope.reason for slope in slopes if isinstance(slope, Undefined)]
        if len(reasons) == len(slopes):
            return f"Which criteria explain the overall vote isn't known: {reasons[0]}."
        counts = [
            (-abs(value_of(criterion.slope)["value"]), criterion.criterion)
            for criterion in self.criteria
            if criterion.p_slope_holm is not None and criterion.p_slope_holm < SIGNIFICANT
        ]
        if not counts:
            return (
                "No criterion is shown to explain the overall vote if the answers on the others "
                "stay the same."
            )
        verb = "explains" if len(counts) == 1 else "each explain"
        *most, last = [name for _, name in sorted(counts)]
        names = f"{', '.join(most)} and {last}" if most else last
        return f"{names} {verb} the overall vote, even if all other answers stay the same."


def read_criteria(of: Analysis) -> Data | Undefined:
    return criterion_votes(of.project, of.sheet)


def criterion_votes(project: Project, sheet: Sheet) -> Data | Undefined:
    """Read the answers on criteria of the votes that the labels rest on. Four queries at most.

    Returns: by vote, the place of its example, who cast it, its overall sign, and its answers as
        `strength_of` gives them, one column a criterion."""
    if not Vote.objects.filter(example__project=project, answer__criteria__isnull=False).exists():
        # Most projects ask for none, and need not pass through the reading to say so.
        return NO_CRITERIA
    place = {
        vote.pk: row for row, say in enumerate(sheet.people) for vote in (say.votes if say else ())
    }
    votes = [vote for vote in criterion_answers(project) if vote.vote in place]
    if not votes:
        return NO_CRITERIA
    named = dict.fromkeys(name for vote in votes for name in vote.strengths)
    names = [name for name in dict.fromkeys((*criteria_asked(project), *named)) if name in named]
    answers = [[vote.strengths.get(name, MISSING) for name in names] for vote in votes]
    person = np.unique([vote.annotator for vote in votes], return_inverse=True)[1]
    arrays = {
        "example": np.array([place[vote.vote] for vote in votes], dtype=np.intp),
        "person": person.astype(np.intp),
        "overall": np.array([SIGN[vote.label] for vote in votes], dtype=np.int8),
        "answers": np.array(answers, dtype=np.int8),
        "derived": np.array([vote.derived for vote in votes], dtype=bool),
    }
    return Data(arrays, {"names": names})


def criteria(of: Analysis) -> CriteriaFigures | Undefined:
    votes = of.own(CRITERIA, read_criteria)
    return votes if isinstance(votes, Undefined) else criteria_of(of.sheet, votes, of.rng)


def criteria_of(sheet: Sheet, read: Data, rng: np.random.Generator) -> CriteriaFigures:
    """Return the figures of each criterion, in the order in which people were asked."""
    example, overall = read.arrays["example"], read.arrays["overall"]
    answers, names = read.arrays["answers"], read.plain["names"]
    whole = (answers != MISSING).all(axis=1)
    question = sheet.question[example]
    # A rule's own overall votes would only show the rule.
    derived = read.arrays.get("derived", np.zeros(len(example), bool))
    reason = DERIVED if derived[whole].any() else NONE_WHOLE
    whole &= ~derived
    explained: Sequence[Explanation] = [Explanation(reason)] * len(names)
    if whole.any():
        # Strengths go from −2 to 2. Half of them puts the most that can be said at 1.
        explained = explained_by(answers[whole] / 2, overall[whole], question[whole], rng)
    figures, tests = [], []
    audited = sheet.audited & ~sheet.selected
    voted = np.isin(np.arange(len(sheet)), example)
    # Selected and audited examples together are no random sample, so agreement is then over the
    # audit.
    alone = not sheet.everyone and bool((voted & audited).any() and (voted & sheet.selected).any())
    for column, name in enumerate(names):
        there = answers[:, column] != MISSING
        signs, rows = np.sign(answers[there, column]), example[there]
        labels = _labels_on(sheet, rows, signs)
        votes, present = votes_on(signs, rows, read.arrays["person"][there], len(sheet))
        met = audited if alone else np.ones(len(sheet), bool)
        counts = category_counts(votes[met], present[met], SIGNS)
        inside = sheet.question[met]
        twice = counts.sum(axis=1) >= 2
        nothing = isinstance(labels, Undefined)
        tests.append(
            (
                None if nothing else win_rate_test(labels),
                beyond_chance(votes[met], present[met], inside, rng),
                explained[column].p,
            )
        )
        figures.append(
            {
                "criterion": name,
                "n": len(np.unique(rows)),
                "votes": len(rows),
                "win_rate": labels if nothing else win_rate(labels, lam=0.0),
                "agreement": agreement_interval(
                    percent_agreement, counts[twice], inside[twice], rng
                ),
                "krippendorff_alpha": agreement_interval(
                    krippendorff_alpha, counts[twice], inside[twice], rng
                ),
                "same_as_overall": share(signs == overall[there], question[there]),
                "slope": explained[column].slope,
            }
        )
    # Each question, such as whether people agree, is a family of its own over the criteria.
    adjusted = zip(*(holm_of_tested(family) for family in zip(*tests, strict=True)), strict=True)
    keys = ("p_win_rate_holm", "p_agreement_holm", "p_slope_holm")
    return CriteriaFigures(
        agreement_on="the audited examples, which were chosen at random"
        if alone
        else "all examples with votes on it",
        explained=int(whole.sum()),
        questions=len(np.unique(question[whole])),
        criteria=[
            CriterionFigures(**figure, **dict(zip(keys, p, strict=True)))
            for figure, p in zip(figures, adjusted, strict=True)
        ],
    )


def _labels_on(sheet: Sheet, rows: Codes, signs: Codes) -> AuditedLabels | Undefined:
    """Return each example's mean vote on a criterion, 0 to 1, by why people saw the example."""
    n = len(sheet)
    votes = np.bincount(rows, minlength=n)
    mean = np.bincount(rows, (1 + signs) / 2, n) / np.maximum(votes, 1)
    design = design_on(sheet, votes > 0)
    if isinstance(design, Undefined):
        return design
    seen = design.selected | design.audited
    effect = design_effect(mean[seen], sheet.question[seen])
    unseen, audited = np.zeros(design.n_rest), mean[design.audited]
    return AuditedLabels(mean[design.selected], unseen, audited, np.zeros(len(audited)), *effect)


def design_on(sheet: Sheet, voted: Booleans) -> Design | Undefined:
    """Say which examples have votes on a criterion, and why; or why these speak for no others."""
    if voted.all():
        return Design(voted, ~voted)
    design = Design(sheet.selected, sheet.audited & ~sheet.selected)
    asked = design.selected | design.audited
    if not asked.any():
        return Undefined(
            f"only {count(int(voted.sum()))} of {number_of(len(sheet), 'example')} have a vote on "
            "this criterion, and these may not be typical"
        )
    if lacking := int((asked & ~voted).sum()):
        return Undefined(
            f"{count(lacking)} of {number_of(int(asked.sum()), 'item')} have no vote on this "
            "criterion yet"
        )
    weights = design.weights()
    return weights if isinstance(weights, Undefined) else design


DETAILS = "vote_details"
NOT_ASKED = Undefined("no vote that counts says more than which response is better")


def says_more(of: Analysis) -> bool:
    """Return False if no vote says more than which response is better.

    Most projects ask for no more, and need not pass through that section to say so.
    """
    if DETAILS in of.kept:
        return not isinstance(of.kept[DETAILS], Undefined)
    return asked_for_more(of.project, list(Protocol.objects.filter(project=of.project)))


def asked_for_more(project: Project, protocols: Sequence[Protocol]) -> bool:
    """Return True if one of these protocols asks for more, or imported votes say more."""
    if any(map(asks_more, protocols)):
        return True
    says = Q(answer__has_key="confidence") | Q(answer__has_key="reasons")
    votes = Vote.objects.filter(example__project=project, source=Vote.Source.IMPORT)
    return votes.filter(says | Q(answer__has_key="spans")).exists()


def asks_more(protocol: Protocol) -> bool:
    more = protocol.ask_confidence or protocol.ask_spans or bool(protocol.reason_tags)
    return more or protocol.scale == Project.Scale.FIVE


def votes_on(signs: Codes, rows: Codes, person: Codes, n: int) -> tuple[Codes, Booleans]:
    """Return (n, people) signs, and whether there is one."""
    people, column = np.unique(person, return_inverse=True)
    votes = np.zeros((n, len(people)), np.int8)
    present = np.zeros(votes.shape, bool)
    # A label rests on one item, on which nobody votes twice, so no cell is written twice.
    votes[rows, column], present[rows, column] = signs, True
    return votes, present


def criteria_plot(figures: CriteriaFigures | Undefined) -> Plot:
    rows = []
    for criterion in () if isinstance(figures, Undefined) else figures.criteria:
        if not isinstance(criterion.slope, Undefined):
            rows.append({"criterion": criterion.criterion} | value_of(criterion.slope))
    ends = [row[name] for row in rows for name in ("low", "high") if row[name] is not None]
    # The line at 0 belongs on the drawing, even if all slopes lie on one side of it.
    reach = [min([0.0, *ends]), max([0.0, *ends])]
    caption = (
        "Log odds of an overall win against a loss when the answer moves from a tie to better, the "
        "other answers staying as they are."
    )
    title = "Weight of each criterion for the overall vote"
    drawing = intervals("criterion", "log odds", scale={"domain": reach}, line_at=0.0)
    return plot(CRITERIA, title, caption, rows, drawing)
