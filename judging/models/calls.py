"""One request to a judge, the completions it returned, and what was read in them."""

from django.db import models
from django.db.models import Q

from judging.models.examples import Example, Label
from judging.models.points import PointItem
from judging.models.runs import Run


class Batch(models.Model):
    """Calls handed to an endpoint's batch service together."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="batches")
    remote_id = models.CharField(max_length=200, blank=True)
    input_file = models.CharField(max_length=200, blank=True)
    output_file = models.CharField(max_length=200, blank=True)
    error_file = models.CharField(max_length=200, blank=True)
    state = models.CharField(max_length=30, blank=True)
    submitted_at = models.DateTimeField(null=True, blank=True)
    collected_at = models.DateTimeField(null=True, blank=True)


class Call(models.Model):
    """Claimed before it is sent. No recorded answer is ever asked for twice.

    `part` is canonical text (`original`, `swapped`, `X2`, `portia:semantic:swapped`,
    `item:fluency`); `seq` counts top-ups and re-asks; `slots` are the sample slots asked for,
    `attempt` their attempt. A call about contents that say nothing (`dc:3:X0`) is about neither an
    example nor a point item.
    """

    class State(models.TextChoices):
        CLAIMED = "claimed", "claimed"
        DONE = "done", "done"
        FAILED = "failed", "failed"
        LOST = "lost", "lost: possibly billed"

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="calls")
    example = models.ForeignKey(Example, null=True, on_delete=models.CASCADE, related_name="calls")
    point_item = models.ForeignKey(
        PointItem, null=True, on_delete=models.CASCADE, related_name="calls"
    )
    batch = models.ForeignKey(Batch, null=True, on_delete=models.SET_NULL, related_name="calls")
    part = models.CharField(max_length=60)
    seq = models.PositiveSmallIntegerField(default=0)
    slots = models.JSONField(default=list)
    attempt = models.PositiveSmallIntegerField(default=0)
    state = models.CharField(max_length=8, choices=State, default=State.CLAIMED)
    holder = models.CharField(max_length=200, blank=True)
    claimed_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)
    duration_ms = models.PositiveIntegerField(null=True)
    requests = models.PositiveSmallIntegerField(default=0)

    prompt_tokens = models.PositiveIntegerField(null=True)
    cached_tokens = models.PositiveIntegerField(null=True)
    completion_tokens = models.PositiveIntegerField(null=True)
    estimated = models.BooleanField(default=False)
    reserved_usd = models.DecimalField(max_digits=18, decimal_places=10, null=True)
    usd = models.DecimalField(max_digits=18, decimal_places=10, null=True)
    model = models.CharField(max_length=200, blank=True)
    request_id = models.CharField(max_length=200, blank=True)
    http_status = models.PositiveSmallIntegerField(null=True)
    error_kind = models.CharField(max_length=30, blank=True)
    error = models.TextField(blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(example__isnull=True) | Q(point_item__isnull=True),
                name="call_about_one_thing_at_most",
            ),
            models.UniqueConstraint(
                fields=["run", "part", "seq"],
                condition=Q(example__isnull=True, point_item__isnull=True),
                name="call_about_nothing_once",
            ),
            models.UniqueConstraint(
                fields=["run", "example", "part", "seq"],
                condition=Q(example__isnull=False),
                name="call_on_example_once",
            ),
            models.UniqueConstraint(
                fields=["run", "point_item", "part", "seq"],
                condition=Q(point_item__isnull=False),
                name="call_on_point_item_once",
            ),
        ]
        indexes = [models.Index(fields=["run", "state"], name="call_by_state")]


class Sample(models.Model):
    """One completion, as it came. `index` is its place in the reply, `slot` in the run's k."""

    call = models.ForeignKey(Call, on_delete=models.CASCADE, related_name="samples")
    index = models.PositiveSmallIntegerField()
    slot = models.PositiveSmallIntegerField()
    attempt = models.PositiveSmallIntegerField(default=0)
    raw_text = models.TextField(null=True)
    reasoning = models.TextField(blank=True)
    refusal = models.TextField(blank=True)
    finish_reason = models.CharField(max_length=40, blank=True)
    logprobs = models.JSONField(null=True)
    completion_tokens = models.PositiveIntegerField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["call", "index"], name="sample_once"),
        ]


class Parse(models.Model):
    """What was read in a sample, turned back to responses 1 and 2. A better parser adds a version.

    `current` marks the version that counts; failure is a status and never a number.
    """

    class Status(models.TextChoices):
        VALID = "valid", "valid"
        UNPARSED = "unparsed", "unparsed"
        TRUNCATED = "truncated", "truncated"
        REFUSED = "refused", "refused"
        FILTERED = "filtered", "filtered"
        TOO_LONG = "too_long", "too long"
        ERROR = "error", "error"

    sample = models.ForeignKey(Sample, on_delete=models.CASCADE, related_name="parses")
    version = models.PositiveSmallIntegerField()
    parser = models.CharField(max_length=40, blank=True)
    current = models.BooleanField(default=True)
    status = models.CharField(max_length=10, choices=Status)
    score_1 = models.DecimalField(max_digits=20, decimal_places=10, null=True)
    score_2 = models.DecimalField(max_digits=20, decimal_places=10, null=True)
    rating = models.DecimalField(max_digits=20, decimal_places=10, null=True)
    p_first = models.FloatField(null=True)
    mass = models.FloatField(null=True)
    # One option's token was missing from the top ones: its probability is an upper bound.
    bounded = models.BooleanField(default=False)
    outcome = models.CharField(max_length=4, choices=Label, null=True)
    evidence = models.TextField(blank=True)
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["sample", "version"], name="parse_version_once"),
            models.UniqueConstraint(
                fields=["sample"], condition=Q(current=True), name="parse_current_once"
            ),
        ]
