"""Which answers of other runs of the project are the same as those that a run would ask for.

The same means: the same address, model, prompt and parameters, and the same sample slot.
`judging.runs.engine.store` copies them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, QuerySet

from judging.projects.models import AuditEvent
from judging.runs.models import Call, Method, Run, Sample, subject_field
from judging.runs.planning.agenda import Questioner
from judging.runs.samples import Ask

Place = tuple[int, str]


@dataclass(frozen=True, slots=True)
class ReusedRun:
    """Another run, and how it asked."""

    run: Run
    questioner: Questioner

    def asked_the_same(self, ask: Ask, questioner: Questioner) -> bool:
        """Return True if the prompt is the same, of simulated annotators that of each."""
        # Simulated annotators see different votes, so the prompts of all slots must be compared.
        simulates = questioner.solved.simulated or self.questioner.solved.simulated
        slots = (ask.slots or range(questioner.k)) if simulates else (0,)
        pair = ask.subject, ask.part, 1
        return all(
            self.questioner.request(*pair, slot) == questioner.request(*pair, slot)
            for slot in slots
        )


def sources_of(run: Run) -> list[ReusedRun]:
    """Return the runs whose answers may be the same, the newest first; none unless asked for.

    A run that was resumed with another token limit doesn't say which answer had which limit.
    """
    if not run.parameters.get("reuse"):
        return []
    resumed = AuditEvent.objects.filter(project=run.project_id, action="run resumed")
    changed = set(resumed.exclude(detail__max_tokens=None).values_list("subject", flat=True))
    others = Run.objects.filter(
        project=run.project_id,
        base_url=run.base_url,
        model=run.model,
        form=run.form,
        template_hash=run.template_hash,
        temperature=run.temperature,
        max_tokens=run.max_tokens,
        # Nobody knows the exact prompts behind recorded judgments.
    ).exclude(method=Method.IMPORTED)
    earlier = [other for other in others.order_by("-number") if other.pk != run.pk]
    return [
        ReusedRun(other, Questioner.of(other)) for other in earlier if other.name not in changed
    ]


def kept_samples(source: Run) -> QuerySet[Sample]:
    """Return the answers of a run that can be copied.

    Left out are copies, replies to a prompt that the server cut, and replies that a cache repeated.
    """
    # Samples that are alike within one call are the judge's own, and were paid for as such.
    sound = ("", Call.Notice.IDENTICAL)
    calls = {"call__run": source, "call__state": Call.State.DONE, "call__noticed__in": sound}
    samples = Sample.objects.filter(**calls, call__reused_from=None, raw_text__isnull=False)
    return samples.exclude(**{f"call__{subject_field(source)}": None})


def reusable(run: Run, examples: QuerySet[Any], asks: Sequence[Ask]) -> dict[Place, int]:
    """Return how many slots of each subject and part could be copied, before a run is started.

    Args:
        run: The run that would be started.
        examples: What it would be about.
        asks: Some of what it would ask, by which the prompts of others are compared with its own.
    """
    questioner, covered = Questioner.of(run), dict[Place, int]()
    for source in sources_of(run):
        if not all(source.asked_the_same(ask, questioner) for ask in asks):
            continue
        field = f"call__{subject_field(run)}"
        rows = kept_samples(source.run).filter(slot__lt=run.k, call__part__in=run.parts)
        rows = rows.filter(**{f"{field}__in": examples.order_by()}).order_by()
        counted = rows.values(field, "call__part").annotate(n=Count("slot", distinct=True))
        for subject, part, n in counted.values_list(field, "call__part", "n"):
            # Two runs may have answers to the same slots, so their numbers don't add up.
            covered[subject, part] = max(n, covered.get((subject, part), 0))
    return covered
