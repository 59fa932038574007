"""What the sections of the report are made of; the module `report` says how to add one.

At the end what the examples themselves are, as papers describe their data: CalibraEval's Table 4,
PORTIA's Table 4 and Figure 6."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

import numpy as np
from django.db.models import F, Value
from django.db.models.expressions import Combinable
from django.db.models.functions import MD5, Concat, Length, Replace

from annotation.results.data.figures import Data, Plot, plot, tooltip, x_axis
from annotation.results.data.runs import Costs, OtherRun, other_runs, project_costs, totals_of
from annotation.results.data.samples import SampleArrays, samples_array
from annotation.results.data.sheet import Sheet, sheet_of
from annotation.results.merge.final_labels import CHUNK, places_of
from annotation.results.sections.methods import Fewer, fewer_samples, prompt_share_of
from annotation.results.sections.position import Position, position
from annotation.results.sections.review import (
    LabelAgreement,
    Review,
    ReviewGain,
    agreement_after,
    label_agreement,
    review_of,
)
from annotation.results.sections.trust import (
    Audit,
    Replacement,
    Unblinded,
    audit_of,
    audited_accuracy,
    replacement_of,
    unblinded,
)
from annotation.results.sections.win_rates import Preference, length
from judging.dataset.models import Frame, frame_of
from judging.methods.agreement.accuracy import Ties
from judging.methods.arrays import Codes, Floats
from judging.methods.intervals.bootstrap import coded
from judging.methods.intervals.estimates import Figure, Undefined, wilson
from judging.methods.review.auroc import no_better_than_chance
from judging.methods.review.curve import CurveBand
from judging.projects.models import Project
from judging.runs.engine.progress import slot_counts, status_counts
from judging.runs.models import Run

_NAMES = {"win": 1, "tie": 0, "lose": -1}


class Analysis:
    """What is read from the database are the cached properties up to `statuses`, and `own`."""

    def __init__(self, project: Project, run: Run, frame: Frame | None = None) -> None:
        self.project, self.run = project, run
        self.frame = frame or run.frame
        # How the examples were chosen, in words; None for all of the project.
        self.about = self.frame.words if self.frame else None
        self.kept: dict[str, Data | Undefined] = {}

    def own(self, name: str, read: Callable[["Analysis"], Data | Undefined]) -> Data | Undefined:
        """Return what only the section of this name needs. It is read once, and not at all from a
        package."""
        if name not in self.kept:
            self.kept[name] = read(self)
        return self.kept[name]

    @cached_property
    def sheet(self) -> Sheet:
        return sheet_of(self.project, self.run, self.frame.pk if self.frame else None)

    @cached_property
    def samples(self) -> SampleArrays | Undefined:
        return samples_array(self.run, self.sheet.ids)

    @cached_property
    def others(self) -> tuple[OtherRun, ...]:
        return other_runs(self.sheet, self.run)

    @cached_property
    def audit(self) -> Audit | Undefined:
        return audit_of(self.sheet, self.run, self.frame)

    @cached_property
    def unblinded(self) -> Unblinded:
        return unblinded(self.sheet)

    @cached_property
    def replacement(self) -> Replacement:
        return replacement_of(self.project)

    @cached_property
    def prompt_share(self) -> Decimal:
        return prompt_share_of(self.run)

    @cached_property
    def costs(self) -> Costs:
        return project_costs(self.project, self.run, totals_of(self.sheet.asked.values()))

    @cached_property
    def statuses(self) -> dict[str, int]:
        """How many slots ended in each status, such as valid or unparsed."""
        # The arrays hold only the samples that count. If a run asked for other parts too, only the
        # database knows how all of them ended.
        counted = None if isinstance(self.samples, Undefined) else self.samples.statuses
        return status_counts(slot_counts(self.run)) if counted is None else counted

    @cached_property
    def reused(self) -> int:
        """How many samples were copied from other runs of the project, at no cost."""
        return self.run.n_reused

    @cached_property
    def fewer(self) -> tuple[Fewer, ...]:
        return tuple(fewer_samples(self.sheet, self.run, self.samples))

    @property
    def rng(self) -> np.random.Generator:
        # A new generator each time, so that no section's draws depend on the sections before it.
        # NumPy refuses negative seeds.
        return np.random.default_rng(abs(self.run.seed))

    @cached_property
    def coverage(self) -> Figure:
        """Share of all examples that have a label by the judge."""
        n = len(self.sheet)
        return wilson(int(self.sheet.judged.sum()), n) if n else Undefined("no examples")

    @cached_property
    def shares(self) -> dict[str, int]:
        """How many examples the judge labelled win, tie and lose."""
        labels = self.sheet.judge[self.sheet.judged]
        return {name: int((labels == sign).sum()) for name, sign in _NAMES.items()}

    @cached_property
    def final_shares(self) -> dict[str, int]:
        labels = self.sheet.final[self.sheet.has_final]
        return {name: int((labels == sign).sum()) for name, sign in _NAMES.items()}

    def before(self, ties: Ties = Ties.HALF) -> LabelAgreement:
        """Compare the judge's labels with people's, before any review."""
        return label_agreement(
            self.sheet.comparison(self.sheet.judge, self.sheet.judged), self.rng, ties
        )

    def after(self, ties: Ties = Ties.HALF) -> LabelAgreement:
        """Compare the final labels with people's; reviewed ones are right by construction."""
        return agreement_after(self.sheet, self.rng, ties)

    @cached_property
    def reviewed(self) -> int:
        """How many examples (m) people labelled because a round of this run selected them."""
        return int(self.sheet.reviewed.sum())

    @property
    def audited(self) -> int:
        """Examples whose label people gave because an audit drew them."""
        return int(self.sheet.audited_alone.sum())

    @cached_property
    def review(self) -> Review | Undefined:
        return review_of(self.sheet)

    @cached_property
    def band(self) -> CurveBand | Undefined:
        """The band of the curve by rank, computed once for all tables that show it."""
        return self.review if isinstance(self.review, Undefined) else self.review.band(self.rng)

    def lines(self) -> ReviewGain | Undefined:
        """Return the lines (a) to (c) at the review that took place."""
        review, selected = self.review, int(self.sheet.selected.sum())
        known = self.sheet.known
        if isinstance(review, Undefined) or isinstance(known, Undefined):
            return review if isinstance(review, Undefined) else known
        # The lines are about the first m by rank. Until all selected examples are settled, the
        # reviewed ones are others.
        if self.reviewed < selected:
            return Undefined(self.sheet.unsettled)
        return review.chosen(self.sheet.selected[known.rows]).lines(self.reviewed)

    @cached_property
    def unchecked(self) -> Figure:
        """How often the judge is right on what was not reviewed by rank: line (a), or the audit."""
        lines, known = self.lines(), self.sheet.known
        if not isinstance(lines, Undefined):
            return lines.unreviewed
        if not isinstance(known, Undefined) and not self.sheet.selected.any():
            return self.before().accuracy_over_all
        return (
            self.audit
            if isinstance(self.audit, Undefined)
            else audited_accuracy(self.sheet, self.audit)
        )

    @cached_property
    def finds_errors(self) -> Figure:
        """AUROC of BPDE for the judge's errors."""
        review = self.review
        return review if isinstance(review, Undefined) else review.auroc_of(review.level)

    @property
    def no_better_than_chance(self) -> bool:
        return no_better_than_chance(self.finds_errors)

    @cached_property
    def length(self) -> Preference:
        return length(self.sheet)

    @cached_property
    def position(self) -> Position:
        return position(self.sheet, self.samples, self.run)


