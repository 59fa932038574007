"""Tables of projects, members, logins and links, the audit trail, exports, preferences."""

import secrets
from decimal import Decimal
from typing import Any

from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from judging.core.models import Leased, user_or_none
from judging.core.sql.statements import LeavingOut
from judging.methods.verdicts.verdicts import CriteriaRule

# FairEval, footnote 1: 7.50 USD an hour and three minutes an example.
DEFAULT_WAGE_USD = Decimal("7.50")
DEFAULT_MINUTES = Decimal("3")
# Calderon et al. 2025, §3: .2 for experts, .15 for skilled annotators, .1 for crowd workers.
DEFAULT_ADVANTAGE = Decimal("0.15")


class KeptProjects(LeavingOut):
    """Projects that nobody deleted."""

    rows = {"deleted_at__isnull": False}


class Project(models.Model):
    """A project and its current settings. A round keeps a Protocol, its own copy of them.

    `objects` leaves out projects that are being deleted, which takes a while and which nobody sees.
    `every` doesn't.

    texts_removed_at: from then on nothing can be asked about its examples. See
        `annotation.retention`.
    overall_from: how the overall answer comes from the criteria: see `criteria_rule`. Weights as
        text, by name.
    language: of the instructions and of annotators' pages, unless a person chose another. "" if not
        said.
    content_language: of questions and responses, as a tag of BCP 47; "" if they are in several or
        it isn't known.
    translations: what people are asked in other languages: see `annotation.queue.drafts.Wording`.
    """

    class Scale(models.TextChoices):
        THREE = "three", "3 points: left, tie, right"
        FIVE = "five", "5 points: much better, better, tie"

    class OverallFrom(models.TextChoices):
        ASKED = "", "asked"
        WEIGHTED = "weighted", "derived: the response with the larger sum of weights wins"
        LEXICOGRAPHIC = (
            "lexicographic",
            "derived: the first criterion that isn't a tie decides, in the order above",
        )

    class Rendering(models.TextChoices):
        MARKDOWN = "markdown", "Markdown, code and mathematics"
        PLAIN = "plain", "plain text"

    class NoMajority(models.TextChoices):
        ADJUDICATE = "adjudicate", "a person decides"
        TIE = "tie", "tie"
        JUDGE = "judge", "the judge's label (never on audit items)"

    class LabelRule(models.TextChoices):
        MAJORITY = "majority", "more than half of the votes"
        DAWID_SKENE = "dawid_skene", "Dawid–Skene: votes weigh by their annotator's errors"
        HIERARCHICAL = (
            "hierarchical",
            "hierarchical: also by how hard the example is, with errors pooled between annotators",
        )

    class CostBasis(models.TextChoices):
        ASSUMED = "assumed", "minutes a vote, as assumed"
        MEASURED = "measured", "active time, as measured"

    slug = models.SlugField(max_length=80, unique=True)
    name = models.CharField(max_length=200)
    description = models.TextField(blank=True)
    is_demo = models.BooleanField(default=False)
    texts_removed_at = models.DateTimeField(null=True, editable=False)

    question_asked = models.CharField(max_length=300, default="Which response is better?")
    guidelines = models.TextField(blank=True)
    scale = models.CharField(max_length=8, choices=Scale, default=Scale.THREE)
    both_bad = models.BooleanField(default=False)
    cant_judge = models.BooleanField(default=False)
    hide_models = models.BooleanField(default=False)
    show_reference = models.BooleanField(default=False)
    ask_confidence = models.BooleanField(default=False)
    reason_tags = models.JSONField(default=list, blank=True)
    ask_spans = models.BooleanField(default=False)
    criteria = models.JSONField(default=list, blank=True)
    overall_from = models.CharField(
        max_length=13, choices=OverallFrom, blank=True, default=OverallFrom.ASKED
    )
    # Weights are texts, since JSON would make them floats.
    criterion_weights = models.JSONField(default=dict, blank=True)
    tie_margin = models.DecimalField(max_digits=10, decimal_places=4, default=Decimal(0))
    rendering = models.CharField(max_length=8, choices=Rendering, default=Rendering.MARKDOWN)
    language = models.CharField(max_length=10, blank=True, default="")
    content_language = models.CharField(max_length=35, blank=True, default="")
    translations = models.JSONField(default=dict, blank=True)
    no_majority = models.CharField(max_length=10, choices=NoMajority, default=NoMajority.ADJUDICATE)
    label_rule = models.CharField(
        max_length=12, choices=LabelRule, default=LabelRule.MAJORITY, db_default=LabelRule.MAJORITY
    )
    leave_out_unblinded = models.BooleanField(default=False)
    annotator_advantage = models.DecimalField(
        max_digits=4,
        decimal_places=3,
        default=DEFAULT_ADVANTAGE,
        validators=[MinValueValidator(Decimal(0)), MaxValueValidator(Decimal("0.5"))],
    )

    wage_usd = models.DecimalField(
        max_digits=10,
        decimal_places=4,
        default=DEFAULT_WAGE_USD,
        validators=[MinValueValidator(Decimal(0)), MaxValueValidator(Decimal(10_000))],
    )
    minutes_per_vote = models.DecimalField(
        max_digits=8,
        decimal_places=3,
        default=DEFAULT_MINUTES,
        validators=[MinValueValidator(Decimal(0)), MaxValueValidator(Decimal(600))],
    )
    cost_basis = models.CharField(max_length=8, choices=CostBasis, default=CostBasis.ASSUMED)

    # By name, since the room of runs is above this one and can't be imported here.
    primary_run = models.ForeignKey(
        "judging.Run", null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_by = user_or_none()
    created_at = models.DateTimeField(auto_now_add=True)
    deleted_at = models.DateTimeField(null=True, blank=True, editable=False)

    objects: models.Manager["Project"] = KeptProjects()
    every = models.Manager()

    class Meta:
        permissions = [("researcher", "May create projects and start runs that cost")]

    def __str__(self) -> str:
        return self.slug

    @property
    def criteria_rule(self) -> CriteriaRule | None:
        """How the overall label comes from the criteria; None if it is asked."""
        if not self.overall_from:
            return None
        criteria = tuple(self.criteria)
        if self.overall_from == self.OverallFrom.LEXICOGRAPHIC:
            return CriteriaRule(criteria)
        weights = tuple(Decimal(self.criterion_weights[name]) for name in criteria)
        return CriteriaRule(criteria, weights, self.tie_margin)


class Deletion(Leased):
    """A project that is being deleted, by one process at a time. A worker goes on after a kill.

    slug: as the project was called. Another project may be called so by now.
    n_done, n_total: items, calls, verdicts and examples, each with what belongs to it.
    """

    project = models.OneToOneField(Project, on_delete=models.CASCADE, related_name="deletion")
    slug = models.CharField(max_length=80)
    user = user_or_none()
    n_done = models.PositiveIntegerField(default=0)
    n_total = models.PositiveIntegerField(default=0)


class Retention(models.Model):
    """On which day something is removed from a project. `annotation.retention` does it.

    reached: how far it is: by table, the last row whose texts were removed.
    """

    class What(models.TextChoices):
        COMMENTS = "comments", "comments"
        LOGINS = "logins", "names and logins"
        TEXTS = "texts", "texts"

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="retention")
    what = models.CharField(max_length=10, choices=What)
    on = models.DateField()
    done_at = models.DateTimeField(null=True)
    reached = models.JSONField(default=dict)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "what"], name="retention_once")]


