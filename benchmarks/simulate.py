"""Check by simulation that intervals and certificates keep their promises: `make simulate`.

Prints a Markdown table of each check and fails where a promise is broken.  The seeds are fixed,
so the same numbers come out again.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from benchmarks.simulations import (
    bars,
    certificates,
    figures,
    instruments,
    lessons,
    looks,
    pipelines,
    two_stage,
)
from benchmarks.simulations.certificates import Promise
from benchmarks.simulations.coverage import FEWER, INTERVALS, SETTINGS, Coverage, coverage
from benchmarks.simulations.projects import settings

SEED = 20230529
REPEATS = 10_000
# Each of the intervals is a check too, by its name.
CERTIFICATES, STAGES = "certificates", "rounds that learn"
CASCADES = "labels that judges in a row keep"
ANNOTATORS = "simulated annotators"
BARS = "learned routing against BPDE"
SURENESS = "models of votes"
LOOKS = "gates that are looked at ten times"
LESSONS = "judges that people taught"
PLANS = "cheapest plans"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    checks = [*INTERVALS, *figures.FIGURES, CERTIFICATES, CASCADES, STAGES, BARS, LOOKS]
    checks += [ANNOTATORS, LESSONS, PLANS, SURENESS]
    parser.add_argument("--only", action="append", choices=checks, help="this check; repeatable")
    parser.add_argument(
        "--setting", default="", help="of intervals and cheapest plans: settings with these words"
    )
    chosen = parser.parse_args()
    given = (chosen.repeats, chosen.setting)
    with ProcessPoolExecutor(chosen.processes) as pool:
        broken = sum(report(table(name, pool, *given)) for name in chosen.only or checks)
    if broken:
        sys.exit(f"{broken} promises are broken; the rows say which.")


def table(name: str, pool: ProcessPoolExecutor, repeats: int, words: str) -> Iterator[str]:
    """Run a check in all its settings; of an interval, in those whose name has these words."""
    if name == CERTIFICATES:
        check_case = partial(certificates.simulate, repeats=repeats, seed=SEED)
        rows = list(pool.map(check_case, certificates.cases()))
        return certificate_table("Certificates at 95 %", rows)
    if name == CASCADES:
        check_cascade = partial(certificates.simulate_cascade, repeats=repeats, seed=SEED)
        rows = list(pool.map(check_cascade, certificates.cascade_cases()))
        return certificate_table("Labels that judges in a row keep, at 90 %", rows)
    if name == ANNOTATORS:
        fewer = min(repeats, FEWER)
        check_annotators = partial(certificates.simulate_annotators, repeats=fewer, seed=SEED)
        rows = list(pool.map(check_annotators, certificates.annotator_cases()))
        return certificate_table("Labels that are kept by simulated annotators, at 90 %", rows)
    if name == STAGES:
        fewer = min(repeats, FEWER)
        check_stages = partial(two_stage.simulate, repeats=fewer, seed=SEED)
        return two_stage_table(list(pool.map(check_stages, two_stage.stages())))
    if name == BARS:
        check_bars = partial(bars.simulate, repeats=min(repeats, FEWER), seed=SEED)
        return bar_table(list(pool.map(check_bars, bars.draws())))
    if name == LOOKS:
        check_looks = partial(looks.simulate, repeats=repeats, seed=SEED)
        return look_table(list(pool.map(check_looks, looks.cases())))
    if name == LESSONS:
        fewer = min(repeats, FEWER)
        check_lessons = partial(lessons.simulate, repeats=fewer, seed=SEED)
        return lessons.table(list(pool.map(check_lessons, lessons.cases())))
    if name == PLANS:
        check_plans = partial(pipelines.simulate, repeats=min(repeats, FEWER), seed=SEED)
        chosen_cases = [one for one in pipelines.cases() if words in str(one)]
        return plan_table(pool.map(check_plans, chosen_cases))
    if name == SURENESS:
        check_models = partial(instruments.simulate, repeats=min(repeats, FEWER), seed=SEED)
        asked = range(len(list(instruments.populations())))
        return sureness_table(list(pool.map(check_models, asked)))
    if name in figures.FIGURES:
        check_figures = partial(figures.simulate, name, repeats=repeats, seed=SEED)
        found = pool.map(check_figures, figures.places(name, words))
        return coverage_table(name, (row for rows in found for row in rows))
    check = partial(coverage, name, repeats=repeats, seed=SEED)
    chosen = [one for one in SETTINGS.get(name, settings)() if words in str(one)]
    return coverage_table(name, pool.map(check, chosen))


def report(lines: Iterator[str]) -> int:
    """Print the lines; how many of them say that a promise is broken."""
    count = 0
    for line in lines:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
        count += line.endswith("| broken |")
    sys.stdout.write("\n")
    return count


def coverage_table(name: str, rows: Iterable[Coverage]) -> Iterator[str]:
    """Yield each line as soon as its setting is done."""
    for place, row in enumerate(rows):
        if not place:
            yield f"### {name[0].upper()}{name[1:]}, {row.repeats:,} repeats each"
            yield ""
            yield "| setting | has an interval | coverage of the 95 % interval | mean width | |"
            yield "|---|---|---|---|---|"
        kept = "kept" if row.passes() else "broken"
        yield f"| {row.setting} | {row.given:.0%} | {row.covered:.2%} | {row.width:.3f} | {kept} |"


def certificate_table(title: str, rows: list[Promise]) -> Iterator[str]:
    yield f"### {title}, {rows[0].repeats:,} repeats each"
    yield ""
    yield "| case | issued | issued and untrue | |"
    yield "|---|---|---|---|"
    for row in rows:
        kept = "kept" if row.passes() else "broken"
        yield f"| {row.case} | {row.issued} | {row.false} | {kept} |"


def look_table(rows: list[looks.FalsePasses]) -> Iterator[str]:
    yield f"### Gates looked at {looks.LOOKS} times, {rows[0].repeats:,} repeats each"
    yield ""
    yield "| gate, at its bound | wrong passes | the same at 95 % each time | |"
    yield "|---|---|---|---|"
    for row in rows:
        kept = "kept" if row.passes() else "broken"
        shares = f"{row.planned / row.repeats:.2%} | {row.unplanned / row.repeats:.2%}"
        yield f"| {row.case} | {shares} | {kept} |"


def plan_table(rows: Iterable[pipelines.Kept]) -> Iterator[str]:
    """Yield each line as soon as its case is done."""
    for place, row in enumerate(rows):
        if not place:
            yield f"### Cheapest plans at 95 %, {row.repeats:,} repeats each"
            yield ""
            yield "| case | plans compared | with a judge | learned | misses its goal | saved | |"
            yield "|---|---|---|---|---|---|---|"
        kept = "kept" if row.passes() else "broken"
        shares = f"{row.recommended / row.repeats:.0%} | {row.learned / row.repeats:.0%}"
        shares += f" | {row.broken / row.repeats:.1%}"
        yield f"| {row.case} | {row.plans:,} | {shares} | {row.saved:.0%} | {kept} |"


def sureness_table(rows: list[instruments.Sureness]) -> Iterator[str]:
    yield f"### Models of votes, {rows[0].repeats:,} repeats each: how often right, and how sure"
    yield ""
    yield (
        "| setting | majority right | Dawid–Skene right | sure | hierarchical right | sure "
        "| error of a skill, Dawid–Skene | hierarchical | |"
    )
    yield f"|{'---|' * 9}"
    for row in rows:
        pairs = zip(row.right, row.sure, strict=True)
        cells = " | ".join(f"{right:.1%} | {sure:.1%}" for right, sure in pairs)
        errors = " | ".join(f"{one:.3f}" for one in row.skill_error)
        kept = "kept" if row.passes() else "broken"
        yield f"| {row.setting} | {row.majority:.1%} | {cells} | {errors} | {kept} |"


def bar_table(rows: list[bars.Gain]) -> Iterator[str]:
    yield f"### Learned routing against BPDE, {rows[0].repeats:,} repeats each"
    yield ""
    yield "| setting | learned used | AUROC above BPDE's | standard error | |"
    yield "|---|---|---|---|---|"
    for row in rows:
        kept = "kept" if row.passes() else "broken"
        gain = f"{row.gain:+.3f} | {row.standard_error:.3f}"
        yield f"| {row.setting} | {row.used:.0%} | {gain} | {kept} |"


def two_stage_table(rows: list[two_stage.Kept]) -> Iterator[str]:
    names = list(two_stage.INTERVALS)
    yield f"### Rounds that learn, {rows[0].repeats:,} repeats each: coverage, and certificates"
    yield ""
    yield f"| setting | learned used | {' | '.join(names)} | issued | issued and untrue | |"
    yield f"|{'---|' * (len(names) + 5)}"
    for row in rows:
        covered = " | ".join(f"{row.covered[name]:.1%}" for name in names)
        kept = "kept" if row.passes() else "broken"
        cells = f"{row.setting} | {row.used:.0%} | {covered} | {row.issued:.1%} | {row.false:.1%}"
        yield f"| {cells} | {kept} |"


if __name__ == "__main__":
    main()
