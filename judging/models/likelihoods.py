"""How likely a model finds a text, asked once for each text and model (Ohi et al., section 2)."""

from django.db import models

from judging.models.projects import Project


class TextLikelihood(models.Model):
    """log P(output | task, input) in nats, and its tokens.

    `sha256` is of task, input and output, so that a text that stands in several places is asked
    about once. Where the model could not say, `reason` says why and there is no number.
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
            ),
        ]
