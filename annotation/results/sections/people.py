"""How people agree: with each other, with the majority, and on which side they look."""

from itertools import combinations

import numpy as np
from django.db.models.query import QuerySet

from annotation.models import Annotation, Annotator
from annotation.results.data.figures import Data, Json, Plot, colour, plot, shown, tooltip, x_axis
from annotation.results.data.sheet import Ballots, Sheet
from annotation.results.sections.analysis import Analysis
from judging.methods.agreement.accuracy import Comparison
from judging.methods.agreement.annotators import SideBias, pooled_side_bias, side_bias, side_table
from judging.methods.agreement.votes import (
    NO_MAJORITY,
    Statistic,
    agreement_interval,
    agrees_with_majority,
    category_counts,
    equally_often,
    fleiss_kappa,
    gwet_ac1,
    kappa,
    krippendorff_alpha,
    percent_agreement,
)
from judging.methods.arrays import Booleans, Codes
from judging.methods.intervals.bootstrap import share
from judging.methods.intervals.estimates import Figure, Undefined, median, wilson
from judging.projects.models import Project

SIGNS = (1, 0, -1)
# Pairs of more annotators than this fill pages without saying more.
MOST_PAIRED = 12
NOTHING_SHARED = Undefined("these two share no example")


def people(sheet: Sheet, rng: np.random.Generator) -> Json:
    """Over the votes that the labels rest on; `on` says which examples these are."""
    ballots = sheet.ballots
    counts = category_counts(ballots.votes, ballots.present, SIGNS)
    given = counts.sum(axis=1)
    twice, (fleiss_votes, alike) = given >= 2, equally_often(counts)

    def over(statistic: Statistic, rows: Booleans) -> Json:
        return agreement_interval(statistic, counts[rows], sheet.question[rows], rng).as_json()

    names = list(ballots.names)
    return {
        "on": _on(sheet, given > 0),
        "agreement": over(percent_agreement, twice),
        "fleiss_kappa": over(fleiss_kappa, alike),
        "fleiss_votes": fleiss_votes,
        "krippendorff_alpha": over(krippendorff_alpha, twice),
        "gwet_ac1": over(gwet_ac1, given >= 1),
        "pairwise": _pairwise(ballots, sheet.question, rng),
        "annotators": [
            _annotator(ballots, n, name, sheet.question) for n, name in enumerate(names)
        ],
        "side_bias": _side_bias(ballots, names),
        "side_bias_pooled": _pooled(ballots),
    }


def _on(sheet: Sheet, asked: Codes) -> str:
    if sheet.everyone:
        return f"{int(asked.sum())} of all {len(sheet)} examples, those with votes"
    selected, audited = int((asked & sheet.selected).sum()), int((asked & sheet.audited).sum())
    others = int((asked & ~sheet.selected & ~sheet.audited).sum())
    parts = [f"{selected} selected by rank, where people disagree most", f"{audited} audited"]
    parts += [f"{others} others with votes"] if others else []
    return ", ".join(parts[:-1]) + f" and {parts[-1]}"


def _pairwise(ballots: Ballots, question: Codes, rng: np.random.Generator) -> list[Json]:
    busiest = np.argsort(-ballots.present.sum(axis=0), kind="stable")[:MOST_PAIRED]
    rows = []
    for a, b in combinations(sorted(busiest.tolist()), 2):
        both = np.flatnonzero(ballots.present[:, a] & ballots.present[:, b])
        first, second = ballots.votes[both, a], ballots.votes[both, b]
        n = len(both)
        nothing = np.zeros(n, np.intp)
        pair = Comparison(first, np.ones(n, bool), second, np.ones(n), nothing, question[both])
        agreed = share(first == second, question[both], reason=NOTHING_SHARED.reason)
        rows.append(
            {
                "annotators": [ballots.names[a], ballots.names[b]],
                "agreement": agreed.as_json(),
                "kappa": _kappa(pair, rng).as_json(),
                "kappa_linear": _kappa(pair, rng, linear=True).as_json(),
            }
        )
    return rows


def _kappa(pair: Comparison, rng: np.random.Generator, *, linear: bool = False) -> Figure:
    return kappa(pair, rng, linear=linear) if len(pair) else NOTHING_SHARED


def _annotator(ballots: Ballots, rater: int, name: str, question: Codes) -> Json:
    found: Json = {"annotator": name, "n": int(ballots.present[:, rater].sum())}
    for key, own_vote in (("with_majority", True), ("with_the_others", False)):
        rows, agreed = agrees_with_majority(
            ballots.votes, ballots.present, rater, own_vote=own_vote
        )
        found[key] = share(agreed, question[rows], reason=NO_MAJORITY).as_json()
    return found


