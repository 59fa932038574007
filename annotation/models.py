"""The tables of annotation.

They are in one module because they refer to each other: a project's annotators have seats in
rounds; a round has items, each with n slots, so that the tables themselves allow exactly n votes;
a vote fills slots. Rows that tell what was asked, seen or decided are only ever added.
"""

import secrets
from typing import Any, Self

from django.conf import settings
from django.db import models
from django.db.models import F, Q

from judging.core.models import Leased, user_or_none
from judging.core.sql.statements import LeavingOut
from judging.dataset.models import Example, Frame, Label
from judging.methods.verdicts.verdicts import CriteriaRule
from judging.projects.models import Project, Role
from judging.runs.models import JudgeTemplate, Run


class Annotator(models.Model):
    """A member who labels, or a name that came with imported votes. `number` is the pseudonym."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="annotators")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="annotators"
    )
    number = models.PositiveIntegerField()
    name = models.CharField(max_length=200)
    left_at = models.DateTimeField(null=True, blank=True)
    # Came by a round's crowd link: no member, and let into that round alone.
    is_crowd = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "name"], name="annotator_name_once"),
            models.UniqueConstraint(fields=["project", "number"], name="annotator_number_once"),
            models.UniqueConstraint(
                fields=["project", "user"],
                condition=Q(user__isnull=False),
                name="annotator_user_once",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def pseudonym(self) -> str:
        return f"annotator-{self.number}"


class Erasure(models.Model):
    """A person's own wish to be erased. It goes with the login, once all else is erased."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE)
    remove_votes = models.BooleanField(default=False)
    asked_at = models.DateTimeField()


class Invitation(models.Model):
    """A link that lets people join.

    The link carries the row's key and nonce, signed, so that the table holds no secret, and the
    link opens nothing once the key belongs to another row.

    made_after: the project's last `LostRight` when the link was made. People who lost a right
        after it are not let in, and if its maker did, the link no longer works.
    created_by: None for the operator.
    """

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="invitations")
    role = models.CharField(max_length=10, choices=Role, default=Role.ANNOTATOR)
    note = models.CharField(max_length=200, blank=True)
    max_uses = models.PositiveIntegerField(default=1)
    uses = models.PositiveIntegerField(default=0)
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True, blank=True)
    nonce = models.CharField(max_length=43, unique=True, default=secrets.token_urlsafe)
    made_after = models.PositiveBigIntegerField(default=0)
    # Deleted with its maker, without whom it would look like the operator's.
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.CASCADE, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)


class Team(models.Model):
    """People whom a user asks together in the projects that this user owns."""

    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="teams"
    )
    name = models.CharField(max_length=80)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["owner", "name"], name="team_name_once")]

    def __str__(self) -> str:
        return self.name


class TeamMember(models.Model):
    """A person in a team. tags: such as `german` or `medicine`, in small letters."""

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="members")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="in_teams"
    )
    tags = models.JSONField(default=list, blank=True)
    added_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["team", "user"], name="team_member_once")]


class SeatQuerySet(models.QuerySet["Seat"]):
    def may_label(self) -> Self:
        """Keep the seats of people who neither left the round nor are held back in it."""
        return self.filter(left_at=None, hold=Seat.Hold.NONE)


class Seat(models.Model):
    """An annotator in a round. A round that is open to all makes seats as people come.

    limit: how many items they may have in hand and done; None for no limit.
    cursor: position of the last item handed out, so that finding the next one does not walk over
        everything already done.
    n_shown: how many items they were shown, by which the sides are balanced.
    hold: whether an owner, or a rule about attention checks, hands nothing more out to them.
    """

    class Hold(models.TextChoices):
        NONE = "", "may label"
        PAUSED = "paused", "paused"
        STOPPED = "stopped", "stopped"
        FAILED = "failed", "stopped by attention checks"

    round = models.ForeignKey("annotation.Round", on_delete=models.CASCADE, related_name="seats")
    annotator = models.ForeignKey(Annotator, on_delete=models.CASCADE, related_name="seats")
    limit = models.PositiveIntegerField(null=True, blank=True)
    cursor = models.FloatField(default=-1)
    n_shown = models.PositiveIntegerField(default=0)
    left_at = models.DateTimeField(null=True, blank=True)
    hold = models.CharField(max_length=7, choices=Hold, blank=True, default=Hold.NONE)

    objects = SeatQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["round", "annotator"], name="seat_once")]


