"""What a model of votes makes of all votes of a project: which label is right, and how surely.

The project's `label_rule` says whether these labels are final; `final_labels` asks here. Votes are
read each time, and the fit is kept until one of them changes.
"""

import hashlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from annotation.models import Selection, Slot
from annotation.queue.settling import counted_slots
from annotation.votes.agreement import SIGN
from judging.core.caching import cached
from judging.methods.agreement.skills import CastVotes, dawid_skene, hierarchical
from judging.methods.arrays import Codes, Floats
from judging.methods.intervals.estimates import Undefined
from judging.projects.models import Project

MODELS: dict[str, Any] = {
    Project.LabelRule.DAWID_SKENE: dawid_skene,
    Project.LabelRule.HIERARCHICAL: hierarchical,
}
# The probabilities of win, tie and lose for an example under a protocol.
Posterior = tuple[float, float, float]
NO_VOTES = Undefined("no vote that counts was given yet")


@dataclass(frozen=True)
class Posteriors:
    """rule: the model. reason: why there are none, if there are none."""

    rule: str
    reason: str = ""
    kept: dict[tuple[int, int], Posterior] = field(default_factory=dict)

    def of(self, example: int, protocol: int) -> Posterior | None:
        return self.kept.get((example, protocol))


def posteriors(project: Project, rule: str) -> Posteriors:
    """Fit a model to the votes that count, whatever round they are in. One query.

    An example that was voted on under two protocols is two examples, and its voters have the same
    skill in both. Attention checks and practice are left out.

    Args:
        rule: A key of `MODELS`.
    """
    asked, votes = _read(project)
    if votes is None:
        return Posteriors(rule, NO_VOTES.reason)
    digest = hashlib.sha256(rule.encode())
    for column in (asked, votes.example, votes.rater, votes.label):
        # One type on every machine, so that equal votes have equal bytes.
        digest.update(np.ascontiguousarray(column, dtype=np.int64).tobytes())
    fitted = cached(f"posteriors-{rule}", project, digest.hexdigest(), lambda: _fit(votes, rule))
    if isinstance(fitted, Undefined):
        return Posteriors(rule, fitted.reason)
    keys = map(tuple, asked.tolist())
    return Posteriors(rule, kept=dict(zip(keys, map(tuple, fitted.tolist()), strict=True)))


def _fit(votes: CastVotes, rule: str) -> Floats | Undefined:
    fitted = MODELS[rule](votes)
    return fitted if isinstance(fitted, Undefined) else np.asarray(fitted.posterior)


def _read(project: Project) -> tuple[Codes, CastVotes | None]:
    """Return (N, 2) the keys of examples and protocols, and the votes on them."""
    slots = counted_slots(
        Slot.objects.filter(round__project=project), leave_out=project.leave_out_unblinded
    )
    rows = (
        slots.exclude(item__selection__kind=Selection.Kind.CHECK)
        .filter(vote__is_practice=False)
        .order_by("item__example", "round__protocol", "vote__annotator")
        .values_list("item__example", "round__protocol", "vote__annotator", "vote__label")
        # A vote that counts in several rounds is in a slot of each, and is one vote to the model.
        .distinct()
    )
    table_rows = [(*keys, 1 - SIGN[label]) for *keys, label in rows.iterator(chunk_size=2000)]
    if not table_rows:
        return np.zeros((0, 2), np.intp), None
    table = np.array(table_rows, dtype=np.intp)
    # Sorted by example and protocol, which is the order that the votes come in.
    asked, example = np.unique(table[:, :2], axis=0, return_inverse=True)
    raters, rater = np.unique(table[:, 2], return_inverse=True)
    votes = CastVotes(example.reshape(-1), rater, table[:, 3], len(asked), len(raters))
    return asked, votes
