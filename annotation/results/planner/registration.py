"""Registering a plan before people vote: the document, its hash, and checking a file of it.

A version is never changed. A later one amends it and says which it follows.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal

from django.contrib.auth.models import AbstractUser
from django.db import transaction
from django.utils import timezone

from annotation.models import Preregistration, Round, Vote
from annotation.results.data.figures import Json, to_json
from annotation.results.planner.sizes import GOALS, Study, as_document, needs
from annotation.results.report.page import release
from annotation.results.sections.registration import ANALYSES, ROUTES, canonical, hash_of_plan
from annotation.rounds.opening import ALPHA, EPSILON, MAX_VOTES, current_protocol
from judging.core.bounds import TooLarge, shallow_json
from judging.core.errors import UserError
from judging.core.formatting import count, number_of, percent, usd
from judging.core.text import unstorable
from judging.dataset.models import n_judged
from judging.dataset.subsets import n_known_labels
from judging.llm.prompts.templates import UnknownTemplate, template
from judging.projects.access import next_number, record_event
from judging.projects.models import Project
from judging.runs.models import Run
from judging.runs.templates import current, template_in
from judging.runs.verdicts.judge_figures import n_judgments

FORMAT = "fairjudge-preregistration"
LONGEST, MOST_HYPOTHESES = 4_000, 50
LARGEST_FILE = 1024 * 1024
MOST_EXAMPLES, LARGEST_SEED = 10_000_000, 2**62


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a study promises. None: the plan doesn't say.

    goal, hypotheses: in your words. study, aim: what the sizes are for, and which of them counts.
    beta: percent to review by rank. budget: USD for votes. everything: people label all.
    route, learn: how the review is ranked, and the sample that a learned score learns from.
    epsilon, alpha, looks: of the certificate. seed: of the round. templates: of the judge, by name.
    """

    goal: str
    hypotheses: tuple[str, ...] = ()
    study: Study | None = None
    aim: str = GOALS[0]
    examples: int | None = None
    beta: Decimal | None = None
    budget: Decimal | None = None
    everything: bool = False
    route: str = "bpde"
    learn: int = 0
    audit: int | None = None
    votes: int = 3
    epsilon: float = EPSILON
    alpha: float = ALPHA
    looks: tuple[int, ...] = ()
    seed: int | None = None
    templates: tuple[str, ...] = ()
    analyses: tuple[str, ...] = ()

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield each value that is no plan: its name, and what to change."""
        if not self.goal.strip():
            yield "goal", "Say what the study is to find out."
        for name, texts in (("goal", (self.goal,)), ("hypotheses", self.hypotheses)):
            if any(len(text) > LONGEST for text in texts):
                yield name, f"Write at most {count(LONGEST)} characters."
            if any(unstorable(text) for text in texts):
                yield name, "The text holds a character that can't be stored. Remove it."
        if len(self.hypotheses) > MOST_HYPOTHESES:
            yield "hypotheses", f"Write at most {MOST_HYPOTHESES} hypotheses, one a line."
        if [self.beta is not None, self.budget is not None, self.everything].count(True) > 1:
            yield "beta", "Choose one of a share, a budget, and everything."
        if self.beta is not None and not 0 <= self.beta <= 100:
            yield "beta", "Enter a share from 0 to 100 %."
        if self.budget is not None and not 0 < self.budget <= 10**9:
            yield "budget", "Enter an amount of more than 0."
        if self.examples is not None and not 1 <= self.examples <= MOST_EXAMPLES:
            yield "examples", f"Enter a number from 1 to {count(MOST_EXAMPLES)}."
        if not 1 <= self.votes <= MAX_VOTES:
            yield "votes", f"Votes per example must be between 1 and {MAX_VOTES}."
        for name in ("audit", "learn"):
            if not 0 <= (getattr(self, name) or 0) <= MOST_EXAMPLES:
                yield name, f"Enter a number from 0 to {count(MOST_EXAMPLES)}."
        for name in ("epsilon", "alpha"):
            if not 0 < getattr(self, name) < 1:
                yield name, "Enter a share between 0 and 1."
        if not all(a < b for a, b in zip((0, *self.looks), self.looks, strict=False)):
            yield "looks", "Enter audit sizes as whole numbers, each larger than the one before."
        if self.seed is not None and not 0 <= self.seed <= LARGEST_SEED:
            yield "seed", f"Enter a number from 0 to {LARGEST_SEED}."
        if self.route not in ROUTES:
            yield "route", f"Choose one of {', '.join(ROUTES)}."
        if self.aim not in GOALS:
            yield "aim", f"Choose one of {', '.join(GOALS)}."
        if unknown := [asked for asked in self.analyses if asked not in ANALYSES]:
            yield "analyses", f"There is no analysis {unknown[0]}. Known: {', '.join(ANALYSES)}."


def register(project: Project, user: AbstractUser | None, plan: Plan) -> Preregistration:
    """Store the plan with its hash, and say how many votes and judgments there were by then.

    Raises:
        UserError: A value is no plan, or a template isn't there. Nothing is stored.
    """
    for name, why in plan.problems():
        raise UserError(f"{name}: {why} Nothing was registered.")
    with transaction.atomic():
        # The number locks the project, so that two versions never follow the same one.
        number = next_number(project, Preregistration)
        before = Preregistration.objects.filter(project=project).order_by("-number").first()
        now = timezone.now()
        text = canonical(
            {
                "format": FORMAT,
                "version": 1,
                "project": project.slug,
                "number": number,
                "amends": before.sha256 if before else None,
                "made_at": now.isoformat(),
                "fairjudge": release(),
                "existing": existing(project),
                "plan": _planned(project, plan),
            }
        )
        made = Preregistration.objects.create(
            project=project, number=number, text=text, sha256=hash_of_plan(text), made_at=now,
            made_by=user,
        )  # fmt: skip
        # The number in the document, which another vote in the meantime can't change.
        votes = json.loads(text)["existing"]["votes"]
        record_event(
            project, user, "plan registered", f"version {number}", sha256=made.sha256, votes=votes
        )
    return made


def existing(project: Project) -> Json:
    """Return what the project has now, which tells whether a plan is early enough."""
    return {
        "examples": n_judged(project.pk),
        "known_labels": n_known_labels(project),
        # Votes that were put aside count as well: somebody may have seen them before the plan was
        # made.
        "votes": Vote.every.filter(protocol__project=project).count(),
        "judgments": n_judgments(project),
        "ranked_runs": Run.objects.filter(project=project, ranked_at__isnull=False).count(),
        # Practice and qualification tell nothing about the project's examples.
        "rounds": Round.every.filter(project=project).exclude(kind__in=Round.PRACTICE).count(),
    }


def _planned(project: Project, plan: Plan) -> Json:
    # Sizes are for the examples of the plan, unless the study itself names a number.
    study = plan.study and replace(plan.study, examples=plan.study.examples or plan.examples)
    sizes = to_json(as_document(study, needs(study), None)) if study else None
    if sizes:
        # `existing` says whether a judge had been measured by then.
        del sizes["measured"]
    return {
        "goal": plan.goal.strip(),
        "hypotheses": [hypothesis.strip() for hypothesis in plan.hypotheses],
        "sizes": sizes,
        "aim": plan.aim if study else None,
        "examples": plan.examples,
        "beta": None if plan.beta is None else f"{plan.beta.normalize():f}",
        "budget": None if plan.budget is None else f"{plan.budget.normalize():f}",
        "everything": plan.everything or None,
        "route": plan.route if plan.beta is not None or plan.budget is not None else None,
        "learn": plan.learn or None,
        "audit": plan.audit,
        "votes": plan.votes,
        "epsilon": plan.epsilon if plan.audit else None,
        "alpha": plan.alpha if plan.audit else None,
        "looks": list(plan.looks) if plan.audit else None,
        "seed": plan.seed,
        "protocol": current_protocol(project).digest,
        "templates": [_template(project, name) for name in plan.templates],
        "analyses": list(plan.analyses),
    }


def _template(project: Project, name: str) -> Json:
    own = current(project, name)
    try:
        return {"name": name, "sha256": (template_in(own) if own else template(name)).sha256}
    except UnknownTemplate as error:
        raise UserError(f"templates: {error} Nothing was registered.") from None


def versions(project: Project) -> list[Preregistration]:
    """Return all versions of the plan, the newest first."""
    return list(project.preregistrations.select_related("made_by").order_by("-number"))


def rests_on_judge(made: Preregistration) -> bool:
    """Return True if its sizes may tell what a run of this project had measured."""
    document = json.loads(made.text)
    return document["plan"]["sizes"] is not None and document["existing"]["ranked_runs"] > 0


def as_file(made: Preregistration) -> Json:
    """Return what a file of it holds: the document and its hash."""
    return {"preregistration": json.loads(made.text), "sha256": made.sha256}


@dataclass(frozen=True)
class CheckedFile:
    """holds: the document has the hash that its file names. sha256: what it has.

    stored: the version of the project with this hash; None if the project has none.
    """

    holds: bool
    sha256: str
    stored: Preregistration | None
    sentence: str


def check_file(content: bytes | str, project: Project | None = None) -> CheckedFile:
    """Say whether nobody changed a preregistration file, and which version of the project it is.

    Raises:
        UserError: The file is no preregistration.
    """
    if len(content) > LARGEST_FILE:
        raise UserError("This file is too large for a preregistration. Nothing was checked.")
    try:
        sent = shallow_json(content)
        document, named = sent["preregistration"], sent["sha256"]
        if document["format"] != FORMAT:
            raise ValueError
    # Whatever shape the file has, the answer is the same: it is no preregistration.
    except (LookupError, RecursionError, TooLarge, TypeError, ValueError):
        raise UserError("This file is no preregistration of FairJudge.") from None
    # Canonical text, since a file may have been indented or its keys sorted without any change of
    # the plan.
    sha256 = hash_of_plan(canonical(document))
    holds = sha256 == named
    stored = None
    if project is not None and holds:
        # Found by its content, so that a file with another number is still recognised.
        stored = project.preregistrations.filter(sha256=sha256).first()
    if not holds:
        sentence = "The file was changed: its content does not have the hash that it names."
    elif project is None:
        sentence = (
            "The content has the hash that the file names. A project or a deposit elsewhere shows "
            "whether it is the one that was registered."
        )
    elif stored is None:
        sentence = "The content has its hash, but this project has no version with it."
    else:
        at = stored.made_at.strftime("%Y-%m-%d %H:%M UTC")
        sentence = f"The file is version {stored.number} of this project, registered {at}."
    return CheckedFile(holds, sha256, stored, sentence)


def as_markdown(made: Preregistration) -> str:
    """Return the plan for people to read, and to deposit with its hash."""
    document = json.loads(made.text)
    plan, there = document["plan"], document["existing"]
    lines = [
        f"# Preregistration of {_plain(document['project'])}, version {made.number}",
        "",
        f"- Registered: {document['made_at']} by FairJudge {document['fairjudge']}",
        f"- SHA-256: `{made.sha256}`",
    ]
    if document["amends"]:
        lines.append(f"- Amends: `{document['amends']}`")
    lines += [
        f"- At that time: {number_of(there['votes'], 'vote')}, "
        f"{number_of(there['judgments'], 'judgment')} and {number_of(there['rounds'], 'round')}",
        "", "## Goal", "", _plain(plan["goal"]), "",
    ]  # fmt: skip
    if plan["hypotheses"]:
        lines += ["## Hypotheses", ""]
        lines += [f"{n}. {_plain(text)}" for n, text in enumerate(plan["hypotheses"], 1)]
        lines.append("")
    lines += ["## Plan", "", "| Part | Planned |", "|---|---|"]
    lines += [f"| {name} | {_plain(value)} |" for name, value in described(plan)]
    if (sizes := plan["sizes"]) is not None:
        lines += ["", "## Labels that each goal needs", "", "| Goal | Labelled examples | Cost |",
                  "|---|---|---|"]  # fmt: skip
        for need in sizes["goals"]:
            labels = need["reason"] if need["labels"] is None else count(need["labels"])
            cost = "–" if need["usd"] is None else usd(Decimal(need["usd"]))
            chosen = " (the aim)" if need["goal"] == plan["aim"] else ""
            lines.append(f"| {_plain(need['question'])}{chosen} | {labels} | {cost} |")
    return "\n".join([*lines, ""])


def _plain(text: str) -> str:
    """Return text by people as one line that begins no structure of Markdown."""
    return " ".join("".join(f"\\{sign}" if sign in _MARKUP else sign for sign in text).split())


_MARKUP = "\\`*_{}[]<>#|~!&"


def described(plan: Json) -> Iterator[tuple[str, str]]:
    """Yield each part of a stored plan with what it says, for people."""
    rows = [
        ("Examples", plan["examples"] and count(plan["examples"])),
        ("Review by rank", plan["beta"] and f"{plan['beta']} %"),
        ("Budget for votes", plan["budget"] and usd(Decimal(plan["budget"]))),
        ("Review everything", plan["everything"] and "yes"),
        ("Ranking", ROUTES.get(plan["route"], plan["route"])),
        ("Learning sample", plan["learn"] and count(plan["learn"])),
        ("Audit", None if plan["audit"] is None else number_of(plan["audit"], "example")),
        ("Largest share of wrong labels", plan["epsilon"] and percent(plan["epsilon"], 1)),
        ("Error of the certificate", plan["alpha"] and percent(plan["alpha"], 1)),
        ("Audit sizes that are checked", plan["looks"] and ", ".join(map(str, plan["looks"]))),
        ("Votes per example", count(plan["votes"])),
        ("Seed of the round", None if plan["seed"] is None else str(plan["seed"])),
        ("Protocol (SHA-256)", plan["protocol"]),
        *(("Judge template", f"{asked['name']}, {asked['sha256']}") for asked in plan["templates"]),
        ("Analyses", ", ".join(ANALYSES.get(name, name) for name in plan["analyses"])),
    ]
    yield from ((name, value) for name, value in rows if value)