class Role(models.TextChoices):
    """What a member may do. `access.py` says which role includes which."""

    OWNER = "owner", _lazy("owner")
    RESEARCHER = "researcher", _lazy("researcher")
    REVIEWER = "reviewer", _lazy("reviewer")
    OBSERVER = "observer", _lazy("observer")
    ANNOTATOR = "annotator", _lazy("annotator")


class Membership(models.Model):
    """A user's role in a project.

    `unblinded_at` is when they first saw judge output here. Their later votes are marked unblinded.
    It outlives the membership: an `EarlierLook` keeps it until they are a member again.
    """

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="memberships"
    )
    role = models.CharField(max_length=10, choices=Role)
    unblinded_at = models.DateTimeField(null=True, blank=True)
    joined_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "user"], name="membership_once")]

    def save(self, *args: Any, **options: Any) -> None:
        """Save. A new membership takes over when the user first saw judge output here."""
        if self._state.adding and self.unblinded_at is None:
            looks = EarlierLook.objects.filter(project=self.project_id, user=self.user_id)
            self.unblinded_at = looks.values_list("at", flat=True).first()
        super().save(*args, **options)


class EarlierLook(models.Model):
    """A user saw judge output while they were a superuser without a role, or in a role that ended.

    One who was unblinded stays so, for as long as the login exists.
    """

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "user"], name="look_once")]


