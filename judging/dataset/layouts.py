"""Files of other tools, recognised by their content and read as FairJudge's own columns.

A layout is known by the keys of its rows. It says which pairs, votes and judgments a row holds, in
the columns that docs/files.md names, and the rooms read these columns as they read any file. So
IDs, labels and problems have one owner each. Every layout was looked up in its tool's own source or
data card; docs/files.md names them. The layouts here hold a pair in each row. `outputs` has those
with one response in each row.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import Any

from judging.core import conversations
from judging.core.conversations import Messages, Unusable
from judging.core.text import storable
from judging.dataset.records import (
    NUMBER,
    REQUIRED,
    Record,
    Refused,
    canonical,
    content_id,
    expected_sentence,
    listed,
    plain,
    read_label,
    recognise,
)

Values = Mapping[str, Any]
Rows = Iterator[dict[str, Any]]
Read = Callable[[Values, Container[str]], Rows]
OTHER = {"win": "lose", "lose": "win", "tie": "tie"}
MOST_KEPT = 1000
MOST_TURNS = 1000
ORDERS = {True: "original", False: "swapped"}


class Holds(StrEnum):
    """What a row can hold, in the words of messages."""

    PAIRS = "pairs"
    VOTES = "votes"
    JUDGMENTS = "judgments"


class Unreadable(ValueError):
    """Why a row can't be read, in a sentence, and the column that is to blame."""

    def __init__(self, column: str, sentence: str) -> None:
        super().__init__(sentence)
        self.column = column


def _unexpected(column: str, expected: str, value: object) -> Unreadable:
    return Unreadable(column, expected_sentence(column, expected, value))


@dataclass(frozen=True)
class Layout:
    """How a tool writes a row.

    tool: its name in sentences.
    keys: the names that every row has.
    reads: for what a row can hold, a function that gives its values in our columns.
    nested: names among the keys whose values are lists or objects.
    without: names that no row has.
    some: a row has a name that fits the first pattern, one that fits the second, and so on.
    unless: says of a row that fits that its columns are read by their names all the same.
    joined: rows are put together over all files first.
    instead: of rows that hold nothing for us, what to import in their place.
    """

    tool: str
    keys: frozenset[str]
    reads: Mapping[Holds, Read]
    nested: frozenset[str] = frozenset()
    without: frozenset[str] = frozenset()
    some: tuple[re.Pattern[str], ...] = ()
    unless: Callable[[Values], bool] | None = None
    joined: Callable[[Sequence[Record]], Iterator[Record | Refused]] | None = None
    instead: str = ""


def read_row(
    layout: Layout, record: Record, holds: Holds, known: Container[str]
) -> Iterator[Record | Refused]:
    read = layout.reads.get(holds)
    if read is None:
        sentence = f"holds {' and '.join(layout.reads)}, and no {holds}."
        yield record.refuse("", f"This row of {layout.tool} {layout.instead or sentence}")
        return
    try:
        for values in read(record.values, known):
            yield Record(record.place, values, record.text)
    except UNREADABLE as error:
        yield refused(layout.tool, record, error)


# What reading a row raises if a value in it isn't of the kind that its tool writes.
UNREADABLE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


def refused(tool: str, record: Record, error: Exception) -> Refused:
    """Refuse a row by what reading it raised."""
    if isinstance(error, Unreadable):
        return record.refuse(error.column, str(error))
    sentence = f"This row isn't as {tool} writes it. Export it again, or delete the row."
    return record.refuse("", sentence)


class OneJudge:
    """Refuses judgments of a second judge: a run has one."""

    def __init__(self) -> None:
        self._model: str | None = None
        self._line = 0

    def checked(self, records: Iterable[Record | Refused]) -> Iterator[Record | Refused]:
        for record in records:
            model = record.values.get("model") if isinstance(record, Record) else None
            if isinstance(record, Record) and model:
                if self._model is None:
                    self._model, self._line = model, record.place.line
                elif model != self._model:
                    yield record.refuse(
                        "model",
                        f"The judge is {model}, and on line {self._line} it is {self._model}. "
                        "Import the judgments of each judge as a run of its own.",
                    )
                    return
            yield record