class Protocol(models.Model):
    """What people are asked, word for word. Never changed once made.

    translations: the same in other languages, by language (`annotation.queue.drafts.Wording`).
    language: of the other texts here; "" if there are no translations, or if it wasn't said.
    """

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="protocols")
    number = models.PositiveIntegerField()
    name = models.CharField(max_length=120)
    question_asked = models.CharField(max_length=300)
    guidelines = models.TextField(blank=True)
    scale = models.CharField(max_length=8, choices=Project.Scale)
    both_bad = models.BooleanField(default=False)
    cant_judge = models.BooleanField(default=False)
    hide_models = models.BooleanField(default=False)
    show_reference = models.BooleanField(default=False)
    ask_confidence = models.BooleanField(default=False)
    reason_tags = models.JSONField(default=list)
    ask_spans = models.BooleanField(default=False)
    criteria = models.JSONField(default=list)
    # Empty if the overall answer is asked.
    criteria_rule = models.JSONField(default=dict)
    rendering = models.CharField(max_length=8, choices=Project.Rendering)
    language = models.CharField(max_length=10, blank=True, default="")
    translations = models.JSONField(default=dict)
    digest = models.CharField(max_length=64)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "digest"], name="protocol_once"),
            models.UniqueConstraint(fields=["project", "number"], name="protocol_number_once"),
            models.UniqueConstraint(fields=["project", "name"], name="protocol_name_once"),
        ]

    @property
    def rule(self) -> CriteriaRule | None:
        """How the overall answer comes from those on criteria; None if it is asked."""
        return CriteriaRule.from_json(self.criteria_rule) if self.criteria_rule else None


class OpenedRounds(LeavingOut):
    """Rounds whose items are all written."""

    rows = {"state": "opening"}


class Round(models.Model):
    """Examples that people label: how many votes each, and how the votes are merged.

    `objects` leaves out a round whose items are still being written, `every` doesn't.
    """

    class Kind(models.TextChoices):
        ROUTED = "routed", "labelled here"
        IMPORT = "import", "labelled elsewhere"
        TRAINING = "training", "training"
        QUALIFICATION = "qualification", "qualification"

    # Their pairs have known labels, and their votes enter nothing but what they say of the person.
    PRACTICE = (Kind.TRAINING, Kind.QUALIFICATION)

    class State(models.TextChoices):
        OPENING = "opening", "being opened"
        OPEN = "open", "open"
        PAUSED = "paused", "paused"
        CLOSED = "closed", "closed"

    class Cite(models.TextChoices):
        """Which win rate the results give to cite, chosen before people label."""

        NARROWER = "narrower", "the narrower of two estimates"
        CALIBRATED = "calibrated", "the judge, calibrated by people"

    class Stage(models.TextChoices):
        ONLY = "only", "one stage"
        LEARN = "learn", "learning where the judge errs"
        SELECT = "select", "labelling what was selected"

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="rounds")
    number = models.PositiveIntegerField()
    kind = models.CharField(max_length=13, choices=Kind, default=Kind.ROUTED)
    # Training or a qualification that people pass before they label in this round.
    after = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.SET_NULL, related_name="opens"
    )
    run = models.ForeignKey(Run, null=True, on_delete=models.SET_NULL, related_name="rounds")
    protocol = models.ForeignKey(Protocol, on_delete=models.PROTECT, related_name="rounds")
    state = models.CharField(max_length=8, choices=State, default=State.OPEN)
    stage = models.CharField(max_length=8, choices=Stage, default=Stage.ONLY)
    votes_per_item = models.PositiveSmallIntegerField(default=3)
    seed = models.BigIntegerField()
    # In the annotators' links to the round; a new nonce ends them.
    nonce = models.CharField(max_length=43, unique=True, default=secrets.token_urlsafe)
    open_to_all = models.BooleanField(default=True)
    # How many in 100 of a person's pairs can come again. `parameters` says after how many others.
    repeat_percent = models.PositiveSmallIntegerField(default=0, db_default=0)
    no_majority = models.CharField(
        max_length=10, choices=Project.NoMajority, default=Project.NoMajority.ADJUDICATE
    )
    frame_size = models.PositiveIntegerField(default=0)
    # None for all examples of the run, or of the project.
    frame = models.ForeignKey(
        Frame, null=True, blank=True, on_delete=models.RESTRICT, related_name="rounds"
    )
    paper_mode = models.BooleanField(default=False)
    parameters = models.JSONField(default=dict, blank=True)
    certificate_plan = models.JSONField(null=True, blank=True)
    wage_usd = models.DecimalField(max_digits=10, decimal_places=4)
    minutes_per_vote = models.DecimalField(max_digits=8, decimal_places=3)
    cost_basis = models.CharField(max_length=8, choices=Project.CostBasis)
    opened_by = user_or_none()
    opened_at = models.DateTimeField(auto_now_add=True)
    closed_at = models.DateTimeField(null=True, blank=True)

    objects: models.Manager["Round"] = OpenedRounds()
    every = models.Manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "number"], name="round_number_once"),
            models.UniqueConstraint(
                fields=["project", "protocol"],
                condition=Q(kind="import"),
                name="one_import_round_a_protocol",
            ),
        ]

    def __str__(self) -> str:
        named = f"round {self.number}"
        return f"{named} ({self.get_kind_display()})" if self.is_practice else named

    @property
    def is_practice(self) -> bool:
        return self.kind in Round.PRACTICE


