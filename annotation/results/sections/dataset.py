"""What the examples are: questions, labels and lengths, as papers describe their data.

CalibraEval's Table 4, PORTIA's Table 4 and Figure 6."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from django.db.models.functions import MD5

from annotation.results.data.figures import Data, Plot, plot, tooltip, x_axis
from annotation.results.merge.final_labels import CHUNK
from annotation.results.sections.analysis import Analysis
from judging.dataset.models import frame_of
from judging.methods.arrays import Codes
from judging.methods.intervals.bootstrap import coded
from judging.methods.intervals.estimates import Undefined

# Words of a question in one bar of Figure 6b; the last bar has no upper end.
STEP, MOST_BARS = 10, 9
_SIGNS = {"win": 1, "tie": 0, "lose": -1}


def read_dataset(of: Analysis) -> Data:
    """question, responses: (N,) and (N, 2) codes of equal texts; characters, words: their sizes."""
    columns = ("question", MD5("question"), "response_1", MD5("response_1"), "response_2")
    rows = frame_of(of.project).values_list("pk", *columns, MD5("response_2"))
    place = {pk: row for row, pk in enumerate(of.sheet.ids.tolist())}
    n = len(place)
    words, characters = np.zeros(n, np.int64), np.zeros((n, 2), np.int64)
    question, responses = np.zeros(n, "U32"), np.zeros((n, 2), "U32")
    for pk, asked, asked_md5, one, one_md5, two, two_md5 in rows.iterator(chunk_size=CHUNK):
        if (row := place.get(pk)) is not None:
            question[row], responses[row] = asked_md5, (one_md5, two_md5)
            words[row], characters[row] = len(asked.split()), (len(one), len(two))
    codes = coded(responses.reshape(-1))[1].reshape(n, 2) if n else np.zeros((0, 2), np.intp)
    return Data(
        {
            "question": coded(question)[1] if n else np.zeros(0, np.intp),
            "responses": codes,
            "characters": characters,
            "words": words,
        }
    )


@dataclass(frozen=True)
class CategorySize:
    category: str
    examples: int
    questions: int


@dataclass(frozen=True)
class ResponseLengths:
    """Characters of a model's different responses (PORTIA, Table 4). sd: of these responses, so
    divided by their number."""

    model: str
    responses: int
    longest: int
    shortest: int
    mean: float
    sd: float


@dataclass(frozen=True)
class WordsBar:
    """Questions with low <= words < high (Figure 6b)."""

    low: int
    high: int | None
    questions: int


@dataclass(frozen=True)
class Dataset:
    """Different texts are counted once. labels: examples by their known label.

    by_category: the largest first. question_words_mean, question_words_median: None without one."""

    examples: int
    questions: int
    responses_1: int
    responses_2: int
    labels: dict[str, int] | Undefined
    by_category: Sequence[CategorySize]
    by_model: Sequence[ResponseLengths]
    question_words_mean: float | None
    question_words_median: float | None
    question_words: Sequence[WordsBar]


def dataset(of: Analysis) -> Dataset:
    data, sheet = of.own("dataset", read_dataset), of.sheet
    assert isinstance(data, Data)
    question, responses = data.arrays["question"], data.arrays["responses"]
    words = data.arrays["words"][np.unique(question, return_index=True)[1]]
    known = sheet.known
    labels: dict[str, int] | Undefined = known if isinstance(known, Undefined) else {}
    if not isinstance(known, Undefined):
        said = sheet.human[known.rows]
        labels = {name: int((said == sign).sum()) for name, sign in _SIGNS.items()}
    return Dataset(
        examples=len(sheet),
        questions=len(words),
        responses_1=len(np.unique(responses[:, 0])),
        responses_2=len(np.unique(responses[:, 1])),
        labels=labels,
        by_category=_by_category(sheet.category.tolist(), question),
        by_model=_by_model(of, responses, data.arrays["characters"]),
        question_words_mean=float(words.mean()) if len(words) else None,
        question_words_median=float(np.median(words)) if len(words) else None,
        question_words=_bars(words),
    )


def _by_category(categories: list[str], question: Codes) -> list[CategorySize]:
    inside: dict[str, list[int]] = {}
    for category, code in zip(categories, question.tolist(), strict=True):
        inside.setdefault(category, []).append(code)
    found = [CategorySize(name, len(codes), len(set(codes))) for name, codes in inside.items()]
    return sorted(found, key=lambda one: (-one.examples, one.category))


def _by_model(of: Analysis, responses: Codes, characters: Codes) -> list[ResponseLengths]:
    models = np.concatenate((of.sheet.model_1, of.sheet.model_2))
    codes, sizes = responses.T.reshape(-1), characters.T.reshape(-1)
    rows = []
    for place, name in enumerate(of.sheet.models):
        own = models == place
        size = sizes[own][np.unique(codes[own], return_index=True)[1]]
        if len(size):
            ends = int(size.max()), int(size.min())
            rows.append(
                ResponseLengths(name, len(size), *ends, float(size.mean()), float(size.std()))
            )
    return sorted(rows, key=lambda one: one.model)


def _bars(words: Codes) -> list[WordsBar]:
    place = np.minimum(words // STEP, MOST_BARS - 1)
    heights = np.bincount(place).tolist() if len(place) else []
    last = MOST_BARS - 1
    return [
        WordsBar(STEP * i, None if i == last else STEP * (i + 1), n) for i, n in enumerate(heights)
    ]


def categories_plot(found: Dataset) -> Plot:
    rows = [
        {"category": one.category or "(none)", "questions": one.questions}
        for one in found.by_category
    ]
    y = {"field": "category", "type": "nominal", "sort": None, "title": None}
    y["axis"] = {"labelLimit": 220}
    bars = {
        "mark": "bar",
        "encoding": {
            "y": y,
            "x": x_axis("questions", "questions") | {"axis": {"tickMinStep": 1, "format": "d"}},
            "tooltip": tooltip("category", "questions"),
        },
    }
    several = rows if len(rows) > 1 else []
    caption = "Different questions in each category."
    return plot("questions-category", "Questions by category", caption, several, bars)


def words_plot(found: Dataset) -> Plot:
    filled = [bar for bar in found.question_words if bar.questions]
    rows = [
        {
            "words": f"{bar.low}–{bar.high - 1}" if bar.high else f"{bar.low} or more",
            "questions": bar.questions,
        }
        for bar in (found.question_words if len(filled) > 1 else ())
    ]
    bars = {
        "mark": "bar",
        "encoding": {
            "x": {"field": "words", "type": "ordinal", "sort": None, "title": "words"},
            "y": x_axis("questions", "questions") | {"axis": {"tickMinStep": 1}},
            "tooltip": tooltip("words", "questions"),
        },
    }
    caption = "Each question is counted once."
    return plot("question-words", "Words of the questions", caption, rows, bars)
