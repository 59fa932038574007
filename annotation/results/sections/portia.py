"""PORTIA: what its stages settle, against chance, people and other judges (docs/methods)."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from decimal import Decimal
from math import comb, prod

import numpy as np
from django.db.models import Count, Sum

from annotation.results.data.figures import (
    Data,
    Plot,
    Sentence,
    intervals,
    plot,
    share,
    tooltip,
    usd,
    value_of,
)
from annotation.results.data.sheet import Sheet, text_lengths
from annotation.results.sections.analysis import Analysis
from judging.dataset.models import frame_of
from judging.llm.prompts.templates import render, render_parts, stage_parts
from judging.methods.agreement.accuracy import Design
from judging.methods.arrays import Booleans, Codes, Signs
from judging.methods.intervals.estimates import Estimate, Figure, Undefined
from judging.methods.portia.breakdowns import (
    CategoryFailures,
    GapCoverage,
    HumanTies,
    LengthBin,
    PortiaAgreement,
    agreement_with_people,
    agreement_with_reference,
    coverage_by_gap,
    failures_by_category,
    first_position_share,
    human_ties,
    inconsistency_by_gap,
    inconsistency_by_length,
)
from judging.methods.portia.coverage import (
    Consistency,
    FixedCoverage,
    StageUse,
    consistency,
    fixed_coverage,
    stage_use,
    stages_per_example,
)
from judging.methods.portia.splitting import boundaries
from judging.methods.portia.stages import (
    STAGES,
    OrderLabels,
    Stage,
    StageLabels,
    without_length,
    without_semantic,
)
from judging.runs.forms.portia import PortiaSettings, aligned, last_stages, stage_calls
from judging.runs.models import Parse, Run, Verdict
from judging.runs.templates import template_of
from judging.runs.verdicts.judge_figures import difference, signs

MOST_BESIDE = 8
# Examples that are listed, and those on which other numbers of parts are tried.
MOST_FAILED, MOST_SPLIT, MOST_PARTS_SHOWN = 20, 100, 5
NOT_PORTIA = Undefined("this run is not by PORTIA")
NO_STAGE = Undefined("no example has finished a stage yet")


@dataclass(frozen=True)
class StageArrays:
    """labels, there: (N, stages, orders); asked: (N, stages); last: (N,); done: (N,) settled."""

    labels: Signs
    there: Booleans
    asked: Booleans
    last: Codes
    done: Booleans

    def packed(self, name: str) -> dict[str, np.ndarray]:
        return {f"{name}.{key}": value for key, value in vars(self).items()}


def read_portia(of: Analysis) -> Data | Undefined:
    """Read what PORTIA's figures need, or say why a run by another method has none."""
    if not of.run.stages:
        return NOT_PORTIA
    ids = of.sheet.ids
    own = stage_arrays(of.run, ids)
    if not own.done.any():
        return NO_STAGE
    arrays = own.packed("own") | {"lengths": text_lengths(of.project, ids)[:, :2]}
    beside = []
    for place, run in enumerate(runs_beside(of.run)):
        stages = stage_arrays(run, ids) if run.stages else whole(run, ids)
        arrays |= stages.packed(f"beside.{place}")
        beside.append(asdict(settings_shown(run)))
    last = own.labels[np.arange(len(ids)), own.last]
    both = own.there[np.arange(len(ids)), own.last].all(axis=1)
    # Without an answer in one order, an example is unjudged and no failure of PORTIA.
    failed = ids[own.done & both & (last[:, 0] != last[:, 1])].tolist()[:MOST_FAILED]
    named_ids = dict(frame_of(of.project).filter(pk__in=failed).values_list("pk", "external_id"))
    calls = [
        StageCost(row.stage, row.examples, row.calls, usd(row.usd)) for row in stage_calls(of.run)
    ]
    plain = {
        "run": asdict(settings_shown(of.run)),
        "calls": list(map(asdict, calls)),
        "beside": beside,
        "failed": [named_ids[pk] for pk in failed],
        "by_parts": list(map(asdict, prompts_by_parts(of.run))),
    }
    return Data(arrays, plain)


