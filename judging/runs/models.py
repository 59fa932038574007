"""The tables of runs: what was asked, what came back, what was read in it, and the verdicts.

A Run asks Calls about examples or point items. Each completion of a Call is a Sample, each reading
of a Sample is a Parse, and a Verdict sums up the Parses that count. Verdicts are a cache: they are
rebuilt whole and never edited.
"""

from collections.abc import Collection
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from django.db import models
from django.db.models import Exists, OuterRef, Q, QuerySet

from judging.core.conversations import turns_by_field
from judging.core.errors import UserError
from judging.core.models import Leased, user_or_none
from judging.dataset.models import Example, Frame, Label, PointItem, judged_in, n_judged
from judging.llm.parsing.parse import Status
from judging.llm.prompts.templates import ORDERS, JudgeForm, PromptVariant, balanced, stage_parts
from judging.methods.verdicts.verdicts import CriteriaRule, VerdictState
from judging.projects.models import Project


class Method(models.TextChoices):
    VANILLA = "vanilla", "VANILLA: scores first"
    EC = "ec", "EC: evidence first, one sample"
    MEC = "mec", "MEC: evidence first, k samples"
    MEC_BPC = "mec_bpc", "MEC + BPC: k samples in each order"
    PORTIA = "portia", "PORTIA: split, align, merge"
    IMPORTED = "imported", "recorded elsewhere"


Form = JudgeForm


# For these, the log-probabilities of one token are read. One sample then says everything: by
# default, a few tokens at temperature 0.
BY_LOGPROBS = (Form.CHOICE, Form.POINTWISE)
# These give both responses a score.
SCORED = (Form.SCORE, Form.CRITERIA)


# How many calls may bring no verdict before a run pauses, unless the run says otherwise.
UNREAD_CALLS = 8


class RunQuerySet(models.QuerySet["Run"]):
    def at_work(self) -> "RunQuerySet":
        """Return the runs that ask or may soon ask, and so hold examples in memory."""
        return self.filter(state__in=BUSY)


