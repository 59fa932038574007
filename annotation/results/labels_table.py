"""The labels export: one row an example, with all that is needed to merge it again."""

from collections.abc import Iterator
from typing import Any

from annotation.models import Annotator, RoutingScores
from annotation.results.merging import Merged, merged
from judging.models.projects import Project
from judging.models.runs import Run

COLUMNS = (
    "external_id", "question", "response_1", "response_2", "model_1", "model_2", "category",
    "gold_label", "run", "judge_label", "score_1", "score_2", "bpde", "rank", "routing_score",
    "n_valid", "n_asked", "selection", "probability", "votes_win", "votes_tie", "votes_lose",
    "n_votes", "human_label", "final_label", "source", "rule", "adjudicator", "judge_usd",
    "human_usd",
)  # fmt: skip


def label_rows(project: Project, run: Run | None, *, names: bool) -> Iterator[dict[str, Any]]:
    """Every example in import order. Without `names` a deciding person is a pseudonym."""
    people = Annotator.objects.filter(project=project, user__isnull=False)
    pseudonyms = {one.user.username: one.pseudonym for one in people.select_related("user")}
    learned = _learned_scores(run)
    for one in merged(project, run):
        row = _row(one, run, pseudonyms, names=names)
        if one.example.pk in learned:
            row["routing_score"] = learned[one.example.pk]
        yield row


def _learned_scores(run: Run | None) -> dict[int, float]:
    """By example, what the newest round of the run that learned went by."""
    kept = RoutingScores.objects.filter(round__run=run).order_by("-round__number").first()
    if run is None or kept is None:
        return {}
    return dict(zip(kept.examples, kept.scores, strict=True))


def _row(
    one: Merged, run: Run | None, pseudonyms: dict[str, str], *, names: bool
) -> dict[str, Any]:
    example, verdict, people = one.example, one.verdict, one.people
    counts = people.counts if people and people.votes else {}
    decider = people.adjudicator if people else ""
    if decider and not names:
        decider = pseudonyms.get(decider, "manager")
    row = {name: getattr(example, name) for name in COLUMNS[:8]}
    row |= {
        "run": run.name if run else None,
        "selection": people.selection if people else None,
        "probability": people.probability if people else None,
        "votes_win": counts.get("win"),
        "votes_tie": counts.get("tie"),
        "votes_lose": counts.get("lose"),
        "n_votes": people.n_votes if people else 0,
        "human_label": one.human_label,
        "final_label": one.label,
        "source": one.source,
        "rule": one.rule,
        "adjudicator": decider or None,
        "human_usd": one.human_usd,
    }
    if verdict is not None:
        row |= {
            "judge_label": verdict.label,
            "score_1": verdict.cs_1,
            "score_2": verdict.cs_2,
            "bpde": verdict.bpde,
            "rank": verdict.rank,
            "routing_score": verdict.routing_score,
            "n_valid": verdict.n_valid,
            "n_asked": verdict.n_asked,
            "judge_usd": verdict.usd,
        }
    return row