def prompts_by_parts(run: Run) -> list["PartsCost"]:
    """Return what more parts would cost (Figure 2), on the first examples that they fit."""
    settings = PortiaSettings.of(run)
    if settings is None or not run.template_text or run.project.texts_removed_at:
        return []
    template, rows = template_of(run), []
    examples = list(frame_of(run.project)[:MOST_SPLIT])
    for parts in range(1, MOST_PARTS_SHOWN + 1):
        characters, ways = [], []
        for example in examples:
            texts = example.response_1, example.response_2
            if parts == 1:
                (message,) = render(template, example.question, *texts, "original")
            # Any alignment would do: the parts of a response always join to the whole, so that
            # prompts with as many parts have as many characters.
            elif alignment := aligned(example, Stage.LENGTH, replace(settings, parts=parts)):
                shown = alignment.parts_1, alignment.parts_2
                (message,) = render_parts(template, example.question, *shown, "original")
            else:
                continue
            characters.append(len(message.content))
            # k parts are k − 1 cuts among the boundaries of each response, and any cuts of both can
            # be paired.
            ways.append(prod(comb(len(boundaries(text)), parts - 1) for text in texts))
        if characters:
            means = float(np.mean(characters)), float(np.mean(ways))
            rows.append(PartsCost(parts, len(characters), *means))
    return rows


@dataclass(frozen=True)
class PortiaRun:
    """How a run splits and aligns, and whose judge it is. Runs by other methods have no stages."""

    run: str
    model: str
    form: str
    k: int
    stages: Sequence[str]
    parts: int | None
    tokens: str | None

    def is_same_judge(self, other: "PortiaRun") -> bool:
        return (self.model, self.form) == (other.model, other.form)


def settings_shown(run: Run) -> PortiaRun:
    """Return what the report says of a run that is compared."""
    split = PortiaSettings.of(run)
    parts, tokens = (split.parts, split.tokens) if split else (None, None)
    return PortiaRun(run.name, run.model, run.form, run.k, list(run.stages), parts, tokens)


def runs_beside(run: Run) -> Sequence[Run]:
    """Return the newest ranked runs in both orders: to compare, and other judges as reference."""
    ranked = run.project.runs.filter(ranked_at__isnull=False).exclude(pk=run.pk)
    both = [other for other in ranked.order_by("-number")[:50] if len(other.orders) == 2]
    # A choice's calls are named by permutation instead of order, so it has no label by order.
    return [other for other in both if not other.parameters.get("permutations")][:MOST_BESIDE]


def stage_arrays(run: Run, ids: Codes) -> StageArrays:
    """Read each stage's labels from the samples, and the last stage from the verdicts."""
    n = len(ids)
    labels = np.zeros((n, len(STAGES), 2), np.int8)
    there, asked = np.zeros(labels.shape, bool), np.zeros(labels.shape[:2], bool)
    ranks = np.array([run.stages.index(stage) if stage in run.stages else -1 for stage in STAGES])
    for index in np.flatnonzero(ranks >= 0):
        by_order = order_signs(run, ids, stage_parts(STAGES[index]))
        labels[:, index], there[:, index], asked[:, index] = by_order
    ended = last_stages(run)
    last = np.array([STAGES.index(ended.get(pk, STAGES[0])) for pk in ids.tolist()], dtype=np.intp)
    # A stage that was asked again may settle what a later one had been asked about.
    asked &= ranks <= ranks[last][:, None]
    done = Verdict.objects.filter(run=run).exclude(stage="").values_list("example", flat=True)
    return StageArrays(labels, there, asked, last, np.isin(ids, list(done)))


def whole(run: Run, ids: Codes) -> StageArrays:
    """Return a run by another method as one that was asked the unsplit prompt alone."""
    labels = np.zeros((len(ids), len(STAGES), 2), np.int8)
    there, asked = np.zeros(labels.shape, bool), np.zeros(labels.shape[:2], bool)
    labels[:, 0], there[:, 0], asked[:, 0] = order_signs(run, ids, run.orders)
    return StageArrays(labels, there, asked, np.zeros(len(ids), np.intp), asked[:, 0].copy())


