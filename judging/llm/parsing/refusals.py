"""Whether a reply without a verdict declines to judge, in the languages that judges reply in."""

import re

# Only the opening is looked at: further on, a judge may speak of a response that declines.
OPENING = 250

_ENGLISH = re.compile(
    r"\b(?:i(?:'m| am)? (?:(?:really |very |truly |so )?sorry|apologi[sz]e)\b.{0,80}?"
    r"\b(?:can(?:'t|not)|unable|won't|not able|not comfortable)"
    r"|(?:sorry|apologies)[,.!]? (?:but )?i (?:can(?:'t|not)|won't|am unable|am not able)"
    r"|i (?:can(?:'t|not| not)|won't|will not|must decline|decline|refuse)"
    r"(?: to)? (?:(?:in good conscience |provide |offer |give |help|assist|rate|evaluate|judge|"
    r"compare|engage|comply|fulfil|complete|do |answer|discuss|continue|participate|assess|score|"
    r"respond|generate|create|process|review))"
    r"|i(?:'m| am) (?:unable|not able|not comfortable|not willing)"
    r"|as an ai\b.{0,80}?\bi (?:can(?:'t|not)|am unable|won't|do not|don't))",
    re.DOTALL,
)
# How a reply opens that declines in another language; in small letters.
_OTHERS = (
    *("lo siento", "lamento", "no puedo", "desculp", "sinto muito", "não posso"),
    *("je suis désol", "désolé", "je ne peux pas", "mi dispiace", "non posso", "îmi pare rău"),
    *("es tut mir leid", "tut mir leid", "entschuldigung", "leider kann ich", "ich kann das"),
    *("ich kann diese", "ich kann dabei", "ich kann hier", "het spijt me", "helaas kan ik"),
    *("jag är ledsen", "tyvärr", "beklager", "undskyld", "olen pahoillani", "valitettavasti"),
    *("przepraszam", "przykro mi", "nie mogę", "omlouvám se", "je mi líto", "bohužel"),
    *("извините", "простите", "к сожалению", "я не могу", "вибачте", "на жаль"),
    *("sajnálom", "λυπάμαι", "üzgünüm", "maalesef", "xin lỗi", "tôi không thể"),
    *("maaf", "saya tidak bisa", "saya tidak dapat", "ขออภัย", "ขอโทษ"),
    *("抱歉", "很抱歉", "非常抱歉", "对不起", "對不起", "我无法", "我無法", "我不能"),
    *("申し訳", "すみません", "ごめん", "죄송", "미안"),
    *("آسف", "أعتذر", "عذرا", "لا أستطيع", "متأسف", "מצטער", "क्षमा", "माफ", "मुझे खेद"),
)
# Who declines is a response and not the judge, where one of these stands before.
_SPEAKS_OF_ONE = re.compile(r"assistant|response|answer|[\"\u201c\u00ab]")


def declines(folded: str) -> bool:
    opening = folded[:OPENING].replace("\u2019", "'").lstrip(" \t\r\n*_#>{\"'\u00a1")
    english = _ENGLISH.search(opening)
    if english is not None and not _SPEAKS_OF_ONE.search(opening, 0, english.start()):
        return True
    return opening.startswith(_OTHERS)
