"""What the section on learned routing reads: what a round learned, else the texts' lengths."""

import numpy as np

from annotation.models import Item, Round, RoutingScores, Selection
from annotation.results.analysis import Analysis
from annotation.results.columns import places_of, spread
from annotation.results.figures import Json
from annotation.results.routing_columns import texts_of
from annotation.results.sections import Data
from judging.methods.estimates import Undefined

NO_ROUND = Undefined("no round of this run has learned from a random sample of labels")


def read_routing(analysis: Analysis) -> Data | Undefined:
    """Of the newest round of this run that learned. Arrays are in the order of the sheet:
    `sample`, where it learned, and `scores`, NaN without one; `plain` says which round it was and
    what it kept, or how far one is that still learns. Without one, and with the label of every
    example known, what it would have learned from."""
    sheet, run = analysis.sheet, analysis.run
    rounds = Round.objects.filter(run=run, stage__in=[Round.Stage.LEARN, Round.Stage.SELECT])
    newest = rounds.order_by("-number").first()
    if newest is None:
        return texts_of(analysis.project, run, sheet) if sheet.everyone else NO_ROUND
    items = Item.objects.filter(round=newest, selection__kind=Selection.Kind.LEARN)
    sample = np.zeros(len(sheet), dtype=bool)
    learned = places_of(sheet.ids, list(items.values_list("example_id", flat=True)))
    sample[learned[learned >= 0]] = True
    found: Json = {"round": newest.number, "m": newest.parameters["m"]}
    arrays = {"sample": sample}
    kept = RoutingScores.objects.filter(round=newest).first()
    if kept is None:
        done = items.filter(state=Item.State.COMPLETE).count()
        return Data(arrays, found | {"waits": [done, items.count()]})
    scores = spread(sheet.ids, kept.examples, kept.scores)
    return Data(arrays | {"scores": scores}, found | {"fit": kept.fit})
