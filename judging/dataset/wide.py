"""Wide rows: one question with the responses of several models, which become pairs by a design.

A row is wide if it has columns response_1 to response_3 or more, a list of responses with their
models, or columns that were mapped as the responses of the model that the column is called by. A
pair is called by its question and models, `12:birch-3b:maple-7b`, and which response is the first
is drawn by these names. So a pair is the same one whatever the design and its seed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import comb
from typing import Any, Self

from judging.core.bounds import is_deep
from judging.core.conversations import dumped
from judging.core.errors import UserError
from judging.core.formatting import number_of
from judging.core.text import LONGEST_NAME, is_name
from judging.dataset.records import (
    Cells,
    Record,
    Refused,
    content_id,
    listed,
    plain,
    quoted,
    recognise,
)
from judging.methods.designs import (
    MOST_BLOCK,
    MOST_BLOCKS,
    Balance,
    Pair,
    against_baseline,
    all_pairs,
    block_pairs,
    draw,
    random_opponents,
)

# What a column is mapped to that holds the responses of one model.
RESPONSE = "response"
LARGEST_SEED = 2**31 - 1
MOST_RESPONSES = 200
SIZES = {"random": (1, MOST_RESPONSES), "blocks": (2, MOST_BLOCK)}
_NUMBERED = re.compile(r"(response|answer|output|completion|model)([a-z]|\d{1,3})")
# A row that has none of these names, and no mapped column, is not wide.
SIGNS = re.compile(
    r"(response|answer|output|completion)([c-z]|[3-9]|\d\d+)"
    r"|responses|answers|outputs|completions|generations"
)
_LISTS = ("responses", "answers", "outputs", "completions", "generations")
_MODEL_KEYS = ("model", "modelname", "modelid", "generator", "name")
_TEXT_KEYS = ("response", "output", "answer", "completion", "generation", "text", "content")
HOW = (
    "Choose a design: all, baseline=MODEL, random=2 (opponents of each model) or blocks=2 "
    "(responses compared per question)."
)


@dataclass(frozen=True)
class PairDesign:
    """How the responses to a question become pairs.

    kind: all, baseline, random or blocks; the other fields are for those that need them.
    stages: of blocks, the models it began with and those added later, as `block_pairs` takes them.
    """

    kind: str = "all"
    seed: int = 0
    baseline: str = ""
    size: int = 0
    stages: tuple[tuple[str, ...], ...] = ()

    @classmethod
    def read(cls, text: str, seed: int = 0) -> Self:
        """Read `all`, `baseline=MODEL`, `random=2` or `blocks=3`. Raises UserError."""
        kind, _, value = (part.strip() for part in text.partition("="))
        if not 0 <= seed <= LARGEST_SEED:
            raise UserError(f"A seed is a number from 0 to {LARGEST_SEED}. Nothing was imported.")
        if kind == "baseline" and is_name(value):
            return cls(kind, baseline=value)
        if kind == "all" and not value:
            return cls(kind)
        low, high = SIZES.get(kind, (1, 0))
        # Python refuses to convert thousands of digits, and no size has as many as nine.
        if value.isascii() and value.isdecimal() and len(value) < 9 and low <= int(value) <= high:
            return cls(kind, seed, size=int(value))
        advice = f"{kind}=NUMBER needs a number from {low} to {high}." if high else HOW
        raise UserError(f"There is no design {quoted(text)}. {advice} Nothing was imported.")

    @classmethod
    def stored_in(cls, options: Mapping[str, Any]) -> Self | None:
        """Return the design that an import's options hold."""
        kept = options.get("design")
        if not kept:
            return None
        return cls(**kept | {"stages": tuple(map(tuple, kept["stages"]))})

    def as_options(self) -> dict[str, Any]:
        return {"design": asdict(self) | {"stages": list(map(list, self.stages))}}

    @property
    def key(self) -> tuple[Any, ...]:
        """What makes two designs the same, whatever the models."""
        return self.kind, self.seed, self.baseline, self.size

    @property
    def needs_stages(self) -> bool:
        return self.kind == "blocks" and not self.stages

    def staged(self, models: Collection[str], earlier: Self | None) -> Self:
        """Return the design with these models, added to those of an earlier import."""
        before = earlier.stages if earlier else ()
        # In the order of their names, so that blocks don't depend on the order of the file.
        new = tuple(sorted(set(models) - {model for stage in before for model in stage}))
        stages = (*before, new) if new else before
        if stages and comb(len(stages[0]), self.size) > MOST_BLOCKS:
            raise UserError(
                f"There are too many blocks of {self.size} of {len(stages[0])} models. Choose "
                "smaller blocks, or random opponents. Nothing was imported."
            )
        return replace(self, stages=stages)

    @property
    def spelled(self) -> str:
        """The design as `--design` takes it."""
        value = self.baseline or self.size
        return f"{self.kind}={value}" if value else self.kind

    @property
    def words(self) -> str:
        """The design in words."""
        return {
            "all": "all pairs of the responses to a question",
            "baseline": f"each response against the one of {self.baseline}",
            "random": f"at least {number_of(self.size, 'random opponent')} for each response "
            f"(seed {self.seed})",
            "blocks": f"balanced blocks of {self.size} responses per question (seed {self.seed})",
        }[self.kind]

    def pairs(self, models: Sequence[str], question: str, number: int) -> list[Pair]:
        """Return the pairs of a question, of whose models none is missing that the design needs."""
        if self.kind == "baseline":
            return against_baseline(models, self.baseline)
        if self.kind == "random":
            return random_opponents(models, self.size, self.seed, question)
        if self.kind == "blocks":
            return block_pairs(self.stages, self.size, self.seed, number)
        return all_pairs(models)

    def lacks(self, models: Collection[str]) -> str:
        """Say which response the design needs and the question doesn't have; "" if it has all."""
        needed = [model for stage in self.stages for model in stage]
        needed = [self.baseline] if self.kind == "baseline" else needed
        missing = [model for model in needed if model not in models]
        if not missing:
            return ""
        why = "each response is compared with it" if self.kind == "baseline" else "a block needs it"
        return f"The question has no response of {listed(missing)}, and {why}."


