"""What a judge says of a verdict before it: that it is the final one, a correction, or one about a
single criterion."""

import re
from dataclasses import dataclass

# A longer line explains; it doesn't announce.
LONGEST = 80

REVISION = (
    r"(?:correct(?:ed|ion|ing)?|revis(?:ed|ion|ing|e)|updated?|reconsider(?:ed|ing)?"
    r"|reconsideration|(?:on|upon)[ \t]+(?:(?:second[ \t]+thoughts?)|(?:further[ \t]+)?reflection)"
    r"|actually|wait|instead|scratch[ \t]+that|changed?[ \t]+my[ \t]+mind|i[ \t]+meant?)\b"
)
FINAL = r"(?:final(?:ly)?|overall|in[ \t]+(?:total|conclusion|summary)|total|conclusion|verdict)\b"
# A line that begins so: further on, "the corrected value" may be one in a response.
_REVISION = re.compile(
    r"[\W_]*(?:(?:no|so|but|and|oh|hmm|well|sorry|my|the|let[ \t]+me|here[ \t]+(?:is|are)"
    rf"|i(?:[ \t]+(?:must|will|should|(?:have|need|want)[ \t]+to))?)\b[ \t,.:*_]*){{0,5}}{REVISION}"
)
_FINAL = re.compile(rf"\b(?:{FINAL}|{REVISION})")
# A line that speaks of what somebody else wrote announces nothing of the judge's own.
_OF_ANOTHER = re.compile(
    r"\b(?:assistant|response|answer|reply|text|line)s?\b|\b(?:wr[io]tes?|sa(?:ys?|id)|claims?)\b"
)

_CRITERION = (
    r"(?:helpfulness|relevanc[ey]|accuracy|(?:level[ \t]+of[ \t]+)?details?|depth|creativity"
    r"|clarity|correctness|completeness|coherence|conciseness|fluency|style|grammar|factuality"
    r"|harmlessness|honesty|truthfulness|readability|structure|format(?:ting)?|usefulness"
    r"|informativeness|engagement|originality|tone|length|instruction[ \t-]following)"
)
_OF_CRITERION = re.compile(
    rf"[\W\d_]*(?:(?:for|on|the|in[ \t]+terms[ \t]+of|regarding)[ \t]+)*{_CRITERION}"
    r"(?:[ \t]+(?:scores?|ratings?))?(?:[ \t]*\([^()\n]{0,40}\))?(?:[\W_]|the\b)*"
)


@dataclass(frozen=True, slots=True)
class Announced:
    """`final` is true of a correction as well."""

    final: bool = False
    revision: bool = False
    criterion: bool = False


NOTHING = Announced()


def announced(words: str) -> Announced:
    """What `words`, the beginning of a line or the line above, announce."""
    if not words.strip() or len(words) > LONGEST or _OF_ANOTHER.search(words):
        return NOTHING
    if _OF_CRITERION.fullmatch(words):
        return Announced(criterion=True)
    return Announced(bool(_FINAL.search(words)), _REVISION.match(words) is not None)
