"""Opening a round: its protocol, the examples that it selects, its items, and its certificate.

A protocol is what people are asked, word for word; it never changes once made. The items of all
selections are in one random order, so that an item's place tells nothing about why it was
selected. What the audit may certify is fixed and stored before the first audit label is given:
choosing it after seeing votes would invalidate the guarantee.
"""

import hashlib
import json
import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from decimal import Decimal
from random import Random
from typing import Any

from django.contrib.auth.models import AbstractUser
from django.db import transaction
from django.db.models import QuerySet

from annotation.models import Annotator, Protocol, Round, RoundWork, Selection, Team
from annotation.people.teams import Whom, seat_whom
from annotation.queue.settling import Advance, no_news
from annotation.rounds import growing
from annotation.rounds.selecting import (
    Drawn,
    Ranked,
    check_audit,
    draw,
    draw_to_learn,
    ranked_examples,
    size_for_beta,
    size_for_budget,
)
from judging.core.errors import UserError
from judging.core.formatting import number_of
from judging.core.leases import collecting_later
from judging.core.text import unstorable
from judging.dataset.models import Example, ExampleQuerySet, frame_of
from judging.dataset.subsets import ALL, Subset, freeze
from judging.methods.review.certificate import CertificatePlan, certificate_plan
from judging.methods.review.cost import HumanRate
from judging.projects.access import need_texts, next_number, record_event
from judging.projects.models import Project
from judging.runs.models import Run, Verdict

MAX_VOTES = 99
# Size of the learning sample if nothing else is chosen.
LEARN = 60
_SEEDS = 2**62
EPSILON, ALPHA = 0.1, 0.05
# More thresholds than these would certify hardly more, and each is tested.
MOST_THRESHOLDS = 200
# The project's settings that make a protocol.
_ASKED = ("question_asked", "guidelines", "scale", "both_bad", "criteria", "rendering")
# Newer ones. Switched off they are left out of the digest, so that the same settings give the same
# protocol as before they existed.
_NEWER = (
    "cant_judge", "hide_models", "show_reference", "ask_confidence", "reason_tags", "ask_spans",
)  # fmt: skip


CHECK_ACTIONS = ("warn", "pause", "stop")
PASS_MARK = Decimal(80)
# A pair that comes again after ten others is hardly remembered.
REPEAT_AFTER = 10
_MOST_TRIES = 20
_MOST_REPEATED, _LONGEST_GAP = 50, 1000
_MOST_CHECK_RULES = 10
LONGEST_CLAUSE, LONGEST_GUIDELINES = 5_000, 100_000
_CHECK_RULE = re.compile(
    r"after\s++(\d{1,6})(?:\s++checks?)?,?\s++below\s++(\d{1,3}(?:\.\d{1,4})?)(?:\s*+%)?"
    r"(?:\s++right)?(?:\s*+[,:])?\s++(\w+)",
    re.ASCII,
)


@dataclass(frozen=True)
class CheckRule:
    """What a round does about a person who fails attention checks.

    after: how many checks they have answered at least.
    below: the percentage of right answers under which the rule acts.
    then: `warn`, `pause`, or `stop`, which also puts the person's votes in the round aside.
    """

    after: int
    below: Decimal
    then: str

    def __str__(self) -> str:
        checks = number_of(self.after, "check")
        return f"after {checks}, below {self.below.normalize():f} % right: {self.then}"

    def is_broken(self, right: int, n: int) -> bool:
        # Multiplied out, since a third of the answers is no exact share.
        return n >= self.after and right * 100 < self.below * n

    @property
    def severity(self) -> int:
        return CHECK_ACTIONS.index(self.then)


def read_check_rules(text: str) -> tuple[CheckRule, ...]:
    """Read rules, one per line or divided by semicolons. Raises UserError that names the one."""
    rules = []
    for part in filter(None, (part.strip() for part in re.split(r"[;\n]", text))):
        match = _CHECK_RULE.fullmatch(part)
        if match is None or match[3] not in CHECK_ACTIONS:
            raise UserError(
                f"“{part[:60]}” isn't a rule. Write it like “after 5 checks, below 60 % right: "
                "stop”, with warn, pause or stop at the end."
            )
        rules.append(CheckRule(int(match[1]), Decimal(match[2]), match[3]))
    return tuple(rules)


