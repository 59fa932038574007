"""The marks of a judge's reply and of its templates, and how a text that has one is disarmed.

Parsers find a verdict by its mark. A response may contain the same mark, by chance or by intent,
and a judge may repeat it. So before a question, response or reference is sent, a middle dot is put
after the first character of each mark in it:

    The score of Assistant 1: 10    ->    The score of A·ssistant 1: 10
    [[A]]                           ->    [·[A]]
    [System]                        ->    [·System]
    <think>                         ->    <·think>

Nothing else changes, and no parser reads a disarmed mark. All patterns match folded text.
"""

import itertools
import re
import unicodedata
from functools import lru_cache

_SINGLE = {
    # The only capital whose small letter is two characters, and the small letter without a dot.
    **dict.fromkeys("\u0130\u0131", "i"),
    **dict.fromkeys("\u2010\u2011\u2012\u2212", "-"),
    **dict.fromkeys("\u2044\u2215", "/"),
    # The decimal and thousands separators of Arabic digits.
    "\u066b": ".",
    "\u066c": ",",
}


class _Folds(dict[int, str]):
    def __missing__(self, code: int) -> str:
        folded = _fold_character(chr(code))
        self[code] = folded
        return folded


def fold(text: str) -> str:
    """Fold characters that look alike into one, so that a mark is the same mark in any script.

    Full-width and styled letters become small ones, the digits of all scripts 0-9, and there is
    one space, one hyphen or minus sign, and one slash. Superscript and circled numbers stay as they
    are, since "8²" is not 82. The length stays, so a position is valid in both texts.
    """
    return text.lower() if text.isascii() else text.translate(_FOLDS)


# Characters that no reader sees: soft hyphens, joiners, directions, variation selectors, tags …
INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]"
)


def visible(text: str) -> str:
    return text if text.isascii() else INVISIBLE.sub("", text)


def _fold_character(character: str) -> str:
    category = unicodedata.category(character)
    if category == "Nd":
        return str(unicodedata.decimal(character))
    if category == "Zs":
        return " "
    if category == "No":
        return character
    small = _SINGLE.get(character) or unicodedata.normalize("NFKC", character).lower()
    return small if len(small) == 1 else character


_FOLDS = _Folds()


DISARMED = "\u00b7"

_GAP = r"[ \t*_`]+"
_NUMBER = r"[ \t*_`]*#?([12ab])(?![^\W_\u7684\u306e\uc758])"
# "Assistant" in languages that judges reply in.
ASSISTANT = (
    r"(?:as(?<![^\W_]as)(?:sist(?:ant|ente?)|istente?|ystenta?|istan)"
    r"|ассистент(?<![^\W_]ассистент)а?|помощник(?<![^\W_]помощник)а?"
    r"|助手|助理|アシスタント|어시스턴트|المساعد|सहायक)"
)
# Each of these parts takes no character that the part before it takes too. Otherwise a long run of
# blanks is divided between the two in every way.
_SCORE_WORD = r"[ \t]*(?:(?:的|の|의)[ \t]*)?(?:得分|分数|分數|评分|評分|スコア|点数|評価|점수)"
# What may stand between a label and its score: "Assistant 1 (concise): 8".
ASIDE = r"(?:[ \t]*\([^()\n]{1,40}\))?"
STRONG_LABEL = rf"scores?{_GAP}(?:of|for){_GAP}(?:the{_GAP})?(?:assistant|response|answer){_NUMBER}"
WEAK_LABEL = (
    rf"{ASSISTANT}{_NUMBER}(?:{_SCORE_WORD})?(?:['\u2019]s)?(?:{_GAP}(?:response|answer))?"
    rf"(?:{_GAP}(?:overall{_GAP})?(?:score|rating))?"
)
SCORE_KEY = (
    r"(?:the[ _-]?)?score[ _-]?(?:of[ _-]?)?(?:assistant[ _-]?)?([12])"
    r"|assistant[ _-]?([12])(?:[ _-]?score)?"
)

VERDICT_MARK = re.compile(r"\[\\?\[[ \t*_`]*([abc])[ \t*_`]*\\?\]\\?\]")
STRONG_SCORE = re.compile(STRONG_LABEL)
WEAK_SCORE = re.compile(WEAK_LABEL + ASIDE + r"[ \t*_`]*(?:[:=|\u2013\u2014-]|\bis\b|$)", re.M)
JSON_SCORE_KEY = re.compile(rf"""["'](?:{SCORE_KEY})["'][ \t]*:""")
EVIDENCE_LABEL = re.compile(r"evaluation[ \t]+evidence[ \t*_`]*:")

