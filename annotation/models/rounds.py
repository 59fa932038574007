"""A round: which examples people label, how many votes each, and by which rules it is merged."""

from django.conf import settings
from django.db import models
from django.db.models import Q

from annotation.models.protocols import Protocol
from judging.models.projects import Project
from judging.models.runs import Run


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
