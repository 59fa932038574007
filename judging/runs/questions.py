"""From an example and its part to the request that is sent."""

from dataclasses import dataclass
from typing import Self

from judging.llm.prompts import render
from judging.llm.requests import JudgeRequest
from judging.llm.templating import Template
from judging.models import Example, Run
from judging.runs.wording import template_of


@dataclass(frozen=True, slots=True)
class Questioner:
    """What all requests of a run have in common."""

    template: Template
    model: str
    temperature: float
    max_tokens: int
    schema: dict[str, object] | None

    @classmethod
    def of(cls, run: Run) -> Self:
        return cls(template_of(run), run.model, float(run.temperature), run.max_tokens, run.schema)

    def request(self, example: Example, part: str, n: int) -> JudgeRequest:
        messages = render(
            self.template,
            example.question,
            example.response_1,
            example.response_2,
            part,
            reference=example.reference,
        )
        return JudgeRequest(
            tuple(messages),
            self.model,
            n=n,
            temperature=self.temperature,
            max_tokens=self.max_tokens,
            schema=self.schema,
        )