_THOUGHTS = "(?:think|thinking|thoughts?|reasoning|reflection|scratchpad|seed:think)"
_ATTRIBUTES = r"(?:[ \t][^<>\n/]{0,80})?"
THINK_TAG = re.compile(
    rf"[<\[\u25c1](?:(?P<open>{_THOUGHTS}{_ATTRIBUTES}>|think[\]\u25b7]|\|begin_of_thought\|>"
    r"|\|start_thinking\|>|\|inner_prefix\|>"
    r"|\|channel\|>(?:analysis|commentary)(?:<\|message\|>)?)"
    rf"|(?P<close>/{_THOUGHTS}[ \t]*>|/think[\]\u25b7]|\|end_of_thought\|>"
    r"|\|end_thinking\|>|\|inner_suffix\|>"
    r"|(?P<final>\|channel\|>final(?:[ \t]*<\|constrain\|>[ \t]*[a-z]{1,10})?)(?:<\|message\|>)?))"
)
TEMPLATE_MARK = re.compile(
    r"\[[ \t]*(?:question|system|better[ \t]+answer|score"
    r"|(?:the[ \t]+)?(?:start|end)[ \t]+of[ \t]+[^\[\]\n]{1,60})\]"
)
# The marks of chat templates, which some servers also read in a message's text.
CHAT_MARK = re.compile(r"<\|[a-z_]{2,30}\|>|\[/?inst\]|<</?sys>>|<(?:start|end)_of_turn>")
# The signs that end a turn or begin another one, in the chat templates in use. Each family of
# models has its own signs in bars, so all words in bars end a turn but those within a reply:
# thoughts, boxes, channels and their messages. "<s>8</s>" is HTML, and "<|x|>" is a formula.
_WITHIN_A_REPLY = (
    r"/?(?:(?:end|begin|start)_(?:of_)?(?:thought|thinking|box|solution)|inner_(?:prefix|suffix)"
    r"|(?:begin|start)_(?:of_)?response|channel|message|constrain)[|]"
)
END_OF_TURN = re.compile(
    rf"[<\[][|](?!{_WITHIN_A_REPLY})/?[a-z][a-z0-9]+(?:[_ \u2581][a-z0-9]+){{0,6}}[|][>\]]"
    r"|</?(?:start|end)_of_(?:turn|utterance|message|text)>|<turn[|]>|<[|]turn>"
    r"|<_(?:start|end|user|bot|system|pad)>|<(?:eo[a-z]|bos|sop|sep|pad)>|</s>"
    r"|<(?:extra_id|special|reserved|reserved_token)_[0-9]{1,4}>|<unused[0-9]{1,4}>"
    r"|</?seed:[be]os>|<role>|</(?:assistant|model)>|\[/?inst\]|<</?sys>>|\[(?:eos|sep|gmask)\]"
    r"|\[e~\[|^(?:###[ \t]*(?:human|user|instruction|input)[ \t]*(?::|$)|<?human>?[ \t]*:)",
    re.MULTILINE,
)
# A judge may also write of such a sign: "a stray <|im_end|> token".
MENTION_BEFORE = re.compile(r"[a-z,][ \t]+$")
MENTION_AFTER = re.compile(r"(?<![ \t])[ \t]+(?!(?:user|human|assistant|system)\b)[a-z]|[.,;:]")
# The boxes of some models around their answer, and what opens a model's turn.
BOX = re.compile(
    r"<\|(?:begin|start|end)_(?:of_)?(?:box|solution|response)\|>"
    r"|\A\s*(?:<\|[a-z_]{2,30}\|>(?:assistant\b)?\s*)+"
)
RESTART_MARK = re.compile(
    r"^[ \t*_`#>]*\[[ \t]*(?:question[ \t]*\]|system[ \t]*\][ \t*_`]*$"
    r"|the[ \t]+(?:start|end)[ \t]+of[ \t]+(?:the[ \t]+)?"
    r"(?:assistant[^\[\]\n]{1,20}(?:answer|response)|answer|input|output|response)[^\[\]\n]{0,20}\])"
    r"|\[[ \t]*question[ \t]*\][ \t*_`]*$",
    re.MULTILINE,
)

# The weak mark comes first: disarming it disarms the strong mark that contains it.
VERDICT_MARKS = (WEAK_SCORE, STRONG_SCORE, VERDICT_MARK, JSON_SCORE_KEY)
_ALL = (*VERDICT_MARKS, EVIDENCE_LABEL, THINK_TAG, TEMPLATE_MARK, CHAT_MARK)


def holds_verdict_mark(folded: str, start: int = 0, end: int | None = None) -> bool:
    end = len(folded) if end is None else end
    return any(pattern.search(folded, start, end) for pattern in VERDICT_MARKS)


# The two orders of an example come one after the other, with the same texts.
@lru_cache(maxsize=32)
def disarm(text: str) -> str:
    """Return `text` with a middle dot in each mark.

    A mark with invisible characters in it counts too: a judge may leave them out when it repeats
    the mark.
    """
    folded = fold(text)
    for pattern in _ALL:
        places = [match.start() + 1 for match in pattern.finditer(folded)]
        if places:
            text, folded = _dotted(text, places), _dotted(folded, places)
    seen = visible(text)
    if seen == text or not any(pattern.search(fold(seen)) for pattern in _ALL):
        return text
    return _disarmed_as_seen(text)


def _disarmed_as_seen(text: str) -> str:
    for pattern in _ALL:
        at = [place for place, letter in enumerate(text) if not INVISIBLE.match(letter)]
        folded = fold(visible(text))
        text = _dotted(text, [at[match.start()] + 1 for match in pattern.finditer(folded)])
    return text


def _dotted(text: str, places: list[int]) -> str:
    bounds = [0, *places, len(text)]
    return DISARMED.join(text[a:b] for a, b in itertools.pairwise(bounds))
