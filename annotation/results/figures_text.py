"""A run's figures as plain lines, for commands and for the page of a real job in the docs."""

from collections.abc import Iterator

from annotation.results.analysis import Analysis
from annotation.results.figures import Json
from annotation.results.review import HonestLines
from annotation.results.rightness import Agreement
from annotation.results.tables import cost_table
from judging.figures import count, decimals, interval, number_of, p_value, percent
from judging.methods.estimates import Estimate, Figure, Undefined
from judging.methods.hitlc import ErrorsFound

_NAME = 46


def figure(found: Figure | Json, digits: int = 3) -> str:
    """`.732 [.69–.77], n = 80`, or the reason why there is no number."""
    if isinstance(found, dict):
        reason = found.get("reason")
        given = (found["value"], found.get("n"), found.get("low"), found.get("high"))
        found = Undefined(reason) if reason else Estimate(*given)
    if isinstance(found, Undefined):
        return f"– ({found.reason})"
    text = decimals(found.value, digits)
    if found.low is not None and found.high is not None:
        text += f" [{interval(found.low, found.high, digits)}]"
    return f"{text}, n = {count(found.n)}"


def report_lines(analysis: Analysis) -> Iterator[str]:
    """Coverage, agreement before and after, the honest lines, position and cost."""
    sheet = analysis.sheet
    yield _line("examples", count(len(sheet)))
    yield _line(
        "samples", ", ".join(f"{count(n)} {name}" for name, n in analysis.statuses.items() if n)
    )
    yield _line("coverage: examples with a judge's label", figure(analysis.coverage))
    yield _line("judge's labels", _counts(analysis.shares))
    yield from _agreement("judge alone, against people", analysis.before())
    yield from _agreement("final labels, against people", analysis.after())
    yield from _honest(analysis.lines(), analysis.audited)
    yield _line("BPDE finds the judge's errors: AUROC", figure(analysis.finds_errors))
    if analysis.no_better_than_chance:
        yield "  On this judge BPDE finds errors no better than chance."
    yield from _position(analysis)
    yield ""
    yield from cost_table(analysis.costs)


def _agreement(name: str, found: Agreement) -> Iterator[str]:
    yield _line(f"{name}: accuracy", figure(found.accuracy))
    yield _line("  over all, without a label = not right", figure(found.over_all))
    yield _line("  Cohen's kappa", figure(found.kappa))


def _honest(lines: HonestLines | Undefined, audited: int) -> Iterator[str]:
    if isinstance(lines, Undefined):
        yield _line("what the review bought", f"– ({lines.reason})")
        return
    yield f"people reviewed {number_of(lines.m, 'example')}; these are right by construction:"
    beside = f", the {count(audited)} audited aside" if audited else ""
    yield _line(f"  accuracy after the review{beside}", figure(lines.accuracy))
    yield _line("  (a) accuracy on the part nobody reviewed", figure(lines.unreviewed))
    errors = lines.errors
    if isinstance(errors, ErrorsFound):
        found = f"{errors.found:g} of {count(errors.m)}, {errors.expected:.1f} expected by random "
        found += f"choice, one-sided p {p_value(errors.p)}"
        yield _line("  (b) errors found among those reviewed", found)
    else:
        yield _line("  (b) errors found among those reviewed", f"– ({errors.reason})")
    yield _line("  (c) accuracy of a random choice as large", figure(lines.random))
    yield _line("      gain over random", _signed(lines.gain))


def _position(analysis: Analysis) -> Iterator[str]:
    found = analysis.position
    yield _line("conflict rate between the orders", figure(found["conflict_rate"]))
    yield _line("  strict: win against lose", figure(found["strict_conflict_rate"]))
    yield _line("first position preferred, where one is", figure(found["first_position_rate"]))
    yield _line("position effect", figure(found["position_effect"]))
    yield _line("repetition stability", figure(found["repetition_stability"]))


def _signed(found: Figure) -> str:
    if isinstance(found, Estimate) and found.low is None:
        return decimals(found.value, 3, signed=True)
    return figure(found)


def _counts(shares: dict[str, int]) -> str:
    total = sum(shares.values())
    return ", ".join(
        f"{count(n)} {name} ({percent(n / total if total else None)})" for name, n in shares.items()
    )


def _line(name: str, value: str) -> str:
    return f"{name.ljust(_NAME)} {value}"