class Run(Leased):
    """What one judge says about a project's examples, asked in one way.

    price: USD per million tokens. A null price is unknown, never 0. The snapshot keeps the tiers.
    planned_to: the number of the last example of which a worker has taken a stretch, or -1; None
        while no stretch can be taken.
    resume_at: when a worker resumes a run that its endpoint's limit of a day has paused.
    frame: None for all examples of the project, also those that are imported later.
    """

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
    form = models.CharField(max_length=10, choices=Form.choices, default=Form.SCORE)
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
    planned_to = models.IntegerField(null=True, blank=True)
    resume_at = models.DateTimeField(null=True, blank=True)
    source_files = models.JSONField(default=list, blank=True)
    frame = models.ForeignKey(
        Frame, null=True, blank=True, on_delete=models.RESTRICT, related_name="runs"
    )

    created_by = user_or_none()
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    ranked_at = models.DateTimeField(null=True, blank=True)

    objects = RunQuerySet.as_manager()

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
            return ORDERS
        if self.method == Method.IMPORTED:
            return tuple(self.parameters.get("orders", ORDERS))
        return ORDERS[:1]

    def require_ranking(self, safe: str = "") -> None:
        """Raise UserError if the run has no ranking. `safe` is a sentence for the end of it."""
        if self.ranked_at is None:
            raise UserError(f"{self.why_unranked} {safe}".rstrip())

    @property
    def why_unranked(self) -> str:
        """Why the run has no ranking and no figures, and what to do; empty if it has them."""
        if self.ranked_at is not None:
            return ""
        if self.form == Form.POINTWISE:
            return f"{self.name} scored single responses. Its figures are on the page of the run."
        if self.method == Method.IMPORTED:
            if self.state == self.State.FAILED:
                return f"The import of {self.name} was cut off. Import its file again."
            return f"{self.name} is not ranked yet. Wait until it is imported."
        ended = {
            self.State.PAUSED: "was paused", self.State.CANCELLED: "was stopped",
            self.State.FAILED: "failed",
        }  # fmt: skip
        if self.state in ended:
            sentence = ended[self.State(self.state)]
            return f"{self.name} {sentence} before it was ranked. Resume it first."
        if self.state in (self.State.PAUSING, self.State.CANCELLING):
            return f"{self.name} is not ranked yet. Wait until it has stopped."
        return f"{self.name} is not ranked yet. Wait until it is done, or pause it."

    @property
    def unread_calls(self) -> int:
        """After how many first calls without any verdict the run pauses; 0: never."""
        return int(self.parameters.get("unread_calls", UNREAD_CALLS))

    @property
    def stages(self) -> tuple[str, ...]:
        """PORTIA's possible stages in the order of asking; empty for other methods."""
        return tuple(self.parameters.get("portia", {}).get("stages", ()))

    @property
    def in_batches(self) -> bool:
        return bool(self.parameters.get("batch"))

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts that an example may be asked.

        These are the orders, the permutations of a choice, one part per criterion for single
        responses, and all stages in the order of asking for PORTIA.
        """
        if self.stages:
            return tuple(part for stage in self.stages for part in stage_parts(stage))
        if items := self.parameters.get("items"):
            return tuple(str(PromptVariant(criterion=criterion)) for criterion, _ in items)
        return tuple(self.parameters.get("permutations") or self.orders)

    @property
    def counted_parts(self) -> tuple[str, ...]:
        """The parts that the verdict rests on: of permutations a balanced set."""
        permutations = self.parameters.get("permutations")
        return balanced(permutations) if permutations else self.orders

    @property
    def annotators(self) -> int:
        """How many annotators its template simulates, one by each sample of an order; mostly 0."""
        lesson = self.parameters.get("output", {}).get("lesson", {})
        return len(lesson.get("annotators", ()))

    @property
    def band(self) -> Fraction:
        """How close to 1/2 a probability is a tie."""
        return Fraction(self.parameters.get("output", {}).get("band", 0))

    @property
    def rule(self) -> CriteriaRule | None:
        """How verdicts follow from scores on criteria; None for means, and for other forms."""
        stored = self.parameters.get("output", {}).get("rule")
        return CriteriaRule.from_json(stored) if stored else None

    @property
    def n_reused(self) -> int:
        """How many samples are copies from other runs. No query unless the run may copy."""
        if not self.parameters.get("reuse"):
            return 0
        return Sample.objects.filter(call__run=self, call__reused_from__isnull=False).count()

    @property
    def samples_an_order(self) -> int:
        """How many samples of each order the verdict waits for."""
        return self.k * len(self.counted_parts) // len(self.orders)


# States of runs that ask, or may soon ask.
BUSY = (Run.State.QUEUED, Run.State.RUNNING, Run.State.PAUSING, Run.State.CANCELLING)


class Share(models.Model):
    """One worker's part of a run: its lease, its money, and how many calls it may have in flight.

    `free_usd` is reserved for this worker and not yet for a call. `spent_usd` is what its calls
    cost, as long as the run doesn't count it. The run's `reserved_usd` includes both.
    """

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="shares")
    holder = models.CharField(max_length=200)
    lease_until = models.DateTimeField(null=True)
    places = models.PositiveSmallIntegerField(default=0)
    free_usd = models.DecimalField(max_digits=18, decimal_places=10, default=0)
    spent_usd = models.DecimalField(max_digits=18, decimal_places=10, default=0)
    progress = models.JSONField(default=dict)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "holder"], name="share_once")]


class Stretch(models.Model):
    """The examples with numbers above `after`, up to `through`, about which one worker asks.

    It is deleted once they have been asked about. It is free if its holder has no share any more.
    """

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="stretches")
    holder = models.CharField(max_length=200)
    after = models.IntegerField()
    through = models.IntegerField()


class Batch(models.Model):
    """Calls that were handed to an endpoint's batch service together."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="batches")
    remote_id = models.CharField(max_length=200, blank=True)
    input_file = models.CharField(max_length=200, blank=True)
    output_file = models.CharField(max_length=200, blank=True)
    error_file = models.CharField(max_length=200, blank=True)
    state = models.CharField(max_length=30, blank=True)
    submitted_at = models.DateTimeField(null=True, blank=True)
    collected_at = models.DateTimeField(null=True, blank=True)