@dataclass(frozen=True)
class Practice:
    """A round in which people practise, or show that they can label.

    Its examples are the project's checks for this purpose, and each person gets them once.

    kind: `training`, which tells after each pair whether the answer was right and why, or
        `qualification`, which people pass or not.
    pairs: how many a person gets, in each try; None for all of a training.
    pass_mark: the percentage of right answers that passes, in a qualification.
    tries: how often a person may try, each time with other pairs.
    """

    kind: str
    pairs: int | None = None
    pass_mark: Decimal = PASS_MARK
    tries: int = 1

    @property
    def is_training(self) -> bool:
        return self.kind == Round.Kind.TRAINING

    def passes(self, right: int, n: int) -> bool:
        return self.is_training or right * 100 >= self.pass_mark * n

    def to_store(self) -> dict[str, object]:
        # As text, since JSON has no decimals and 66.6 must come back as 66.6.
        chosen = {"pass_mark": str(self.pass_mark), "tries": self.tries}
        return {"pairs": self.pairs} | ({} if self.is_training else chosen)


def practice_of(round_: Round) -> Practice:
    """Return what a round of this kind was opened with. It never changes."""
    stored = round_.parameters
    return Practice(
        round_.kind,
        stored["pairs"],
        Decimal(stored.get("pass_mark", PASS_MARK)),
        stored.get("tries", 1),
    )


def check_rules_of(round_: Round) -> list[CheckRule]:
    """Return the rules that the round was opened with. They never change."""
    stored = round_.parameters.get("check_rules", ())
    return [CheckRule(rule["after"], Decimal(rule["below"]), rule["then"]) for rule in stored]


@dataclass(frozen=True)
class RoundSettings:
    """What a round is opened with. Give exactly one of `beta`, `budget` and `everything`.

    beta: percent of all examples to select.
    budget: USD for people's votes.
    everything: select every example.
    audit: number of examples drawn at random from those that are not selected.
    partial: the run need not be finished.
    paper_mode: break ties as the paper does, in import order.
    epsilon, alpha, looks: what the audit may certify, with which error, at which of its sizes.
    cite: which win rate the results give to cite.
    practice: what makes it training or a qualification. It then selects by that alone.
    after: the training or the qualification that people pass before they label in this round.
    repeat_percent: how many in 100 of a person's pairs come again, with the sides exchanged.
    repeat_after: after how many others.
    learn: number of examples drawn at random that are labelled first. What they show about the
        judge selects the rest of the cut, in which they count. 0 selects by BPDE at once.
    rate: the cost of a vote in this round, if it isn't the project's.
    annotators, limit, teams, tags, shares: whom the round asks, as `Whom` says.
    check_rules: what is done about people who fail attention checks.
    subset: the part of the run's examples, or of the project's, that the round is about. β, the
        audit and the certificate are about this part.
    clause: added to the guidelines as the round opens. People label all of the part again, under
        the new version of the protocol; earlier votes are kept and don't count in it.
    goal: what the plan that was chosen is to reach, as `annotation.results.planner.ways` reads it.
    """

    beta: Decimal | None = None
    budget: Decimal | None = None
    everything: bool = False
    votes: int = 3
    audit: int = 0
    partial: bool = False
    paper_mode: bool = False
    seed: int | None = None
    annotators: Sequence[Annotator] = ()
    limit: int | None = None
    teams: Sequence[Team] = ()
    tags: Sequence[str] = ()
    shares: Mapping[Annotator, Decimal | int] = field(default_factory=dict)
    epsilon: float = EPSILON
    alpha: float = ALPHA
    looks: tuple[int, ...] = ()
    learn: int = 0
    rate: HumanRate | None = None
    check_rules: tuple[CheckRule, ...] = ()
    subset: Subset = ALL
    cite: str = Round.Cite.NARROWER
    practice: Practice | None = None
    after: Round | None = None
    repeat_percent: int = 0
    repeat_after: int = REPEAT_AFTER
    clause: str = ""
    goal: Mapping[str, object] | None = None

    @property
    def whom(self) -> Whom:
        return Whom(
            tuple(self.teams), tuple(self.tags), tuple(self.annotators), self.limit, self.shares
        )