def as_text(value: Any) -> str | None:
    """Return what a judge replied as text that a database stores; None if nothing is there."""
    if value is None:
        return None
    return storable(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def name_in(value: Any) -> str:
    """Return a short text or a whole number as text, "" for anything else."""
    # For Python, True and False are whole numbers.
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value.strip() if isinstance(value, str) else ""


# What FastChat and arena-hard write in place of a reply, once for each attempt that failed.
_NO_REPLY = re.compile(r"(\s*\$ERROR\$)+\s*")


def judgment_of(
    external_id: str, *, first_is_1: bool, outcome: str | None, model: Any, reply: Any, **more: Any
) -> dict[str, Any]:
    """Return a sample. `outcome` is of response 1; None if the reply has no verdict."""
    text = as_text(reply)
    if outcome is None and text and _NO_REPLY.fullmatch(text):
        more = {"status": "error"} | more
    return {
        "external_id": external_id, "order": ORDERS[first_is_1], "outcome": outcome,
        "evidence": text, "raw_text": text, "model": name_in(model), **more,
    }  # fmt: skip


def _pair_of(
    known: Container[str], number: str, first: str, second: str, turn: int = 1
) -> tuple[str, bool]:
    """Return the ID of two models' answers to a question, and whether `first` gave response 1.

    If the project has neither order, the models are in the order of their names. Of turns after
    the first one, the ID says which it is.
    """
    later = (str(turn),) if turn > 1 else ()
    for models in ((first, second), (second, first)):
        if (external_id := ":".join((number, *models, *later))) in known:
            return external_id, models[0] == first
    return ":".join((number, *sorted((first, second)), *later)), first <= second


def _as_1(label: str, first_is_1: bool) -> str:
    """Turn a label of the first response into one of response 1."""
    return label if first_is_1 else OTHER[label]


def _turn(values: Values) -> int | None:
    """Return which turn of a conversation a row is about; None if it doesn't say."""
    turn = values.get("turn")
    if turn is None or turn == "":
        return None
    number = canonical(str(turn))
    if not number.isdecimal() or not 1 <= int(number) <= MOST_TURNS:
        raise _unexpected("turn", f"a whole number from 1 to {MOST_TURNS}", turn)
    return int(number)


def _parted(
    first: Any, second: Any, names: tuple[str, str], turn: int | None = None
) -> tuple[Any, Any, Any]:
    """Return the question and the responses of two conversations, as texts if they are no more.

    Args:
        turn: the last one that counts. MT-bench's rows about the first turn hold the second, too.
    """
    whole = []
    for name, value in zip(names, (first, second), strict=True):
        try:
            messages = conversations.checked(value, name)
        except Unusable as error:
            raise Unreadable(name, str(error)) from None
        asked = [n for n, message in enumerate(messages) if message["role"] == "user"]
        # Turns count from 1, so this is where the turn after the last one begins.
        end = asked[turn] if turn is not None and turn < len(asked) else len(messages)
        whole.append(messages[:end])
    try:
        question, *responses = conversations.parted(*whole)
    except Unusable as error:
        raise Unreadable(names[1], str(error)) from None
    return unlisted(question, "question"), *(unlisted(side, "response_1") for side in responses)


def unlisted(value: Any, field: str) -> Any:
    """Return the text of a list that is one message with a text; anything else as it is."""
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict):
        message = value[0]
        calls = message.get("tool_calls") or message.get("function_call")
        if message.get("role") == conversations.ALONE[field] and not calls:
            content = message.get("content")
            return content if isinstance(content, str) else value
    return value


def _fastchat_judgments(values: Values, known: Container[str]) -> Rows:
    """Read FastChat's `gpt-4_pair.jsonl`: game 1 shows model 1 first, game 2 shows model 2 first.

    Winners are named as models, whatever the order.
    """
    number, judge = name_in(values["question_id"]), values["judge"]
    models = name_in(values["model_1"]), name_in(values["model_2"])
    external_id, first_is_1 = _pair_of(known, number, *models, _turn(values) or 1)
    labels = {"model_1": "win", "tie": "tie", "model_2": "lose"}
    for game, shown_first in (("g1", True), ("g2", False)):
        winner = values[f"{game}_winner"]
        if winner not in (*labels, "error"):
            raise _unexpected(f"{game}_winner", "model_1, model_2, tie or error", winner)
        yield judgment_of(
            external_id,
            first_is_1=shown_first == first_is_1,
            outcome=_as_1(labels[winner], first_is_1) if winner in labels else None,
            model=judge[0] if isinstance(judge, list) and judge else judge,
            reply=values.get(f"{game}_judgment"),
        )


def _conversation_id(values: Values, known: Container[str]) -> tuple[str, bool]:
    """Return the ID: of a question's number, with both models; an arena's ID is a pair's own."""
    number, turn = name_in(values.get("question_id", values.get("id"))), _turn(values) or 1
    if not NUMBER.fullmatch(number):
        return number, True
    models = name_in(values["model_a"]), name_in(values["model_b"])
    return _pair_of(known, number, *models, turn)