class PracticeResult(models.Model):
    """What came of one person's training, or of one try at a qualification. Only ever added.

    number: of the try, from 1. n, right: pairs answered, and how many like the known label.
    is_over: they passed, or have no try left.
    """

    round = models.ForeignKey(Round, on_delete=models.CASCADE, related_name="results")
    annotator = models.ForeignKey(Annotator, on_delete=models.CASCADE, related_name="results")
    number = models.PositiveSmallIntegerField()
    n = models.PositiveIntegerField()
    right = models.PositiveIntegerField()
    passed = models.BooleanField()
    is_over = models.BooleanField()
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["round", "annotator", "number"], name="practice_result_once"
            )
        ]


class RoundTold(models.Model):
    """How far a round was when webhooks were last told of it. See `annotation.rounds.telling`.

    undecided: the items that needed a decision.
    level: how many planned looks at the audit were over, and one more once it was settled whole.
    certificate: `issued`, `refused`, or empty.
    version: grows with each change, so that of two processes one tells of it.

    Kept apart from the round, because the round is read with every vote.
    """

    round = models.OneToOneField(
        Round, on_delete=models.CASCADE, primary_key=True, related_name="told"
    )
    complete = models.BooleanField(default=False)
    undecided = models.JSONField(default=list)
    level = models.PositiveSmallIntegerField(default=0)
    certificate = models.CharField(max_length=8, blank=True)
    version = models.PositiveIntegerField(default=0)


class CrowdLink(models.Model):
    """A round's link for the people of a panel such as Prolific or MTurk.

    The link carries the row's key and nonce, signed. It works only as long as its maker may invite
    people, like an `Invitation`.

    worker_name, study_name, session_name: the parameters in which the panel sends its ids.
    questions: what is asked about a person before the first pair (`annotation.people.background`).
    completion_text, screened_text: what people read at the end, besides the code; may be empty.
    translations: all these texts in other languages, by language and name.
    max_people: how many may be at work or done at once; max_pairs: how many pairs each gets.
    """

    round = models.OneToOneField(Round, on_delete=models.CASCADE, related_name="crowd_link")
    nonce = models.CharField(max_length=43, unique=True, default=secrets.token_urlsafe)
    withdrawn_at = models.DateTimeField(null=True, blank=True)
    worker_name = models.CharField(max_length=40, default="PROLIFIC_PID")
    study_name = models.CharField(max_length=40, default="STUDY_ID", blank=True)
    session_name = models.CharField(max_length=40, default="SESSION_ID", blank=True)
    consent = models.TextField()
    questions = models.JSONField(default=list, blank=True)
    completion_text = models.TextField(blank=True, default="")
    screened_text = models.TextField(blank=True, default="")
    translations = models.JSONField(default=dict, blank=True)
    max_people = models.PositiveIntegerField(default=50)
    max_pairs = models.PositiveIntegerField(default=20)
    completion_code = models.CharField(max_length=100, blank=True)
    completion_url = models.CharField(max_length=500, blank=True)
    screened_code = models.CharField(max_length=100, blank=True)
    screened_url = models.CharField(max_length=500, blank=True)
    made_after = models.PositiveBigIntegerField(default=0)
    # Without a maker the link is dead: only people make one.
    created_by = user_or_none()
    created_at = models.DateTimeField(auto_now_add=True)


class CrowdSubmission(models.Model):
    """One person of a panel in a round.

    The panel's ids are needed to pay, and to know a person who comes back. Only owners see them, in
    the file for paying, and erasing the person empties them.

    annotator: none for those who were screened out.
    answers: to the link's questions, by name.
    """

    class State(models.TextChoices):
        WORKING = "working", "working"
        LEFT = "left", "gone away"
        COMPLETE = "complete", "complete"
        SCREENED = "screened", "screened out"
        NOTHING = "nothing", "found no pair"
        RETURNED = "returned", "returned"
        REJECTED = "rejected", "rejected"
        APPROVED = "approved", "approved"

    link = models.ForeignKey(CrowdLink, on_delete=models.CASCADE, related_name="submissions")
    annotator = models.OneToOneField(
        Annotator, null=True, on_delete=models.CASCADE, related_name="submission"
    )
    worker_id = models.CharField(max_length=120, blank=True)
    study_id = models.CharField(max_length=120, blank=True)
    session_id = models.CharField(max_length=120, blank=True)
    state = models.CharField(max_length=8, choices=State, default=State.WORKING)
    answers = models.JSONField(default=dict, blank=True)
    started_at = models.DateTimeField(auto_now_add=True)
    # When they began or came back last, from which their absence is counted.
    back_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["link", "worker_id"], condition=~Q(worker_id=""), name="crowd_worker_once"
            )
        ]
        indexes = [models.Index(fields=["link", "state"], name="submission_by_state")]