def open_round(
    project: Project,
    user: AbstractUser | None,
    run: Run | None,
    settings: RoundSettings,
    *,
    advance: Advance = no_news,
    background: bool = False,
    made: Callable[[Round], None] = lambda round_: None,
) -> Round:
    """Select examples, put them in a random order, and open the round.

    The same settings and seed select the same items. Raises UserError that says what to change.

    Args:
        advance: Told how many items were written.
        background: Leave a large round to a worker. Nobody sees it until it is written whole.
        made: Called in the transaction that makes the round. If it raises, there is no round.
    """
    need_texts(project, "People can't label pairs without them.")
    _check(project, run, settings)
    # Drawn here and stored, so that anybody can draw the same items again from the records.
    seed = settings.seed if settings.seed is not None else secrets.randbelow(_SEEDS)
    practice = settings.practice
    frame = freeze(project, settings.subset, within=run.frame if run else None)
    drawn, m = (
        (Drawn([], [], 0, 0), 0)
        if practice
        else _select(project, run, settings, seed, frame.pk if frame else None)
    )
    # The certificate's plan is fixed before the first label. Otherwise chance could choose it.
    check_plan(settings.audit, settings.epsilon, settings.alpha, settings.looks)
    certificate = plan_to_store(run, drawn, settings.epsilon, settings.alpha, settings.looks)
    checks = _checks(project, practice.kind if practice else "")
    with collecting_later(), transaction.atomic():
        if settings.clause:
            _add_clause(project, user, settings.clause)
        round_ = Round.objects.create(
            project=project,
            number=next_number(project, Round),
            kind=practice.kind if practice else Round.Kind.ROUTED,
            after=settings.after,
            repeat_percent=settings.repeat_percent,
            run=run,
            protocol=current_protocol(project),
            state=Round.State.OPENING,
            stage=Round.Stage.LEARN if drawn.learn else Round.Stage.ONLY,
            # Everybody who practises gets slots of their own.
            votes_per_item=0 if practice else settings.votes,
            seed=seed,
            no_majority=project.no_majority,
            frame_size=drawn.frame_size,
            frame=frame,
            paper_mode=settings.paper_mode,
            parameters=_parameters(settings, m),
            certificate_plan=certificate,
            # Copied into the round: a new wage in the settings must not change what earlier votes
            # cost.
            wage_usd=rate_of(project, settings).wage,
            minutes_per_vote=rate_of(project, settings).minutes,
            cost_basis=project.cost_basis,
            opened_by=user,
        )
        rows = _first_rows(round_, drawn, checks)
        later = sum(round_.selections.values_list("n_items", flat=True))
        # After the selections, since shares are parts of the number of items.
        seat_whom(round_, settings.whom, len(rows) + later)
        work = growing.begin(
            round_,
            RoundWork.Kind.OPEN,
            user,
            rows,
            round={"state": Round.State.OPEN},
            event={"items": len(rows), **_parameters(settings, m)},
        )
        made(round_)
    if growing.do(work, advance, background=background):
        round_.refresh_from_db(fields=["state"])
    return round_


def _add_clause(project: Project, user: AbstractUser | None, clause: str) -> None:
    """Add a clause to the guidelines, in the transaction that makes its round."""
    # Two clauses at once would each write over the other's guidelines.
    locked = Project.objects.select_for_update(no_key=True).get(pk=project.pk)
    before = locked.guidelines
    if why := _why_no_clause(locked, clause):
        raise UserError(why)
    project.guidelines = f"{before.rstrip()}\n\n{clause.strip()}".lstrip()
    project.save(update_fields=["guidelines"])
    changed = {"guidelines": {"before": before, "now": project.guidelines}}
    record_event(project, user, "settings changed", "guidelines", **changed)


def _why_no_clause(project: Project, clause: str) -> str:
    clause = clause.strip()
    if not clause or unstorable(clause) or len(clause) > LONGEST_CLAUSE:
        return f"A clause is a text of at most {LONGEST_CLAUSE:,} characters."
    if len(project.guidelines) + len(clause) > LONGEST_GUIDELINES:
        return f"With the clause, the guidelines have more than {LONGEST_GUIDELINES:,} characters."
    if clause in project.guidelines:
        return "The guidelines have this clause already, so people would be asked the same again."
    if project.translations:
        return (
            "The guidelines are translated, and people of other languages would not read the "
            "clause. Add it with its translations in the settings, and then open the round without "
            "a clause."
        )
    return ""


