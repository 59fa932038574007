"""Celery tasks of the results: ids in, load, call. The settings say which queue is whose."""

from celery import shared_task

from annotation.learning import due
from annotation.results.stage_two import select_what_was_learned


@shared_task
def go_on_with_round(round_id: int) -> None:
    """A message that comes twice, or too early, finds nothing to do."""
    round_ = due().filter(pk=round_id).first()
    if round_ is not None:
        select_what_was_learned(round_)