class ReadySelections(LeavingOut):
    """Selections whose items are all written."""

    rows = {"ready": False}


class Selection(models.Model):
    """Why items are in a round: the cut, a random audit, a learning sample, attention checks.

    ready: all its items are written. Until then, neither they nor the selection are seen;
        `every` has them nevertheless, here and in `Item`.
    """

    class Kind(models.TextChoices):
        TOP = "top", "selected by rank"
        AUDIT = "audit", "audit"
        LEARN = "learn", "learning sample"
        CHECK = "check", "attention check"
        ALL = "all", "all examples"
        IMPORT = "import", "imported"

    # Drawn at random to measure or to teach the judge, which therefore never decides them.
    RANDOM = (Kind.AUDIT, Kind.LEARN)

    round = models.ForeignKey(Round, on_delete=models.CASCADE, related_name="selections")
    kind = models.CharField(max_length=8, choices=Kind)
    parameters = models.JSONField(default=dict, blank=True)
    seed = models.BigIntegerField()
    frame_size = models.PositiveIntegerField()
    n_items = models.PositiveIntegerField(default=0)
    ready = models.BooleanField(default=True)
    created_at = models.DateTimeField(auto_now_add=True)

    objects: models.Manager["Selection"] = ReadySelections()
    every = models.Manager()


class RoundWork(Leased):
    """Long work on a round, done in many short transactions by one process at a time.

    If that process is killed, a worker goes on. What is written is seen only once all of it is.

    plan: settings of the work, fixed at its start. Its rows are in `WorkPart`.
    n_done, n_total: rows of the plan, or items to settle if the round is closed or reopened.
    """

    class Kind(models.TextChoices):
        OPEN = "open", "opening the round"
        EXTEND = "extend", "extending the cut"
        SELECT = "select", "selecting the rest"
        VOTES = "votes", "asking for more votes"
        CLOSE = "close", "closing the round"
        REOPEN = "reopen", "reopening the round"

    class State(models.TextChoices):
        WRITING = "writing", "writing"
        SETTLING = "settling", "counting votes"
        CANCELLING = "cancel", "cancelling"
        DONE = "done", "done"

    round = models.ForeignKey(Round, on_delete=models.CASCADE, related_name="works")
    kind = models.CharField(max_length=8, choices=Kind)
    state = models.CharField(max_length=8, choices=State, default=State.WRITING)
    plan = models.JSONField(default=dict)
    n_done = models.PositiveIntegerField(default=0)
    n_total = models.PositiveIntegerField(default=0)
    user = user_or_none()
    begun_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["round"], condition=~Q(state="done"), name="one_work_a_round"
            )
        ]

    @property
    def is_cancellable(self) -> bool:
        """Closing writes nothing of its own, so it is undone while the items are settled."""
        undone = self.State.SETTLING if self.kind == self.Kind.CLOSE else self.State.WRITING
        return self.state == undone and self.kind != self.Kind.SELECT


class WorkPart(models.Model):
    """A part of what long work writes, apart from the row that changes with every chunk.

    start: place of the first row in the whole plan; -1 for what a round learned.
    """

    work = models.ForeignKey(RoundWork, on_delete=models.CASCADE, related_name="parts")
    start = models.IntegerField()
    content = models.JSONField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["work", "start"], name="work_part_once")]


class RoutingScores(models.Model):
    """What a round learned in its first stage, fixed when the second stage opens.

    scores: for each of `examples`, the probability that the judge's label is wrong, or BPDE if
        `fit` says that BPDE was kept; null if the judge gave no label.

    Kept apart from the round, because the round is read with every vote.
    """

    round = models.OneToOneField(
        Round, on_delete=models.CASCADE, primary_key=True, related_name="routing_scores"
    )
    fit = models.JSONField()
    examples = models.JSONField()
    scores = models.JSONField()
    created_at = models.DateTimeField(auto_now_add=True)


UNREADY = Selection.every.filter(ready=False).values("pk")


class VisibleItems(LeavingOut):
    """Items of selections that are written whole."""

    rows = {"selection__in": UNREADY}

    def that_use_examples(self) -> models.QuerySet["Item"]:
        """Return all items, also those that nobody sees yet: their examples must stay."""
        return Item.every.all()


