"""Labels and costs as plain text, for commands."""

from collections import Counter
from collections.abc import Iterable, Iterator

from annotation.results.costs import Costs
from annotation.results.merging import Merged
from judging.figures import count, number_of, usd

_WIDTH = 22


def label_table(rows: Iterable[Merged]) -> Iterator[str]:
    """One line an example, and the counts of the final labels below."""
    header = ("example", "judge", "CS 1", "CS 2", "BPDE", "rank", "votes", "final", "source")
    yield _line(header)
    finals: Counter[str] = Counter()
    for one in rows:
        verdict = one.verdict
        judged = verdict is not None and verdict.cs_1 is not None
        votes = one.people.counts if one.people and one.people.votes else {}
        finals[one.label or "none"] += 1
        yield _line(
            (
                one.example.external_id,
                (verdict.label if verdict else None) or "–",
                f"{verdict.cs_1:.2f}" if judged else "–",
                f"{verdict.cs_2:.2f}" if judged else "–",
                f"{verdict.bpde:.3f}" if judged else "–",
                str(verdict.rank or "–") if verdict else "–",
                "-".join(str(votes[label]) for label in ("win", "tie", "lose")) if votes else "–",
                one.label or "–",
                one.source,
            )
        )
    yield "final labels: " + ", ".join(f"{count(n)} {label}" for label, n in sorted(finals.items()))


def cost_table(costs: Costs) -> Iterator[str]:
    """Judge, people, together, and everything by hand."""
    yield f"judge                                {usd(costs.judge_usd)}"
    yield f"people ({number_of(costs.n_votes, 'vote')})".ljust(37) + usd(costs.human_usd)
    yield f"together                             {usd(costs.total_usd)}"
    if costs.paper_usd is not None:
        yield f"as the paper counts it               {usd(costs.paper_usd)}"
    yield f"everything by hand, one vote each    {usd(costs.by_hand_one)}"
    if costs.votes_an_example == 1:
        return
    same = f"everything by hand, {costs.votes_an_example} votes each".ljust(37)
    yield same + usd(costs.by_hand_same)


def _line(cells: tuple[str, ...]) -> str:
    first, *others = cells
    name = first if len(first) <= _WIDTH else first[: _WIDTH - 1] + "…"
    return name.ljust(_WIDTH) + " ".join(cell.rjust(7) for cell in others)
