"""From an example and its part to the request that is sent."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from judging.errors import UserError
from judging.llm.listing import TOP_LOGPROBS
from judging.llm.messages import Message
from judging.llm.parts import UNSPLIT, stage_of
from judging.llm.prompts import render, render_parts, render_point
from judging.llm.requests import JudgeRequest
from judging.llm.templating import Form, Template
from judging.models.points import PointItem
from judging.models.runs import Run
from judging.runs.point_shots import PointShots
from judging.runs.portia.settings import PortiaSettings
from judging.runs.portia.splits import aligned
from judging.runs.shots import Shots
from judging.runs.subjects import ITEM, Subject, shown_texts
from judging.runs.wording import template_of


@dataclass(frozen=True, slots=True)
class Questioner:
    """What all requests of a run have in common."""

    template: Template
    model: str
    temperature: float
    max_tokens: int
    schema: dict[str, object] | None
    shots: Shots
    criteria: str = ""
    portia: PortiaSettings | None = None
    items: Mapping[str, str] = field(default_factory=dict)
    point_shots: PointShots = field(default_factory=lambda: PointShots({}))

    @classmethod
    def of(cls, run: Run) -> Self:
        return cls(
            template_of(run),
            run.model,
            float(run.temperature),
            run.max_tokens,
            run.schema,
            Shots.of(run),
            run.parameters.get("criteria", ""),
            PortiaSettings.of(run),
            dict(run.parameters.get("items", ())),
            PointShots.of(run),
        )

    def request(self, subject: Subject, part: str, n: int) -> JudgeRequest:
        reads_logprobs = self.template.form in (Form.CHOICE, Form.POINTWISE)
        return JudgeRequest(
            tuple(self.messages(subject, part)),
            self.model,
            n=n,
            temperature=self.temperature,
            max_tokens=self.max_tokens,
            schema=self.schema,
            top_logprobs=TOP_LOGPROBS if reads_logprobs else None,
        )

    def quoted(self, subject: Subject, part: str) -> tuple[str, ...]:
        """What the judge is shown, and of PORTIA each part: a verdict in it is not its own."""
        texts = shown_texts(subject)
        if stage_of(part) == UNSPLIT:
            return texts
        found = aligned(subject, stage_of(part), self.portia)
        # Another version of the splitter may find nothing to cut where parts were shown.
        return (*texts, *found.parts_1, *found.parts_2) if found else texts

    def messages(self, example: Subject, part: str) -> list[Message]:
        """One response alone; else both, whole or by PORTIA's aligned parts."""
        if isinstance(example, PointItem):
            criterion = part.removeprefix(ITEM)
            return render_point(
                self.template,
                example.input,
                example.output,
                criteria=self.items[criterion],
                shots=self.point_shots.before(example, criterion),
            )
        filled = {"reference": example.reference, "criteria": self.criteria}
        if stage_of(part) != UNSPLIT:
            found = aligned(example, stage_of(part), self.portia)
            if found is None:
                raise UserError(
                    f"The responses of {example.external_id} can no longer be split as this run "
                    f"began to: it was started under {self.portia.splitter}. Nothing more was "
                    "sent. Start a new run."
                )
            texts = example.question, found.parts_1, found.parts_2
            return render_parts(self.template, *texts, part, **filled)
        return render(
            self.template,
            example.question,
            example.response_1,
            example.response_2,
            part,
            shots=self.shots.before(example),
            **filled,
        )
