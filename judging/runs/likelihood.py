"""How likely a language model finds the texts of a project, as it was recorded.

LS = log P(output | task description, input) in nats (Ohi et al., section 2). A text that stands in
several places is one text; its key is the hash of task, input and output.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from django.db.models import Count
from numpy.typing import NDArray

from judging.methods.arrays import Floats
from judging.models.examples import Example
from judging.models.likelihoods import TextLikelihood
from judging.models.projects import Project
from judging.models.runs import Run

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


def task_of(run: Run) -> str:
    """What an output of the run's template is for."""
    return str(run.parameters.get("output", {}).get("task", ""))


def sources_of(project: Project) -> list[tuple[str, str]]:
    """The endpoints' addresses and the models, those asked about the most texts first."""
    rows = project.likelihoods.order_by().values_list("base_url", "model")
    found = rows.annotate(n=Count("pk")).order_by("-n", "base_url", "model")
    return [(base_url, model) for base_url, model, _ in found]


def recorded_likelihoods(project: Project, source: tuple[str, str]) -> dict[str, tuple[float, int]]:
    """By the text's hash: LS and the number of tokens."""
    rows = TextLikelihood.objects.filter(
        project=project, base_url=source[0], model=source[1], log_likelihood__isnull=False
    )
    found = rows.values_list("sha256", "log_likelihood", "tokens")
    return {key: (value, tokens) for key, value, tokens in found.iterator(chunk_size=5000)}


def pair_differences(project: Project, ids: NDArray[np.intp]) -> PairDifferences:
    """By the first source that knows a pair. ids: the examples in the order of the rows."""
    place = {int(pk): row for row, pk in enumerate(ids.tolist())}
    for source in sources_of(project):
        known = recorded_likelihoods(project, source)
        sums, per_token = differences_in(project, place, known)
        if not np.isnan(sums).all():
            return PairDifferences(sums, per_token, source[1])
    none = np.full(len(ids), np.nan)
    return PairDifferences(none, none.copy(), "")


def differences_in(
    project: Project, place: Mapping[int, int], known: Mapping[str, tuple[float, int]]
) -> tuple[Floats, Floats]:
    """place: the row of each example."""
    sums, per_token = np.full(len(place), np.nan), np.full(len(place), np.nan)
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
    return sums, per_token
