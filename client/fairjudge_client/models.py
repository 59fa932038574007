"""What the site answers, and what it is sent.

`make client` writes this module from the schema of the REST interface.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Generic, Literal, NotRequired, TypedDict, TypeVar

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[Row]):
    """A page of a list. `next_cursor` is None on the last one."""

    items: list[Row]
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotatorOut:
    number: int
    name: str
    pseudonym: str
    """As exports name them."""
    has_login: bool
    left_at: datetime | None


class ApproveIn(TypedDict):
    rubric: NotRequired[str | None]
    """As you edited it. Default: the draft."""


class AsideIn(TypedDict):
    reason: str
    stop: NotRequired[bool]
    """Also hand out nothing more of the round to them."""


class BeginIn(TypedDict):
    hide_models: NotRequired[bool]
    """Hide models' names from annotators from now on. For owners alone."""
    skip_invalid: NotRequired[bool]


class BudgetIn(TypedDict):
    budget_usd: Decimal | float | str


@dataclass(frozen=True, slots=True, kw_only=True)
class CategoryOut:
    category: str
    n: int
    changed: dict[str, Any]
    """`value`, `low`, `high` and `n`; or null and a `reason`."""
    shift: dict[str, Any]
    """`value`, `low`, `high` and `n`; or null and a `reason`."""
    p_holm: float | None
    """Adjusted for the number of categories."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheapPlanOut:
    """A way to label, with its cost and what it is predicted to reach."""

    number: int
    words: str
    runs: list[int]
    """The judges, in the order in which they are asked."""
    route: Literal["bpde", "learned", "random", "row", "people"]
    orders: int
    k: int
    """Samples in each order; 0 for judges in a row and people alone."""
    adaptive: bool
    whole: bool
    """If these are all the samples of the run."""
    threshold: float | None
    """Up to which judges in a row keep a label."""
    share: float
    """Of the examples, labelled by people."""
    votes: int
    """Per example."""
    audit: int
    """Labels of an audit that the goal needs; in the cost."""
    check: int | None
    """Labels of an audit that checks the goal."""
    usd: Decimal
    judge_usd: Decimal
    people_usd: Decimal
    value: float
    """The goal's figure, as it is predicted."""
    low: float
    high: float
    shown: bool
    """If the goal is shown to be reached."""
    frontier: bool
    """If no cheaper plan equals it."""


class CheapestIn(TypedDict):
    """A goal, for which the cheapest plan of judges and people is searched."""

    confidence: NotRequired[Decimal | float | str]
    """That the plan reaches the goal."""
    examples: NotRequired[int | None]
    """Price plans for this many. Default: all of the project."""
    goal: NotRequired[Literal["accuracy", "win_rate", "certificate"]]
    open_round: NotRequired[bool]
    """Open the round of the plan."""
    plan: NotRequired[int | None]
    """The plan to open, by its number. Default: the recommended one."""
    prices: NotRequired[dict[str, Decimal | float | str]]
    """USD per example of runs, by number, where it was not recorded."""
    value: NotRequired[Decimal | float | str | None]
    """A share. Default: 0.9, 0.05 and 0.1 for the three goals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheapestOut:
    """The cheapest plans for a goal. docs/methods/cheapest.md says how they are compared."""

    goal: str
    value: float
    confidence: float
    examples: int
    sentence: str
    takes: str
    """What would show that a cheaper plan reaches the goal."""
    labels: int
    """Of the learning sample."""
    votes: int | None
    """Per label of the learning sample."""
    plans: int
    """How many were compared."""
    level: float | None
    """One-sided error of each limit."""
    best: int | None
    """The number of the recommended plan."""
    second: int | None
    """The next cheapest that is shown to reach the goal."""
    hoped: int | None
    """A cheaper plan that may reach it, and is not shown to."""
    labels_needed: int | None
    """The learning sample that would show it, or that is needed to begin."""
    rows: list[CheapPlanOut]
    left_out: list[str]
    """Runs that were not searched, and why."""
    reason: str
    """Why nothing was compared."""
    round: int | None
    """The round that was opened."""


class CheckIn(TypedDict):
    check_for: NotRequired[Literal["", "training", "qualification"]]
    """Empty for an attention check."""
    explanation: NotRequired[str]
    """What people read after they answered it in training."""
    external_id: str
    gold_label: Literal["win", "tie", "lose"]
    """The known label, of response 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOut:
    external_id: str
    gold_label: Literal["win", "tie", "lose"]
    """The known label, of response 1."""
    check_for: Literal["", "training", "qualification"] = ""
    """Empty for an attention check."""
    explanation: str = ""
    """What people read after they answered it in training."""


class CheckRuleIn(TypedDict):
    """What is done about a person who fails attention checks. `stop` puts their votes aside too."""

    after: int
    """Checks answered at least."""
    below: Decimal | float | str
    """The share of right answers under which the rule acts."""
    then: Literal["warn", "pause", "stop"]