class Wide:
    """Makes pairs of wide rows, and says afterwards what they were.

    Args:
        design: by default all pairs, until somebody chooses.
        columns: those that were mapped as the responses of a model.
    """

    def __init__(self, design: PairDesign | None, columns: Collection[str] = ()) -> None:
        self.design = design
        self.questions = self.responses = 0
        self.models: dict[str, None] = {}
        self.balance = Balance()
        self._used = design or PairDesign()
        self._columns = columns
        self._shapes: dict[tuple[str, ...], _Shape | None] = {}
        self._names: dict[str, None] = {}
        self._taken: set[str] = set()

    def pairs_of(
        self, record: Record, mapping: Mapping[str, str]
    ) -> Iterator[Record | Refused] | None:
        """Return the pairs of a wide row; None for any other row."""
        names = tuple(record.values)
        if names not in self._shapes:
            # JSON objects may each have other names. What is remembered of them stays bounded.
            if len(self._shapes) > MOST_RESPONSES:
                self._shapes.clear()
            self._shapes[names] = _shape_of(names, self._columns)
        shape = self._shapes[names]
        if shape is None or (shape.in_list and not _is_list(record.values[shape.in_list])):
            return None
        return self._pairs(record, shape, mapping)

    def _pairs(
        self, record: Record, shape: _Shape, mapping: Mapping[str, str]
    ) -> Iterator[Record | Refused]:
        number, self.questions = self.questions, self.questions + 1
        # The preview lists the columns, and the first questions are enough for that.
        if number < MOST_RESPONSES:
            self._names |= dict.fromkeys(filter(None, record.values))
            self._taken |= shape.taken - set(self._columns)
        texts, problem = shape.responses(record.values)
        if not problem and len(texts) > MOST_RESPONSES:
            problem = f"The question has {len(texts)} responses; at most {MOST_RESPONSES} are read."
        if not problem and len(texts) < 2:
            problem = "The question has fewer than two responses."
        if problem := problem or self._used.lacks(texts):
            yield record.refuse("", problem)
            return
        self.responses += len(texts)
        self.models |= dict.fromkeys(texts)
        rest = {name: value for name, value in record.values.items() if name not in shape.taken}
        columns = recognise([*rest, "response_1", "response_2"], mapping)
        cells = Cells(record, columns.cells)
        named = [name for name in columns.cells if name.startswith("question ")]
        asked = [record.values.get(columns.cells[name]) for name in named]
        # What is wrong with these is said once the pair is read. A question may be messages.
        question = cells.name("external_id") or content_id(
            raw if isinstance(raw, str) else "" if is_deep(raw) else dumped(raw) for raw in asked
        )
        drawn = self._used.pairs(list(texts), question, number)
        self.balance.add(drawn)
        # A label of several responses is none of two.
        rest |= {columns.cells[field]: None for field in _OF_ALL if field in columns.cells}
        for a, b in drawn:
            first, second = (a, b) if draw(question, a, b) % 2 else (b, a)
            name = f"{question}:{first}:{second}"
            values = rest | {
                columns.cells.get("external_id", "external_id"): (
                    # The names of two models may make it longer than an ID can be.
                    name if len(name) <= LONGEST_NAME else content_id([question, first, second])
                ),
                "response_1": texts[first],
                "response_2": texts[second],
                "model_1": first,
                "model_2": second,
            }
            yield Record(record.place, values, record.text, record.header_line)

    def facts(self, earlier: Iterable[tuple[str, str]] = ()) -> dict[str, Any]:
        """Return what the preview of an import says about wide rows; empty if there was none.

        Args:
            earlier: the models of the project's pairs, which may connect those of the file.
        """
        if not self.questions:
            return {}
        times = self.balance.of_model.values()
        return {
            "questions": self.questions,
            "responses": self.responses,
            "models": list(self.models)[:MOST_RESPONSES],
            "n_models": len(self.models),
            "design": self.design.spelled if self.design else "",
            "words": self._used.words,
            "seed": self._used.seed,
            "pairs": self.balance.of_pair.total(),
            "fewest": min(times, default=0),
            "most": max(times, default=0),
            "groups": len(self.balance.groups(self.models, earlier)),
            "names": [name for name in self._names if name not in self._taken],
            "mapped": sorted(self._columns),
        }


