"""What the section on learned routing reads: the texts' lengths, and what a round learned."""

import numpy as np

from annotation.models import Item, Round, RoutingScores, Selection
from annotation.results.analysis import Analysis
from annotation.results.figures import Json
from annotation.results.routing_columns import texts_of
from annotation.results.sections import Data
from judging.methods.estimates import Undefined


def read_routing(analysis: Analysis) -> Data | Undefined:
    """Of the newest round of this run that learned. Arrays are in the order of the sheet:
    `sample`, where it learned, and `scores`, NaN without one; `plain` says which round it was and
    what it kept, or how far one is that still learns."""
    sheet, run = analysis.sheet, analysis.run
    texts = texts_of(analysis.project, run, sheet)
    rounds = Round.objects.filter(run=run, stage__in=[Round.Stage.LEARN, Round.Stage.SELECT])
    newest = rounds.order_by("-number").first()
    if newest is None:
        return texts
    places = {pk: place for place, pk in enumerate(sheet.ids.tolist())}
    items = Item.objects.filter(round=newest, selection__kind=Selection.Kind.LEARN)
    sample = np.zeros(len(sheet), dtype=bool)
    for pk in items.values_list("example_id", flat=True):
        if pk in places:
            sample[places[pk]] = True
    found: Json = {"round": newest.number, "m": newest.parameters["m"]}
    arrays = texts.arrays | {"sample": sample}
    kept = RoutingScores.objects.filter(round=newest).first()
    if kept is None:
        done = items.filter(state=Item.State.COMPLETE).count()
        return Data(arrays, found | {"waits": [done, items.count()]})
    scores = np.full(len(sheet), np.nan)
    for pk, score in zip(kept.examples, kept.scores, strict=True):
        if pk in places:
            scores[places[pk]] = score
    return Data(arrays | {"scores": scores}, found | {"fit": kept.fit})