class CompareIn(TypedDict):
    """Two runs on the same examples."""

    after: int
    """The later run, B."""
    before: int
    """The earlier run, A."""
    margin: NotRequired[Decimal | float | str]
    """The loss that you would accept."""
    restart: NotRequired[bool]
    """If examples changed since the last look, begin with the present ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareOut:
    """A verdict on run B against run A, and what changed."""

    project: str
    run: int
    name: str
    other: int | None
    """Run A of a comparison."""
    verdict: Literal["pass", "fail", "inconclusive"]
    look: int
    confidence: float
    alpha: float
    """The error of all looks together."""
    examples: int
    requirements: list[RequirementOut]
    needed: NeededOut | None
    judged_by_both: int
    changed: dict[str, Any]
    """`value`, `low`, `high` and `n`; or null and a `reason`."""
    shift: dict[str, Any]
    """`value`, `low`, `high` and `n`; or null and a `reason`."""
    accuracy_difference: dict[str, Any]
    """`value`, `low`, `high` and `n`; or null and a `reason`."""
    p: float | None
    by_category: list[CategoryOut]


class ConfirmIn(TypedDict):
    confirm: str
    """The project's slug."""


class CrowdIn(TypedDict):
    """The terms of a crowd link. What is left out stays as it is, or has the page's default."""

    completion_code: NotRequired[str | None]
    completion_text: NotRequired[str | None]
    completion_url: NotRequired[str | None]
    consent: NotRequired[str | None]
    max_pairs: NotRequired[int | None]
    max_people: NotRequired[int | None]
    questions: NotRequired[list[str] | None]
    """Such as “choice: Do you read English? | yes | no!”."""
    screened_code: NotRequired[str | None]
    screened_text: NotRequired[str | None]
    screened_url: NotRequired[str | None]
    session_name: NotRequired[str | None]
    study_name: NotRequired[str | None]
    translations: NotRequired[dict[str, CrowdTexts] | None]
    """All texts in other languages, instead of all that is stored."""
    version: NotRequired[str | None]
    """Refuse with 409 if the terms have another version by now."""
    worker_name: NotRequired[str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CrowdOut:
    link: str | None
    """For the panel; null while it lets nobody in."""
    version: str
    consent: str
    translations: dict[str, CrowdTexts]
    questions: list[str]
    completion_text: str
    screened_text: str
    max_people: int
    max_pairs: int
    completion_code: str
    completion_url: str
    screened_code: str
    screened_url: str
    worker_name: str
    study_name: str
    session_name: str
    submissions: dict[str, int]
    """How many are in each state."""
    rejected_with_votes: int
    """Rejected people of whom votes still count."""


class CrowdTexts(TypedDict):
    """What people read in one language. Each has all that the terms have by default."""

    completion_text: NotRequired[str]
    consent: str
    questions: NotRequired[list[str]]
    """The same lines in other words."""
    screened_text: NotRequired[str]


class DecisionIn(TypedDict):
    external_id: str
    label: Literal["win", "tie", "lose"]
    """Of response 1."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionOut:
    id: int
    external_id: str
    label: str
    reason: str
    by: str
    """Who decided. Empty for a login that was deleted."""
    decided_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionOut:
    """A project that is being deleted. Nobody sees it any more."""

    id: int
    slug: str
    """As the project was called."""
    done: int
    """Items, calls, verdicts and examples that are gone."""
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryOut:
    """An event in the log of a webhook."""

    id: int
    message: str
    """The `webhook-id` that the receiver gets."""
    event: str
    state: str
    """waiting, delivered, or dead: given up after a day."""
    attempts: int
    status: int | None
    """HTTP status of the last answer."""
    said: str
    """The beginning of that answer, or why there is none."""
    at: datetime
    tried_at: datetime | None
    next_at: datetime | None
    """When it is tried next; null if it has ended."""
    body: dict[str, Any]
    """What is sent."""


class EscalateIn(TypedDict):
    """Judges in a row, and how often people have to agree with what they keep."""

    agreement: Decimal | float | str
    confidence: NotRequired[Decimal | float | str]
    labels: NotRequired[bool]
    """Also say who labels each example."""
    runs: NotRequired[list[int]]
    """In order. Default: the primary run."""
    score: NotRequired[Literal["bpde", "learned", "simulated"]]


@dataclass(frozen=True, slots=True, kw_only=True)
class EscalationOut:
    """Which labels judges may keep, and how many examples are left to people."""

    confidence: float
    plan: dict[str, Any]
    """As `escalation.plans[]` of docs/report.md."""
    labels: list[LabelledOut] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateOut:
    """What a run would need. Dollars are null if the price is unknown."""

    examples: int
    frame: str
    """Which examples these are; empty for all."""
    reused: int
    """Samples copied from other runs, in no other figure."""
    calls: int
    calls_most: int
    prompt_tokens: int
    completion_tokens: int
    usd: Decimal | None
    usd_most: Decimal | None
    seconds: float | None
    batch_hours: int | None
    model: str
    endpoint: str
    basis: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EventOut:
    """An event of the audit trail."""

    id: int
    actor: str
    """Empty for a command, and for a login that was deleted."""
    action: str
    subject: str
    detail: dict[str, Any]
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleOut:
    external_id: str
    question: str
    response_1: str
    response_2: str
    model_1: str
    model_2: str
    category: str
    reference: str
    gold_label: str | None
    is_check: bool
    check_for: str
    """training, qualification, or empty: an attention check."""
    explanation: str
    """What people read after they practised on it."""
    tags: list[str]
    fairjudge_conversation: dict[str, list[dict[str, Any]]] | None
    """The lists of messages behind the texts, by field; null if all are plain texts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOut:
    """A file that was exported, also by a page or a command."""

    id: int
    what: str
    format: str
    run: int | None
    rows: int
    sha256: str
    by: str
    """Empty for a command, and for a login that was deleted."""
    created_at: datetime


class ExtendIn(TypedDict):
    beta: Decimal | float | str


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldError:
    """What is wrong with one field, or in one line of a file."""

    field: str
    """The field's path, such as `body.name`, or a column."""
    detail: str
    line: int | None = None
    """The line of the file, from 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Only rows that have these values. A table without such a column refuses it."""

    annotator: str = ""
    category: str = ""
    external_id: str = ""
    final_label: str = ""
    label: str = ""
    selection: str = ""
    source: str = ""
    status: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagOut:
    """What an annotator says is wrong with an item."""

    id: int
    external_id: str
    annotator: int
    reason: str
    at: datetime
    settled_at: datetime | None


class GateIn(TypedDict):
    """What a run has to keep."""

    open_round: NotRequired[bool]
    """If the verdict is inconclusive, open the round that decides."""
    require: list[str]
    """Such as `accuracy>=0.85`; docs/gate.md has the figures."""
    restart: NotRequired[bool]
    """If examples changed since the last look, begin with the present ones."""
    run: NotRequired[int | None]
    """Default: the project's primary run."""
    votes: NotRequired[int]
    """Votes per example of a round that would decide."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateOut:
    """A verdict by interval. A look at new data goes on record and spends its part of the error."""

    project: str
    run: int
    name: str
    other: int | None
    """Run A of a comparison."""
    verdict: Literal["pass", "fail", "inconclusive"]
    look: int
    confidence: float
    alpha: float
    """The error of all looks together."""
    examples: int
    requirements: list[RequirementOut]
    needed: NeededOut | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRequestOut:
    """What was left to a worker. Poll it until `state` is no longer waiting."""

    id: int
    kind: str
    """gate, compare, escalate or cheapest."""
    state: str
    """waiting, done or refused."""
    at_work: bool
    """If a worker computes the figures now."""
    reason: str
    """Why it was refused. Nothing was decided then."""
    created_at: datetime
    ended_at: datetime | None
    gate: GateOut | None
    """The verdict of a gate that is done."""
    comparison: CompareOut | None
    """The verdict of a comparison that is done."""
    escalation: EscalationOut | None
    """The plan, once it is done."""
    cheapest: CheapestOut | None
    """The plans, once they are compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOut:
    """An import. Its rows are seen once all of them are written: then `state` is `done`."""

    number: int
    kind: str
    """examples, points (scores), judgments or votes."""
    state: str
    """checked, writing, interrupted, done, undone or failed."""
    rows: int
    written: int
    """New examples."""
    known: int
    """Rows that the project has already, with the same content."""
    conflicts: int
    """Ids that it has with other content, which stays."""
    refused: int
    """Invalid rows, left out by `skip_invalid`."""
    conflicting: list[str]
    reason: str
    created_at: datetime
    refused_files: list[str] = dataclasses.field(default_factory=list)
    """Files of refused rows, unchanged."""


class InvitationIn(TypedDict):
    days: NotRequired[int]
    mail_to: NotRequired[str]
    """Send the link there, if the site sends mail. The address isn't kept."""
    note: NotRequired[str]
    role: NotRequired[Literal["owner", "researcher", "reviewer", "observer", "annotator"]]
    uses: NotRequired[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class InvitationOut:
    id: int
    link: str
    """Anybody who has it can join."""
    role: str
    uses: int
    most_uses: int
    expires_at: datetime
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOut:
    """What was left to a worker. Poll it until `state` is no longer waiting."""

    id: int
    kind: str
    """votes, judgments, scores, report, table or lesson."""
    state: str
    """waiting, done, refused, or stopped if it was cancelled."""
    at_work: bool
    """If a worker is at it now."""
    rows: int
    """Of a report as ZIP or a table: how many rows are written."""
    reason: str
    """Why it was refused, with the lines that are wrong."""
    created_at: datetime
    ended_at: datetime | None
    votes: VotesOut | None
    """What an import of votes did."""
    scores: ScoresOut | None
    """What an import of scores did."""
    run: int | None
    """The run that recorded judgments became."""
    lesson: int | None
    """The lesson whose rubric was drafted."""
    file: str | None
    """Where a report or table is read, for a week."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledOut:
    external_id: str
    label_from: str | None
    """people, a run's name, or null: left to people."""
    label: str | None


class LessonCompareIn(TypedDict):
    run: NotRequired[int | None]
    """Default: the newest run with the template."""


class LessonIn(TypedDict):
    """What `manage.py teach --by` takes."""

    annotators: NotRequired[int | None]
    """By annotators: how many are simulated. Default: 5."""
    budget_usd: NotRequired[Decimal | float | str | None]
    """The most that the draft may cost."""
    endpoint: NotRequired[str]
    """What drafts the rubric. Default: the run's own."""
    model: NotRequired[str]
    name: NotRequired[str]
    """Of the taught template. Default: the old name with -taught."""
    price: NotRequired[PriceIn | None]
    run: NotRequired[int | None]
    """Whose errors teach. Default: the primary run."""
    shots: NotRequired[int | None]
    """Solved examples per prompt. Default: 4, or 5 votes of each simulated annotator."""
    way: Literal["examples", "rubric", "both", "annotators"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LessonOut:
    number: int
    run: int
    way: str
    state: str
    """waiting, failed, drafted, approved, kept or dropped."""
    base: str
    name: str
    shown: int
    pairs: list[SolvedOut]
    annotators: list[list[SolvedOut]]
    """What each simulated annotator is shown: the votes of one person."""
    taught: int
    disagreements: int
    endpoint: str
    model: str
    budget_usd: Decimal | None
    usd: Decimal | None
    usd_most: Decimal | None
    prompt_tokens: int | None
    completion_tokens: int | None
    reason: str
    drafted: str
    """The rubric as the model wrote it."""
    rubric: str
    template: int | None
    """The version that it became."""
    in_use: bool
    runs: list[int]
    """Runs that judged with the version, the newest first."""
    tests: list[LessonTestOut]
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class LessonPlanOut:
    """What would teach, and what drafting the rubric costs. Dollars are null without a price."""

    run: int
    way: str
    base: str
    name: str
    source: str
    """Which labels teach, in words."""
    labels: int
    disagreements: int
    taught: int
    """Examples that no run with the template will be about."""
    held_out: int
    """Labels that are left to test by."""
    shown: int
    endpoint: str
    model: str
    prompt_tokens: int
    usd: Decimal | None
    usd_most: Decimal | None
    prompt: str
    """What would be sent; empty without a rubric."""
    annotators: int
    """How many annotators would be simulated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LessonTestOut:
    """One comparison with the old template, on labels that taught nothing."""

    run: int
    look: int
    n: int
    better: int
    worse: int
    difference: float
    """Accuracy of the taught run less that of the old one."""
    low: float
    high: float
    confidence: float
    p: float | None
    verdict: str
    """pass: better. fail: worse. inconclusive: not shown."""
    differs: list[str]
    """Settings in which the two runs differ, too."""
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkedOut:
    changed: int
    unknown: int
    """Rows about people who never used the link."""
    votes_aside: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Me:
    """The user for whom the token acts, and what the token may do."""

    user: str
    may_create_projects: bool
    may_start_runs: bool
    token: TokenOut


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberOut:
    id: int
    user: str
    role: str
    joined_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelsOut:
    endpoints: list[str]
    """All that the operator named."""
    endpoint: str
    models: list[str]
    """What this endpoint offers now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NeedOut:
    """A goal, and the labels that it takes."""

    goal: Literal["better", "win_rate", "accuracy", "kappa", "certificate"]
    question: str
    labels: int | None
    """Examples that people label; null: see `reason`."""
    reason: str
    reached: float | None
    """What `reaches` names, with these labels."""
    reaches: str
    cautious: int | None
    """Labels if a pilot's values are at the worse end of their intervals."""
    votes: int | None
    hours: Decimal | None
    usd: Decimal | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NeededOut:
    """What it takes to decide, as far as the present values tell."""

    sentence: str
    votes: int
    examples: list[str] | None
    """Their ids; null if votes can't decide."""
    usd: Decimal
    round: int | None
    """The open round that asks for these votes already."""
    opens_round: bool
    """If `open_round` would open a round."""
    more_examples: int | None
    """How many more would decide, if votes can't."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairsOut:
    """What an import would add, and what a judge would need for it. Nothing is written."""

    rows: int
    """Pairs that can be imported."""
    new: int
    known: int
    conflicts: int
    questions: int | None
    """Of rows with several responses; else null."""
    models: list[str]
    """Models of such rows."""
    design: str
    calls: int | None
    """Null if no run says it."""
    usd: Decimal | None
    basis: str
    columns: dict[str, str] | None = None
    """Which column each field is read from."""
    file_columns: list[str] = dataclasses.field(default_factory=list)
    """All columns, of which `columns` maps others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PasswordLinkOut:
    user: str
    link: str
    """Anybody who has it can set the password, once."""


class PeopleIn(TypedDict):
    """Whom a round asks. If it names nobody, everybody may label.

    `teams` and `tags` are resolved now. Send the same again to follow teams that have changed.
    """

    annotators: NotRequired[list[int]]
    """Numbers of annotators."""
    limit: NotRequired[int | None]
    """Items per person; null: no limit."""
    shares: NotRequired[list[ShareIn]]
    """They are asked by this, too."""
    tags: NotRequired[list[str]]
    """Only people of these teams, or of any team, who have all of these tags."""
    teams: NotRequired[list[str]]
    """Teams of the project's owners, by name, or by owner/name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonOut:
    """A person in a round: the votes that they gave in it, and whether they may label on."""

    annotator: int
    round: int
    votes: int
    """Votes given in this round that count."""
    votes_aside: int
    """Votes given in this round that are put aside."""
    hold: str
    """paused, stopped, failed (stopped by a rule about attention checks), or empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOut:
    """What these settings select and cost. `problems` keep them from being a round."""

    selected: int
    audit: int
    frame: int
    beta: Decimal
    new_votes: int
    hours: Decimal
    usd: Decimal
    problems: list[FieldError]


class PortiaIn(TypedDict):
    parts: NotRequired[int | None]
    tokens: NotRequired[str]
    unsplit_first: NotRequired[bool]
    without: NotRequired[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class PracticeOut:
    """What came of a training or a qualification. Nobody else sees who passed."""

    kind: str
    pairs: int | None
    pass_mark: Decimal | None
    tries: int
    passed: int
    failed: int
    people: list[PractisedOut]


@dataclass(frozen=True, slots=True, kw_only=True)
class PractisedOut:
    """A person in training or in a qualification."""

    annotator: int
    state: str
    """in progress, passed or not passed."""
    answered: int
    """Pairs so far, in all tries."""
    seconds: float | None
    results: list[ResultOut]


@dataclass(frozen=True, slots=True, kw_only=True)
class PreregistrationCheck:
    holds: bool
    """The document has the hash that the file names."""
    sha256: str
    number: int | None
    """The version of this project; null: it has none."""
    sentence: str


class PreregistrationFile(TypedDict):
    """A file of a plan, as it was downloaded."""

    preregistration: dict[str, Any]
    sha256: str


class PreregistrationIn(TypedDict):
    """What a study plans. What is left out isn't promised."""

    aim: NotRequired[Literal["better", "win_rate", "accuracy", "kappa", "certificate"]]
    """With `study`: the goal whose labels count."""
    alpha: NotRequired[float]
    analyses: NotRequired[list[str]]
    audit: NotRequired[int | None]
    beta: NotRequired[Decimal | float | str | None]
    """Percent to review by rank."""
    budget: NotRequired[Decimal | float | str | None]
    epsilon: NotRequired[float]
    everything: NotRequired[bool]
    examples: NotRequired[int | None]
    goal: str
    hypotheses: NotRequired[list[str]]
    learn: NotRequired[int]
    looks: NotRequired[list[int]]
    route: NotRequired[Literal["bpde", "learned"]]
    seed: NotRequired[int | None]
    study: NotRequired[StudyIn | None]
    """What the sizes start from, as `GET /sizes`."""
    templates: NotRequired[list[str]]
    votes: NotRequired[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PreregistrationList:
    items: list[PreregistrationOut]


@dataclass(frozen=True, slots=True, kw_only=True)
class PreregistrationOut:
    """One version of a plan. docs/files.md describes the document."""

    number: int
    sha256: str
    """Of the document as JSON: sorted keys, no spaces, UTF-8."""
    made_at: datetime
    by: str
    """Empty for a command, and for a login that was deleted."""
    preregistration: dict[str, Any]
    markdown: str


class PriceIn(TypedDict):
    """USD per million tokens."""

    completion: Decimal | float | str
    prompt: Decimal | float | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A refusal. Nothing was changed."""

    title: str
    status: int
    code: Literal[
        "not_readable",
        "idempotency_key_unusable",
        "token_missing",
        "token_unusable",
        "scope_missing",
        "role_too_small",
        "not_found",
        "method_not_allowed",
        "changed_meanwhile",
        "idempotency_key_reused",
        "too_large",
        "media_type_unknown",
        "refused",
        "field_unusable",
        "rows_invalid",
        "too_many_requests",
        "unexpected",
        "unavailable",
    ]
    """Stable. Programs decide by it."""
    detail: str
    """The sentence that a page shows."""
    errors: list[FieldError] = dataclasses.field(default_factory=list)
    field: str | None = None
    """The first field that is wrong."""
    type: str = "about:blank"
    """Always `about:blank`: `code` says which it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressOut:
    """A run and how far it is, in samples. It tells nothing that the judge said."""

    number: int
    name: str
    method: str
    form: str
    endpoint: str
    model: str
    k: int
    state: str
    """queued, running, pausing, paused, cancelling, cancelled, done or failed."""
    reason: str
    budget_usd: Decimal | None
    created_at: datetime
    finished_at: datetime | None
    ranked: bool
    """If there is a report."""
    frame: str | None
    """Which examples it is about; null for all."""
    examples: int
    expected: int
    settled: int
    examples_ranked: int
    """How many examples the ranking has done."""
    examples_to_rank: int
    """How many it ranks; 0 if no ranking is under way."""
    statuses: dict[str, int]
    in_flight: int
    eta_seconds: float | None
    spent_usd: Decimal | None
    reused: int
    """Samples copied from other runs, at no cost."""
    worker_missing: bool
    workers: list[str]
    """The processes that work on it, the leading one first."""


class ProjectIn(TypedDict):
    description: NotRequired[str]
    like: NotRequired[str]
    """A project that you own: its settings are copied."""
    name: str
    people: NotRequired[bool]
    """The people of that project join with their roles."""
    slug: NotRequired[str]
    """Default: made of the name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectOut:
    slug: str
    name: str
    description: str
    role: str
    """Your role: owner, researcher, reviewer, observer or annotator."""
    question_asked: str
    scale: str
    examples: int
    """Pairs that judges are asked about, without checks."""
    primary_run: int | None
    """The number of the run that decides labels."""
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RequirementOut:
    requirement: str
    meaning: str
    verdict: Literal["pass", "fail", "inconclusive"]
    bound: Decimal
    at_least: bool
    figure: dict[str, Any]
    """`value`, `low`, `high` and `n`; or null and a `reason`."""
    reason: str
    """Why there is no interval, or why it is not decided."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultOut:
    """What came of a training, or of one try at a qualification."""

    number: int
    pairs: int
    right: int
    passed: bool
    at: datetime


class ResumeIn(TypedDict):
    budget_usd: NotRequired[Decimal | float | str | None]
    max_tokens: NotRequired[int | None]
    retry: NotRequired[list[str]]
    """Statuses to repeat besides errors."""


class RetentionIn(TypedDict):
    comments: NotRequired[str | None]
    logins: NotRequired[str | None]
    texts: NotRequired[str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionOut:
    what: str
    """`comments`, `logins` or `texts`."""
    said: str
    """What removing it means."""
    on: str | None
    """The day on which it is removed; null: it is kept."""
    done_at: datetime | None
    n: int
    """How many rows still hold something."""
    waits: bool
    """The day is past, and a round or a run is still under way."""


class RoleIn(TypedDict):
    role: Literal["owner", "researcher", "reviewer", "observer", "annotator"]


class RoundIn(TypedDict):
    """What a round is opened with. Give exactly one of `beta`, `budget_usd` and `everything`.

    Training and a qualification take none of them, and no run: they ask about the checks that are
    marked for them.
    """

    after: NotRequired[int | None]
    """A training or qualification that people pass before this round."""
    alpha: NotRequired[float]
    audit: NotRequired[int]
    beta: NotRequired[Decimal | float | str | None]
    """Percent of all examples."""
    budget_usd: NotRequired[Decimal | float | str | None]
    check_rules: NotRequired[list[CheckRuleIn]]
    cite: NotRequired[Literal["narrower", "calibrated"]]
    """Which win rate the results give to cite; fixed by the run's first audit."""
    clause: NotRequired[str]
    """An owner adds this to the guidelines, and all of a part is asked again."""
    epsilon: NotRequired[float]
    everything: NotRequired[bool]
    examples: NotRequired[list[str] | None]
    """Only these ids."""
    kind: NotRequired[Literal["routed", "training", "qualification"]]
    learn: NotRequired[int]
    looks: NotRequired[list[int]]
    pairs: NotRequired[int | None]
    """Of training, or of each try at a qualification."""
    paper_mode: NotRequired[bool]
    partial: NotRequired[bool]
    pass_mark: NotRequired[Decimal | float | str]
    """Percent right that passes a qualification."""
    people: NotRequired[PeopleIn | None]
    """Who labels. Default: everybody."""
    repeat_after: NotRequired[int]
    """How many others come first."""
    repeat_percent: NotRequired[int]
    """Of a person's pairs that come again, with the sides exchanged."""
    run: NotRequired[int | None]
    """Default: the project's primary run."""
    sample: NotRequired[int | None]
    """How many of these are drawn at random, by `seed`."""
    seed: NotRequired[int | None]
    tries: NotRequired[int]
    """At a qualification."""
    votes: NotRequired[int]
    where: NotRequired[list[str]]
    """Such as `category=math`; docs/files.md has the names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundOut:
    number: int
    kind: str
    """routed, import, training or qualification."""
    after: int | None
    """The round that people pass before this one."""
    state: str
    """opening, open, paused or closed."""
    stage: str
    run: int | None
    votes_per_item: int
    frame_size: int
    frame: str | None
    """Which examples it is about; null for all."""
    opened_at: datetime
    closed_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RowOptions:
    """How the rows of a body are read."""

    columns: list[str] = dataclasses.field(default_factory=list)
    """How columns are read, such as prompt=question. Default: by their names."""
    design: str = ""
    """all, baseline=MODEL, random=2 or blocks=2."""
    labels: str = ""
    """What codes of gold labels mean, such as 1=win,2=lose."""
    seed: int = 0
    """Of the design."""
    sheet: str = ""
    """Of a workbook. Default: the first one."""
    skip_invalid: bool = False


class RunIn(TypedDict):
    """What `manage.py judge` takes. What is left out has the same default as there."""

    adaptive: NotRequired[float | None]
    batch: NotRequired[bool]
    budget_usd: NotRequired[Decimal | float | str | None]
    cache_marks: NotRequired[bool]
    """Mark what prompts share, for Anthropic's models behind gateways."""
    concurrency: NotRequired[int | None]
    criteria: NotRequired[str]
    endpoint: NotRequired[str]
    """As the operator named it. No request takes a URL."""
    examples: NotRequired[list[str] | None]
    """Only these ids."""
    form: NotRequired[str]
    ids: NotRequired[str]
    json_replies: NotRequired[bool | None]
    """Hold replies to a JSON schema, if the endpoint takes one. Default: as the template asks."""
    k: NotRequired[int | None]
    max_tokens: NotRequired[int | None]
    method: NotRequired[str]
    model: NotRequired[str]
    name: NotRequired[str]
    permutations: NotRequired[int | None]
    portia: NotRequired[PortiaIn | None]
    price: NotRequired[PriceIn | None]
    reuse: NotRequired[bool]
    """Copy answers to identical calls of other runs, at no cost."""
    rpm: NotRequired[int | None]
    sample: NotRequired[int | None]
    """How many of these are drawn at random, by `seed`."""
    scale: NotRequired[str]
    """pointwise: the range of scores, such as 1,10."""
    seed: NotRequired[int | None]
    temperature: NotRequired[Decimal | float | str | None]
    template: NotRequired[str]
    tpm: NotRequired[int | None]
    unread_calls: NotRequired[int | None]
    where: NotRequired[list[str]]
    """Such as `category=math`; docs/files.md has the names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOut:
    number: int
    name: str
    method: str
    form: str
    endpoint: str
    model: str
    k: int
    state: str
    """queued, running, pausing, paused, cancelling, cancelled, done or failed."""
    reason: str
    budget_usd: Decimal | None
    created_at: datetime
    finished_at: datetime | None
    ranked: bool
    """If there is a report."""
    frame: str | None
    """Which examples it is about; null for all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoresOut:
    items: int
    """New single responses."""
    added: int
    known: int
    conflicts: list[str]


class SettingsIn(TypedDict):
    """What is left out stays as it is."""

    annotator_advantage: NotRequired[Decimal | float | str | None]
    ask_confidence: NotRequired[bool | None]
    """Whether people say how sure they are."""
    ask_spans: NotRequired[bool | None]
    """Whether people may mark text in responses."""
    both_bad: NotRequired[bool | None]
    cant_judge: NotRequired[bool | None]
    content_language: NotRequired[str | None]
    cost_basis: NotRequired[Literal["assumed", "measured"] | None]
    criteria: NotRequired[list[str] | None]
    criterion_weights: NotRequired[dict[str, Decimal | float | str] | None]
    description: NotRequired[str | None]
    guidelines: NotRequired[str | None]
    hide_models: NotRequired[bool | None]
    label_rule: NotRequired[Literal["majority", "dawid_skene", "hierarchical"] | None]
    """What the votes on an example come to: their majority, or a model's label."""
    language: NotRequired[str | Literal["en", "de", "es", "fr", "zh-hans", "ar"] | None]
    leave_out_unblinded: NotRequired[bool | None]
    minutes_per_vote: NotRequired[Decimal | float | str | None]
    name: NotRequired[str | None]
    no_majority: NotRequired[Literal["adjudicate", "tie", "judge"] | None]
    overall_from: NotRequired[Literal["", "weighted", "lexicographic"] | None]
    """Whether the overall answer is asked (“”) or derived from the criteria."""
    question_asked: NotRequired[str | None]
    reason_tags: NotRequired[list[str] | None]
    """Reasons that people may choose from, at most 9."""
    rendering: NotRequired[Literal["markdown", "plain"] | None]
    scale: NotRequired[Literal["three", "five"] | None]
    show_reference: NotRequired[bool | None]
    tie_margin: NotRequired[Decimal | float | str | None]
    """Sums of weights that differ by at most this are a tie."""
    translations: NotRequired[dict[str, Translation] | None]
    """All translations, by language. Each has all that is asked by default."""
    wage_usd: NotRequired[Decimal | float | str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsOut:
    """What people are asked, how votes are merged, and what a vote costs. Rounds keep their own."""

    name: str
    description: str
    question_asked: str
    guidelines: str
    scale: str
    both_bad: bool
    cant_judge: bool
    criteria: list[str]
    overall_from: str
    """“” if it is asked, else weighted or lexicographic."""
    criterion_weights: dict[str, str]
    tie_margin: Decimal
    ask_confidence: bool
    reason_tags: list[str]
    ask_spans: bool
    language: str
    """Of the texts that are asked; “” if it isn't stated."""
    translations: dict[str, Translation]
    """The same, by language."""
    content_language: str
    """Of questions and responses, as a tag of BCP 47."""
    rendering: str
    hide_models: bool
    show_reference: bool
    no_majority: str
    label_rule: str
    leave_out_unblinded: bool
    annotator_advantage: Decimal
    wage_usd: Decimal
    minutes_per_vote: Decimal
    cost_basis: str


class ShareIn(TypedDict):
    """How much one annotator labels. Give exactly one of `percent` and `items`."""

    annotator: int
    items: NotRequired[int | None]
    percent: NotRequired[Decimal | float | str | None]
    """Of the round's votes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SizesOut:
    """How many labels a study needs. docs/pages.md says what each goal means."""

    study: StudyOut
    measured: list[str]
    """The values that come from the pilot."""
    goals: list[NeedOut]


@dataclass(frozen=True, slots=True, kw_only=True)
class SolvedOut:
    external_id: str
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingOut:
    """A round and how far people are. The progress is null until it is written whole."""

    number: int
    kind: str
    """routed, import, training or qualification."""
    after: int | None
    """The round that people pass before this one."""
    state: str
    """opening, open, paused or closed."""
    stage: str
    run: int | None
    votes_per_item: int
    frame_size: int
    frame: str | None
    """Which examples it is about; null for all."""
    opened_at: datetime
    closed_at: datetime | None
    items: int | None
    done: int | None
    undecided: int | None
    in_work: int | None
    votes_asked: int | None
    votes_given: int | None
    usd: Decimal | None
    usd_left: Decimal | None
    can_vote: int | None
    out_of_reach: int | None
    flags: int | None


class StudyIn(TypedDict):
    """What is expected of a study, and what it is to show. What is left out has its default."""

    accuracy: NotRequired[float | None]
    """Of the judge's labels."""
    epsilon: NotRequired[float | None]
    """Largest share of wrong labels to certify."""
    examples: NotRequired[int | None]
    """Examples that the judge labels."""
    kappa: NotRequired[float | None]
    """Of the judge's labels and people's."""
    minutes_per_vote: NotRequired[Decimal | float | str | None]
    power: NotRequired[float | None]
    """Probability to show what is true."""
    ties: NotRequired[float | None]
    """Share of people's labels."""
    votes: NotRequired[int | None]
    wage_usd: NotRequired[Decimal | float | str | None]
    win_rate: NotRequired[float | None]
    """Of model 1, by people."""
    within: NotRequired[float | None]
    """Half the width of intervals."""
    wrong: NotRequired[float | None]
    """Wrong labels where nobody reviews."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyOut:
    win_rate: float
    ties: float
    accuracy: float
    kappa: float
    wrong: float
    within: float
    power: float
    epsilon: float
    examples: int | None
    votes: int
    minutes_per_vote: Decimal
    wage_usd: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionOut:
    """A person of a panel. Only the file for paying holds the panel's ids."""

    id: int
    annotator: int | None
    """Null for those who were screened out."""
    pseudonym: str
    state: str
    """working, left, complete, screened, nothing, returned, rejected or approved."""
    votes: int
    active_minutes: float | None
    started_at: datetime
    ended_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TagChangeOut:
    change: int | None
    """To undo it; null if nothing changed."""
    tag: str
    added: bool
    examples: int
    """How many examples changed."""


class TagIn(TypedDict):
    """A tag for the examples that are chosen; for all of them if none are."""

    add: NotRequired[bool]
    """false takes the tag away."""
    examples: NotRequired[list[str] | None]
    """Only these ids."""
    sample: NotRequired[int | None]
    """How many of these are drawn at random, by `seed`."""
    tag: str
    where: NotRequired[list[str]]
    """Such as `category=math`; docs/files.md has the names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamAddedOut:
    joined: int
    already: int
    """They were members already, and keep their roles."""
    to_invite: int
    """They left, and need an invitation to come back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamDeletedOut:
    deleted: str


class TeamIn(TypedDict):
    name: str
    people: NotRequired[list[TeamMemberIn]]


class TeamMemberIn(TypedDict):
    tags: NotRequired[list[str]]
    """Languages and skills."""
    user: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamMemberOut:
    user: str
    tags: list[str]


class TeamNameIn(TypedDict):
    team: str


class TeamNewNameIn(TypedDict):
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamOut:
    id: int
    name: str
    owner: str
    people: list[TeamMemberOut]


class TemplateIn(TypedDict):
    """A judge template, with the keys that a file for `judge --template` has."""

    form: str
    name: str
    reply: NotRequired[str]
    sample_reply: str
    """As the judge would write it, with a verdict that FairJudge can read."""
    scale: NotRequired[list[Decimal | float | str] | None]
    """The lowest and the highest score."""
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateOut:
    """A version of a template. Its name means the newest version that is not retired."""

    id: int
    name: str
    form: str
    text: str
    created_at: datetime
    retired_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenOut:
    prefix: str
    name: str
    scopes: list[str]
    project: str | None
    """The only project that the token opens; null: all."""
    expires_at: datetime | None


class Translation(TypedDict):
    guidelines: NotRequired[str]
    names: NotRequired[dict[str, str]]
    """How criteria and reasons are shown, by the names in the settings."""
    question_asked: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UndecidedOut:
    """An item whose votes gave no majority. `new_decision` decides about it."""

    external_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VotesAsideOut:
    votes: int


class VotesIn(TypedDict):
    votes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VotesOut:
    added: int
    known: int
    """Votes that the project has already."""
    conflicts: list[str]
    annotators: list[str]
    protocol: str
    filled: int
    """Votes for which open rounds were waiting."""


class WebhookIn(TypedDict):
    events: NotRequired[list[str]]
    """Default: all."""
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookOut:
    number: int
    url: str
    events: list[str]
    state: str
    """on, paused, or gone: the receiver answered 410."""
    failures: int
    """The last attempts in a row that got no answer."""
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookSecret:
    """A webhook with its new secret, which nothing tells later."""

    number: int
    url: str
    events: list[str]
    state: str
    """on, paused, or gone: the receiver answered 410."""
    failures: int
    """The last attempts in a row that got no answer."""
    created_at: datetime
    secret: str
    """`whsec_…`, as Standard Webhooks writes it."""
