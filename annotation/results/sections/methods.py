"""What each method reaches and costs, and what fewer samples or other runs give.

MEC(k') is the exact mean over all subsets of the recorded samples.
"""

import math
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np
from django.db.models import Sum

from annotation.results.data.figures import (
    Plot,
    colour,
    optional,
    plot,
    tooltip,
    value_of,
    x_axis,
    y_axis,
)
from annotation.results.data.runs import Costs, OtherRun, settings_of
from annotation.results.data.samples import SampleArrays
from annotation.results.data.sheet import KnownLabels, Sheet
from annotation.results.sections.review import BETAS, LabelAgreement, label_agreement
from judging.llm.prices import PriceSnapshot
from judging.methods.agreement.accuracy import credit
from judging.methods.agreement.fewer_samples import (
    expected_labels,
    expected_right,
    kappa_of_expected_table,
)
from judging.methods.agreement.votes import kappa
from judging.methods.intervals.bootstrap import coded, plus_two_ratio
from judging.methods.intervals.estimates import (
    Estimate,
    Figure,
    Undefined,
    holm_of_tested,
    sign_flip,
)
from judging.methods.review.curve import CurveBand
from judging.methods.verdicts.verdicts import cut
from judging.runs.models import Form, Method, Run

ADAPTIVE = Undefined(
    "an adaptive run stops when its answers agree, which would bias score gaps and the results of "
    "fewer samples"
)
PORTIA = Undefined("with fewer samples, PORTIA would have reached other stages")
# Up to this many samples, all subsets are used; above it, only one and all.
MOST_SUBSETS = 6
EXPECTED_TABLE = "kappa of the expected confusion table, which has no interval"


@dataclass(frozen=True)
class Fewer:
    """What k of the run's samples in each order would have given: the mean over all subsets."""

    k: int
    bpc: bool
    accuracy: Figure
    kappa: Figure


def is_adaptive(run: Run) -> bool:
    return "adaptive" in run.parameters


def fewer_samples(sheet: Sheet, run: Run, samples: SampleArrays | Undefined) -> Iterator[Fewer]:
    """Return MEC(k') and, if both orders were asked, MEC(k') + BPC(k')."""
    if isinstance(samples, Undefined) or samples.orders > 2:
        return
    known = ADAPTIVE if is_adaptive(run) else PORTIA if run.stages else sheet.known
    sizes = range(1, samples.k + 1) if samples.k <= MOST_SUBSETS else (1, samples.k)
    for bpc in (False, True)[: samples.orders]:
        for k in sizes:
            if isinstance(known, Undefined):
                yield Fewer(k, bpc, known, known)
            else:
                yield _fewer(sheet, known, samples, k, bpc)


def _fewer(sheet: Sheet, known: KnownLabels, samples: SampleArrays, k: int, bpc: bool) -> Fewer:
    rows = known.rows
    recorded = (samples.difference[rows], samples.valid[rows], k)
    shares = expected_labels(*recorded, both_orders=bpc, band=samples.band)
    human = sheet.human[rows]
    right = expected_right(shares, human, knows_ties=sheet.knows_ties)
    reached = plus_two_ratio(
        right, shares[:, :3].sum(axis=1), (0, 1), weight=known.weight, stratum=known.stratum,
        question=sheet.question[rows], reason="no subset has a valid sample",
    )  # fmt: skip
    value = kappa_of_expected_table(shares, human, known.weight)
    if isinstance(value, float):
        value = Estimate(value, len(human), note=EXPECTED_TABLE)
    return Fewer(k, bpc, reached, value)


NAMES = {"vanilla": "VANILLA", "ec": "EC", "mec": "MEC", "mec_bpc": "MEC+BPC", "portia": "PORTIA"}
HITLC_BETAS = (5, 10, 20, 30, 50)
MICRO_USD = Decimal("0.000001")


@dataclass(frozen=True, kw_only=True)
class MethodRow:
    """A line of FairEval's Table 4. k: samples in each order; beta: percent reviewed by people.

    run: whose labels these are, if a run has them; members: the runs of a jury. m: examples that
    people review; audited, done: of the review that took place. judge_usd_estimated: a part of this
    run's cost, for rows over fewer of its samples.
    """

    name: str
    k: int | None
    bpc: bool
    beta: float
    judge_usd: Decimal | None = None
    judge_usd_estimated: bool | None = optional()
    human_usd: Decimal = Decimal(0)
    temperature: str | None = optional()
    run: str | None = optional()
    members: Sequence[str] | None = optional()
    m: int | None = optional()
    audited: int | None = optional()
    done: bool | None = optional()
    accuracy: Figure
    accuracy_over_all: Figure | None = optional()
    kappa: Figure