class LostRight(models.Model):
    """A user was removed from a project, left it, or got a smaller role there.

    Invitation links from before no longer admit this user, and those that this user made admit
    nobody. The row's primary key says what was before. A clock may be set back.
    """

    class How(models.TextChoices):
        REMOVED = "removed", "removed"
        LEFT = "left", "left"
        LOWERED = "lowered", "given a smaller role"

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="lost_rights")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="lost_rights"
    )
    how = models.CharField(max_length=8, choices=How)
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes = [models.Index(fields=["project", "user"], name="lost_right_of_person")]


class PasswordLink(models.Model):
    """A link that sets a password once, made by an owner for a member of `project`.

    Without `made_by` and `project`, the operator made it. The link names this row, and its
    signature covers the nonce: it opens nothing once the number belongs to another row, or once a
    restored backup has renewed the nonce. It is deleted with its maker: without one it would look
    like the operator's.
    """

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="password_links"
    )
    made_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.CASCADE, related_name="+"
    )
    project = models.ForeignKey(Project, null=True, on_delete=models.CASCADE, related_name="+")
    # 32 random bytes have 43 characters in URL-safe base64.
    nonce = models.CharField(max_length=43, unique=True, default=secrets.token_urlsafe)
    created_at = models.DateTimeField(auto_now_add=True)


class LoginSession(models.Model):
    """A session in which somebody is logged in, as they see it on their page. It has no address.

    device: browser and system, by which people tell their sessions apart.
    used_at: to some minutes.
    """

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="login_sessions"
    )
    session_key = models.CharField(max_length=40, unique=True)
    device = models.CharField(max_length=80)
    began_at = models.DateTimeField(default=timezone.now)
    used_at = models.DateTimeField(default=timezone.now)

    @property
    def device_in_words(self) -> str:
        """What is stored of the device, in the page's language."""
        browser, _on, system = self.device.partition(" on ")
        named = {"browser": browser, "system": system}
        if browser == "A browser or a program":
            return _("A browser or a program")
        if browser == "A browser":
            return _("A browser on %(system)s") % named
        return _("%(browser)s on %(system)s") % named if system else self.device


