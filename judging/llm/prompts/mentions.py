"""Which response the judge means by “Assistant 1”, “[[A]]” or “the second answer”.

A judge names responses by where they were shown, or by the ID tokens that it was told. In the
swapped order “Assistant 1” is response 2, which a reader of its evidence easily gets wrong. The
text stays as it is: `mentions` cuts it after each name, so that a page can say there who is meant.
A name that was disarmed in a prompt (see `marks`) is quoted from a response and means nobody.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from judging.llm.prompts.marks import ASSISTANT, fold
from judging.llm.prompts.templates import PromptVariant, ReplyFormat


class Mention(NamedTuple):
    """A piece of the text, and the response (1 or 2) that its last words mean; None at the end."""

    text: str
    response: int | None


_NOUN = rf"(?:{ASSISTANT}s?|responses?|answers?|outputs?)"
_GAP = r"[ \t\u00a0]?(?:[*_`#]{1,3})?"
_BRACKETED = r"""[(\["'“‘«*`]{1,2}[ab12][)\]"'”’»*`]{1,2}"""
# No longer word or number goes on. Scripts without spaces may go on at once.
_END = r"(?![^\W\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]|·|[.,]\d)"
_POSSESSIVE = r"(?:['’]s(?!\w))?"
_WORD_START = r"(?<![^\W\d_])"
# "The score of Assistant 1", "Response (b)", "score_1", "[[A]]", "the second response".
_NAME = re.compile(
    rf"(?P<noun>{_WORD_START}{_NOUN}{_GAP})(?:(?P<bracketed>{_BRACKETED})|(?P<bare>[ab12]{_END}))"
    rf"{_POSSESSIVE}"
    r"|(?P<key>\b(?:score|assistant|response|answer|output)[_-][12ab]\b)"
    r"|(?P<mark>\[\\?\[[ \t*_`]*[ab][ \t*_`]*\\?\]\\?\])"
    rf"|{_WORD_START}(?P<ordinal>first|second|former|latter)"
    rf"[ \t]+(?:ai[ \t]+)?(?:{ASSISTANT}|response|answer|output)(?:['’]s)?(?!\w)"
)
# "Assistants 1 and 2": the second one has no noun of its own.
_AND = re.compile(rf"[ \t]*(?:and|or|und|et|y|&|/|,|和|与|vs\.?)[ \t]*(?P<bare>[ab12]){_END}")
_PAIR_OF_SCORES = re.compile(
    r"\A\s*(?P<one>\d+(?:\.\d+)?)(?=[ \t,/]+\d)(?:[ \t,/]+)(?P<two>\d+(?:\.\d+)?)[ \t]*(?=\n|\Z)"
)
_ONE_TOKEN = re.compile(r"\A\s*(\S{1,20})\s*\Z")


def mentions(
    text: str,
    variant: PromptVariant,
    *,
    reply: ReplyFormat | None = None,
    ids: tuple[str, str] = ("A", "B"),
) -> Iterator[Mention]:
    """Cut a reply after each name of a response. The pieces together are the text.

    Args:
        text: The evidence, or a raw reply.
        variant: What the prompt showed first, and which response bore which ID token.
        reply: How the reply states the verdict, if that is known. It decides whether two numbers
            in the first line are scores.
        ids: The ID tokens of a choice.
    """
    start = 0
    for end, response in _names(text, variant, reply, ids):
        yield Mention(text[start:end], response)
        start = end
    if start < len(text):
        yield Mention(text[start:], None)


def _names(
    text: str, variant: PromptVariant, reply: ReplyFormat | None, ids: tuple[str, str]
) -> Iterator[tuple[int, int]]:
    """Yield where each name ends, and the response that it means."""
    shown = variant.shown(1, 2)
    by_token = (1, 2) if variant.response_1_bears_first_token else (2, 1)
    folded = fold(text)
    start = 0
    token = _ONE_TOKEN.match(text)
    if reply is ReplyFormat.CHOICE_TOKEN and token and token[1] in ids:
        yield token.end(1), by_token[ids.index(token[1])]
        return
    if reply is ReplyFormat.SCORE_PAIR and (pair := _PAIR_OF_SCORES.match(folded)):
        yield pair.end("one"), shown[0]
        yield pair.end("two"), shown[1]
        start = pair.end()
    for match in _NAME.finditer(folded, start):
        if ordinal := match["ordinal"]:
            yield match.end(), shown[0 if ordinal in ("first", "former") else 1]
        elif match["bare"] in ("a", "b") and not text[match.start("bare")].isupper():
            # "The answer a user expects" names nobody.
            continue
        else:
            named = match["bracketed"] or match["bare"] or match["key"] or match["mark"]
            letter = next(letter for letter in reversed(named) if letter in "ab12")
            yield match.end(), by_token[0 if letter in "a1" else 1]
            other = _AND.match(folded, match.end()) if match["bare"] else None
            if other and (other["bare"] in "12" or text[other.start("bare")].isupper()):
                yield other.end(), by_token[0 if other["bare"] in "a1" else 1]