class Item(models.Model):
    """An example in a round, with its state, which `annotation.queue.settling` keeps.

    position: place in the round's random order, which says nothing about the rank. A float, so
        that items added later get random places in between.
    probability: the chance with which the example was drawn; 1 for the cut.
    """

    class State(models.TextChoices):
        OPEN = "open", "open"
        COMPLETE = "complete", "complete"
        ADJUDICATE = "adjudicate", "needs a decision"

    round = models.ForeignKey(Round, on_delete=models.CASCADE, related_name="items")
    selection = models.ForeignKey(Selection, on_delete=models.CASCADE, related_name="items")
    example = models.ForeignKey(Example, on_delete=models.CASCADE, related_name="items")
    position = models.FloatField()
    audit_order = models.PositiveIntegerField(null=True)
    rank = models.PositiveIntegerField(null=True)
    bpde = models.FloatField(null=True)
    routing_score = models.FloatField(null=True)
    probability = models.FloatField(null=True)
    state = models.CharField(max_length=10, choices=State, default=State.OPEN)

    objects = VisibleItems()
    every = models.Manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["round", "example"], name="item_once")]
        indexes = [models.Index(fields=["round", "state"], name="item_by_state")]


class SlotQuerySet(models.QuerySet["Slot"]):
    def asked(self) -> Self:
        """Keep what people are asked for: no slot of a selection, or of more votes, that is still
        being written."""
        there = Q(index__lt=F("round__votes_per_item")) | Q(vote__isnull=False)
        return self.filter(there).exclude(item__selection__in=UNREADY)


class Slot(models.Model):
    """Room for one vote, claimed by a conditional UPDATE and filled by exactly one vote.

    vote: the vote that counts here, cast in this slot or elsewhere under the same protocol.
    round, position: the item's, repeated for the index that finds the next free slot.
    """

    round = models.ForeignKey(Round, on_delete=models.CASCADE, related_name="slots")
    item = models.ForeignKey(Item, on_delete=models.CASCADE, related_name="slots")
    index = models.PositiveSmallIntegerField()
    position = models.FloatField()
    annotator = models.ForeignKey(
        Annotator, null=True, on_delete=models.SET_NULL, related_name="slots"
    )
    lease_until = models.DateTimeField(null=True)
    vote = models.ForeignKey(
        "annotation.Vote", null=True, on_delete=models.SET_NULL, related_name="counted_in"
    )

    objects = SlotQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["item", "index"], name="slot_once"),
            models.UniqueConstraint(
                fields=["item", "annotator"],
                condition=Q(annotator__isnull=False),
                name="one_slot_a_person",
            ),
            models.UniqueConstraint(
                fields=["item", "vote"], condition=Q(vote__isnull=False), name="vote_counts_once"
            ),
        ]
        indexes = [
            models.Index(
                fields=["round", "position"], condition=Q(vote__isnull=True), name="slot_unfilled"
            ),
            models.Index(fields=["annotator", "round", "vote"], name="slot_of_person"),
        ]


class FirstDrafts(LeavingOut):
    """Drafts of pairs that a person has for the first time."""

    rows = {"repeat__isnull": False}


class Draft(models.Model):
    """What an annotator has in hand: which response is on the left, and what was entered so far.

    Only the token names the item on the screen and in its URL. `objects` leaves out the drafts of
    pairs that a person has again, `every` doesn't.
    """

    item = models.ForeignKey(Item, on_delete=models.CASCADE, related_name="drafts")
    annotator = models.ForeignKey(Annotator, on_delete=models.CASCADE, related_name="drafts")
    token = models.CharField(max_length=43, unique=True)
    left_response = models.PositiveSmallIntegerField()
    answer = models.JSONField(default=dict, blank=True)
    comment = models.TextField(blank=True)
    active_seconds = models.FloatField(default=0)
    opened_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)
    repeat = models.OneToOneField(
        "annotation.Repeat", null=True, on_delete=models.CASCADE, related_name="draft"
    )

    objects: models.Manager["Draft"] = FirstDrafts()
    every = models.Manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["item", "annotator"], condition=Q(repeat=None), name="draft_once"
            ),
            models.CheckConstraint(
                condition=Q(left_response__in=[1, 2]), name="draft_left_is_1_or_2"
            ),
        ]


class Reading(models.Model):
    """An annotator has seen a protocol's guidelines, so that they open by themselves only once."""

    annotator = models.ForeignKey(Annotator, on_delete=models.CASCADE, related_name="readings")
    protocol = models.ForeignKey(Protocol, on_delete=models.CASCADE, related_name="readings")
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["annotator", "protocol"], name="reading_once")
        ]


class Skip(models.Model):
    item = models.ForeignKey(Item, on_delete=models.CASCADE, related_name="skips")
    annotator = models.ForeignKey(Annotator, on_delete=models.CASCADE, related_name="skips")
    reason = models.CharField(max_length=500, blank=True)
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["item", "annotator"], name="skip_once")]


