"""FairEval's Table 4 for one's own data: what each method reaches and costs, without a new call."""

from collections.abc import Iterator, Sequence
from decimal import Decimal

import numpy as np
from django.db.models import Sum

from annotation.results.costs import Costs
from annotation.results.fewer import Fewer, is_adaptive
from annotation.results.figures import Json, lacking, usd
from annotation.results.other_runs import OtherRun
from annotation.results.review import BETAS
from annotation.results.rightness import Agreement, agreement
from annotation.results.sheet import Sheet
from judging.llm.prices import PriceSnapshot
from judging.methods.arrays import Booleans, Signs
from judging.methods.bands import CurveBand
from judging.methods.estimates import Undefined
from judging.methods.kappa import kappa
from judging.methods.ranking import cut
from judging.models.runs import Form, Method, Run

NAMES = {"vanilla": "VANILLA", "ec": "EC", "mec": "MEC", "mec_bpc": "MEC+BPC", "portia": "PORTIA"}
HITLC_BETAS = (5, 10, 20, 30, 50)
MICRO_USD = Decimal("0.000001")


def methods(
    sheet: Sheet,
    run: Run,
    others: Sequence[OtherRun],
    prompt_share: Decimal,
    fewer: Sequence[Fewer],
    alone: Agreement,
    after: Agreement,
    band: CurveBand | Undefined,
    costs: Costs,
    rng: np.random.Generator,
) -> list[Json]:
    """One row a method; its exact labels are right `alone`, the final ones `after` the review."""
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
        _own(run, costs, alone),
        *_hitlc(sheet, run, band, after, costs, rng),
    ]


def _derived(
    run: Run, prompt_share: Decimal, fewer: Sequence[Fewer], costs: Costs
) -> Iterator[Json]:
    """Rows from subsets of the samples, but for the one that is the run itself."""
    orders, k = len(run.orders), max((one.k for one in fewer), default=0)
    for one in fewer:
        if one.k == k and one.bpc == (orders == 2):
            continue
        name = _name(run, one.bpc, one.k)
        part = Decimal(2 if one.bpc else 1) / orders
        # The prompt is paid once an order, completions by their number.
        part *= prompt_share + (1 - prompt_share) * Decimal(one.k) / k
        known = costs.judge_usd is not None and not is_adaptive(run)
        cost = (costs.judge_usd * part).quantize(MICRO_USD) if known else None
        yield _row(name, one.k, one.bpc, 0) | {
            "accuracy": one.accuracy.as_json(),
            "kappa": one.kappa.as_json(),
            "judge_usd": usd(cost),
            "judge_usd_estimated": True,
            "human_usd": "0",
            "temperature": str(run.temperature),
        }


def prompt_share_of(run: Run) -> Decimal:
    """Of a run's cost the part that does not grow with k."""
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
    """The newest ranked run of the same judge by this method; MEC(2k) has the cost of 2 × k."""
    wanted = {"method": str(method), "model": run.model, "k": str(k), "form": run.form}
    same = (one for one in reversed(others) if wanted.items() <= one.settings.items())
    return next(same, None)


def _of_run(
    name: str, sheet: Sheet, run: OtherRun | None, rng: np.random.Generator, k: int
) -> Json:
    row = _row(name, k, False, 0)
    if run is None:
        samples = "1 sample" if k == 1 else f"{k} samples"
        reason = Undefined(f"needs a {name} run of this judge with {samples} in one order")
        return row | {"judge_usd": None, "human_usd": "0"} | lacking(reason, "accuracy", "kappa")
    cost = {"judge_usd": usd(run.judge_usd), "human_usd": "0", "run": run.name}
    return row | cost | agreement_of(sheet, run.judge, run.judged, rng)


def _own(run: Run, costs: Costs, alone: Agreement) -> Json:
    cost = {"judge_usd": usd(costs.judge_usd), "human_usd": "0", "run": run.name}
    return _own_row(run, 0) | cost | alone.as_json()


def _hitlc(
    sheet: Sheet,
    run: Run,
    band: CurveBand | Undefined,
    after: Agreement,
    costs: Costs,
    rng: np.random.Generator,
) -> Iterator[Json]:
    """The top β % replaced by people's labels, right by construction; then what was done."""
    for beta in HITLC_BETAS:
        m = cut(len(sheet), beta)
        human = costs.by_hand_same * m / len(sheet) if len(sheet) else Decimal(0)
        cost = {"judge_usd": usd(costs.judge_usd), "human_usd": usd(human)}
        row = _own_row(run, beta, "+HITLC") | cost | {"m": m}
        yield row | _reviewed(sheet, band, m, beta, rng)
    done_by_people = sheet.reviewed
    if done_by_people.any():
        beta_done = 100 * float(done_by_people.mean())
        cost = {"judge_usd": usd(costs.judge_usd), "human_usd": usd(costs.human_usd)}
        audited = int(sheet.audited_alone.sum())
        done = {"m": int(done_by_people.sum()), "audited": audited, "done": True}
        row = _own_row(run, beta_done, "+HITLC") | cost | done
        yield row | after.as_json()


def _reviewed(
    sheet: Sheet, band: CurveBand | Undefined, m: int, beta: int, rng: np.random.Generator
) -> Json:
    known = sheet.known
    if isinstance(band, Undefined) or isinstance(known, Undefined):
        reason = band if isinstance(band, Undefined) else known
        return lacking(reason, "accuracy", "kappa")
    reached = band.at(BETAS.index(beta), len(known.rows))
    replaced = np.zeros(len(sheet), bool)
    replaced[sheet.ranking[:m]] = True
    compared = sheet.comparison(
        np.where(replaced, sheet.human, sheet.judge).astype(np.int8), sheet.judged | replaced
    )
    return {
        "accuracy": reached.as_json(),
        "kappa": (compared if isinstance(compared, Undefined) else kappa(compared, rng)).as_json(),
    }


def agreement_of(sheet: Sheet, labels: Signs, there: Booleans, rng: np.random.Generator) -> Json:
    return agreement(sheet.comparison(labels, there), rng).as_json()


def _own_row(run: Run, beta: float, more: str = "") -> Json:
    """An imported run of two orders is MEC+BPC, one of one order MEC, whoever asked."""
    bpc = len(run.orders) == 2
    written = NAMES.get(run.method) if run.form != Form.CHOICE else None
    name = written or _name(run, bpc, run.k)
    # Of a choice the permutations of one order are its samples.
    k = run.k * len(run.parts) // len(run.orders) if run.form == Form.CHOICE else run.k
    return _row(name + more, k, bpc, beta)


def _name(run: Run, bpc: bool, k: int) -> str:
    """A choice has no evidence: what tells its methods apart is whether both orders are asked."""
    if run.form == Form.CHOICE:
        return "BPC" if bpc else "one order"
    return "MEC+BPC" if bpc else "MEC" if k > 1 else "EC"


def _row(name: str, k: int, bpc: bool, beta: float) -> Json:
    return {"name": name, "k": k, "bpc": bpc, "beta": beta}