class Call(models.Model):
    """One request to the judge. It is claimed before it is sent, so nothing is asked for twice.

    `part` is the text of a PromptVariant. `seq` counts top-ups and repeats of a part. `slots` are
    the sample slots that it asks for, and `attempt` says which attempt at them it is. A call about
    a content-free input has neither an example nor a point item. `reply_id` is the reply's own id,
    which a cache that gives the reply again repeats. `reused_from` is the number of the run whose
    answer this is a copy of, which cost nothing.
    """

    class State(models.TextChoices):
        CLAIMED = "claimed", "claimed"
        DONE = "done", "done"
        FAILED = "failed", "failed"
        LOST = "lost", "lost (may have been billed)"

    class Notice(models.TextChoices):
        """What is wrong with a reply although it came."""

        CUT = "cut", "the server cut the prompt"
        REPEATED = "repeated", "an earlier reply again"
        IDENTICAL = "identical", "samples that are one text"

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
    written_tokens = models.PositiveIntegerField(null=True)
    completion_tokens = models.PositiveIntegerField(null=True)
    estimated = models.BooleanField(default=False)
    reserved_usd = models.DecimalField(max_digits=18, decimal_places=10, null=True)
    usd = models.DecimalField(max_digits=18, decimal_places=10, null=True)
    model = models.CharField(max_length=200, blank=True)
    request_id = models.CharField(max_length=200, blank=True)
    reply_id = models.CharField(max_length=200, blank=True, default="")
    http_status = models.PositiveSmallIntegerField(null=True)
    error_kind = models.CharField(max_length=30, blank=True)
    error = models.TextField(blank=True)
    noticed = models.CharField(max_length=10, choices=Notice, blank=True, default="")
    reused_from = models.PositiveIntegerField(null=True, blank=True)

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
    """One completion as it came: `index` is its place in the reply, `slot` that in the run's k."""

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
        constraints = [models.UniqueConstraint(fields=["call", "index"], name="sample_once")]


def among(field: str, keys: Collection[int]) -> dict[str, Any]:
    """Return the lookups of rows with one of these keys: by their range, if they leave none out.

    In a list of hundreds of keys it takes as long to read the list as to find the rows.
    """
    if keys and max(keys) - min(keys) + 1 == len(set(keys)):
        return {f"{field}__gte": min(keys), f"{field}__lte": max(keys)}
    return {f"{field}__in": keys}


class ParseQuerySet(models.QuerySet["Parse"]):
    """Which readings count: of each slot the current version of its last attempt.

    A slot that failed may be asked again, and a newer parser adds a version to a reading. The last
    attempt counts whatever came of it: if it failed the slot has failed, even if today's parser can
    read an earlier attempt. Everything that counts, averages or shows samples reads them from here.
    """

    def that_count(self, run: "Run") -> "ParseQuerySet":
        """Return one reading a slot, of all the run's examples or point items.

        It looks first whether the run asked anything again. Most runs did not, and then nothing has
        to be left out, which spares PostgreSQL a plan that takes minutes on fresh tables.
        """
        subject = f"call__{subject_field(run)}"
        about = {f"sample__{subject}__isnull": False}
        parses = self.filter(current=True, sample__call__run=run, **about)
        samples = Sample.objects.filter(call__run=run)
        asked_again = samples.filter(attempt__gt=0, **{f"{subject}__isnull": False})
        if not asked_again.exists():
            return parses
        same_slot = {name: OuterRef(name) for name in (subject, "call__part", "slot")}
        later = samples.filter(attempt__gt=OuterRef("attempt"), **same_slot)
        # Finding the few subjects that were asked again first takes a quarter of the time of
        # comparing every sample with the others of its slot.
        superseded = samples.filter(
            Exists(later), **{f"{subject}__in": asked_again.values(subject)}
        )
        return parses.exclude(sample__in=superseded)

    def rows_that_count(
        self, run: "Run", subjects: Collection[int] | None, *columns: str
    ) -> list[tuple[Any, ...]]:
        """Return the same for a page of subjects, as rows of subject, part, slot and `columns`.

        Args:
            run: The run.
            subjects: Ids of examples or point items; None for the content-free inputs.
            columns: Further fields of the reading.
        """
        subject = f"sample__call__{subject_field(run)}"
        if subjects is None:
            about = {"sample__call__example": None, "sample__call__point_item": None}
        else:
            about = among(subject, subjects)
        place = subject, "sample__call__part", "sample__slot"
        attempts = self.filter(current=True, sample__call__run=run, **about).order_by(
            *place, "sample__attempt"
        )
        # The engine reads small pages often, and there the database takes longer to find the last
        # attempts than to give all of them.
        rows = attempts.values_list(*place, *columns).iterator(chunk_size=2000)
        return list({row[: len(place)]: row for row in rows}.values())