class SecondFactor(models.Model):
    """An authenticator app or a passkey, which the login asks for after the password.

    secret: of an app, encrypted with a key that is derived from the site's secret key.
    last_step: the time step of the last code of an app, since a code counts once.
    credential: of a passkey: its id and its public key, which are no secrets.
    """

    class Kind(models.TextChoices):
        APP = "app", _lazy("authenticator app")
        PASSKEY = "passkey", _lazy("passkey")

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="second_factors"
    )
    kind = models.CharField(max_length=8, choices=Kind)
    name = models.CharField(max_length=60)
    secret = models.TextField(blank=True)
    last_step = models.BigIntegerField(default=0)
    credential = models.TextField(blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        # It decides between two requests that add an app at the same time.
        constraints = [
            models.UniqueConstraint(
                fields=["user"], condition=models.Q(kind="app"), name="one_app_each"
            )
        ]


class RecoveryCode(models.Model):
    """A code that replaces a second factor once. Only its keyed hash is stored."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="recovery_codes"
    )
    digest = models.CharField(max_length=64)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "digest"], name="code_once")]


class SignOn(models.Model):
    """A person at an identity provider, who logs in as `user` with it.

    Without a subject, the operator expects this mail address: the first sign-on with it, verified
    by the provider, fills the row.

    granted: the rights that the person's groups gave. What people gave by hand isn't in it, and
    stays when a group no longer gives it.
    """

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="sign_ons"
    )
    issuer = models.CharField(max_length=300, blank=True)
    subject = models.CharField(max_length=255, blank=True)
    email = models.CharField(max_length=254, blank=True)
    granted = models.JSONField(default=list)
    created_at = models.DateTimeField(default=timezone.now)
    used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["issuer", "subject"], condition=~models.Q(subject=""), name="sign_on_once"
            ),
            models.UniqueConstraint(
                fields=["email"], condition=models.Q(subject=""), name="expected_once"
            ),
        ]


class ApiToken(models.Model):
    """A token with which a program acts for a user. Only its hash is stored.

    It may never do more than its user may at the time of each request, and no more than its scopes
    allow. With a project, it opens nothing else.

    prefix: the token's visible beginning, by which people tell their tokens apart.
    window, taken: how many requests were granted in the current window of the rate limit.
    project: the token is deleted with it: without one it would open all the others.
    """

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="api_tokens"
    )
    project = models.ForeignKey(
        Project, null=True, blank=True, on_delete=models.CASCADE, related_name="api_tokens"
    )
    name = models.CharField(max_length=100)
    # A request's token is found by this part. Only then are the hashes of the whole compared.
    prefix = models.CharField(max_length=16, unique=True)
    digest = models.CharField(max_length=64)
    scopes = models.JSONField(default=list)
    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    window = models.BigIntegerField(default=0)
    taken = models.PositiveIntegerField(default=0)

    def __str__(self) -> str:
        return self.prefix

    @property
    def is_live(self) -> bool:
        """Return True unless the token was revoked or has expired."""
        expired = self.expires_at is not None and self.expires_at <= timezone.now()
        return self.revoked_at is None and not expired


class KeptAnswer(models.Model):
    """The answer to a request with an idempotency key. A repeat gets it again.

    It is written in the transaction of what it answers, so that a crash keeps both or neither.
    """

    token = models.ForeignKey(ApiToken, on_delete=models.CASCADE, related_name="answers")
    key = models.CharField(max_length=200)
    # A key that comes again with another request is a mistake, and doesn't get this answer.
    request_digest = models.CharField(max_length=64)
    status = models.PositiveSmallIntegerField(default=0)
    headers = models.JSONField(default=dict)
    body = models.TextField(blank=True)
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["token", "key"], name="answered_once")]


class Receiver(Leased):
    """Somebody to whom one process sends at a time. `judging.projects.deliveries` does it.

    failures: attempts in a row that got no answer. Until `rest_until`, nothing is sent.
    """

    failures = models.PositiveIntegerField(default=0)
    rest_until = models.DateTimeField(null=True, blank=True)

    class Meta:
        abstract = True


class Sent(models.Model):
    """What a receiver is sent. It is written in the transaction of what causes it.

    message: the id by which receivers recognise what comes twice.
    began_at: from when the day of attempts counts; later than `at` if it was sent again.
    status, said: of the last attempt: the status if there was an answer, and a sentence.
    """

    message = models.CharField(max_length=40)
    attempts = models.PositiveIntegerField(default=0)
    status = models.PositiveSmallIntegerField(null=True, blank=True)
    said = models.CharField(max_length=600, blank=True)
    at = models.DateTimeField(default=timezone.now)
    began_at = models.DateTimeField(default=timezone.now)
    next_at = models.DateTimeField(default=timezone.now)
    tried_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        abstract = True


class Webhook(Receiver):
    """An address that is told of events in a project, and how it has answered.

    The secret that signs what is sent is derived from the site's secret key and `salt`, so that
    neither the database nor a backup holds it. `former_salt` signs too until `former_until`, so
    that a receiver can change to a new secret without losing anything.
    """

    class State(models.TextChoices):
        ON = "on", "on"
        PAUSED = "paused", "paused"
        GONE = "gone", "ended by the receiver"

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="webhooks")
    number = models.PositiveIntegerField()
    url = models.CharField(max_length=500)
    events = models.JSONField(default=list)
    state = models.CharField(max_length=8, choices=State, default=State.ON)
    salt = models.CharField(max_length=43, default=secrets.token_urlsafe)
    former_salt = models.CharField(max_length=43, blank=True)
    former_until = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "number"], name="webhook_number_once")
        ]


class Delivery(Sent):
    """An event that a webhook is told of."""

    class State(models.TextChoices):
        WAITING = "waiting", "waiting"
        DELIVERED = "delivered", "delivered"
        DEAD = "dead", "given up"

    webhook = models.ForeignKey(Webhook, on_delete=models.CASCADE, related_name="deliveries")
    event = models.CharField(max_length=40)
    body = models.TextField()
    state = models.CharField(max_length=10, choices=State, default=State.WAITING)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["webhook", "message"], name="told_once")]
        indexes = [
            # A few rows wait, and only these are searched all the time.
            models.Index(
                fields=["webhook", "next_at"],
                condition=models.Q(state="waiting"),
                name="to_deliver",
            )
        ]


class MailServer(Receiver):
    """The one row of the site's mail server, so that one process sends mail at a time."""


class Mail(Sent):
    """A mail to one person. What it says is written when it is sent, and is not kept.

    event: what it is about, so that nobody is sent two mails of one event.
    user: whose address it goes to, as it is when it is sent. to: the address without a login, kept
        until the mail is sent or a week after it could not be.
    about: keys of the rows that the mail is about.
    """

    class Kind(models.TextChoices):
        INVITATION = "invitation", "invitation"
        PASSWORD = "password", "link for a new password"
        ADDRESS = "address", "check of an address"
        WAITING = "waiting", "pairs wait"
        DECISION = "decision", "a decision is needed"
        COMPLETE = "complete", "a round is complete"
        TEST = "test", "test"

    class State(models.TextChoices):
        WAITING = "waiting", "waiting"
        SENDING = "sending", "being sent"
        DELIVERED = "delivered", "sent"
        UNSURE = "unsure", "perhaps sent"
        DROPPED = "dropped", "no longer needed"
        DEAD = "dead", "given up"

    server = models.ForeignKey(MailServer, on_delete=models.CASCADE, related_name="mails")
    kind = models.CharField(max_length=12, choices=Kind)
    event = models.CharField(max_length=120, unique=True)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.CASCADE, related_name="mails"
    )
    to = models.CharField(max_length=254, blank=True)
    about = models.JSONField(default=dict)
    state = models.CharField(max_length=10, choices=State, default=State.WAITING)

    class Meta:
        indexes = [
            models.Index(
                fields=["server", "next_at"],
                condition=models.Q(state__in=["waiting", "sending"]),
                name="to_mail",
            )
        ]


