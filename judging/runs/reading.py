"""From a reply to the Parse row that is kept of it."""

from collections.abc import Sequence
from typing import Any

from judging import rows
from judging.llm.parsing import PARSER_VERSION, Parsed, Status, parse, turn_back
from judging.llm.replies import Choice, TokenLogprobs
from judging.llm.templating import Template
from judging.models.calls import Parse, Sample


def read_choice(choice: Choice, template: Template, part: str, quoted: Sequence[str]) -> Parse:
    """Not yet tied to its sample, which may not be saved. `quoted`: what the judge was shown."""
    parsed = parse(
        template,
        choice.text,
        choice.finish_reason,
        quoted=quoted,
        refusal=choice.refusal,
        logprobs=choice.logprobs,
        part=part,
    )
    return parse_row(parsed, template, part)


def read_again(sample: Sample, template: Template, part: str, quoted: Sequence[str]) -> Parse:
    """What today's parser reads in a stored reply."""
    parsed = parse(
        template,
        sample.raw_text,
        sample.finish_reason,
        quoted=quoted,
        refusal=sample.refusal,
        logprobs=stored_logprobs(sample.logprobs),
        part=part,
    )
    row = parse_row(parsed, template, part)
    row.sample = sample
    return row


def failed_parse(status: str) -> Parse:
    """A slot whose call brought nothing to read."""
    return rows.new(Parse, version=PARSER_VERSION, status=Status(status).value)


def parse_row(parsed: Parsed, template: Template, part: str) -> Parse:
    reading = turn_back(parsed, template, part)
    return rows.new(
        Parse,
        version=PARSER_VERSION,
        parser=template.reply.value,
        status=reading.status.value,
        score_1=reading.score_1,
        score_2=reading.score_2,
        rating=reading.rating,
        p_first=reading.p_first,
        mass=reading.mass,
        bounded=parsed.bounded,
        outcome=reading.outcome.value if reading.outcome else None,
        evidence=reading.evidence.replace("\0", "\ufffd"),
    )


def stored_logprobs(stored: list[dict[str, Any]] | None) -> tuple[TokenLogprobs, ...] | None:
    if stored is None:
        return None
    return tuple(
        TokenLogprobs(
            entry["token"],
            entry["logprob"],
            tuple((token, logprob) for token, logprob in entry["top"]),
        )
        for entry in stored
    )
