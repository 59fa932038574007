"""Labels and costs as plain text, for commands."""

from collections import Counter
from collections.abc import Iterable, Iterator

from annotation.results.data.runs import Costs
from annotation.results.merge.final_labels import Merged
from annotation.results.report.report import PeopleAlone
from annotation.results.sections.analysis import Analysis
from annotation.results.sections.disagreement import DisagreementFigures, disagreement
from annotation.results.sections.review import LabelAgreement, ReviewGain
from annotation.results.sections.skills import NoiseFigures, SkillFigures, noise
from judging.core.formatting import count, decimals, interval, number_of, p_value, percent, usd
from judging.methods.intervals.estimates import Estimate, Figure, Undefined
from judging.methods.review.curve import ErrorsFound

_WIDTH = 22


def label_table(rows: Iterable[Merged]) -> Iterator[str]:
    """Yield one line per example, then the counts of the final labels."""
    header = ("example", "judge", "CS 1", "CS 2", "BPDE", "rank", "votes", "final", "source")
    yield _line(header)
    finals: Counter[str] = Counter()
    for row in rows:
        verdict = row.verdict
        judged = verdict is not None and verdict.cs_1 is not None
        votes = row.people.counts if row.people and row.people.votes else {}
        # An example without a final label is counted as well, so that the counts add up to all
        # examples.
        finals[row.label or "none"] += 1
        yield _line(
            (
                row.example.external_id,
                (verdict.label if verdict else None) or "–",
                f"{verdict.cs_1:.2f}" if judged else "–",
                f"{verdict.cs_2:.2f}" if judged else "–",
                f"{verdict.bpde:.3f}" if judged else "–",
                str(verdict.rank or "–") if verdict else "–",
                "-".join(str(votes[label]) for label in ("win", "tie", "lose")) if votes else "–",
                row.label or "–",
                row.source,
            )
        )
    yield "final labels: " + ", ".join(f"{count(n)} {label}" for label, n in sorted(finals.items()))


def cost_table(costs: Costs) -> Iterator[str]:
    """Yield the cost of the judge, of people, of both, and of labelling everything by hand."""
    yield f"judge                                {usd(costs.judge_usd)}"
    yield f"people ({number_of(costs.n_votes, 'vote')} in rounds)".ljust(37) + usd(costs.human_usd)
    yield f"total                                {usd(costs.total_usd)}"
    if costs.paper_usd is not None:
        yield f"as the paper counts it               {usd(costs.paper_usd)}"
    yield f"everything by hand, one vote each    {usd(costs.by_hand_one)}"
    # With one vote, the two prices would be the same.
    if costs.votes_an_example == 1:
        return
    same = f"everything by hand, {costs.votes_an_example} votes each".ljust(37)
    yield same + usd(costs.by_hand_same)


def _line(cells: tuple[str, ...]) -> str:
    first, *others = cells
    name = first if len(first) <= _WIDTH else first[: _WIDTH - 1] + "…"
    return name.ljust(_WIDTH) + " ".join(cell.rjust(7) for cell in others)


_NAME = 46


def figure(estimate: Figure, digits: int = 3) -> str:
    """`.732 [.69–.77], n = 80`, or the reason why there is no number."""
    if isinstance(estimate, Undefined):
        return f"– ({estimate.reason})"
    text = decimals(estimate.value, digits)
    if estimate.low is not None and estimate.high is not None:
        text += f" [{interval(estimate.low, estimate.high, digits)}]"
    return f"{text}, n = {count(estimate.n)}"


def report_lines(analysis: Analysis) -> Iterator[str]:
    """Coverage, agreement before and after, what a review gained, position and cost."""
    sheet = analysis.sheet
    about = f", {analysis.about}" if analysis.about else ""
    yield _figures_text_line("examples", count(len(sheet)) + about)
    yield _figures_text_line(
        "samples", ", ".join(f"{count(n)} {name}" for name, n in analysis.statuses.items() if n)
    )
    yield _figures_text_line("coverage: examples with a judge's label", figure(analysis.coverage))
    yield _figures_text_line("judge's labels", _counts(analysis.shares))
    yield from _agreement("judge alone, against people", analysis.before())
    yield from _agreement("final labels, against people", analysis.after())
    yield from _review_gain(analysis.lines(), analysis.audited)
    yield _figures_text_line("BPDE finds the judge's errors: AUROC", figure(analysis.finds_errors))
    if analysis.no_better_than_chance:
        yield "  BPDE finds this judge's errors no better than chance."
    yield from _position(analysis)
    yield from _noise(noise(analysis))
    yield from _disagreement(disagreement(analysis))
    yield ""
    yield from cost_table(analysis.costs)