def _check(project: Project, run: Run | None, settings: RoundSettings) -> None:
    for _, why in impossible(project, run, settings):
        raise UserError(why)


def impossible(
    project: Project, run: Run | None, settings: RoundSettings
) -> Iterator[tuple[str, str]]:
    """Yield everything that makes the settings no round: the setting to change, and why.

    What depends on how many examples are selected is checked when they are (`_select`).
    """
    if settings.after is not None and (why := _why_not_after(project, settings.after)):
        yield "after", why
    asked = [settings.beta is not None, settings.budget is not None, settings.everything]
    if settings.clause:
        if why := _why_no_clause(project, settings.clause):
            yield "clause", why
        if settings.subset.is_all or not settings.everything:
            yield (
                "clause",
                "A clause is for the examples that it affects, and all of them are asked again. "
                "Choose them by a category, a tag or a list, and select everything.",
            )
    if settings.practice is not None:
        extra = any(asked) or run is not None or settings.check_rules or settings.audit
        extra = extra or settings.repeat_percent
        if extra or settings.learn or settings.limit is not None or not settings.subset.is_all:
            yield (
                "practice",
                "Training and a qualification take no β, budget, audit, limit, rule, repeats or "
                "part of the examples. They use the pairs that were imported for them.",
            )
        yield from _impossible_practice(project, settings.practice)
        return
    if not 0 <= settings.repeat_percent <= _MOST_REPEATED:
        yield "repeat_percent", f"0 to {_MOST_REPEATED} % of a person's pairs can come again."
    if not 1 <= settings.repeat_after <= _LONGEST_GAP:
        yield "repeat_after", f"A pair can come again after 1 to {_LONGEST_GAP} others."
    if sum(asked) != 1:
        yield "how", "Choose how much people label: a β, a budget, or everything."
    if not 1 <= settings.votes <= MAX_VOTES:
        yield "votes", f"Votes per example must be between 1 and {MAX_VOTES}."
    if settings.audit < 0 or settings.learn < 0:
        yield "audit", "The audit and the learning sample can't be smaller than 0."
    if settings.everything and settings.learn:
        yield "learn", "Everything is labelled, so no learning sample is needed."
    if settings.seed is not None and not 0 <= settings.seed < _SEEDS:
        yield "seed", f"A seed must be between 0 and {_SEEDS - 1}, not {settings.seed}."
    if not (0 < settings.epsilon < 1 and 0 < settings.alpha < 1):
        yield (
            "epsilon",
            "The share of wrong labels to certify and the confidence must be between 0 and 100 %.",
        )
    if settings.everything and settings.audit:
        yield "audit", "Everything is labelled, so no audit is needed."
    if run is None and not settings.everything:
        yield (
            "run",
            "β or a budget needs a judge run to rank by. Start one first, or select everything.",
        )
    # A round on everything needs no ranking, so it may open while the judge still works.
    if run is not None and run.ranked_at is None and not settings.everything:
        yield "run", run.why_unranked
    if settings.check_rules and (why := _why_no_rules(project, settings.check_rules)):
        yield "check_rules", why
    unfinished = run is not None and run.state != Run.State.DONE
    if unfinished and not settings.partial and not settings.everything:
        yield (
            "partial",
            f"{run.name} is not finished ({run.get_state_display()}). Resume it, or open the round "
            "on the examples judged so far with --partial. Pending examples are not ranked then.",
        )


def _why_not_after(project: Project, after: Round) -> str:
    if after.project_id != project.pk or not after.is_practice:
        return f"Round {after.number} is neither training nor a qualification: nobody can pass it."
    if after.state == Round.State.CLOSED:
        return f"Round {after.number} is closed, so nobody else can pass it. Reopen it first."
    return ""


