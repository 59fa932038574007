"""What a PORTIA run asks of its examples: one stage at a time, in both orders."""

from collections.abc import Sequence
from dataclasses import dataclass

from judging.llm.parts import stage_of, stage_parts
from judging.methods.portia.stages import Settled, Stage, StageResult
from judging.models.examples import Example
from judging.models.runs import Run
from judging.runs.plan import Agenda, Ask, History, Wanted, read_histories
from judging.runs.portia.settings import PortiaSettings
from judging.runs.portia.splits import ExampleSplits
from judging.runs.portia.standing import begun_stages, label_of, stage_due
from judging.runs.samples import RecordedSample, last_attempts

Histories = dict[str, History]


@dataclass(frozen=True, slots=True)
class PortiaAgenda(Agenda):
    """Both orders of the stage that is due.

    No example waits for another: once both orders of a stage have come back, what they leave to
    ask is asked at once. A sample that shall be asked again leaves its stage unfinished.
    """

    run: Run
    settings: PortiaSettings
    open_ended: bool = True

    def wanted(self, examples: Sequence[Example]) -> Wanted:
        return {
            pk: dict.fromkeys(stage_parts(due), self.run.k) if due else {}
            for pk, (due, _) in self.due(examples).items()
        }

    def follow_up(self, answered: Sequence[Ask]) -> list[Ask]:
        """The next stage of the examples of which one has just been finished.

        A stage that these answers belong to is asked already, in part or whole.
        """
        examples = {ask.subject.pk: ask.subject for ask in answered}
        asked = {(ask.subject.pk, stage_of(ask.part)) for ask in answered}
        return [
            Ask(examples[pk], part, tuple(slots), attempt)
            for pk, (due, histories) in self.due(list(examples.values())).items()
            if due and (pk, due) not in asked
            for part in stage_parts(due)
            for attempt, slots in sorted(histories.get(part, History()).left(self.run.k).items())
        ]

    def due(self, examples: Sequence[Example]) -> dict[int, tuple[Stage | None, Histories]]:
        """By example the stage to ask or to finish, and what its parts have seen."""
        ids = [example.pk for example in examples]
        histories: dict[int, Histories] = {pk: {} for pk in ids}
        for (pk, part), history in read_histories(self.run, ids).items():
            histories[pk][part] = history
        samples = last_attempts(self.run, ids)
        return {
            example.pk: (
                self.stage_of(example, histories[example.pk], samples[example.pk]),
                histories[example.pk],
            )
            for example in examples
        }

    def stage_of(
        self, example: Example, histories: Histories, samples: Sequence[RecordedSample]
    ) -> Stage | None:
        begun = begun_stages(histories)
        results = {
            stage: StageResult(*(self.label(samples, part) for part in stage_parts(stage)))
            for stage in begun
            if all(self.is_finished(histories.get(part)) for part in stage_parts(stage))
        }
        due = stage_due(self.settings, results, begun, ExampleSplits(example, self.settings))
        return None if isinstance(due, Settled) else due

    def is_finished(self, history: History | None) -> bool:
        return history is not None and len(history.settled) >= self.run.k

    def label(self, samples: Sequence[RecordedSample], part: str) -> object:
        return label_of([s.pair(self.run.form) for s in samples if s.part == part])