def _tables(ballots: Ballots) -> list[np.ndarray]:
    tables = []
    for rater in range(len(ballots.names)):
        rows = ballots.present[:, rater] & (ballots.left[:, rater] > 0)
        tables.append(side_table(ballots.votes[rows, rater], ballots.left[rows, rater] == 1))
    return tables


def _side_bias(ballots: Ballots, names: list[str]) -> list[Json]:
    found = side_bias(dict(zip(names, _tables(ballots), strict=True)))
    return [{"annotator": name} | _lean(one) for name, one in found.items()]


def _lean(found: SideBias | Undefined) -> Json:
    if isinstance(found, Undefined):
        return {"left_rate": found.as_json()}
    rate: Figure = wilson(round(found.left_rate * found.n), found.n)
    return {"left_rate": rate.as_json(), "p": found.p, "p_holm": found.p_holm}


def _pooled(ballots: Ballots) -> Json:
    found = pooled_side_bias(_tables(ballots))
    if isinstance(found, Undefined):
        return {"odds_ratio": found.as_json()}
    return {"odds_ratio": shown(found.odds_ratio), "p": found.p}


NAME = "pace"
# Points of one person's line; with fewer votes than this times five each point has five.
MOST_POINTS, FEWEST_VOTES = 20, 5
NO_TIMES = Undefined("no vote was timed: imported votes come without a time")


def pace(analysis: Analysis) -> Json:
    """One entry a person, in the order in which they joined."""
    found = analysis.own(NAME, read)
    return {"pace": [] if isinstance(found, Undefined) else by_person(found)}


def read(analysis: Analysis) -> Data | Undefined:
    return times_of(analysis.project)


def times_of(project: Project) -> Data | Undefined:
    """Active seconds of every vote given on the screen, each person's in their order. 2 queries."""
    rows = list(_timed(project).values_list("annotator", "active_seconds"))
    if not rows:
        return NO_TIMES
    people = Annotator.objects.in_bulk({person for person, _ in rows})
    joined = sorted(people.values(), key=lambda one: one.number)
    place = {one.pk: n for n, one in enumerate(joined)}
    arrays = {
        "person": np.array([place[person] for person, _ in rows], dtype=np.intp),
        "seconds": np.array([seconds for _, seconds in rows], dtype=np.float64),
    }
    return Data(arrays, {"names": [one.pseudonym for one in joined]})


def _timed(project: Project) -> QuerySet[Annotation]:
    return Annotation.objects.filter(
        item__round__project=project,
        source=Annotation.Source.SCREEN,
        active_seconds__isnull=False,
    ).order_by("submitted_at", "pk")


def by_person(times: Data) -> list[Json]:
    person, seconds = times.arrays["person"], times.arrays["seconds"]
    rows = []
    for place, name in enumerate(times.plain["names"]):
        theirs = seconds[person == place]
        parts = np.array_split(theirs, min(MOST_POINTS, max(1, len(theirs) // FEWEST_VOTES)))
        starts = np.cumsum([0, *map(len, parts)])
        rows.append(
            {
                "annotator": name,
                "n": len(theirs),
                "median_seconds": median(theirs).as_json(),
                "points": [
                    {"from": int(start) + 1, "to": int(start) + len(part)}
                    | {"seconds": median(part).as_json()}
                    for start, part in zip(starts, parts, strict=False)
                ],
            }
        )
    return rows


def pace_plot(report: Json) -> Plot:
    """Read from `pace` of the report, or from the same of a project."""
    rows = [
        {
            "vote": point["to"],
            "annotator": one["annotator"],
            "votes": f"{point['from']}–{point['to']}",
            "seconds": point["seconds"]["value"],
            "low": point["seconds"]["low"],
            "high": point["seconds"]["high"],
        }
        for one in report["pace"]
        for point in one["points"]
    ]
    names = [one["annotator"] for one in report["pace"]]
    lines = {
        "mark": {"type": "line", "point": {"size": 24}},
        "encoding": {
            "x": x_axis("vote", "their votes so far") | {"axis": {"tickMinStep": 1}},
            "y": {"field": "seconds", "type": "quantitative", "title": "active seconds a vote"},
            "color": colour("annotator", names),
            "tooltip": tooltip("annotator", "votes", "seconds", "low", "high"),
        },
    }
    caption = "Each point is the median of some votes in the order given; imported votes have none."
    return plot(NAME, "Annotators' pace", caption, rows, lines)
