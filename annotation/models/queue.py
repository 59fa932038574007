"""The queue: items in a random order, and n slots each, so that exactly n votes are a table."""

from django.db import models
from django.db.models import Q

from annotation.models.people import Annotator
from annotation.models.rounds import Round, Selection
from judging.models.examples import Example


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
