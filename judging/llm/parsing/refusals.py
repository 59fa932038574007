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
    r"compare|engage|comply|fulfil|complete|do |answer|discuss|continue|participate))"
    r"|i(?:'m| am) (?:unable|not able|not comfortable|not willing)"
    r"|as an ai\b.{0,80}?\bi (?:can(?:'t|not)|am unable|won't|do not|don't))",
    re.DOTALL,
)
# An apology or an inability with which a reply in the language opens.
_OTHERS = re.compile(
    r"\s*(?:lo siento|lamento|no puedo|je suis désol|désolé|je ne peux pas|"
    r"es tut mir leid|tut mir leid|leider kann ich|ich kann (?:diese|das|dabei|hier|ihnen|dir)|"
    r"entschuldigung|mi dispiace|non posso|desculp|sinto muito|lamento|"
    r"não posso|het spijt me|helaas kan ik|ik kan (?:dit|hier|je|u)|przepraszam|przykro mi|"
    r"nie mogę|omlouvám se|je mi líto|bohužel|jag är ledsen|tyvärr|"
    r"beklager|undskyld|olen pahoillani|valitettavasti|üzgünüm|maalesef|xin lỗi|"
    r"tôi không thể|maaf|saya tidak (?:bisa|dapat)|sajnálom|"
    r"îmi pare rău|λυπάμαι|извините|"
    r"простите|к сожалению|я не могу|вибачте|на жаль|"
    r"(?:非常|很)?抱歉|对不起|對不起|我(?:无法|無法|不能)|"
    r"申し訳|すみません|ごめん|죄송|미안|"
    r"آسف|أعتذر|عذرا|لا أستطيع|متأسف|"
    r"מצטער|क्षमा|माफ|मुझे खेद|ขออภัย|ขอโทษ)",
)


# Who declines is a response and not the judge, where one of these stands before.
_SPEAKS_OF_ONE = re.compile(r"assistant|response|answer|[\"\u201c\u00ab]")


def declines(folded: str) -> bool:
    opening = folded[:OPENING].replace("\u2019", "'").lstrip(" \t\r\n*_#>{\"'\u00a1")
    english = _ENGLISH.search(opening)
    if english is not None and not _SPEAKS_OF_ONE.search(opening, 0, english.start()):
        return True
    return _OTHERS.match(opening) is not None