@dataclass(frozen=True)
class Section:
    """A part of a chapter, on the results pages and in the HTML file.

    title: of its heading; empty for the part that a chapter begins with, whose answer is above it.
    read: what it needs besides the analysis' own data, had by `analysis.own(name, read)`; an
    Undefined says why it has none. Packed into the ZIP, and found there again by `verify`.
    plots: each makes a drawing from the whole report; one without rows is left out.
    anchor: its place on the page, where that differs from the name.
    has: whether the report has anything to show in it.
    """

    name: str
    template: str
    title: str = ""
    read: Callable[["Analysis"], Data | Undefined] | None = None
    plots: tuple[Callable[[Any], Plot], ...] = ()
    anchor: str = ""
    has: Callable[[Any], bool] = bool

    @property
    def place(self) -> str:
        return self.anchor or self.name


# Words of a question in one bar of Figure 6b; the last bar has no upper end.
STEP, MOST_BARS = 10, 9


def read_dataset(of: Analysis) -> Data:
    """question, responses: (N,) and (N, 2) codes of equal texts; characters, words: their sizes."""
    columns = ("question", MD5("question"), "response_1", MD5("response_1"), "response_2")
    rows = frame_of(of.project).values_list("pk", *columns, MD5("response_2"))
    n = len(of.sheet)
    measured = np.fromiter(map(_measured, rows.iterator(chunk_size=CHUNK)), dtype=_TEXTS)
    places = places_of(of.sheet.ids, measured["pk"])
    texts = np.zeros(n, dtype=_TEXTS)
    # The query reads the whole project, and the sheet of a frame holds only a part of it.
    texts[places[places >= 0]] = measured[places >= 0]
    del measured
    none = np.zeros(0, np.intp)
    responses = coded(texts["responses"].reshape(-1))[1] if n else none
    return Data(
        {
            "question": coded(texts["question"])[1] if n else none,
            "responses": responses.reshape(n, 2),
            "characters": texts["characters"].copy(),
            "words": texts["words"].copy(),
        }
    )


_TEXTS = np.dtype(
    [
        ("pk", "i8"),
        ("question", "i8"),
        ("responses", "i8", 2),
        ("characters", "i8", 2),
        ("words", "i8"),
    ]
)


def _measured(row: tuple[int, str, str, str, str, str, str]) -> tuple[Any, ...]:
    """Return the sizes of the texts of an example, and 60 bits of their hashes.

    Of a million texts, two have the same 60 bits with a probability of one in two million.
    """
    pk, asked, asked_md5, text_1, md5_1, text_2, md5_2 = row
    question, first, second = (int(md5[:15], 16) for md5 in (asked_md5, md5_1, md5_2))
    return pk, question, (first, second), (len(text_1), len(text_2)), len(asked.split())