def _conversation_pairs(values: Values, known: Container[str]) -> Rows:
    names = ("conversation_a", "conversation_b")
    question, first, second = _parted(*(values[name] for name in names), names, _turn(values))
    external_id, first_is_1 = _conversation_id(values, known)
    sides = [(first, values["model_a"]), (second, values["model_b"])]
    yield as_pair(external_id, question, sides if first_is_1 else sides[::-1])


def as_pair(
    external_id: str, question: Any, sides: Sequence[tuple[Any, Any]], **more: Any
) -> dict[str, Any]:
    """Return a pair; `sides` are the text and the model of response 1 and of response 2."""
    (response_1, model_1), (response_2, model_2) = sides
    return {
        "external_id": external_id, "question": question, "response_1": response_1,
        "response_2": response_2, "model_1": name_in(model_1), "model_2": name_in(model_2), **more,
    }  # fmt: skip


def _conversation_votes(values: Values, known: Container[str]) -> Rows:
    """Read the vote of a person on an arena or on MT-bench."""
    judge = values.get("judge")
    # A judge model comes as a list of its name and its prompt's.
    if isinstance(judge, list) or plain(name_in(judge)).startswith("gpt4"):
        raise Unreadable(
            "judge", "This verdict is by a judge model. Import FastChat's file of pair judgments."
        )
    bad = ("tiebothbad", "bothbad")
    labels = {"modela": "win", "modelb": "lose", "tie": "tie", **dict.fromkeys(bad, "tie")}
    winner = plain(name_in(values["winner"]))
    if winner not in labels:
        raise _unexpected("winner", "model_a, model_b, tie or tie (bothbad)", values["winner"])
    external_id, first_is_1 = _conversation_id(values, known)
    yield {
        "external_id": external_id,
        # Files without the person name the session in which they voted.
        "annotator": name_in(judge or values.get("evaluation_session_id")) or None,
        "label": _as_1(labels[winner], first_is_1),
        "raw_answer": "both_bad" if winner in bad else None,
        "submitted_at": _moment(values.get("tstamp")),
    }


def _battle_pairs(values: Values, known: Container[str]) -> Rows:
    """Read a battle whose cells list the prompts and each model's answers, as JSON."""
    asked = _texts_in(values["prompt"], "prompt")
    names = ("response_a", "response_b")
    chats = []
    for name in names:
        answers = _texts_in(values[name], name)
        if len(answers) != len(asked):
            raise _unexpected(name, f"{len(asked)} answers, one for each prompt", len(answers))
        turns = zip(asked, answers, strict=True)
        roles = ("user", "assistant")
        chats.append(
            [
                {"role": role, "content": text}
                for turn in turns
                for role, text in zip(roles, turn, strict=True)
            ]
        )
    question, first, second = _parted(*chats, names)
    sides = [(first, values["model_a"]), (second, values["model_b"])]
    yield as_pair(name_in(values["id"]), question, sides)


def _texts_in(value: Any, name: str) -> list[str]:
    """Return the texts that a cell lists as JSON; an answer that is null is empty."""
    try:
        decoded = json.loads(value) if isinstance(value, str) and value[:1] == "[" else value
    except ValueError:
        decoded = value
    texts = decoded if isinstance(decoded, list) else [decoded]
    if not texts or not all(text is None or isinstance(text, str) for text in texts):
        raise _unexpected(name, "a list of texts", value)
    return [text or "" for text in texts]


def _battle_votes(values: Values, known: Container[str]) -> Rows:
    """Read who won. The file names no annotator."""
    winners = {"winner_model_a": "win", "winner_model_b": "lose", "winner_tie": "tie"}
    won = [label for name, label in winners.items() if canonical(str(values[name])) == "1"]
    if len(won) != 1:
        raise Unreadable("winner_model_a", f"One of {', '.join(winners)} should be 1.")
    yield {"external_id": name_in(values["id"]), "annotator": None, "label": won[0]}


def _moment(seconds: Any) -> str | None:
    """Return a time in seconds since 1970 as ISO 8601."""
    try:
        return datetime.fromtimestamp(float(seconds), UTC).isoformat() if seconds else None
    except (ValueError, OverflowError, OSError, TypeError):
        raise _unexpected("tstamp", "seconds since 1970", seconds) from None


def _alpaca_pairs(values: Values, known: Container[str]) -> Rows:
    texts = [values["instruction"], values.get("input")]
    question = "\n\n".join(text for text in texts if isinstance(text, str) and text)
    outputs = values["output_1"], values["output_2"]
    models = name_in(values.get("generator_1")), name_in(values.get("generator_2"))
    parts = (question, *outputs, *models)
    # Other values are refused as texts when the pair is read.
    external_id = content_id(map(str, parts))
    sides = list(zip(outputs, models, strict=True))
    yield as_pair(external_id, question, sides, category=name_in(values.get("dataset")))