def methods(
    sheet: Sheet,
    run: Run,
    others: Sequence[OtherRun],
    prompt_share: Decimal,
    fewer: Sequence[Fewer],
    alone: LabelAgreement,
    after: LabelAgreement,
    band: CurveBand | Undefined,
    costs: Costs,
    rng: np.random.Generator,
) -> list[MethodRow]:
    """Return a row for each method: how often it is right `alone`, and `after` the review."""
    rows = []
    # A choice has no evidence, before its answer or after it, so that neither is a rival of it.
    has_evidence = run.form != Form.CHOICE
    if run.method != Method.VANILLA:
        vanilla = _other(run, others, Method.VANILLA, 1)
        rows += [_of_run("VANILLA", sheet, vanilla, rng, 1)] if has_evidence else []
        # What fewer samples would have led PORTIA to ask is not known.
        rows += [] if run.stages else _derived(run, prompt_share, fewer, costs)
    if has_evidence:
        mec = _other(run, others, Method.MEC, 2 * run.k)
        rows.append(_of_run("MEC", sheet, mec, rng, 2 * run.k))
    return [
        *rows,
        MethodRow(**_own_name(run, 0), judge_usd=costs.judge_usd, run=run.name, **vars(alone)),
        *_hitlc(sheet, run, band, after, costs, rng),
    ]


def _derived(
    run: Run, prompt_share: Decimal, fewer: Sequence[Fewer], costs: Costs
) -> Iterator[MethodRow]:
    """Return rows from subsets of the samples, without the one that is the run itself."""
    orders, k = len(run.orders), max((smaller.k for smaller in fewer), default=0)
    for smaller in fewer:
        if smaller.k == k and smaller.bpc == (orders == 2):
            continue
        part = Decimal(2 if smaller.bpc else 1) / orders
        # The prompt is paid once an order, completions by their number.
        part *= prompt_share + (1 - prompt_share) * Decimal(smaller.k) / k
        known = costs.judge_usd is not None and not is_adaptive(run)
        cost = (costs.judge_usd * part).quantize(MICRO_USD) if known else None
        yield MethodRow(
            name=_name(run, smaller.bpc, smaller.k), k=smaller.k, bpc=smaller.bpc, beta=0,
            judge_usd=cost, judge_usd_estimated=True, temperature=str(run.temperature),
            accuracy=smaller.accuracy, kappa=smaller.kappa,
        )  # fmt: skip


def prompt_share_of(run: Run) -> Decimal:
    """Return the share of a run's cost that does not grow with k."""
    if run.price is None:
        return Decimal(0)
    price = PriceSnapshot.from_json(run.price)
    tokens = run.calls.aggregate(
        prompt=Sum("prompt_tokens", default=0), completion=Sum("completion_tokens", default=0)
    )
    prompt = price.prompt.base * tokens["prompt"]
    total = prompt + price.completion.base * tokens["completion"]
    return prompt / total if total else Decimal(0)


def _other(run: Run, others: Sequence[OtherRun], method: str, k: int) -> OtherRun | None:
    """Return the newest ranked run of this judge by a method. MEC(2k) costs as much as 2 × k."""
    wanted = {"method": str(method), "model": run.model, "k": str(k), "form": run.form}
    same = (other for other in reversed(others) if wanted.items() <= other.settings.items())
    return next(same, None)


def _of_run(
    name: str, sheet: Sheet, run: OtherRun | None, rng: np.random.Generator, k: int
) -> MethodRow:
    row = {"name": name, "k": k, "bpc": False, "beta": 0}
    if run is None:
        samples = "1 sample" if k == 1 else f"{k} samples"
        reason = Undefined(f"needs a {name} run of this judge with {samples} in one order")
        return MethodRow(**row, accuracy=reason, kappa=reason)
    agreement = label_agreement(sheet.comparison(run.judge, run.judged), rng)
    return MethodRow(**row, judge_usd=run.judge_usd, run=run.name, **vars(agreement))