class Flag(models.Model):
    item = models.ForeignKey(Item, on_delete=models.CASCADE, related_name="flags")
    annotator = models.ForeignKey(Annotator, on_delete=models.CASCADE, related_name="flags")
    reason = models.TextField()
    at = models.DateTimeField(auto_now_add=True)
    settled_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["item", "annotator"], name="flag_once")]


class CountedVotes(LeavingOut):
    """Votes that were not put aside, and not given in training or a qualification."""

    rows = {"aside_at__isnull": False}
    also = {"is_practice": True}


class Vote(models.Model):
    """One person's vote on an example under a protocol.

    `objects` leaves out votes that were put aside or given in practice, `every` doesn't: those
    still cost what they cost, and their person doesn't vote on the pair again.

    slot: where the vote was cast; None while it is put aside, because somebody else may fill it.
    answer: what was chosen, by side, and the rule that derived the overall choice, if one did; how
        sure the person is, their reasons, and what they marked, by response (`rendering.spans`);
        label: win, tie or lose of response 1, derived from it. It is empty if the person can't
        judge the pair. The comment then says why.
    left_response: 1 or 2, the response on the left; null for imported votes that don't say.
    unblinded: the voter had already seen judge output in the project.
    language: of the page on which the vote was cast; "" if that isn't known.
    """

    class Source(models.TextChoices):
        SCREEN = "screen", "screen"
        IMPORT = "import", "import"

    slot = models.OneToOneField(
        Slot, null=True, on_delete=models.CASCADE, related_name="annotation"
    )
    item = models.ForeignKey(Item, on_delete=models.CASCADE, related_name="annotations")
    example = models.ForeignKey(Example, on_delete=models.CASCADE, related_name="annotations")
    protocol = models.ForeignKey(Protocol, on_delete=models.PROTECT, related_name="annotations")
    annotator = models.ForeignKey(Annotator, on_delete=models.CASCADE, related_name="annotations")
    label = models.CharField(max_length=4, choices=Label.choices, blank=True)
    answer = models.JSONField(default=dict)
    left_response = models.PositiveSmallIntegerField(null=True)
    comment = models.TextField(blank=True)
    active_seconds = models.FloatField(null=True)
    source = models.CharField(max_length=6, choices=Source, default=Source.SCREEN)
    unblinded = models.BooleanField(default=False)
    language = models.CharField(max_length=10, blank=True, default="", db_default="")
    submitted_at = models.DateTimeField(null=True)
    updated_at = models.DateTimeField(auto_now=True)
    aside_at = models.DateTimeField(null=True, blank=True)
    is_practice = models.BooleanField(default=False, db_default=False)

    objects: models.Manager["Vote"] = CountedVotes()
    every = models.Manager()

    class Meta:
        # Votes were called annotations, and old backups name the table so.
        db_table = "annotation_annotation"
        constraints = [
            models.UniqueConstraint(fields=["item", "annotator"], name="one_vote_an_item"),
            models.UniqueConstraint(
                fields=["annotator", "example", "protocol"], name="one_vote_a_protocol"
            ),
            models.CheckConstraint(
                condition=Q(left_response__isnull=True) | Q(left_response__in=[1, 2]),
                name="vote_left_is_1_or_2",
            ),
        ]
        indexes = [models.Index(fields=["example", "protocol"], name="votes_of_example")]


class Repeat(models.Model):
    """A pair that its person gets once more, with the sides exchanged, to see if they agree with
    themselves. It is no vote: it fills no slot, and enters nothing but self-agreement and its cost.

    due: how many votes of theirs in the round come first.
    first_label: the vote's label when the repeat was answered. label: what they said then.
    """

    vote = models.OneToOneField(Vote, on_delete=models.CASCADE, related_name="repeat")
    round = models.ForeignKey(Round, on_delete=models.CASCADE, related_name="repeats")
    annotator = models.ForeignKey(Annotator, on_delete=models.CASCADE, related_name="repeats")
    due = models.PositiveIntegerField()
    label = models.CharField(max_length=4, choices=Label.choices, blank=True)
    first_label = models.CharField(max_length=4, choices=Label.choices, blank=True)
    answer = models.JSONField(default=dict, blank=True)
    comment = models.TextField(blank=True)
    active_seconds = models.FloatField(null=True)
    skipped_at = models.DateTimeField(null=True, blank=True)
    submitted_at = models.DateTimeField(null=True, blank=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        indexes = [
            models.Index(
                fields=["round", "annotator", "due"],
                condition=Q(submitted_at=None, skipped_at=None),
                name="repeat_to_come",
            )
        ]


class Intervention(models.Model):
    """What was done about a person in a round, by whom and why, until it is ended.

    actor: who did it, as the audit trail names them; RULE for a rule about attention checks.
    n_votes: votes that were put aside, at the last count.
    is_due: what follows is still to be done, which a worker does if nobody else comes to it.
    """

    RULE = "rule of the round"

    class Kind(models.TextChoices):
        ASIDE = "aside", "votes put aside"
        STOP = "stop", "stopped"
        PAUSE = "pause", "paused"
        WARN = "warn", "warned"

    round = models.ForeignKey(Round, on_delete=models.CASCADE, related_name="interventions")
    annotator = models.ForeignKey(Annotator, on_delete=models.CASCADE, related_name="interventions")
    kind = models.CharField(max_length=5, choices=Kind)
    reason = models.TextField(blank=True)
    actor = models.CharField(max_length=200)
    user = user_or_none()
    n_votes = models.PositiveIntegerField(default=0)
    is_due = models.BooleanField(default=False)
    at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["round", "annotator", "kind"],
                condition=Q(ended_at=None),
                name="intervention_once",
            )
        ]


