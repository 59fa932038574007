"""How likely a language model finds the texts of a project, as it was recorded.

LS = log P(output | task description, input) in nats (Ohi et al., section 2). A text that stands in
several places is one text; its key is the hash of task, input and output.
"""

import hashlib
from dataclasses import dataclass

import numpy as np
from django.db.models import Count
from numpy.typing import NDArray

from judging.models import Example, Project, TextLikelihood

Floats = NDArray[np.float64]
# Of a pair nothing is known but the question: it is the whole input.
NO_TASK = ""


@dataclass(frozen=True, slots=True)
class Text:
    """One output, and what it is an output for."""

    task: str
    input: str
    output: str

    @property
    def sha256(self) -> str:
        whole = "\x1f".join((self.task, self.input, self.output))
        return hashlib.sha256(whole.encode()).hexdigest()

    @property
    def context(self) -> str:
        """What stands before the output."""
        return "".join(f"{part.strip()}\n\n" for part in (self.task, self.input) if part.strip())


@dataclass(frozen=True, slots=True)
class PairDifferences:
    """(N,) of response 1 less response 2, NaN where one is not known; by which model."""

    sums: Floats
    per_token: Floats
    model: str


def texts_of_pair(question: str, response_1: str, response_2: str) -> tuple[Text, Text]:
    return Text(NO_TASK, question, response_1), Text(NO_TASK, question, response_2)


def newest_source(project: Project) -> tuple[str, str] | None:
    """The endpoint's address and the model that were asked about the most texts."""
    rows = project.likelihoods.order_by().values_list("base_url", "model")
    found = rows.annotate(n=Count("pk")).order_by("-n", "base_url", "model").first()
    return None if found is None else (found[0], found[1])


def recorded_likelihoods(project: Project, source: tuple[str, str]) -> dict[str, tuple[float, int]]:
    """By the text's hash: LS and the number of tokens."""
    rows = TextLikelihood.objects.filter(
        project=project, base_url=source[0], model=source[1], log_likelihood__isnull=False
    )
    found = rows.values_list("sha256", "log_likelihood", "tokens")
    return {key: (value, tokens) for key, value, tokens in found.iterator(chunk_size=5000)}


def pair_differences(project: Project, ids: NDArray[np.intp]) -> PairDifferences:
    """ids: the examples in the order of the rows."""
    sums, per_token = np.full(len(ids), np.nan), np.full(len(ids), np.nan)
    source = newest_source(project)
    if source is None:
        return PairDifferences(sums, per_token, "")
    known = recorded_likelihoods(project, source)
    place = {int(pk): row for row, pk in enumerate(ids.tolist())}
    rows = Example.objects.filter(project=project).values_list(
        "pk", "question", "response_1", "response_2"
    )
    for pk, *texts in rows.iterator(chunk_size=500):
        values = [known.get(text.sha256) for text in texts_of_pair(*texts)]
        if pk in place and all(values):
            (one, n_one), (two, n_two) = values
            sums[place[pk]] = one - two
            if n_one and n_two:
                per_token[place[pk]] = one / n_one - two / n_two
    return PairDifferences(sums, per_token, source[1])