# Bold text, items of a list and headings, by the characters that only they have.
_MARKS = ("**", "\n- ", "\n* ", "\n#", "\n1. ", "```")


def read_style(of: Analysis) -> Data:
    """style: (N, 2) log length and log number of Markdown's marks, response 1 less response 2; of
    a project with three models or more, since two have no ranking to control, and with texts."""
    if len([name for name in of.sheet.models if name]) < 3 or of.project.texts_removed_at:
        return Data()
    columns = [Length(f"response_{number}") for number in (1, 2)]
    columns += [_marks(f"response_{number}") for number in (1, 2)]
    rows = frame_of(of.project).values_list("pk", *columns)
    place = {pk: row for row, pk in enumerate(of.sheet.ids.tolist())}
    counts = np.zeros((len(place), 4))
    for pk, *numbers in rows.iterator(chunk_size=CHUNK):
        if (row := place.get(pk)) is not None:
            counts[row] = numbers
    # Many responses have no mark at all, and the logarithm of 0 is not defined.
    logs = np.log1p(counts)
    return Data({"style": np.stack((logs[:, 0] - logs[:, 1], logs[:, 2] - logs[:, 3]), axis=1)})


def style_of(of: Analysis) -> Floats | None:
    data = of.own("ranking", read_style)
    return data.arrays.get("style") if isinstance(data, Data) else None


def _marks(column: str) -> Combinable:
    """Count how often the marks occur in a text. The database does it, so that no text is read."""
    # A list or a heading can begin the text, where no line break precedes it.
    whole = Concat(Value("\n"), F(column))
    total: Combinable = Value(0)
    for mark in _MARKS:
        without = Replace(whole, Value(mark), Value(""))
        total = total + (Length(whole) - Length(without)) / Value(len(mark))
    return total


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


def dataset_of(of: Analysis) -> Dataset:
    data, sheet = of.own("dataset", read_dataset), of.sheet
    assert isinstance(data, Data)
    question, responses = data.arrays["question"], data.arrays["responses"]
    first = np.unique(question, return_index=True)[1]
    # Only the length of a text is known after it was removed.
    words = data.arrays["words"][first if of.project.texts_removed_at is None else []]
    known = sheet.known
    labels: dict[str, int] | Undefined = known if isinstance(known, Undefined) else {}
    if not isinstance(known, Undefined):
        human = sheet.human[known.rows]
        labels = {name: int((human == sign).sum()) for name, sign in _NAMES.items()}
    return Dataset(
        examples=len(sheet), questions=len(first), responses_1=len(np.unique(responses[:, 0])),
        responses_2=len(np.unique(responses[:, 1])), labels=labels,
        by_category=_by_category(sheet.category.tolist(), question),
        by_model=_by_model(of, responses, data.arrays["characters"]),
        question_words_mean=float(words.mean()) if len(words) else None,
        question_words_median=float(np.median(words)) if len(words) else None,
        question_words=_bars(words),
    )  # fmt: skip


def _by_category(categories: list[str], question: Codes) -> list[CategorySize]:
    inside: dict[str, list[int]] = {}
    for category, code in zip(categories, question.tolist(), strict=True):
        inside.setdefault(category, []).append(code)
    sizes = [CategorySize(name, len(codes), len(set(codes))) for name, codes in inside.items()]
    return sorted(sizes, key=lambda size: (-size.examples, size.category))


def _by_model(of: Analysis, responses: Codes, characters: Codes) -> list[ResponseLengths]:
    models = np.concatenate((of.sheet.model_1, of.sheet.model_2))
    # Transposed, so that all responses 1 come before all responses 2, as in `models`.
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
    return sorted(rows, key=lambda row: row.model)


def _bars(words: Codes) -> list[WordsBar]:
    place = np.minimum(words // STEP, MOST_BARS - 1)
    heights = np.bincount(place).tolist() if len(place) else []
    last = MOST_BARS - 1
    return [
        WordsBar(STEP * i, None if i == last else STEP * (i + 1), n) for i, n in enumerate(heights)
    ]


def questions_plot(dataset: Dataset) -> Plot:
    rows = [
        {"category": size.category or "(none)", "questions": size.questions}
        for size in dataset.by_category
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
    # A single bar compares nothing, and a plot without rows is left out.
    several = rows if len(rows) > 1 else []
    caption = "Different questions in each category."
    return plot("questions-category", "Questions by category", caption, several, bars)


def words_plot(dataset: Dataset) -> Plot:
    filled = [bar for bar in dataset.question_words if bar.questions]
    rows = [
        {
            "words": f"{bar.low}–{bar.high - 1}" if bar.high else f"{bar.low} or more",
            "questions": bar.questions,
        }
        # As above: a single bar compares nothing. Empty bars stay, because the axis is in steps of
        # words.
        for bar in (dataset.question_words if len(filled) > 1 else ())
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