class VoteRevision(models.Model):
    """What a vote was before it was edited."""

    annotation = models.ForeignKey(Vote, on_delete=models.CASCADE, related_name="revisions")
    label = models.CharField(max_length=4, choices=Label.choices, blank=True)
    answer = models.JSONField(default=dict)
    comment = models.TextField(blank=True)
    active_seconds = models.FloatField(null=True)
    submitted_at = models.DateTimeField(null=True)
    replaced_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "annotation_annotationrevision"


class Adjudication(models.Model):
    """A person's decision on an item that votes did not settle. The last one on an item holds."""

    item = models.ForeignKey(Item, on_delete=models.CASCADE, related_name="adjudications")
    label = models.CharField(max_length=4, choices=Label.choices)
    reason = models.TextField(blank=True)
    decided_by = user_or_none()
    decider = models.CharField(max_length=200, blank=True)
    at = models.DateTimeField(auto_now_add=True)


class Preregistration(models.Model):
    """What a project planned, with the hash of its text. Never changed once made.

    text: the document as JSON, as `sha256` is over it. number: 1 for the first plan, more for an
    amendment, which keeps the ones before.
    """

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="preregistrations")
    number = models.PositiveIntegerField()
    text = models.TextField()
    sha256 = models.CharField(max_length=64)
    made_by = user_or_none()
    made_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["project", "number"], name="preregistration_number_once"
            )
        ]

    def save(self, *args: Any, **kwargs: Any) -> None:
        if self.pk is not None:
            raise ValueError("A preregistration never changes. Make an amendment.")
        super().save(*args, **kwargs)


class GateLook(models.Model):
    """One look at a gate: what was required of a run, and what the data said.

    Looks at the same requirements share one error, so each spends its part of it by its number.

    requirements: as they are compared, in order. other: the run that it is compared with, if any.
    examples_sha256: the frozen set. data_sha256: what the look saw; a look at the same again is
        no new one.
    """

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="gate_looks")
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="gate_looks")
    other = models.ForeignKey(Run, null=True, on_delete=models.CASCADE, related_name="+")
    requirements = models.JSONField()
    requirements_sha256 = models.CharField(max_length=64)
    number = models.PositiveIntegerField()
    examples_sha256 = models.CharField(max_length=64)
    data_sha256 = models.CharField(max_length=64)
    confidence = models.FloatField()
    verdict = models.CharField(max_length=12)
    result = models.JSONField()
    decided_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["run", "requirements_sha256", "examples_sha256", "number"],
                name="gate_look_once",
            )
        ]


class Job(Leased):
    """Work that a page or a program left to a worker instead of waiting, one process at a time.

    asked: what the request held. result: the answer, with the keys of the answer at once.
    n_done: of a file, how many rows are written.
    """

    class Kind(models.TextChoices):
        GATE = "gate", "gate"
        COMPARE = "compare", "comparison"
        ESCALATE = "escalate", "escalation"
        CHEAPEST = "cheapest", "cheapest"
        VOTES = "votes", "votes"
        JUDGMENTS = "judgments", "recorded judgments"
        SCORES = "scores", "scores"
        REPORT = "report", "report"
        TABLE = "table", "table"
        LESSON = "lesson", "draft of a rubric"

    class State(models.TextChoices):
        WAITING = "waiting", "waiting"
        DONE = "done", "done"
        REFUSED = "refused", "refused"
        STOPPED = "stopped", "cancelled"

    GATES = (Kind.GATE, Kind.COMPARE, Kind.ESCALATE, Kind.CHEAPEST)
    IMPORTS = (Kind.VOTES, Kind.JUDGMENTS, Kind.SCORES)
    FILES = (Kind.REPORT, Kind.TABLE)

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="jobs")
    user = user_or_none()
    kind = models.CharField(max_length=10, choices=Kind)
    asked = models.JSONField()
    state = models.CharField(max_length=7, choices=State, default=State.WAITING)
    reason = models.TextField(blank=True)
    result = models.JSONField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)
    n_done = models.PositiveIntegerField(default=0)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        # From when there were only gates.
        db_table = "annotation_gaterequest"

    @property
    def files(self) -> list[str]:
        """The rows that were sent, and the file that was made, in the folder of uploads."""
        return [kept["file"] for kept in (self.asked, self.result or {}) if kept.get("file")]