def order_signs(run: Run, ids: Codes, parts: Sequence[str]) -> tuple[Signs, Booleans, Booleans]:
    """Return (N, 2) the sign of the mean in each part, if it has one; (N,) any sample at all."""
    rows = (
        Parse.objects.that_count(run)
        .filter(sample__call__part__in=parts)
        .order_by()
        .values_list("sample__call__example", "sample__call__part", "status")
        # Grouped by status as well, because an order without a valid sample was asked all the same.
        .annotate(total=Sum(difference(run)), n=Count("pk"))
    )
    place = {pk: row for row, pk in enumerate(ids.tolist())}
    sums, counts = np.zeros((len(ids), 2)), np.zeros((len(ids), 2))
    asked = np.zeros(len(ids), bool)
    for example, part, status, total, n in rows.iterator(chunk_size=5000):
        if example not in place:
            continue
        asked[place[example]] = True
        if status == Parse.Status.VALID:
            cell = place[example], parts.index(part)
            sums[cell] += total
            counts[cell] += n
    return signs(run, sums, counts), counts > 0, asked


PENDING = Undefined(
    "PORTIA has not finished every example, so the audit doesn't represent the rest"
)


@dataclass(frozen=True)
class Beside:
    """Another run, with its place in the data."""

    settings: PortiaRun
    stages: StageLabels
    done: np.ndarray

    @property
    def by_portia(self) -> bool:
        return bool(self.settings.stages)


@dataclass(frozen=True)
class Unsplit:
    """The labels of the unsplit prompt, whose they are, and whether this run asked for them."""

    labels: OrderLabels | Undefined
    run: str | None
    own: bool


@dataclass(frozen=True)
class BeforeAndAfter:
    """A figure of the unsplit prompt, and of PORTIA's final labels."""

    unsplit: Figure | HumanTies
    portia: Figure | HumanTies


@dataclass(frozen=True)
class WithoutPeople:
    reason: str


@dataclass(frozen=True)
class StageFigures(StageUse):
    """A stage's share of the work. first_position: of the contradictions, how many the response
    shown first won."""

    first_position: Figure
    calls: int | None
    usd: str | None


@dataclass(frozen=True)
class StageCost:
    """What a stage was asked, and its cost as an exact decimal; None is unknown."""

    stage: str
    examples: int
    calls: int
    usd: str | None


@dataclass(frozen=True)
class PortiaCost:
    """All stages; times_unsplit: their cost over that of the whole responses. None is unknown."""

    usd: Decimal | None
    calls: int
    times_unsplit: float | None


@dataclass(frozen=True)
class ReferenceAgreement:
    """Agreement with another judge's labels, where both of its orders say the same (Table 9)."""

    run: str
    model: str
    unsplit: Figure
    portia: Figure
    gain: Figure


@dataclass(frozen=True)
class Variant:
    """Other settings of PORTIA (Figure 3). as_: how they differ."""

    run: str
    parts: int | None
    tokens: str | None
    stages: Sequence[str]
    as_: str
    consistency: Figure
    fixed_coverage: FixedCoverage


@dataclass(frozen=True)
class PartsCost:
    """A number of parts, over the n examples that can be split so often (Figure 2): the mean length
    of the prompt, and of the pairs of cuts that an exhaustive search would compare. FairJudge finds
    the same cuts by dynamic programming."""

    parts: int
    n: int
    characters: float
    combinations: float


