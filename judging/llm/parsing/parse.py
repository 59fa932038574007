"""How a judge's reply is read: one parser for each reply format, and one rule for what binds.

The last complete verdict outside thinking and outside quotations binds. It is validated after it
has been matched: where it is invalid, the reply is `unparsed`, whatever stood before it.
"""

from collections.abc import Sequence

from judging.llm.client.messages import TokenLogprobs
from judging.llm.parsing.answer import Answer, declines, read_answer
from judging.llm.parsing.choice import is_answered, parse_choice, parse_point
from judging.llm.parsing.lines import parse_rating_line, parse_score_lines, parse_score_pair
from judging.llm.parsing.parsed import Parsed, Preferred, Reading, Status, turn_back
from judging.llm.parsing.relation import parse_verdict_line, parse_verdict_mark
from judging.llm.parsing.score_json import parse_score_json
from judging.llm.prompts.parts import shown_ids
from judging.llm.prompts.templates import Form, ReplyFormat, Template

__all__ = ["PARSER_VERSION", "Parsed", "Preferred", "Reading", "Status", "parse", "turn_back"]

# Raised whenever any reply would be read differently: stored replies are then parsed again.
PARSER_VERSION = 4

CUT = frozenset({"length", "max_tokens", "max_output_tokens", "model_length"})
FILTERED = frozenset(
    {"content_filter", "safety", "recitation", "blocklist", "prohibited_content", "spii"}
    | {"sensitive"}
)
# The model failed while it wrote, in the words of OpenRouter, Zhipu, DeepSeek and vLLM.
FAILED = frozenset({"error", "network_error", "insufficient_system_resource", "abort"})
REFUSED = frozenset({"refusal"})


def parse(
    template: Template,
    text: str | None,
    finish_reason: str | None,
    *,
    quoted: Sequence[str] = (),
    refusal: str = "",
    logprobs: Sequence[TokenLogprobs] | None = None,
    part: str = "original",
) -> Parsed:
    """One reply, by position. `quoted` are the texts that the judge was shown, as they were
    before they were disarmed; `refusal` is what an endpoint keeps apart."""
    reason = (finish_reason or "").lower()
    if reason in FILTERED:
        return Parsed(Status.FILTERED)
    if template.reply is ReplyFormat.CHOICE_TOKEN:
        ids = shown_ids(template.ids, part)
        found = parse_choice(logprobs, ids)
        if found is not None:
            return found
        # A choice is asked for in so few tokens that every answer is cut off.
        if reason in CUT and is_answered(logprobs, ids):
            reason = ""
    answer = read_answer(text or "", quoted)
    found = _read(template, answer, cut=reason in CUT)
    if template.form is Form.POINTWISE:
        found = parse_point(logprobs, template.scale, found)
    if found is not None:
        return found
    if reason in CUT:
        return Parsed(Status.TRUNCATED)
    if reason in FAILED:
        return Parsed(Status.ERROR)
    if reason in REFUSED or refusal or declines(answer.folded):
        return Parsed(Status.REFUSED)
    return Parsed(Status.UNPARSED)


def _read(template: Template, answer: Answer, *, cut: bool) -> Parsed | None:
    match template.reply:
        case ReplyFormat.SCORE_LINES:
            found = parse_score_lines(answer, template.scale, cut=cut)
            return found or parse_score_json(answer, template.scale)
        case ReplyFormat.SCORE_JSON:
            found = parse_score_json(answer, template.scale)
            if found is None and "{" not in answer.folded:
                found = parse_score_lines(answer, template.scale, cut=cut)
            return found
        case ReplyFormat.SCORE_PAIR:
            return parse_score_pair(answer, template.scale, cut=cut)
        case ReplyFormat.VERDICT_MARK:
            return parse_verdict_mark(answer, cut=cut)
        case ReplyFormat.VERDICT_LINE:
            return parse_verdict_line(answer)
        case ReplyFormat.RATING_LINE:
            return parse_rating_line(answer, template.scale, cut=cut)
        case ReplyFormat.CHOICE_TOKEN:
            return None