def people_lines(alone: PeopleAlone) -> Iterator[str]:
    """Yield what people alone say: their labels, how they agree, and what they cost."""
    yield _figures_text_line("examples", count(alone.examples))
    yield _figures_text_line("examples with votes", count(alone.voted))
    yield _figures_text_line("people's labels", _counts(dict(alone.labels)))
    yield _figures_text_line("  voted on, without a label so far", count(alone.undecided))
    people = alone.people
    yield _figures_text_line("pairs of votes that agree", figure(people.agreement))
    yield _figures_text_line("  Fleiss' kappa", figure(people.fleiss_kappa))
    yield _figures_text_line("  Krippendorff's alpha", figure(people.krippendorff_alpha))
    yield _figures_text_line("  Gwet's AC1", figure(people.gwet_ac1))
    yield from _skills(alone.skills)
    if alone.unblinded.sentence:
        yield alone.unblinded.sentence
    yield ""
    yield from cost_table(alone.cost)


def _noise(figures: NoiseFigures | Undefined) -> Iterator[str]:
    if not isinstance(figures, Undefined):
        yield _figures_text_line("judge and one vote agree", figure(figures.with_one_vote))
        yield _figures_text_line("  without people's noise", figure(figures.corrected))
        yield _figures_text_line("  disagreement that is people's noise", figure(figures.share))


def _disagreement(figures: DisagreementFigures | Undefined) -> Iterator[str]:
    """Yield what explains disagreements, and the groups with more gaps than chance gives."""
    if isinstance(figures, Undefined):
        return
    apart = f"{count(figures.n)} of {count(figures.labelled)}"
    yield _figures_text_line("judge and people disagree on", apart)
    for part in figures.parts:
        yield _figures_text_line(f"  {NAMES[part.source]}", figure(part.share))
    for gap in figures.gaps:
        if gap.shown:
            numbers = f"{count(gap.gaps)} of {count(gap.inside)}, {p_value(gap.p_holm)}"
            yield _figures_text_line(f"  gaps in {gap.kind} {gap.value or '(none)'}", numbers)
    if not isinstance(figures.effect, Undefined):
        yield _figures_text_line("  change by the new protocol", figure(figures.effect.change))


# Short, for a line of text.
NAMES = {
    "judge_noise": "the judge's noise",
    "position": "position",
    "pull": "length or likelihood",
    "people_noise": "people's noise",
    "rest": "not explained",
}


def _skills(skills: SkillFigures | Undefined) -> Iterator[str]:
    if isinstance(skills, Undefined):
        return
    alpha = "  Krippendorff's alpha, for other annotators too"
    yield _figures_text_line(alpha, figure(skills.two_way_alpha))
    for annotator in skills.annotators:
        yield _figures_text_line(f"skill of {annotator.annotator}", figure(annotator.skill))
    for rule in skills.labels:
        shares = {"win": rule.win, "tie": rule.tie, "lose": rule.lose}
        yield _figures_text_line(f"labels by the {rule.name} rule", _counts(shares))


def _agreement(name: str, agreement: LabelAgreement) -> Iterator[str]:
    yield _figures_text_line(f"{name}: accuracy", figure(agreement.accuracy))
    yield _figures_text_line(
        "  over all examples (no label = wrong)", figure(agreement.accuracy_over_all)
    )
    yield _figures_text_line("  Cohen's kappa", figure(agreement.kappa))


def _review_gain(lines: ReviewGain | Undefined, audited: int) -> Iterator[str]:
    if isinstance(lines, Undefined):
        yield _figures_text_line("what reviewing achieved", f"– ({lines.reason})")
        return
    yield f"people reviewed {number_of(lines.m, 'example')}, which count as right:"
    without = f", without the {count(audited)} audited" if audited else ""
    yield _figures_text_line(f"  accuracy after the review{without}", figure(lines.accuracy))
    yield _figures_text_line("  (a) accuracy of the unreviewed labels", figure(lines.unreviewed))
    errors = lines.errors
    if isinstance(errors, ErrorsFound):
        words = f"{errors.found:g} of {count(errors.m)}, {errors.expected:.1f} expected at "
        words += f"random, one-sided p {p_value(errors.p)}"
        yield _figures_text_line("  (b) errors found among those reviewed", words)
    else:
        yield _figures_text_line("  (b) errors found among those reviewed", f"– ({errors.reason})")
    yield _figures_text_line("  (c) accuracy after reviewing at random", figure(lines.random))
    yield _figures_text_line("      gain over random", _signed(lines.gain))


def _position(analysis: Analysis) -> Iterator[str]:
    figures = analysis.position
    yield _figures_text_line("conflict rate between the orders", figure(figures.conflict_rate))
    yield _figures_text_line("  strict: win against lose", figure(figures.strict_conflict_rate))
    yield _figures_text_line("prefers the first position", figure(figures.first_position_rate))
    yield _figures_text_line("position effect", figure(figures.position_effect))
    yield _figures_text_line("repetition stability", figure(figures.repetition_stability))


def _signed(estimate: Figure) -> str:
    # The gain has no interval, and its sign is what it says.
    if isinstance(estimate, Estimate) and estimate.low is None:
        return decimals(estimate.value, 3, signed=True)
    return figure(estimate)


def _counts(shares: dict[str, int]) -> str:
    total = sum(shares.values())
    return ", ".join(
        f"{count(n)} {name} ({percent(n / total if total else None)})" for name, n in shares.items()
    )


def _figures_text_line(name: str, value: str) -> str:
    return f"{name.ljust(_NAME)} {value}"
