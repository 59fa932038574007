"""From a reply to the Parse row that is kept of it."""

from typing import Any

from judging.llm.parsing import PARSER_VERSION, Parsed, Status, parse, turn_back
from judging.llm.replies import Choice, TokenLogprobs
from judging.llm.templating import Template
from judging.models import Example, Parse, Sample


def read_choice(choice: Choice, template: Template, example: Example, part: str) -> Parse:
    """Not yet tied to its sample, which may not be saved."""
    parsed = parse(
        template,
        choice.text,
        choice.finish_reason,
        quoted=quoted(example),
        refusal=choice.refusal,
        logprobs=choice.logprobs,
        part=part,
    )
    return parse_row(parsed, template, part)


def read_again(sample: Sample, template: Template, example: Example, part: str) -> Parse:
    """What today's parser reads in a stored reply."""
    parsed = parse(
        template,
        sample.raw_text,
        sample.finish_reason,
        quoted=quoted(example),
        refusal=sample.refusal,
        logprobs=stored_logprobs(sample.logprobs),
        part=part,
    )
    row = parse_row(parsed, template, part)
    row.sample = sample
    return row


def failed_parse(status: str) -> Parse:
    """A slot whose call brought nothing to read."""
    return Parse(version=PARSER_VERSION, status=Status(status).value)


def quoted(example: Example) -> tuple[str, ...]:
    """What the judge was shown: a verdict that it repeats from there is not its own."""
    texts = (example.question, example.response_1, example.response_2, example.reference)
    return tuple(text for text in texts if text)


def parse_row(parsed: Parsed, template: Template, part: str) -> Parse:
    reading = turn_back(parsed, template, part)
    return Parse(
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