@dataclass(frozen=True)
class PortiaFigures:
    """Over the examples that PORTIA has finished.

    unsplit_from: the run whose unsplit prompt is compared.
    settled: examples by the stage that settled them. failed: the first that none did (Table 21).
    """

    settings: PortiaRun
    examples: int
    pending: int
    unsplit_from: str | None
    settled: dict[str, int]
    stages: Sequence[StageFigures]
    cost: PortiaCost
    stages_an_example: Figure
    consistency: Consistency
    fixed_coverage: FixedCoverage
    by_category: Sequence[CategoryFailures]
    by_length: Sequence[LengthBin]
    by_gap: Sequence[LengthBin]
    coverage_by_gap: Sequence[GapCoverage] | Undefined
    first_position: BeforeAndAfter
    people: PortiaAgreement
    human_ties: BeforeAndAfter | WithoutPeople
    references: Sequence[ReferenceAgreement]
    variants: Sequence[Variant]
    failed: Sequence[str]
    by_parts: Sequence[PartsCost]


def portia(of: Analysis) -> PortiaFigures | Undefined:
    data = of.own("portia", read_portia)
    if isinstance(data, Undefined):
        return data
    everything, done = _stages(data, "own")
    rows = np.flatnonzero(done)
    stages, question = at(everything, rows), of.sheet.question[rows]
    others = [
        Beside(PortiaRun(**run), *_stages(data, f"beside.{place}"))
        for place, run in enumerate(data.plain["beside"])
    ]
    settings = PortiaRun(**data.plain["run"])
    calls = [StageCost(**call) for call in data.plain["calls"]]
    unsplit = unsplit_of(stages, settings, others, rows)
    before, lengths = unsplit.labels, data.arrays["lengths"][rows]
    by_question = {"question": question}
    agreed, human_ties_there = _people(of, everything, done, unsplit, rows)
    return PortiaFigures(
        settings=settings,
        examples=len(rows),
        pending=int(len(done) - len(rows)),
        unsplit_from=unsplit.run,
        settled=settled(stages),
        stages=_uses(stages, question, calls),
        cost=cost_of(calls),
        stages_an_example=stages_per_example(stages, **by_question),
        consistency=consistency(stages, before, **by_question),
        fixed_coverage=fixed_coverage(stages, before, own=unsplit.own, **by_question),
        by_category=failures_by_category(stages, of.sheet.category[rows].tolist(), question),
        by_length=inconsistency_by_length(stages, before, lengths, question),
        by_gap=inconsistency_by_gap(stages, before, lengths, question),
        coverage_by_gap=coverage_by_gap(stages, before, lengths, question),
        first_position=BeforeAndAfter(
            first_position_share(before, question), first_position_share(stages.final, question)
        ),
        people=agreed,
        human_ties=human_ties_there,
        references=list(_references(stages, before, settings, others, rows, of)),
        variants=list(_variants(stages, unsplit, settings, others, rows, of)),
        failed=data.plain["failed"],
        by_parts=[PartsCost(**parts) for parts in data.plain["by_parts"]],
    )


def unsplit_of(
    stages: StageLabels, settings: PortiaRun, others: list[Beside], rows: Codes
) -> Unsplit:
    """Return this run's own unsplit stage, else this judge's newest run that showed all whole."""
    own = stages.unsplit
    if isinstance(own, OrderLabels):
        return Unsplit(own, settings.run, own=True)
    for other in _same_judge(settings, others):
        labels = at(other.stages, rows).unsplit
        # A run that lacks some of the examples would compare others than PORTIA finished.
        if isinstance(labels, OrderLabels) and other.done[rows].all():
            return Unsplit(labels, other.settings.run, own=False)
    return Unsplit(own, None, own=False)


def settled(stages: StageLabels) -> dict[str, int]:
    """Count how many examples each stage settled, and how many none did."""
    final = stages.final
    counts = {
        stage.value: int((final.consistent & (stages.last == index)).sum())
        for index, stage in enumerate(STAGES)
    }
    return counts | {
        Stage.NONE.value: int(final.inconsistent.sum()),
        "unjudged": int((~final.both).sum()),
    }