def _hitlc(
    sheet: Sheet,
    run: Run,
    band: CurveBand | Undefined,
    after: LabelAgreement,
    costs: Costs,
    rng: np.random.Generator,
) -> Iterator[MethodRow]:
    """Yield rows with the top β % replaced by people, right by construction, and then the review
    that was done."""
    for beta in HITLC_BETAS:
        m = cut(len(sheet), beta)
        # Labelling all N by hand has this price, so labelling m of them costs m/N of it.
        human = costs.by_hand_same * m / len(sheet) if len(sheet) else Decimal(0)
        accuracy, kappa_then = _reviewed(sheet, band, m, beta, rng)
        yield MethodRow(
            **_own_name(run, beta, "+HITLC"), judge_usd=costs.judge_usd, human_usd=human, m=m,
            accuracy=accuracy, kappa=kappa_then,
        )  # fmt: skip
    done_by_people = sheet.reviewed
    if done_by_people.any():
        yield MethodRow(
            **_own_name(run, 100 * float(done_by_people.mean()), "+HITLC"),
            judge_usd=costs.judge_usd, human_usd=costs.human_usd, m=int(done_by_people.sum()),
            audited=int(sheet.audited_alone.sum()), done=True, **vars(after),
        )  # fmt: skip


def _reviewed(
    sheet: Sheet, band: CurveBand | Undefined, m: int, beta: int, rng: np.random.Generator
) -> tuple[Figure, Figure]:
    """Accuracy and kappa once the first m by rank have people's labels."""
    known = sheet.known
    if isinstance(band, Undefined) or isinstance(known, Undefined):
        reason = band if isinstance(band, Undefined) else known
        return reason, reason
    reached = band.after[BETAS.index(beta)]
    replaced = np.zeros(len(sheet), bool)
    replaced[sheet.ranking[:m]] = True
    # Unlike the curve's band, kappa needs the labels themselves, with the first m replaced by
    # people's.
    compared = sheet.comparison(
        np.where(replaced, sheet.human, sheet.judge).astype(np.int8), sheet.judged | replaced
    )
    return reached, compared if isinstance(compared, Undefined) else kappa(compared, rng)


def _own_name(run: Run, beta: float, more: str = "") -> dict[str, Any]:
    """Return the run's own name and settings. An imported run of two orders counts as MEC+BPC."""
    bpc = len(run.orders) == 2
    written = NAMES.get(run.method) if run.form != Form.CHOICE else None
    name = written or _name(run, bpc, run.k)
    # In a choice, the permutations of one order are its samples.
    k = run.k * len(run.parts) // len(run.orders) if run.form == Form.CHOICE else run.k
    return {"name": name + more, "k": k, "bpc": bpc, "beta": beta}


def _name(run: Run, bpc: bool, k: int) -> str:
    """Return a method's name. A choice has no evidence, so only orders tell its methods apart."""
    if run.form == Form.CHOICE:
        return "BPC" if bpc else "one order"
    return "MEC+BPC" if bpc else "MEC" if k > 1 else "EC"


@dataclass(frozen=True)
class Paired:
    """difference: accuracy of this run less the other's, over what both judged. better, worse:
    examples on which this run's label earns more, and less."""

    difference: Figure
    p: float | None
    better: int = 0
    worse: int = 0

    @property
    def other_way(self) -> "Paired":
        """Return the comparison of the other run with this one."""
        figure = self.difference
        if isinstance(figure, Estimate):
            low, high = (None if limit is None else -limit for limit in (figure.high, figure.low))
            figure = replace(figure, value=-figure.value, low=low, high=high)
        return Paired(figure, self.p, self.worse, self.better)


@dataclass(frozen=True)
class FewerRow:
    """This run with fewer of its samples. differs: this run's setting and that of the row."""

    run: str
    differs: dict[str, tuple[str, str]]
    bpc: bool
    accuracy: Figure
    kappa: Figure


@dataclass(frozen=True)
class RunRow:
    """Another run. difference: how much more accurate this run is, over what both judged."""

    run: str
    differs: dict[str, tuple[str, str]]
    accuracy: Figure
    kappa: Figure
    difference: Figure
    p: float | None
    p_holm: float | None


def ablation(
    sheet: Sheet,
    run: Run,
    others: Sequence[OtherRun],
    fewer: Sequence[Fewer],
    alone: LabelAgreement,
    rng: np.random.Generator,
) -> list[FewerRow | RunRow]:
    """Rows over k from this run's samples, then one row a run; p-values by Holm over the runs.

    All samples are the run as it is, so that row has the intervals of its labels `alone`.
    """
    rows: list[FewerRow | RunRow] = [
        FewerRow(run.name, {"k": (str(run.k), str(row.k))}, row.bpc, row.accuracy, row.kappa)
        for row in fewer
    ]
    if fewer and _same(fewer[-1].accuracy, alone.accuracy):
        rows[-1] = replace(rows[-1], accuracy=alone.accuracy, kappa=alone.kappa)
    known = sheet.known
    if isinstance(known, Undefined):
        return rows
    # A copy, so that the intervals of the runs' own figures are those of the other tables.
    paired = [paired_with(sheet, known, other, deepcopy(rng)) for other in others]
    adjusted = holm_of_tested([pair.p for pair in paired])
    for other, pair, p_holm in zip(others, paired, adjusted, strict=True):
        rows.append(_run_row(sheet, run, other, pair, p_holm, rng))
    return rows