def _impossible_practice(project: Project, practice: Practice) -> Iterator[tuple[str, str]]:
    # Without a known label nobody can tell who passed.
    n = _examples_for_checks(project, practice.kind).filter(gold_label__isnull=False).count()
    if practice.kind not in Round.PRACTICE:
        yield "practice", "Choose training or qualification."
        return
    pairs, tries = practice.pairs, practice.tries
    if not practice.is_training and pairs is None:
        yield "pairs", "Say how many pairs a person gets in each try."
        return
    if not 1 <= tries <= _MOST_TRIES or (practice.is_training and tries != 1):
        yield "tries", f"A qualification has 1 to {_MOST_TRIES} tries, and training has 1."
        return
    if pairs is not None and pairs < 1:
        yield "pairs", "A person gets at least 1 pair."
    elif n < (needed := (pairs or 1) * tries):
        yield (
            "pairs",
            f"The project has {number_of(n, 'pair')} for {practice.kind}, and {needed} are needed. "
            f"Import more, with gold_label, and check_for = {practice.kind}.",
        )
    if not 0 < practice.pass_mark <= 100:
        yield "pass_mark", "The pass mark is a percentage above 0 and up to 100."
    open_ = Round.every.filter(
        project=project, kind=practice.kind, protocol=current_protocol(project)
    ).exclude(state=Round.State.CLOSED)
    if (other := open_.first()) is not None:
        yield (
            "practice",
            f"Round {other.number} is the same kind with the same question and guidelines, and it "
            "is not closed. Nobody gets a pair twice, so close that round first, or use it.",
        )


def _why_no_rules(project: Project, rules: Sequence[CheckRule]) -> str:
    """Return why these rules could never act as they say, or ""."""
    if len(rules) > _MOST_CHECK_RULES:
        return f"Use at most {_MOST_CHECK_RULES} rules about attention checks."
    if any(rule.then not in CHECK_ACTIONS for rule in rules):
        return "A rule about attention checks warns, pauses or stops."
    if any(rule.after < 1 or not 0 < rule.below <= 100 for rule in rules):
        return "A rule acts after at least 1 check, below a share above 0 and up to 100 %."
    n = _examples_for_checks(project).filter(gold_label__isnull=False).count()
    # Such a rule would look like protection and never act.
    if n < (most := max(rule.after for rule in rules)):
        return (
            f"The project has {number_of(n, 'attention check')} with a known label, so a rule "
            f"after {most} never acts. Import more, with is_check and gold_label, or lower the "
            "number."
        )
    return ""


def _select(
    project: Project, run: Run | None, settings: RoundSettings, seed: int, frame: int | None
) -> tuple[Drawn, int]:
    """Return what is drawn now, and how many examples are selected in all."""
    examples = frame_of(project, frame)
    n = examples.count()
    if not n:
        raise UserError("There are no examples to label. Import some first.")
    m = n if settings.everything else cut_size(project, settings, n)
    # Without a sample of all examples, only the selected ones are read.
    first = None if settings.everything or settings.audit or settings.learn else m
    ids = [] if first else list(examples.values_list("pk", flat=True))
    order = ranked_examples(run, frame, first=first, paper_mode=settings.paper_mode) if run else []
    if settings.everything:
        ranked = {example.example_id: example for example in order}
        return Drawn([ranked.get(i, Ranked(i, 0, None)) for i in ids], [], n, 0), n
    # A rounded β of 0 may still make sense with an audit, which labels at random.
    if m + settings.audit == 0:
        raise UserError(f"This selects no example: {settings.beta} % of {n} rounds to 0. Raise β.")
    if first:
        return Drawn(order, [], n, n - len(order)), m
    if settings.learn:
        check_audit(settings.audit, len(ids) - m)
        return draw_to_learn(order, ids, m, settings.learn, seed), m
    return draw(order, ids, m, settings.audit, seed), m


def cut_size(project: Project, settings: RoundSettings, n_frame: int) -> int:
    """Return m, the number of selected examples, from β or from the budget."""
    if settings.beta is not None:
        return size_for_beta(n_frame, settings.beta)
    return size_for_budget(
        settings.budget or Decimal(0),
        settings.audit,
        settings.votes,
        rate_of(project, settings),
        n_frame,
    )


def rate_in(project: Project) -> HumanRate:
    """Return what a vote costs by the project's settings."""
    return HumanRate(project.minutes_per_vote, project.wage_usd)


def rate_of(project: Project, settings: RoundSettings) -> HumanRate:
    return settings.rate or rate_in(project)