def _uses(stages: StageLabels, question: Codes, calls: list[StageCost]) -> list[StageFigures]:
    """Return a row for each stage: asked, settled, against chance, first position, and cost."""
    cost = {call.stage: call for call in calls}
    return [
        StageFigures(
            **{field.name: getattr(use, field.name) for field in fields(use)},
            first_position=first_position_share(stages.of(use.stage), question),
            **{name: getattr(cost.get(use.stage), name, None) for name in ("calls", "usd")},
        )
        for use in stage_use(stages, question)
    ]


def cost_of(calls: list[StageCost]) -> PortiaCost:
    amounts = {call.stage: call.usd for call in calls}
    # One unknown price makes the sum unknown. An unknown cost is never counted as 0.
    known = None not in amounts.values()
    total = sum(map(Decimal, amounts.values()), Decimal(0)) if known else None
    whole = amounts.get(Stage.UNSPLIT)
    times = float(total / Decimal(whole)) if total and whole and Decimal(whole) else None
    return PortiaCost(total, sum(call.calls for call in calls), times)


def _people(
    of: Analysis, everything: StageLabels, done: np.ndarray, unsplit: Unsplit, finished: Codes
) -> tuple[PortiaAgreement, BeforeAndAfter | WithoutPeople]:
    """Measure agreement with people, and how often they tie if the judge contradicts itself."""
    design = design_of(of.sheet, done)
    if isinstance(design, Undefined):
        return PortiaAgreement(design, design, design), WithoutPeople(design.reason)
    rows, chosen = design
    before = unsplit.labels
    if isinstance(before, OrderLabels):
        # `before` has only the finished examples, in ascending order.
        places = np.searchsorted(finished, rows)
        before = OrderLabels(before.labels[places], before.there[places])
    stages, human, question = at(everything, rows), of.sheet.human[rows], of.sheet.question[rows]
    return agreement_with_people(stages, before, human, chosen, question), BeforeAndAfter(
        human_ties(before, human, chosen, question),
        human_ties(stages.final, human, chosen, question),
    )


def design_of(sheet: Sheet, done: np.ndarray) -> tuple[Codes, Design] | Undefined:
    """Return the rows that are compared with people's labels, and why these have one."""
    known = sheet.known
    if isinstance(known, Undefined):
        return known
    if sheet.everyone:
        rows = known.rows[done[known.rows]]
        everyone = np.ones(len(rows), bool)
        return (rows, Design(everyone, ~everyone)) if len(rows) else PENDING
    # While examples are pending, the audit of all examples doesn't represent the finished ones.
    if not done.all():
        return PENDING
    return np.arange(len(sheet)), Design(sheet.selected, sheet.audited)


def _references(
    stages: StageLabels,
    unsplit: OrderLabels | Undefined,
    settings: PortiaRun,
    others: list[Beside],
    rows: Codes,
    of: Analysis,
) -> Iterator[ReferenceAgreement]:
    question = of.sheet.question[rows]
    for other in others:
        if other.settings.model != settings.model:
            reference = at(other.stages, rows).final
            agreement = agreement_with_reference(stages, unsplit, reference, question)
            rates = agreement.unsplit, agreement.portia, agreement.gain
            yield ReferenceAgreement(other.settings.run, other.settings.model, *rates)


def _variants(
    stages: StageLabels,
    unsplit: Unsplit,
    settings: PortiaRun,
    others: list[Beside],
    rows: Codes,
    of: Analysis,
) -> Iterator[Variant]:
    """Yield this run, itself unaligned, and this judge's other PORTIA runs (Figure 3)."""

    def row(how: str, run: PortiaRun, labels: StageLabels | Undefined, own: bool) -> Variant:
        question = of.sheet.question[rows]
        coverage = fixed_coverage(labels, unsplit.labels, own=own, question=question)
        agreed: Figure
        if isinstance(labels, Undefined):
            agreed = labels
        else:
            agreed = consistency(labels, unsplit.labels, question).portia
        kept = {name: getattr(run, name) for name in ("run", "parts", "tokens", "stages")}
        return Variant(**kept, as_=how, consistency=agreed, fixed_coverage=coverage)

    yield row("as it ran", settings, stages, unsplit.own)
    # With one alignment alone, none can be left out.
    if {Stage.LENGTH, Stage.SEMANTIC} <= set(settings.stages):
        yield row("without semantic alignment", settings, without_semantic(stages), unsplit.own)
        yield row("without length alignment", settings, without_length(stages), unsplit.own)
    for other in _same_judge(settings, others):
        if other.by_portia and other.done[rows].all():
            yield row("another run", other.settings, at(other.stages, rows), own=False)