def _alpaca_judgments(values: Values, known: Container[str]) -> Rows:
    """Read the preference: 1 to 2, from output 1 to output 2. A weighted one counts as its side.

    alpaca_eval draws the order for each pair and doesn't keep it.
    """
    (pair,) = _alpaca_pairs(values, known)
    preference = values["preference"]
    outcome = None
    if preference is not None and preference != "":
        number = number_in("preference", preference, "a number from 1 to 2")
        # Older files write 0 for a tie.
        if number and not 1 <= number <= 2:
            raise _unexpected("preference", "a number from 1 to 2", preference)
        middle = Decimal("1.5")
        outcome = "tie" if number in (0, middle) else "win" if number < middle else "lose"
    names = ("preference_raw_completion", "raw_completion")
    prices = ("preference_price_per_example", "price_per_example")
    yield judgment_of(
        pair["external_id"],
        first_is_1=True,
        outcome=outcome,
        model=values["annotator"],
        reply=next((values[name] for name in names if values.get(name) is not None), None),
        usd=next((values[name] for name in prices if values.get(name) is not None), None),
    )


def number_in(column: str, value: Any, expected: str) -> Decimal:
    try:
        number = Decimal(str(value).strip())
    except InvalidOperation:
        number = Decimal("NaN")
    if not number.is_finite():
        raise _unexpected(column, expected, value)
    return number


# A means the answer that was shown first.
_ARENA_HARD = {
    "A>>B": "win", "A>B": "win", "A=B": "tie", "B>A": "lose", "B>>A": "lose",
    "A<<B": "lose", "A<B": "lose", "B=A": "tie", "B<A": "win", "B<<A": "win",
}  # fmt: skip


# What both tools cut out of a reply. Some of it is no verdict, such as A alone.
_CUT_OUT = re.compile("[AB<>=]+")


def _verdict(column: str, verdict: Any) -> str | None:
    """Return what A>B and the like say about A; None for a reply without a verdict."""
    if verdict is None or (isinstance(verdict, str) and _CUT_OUT.fullmatch(verdict)):
        return _ARENA_HARD.get(verdict or "")
    raise _unexpected(column, "A>>B, A>B, A=B, B>A or B>>A", verdict)


def _arena_hard_judgments(values: Values, known: Container[str]) -> Rows:
    """Read both games: game 1 shows the baseline first, game 2 the model."""
    baseline, model = name_in(values.get("baseline")), name_in(values["model"])
    if not baseline:
        sentence = "The row doesn't name its baseline. Add it as baseline, with the model's name."
        raise Unreadable("baseline", sentence)
    # Newer versions of arena-hard call the ID of a question uid.
    number = name_in(values.get("uid")) or name_in(values.get("question_id"))
    external_id, baseline_is_1 = _pair_of(known, number, baseline, model)
    games = values["games"]
    if not 1 <= len(games) <= 2:
        raise _unexpected("games", "one or two games", listed(list(map(str, games))))
    for game, baseline_first in zip(games, (True, False), strict=False):
        held = game if isinstance(game, dict) else {}
        reply = held.get("judgment")
        first_is_1 = baseline_first == baseline_is_1
        verdict = _verdict("score", held.get("score"))
        yield judgment_of(
            external_id,
            first_is_1=first_is_1,
            outcome=None if verdict is None else _as_1(verdict, first_is_1),
            model=values["judge"],
            reply=reply.get("answer") if isinstance(reply, dict) else reply,
            **({} if held else {"status": "error"}),
        )


def _judgebench_pairs(values: Values, known: Container[str]) -> Rows:
    sides = [(values["response_A"], ""), (values["response_B"], "")]
    label = values.get("label")
    if label is not None and label not in _ARENA_HARD:
        raise _unexpected("label", "A>B, A=B or B>A", label)
    gold = _verdict("label", label)
    category = name_in(values.get("source"))
    question = values["question"]
    yield as_pair(name_in(values["pair_id"]), question, sides, category=category, gold_label=gold)


def _judgebench_judgments(values: Values, known: Container[str]) -> Rows:
    """Read one decision, or two, the second with the responses swapped."""
    judgments = values.get("judgments")
    if not isinstance(judgments, list) or not 1 <= len(judgments) <= 2:
        raise Unreadable("judgments", "The row holds no judgments.")
    for judgment, first_is_1 in zip(judgments, (True, False), strict=False):
        held = judgment if isinstance(judgment, dict) else {}
        about = held.get("judgment")
        about = about if isinstance(about, dict) else {}
        verdict = _verdict("decision", held.get("decision"))
        yield judgment_of(
            name_in(values["pair_id"]),
            first_is_1=first_is_1,
            outcome=None if verdict is None else _as_1(verdict, first_is_1),
            model=about.get("judge_model"),
            reply=about.get("response"),
            **({} if held else {"status": "error"}),
        )