class MailSettings(models.Model):
    """What mail a person wants, and what they were told of last. They have a row once it differs.

    waiting_told, decision_told: keys of rounds. A mail follows once there is another one.
    waiting_at, decision_at: when the last such mail was queued, since one a day is the most.
    """

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="mail_settings"
    )
    waiting = models.BooleanField(_lazy("When pairs of a round wait for me"), default=True)
    decision = models.BooleanField(_lazy("When an item needs my decision"), default=True)
    complete = models.BooleanField(_lazy("When a round of my project is complete"), default=True)
    waiting_told = models.JSONField(default=list)
    decision_told = models.JSONField(default=list)
    waiting_at = models.DateTimeField(null=True)
    decision_at = models.DateTimeField(null=True)


class Preferences(models.Model):
    """A user's own settings, the same in all projects.

    keys: for keys of the annotator's screen that were moved, the new one; "" for none.

    no_letter_keys: WCAG 2.1.4: keys of one character can be switched off, and moved to other
        characters.
    language: "" for the project's language, or the browser's.
    """

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="preferences"
    )
    one_key_submit = models.BooleanField("one key chooses and submits", default=False)
    serif = models.BooleanField("serif type for long responses", default=False)
    link_scroll = models.BooleanField("scroll both responses together", default=False)
    no_letter_keys = models.BooleanField("no keys of one character", default=False)
    keys = models.JSONField(default=dict, blank=True)
    language = models.CharField(max_length=10, blank=True, default="")

    def key_of(self, usual: str) -> str:
        """Return the key of one character that does what `usual` does, or "" if none does."""
        return "" if self.no_letter_keys else str(self.keys.get(usual, usual))


class AuditEvent(models.Model):
    """What somebody did in a project or on the site.

    It outlives the project and the login, whose names it keeps: `project_slug` and `actor`.
    """

    project = models.ForeignKey(
        Project, null=True, on_delete=models.SET_NULL, related_name="audit_events"
    )
    project_slug = models.CharField(max_length=80, blank=True)
    user = user_or_none()
    actor = models.CharField(max_length=200, blank=True)
    action = models.CharField(max_length=60)
    subject = models.CharField(max_length=200, blank=True)
    detail = models.JSONField(default=dict, blank=True)
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes = [models.Index(fields=["project", "-at"], name="audit_latest")]


class Export(models.Model):
    """A table that somebody downloaded: what of which run, how, and the hash of the file."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="exports")
    # What was exported stays on record when its run is gone.
    run = models.ForeignKey(
        "judging.Run", null=True, on_delete=models.SET_NULL, related_name="exports"
    )
    what = models.CharField(max_length=20)
    format = models.CharField(max_length=10)
    options = models.JSONField(default=dict)
    n_rows = models.PositiveIntegerField(default=0)
    sha256 = models.CharField(max_length=64, blank=True)
    created_by = user_or_none()
    created_at = models.DateTimeField(auto_now_add=True)
