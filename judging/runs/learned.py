"""What endpoints taught, kept from run to run."""

from datetime import timedelta

from django.utils import timezone

from judging.json_fields import merge
from judging.llm.adaptation import Learned
from judging.models.endpoints import EndpointLearned
from judging.models.runs import Run

# For so long an answer shows that the key works and the account is not empty.
KNOWN_GOOD = timedelta(minutes=10)


def recall(run: Run) -> tuple[Learned | None, bool]:
    """What is known of the run's judge, and whether it answered a short while ago."""
    return recall_for(run.base_url, run.model)


def recall_for(base_url: str, model: str) -> tuple[Learned | None, bool]:
    row = EndpointLearned.objects.filter(base_url=base_url, model=model).first()
    if row is None:
        return None, False
    return Learned.from_json(row.learned), row.updated_at > timezone.now() - KNOWN_GOOD


def keep(run: Run, learned: Learned, before: Learned | None) -> None:
    """Called when an answer came in: for the next run, and for this run's page."""
    keep_for(run.base_url, run.model, learned, before)
    Run.objects.filter(pk=run.pk).update(learned=learned.to_json())


def keep_for(base_url: str, model: str, learned: Learned, before: Learned | None) -> None:
    """What differs from `before`, which was known when the asking began.

    Another run of this judge may have learned something else meanwhile.
    """
    now = learned.to_json()
    row, made = EndpointLearned.objects.get_or_create(
        base_url=base_url, model=model, defaults={"learned": now}
    )
    if made:
        return
    known = (before or Learned()).to_json()
    new = {name: value for name, value in now.items() if value != known[name]}
    merge(row, "learned", lambda kept: {**kept, **new})
    EndpointLearned.objects.filter(pk=row.pk).update(updated_at=timezone.now())