def _preference_pairs(values: Values, known: Container[str]) -> Rows:
    """Read a chosen and a rejected response, or each pair of one if there are lists of texts."""
    chosen, rejected = values["chosen"], values["rejected"]
    number = next(filter(None, (name_in(values.get(n)) for n in _PREFERENCE_IDS)), "")
    if not all(map(_is_texts, (chosen, rejected))):
        yield _preference(number, values)
        return
    if len(chosen) * len(rejected) > _MOST_PREFERENCES:
        sentence = f"This row makes more than {_MOST_PREFERENCES:,} pairs. Part it."
        raise Unreadable("rejected", sentence)
    for n, (good, bad) in enumerate(itertools.product(chosen, rejected), start=1):
        # Which model wrote which of them isn't said.
        yield _preference(number and f"{number}:{n}", values | {"chosen": good, "rejected": bad})


_PREFERENCE_IDS = ("external_id", "prompt_id", "id")
_MOST_PREFERENCES = 1_000


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(text, str) for text in value)


def _preference(number: str, values: Values) -> dict[str, Any]:
    """Return a pair of a chosen and a rejected response. Which is response 1 is drawn by the texts.

    If response 1 were always the chosen one, a judge that prefers the first would look good.
    """
    prompt, *texts = _preferred(values["prompt"], values["chosen"], values["rejected"])
    models = (values.get(f"{name}_model") for name in ("chosen", "rejected"))
    sides = list(zip(texts, models, strict=True))
    scores = values.get("score_chosen"), values.get("score_rejected")
    tie = None not in scores and scores[0] == scores[1]
    # The texts are sorted, so that the draw knows nothing of which one was chosen.
    in_order = sorted(text_form(text, "response_1") for text in texts)
    drawn = content_id([text_form(prompt, "question"), *in_order])
    chosen_is_1 = int(drawn, 16) % 2 == 0
    return as_pair(
        number,
        prompt,
        sides if chosen_is_1 else sides[::-1],
        category=name_in(values.get("subset")),
        gold_label="tie" if tie else _as_1("win", chosen_is_1),
        reference=values.get("reference"),
    )


def _preferred(prompt: Any, chosen: Any, rejected: Any) -> tuple[Any, Any, Any]:
    """Return the question and both responses. Lists may hold the question's messages as well."""
    sides = chosen, rejected
    if isinstance(prompt, list) or not all(isinstance(side, list) for side in sides):
        responses = (unlisted(side, "response_1") for side in sides)
        return unlisted(prompt, "question"), *responses
    question, *responses = _parted(*sides, ("chosen", "rejected"))
    if not isinstance(question, list):
        # With one question and its answers, the prompt is the question, whatever comes before it.
        return prompt, *responses
    if prompt not in [turn.text for turn in conversations.turns(question)]:
        raise Unreadable("prompt", "The prompt is no message that both conversations begin with.")
    return question, *responses


def text_form(value: Any, field: str) -> str:
    """Return the text form of messages. Lists that can't be used are refused later."""
    if isinstance(value, list):
        try:
            return conversations.text_of(conversations.checked(value, field), field)
        except Unusable:
            pass
    return str(value)


def _helpsteer_pairs(values: Values, known: Container[str]) -> Rows:
    """Read HelpSteer2's preferences: below 0 response 1 is better, above 0 response 2.

    Its annotators have no names, so that what they agreed on is the gold label.
    """
    gold = _strength("preference_strength", values["preference_strength"])
    sides = [(values["response_1"], ""), (values["response_2"], "")]
    yield as_pair("", _marked_turns(values["prompt"]), sides, gold_label=gold)


def _helpsteer3_pairs(values: Values, known: Container[str]) -> Rows:
    """Read HelpSteer3's preferences, whose question is a list of messages."""
    gold = _strength("overall_preference", values["overall_preference"])
    sides = [(values["response1"], ""), (values["response2"], "")]
    question, category = unlisted(values["context"], "question"), name_in(values.get("domain"))
    yield as_pair("", question, sides, category=category, gold_label=gold)


def _strength(column: str, value: Any) -> str | None:
    strength = number_in(column, value, "a number from -3 to 3")
    # -100 says that neither response is valid.
    if strength == -100:
        return None
    if abs(strength) > 3:
        raise _unexpected(column, "a number from -3 to 3", value)
    return "tie" if strength == 0 else "win" if strength < 0 else "lose"