def _same(figure: Figure, other: Figure) -> bool:
    """Return True if both figures are equal. A run of X0 and X1 has X0's label alone, and all its
    samples together give another."""
    if isinstance(figure, Undefined) or isinstance(other, Undefined):
        return False
    return math.isclose(figure.value, other.value)


def _run_row(
    sheet: Sheet,
    run: Run,
    other: OtherRun,
    paired: Paired,
    p_holm: float | None,
    rng: np.random.Generator,
) -> RunRow:
    agreement = label_agreement(sheet.comparison(other.judge, other.judged), rng)
    here = settings_of(run)
    differs = {
        name: (here[name], value)
        for name, value in other.settings.items()
        if name != "name" and value != here[name]
    }
    figures = agreement.accuracy, agreement.kappa, paired.difference
    return RunRow(other.name, differs, *figures, paired.p, p_holm)


def paired_with(
    sheet: Sheet,
    known: KnownLabels,
    other: OtherRun | Sheet,
    rng: np.random.Generator,
    confidence: float = 0.95,
) -> Paired:
    """Return this judge's accuracy less the other's, on the examples that both judged."""
    both = (sheet.judged & other.judged)[known.rows]
    rows = known.rows[both]
    if not len(rows):
        return Paired(Undefined("no example with a known label was judged by both runs"), None)
    human, ties = sheet.human[rows], sheet.knows_ties
    here = credit(sheet.judge[rows], sheet.judged[rows], human, knows_ties=ties)
    there = credit(other.judge[rows], other.judged[rows], human, knows_ties=ties)
    weight, question = known.weight[both], sheet.question[rows]
    difference = plus_two_ratio(
        here - there, np.ones(len(rows)), (-1, 1), weight=weight, stratum=known.stratum[both],
        question=question, confidence=confidence,
    )  # fmt: skip
    groups, code = coded(question)
    # Signs are flipped by question, since examples of one question aren't independent.
    apart = np.bincount(code, weight * (here - there), minlength=groups)
    # With one question there are two ways to flip, so no p-value could be small.
    p = sign_flip(apart, rng) if groups > 1 else None
    return Paired(difference, p, int((here > there).sum()), int((here < there).sum()))


FRONTIER, BEATEN = "on the frontier", "beaten"


def cost_plot(method_rows: Sequence[MethodRow]) -> Plot:
    rows = [
        {"method": _in_words(row), "usd": float(row.judge_usd) + float(row.human_usd)}
        | value_of(row.accuracy)
        for row in method_rows
        if row.judge_usd is not None and not isinstance(row.accuracy, Undefined)
    ]
    for row in rows:
        # Only a higher accuracy beats: a cheaper method that is less accurate may still be the one
        # to choose.
        beaten = any(other["usd"] <= row["usd"] and other["value"] > row["value"] for other in rows)
        row["place"] = BEATEN if beaten else FRONTIER
    points = {
        "mark": {"type": "point", "filled": True, "size": 60},
        "encoding": {
            "x": x_axis("usd", "judge and people, USD"),
            "y": y_axis("value", "accuracy"),
            "color": colour("place", [FRONTIER, BEATEN]),
            "tooltip": tooltip("method", "usd", "value", "low", "high"),
        },
    }
    frontier = {
        "transform": [{"filter": f"datum.place === '{FRONTIER}'"}],
        # No method lies between two neighbours on the frontier, so it is a staircase.
        "mark": {"type": "line", "interpolate": "step-after", "opacity": 0.5},
        "encoding": {"x": x_axis("usd", ""), "y": y_axis("value", "")},
    }
    caption = "Each point is a method. On the frontier, no cheaper method is as accurate."
    return plot("cost", "Cost against accuracy", caption, rows, {"layer": [frontier, points]})


def _in_words(row: MethodRow) -> str:
    beta = f", β {row.beta:g}\u202f%" if row.beta else ""
    return f"{row.name}{beta}" if row.k is None else f"{row.name} (k {row.k}{beta})"
