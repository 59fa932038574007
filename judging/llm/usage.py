"""The tokens that a call used: as reported, or corrected from the texts and marked estimated."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


def _kind(sign: str) -> str:
    if sign.isalpha():
        return "a"
    if sign.isdigit():
        return "0"
    return sign if sign == "_" else " " if sign.isspace() else "."


# Tokenisers cut at these borders at the latest, so a text has at least this many tokens.
# One sign in front of a letter may belong to the word's token.
PIECE = re.compile(r"[^\W\d_]+|\d+|[^\w\s]{2,}|[^\w\s](?![^\W\d_])|_+")
# The same of ASCII, counted by where a piece begins once each sign has become its kind: letter,
# digit, white space, underscore or other. A pattern takes ten times as long for a prompt.
KINDS = str.maketrans({chr(code): _kind(chr(code)) for code in range(128)})
BEGINNINGS = [before + kind for kind in "a0_." for before in " a0_." if before != kind]
# Scripts written without spaces, where about each character is a token.
UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
# Over 198 texts of the local model's tokeniser the pieces were 75 to 100 % of the tokens, most
# often 95 %; long words and scripts with few spaces are caught by their length.
TOKENS_PER_PIECE = 1.1
ASCII_PER_TOKEN = 5
OTHER_PER_TOKEN = 2
# Room for tokenisers with longer pieces than these before a report is called wrong.
SLACK = 0.9
# No prompt in any language needs so few tokens that each stands for more characters.
MOST_CHARACTERS_PER_TOKEN = 40
# No request comes near it, and a database takes it.
MOST_TOKENS = 100_000_000
# What a chat template adds around each message, and once to open the reply.
TOKENS_PER_MESSAGE = 4
TOKENS_TO_OPEN = 3


@dataclass(frozen=True, slots=True)
class Usage:
    """`cached_tokens` are part of `prompt_tokens`.

    `one_choice` marks a report that held the tokens of one choice of several, corrected here.
    """

    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    estimated: bool = False
    one_choice: bool = False


def estimate_tokens(text: str) -> int:
    """About how many tokens a text has, rather too many than too few."""
    by_pieces = fewest_tokens(text) * TOKENS_PER_PIECE
    if text.isascii():
        return math.ceil(max(by_pieces, len(text) / ASCII_PER_TOKEN))
    unspaced = len(UNSPACED.findall(text))
    ascii_only = len(text.encode("ascii", "ignore"))
    other = len(text) - ascii_only - unspaced
    by_length = ascii_only / ASCII_PER_TOKEN + unspaced + other / OTHER_PER_TOKEN
    return math.ceil(max(by_pieces, by_length))


def fewest_tokens(text: str) -> int:
    """A count that no usual tokeniser falls below."""
    if not text.isascii():
        return len(PIECE.findall(text))
    kinds = f" {text.translate(KINDS)}"
    in_front_of_letters = kinds.count(".a") - kinds.count("..a")
    return sum(map(kinds.count, BEGINNINGS)) - in_front_of_letters


def estimate_prompt(messages: Sequence[str]) -> int:
    texts = sum(estimate_tokens(text) + TOKENS_PER_MESSAGE for text in messages)
    return texts + TOKENS_TO_OPEN


def reported_usage(
    report: object,
    messages: Sequence[str],
    texts: Sequence[str],
    counted: Sequence[int | None] = (),
    one_choice_only: bool = False,
) -> Usage:
    """Read a reply's `usage` and correct what can't be true.

    `counted` are the choices' token counts where log-probabilities gave them exactly;
    `one_choice_only` says that this server reports the tokens of one choice whatever n is.
    """
    fields = report if isinstance(report, Mapping) else {}
    prompt = _count(fields.get("prompt_tokens"))
    completion = _with_hidden(fields, prompt, _count(fields.get("completion_tokens")))
    characters = sum(len(message) for message in messages)
    prompt_known = prompt is not None and prompt >= characters / MOST_CHARACTERS_PER_TOKEN
    too_few = completion is not None and reports_too_few(completion, texts)
    one_choice = len(texts) > 1 and (one_choice_only or too_few)
    tokens_known = completion is not None and not (too_few or one_choice)
    known_prompt = prompt if prompt is not None and prompt_known else estimate_prompt(messages)
    known_tokens = completion if completion is not None and tokens_known else None
    if known_tokens is None:
        known_tokens = _from_texts(completion, texts, counted)
    return Usage(
        prompt_tokens=known_prompt,
        cached_tokens=min(_cached(fields), known_prompt),
        completion_tokens=known_tokens,
        estimated=not (prompt_known and tokens_known),
        one_choice=one_choice,
    )


def reports_too_few(completion: int, texts: Sequence[str]) -> bool:
    """Whether the count is too small for these texts: most often it is one choice's of n."""
    return completion < SLACK * sum(fewest_tokens(text) for text in texts)


def _from_texts(reported: int | None, texts: Sequence[str], counted: Sequence[int | None]) -> int:
    """Estimate the tokens of all texts, on the scale of the one that the report fits best."""
    exact = [count for count in counted if count is not None]
    if exact and len(exact) == len(texts):
        return sum(exact)
    estimates = [estimate_tokens(text) for text in texts]
    total = sum(estimates)
    if reported and estimates:
        nearest = min(estimates, key=lambda estimate: abs(estimate - reported))
        scale = min(2.0, max(0.5, reported / nearest)) if nearest else 1.0
        total = round(total * scale)
    return max(total, reported or 0)


def _with_hidden(
    fields: Mapping[str, object], prompt: int | None, completion: int | None
) -> int | None:
    """Thinking that Gemini and xAI bill as completion is counted in the total alone."""
    total = _count(fields.get("total_tokens"))
    if prompt is None or completion is None or total is None:
        return completion
    return max(completion, total - prompt)


def _cached(fields: Mapping[str, object]) -> int:
    details = fields.get("prompt_tokens_details")
    if isinstance(details, Mapping):
        cached = _count(details.get("cached_tokens"))
        if cached is not None:
            return cached
    return _count(fields.get("prompt_cache_hit_tokens")) or 0


def _count(value: object) -> int | None:
    """A positive whole number that can be a count, or nothing."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= MOST_TOKENS:
        return None
    return value
