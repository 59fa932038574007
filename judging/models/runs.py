"""A run: one judge, one method, one template, asked about every example of a project."""

from fractions import Fraction

from django.conf import settings
from django.db import models

from judging.llm.parts import balanced, stage_parts
from judging.models.projects import Project


class Method(models.TextChoices):
    VANILLA = "vanilla", "VANILLA: scores first"
    EC = "ec", "EC: evidence first, one sample"
    MEC = "mec", "MEC: evidence first, k samples"
    MEC_BPC = "mec_bpc", "MEC + BPC: k samples in each order"
    PORTIA = "portia", "PORTIA: split, align, merge"
    IMPORTED = "imported", "recorded elsewhere"


class Form(models.TextChoices):
    SCORE = "score", "two scores, 1 to 10"
    RELATION = "relation", "better one or tie"
    LIKERT = "likert", "rating 1 to 7"
    CHOICE = "choice", "one ID token with log-probabilities"
    POINTWISE = "pointwise", "one response alone"


class Run(models.Model):
    class State(models.TextChoices):
        QUEUED = "queued", "waiting for a worker"
        RUNNING = "running", "running"
        PAUSING = "pausing", "pausing"
        PAUSED = "paused", "paused"
        CANCELLING = "cancelling", "stopping"
        CANCELLED = "cancelled", "stopped"
        DONE = "done", "done"
        FAILED = "failed", "failed"

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="runs")
    number = models.PositiveIntegerField()
    name = models.CharField(max_length=120)

    method = models.CharField(max_length=10, choices=Method)
    form = models.CharField(max_length=10, choices=Form, default=Form.SCORE)
    endpoint = models.CharField(max_length=80, blank=True)
    base_url = models.CharField(max_length=500, blank=True)
    model = models.CharField(max_length=200, blank=True)
    k = models.PositiveSmallIntegerField(default=3)
    temperature = models.DecimalField(max_digits=4, decimal_places=2, default=1)
    max_tokens = models.PositiveIntegerField(default=1024)
    seed = models.BigIntegerField(default=0)
    template_name = models.CharField(max_length=80, blank=True)
    template_text = models.TextField(blank=True)
    template_hash = models.CharField(max_length=64, blank=True)
    template_source = models.CharField(max_length=300, blank=True)
    schema = models.JSONField(null=True, blank=True)
    parameters = models.JSONField(default=dict, blank=True)
    learned = models.JSONField(default=dict, blank=True)

    # USD a million tokens; a null price is unknown, and never 0. The snapshot keeps the tiers.
    price = models.JSONField(null=True, blank=True)
    price_source = models.CharField(max_length=200, blank=True)
    budget_usd = models.DecimalField(max_digits=14, decimal_places=6, null=True, blank=True)
    spent_usd = models.DecimalField(max_digits=18, decimal_places=10, default=0)
    reserved_usd = models.DecimalField(max_digits=18, decimal_places=10, default=0)

    concurrency = models.PositiveSmallIntegerField(default=8)
    rpm = models.PositiveIntegerField(null=True, blank=True)
    tpm = models.PositiveIntegerField(null=True, blank=True)

    state = models.CharField(max_length=10, choices=State, default=State.QUEUED)
    reason = models.TextField(blank=True)
    progress = models.JSONField(default=dict, blank=True)
    holder = models.CharField(max_length=200, blank=True)
    lease_until = models.DateTimeField(null=True, blank=True)
    source_files = models.JSONField(default=list, blank=True)

    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    ranked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "number"], name="run_number_once"),
            models.UniqueConstraint(fields=["project", "name"], name="run_name_once"),
        ]
        indexes = [models.Index(fields=["state", "lease_until"], name="run_expired")]

    def __str__(self) -> str:
        return self.name

    @property
    def orders(self) -> tuple[str, ...]:
        """The orders that the method asks for (FairEval, section 3.2)."""
        if self.method in (Method.MEC_BPC, Method.PORTIA):
            return ("original", "swapped")
        if self.method == Method.IMPORTED:
            return tuple(self.parameters.get("orders", ("original", "swapped")))
        return ("original",)

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages that PORTIA may come to, in the order of asking; other methods have none."""
        return tuple(self.parameters.get("portia", {}).get("stages", ()))

    @property
    def parts(self) -> tuple[str, ...]:
        """What every example is asked: the orders, or the permutations of a choice.

        Of PORTIA what an example may be asked, in the order of asking; of single responses one
        part a criterion.
        """
        if self.stages:
            return tuple(part for stage in self.stages for part in stage_parts(stage))
        if items := self.parameters.get("items"):
            return tuple(f"item:{criterion}" for criterion, _ in items)
        return tuple(self.parameters.get("permutations") or self.orders)

    @property
    def counted_parts(self) -> tuple[str, ...]:
        """The parts by which the verdict speaks: of the permutations a balanced set."""
        permutations = self.parameters.get("permutations")
        return balanced(permutations) if permutations else self.orders

    @property
    def band(self) -> Fraction:
        """A probability within this much of 1/2 is a tie."""
        return Fraction(self.parameters.get("output", {}).get("band", 0))

    @property
    def samples_an_order(self) -> int:
        """How many samples of each order the verdict waits for."""
        return self.k * len(self.counted_parts) // len(self.orders)
