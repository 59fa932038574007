"""A round that has learned wakes a worker, which knows the judge and goes on with it.

Named, not imported: what compares people with the judge is not known here.
"""

from functools import partial

from celery import current_app
from django.db import transaction

from annotation.models import Item, Round, Selection

GO_ON = "annotation.results.tasks.go_on_with_round"


def wake_when_learned(item: Item) -> None:
    """After a learning item was settled. A message that is lost is made up for by the sweeper."""
    learning = item.selection.kind == Selection.Kind.LEARN
    if learning and item.round.stage == Round.Stage.LEARN:
        transaction.on_commit(partial(_wake, item.round_id), robust=True)


def _wake(round_id: int) -> None:
    items = Item.objects.filter(round=round_id, selection__kind=Selection.Kind.LEARN)
    if not items.exclude(state=Item.State.COMPLETE).exists():
        current_app.send_task(GO_ON, [round_id])
