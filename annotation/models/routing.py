"""What a round learned from its first stage, and the score that its second stage went by."""

from django.db import models

from annotation.models.rounds import Round


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