class Parse(models.Model):
    """What was read in a sample, turned back to responses 1 and 2. A newer parser adds a version.

    `current` marks the newest version. A failure is a status and never a number.

    bounded: one option's token was missing from the top log-probabilities, so this is an upper
        bound.
    criteria: by criterion, the scores of responses 1 and 2 as decimal text (form `criteria`).
    why: why a reply in JSON is unparsed.
    """

    Status = Status

    sample = models.ForeignKey(Sample, on_delete=models.CASCADE, related_name="parses")
    version = models.PositiveSmallIntegerField()
    parser = models.CharField(max_length=40, blank=True)
    current = models.BooleanField(default=True)
    status = models.CharField(max_length=10, choices=Status.choices)
    score_1 = models.DecimalField(max_digits=20, decimal_places=10, null=True)
    score_2 = models.DecimalField(max_digits=20, decimal_places=10, null=True)
    rating = models.DecimalField(max_digits=20, decimal_places=10, null=True)
    p_first = models.FloatField(null=True)
    mass = models.FloatField(null=True)
    bounded = models.BooleanField(default=False)
    outcome = models.CharField(max_length=4, choices=Label.choices, null=True)
    evidence = models.TextField(blank=True)
    criteria = models.JSONField(null=True)
    why = models.CharField(max_length=200, blank=True, default="", db_default="")
    at = models.DateTimeField(auto_now_add=True)

    objects = ParseQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["sample", "version"], name="parse_version_once"),
            models.UniqueConstraint(
                fields=["sample"], condition=Q(current=True), name="parse_current_once"
            ),
        ]


class VerdictQuerySet(models.QuerySet["Verdict"]):
    def that_use_examples(self) -> "VerdictQuerySet":
        """Leave out rows of examples that the run has not asked yet: these may be deleted."""
        return self.filter(models.Q(n_asked__gt=0) | models.Q(label__isnull=False))


class Verdict(models.Model):
    """What a run says about an example: a cache, rebuilt from the samples.

    CS and BPDE are floats for reading and sorting. The label comes from the exact fractions.
    """

    State = VerdictState

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="verdicts")
    example = models.ForeignKey(Example, on_delete=models.CASCADE, related_name="verdicts")
    state = models.CharField(max_length=12, choices=State.choices, default=State.PENDING)
    label = models.CharField(max_length=4, choices=Label.choices, null=True)
    cs_1 = models.FloatField(null=True)
    cs_2 = models.FloatField(null=True)
    gap = models.FloatField(null=True)
    bpde = models.FloatField(null=True)
    rank = models.PositiveIntegerField(null=True)
    routing_score = models.FloatField(null=True)
    stage = models.CharField(max_length=12, blank=True)
    n_valid = models.PositiveSmallIntegerField(default=0)
    n_asked = models.PositiveSmallIntegerField(default=0)
    conflict = models.BooleanField(null=True)
    outcomes = models.JSONField(default=dict, blank=True)
    usd = models.DecimalField(max_digits=18, decimal_places=10, null=True)

    objects = VerdictQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "example"], name="verdict_once")]
        indexes = [
            models.Index(fields=["run", "rank"], name="verdict_by_rank"),
            # Pages in the order of BPDE are read from it, in either direction.
            models.Index(fields=["run", "-bpde", "example"], name="verdict_by_bpde"),
        ]


class SiteEndpoint(models.Model):
    """An endpoint that the site's owner named on a page. The variable of its key is not the key."""

    name = models.CharField(max_length=80, unique=True)
    base_url = models.CharField(max_length=500)
    key_variable = models.CharField(max_length=100, blank=True)
    changed_at = models.DateTimeField(auto_now=True)


class EndpointLearned(models.Model):
    """What one endpoint's refusals taught about it: a cap on n, another parameter name."""

    base_url = models.CharField(max_length=500)
    model = models.CharField(max_length=200)
    learned = models.JSONField(default=dict)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["base_url", "model"], name="endpoint_learned_once")
        ]


class JudgeTemplate(models.Model):
    """One version of a template written in the UI. A run keeps its own copy of the text.

    `sha256` covers the text and how replies are read. A version never changes. The name means the
    newest version that is not retired.
    """

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="templates")
    name = models.SlugField(max_length=80)
    form = models.CharField(max_length=10)
    text = models.TextField()
    output = models.JSONField(default=dict)
    sha256 = models.CharField(max_length=64)
    created_by = user_or_none()
    created_at = models.DateTimeField(auto_now_add=True)
    retired_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["project", "name", "sha256"], name="judge_template_version_once"
            )
        ]