class Lesson(models.Model):
    """What people's labels teach a judge, from the errors of a run to a version that was tested.

    run: whose errors teach. base: the name of its template. name: that of the taught template.
    taught: keys of all examples whose labels teach. pairs: the solved ones among them that are
        shown, each with its label. errors: keys of those on which people disagree with the run.
    annotators: for each simulated annotator, the examples that its prompts show, each with the vote
        of one person. Who it is isn't kept.
    drafted: the rubric as the model wrote it. rubric: as it was approved.
    usd: what the draft cost; None if the price is unknown. reserved_usd: the most that it could.
    asked_at: when the model was asked. Without an answer, the request may have been billed.
    tests: what each comparison with the old template said, the oldest first.
    """

    class Way(models.TextChoices):
        EXAMPLES = "examples", "solved examples"
        RUBRIC = "rubric", "a rubric"
        BOTH = "both", "solved examples and a rubric"
        ANNOTATORS = "annotators", "simulated annotators"

    class State(models.TextChoices):
        WAITING = "waiting", "rubric being drafted"
        FAILED = "failed", "not drafted"
        DRAFTED = "drafted", "to be approved"
        APPROVED = "approved", "to be tested"
        KEPT = "kept", "better, kept"
        DROPPED = "dropped", "not shown to be better, retired"

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="lessons")
    number = models.PositiveIntegerField()
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="lessons")
    way = models.CharField(max_length=12, choices=Way)
    state = models.CharField(max_length=8, choices=State)
    base = models.CharField(max_length=80, blank=True)
    name = models.SlugField(max_length=80)
    taught = models.JSONField(default=list)
    pairs = models.JSONField(default=list)
    annotators = models.JSONField(default=list, db_default=models.Value([], models.JSONField()))
    shown = models.PositiveSmallIntegerField(default=0)
    errors = models.JSONField(default=list)
    endpoint = models.CharField(max_length=80, blank=True)
    model = models.CharField(max_length=200, blank=True)
    price = models.JSONField(null=True, blank=True)
    budget_usd = models.DecimalField(max_digits=14, decimal_places=6, null=True, blank=True)
    reserved_usd = models.DecimalField(max_digits=18, decimal_places=10, null=True, blank=True)
    usd = models.DecimalField(max_digits=18, decimal_places=10, null=True, blank=True)
    prompt_tokens = models.PositiveIntegerField(null=True, blank=True)
    completion_tokens = models.PositiveIntegerField(null=True, blank=True)
    asked_at = models.DateTimeField(null=True, blank=True)
    reason = models.TextField(blank=True)
    drafted = models.TextField(blank=True)
    rubric = models.TextField(blank=True)
    version = models.ForeignKey(
        JudgeTemplate, null=True, blank=True, on_delete=models.SET_NULL, related_name="lessons"
    )
    tests = models.JSONField(default=list)
    created_by = user_or_none()
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "number"], name="lesson_number_once")
        ]

    def __str__(self) -> str:
        return f"lesson {self.number}"

    @property
    def state_words(self) -> str:
        """How far it is. Simulated annotators are approved, and nothing is tested."""
        is_ready = self.way == self.Way.ANNOTATORS and self.state == self.State.APPROVED
        return "approved" if is_ready else self.get_state_display()

    @property
    def has_rubric(self) -> bool:
        return self.way in (self.Way.RUBRIC, self.Way.BOTH)


class FirstChoice(models.Model):
    """What an adjudicator chose while the votes were hidden, and which response was on the left.

    label: win, tie or lose of response 1; empty until they have chosen.
    """

    item = models.ForeignKey(Item, on_delete=models.CASCADE, related_name="first_choices")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="first_choices"
    )
    left_response = models.PositiveSmallIntegerField()
    label = models.CharField(max_length=4, choices=Label.choices, blank=True)
    at = models.DateTimeField(auto_now_add=True)
    chosen_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["item", "user"], name="first_choice_once"),
            models.CheckConstraint(
                condition=Q(left_response__in=[1, 2]), name="first_choice_left_is_1_or_2"
            ),
        ]
