"""The tables of annotation, one module for each noun."""

import secrets

from django.conf import settings
from django.db import models
from django.db.models import Q

from judging.dataset.models import Example, Label
from judging.projects.models import Project, Role
from judging.runs.models import Run

__all__ = [
    "Adjudication",
    "Annotation",
    "AnnotationRevision",
    "Annotator",
    "Draft",
    "Flag",
    "Invitation",
    "Item",
    "Protocol",
    "Round",
    "RoutingScores",
    "Seat",
    "Selection",
    "Skip",
    "Slot",
]


class Annotator(models.Model):
    """Imported votes have an annotator too; `number` is the pseudonym used in exports."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="annotators")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="annotators"
    )
    number = models.PositiveIntegerField()
    name = models.CharField(max_length=200)
    left_at = models.DateTimeField(null=True, blank=True)
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


class Invitation(models.Model):
    """A link that lets people join. It carries the row's number and nonce, signed, so that the
    table holds no secret, and so that it opens nothing once the number belongs to another row.

    `made_after` is the project's last LostRight when the link was made: who lost a right since is
    not let in by it, and whoever made it then may no longer invite by it. Without `created_by` it
    is the operator's.
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
    # Their link ends with them: without its maker it would look like the operator's.
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.CASCADE, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)


class Seat(models.Model):
    """An annotator in a round: how much is theirs, and how far down the order they are.

    `cursor` is the position of the last item handed out, so that finding the next one does
    not walk over everything already done. A round with `open_to_all` makes seats as people come.
    """

    round = models.ForeignKey("annotation.Round", on_delete=models.CASCADE, related_name="seats")
    annotator = models.ForeignKey(Annotator, on_delete=models.CASCADE, related_name="seats")
    limit = models.PositiveIntegerField(null=True, blank=True)
    cursor = models.FloatField(default=-1)
    n_shown = models.PositiveIntegerField(default=0)
    left_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["round", "annotator"], name="seat_once"),
        ]


class Protocol(models.Model):
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="protocols")
    number = models.PositiveIntegerField()
    name = models.CharField(max_length=120)
    question_asked = models.CharField(max_length=300)
    guidelines = models.TextField(blank=True)
    scale = models.CharField(max_length=8, choices=Project.Scale)
    both_bad = models.BooleanField(default=False)
    criteria = models.JSONField(default=list)
    rendering = models.CharField(max_length=8, choices=Project.Rendering)
    digest = models.CharField(max_length=64)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "digest"], name="protocol_once"),
            models.UniqueConstraint(fields=["project", "number"], name="protocol_number_once"),
            models.UniqueConstraint(fields=["project", "name"], name="protocol_name_once"),
        ]


class Round(models.Model):
    class Kind(models.TextChoices):
        ROUTED = "routed", "labelled here"
        IMPORT = "import", "labelled elsewhere"

    class State(models.TextChoices):
        OPEN = "open", "open"
        PAUSED = "paused", "paused"
        CLOSED = "closed", "closed"

    class Stage(models.TextChoices):
        ONLY = "only", "one stage"
        LEARN = "learn", "learning where the judge errs"
        SELECT = "select", "labelling what was selected"

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="rounds")
    number = models.PositiveIntegerField()
    kind = models.CharField(max_length=8, choices=Kind, default=Kind.ROUTED)
    run = models.ForeignKey(Run, null=True, on_delete=models.SET_NULL, related_name="rounds")
    protocol = models.ForeignKey(Protocol, on_delete=models.PROTECT, related_name="rounds")
    state = models.CharField(max_length=8, choices=State, default=State.OPEN)
    stage = models.CharField(max_length=8, choices=Stage, default=Stage.ONLY)
    votes_per_item = models.PositiveSmallIntegerField(default=3)
    seed = models.BigIntegerField()
    # The annotators' links to the round carry it.
    nonce = models.CharField(max_length=43, unique=True, default=secrets.token_urlsafe)
    open_to_all = models.BooleanField(default=True)
    no_majority = models.CharField(
        max_length=10, choices=Project.NoMajority, default=Project.NoMajority.ADJUDICATE
    )
    frame_size = models.PositiveIntegerField(default=0)
    paper_mode = models.BooleanField(default=False)
    parameters = models.JSONField(default=dict, blank=True)
    certificate_plan = models.JSONField(null=True, blank=True)
    wage_usd = models.DecimalField(max_digits=10, decimal_places=4)
    minutes_per_vote = models.DecimalField(max_digits=8, decimal_places=3)
    cost_basis = models.CharField(max_length=8, choices=Project.CostBasis)
    opened_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    opened_at = models.DateTimeField(auto_now_add=True)
    closed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "number"], name="round_number_once"),
            models.UniqueConstraint(
                fields=["project", "protocol"],
                condition=Q(kind="import"),
                name="one_import_round_a_protocol",
            ),
        ]


