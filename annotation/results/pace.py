"""How long people take for a vote, and how that changes as they go on."""

import numpy as np
from django.db.models.query import QuerySet

from annotation.models import Annotation, Annotator
from annotation.results.analysis import Analysis
from annotation.results.figures import Json
from annotation.results.sections import Data
from annotation.results.vega import Plot, colour, plot, tooltip, x_axis
from judging.methods.estimates import Undefined
from judging.methods.medians import median
from judging.models.projects import Project

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
