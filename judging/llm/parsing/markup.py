"""Numbers out of HTML and LaTeX, each character of the markup in asterisks: positions stay."""

import re

_TAGS = re.compile(
    r"(?P<open><(?P<tag>[a-z][a-z0-9_-]{0,15})>)(?P<inside>[^<>\n]{1,40})(?P<close></(?P=tag)>)"
)
_COMMANDS = re.compile(
    r"(?P<open>\\(?:boxed|fbox|underline|text[a-z]{0,2}|math[a-z]{2})\{)"
    r"(?P<inside>[^{}\n]{1,40})(?P<close>\})"
)
_SPACED = re.compile(r"\\(?=[()\[\],;:/%!_*])")
_STARTS_WITH_A_NUMBER = re.compile(r"[ \t*_`$(\[\\]*[0-9]")
# A box in bold in a formula; deeper is no way to write a number.
DEEPEST = 3


def unwrapped(folded: str) -> str:
    """`folded` with its length; what is wrapped around anything but a number stays."""
    if "<" not in folded and "\\" not in folded:
        return folded
    for _ in range(DEEPEST):
        bare = _COMMANDS.sub(_in_asterisks, _TAGS.sub(_in_asterisks, folded))
        if bare == folded:
            break
        folded = bare
    return _SPACED.sub("*", folded)


def _in_asterisks(match: re.Match[str]) -> str:
    if not _STARTS_WITH_A_NUMBER.match(match["inside"]):
        return match[0]
    return "*" * len(match["open"]) + match["inside"] + "*" * len(match["close"])