_MARKED_TURN = re.compile(r"\n?<extra_id_1>(User|Assistant)\n")


def _marked_turns(prompt: Any) -> Any:
    """Return HelpSteer2's prompt of several turns as messages. Its first turn has no mark."""
    if not isinstance(prompt, str) or "<extra_id_1>" not in prompt:
        return prompt
    first, *rest = _MARKED_TURN.split(prompt)
    messages: Messages = [{"role": "user", "content": first}]
    for role, content in zip(rest[::2], rest[1::2], strict=True):
        messages.append({"role": role.lower(), "content": content})
    # A prompt ends with the mark of the turn that the responses fill.
    if messages[-1] == {"role": "assistant", "content": ""}:
        messages.pop()
    # A question begins and ends with a user's turn.
    by_turns = all(m["role"] == ("user", "assistant")[n % 2] for n, m in enumerate(messages))
    if (
        not by_turns
        or len(messages) % 2 == 0
        or any("<extra_id_" in m["content"] for m in messages)
    ):
        raise Unreadable("prompt", "The marks <extra_id_1> of the prompt name no turns in order.")
    return messages


def _fields_of(task: Values, about: Values, fallback_id: Any) -> dict[str, Any]:
    """Return the pair of an annotation tool's task, turned back if response 2 stood left."""
    columns = recognise(task)
    if columns.missing:
        sentence = f"No field for {listed(columns.missing)}. Found: {listed(task)}."
        raise Unreadable(columns.missing[0], sentence)
    held = {**about, **task}
    sources = {field: names[0] for field, names in columns.sources.items()}
    pair = {field: task[name] for field, name in sources.items() if field != "gold_label"}
    pair |= {name: held[name] for name in ("model_1", "model_2", "category") if name in held}
    pair["external_id"] = held.get("external_id") or fallback_id
    if _left(held) == 2:
        pair["response_1"], pair["response_2"] = pair["response_2"], pair["response_1"]
    return pair


def _left(about: Values) -> int:
    """Return which response a task shows on the left: 1, unless it says 2."""
    response = canonical(str(about.get("left_response") or "1"))
    if response not in ("1", "2"):
        raise _unexpected("left_response", "1 or 2", response)
    return int(response)


def _label_studio_pairs(values: Values, known: Container[str]) -> Rows:
    yield _fields_of(values["data"], {}, str(values["id"]))


def _label_studio_votes(values: Values, known: Container[str]) -> Rows:
    """Read the answer of each annotation: of a Pairwise tag, or of Choices that have a tie."""
    data = values["data"]
    left = _left(data)
    for annotation in values["annotations"]:
        if not isinstance(annotation, dict):
            raise _unexpected("annotations", "a list of annotations", annotation)
        # The person skipped the task.
        if annotation.get("was_cancelled") is True:
            continue
        label = _label_studio_label(annotation.get("result"))
        person = annotation.get("completed_by")
        if isinstance(person, dict):
            person = person.get("email") or person.get("id")
        yield {
            "external_id": data.get("external_id") or str(values["id"]),
            "annotator": None if person is None else str(person),
            "label": _as_1(label, left == 1),
            "left_response": str(left),
            "active_seconds": annotation.get("lead_time"),
            "submitted_at": annotation.get("created_at"),
        }


def _label_studio_label(result: Any) -> str:
    """Return the label of the left response."""
    answers = {"left": "win", "right": "lose", "tie": "tie"}
    for part in result if isinstance(result, list) else []:
        value = part.get("value") if isinstance(part, dict) else None
        if not isinstance(value, dict):
            continue
        answer = value.get("selected")
        if part.get("type") == "choices" and value.get("choices"):
            answer = value["choices"][0]
        if isinstance(answer, str) and plain(answer) in answers:
            return answers[plain(answer)]
    raise Unreadable("result", "An annotation has no answer: left, right, or a choice tie.")


# What exports as JSON-MIN, CSV or TSV say of an annotation, apart from its data and answers.
_LABEL_STUDIO_OWN = ("id", "annotation_id", "annotator", "created_at", "updated_at", "lead_time")