def _parameters(settings: RoundSettings, m: int) -> dict[str, object]:
    parameters = {
        "limit": settings.limit,
        "beta": str(settings.beta) if settings.beta is not None else None,
        "budget": str(settings.budget) if settings.budget is not None else None,
        "everything": settings.everything,
        "votes": settings.votes,
        "audit": settings.audit,
        "partial": settings.partial,
        "m": m,
        "route": "learned" if settings.learn else "bpde",
        "learn": settings.learn,
        "epsilon": settings.epsilon,
        "alpha": settings.alpha,
        "looks": list(settings.looks),
        "cite": str(settings.cite),
    } | _rules_to_store(settings)
    if settings.repeat_percent:
        parameters["repeat_percent"] = settings.repeat_percent
        parameters["repeat_after"] = settings.repeat_after
    if settings.after is not None:
        parameters["after"] = settings.after.number
    if settings.goal is not None:
        parameters["goal"] = dict(settings.goal)
    return parameters | (settings.practice.to_store() if settings.practice else {})


def _rules_to_store(settings: RoundSettings) -> dict[str, object]:
    """Return nothing without rules: such rounds are described as before there were any."""
    rules = [asdict(rule) | {"below": str(rule.below)} for rule in settings.check_rules]
    return {"check_rules": rules} if rules else {}


def current_protocol(project: Project) -> Protocol:
    """Return the protocol of the project's present settings, made if it is new.

    The same settings always give the same protocol.
    """
    asked = {name: getattr(project, name) for name in _ASKED}
    # Settings that came later count only if they are used. So protocols of earlier releases keep
    # their digest, and votes under them go on counting.
    asked |= {name: value for name in _NEWER if (value := getattr(project, name))}
    if project.translations:
        # Which one is the default is part of what people of each language read.
        asked |= {"translations": project.translations, "language": project.language}
    if (rule := project.criteria_rule) is not None:
        asked["criteria_rule"] = rule.to_json()
    # Sorted, since a digest must not depend on the order in which a database gives the fields.
    text = json.dumps(asked, sort_keys=True, ensure_ascii=False)
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    same = Protocol.objects.filter(project=project, digest=digest)
    if (protocol := same.first()) is not None:
        return protocol
    with transaction.atomic():
        number = next_number(project, Protocol)
        # Somebody else may have made it while this process waited for the number.
        return same.first() or Protocol.objects.create(
            project=project, number=number, name=f"protocol-{number}", digest=digest, **asked
        )


def protocol_named(project: Project, name: str | None) -> Protocol:
    """Return the project's protocol of this name or number, or the current one without a name."""
    if not name:
        return current_protocol(project)
    protocols = Protocol.objects.filter(project=project)
    protocol = protocols.filter(name=name).first()
    if protocol is None and name.isdecimal():
        protocol = protocols.filter(number=int(name)).first()
    if protocol is None:
        known = ", ".join(protocols.order_by("number").values_list("name", flat=True)) or "none yet"
        raise UserError(f"There is no protocol “{name}” in {project.slug}. Known: {known}.")
    return protocol


def practice_rounds(project: Project) -> QuerySet[Round]:
    """Return the rounds that others may open after, the latest first."""
    rounds = Round.objects.filter(project=project, kind__in=Round.PRACTICE)
    return rounds.exclude(state=Round.State.CLOSED).order_by("-number")


def round_named(project: Project, number: int) -> Round:
    """Return the project's round of this number. Raises UserError if there is none."""
    round_ = Round.objects.filter(project=project, number=number).first()
    if round_ is None:
        raise UserError(f"{project.slug} has no round {number}. Nothing was changed.")
    return round_


def check_plan(n_audit: int, epsilon: float, alpha: float, looks: tuple[int, ...]) -> None:
    """Raise UserError if the plan could never be carried out."""
    if not n_audit:
        return
    if looks and looks[-1] > n_audit:
        raise UserError(
            f"The audit has {number_of(n_audit, 'example')}, so the certificate can't be checked "
            f"after {looks[-1]}. Choose a smaller number, or a larger audit."
        )
    try:
        CertificatePlan(epsilon, alpha, looks or (n_audit,), ())
    except ValueError as error:
        raise UserError(f"No certificate can be planned: {error}.") from error


