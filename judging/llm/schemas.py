"""The JSON schema that goes with a template whose reply is JSON, for endpoints that take one."""

from judging.llm.templating import ReplyFormat, Template

# The braces, keys and scores after the evidence, in tokens. A token is at least one character, so
# evidence of at most this much less than the limit leaves room for the scores.
TOKENS_AFTER_EVIDENCE = 60
SHORTEST_EVIDENCE = 20


def reply_schema(template: Template, max_tokens: int, *, whole: bool = True) -> dict[str, object]:
    """Evidence first, as a model writes the properties in the schema's order.

    `whole` asks for whole scores; what parses is not changed by it.
    """
    if template.reply is not ReplyFormat.SCORE_JSON:
        raise ValueError(f"The template {template.name!r} is not answered in JSON.")
    score = {
        "type": "integer" if whole else "number",
        "minimum": int(template.scale.low),
        "maximum": int(template.scale.high),
    }
    longest = max(SHORTEST_EVIDENCE, max_tokens - TOKENS_AFTER_EVIDENCE)
    return {
        "type": "object",
        "properties": {
            "evidence": {"type": "string", "maxLength": longest},
            "score_1": dict(score),
            "score_2": dict(score),
        },
        "required": ["evidence", "score_1", "score_2"],
        "additionalProperties": False,
    }