def _label_studio_task(values: Values) -> Values:
    """Return an annotation's row as a task. A Pairwise tag answers `[{"selected": "left"}]`."""
    data = {name: value for name, value in values.items() if name not in _LABEL_STUDIO_OWN}
    texts = {name for field in REQUIRED for name in recognise(data).sources.get(field, ())}
    result = []
    for value in (value for name, value in data.items() if name not in texts):
        is_cell = isinstance(value, str) and value.startswith('[{"selected"')
        decoded = json.loads(value) if is_cell else value
        answers = decoded if isinstance(decoded, list) else [{"selected": decoded}]
        result += [{"value": answer} for answer in answers]
    about = {name: values[name] for name in ("created_at", "lead_time")} | {"result": result}
    about["completed_by"] = name_in(values["annotator"]) or None
    return {"id": values["id"], "data": data, "annotations": [about]}


def _argilla_pairs(values: Values, known: Container[str]) -> Rows:
    about = values.get("metadata")
    yield _fields_of(values["fields"], about if isinstance(about, dict) else {}, values["id"])


_ARGILLA_ANSWERS = ".responses"


def _argilla_flat_pairs(values: Values, known: Container[str]) -> Rows:
    yield _fields_of(_unflattened(values)["fields"], {}, values["id"])


def _argilla_flat_votes(values: Values, known: Container[str]) -> Rows:
    yield from _argilla_votes(_unflattened(values), known)


def _unflattened(values: Values) -> dict[str, Any]:
    """Return a record of `to_datasets` or `to_list(flatten=True)` as `to_list` writes it.

    Drafts and discarded answers are no answers of anybody.
    """
    responses = {}
    for column, answers in values.items():
        if column.endswith(_ARGILLA_ANSWERS) and answers:
            more = [values.get(f"{column}.{name}") for name in ("users", "status")]
            people, states = (cells or [None] * len(answers) for cells in more)
            responses[column.removesuffix(_ARGILLA_ANSWERS)] = [
                {"value": answer, "user_id": person}
                for answer, person, state in zip(answers, people, states, strict=True)
                if state in (None, "submitted")
            ]
    fields = {name: value for name, value in values.items() if name not in _ARGILLA_OWN}
    fields = {name: value for name, value in fields.items() if _ARGILLA_ANSWERS not in name}
    return {"id": values["id"], "fields": fields, "responses": responses}


_ARGILLA_OWN = ("id", "status", "_server_id")


def _argilla_votes(values: Values, known: Container[str]) -> Rows:
    """Read each person's answer to the question of preference: a label, or a ranking."""
    about = values.get("metadata")
    held = {**(about if isinstance(about, dict) else {}), **values["fields"]}
    left = _left(held)
    asked = {name: responses for name, responses in values["responses"].items() if responses}
    if not asked:
        return
    named = [name for name in asked if plain(name) in ("preference", "label", "winner", "overall")]
    names = list(asked) if len(asked) == 1 else named
    if len(names) != 1:
        raise Unreadable(
            "responses",
            f"The record answers the questions {listed(asked)}. Call the one that compares the "
            "responses preference.",
        )
    for response in asked[names[0]]:
        answer = response.get("value") if isinstance(response, dict) else None
        answer = answer[0] if isinstance(answer, list) and answer else answer
        if not isinstance(answer, str):
            raise _unexpected("value", "the answer as text", answer)
        label, raw_answer = _answer(answer, left)
        yield {
            "external_id": held.get("external_id") or values["id"],
            "annotator": response.get("user_id"),
            "label": label,
            "raw_answer": raw_answer,
            "left_response": str(left),
        }


def _answer(answer: str, left: int) -> tuple[str, str | None]:
    """Return an answer about the shown responses as one about response 1, and what was meant.

    A model's name means the same in both orders.
    """
    label = {"left": "win", "right": "lose"}.get(plain(answer)) or read_label(answer, {})
    raw_answer = "both_bad" if "bothbad" in plain(answer) else None
    return (answer if label is None else _as_1(label, left == 1)), raw_answer


def layout_for(
    tool: str,
    keys: str,
    *,
    nested: str = "",
    without: str = "",
    some: Sequence[str] = (),
    **reads: Read,
) -> Layout:
    """Return a layout, whose names are parted by blanks."""
    return Layout(
        tool,
        frozenset(keys.split()),
        {Holds(name): read for name, read in reads.items()},
        frozenset(nested.split()),
        frozenset(without.split()),
        tuple(map(re.compile, some)),
    )


