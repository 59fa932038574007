"""A gate's decision as text for a terminal, Markdown for a pull request, and JUnit XML for CI."""

import re
from collections.abc import Iterator
from xml.etree import ElementTree

from annotation.results.delivery.drift import Drift
from annotation.results.delivery.gate import Decided, Decision
from judging.core.formatting import decimals, interval, number_of, p_value
from judging.core.text import printable
from judging.methods.intervals.estimates import Estimate, Figure
from judging.methods.intervals.looks import Ruling

MARKS = {Ruling.PASS: "✅ pass", Ruling.FAIL: "❌ fail", Ruling.INCONCLUSIVE: "❔ inconclusive"}
MOST_NAMED = 50
# What Markdown and the HTML in it would act on. An entity has no meaning but its character.
_ACTIVE = re.compile(r"[^\w\s.,%–]", re.ASCII)


def measured(answer: Decided) -> str:
    """Return the value with its interval and n, or why there is none."""
    return figure_text(answer.figure)


def figure_text(figure: Figure) -> str:
    """Return the value with its interval and n, or why there is none."""
    if not isinstance(figure, Estimate):
        return f"no figure: {figure.reason}"
    limits = ""
    if figure.low is not None and figure.high is not None:
        limits = f" [{interval(figure.low, figure.high, 3)}]"
    return f"{decimals(figure.value, 3)}{limits}, n = {figure.n}"


def _because(answer: Decided) -> str:
    """Return the reason, unless the figure's own text gives it."""
    return f" ({answer.reason})" if answer.reason and answer.reason not in measured(answer) else ""


def text_lines(decision: Decision) -> Iterator[str]:
    yield f"{decision.verdict.upper()}: {_about(decision)}"
    for answer in decision.answers:
        yield f"  {answer.verdict:<12} {answer.requirement}: {measured(answer)}{_because(answer)}"
    yield f"  {_look(decision)}"
    if decision.needed is not None:
        yield decision.needed.sentence
        if decision.needed.examples:
            shown = decision.needed.examples[:MOST_NAMED]
            more = len(decision.needed.examples) - len(shown)
            yield f"  {', '.join(shown)}" + (f", and {more} more" if more else "")


def _about(decision: Decision) -> str:
    against = f" against run {decision.other}" if decision.other is not None else ""
    return f"{decision.project}, run {decision.run} ({decision.name}){against}"


def _look(decision: Decision) -> str:
    return (
        f"Look {decision.look}, intervals of {100 * decision.confidence:.4g} %, "
        f"{number_of(decision.examples, 'example')}. All looks together pass wrongly in at most "
        f"{100 * decision.alpha:g} % of cases."
    )


def markdown(decision: Decision) -> str:
    """Return a summary that shows every name as text, whatever it holds."""
    rows = [
        f"| {MARKS[answer.verdict]} | {plain(answer.requirement)} | {plain(measured(answer))}"
        f"{plain(_because(answer))} |"
        for answer in decision.answers
    ]
    parts = [
        f"### {MARKS[decision.verdict]}: {plain(_about(decision))}",
        "",
        "| verdict | required | measured |",
        "|---|---|---|",
        *rows,
        "",
        plain(_look(decision)),
    ]
    needed = decision.needed
    if needed is not None:
        parts += ["", plain(needed.sentence)]
        if needed.examples:
            shown = ", ".join(plain(name) for name in needed.examples[:MOST_NAMED])
            more = len(needed.examples) - MOST_NAMED
            parts += ["", f"Examples: {shown}" + (f", and {more} more" if more > 0 else "")]
    return "\n".join(parts) + "\n"


def drift_lines(drift: Drift) -> Iterator[str]:
    yield from text_lines(drift.decision)
    yield ""
    yield f"Labels that changed: {figure_text(drift.changed)}"
    yield f"Shift of the win rate of response 1: {figure_text(drift.shift)}"
    yield f"Difference of accuracy: {figure_text(drift.accuracy_difference)}"
    yield f"Paired test: p {'not known' if drift.p is None else p_value(drift.p)}"
    for change in drift.by_category:
        p = "not known" if change.p_holm is None else p_value(change.p_holm)
        yield f"  {change.category or '(no category)'}: changed {figure_text(change.changed)}"
        yield f"    shift {figure_text(change.shift)}, adjusted p {p}"


def drift_markdown(drift: Drift) -> str:
    rows = [
        f"| {plain(row.category or '(no category)')} | {row.n} | {plain(figure_text(row.changed))} "
        f"| {plain(figure_text(row.shift))} | {'' if row.p_holm is None else p_value(row.p_holm)} |"
        for row in drift.by_category
    ]
    parts = [
        "",
        "| category | n | labels that changed | shift of the win rate | adjusted p |",
        "|---|---|---|---|---|",
        *rows,
    ]
    return markdown(drift.decision) + "\n".join(parts) + "\n"


def plain(text: str) -> str:
    """Return text that Markdown and HTML show as it is, in one line."""
    line = " ".join(printable(text).split())
    # `\w` lets underscores pass, which Markdown reads as emphasis.
    return _ACTIVE.sub(lambda active: f"&#{ord(active[0])};", line).replace("_", "&#95;")


def junit(decision: Decision) -> str:
    """Return JUnit XML: a requirement is a test case, and an inconclusive one is an error."""
    verdicts = [answer.verdict for answer in decision.answers]
    suite = ElementTree.Element(
        "testsuite",
        name=_xml(_about(decision)),
        tests=str(len(verdicts)),
        failures=str(verdicts.count(Ruling.FAIL)),
        errors=str(verdicts.count(Ruling.INCONCLUSIVE)),
    )
    needed = decision.needed.sentence if decision.needed else ""
    for answer in decision.answers:
        case = ElementTree.SubElement(
            suite, "testcase", classname="fairjudge.gate", name=_xml(answer.requirement)
        )
        message = _xml(f"{measured(answer)}{_because(answer)}")
        if answer.verdict is Ruling.FAIL:
            ElementTree.SubElement(case, "failure", type="fail", message=message)
        elif answer.verdict is Ruling.INCONCLUSIVE:
            problem = ElementTree.SubElement(case, "error", type="inconclusive", message=message)
            problem.text = _xml(needed)
        ElementTree.SubElement(case, "system-out").text = message
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def _xml(text: str) -> str:
    """Replace what XML 1.0 can't hold."""
    return re.sub("[\ud800-\udfff\ufffe\uffff]", "\ufffd", printable(text))