class Selection(models.Model):
    """Why items are in a round: the cut, an audit drawn at random, a learning sample, checks."""

    class Kind(models.TextChoices):
        TOP = "top", "selected by rank"
        AUDIT = "audit", "audit"
        LEARN = "learn", "learning sample"
        CHECK = "check", "attention check"
        ALL = "all", "all examples"
        IMPORT = "import", "imported"

    round = models.ForeignKey(Round, on_delete=models.CASCADE, related_name="selections")
    kind = models.CharField(max_length=8, choices=Kind)
    parameters = models.JSONField(default=dict, blank=True)
    seed = models.BigIntegerField()
    frame_size = models.PositiveIntegerField()
    n_items = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)


class RoutingScores(models.Model):
    """Fixed when the second stage opens. `scores` belong to `examples`, place by place: the
    probability that the judge's label is wrong, or BPDE where `fit` says that it was kept; null
    where the judge gave no label. Apart from the round, which is read with every vote.
    """

    round = models.OneToOneField(
        Round, on_delete=models.CASCADE, primary_key=True, related_name="routing_scores"
    )
    fit = models.JSONField()
    examples = models.JSONField()
    scores = models.JSONField()
    created_at = models.DateTimeField(auto_now_add=True)


class Item(models.Model):
    """`position` is the item's place in the round's random order; it says nothing of the rank.

    A float, so that items added later go in between at random places. `probability` is the
    chance with which the example was drawn (1 for the cut).
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

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["round", "example"], name="item_once"),
        ]
        indexes = [models.Index(fields=["round", "state"], name="item_by_state")]


class Slot(models.Model):
    """Room for one vote. Claimed by a conditional UPDATE; filled by exactly one vote.

    `vote` is the vote that counts here: one cast in this slot, or an earlier one under the same
    protocol. `round` and `position` repeat the item's, for the index that finds the next one.
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
        "annotation.Annotation", null=True, on_delete=models.SET_NULL, related_name="counted_in"
    )

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


class Draft(models.Model):
    """What an annotator has in hand: which response stood left, and all that was entered so far.

    The token names the item on the screen and in its URL; nothing else does.
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

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["item", "annotator"], name="draft_once"),
            models.CheckConstraint(
                condition=Q(left_response__in=[1, 2]), name="draft_left_is_1_or_2"
            ),
        ]


class Skip(models.Model):
    item = models.ForeignKey(Item, on_delete=models.CASCADE, related_name="skips")
    annotator = models.ForeignKey(Annotator, on_delete=models.CASCADE, related_name="skips")
    reason = models.CharField(max_length=500, blank=True)
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["item", "annotator"], name="skip_once"),
        ]


class Flag(models.Model):
    item = models.ForeignKey(Item, on_delete=models.CASCADE, related_name="flags")
    annotator = models.ForeignKey(Annotator, on_delete=models.CASCADE, related_name="flags")
    reason = models.TextField()
    at = models.DateTimeField(auto_now_add=True)
    settled_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["item", "annotator"], name="flag_once"),
        ]


class Annotation(models.Model):
    """`answer` is what was chosen, by side; `label` is derived from it, from response 1's view.

    `left_response` is 1 or 2: which response stood left (null for votes cast elsewhere without
    saying). `unblinded` marks a vote of someone who had already seen judge output here.
    """

    class Source(models.TextChoices):
        SCREEN = "screen", "screen"
        IMPORT = "import", "import"

    slot = models.OneToOneField(Slot, on_delete=models.CASCADE, related_name="annotation")
    item = models.ForeignKey(Item, on_delete=models.CASCADE, related_name="annotations")
    example = models.ForeignKey(Example, on_delete=models.CASCADE, related_name="annotations")
    protocol = models.ForeignKey(Protocol, on_delete=models.PROTECT, related_name="annotations")
    annotator = models.ForeignKey(Annotator, on_delete=models.CASCADE, related_name="annotations")
    label = models.CharField(max_length=4, choices=Label.choices)
    answer = models.JSONField(default=dict)
    left_response = models.PositiveSmallIntegerField(null=True)
    comment = models.TextField(blank=True)
    active_seconds = models.FloatField(null=True)
    source = models.CharField(max_length=6, choices=Source, default=Source.SCREEN)
    unblinded = models.BooleanField(default=False)
    submitted_at = models.DateTimeField(null=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
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


class AnnotationRevision(models.Model):
    """What a vote was before it was edited."""

    annotation = models.ForeignKey(Annotation, on_delete=models.CASCADE, related_name="revisions")
    label = models.CharField(max_length=4, choices=Label.choices)
    answer = models.JSONField(default=dict)
    comment = models.TextField(blank=True)
    active_seconds = models.FloatField(null=True)
    submitted_at = models.DateTimeField(null=True)
    replaced_at = models.DateTimeField(auto_now_add=True)


class Adjudication(models.Model):
    item = models.ForeignKey(Item, on_delete=models.CASCADE, related_name="adjudications")
    label = models.CharField(max_length=4, choices=Label.choices)
    reason = models.TextField(blank=True)
    decided_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    decider = models.CharField(max_length=200, blank=True)
    at = models.DateTimeField(auto_now_add=True)