def _same_judge(settings: PortiaRun, others: list[Beside]) -> Iterator[Beside]:
    return (other for other in others if other.settings.is_same_judge(settings))


def at(stages: StageLabels, rows: Codes) -> StageLabels:
    """Return the same labels of some examples."""
    return replace(stages, **{f.name: getattr(stages, f.name)[rows] for f in fields(stages)})


def _stages(data: Data, name: str) -> tuple[StageLabels, np.ndarray]:
    arrays = {f.name: data.arrays[f"{name}.{f.name}"] for f in fields(StageLabels)}
    return StageLabels(**arrays), data.arrays[f"{name}.done"]


def _apart(above: Estimate, below: Estimate) -> float | None:
    """Return by how much one interval lies above another, negative if they overlap."""
    return None if above.low is None or below.high is None else above.low - below.high


def answer(figures: PortiaFigures | Undefined) -> Sentence:
    """Say whether PORTIA makes the judge contradict itself less."""
    if isinstance(figures, Undefined):
        return Sentence(f"What PORTIA achieves isn't known: {figures.reason}.", "portia")
    unsplit, split, gain = (
        getattr(figures.consistency, name) for name in ("unsplit", "portia", "gain")
    )
    if isinstance(split, Undefined):
        return Sentence(f"What PORTIA achieves isn't known: {split.reason}.", "portia")
    compared = ""
    if not isinstance(unsplit, Undefined):
        compared = f", compared with {share(unsplit)} with whole responses"
    low, high = (getattr(gain, end, None) for end in ("low", "high"))
    if isinstance(gain, Undefined) and not isinstance(unsplit, Undefined):
        # Nothing was consistent before, so there is no ratio: compare both shares instead.
        low, high = _apart(split, unsplit), _apart(unsplit, split)
        high = None if high is None else -high
    if low is not None and low > 0:
        does = "makes the judge more consistent"
    elif high is not None and high < 0:
        does = "makes the judge less consistent"
    else:
        does = "doesn't clearly change how consistent the judge is"
    return Sentence(
        f"PORTIA {does}: both orders agree on {share(split, 'pairs')}{compared}.", "portia"
    )


def consistency_plot(measured: PortiaFigures | Undefined) -> Plot:
    figures = {}
    if not isinstance(measured, Undefined):
        figures = {
            "whole responses": measured.consistency.unsplit,
            "with PORTIA": measured.consistency.portia,
            "fixed coverage": measured.fixed_coverage.coverage,
            "fixed coverage by chance": measured.fixed_coverage.by_chance,
        }
    rows = [
        {"what": words} | value_of(figure)
        for words, figure in figures.items()
        if not isinstance(figure, Undefined)
    ]
    caption = "How often both orders agree, and how many contradictions PORTIA removes."
    return plot("portia", "Consistency", caption, rows, intervals("what", "share of pairs"))


def parts_plot(figures: PortiaFigures | Undefined) -> Plot:
    drawn = () if isinstance(figures, Undefined) else figures.by_parts
    rows = [{"parts": row.parts, "characters": round(row.characters)} for row in drawn]
    line = {
        "mark": {"type": "line", "point": True},
        "encoding": {
            "x": {"field": "parts", "type": "ordinal", "title": "parts of each response"},
            "y": {"field": "characters", "type": "quantitative", "title": "characters"},
            "tooltip": tooltip("parts", "characters"),
        },
    }
    caption = "Mean length of the prompt, over the examples that can be split that often."
    return plot("portia-parts", "Length of the prompt", caption, rows, line)