_OF_ALL = ("gold_label", "is_check", "check_for")


@dataclass(frozen=True)
class _Shape:
    """Which columns of a wide row hold its responses.

    pairs: the columns of each response and of its model, "" if the response's column names it.
    """

    pairs: tuple[tuple[str, str], ...] = ()
    in_list: str = ""

    @property
    def taken(self) -> set[str]:
        return {self.in_list, *(name for pair in self.pairs for name in pair)}

    def responses(self, values: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
        """Return the responses by their models, or a sentence that says what is wrong."""
        by_model: dict[str, Any] = {}
        for number, (model, text) in enumerate(self._of(values), start=1):
            if text is None or text == "":
                continue
            if not isinstance(model, str) or not is_name(model):
                return {}, f"Response {number} has no model, or its name is no short line of text."
            if model.strip() in by_model:
                return {}, f"The question has two responses of {quoted(model.strip())}."
            by_model[model.strip()] = text
        return by_model, ""

    def _of(self, values: Mapping[str, Any]) -> Iterator[tuple[Any, Any]]:
        if not self.in_list:
            for text, model in self.pairs:
                yield values[model] if model else text, values[text]
            return
        for entry in values[self.in_list]:
            named = {plain(name): value for name, value in entry.items()}
            yield _first(named, _MODEL_KEYS), _first(named, _TEXT_KEYS)


def _first(named: Mapping[str, Any], keys: Iterable[str]) -> Any:
    return next((named[key] for key in keys if key in named), None)


def _is_list(value: Any) -> bool:
    """Return True for a list of objects, the first of which has a model and a text."""
    if not isinstance(value, list) or not value or not all(isinstance(row, dict) for row in value):
        return False
    names = set(map(plain, value[0]))
    return bool(names & set(_MODEL_KEYS)) and bool(names & set(_TEXT_KEYS))


def _shape_of(names: Sequence[str], mapped: Collection[str]) -> _Shape | None:
    """Return where rows with these columns have their responses; None if they aren't wide."""
    if columns := [name for name in names if name in mapped]:
        return _Shape(tuple((name, "") for name in columns))
    texts: dict[int, str] = {}
    models: dict[int, str] = {}
    for name in names:
        if match := _NUMBERED.fullmatch(plain(name)):
            # Response A and response 1 are the same one.
            place = int(match[2]) if match[2].isdecimal() else ord(match[2]) - ord("a") + 1
            (models if match[1] == "model" else texts).setdefault(place, name)
    # Two responses in columns are a pair, and no wide row.
    if len(texts) > 2 and {1, 2} <= texts.keys():
        return _Shape(tuple((texts[place], models.get(place, "")) for place in sorted(texts)))
    lists = [name for name in names if plain(name) in _LISTS]
    # A row that has two responses of its own is a pair, whatever else it lists.
    return _Shape(in_list=lists[0]) if len(lists) == 1 and len(texts) < 2 else None