class TextLikelihood(models.Model):
    """log P(output | task, input) in nats, and the number of its tokens (Ohi et al., section 2).

    `sha256` covers task, input and output, so that the same text is asked about only once. If the
    model could not tell, `reason` says why and there is no number.
    """

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="likelihoods")
    base_url = models.CharField(max_length=500)
    model = models.CharField(max_length=200)
    sha256 = models.CharField(max_length=64)
    log_likelihood = models.FloatField(null=True)
    tokens = models.PositiveIntegerField(null=True)
    reason = models.CharField(max_length=300, blank=True)
    prompt_tokens = models.PositiveIntegerField(null=True)
    usd = models.DecimalField(max_digits=18, decimal_places=10, null=True)
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["project", "base_url", "model", "sha256"], name="text_likelihood_once"
            )
        ]


LATEST = "latest"
# More digits than any number has; Python refuses to read thousands of them.
_LONGEST_NUMBER = 9


def run_to_show(project: Project) -> Run | None:
    """Return the run that pages are about unless another is chosen: the primary or newest one."""
    run: Run | None = project.primary_run or project.runs.order_by("-number").first()
    return run


def find_run(project: Project, text: str) -> Run:
    """Return the run with this number in the project, this name, or `latest`."""
    runs = project.runs.select_related("project")
    text = text.replace("\x00", "")
    if text == LATEST:
        run = runs.order_by("-number").first()
    elif text.isdecimal() and len(text) <= _LONGEST_NUMBER:
        run = runs.filter(number=int(text)).first() or runs.filter(name=text).first()
    else:
        run = runs.filter(name=text).first()
    if run is None:
        last = ", ".join(f"{run.number} ({run.name})" for run in runs.order_by("-number")[:5])
        raise UserError(
            f"Project {project.slug} has no run {text[:120]}. "
            + (f"The last ones are: {last}." if last else "It has no run yet.")
        )
    return run


@dataclass(frozen=True, slots=True)
class ContentFree:
    """Content-free inputs, kept in the run's parameters by their part (`cc:X0`, `dc:3:X0`).

    They show which answer a judge prefers whatever it is asked, which calibration corrects.
    """

    question: str
    response_1: str
    response_2: str
    pk: ClassVar[None] = None
    reference: ClassVar[str] = ""
    conversation: ClassVar[None] = None


Subject = Example | PointItem | ContentFree


def subjects_of(run: Run) -> QuerySet[Any]:
    """Return what every part of the run is asked about: examples, or single responses."""
    if run.form == Form.POINTWISE:
        return PointItem.objects.filter(project_id=run.project_id).visible()
    return judged_in(run.project_id, run.frame_id)


def n_subjects(run: Run) -> int:
    if run.form == Form.POINTWISE:
        return subjects_of(run).count()
    return n_judged(run.project_id, run.frame_id)


def subject_field(run: Run) -> str:
    """Return the field of a Call that holds the run's subjects."""
    return "point_item" if run.form == Form.POINTWISE else "example"


def content_free(run: Run) -> dict[str, ContentFree]:
    """Return the run's content-free inputs, by part; empty unless a calibration asked."""
    kept = run.parameters.get("content_free", {})
    return {part: ContentFree(*texts) for part, texts in kept.items()}


def place_of(subject: Subject) -> dict[str, int]:
    """Return the fields of a Call that say what it is about."""
    if isinstance(subject, ContentFree):
        return {}
    return {"point_item_id" if isinstance(subject, PointItem) else "example_id": subject.pk}


def subject_of(call: Call, inputs: dict[str, ContentFree]) -> Subject:
    """Return what a call is about. inputs: `content_free` of the call's run."""
    return call.example or call.point_item or inputs[call.part]


def shown_texts(subject: Subject) -> tuple[str, ...]:
    """Return the texts that the judge is shown: a verdict quoted from them is not its own."""
    if isinstance(subject, PointItem):
        texts: tuple[str, ...] = (subject.input, subject.output)
    else:
        responses = subject.response_1, subject.response_2
        texts = (subject.question, *responses, subject.reference)
        if subject.conversation:
            turns = turns_by_field(texts[:3], subject.conversation).values()
            texts += tuple(turn.text for turns in turns for turn in turns)
    return tuple(text for text in texts if text)