# A row is read by the first of these that it fits.
OF_PAIRS = (
    layout_for(
        "FastChat",
        "question_id model_1 model_2 g1_winner g2_winner judge",
        judgments=_fastchat_judgments,
    ),
    layout_for(
        "Chatbot Arena or MT-bench",
        "question_id model_a model_b winner conversation_a conversation_b",
        nested="conversation_a conversation_b",
        pairs=_conversation_pairs,
        votes=_conversation_votes,
    ),
    layout_for(
        "Chatbot Arena",
        "id model_a model_b winner conversation_a conversation_b evaluation_order",
        nested="conversation_a conversation_b",
        pairs=_conversation_pairs,
        votes=_conversation_votes,
    ),
    layout_for(
        "Chatbot Arena",
        "id model_a model_b prompt response_a response_b winner_model_a winner_model_b winner_tie",
        pairs=_battle_pairs,
        votes=_battle_votes,
    ),
    layout_for(
        "alpaca_eval",
        "instruction output_1 output_2 preference annotator",
        pairs=_alpaca_pairs,
        judgments=_alpaca_judgments,
    ),
    layout_for("arena-hard", "model judge games", nested="games", judgments=_arena_hard_judgments),
    layout_for(
        "JudgeBench",
        "pair_id source question response_model response_A response_B",
        pairs=_judgebench_pairs,
        judgments=_judgebench_judgments,
    ),
    layout_for(
        "chosen and rejected responses",
        "prompt chosen rejected",
        without="response_1 response_2",
        pairs=_preference_pairs,
    ),
    layout_for(
        "HelpSteer2", "prompt response_1 response_2 preference_strength", pairs=_helpsteer_pairs
    ),
    layout_for(
        "HelpSteer3",
        "context response1 response2 overall_preference",
        nested="context",
        pairs=_helpsteer3_pairs,
    ),
    layout_for(
        "Label Studio",
        "id data annotations",
        nested="data annotations",
        pairs=_label_studio_pairs,
        votes=_label_studio_votes,
    ),
    layout_for(
        "Label Studio",
        "id annotation_id annotator created_at lead_time",
        without="label",
        pairs=lambda values, known: _label_studio_pairs(_label_studio_task(values), known),
        votes=lambda values, known: _label_studio_votes(_label_studio_task(values), known),
    ),
    layout_for(
        "Argilla",
        "id fields responses",
        nested="fields responses",
        pairs=_argilla_pairs,
        votes=_argilla_votes,
    ),
    layout_for(
        "Argilla",
        "id status _server_id",
        some=(r".+\.responses",),
        pairs=_argilla_flat_pairs,
        votes=_argilla_flat_votes,
    ),
)


def question_of(values: Values) -> tuple[str, Any]:
    """Return the number and the text of a question: FairEval's, FastChat's or arena-hard's.

    Of a question with several turns it is the first one; `later_turns` gives the others.
    """
    number = str(values.get("question_id") or values.get("uid") or "")
    turns = values.get("turns")
    if isinstance(turns, list) and turns:
        return number, turns[0].get("content") if isinstance(turns[0], dict) else turns[0]
    return number, values.get("text", values.get("prompt"))


def later_turns(
    values: Values, answers: Sequence[Sequence[Any]]
) -> Iterator[tuple[int, Any, list[Any]]]:
    """Yield each turn of FastChat's questions after the first one, with the question's text.

    A response begins with the model's first answer and ends with the one of that turn.

    Args:
        answers: what each of the two models answered, turn by turn.
    """
    asked = values.get("turns")
    if not isinstance(asked, list) or not all(isinstance(text, str) for text in asked):
        return
    for turn in range(2, min(len(asked), *map(len, answers)) + 1):
        responses: list[Any] = []
        for texts in answers:
            messages = [{"role": "assistant", "content": texts[0]}]
            for question, text in zip(asked[1:turn], texts[1:turn], strict=True):
                messages.append({"role": "user", "content": question})
                messages.append({"role": "assistant", "content": text})
            responses.append(messages)
        yield turn, asked[0], responses


def answers_by_turn(values: Values) -> list[Any]:
    """Return a model's answers in FastChat's first choice, one a turn."""
    choices = values.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    turns = first.get("turns") if isinstance(first, dict) else None
    return turns if isinstance(turns, list) else []


def answer_of(values: Values) -> tuple[str, Any, str]:
    """Return the question's number, the text of its first answer, and the model's name or ""."""
    number = str(values.get("question_id") or values.get("uid") or "")
    choices, messages = values.get("choices"), values.get("messages")
    text = values.get("text")
    model = name_in(values.get("model_id")) or name_in(values.get("model"))
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        text = next(iter(answers_by_turn(values)), None)
    elif isinstance(messages, list) and messages and isinstance(messages[-1], dict):
        text = messages[-1]
    else:
        model = ""
    # arena-hard's message has an object as its content, which holds the answer.
    while isinstance(text, dict):
        text = text.get("content", text.get("answer"))
    return number, text, model


def is_answers(values: Values) -> bool:
    """Return True for a row of a model's answers, as FastChat and arena-hard write them."""
    return bool(answer_of(values)[2])