def plan_to_store(
    run: Run | None,
    drawn: Drawn,
    epsilon: float,
    alpha: float,
    looks: tuple[int, ...],
    scores: Mapping[int, float | None] | None = None,
) -> dict[str, Any] | None:
    """Return the certificate plan of a round as it is stored, or None without an audit.

    Args:
        looks: Audit sizes at which the certificate is checked; if empty, once at the end.
        scores: Learned scores by example, used instead of BPDE. Nearly all of them differ, so
            that the grid holds quantiles of them.
    """
    if run is None or not drawn.audit:
        return None
    selected = {ranked.example_id for ranked in [*drawn.top, *drawn.learn]}
    verdicts = Verdict.objects.filter(run=run, label__isnull=False, bpde__isnull=False)
    rest = {pk: bpde for pk, bpde in verdicts.values_list("example", "bpde") if pk not in selected}
    values = list(rest.values())
    if scores is not None:
        # An example without a learned score can't be below any threshold, so no certificate covers
        # it.
        values = [score for pk in rest if (score := scores.get(pk)) is not None]
    plan = certificate_plan(
        values, [True] * len(values), epsilon, alpha, looks or (len(drawn.audit),)
    )
    grid = plan.grid
    if scores is not None and len(grid) > MOST_THRESHOLDS:
        grid = tuple(
            grid[len(grid) * t // MOST_THRESHOLDS - 1] for t in range(1, MOST_THRESHOLDS + 1)
        )
    score = "bpde" if scores is None else "routing"
    return asdict(replace(plan, grid=grid)) | {"score": score, "run": run.number}


def _first_rows(round_: Round, drawn: Drawn, checks: Sequence[Ranked]) -> list[growing.Row]:
    """Return all of a round's items, or those of its learning sample with their share of the
    attention checks.

    Later selections are announced, so that people see from the start how much is asked of them.
    """
    if not drawn.learn:
        top = Selection.Kind.ALL if round_.parameters["everything"] else Selection.Kind.TOP
        parts = [(top, drawn.top), (Selection.Kind.AUDIT, drawn.audit)]
        return rows_of_selections(round_, [*parts, (Selection.Kind.CHECK, checks)], drawn)
    learn, m, audit = len(drawn.learn), round_.parameters["m"], round_.parameters["audit"]
    # Checks are spread evenly over both stages, so that people's attention is watched throughout.
    early = round(len(checks) * learn / (m + audit))
    first = [("learn", drawn.learn), ("check", checks[:early])]
    rows = rows_of_selections(round_, first, drawn)
    later = (("top", m - learn), ("audit", audit), ("check", len(checks) - early))
    for kind, n_items in later:
        if n_items:
            _new_selection(round_, kind, n_items=n_items)
    return rows


def rows_of_selections(
    round_: Round, parts: Sequence[tuple[str, Sequence[Ranked]]], drawn: Drawn, start: float = 0.0
) -> list[growing.Row]:
    """Make the selections, and return their items in one random order that begins at `start`.

    The selections are hidden until their items are written.
    """
    places = [start + place for place in range(sum(len(ranked) for _, ranked in parts))]
    Random(f"order:{round_.seed}" + (f":{start:g}" if start else "")).shuffle(places)
    rows = []
    for kind, ranked in parts:
        if not ranked:
            continue
        # The probability of an audited example comes from what was not selected, not from all
        # examples.
        audited = kind == Selection.Kind.AUDIT
        size = drawn.n_rest if audited else drawn.frame_size
        selection = _new_selection(round_, kind, frame_size=size, ready=False)
        rows += growing.rows_of(selection, ranked, [places.pop() for _ in ranked])
    return rows


def _new_selection(round_: Round, kind: str, **fields: Any) -> Selection:
    described = {
        "frame_size": round_.frame_size, "seed": round_.seed, "parameters": round_.parameters,
    }  # fmt: skip
    return Selection.every.create(round=round_, kind=kind, **described | fields)


def _checks(project: Project, check_for: str) -> list[Ranked]:
    checks = _examples_for_checks(project, check_for)
    if check_for:
        checks = checks.filter(gold_label__isnull=False)
    return [Ranked(pk, 0, None) for pk in checks.values_list("pk", flat=True)]


def _examples_for_checks(project: Project, check_for: str = "") -> ExampleQuerySet:
    return Example.objects.filter(project=project).checks(check_for)
