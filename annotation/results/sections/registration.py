"""Preregistration: what was planned before people voted, and which parts of it were kept.

A plan is text with a hash. Here it is compared with what was done, as far as that is settled.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from annotation.results.data.figures import Data, Json
from annotation.results.sections.analysis import Analysis
from judging.core.formatting import NARROW_SPACE, count, number_of, usd

KEPT, DEVIATED, OPEN = "kept", "deviated", "open"
# Signs of a hash or a seed that a table shows.
_SHOWN = 12
_NO_ROUND = "no round was opened yet"
# What a plan can promise to report.
ANALYSES = {
    "win_rate": "win rate of the models",
    "accuracy": "accuracy of the judge",
    "position": "position bias of the judge",
    "length": "length bias of the judge",
    "review": "what reviewing achieved",
    "certificate": "certificate for unreviewed labels",
    "alt_test": "alternative annotator test",
    "people": "agreement of people",
    "categories": "results by category",
    "models": "comparison of the models",
}


def canonical(document: Json) -> str:
    """Return the text that the hash is over: keys in order, no spaces, no escapes."""
    return json.dumps(document, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def hash_of_plan(text: str) -> str:
    # JSON may hold half of a surrogate pair, which plain UTF-8 refuses to encode.
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True)
class PlannedPart:
    """A part of a plan. state: kept, deviated, or open: there is nothing to compare yet."""

    part: str
    planned: str
    done: str
    state: str


@dataclass(frozen=True)
class RegisteredPlan:
    """One version of the plan, against what was done.

    intact: whether its text still has its hash. votes, judgments: how many there were when it was
    made. parts: what can be compared. kept, deviated: how many of them.
    """

    number: int
    sha256: str
    intact: bool
    made_at: str
    votes: int
    judgments: int
    goal: str
    hypotheses: Sequence[str]
    kept: int
    deviated: int
    parts: Sequence[PlannedPart]

    @property
    def open(self) -> int:
        """Return how many parts have nothing to compare yet."""
        return len(self.parts) - self.kept - self.deviated


@dataclass(frozen=True)
class Registration:
    """All versions of the plan, the newest first."""

    versions: Sequence[RegisteredPlan]


def registration(
    of: Analysis, data: Data, reported: Mapping[str, bool], labelled: int
) -> Registration:
    """Compare each version of the plan with what was done.

    Args:
        data: What `trust.registrations_of` read.
        reported: For each name in ANALYSES, whether the report has a figure for it.
        labelled: Examples that people labelled, or that have known labels.
    """
    done = _Done(of, data.plain["rounds"], reported, labelled)
    return Registration([_version(plan, done) for plan in data.plain["plans"]])


@dataclass(frozen=True)
class _Done:
    of: Analysis
    rounds: Sequence[Json]
    reported: Mapping[str, bool]
    labelled: int


def _version(plan: Json, done: _Done) -> RegisteredPlan:
    document = json.loads(plan["text"])
    existing, planned = document["existing"], document["plan"]
    parts = [_timing(existing), *_parts(planned, done)]
    return RegisteredPlan(
        number=plan["number"], sha256=plan["sha256"],
        intact=hash_of_plan(plan["text"]) == plan["sha256"], made_at=plan["made_at"],
        votes=existing["votes"], judgments=existing["judgments"], goal=planned["goal"],
        hypotheses=planned["hypotheses"], kept=sum(part.state == KEPT for part in parts),
        deviated=sum(part.state == DEVIATED for part in parts), parts=parts,
    )  # fmt: skip


def _timing(existing: Json) -> PlannedPart:
    votes = existing["votes"]
    done = f"{number_of(votes, 'vote')} and {number_of(existing['judgments'], 'judgment')} existed"
    return PlannedPart("Time of the plan", "before people vote", done, DEVIATED if votes else KEPT)


def _parts(planned: Json, done: _Done) -> Iterator[PlannedPart]:
    n = len(done.of.sheet)
    if (examples := planned["examples"]) is not None:
        yield _part("Examples", count(examples), count(n), examples == n)
    yield from _labels(planned, done)
    for name, key, words in _OF_ROUNDS:
        if planned[key] is not None:
            yield _of_rounds(name, planned[key], [round_[key] for round_ in done.rounds], words)
    yield from _templates(planned, done)
    for name in planned["analyses"]:
        # A figure may still come with more labels, so a missing one is no deviation.
        has = done.reported.get(name, False)
        reported = "in the report" if has else "the report has no figure for it yet"
        yield PlannedPart(
            f"Analysis: {ANALYSES.get(name, name)}", "reported", reported, KEPT if has else OPEN
        )


def _labels(planned: Json, done: _Done) -> Iterator[PlannedPart]:
    """Compare the labels that the chosen goal takes with those that there are."""
    sizes = planned["sizes"]
    if sizes is None:
        return
    need = next((goal for goal in sizes["goals"] if goal["goal"] == planned["aim"]), None)
    if need is not None and need["labels"] is not None:
        enough = done.labelled >= need["labels"]
        wanted = f"{count(need['labels'])} for: {need['question']}"
        # More labels may still come, so too few are no deviation yet.
        state = KEPT if enough else OPEN
        yield PlannedPart("Labelled examples", wanted, count(done.labelled), state)


def _templates(planned: Json, done: _Done) -> Iterator[PlannedPart]:
    templates = {template["sha256"]: template["name"] for template in planned["templates"]}
    if not templates:
        return
    used = done.of.run.template_hash
    name = done.of.run.template_name or "none"
    wanted = ", ".join(f"{name} ({_short(sha256)})" for sha256, name in templates.items())
    described = f"{name} ({_short(used)})" if used else "recorded elsewhere, without a template"
    # A judgment that was recorded elsewhere has no template, so none of the planned ones was used.
    yield _part("Judge template", wanted, described, used in templates)


def _of_rounds(
    name: str, planned: Any, values: Sequence[Any], words: Callable[[Any], str]
) -> PlannedPart:
    """Compare a setting of the plan with that of each round."""
    if not values:
        return PlannedPart(name, words(planned), _NO_ROUND, OPEN)
    # Several rounds with the same setting are shown as one. With another setting, the plan wasn't
    # kept.
    done = list(dict.fromkeys("not set" if value is None else words(value) for value in values))
    return _part(name, words(planned), ", ".join(done), done == [words(planned)])


def _part(name: str, planned: str, done: str, is_kept: bool) -> PlannedPart:
    return PlannedPart(name, planned, done, KEPT if is_kept else DEVIATED)


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _share(value: Any) -> str:
    return f"{100 * float(value):g}{NARROW_SPACE}%"


def _percent(value: Any) -> str:
    return _share(float(value) / 100)


def _looks(value: Any) -> str:
    return ", ".join(map(str, value)) or "when the audit is complete"


def _dollars(value: Any) -> str:
    return usd(Decimal(value))


ROUTES = {"bpde": "by BPDE", "learned": "by a learned score"}
# Each with its key in the plan and in the round.
_OF_ROUNDS: tuple[tuple[str, str, Callable[[Any], str]], ...] = (
    ("Share to review (β)", "beta", _percent),
    ("Budget for votes", "budget", _dollars),
    ("Review everything", "everything", lambda value: "yes" if value else "no"),
    ("Ranking of the review", "route", lambda value: ROUTES.get(value, str(value))),
    ("Learning sample", "learn", count),
    ("Audit", "audit", count),
    ("Votes per example", "votes", count),
    ("Largest share of wrong labels (ε)", "epsilon", _share),
    ("Error of the certificate (α)", "alpha", _share),
    ("Audit sizes that are checked", "looks", _looks),
    ("Seed of the round", "seed", str),
    ("Protocol", "protocol", _short),
)
