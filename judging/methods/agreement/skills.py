"""How skilled each annotator is, and what their votes say together: models of votes.

A majority counts every vote alike. Dawid and Skene's model weighs each vote by its annotator's
errors. The hierarchical model pools these errors between annotators, so that few votes of a person
tell little about that person, and it knows examples on which anybody would guess.

Both call the right label what their annotators would agree on. Neither can find an error that all
annotators share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, gammaln
from scipy.stats import norm as normal
from scipy.stats import t as t_distribution

from judging.methods.arrays import Booleans, Codes, Floats, Signs
from judging.methods.intervals.bootstrap import interval
from judging.methods.intervals.estimates import Estimate, Figure, Undefined

CLASSES = 3
# Two pseudo-votes a row of each confusion matrix, one spread evenly and one right: an annotator
# with few votes is neither perfect nor hopeless, and who only met wins isn't taken for a machine.
SMOOTHING = 1 / CLASSES
ONE_RIGHT = SMOOTHING + np.eye(CLASSES)
NO_VOTES = Undefined("an example without a vote has no label")
FEW_PEOPLE = Undefined("with fewer than three annotators, nothing tells who errs")
NEVER_MET = Undefined("no two people voted on the same example, so their skill can't be told")
SEED = 20120615
FEWEST_CHAINS, MOST_CHAINS = 2, 8
# Votes times sweeps and chains. Many votes leave less to chance, so that fewer sweeps are enough.
WORK = 12_000_000
FEWEST_SWEEPS, MOST_SWEEPS = 150, 200
WARM_UP = 1 / 3
# Pseudo-votes of the typical annotator, by what is right and what is said.
TYPICAL = 1.0 + 7.0 * np.eye(CLASSES)
# The prior mean and standard deviation of the logarithm of how alike annotators are.
ALIKE = (np.log(10.0), 1.2)
# Pseudo-guesses of each label.
GUESSES = 5.0
STEP, STEP_ALIKE = 0.35, 0.5
# The mean difficulty, and how alike examples are in it, among which a chain chooses.
DIFFICULTIES = np.linspace(0.01, 0.61, 21)
SAMENESS = np.array([0.5, 1.0, 2.0, 4.0, 8.0, 16.0])
# By simulation, the posterior alone covers 90 to 93 % of the skills of people who never guess: the
# model expects some guesses, and takes the right labels of few votes for surer than they are.
WIDER = 1.2
SMALLEST = 1e-300
LEAST_SHARE = 1e-4
ONE_CATEGORY = "all votes are in one category, so chance agreement is complete"
FEWEST_RATERS = 3
FEW_RATERS = "with fewer than three annotators, other annotators can't be predicted"
FEW_QUESTIONS = "with fewer than three questions, other examples can't be predicted"
FEWEST_RESAMPLES, RESAMPLES = 200, 1_000
CHUNK = 1_000_000
Labels = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class CastVotes:
    """One entry per vote, sorted by example. Every example below `examples` has a vote.

    example, rater: (V,) codes. label: (V,) 0 win, 1 tie, 2 lose."""

    example: Codes
    rater: Codes
    label: Labels
    examples: int
    raters: int

    @classmethod
    def from_table(cls, votes: Signs, present: Booleans) -> CastVotes | Undefined:
        """List the votes of a table.

        Args: votes, present: (N, raters) signs, and whether each vote exists.
        Returns: the list, or Undefined if an example has no vote."""
        if not present.size or not present.any(axis=1).all():
            return NO_VOTES
        example, rater = np.nonzero(present)
        label = 1 - votes[example, rater].astype(np.intp)
        return cls(example, rater, label, *present.shape)

    @property
    def starts(self) -> Codes:
        """(N,) the place of each example's first vote."""
        return np.searchsorted(self.example, np.arange(self.examples))

    @property
    def untold(self) -> Undefined | None:
        """Why nothing tells who errs, if nothing does."""
        if self.raters < FEWEST_RATERS:
            return FEW_PEOPLE
        met = (np.bincount(self.example, minlength=1) > 1).any()
        return None if met else NEVER_MET


@dataclass(frozen=True, slots=True)
class DawidSkene:
    """Classes are win, tie, lose; all arrays are float64 probabilities.

    posterior: (N, 3). prior: (3,). confusion: (raters, 3, 3), rows the true class."""

    posterior: Floats
    prior: Floats
    confusion: Floats
    iterations: int
    converged: bool

    @property
    def skill(self) -> Floats:
        """(raters,) how often each says what is right, 0 to 1."""
        return np.asarray(np.einsum("t,rtt->r", self.prior, self.confusion))


def dawid_skene(
    votes: CastVotes, *, iterations: int = 500, tolerance: float = 1e-8
) -> DawidSkene | Undefined:
    """Estimate right labels and each rater's errors by EM (Dawid, Skene 1979, doi:10.2307/2346806).

    Args:
        votes: one or more per example.
        iterations, tolerance: stop after that many steps, or when no posterior moves by more.
    Returns: the fit, or Undefined below three raters, or if no two of them met."""
    if votes.untold is not None:
        return votes.untold
    starts, cell = votes.starts, votes.rater * CLASSES + votes.label
    counts = np.add.reduceat(np.eye(CLASSES)[votes.label], starts)
    posterior = counts / counts.sum(axis=1, keepdims=True)
    for step in range(1, iterations + 1):
        prior = (posterior.sum(axis=0) + SMOOTHING) / (len(posterior) + 1)
        confusion = _by_rater(cell, posterior[votes.example], votes.raters) + ONE_RIGHT
        confusion /= confusion.sum(axis=2, keepdims=True)
        log_chance = np.log(confusion)[votes.rater, :, votes.label]
        updated = _normalised(np.log(prior) + np.add.reduceat(log_chance, starts))
        change = float(np.abs(updated - posterior).max())
        posterior = updated
        if change < tolerance:
            return DawidSkene(posterior, prior, confusion, step, True)
    return DawidSkene(posterior, prior, confusion, iterations, False)


def _by_rater(cell: Codes, weight: Floats, raters: int) -> Floats:
    """(raters, 3, 3) sums of (V, 3) weights of the right class, by rater and by what was said."""
    sums = [np.bincount(cell, column, raters * CLASSES) for column in weight.T]
    return np.stack([column.reshape(raters, CLASSES) for column in sums], axis=1)


def _normalised(log_weight: Floats) -> Floats:
    """Probabilities of log weights, along the last axis."""
    weight = np.exp(log_weight - log_weight.max(axis=-1, keepdims=True))
    return np.asarray(weight / weight.sum(axis=-1, keepdims=True))


@dataclass(frozen=True, slots=True)
class Hierarchical:
    """posterior: (N, 3) float64, the probability that win, tie and lose are right.

    skills: (draws, raters) how often each says what is right on an example of mean difficulty.
    difficulty: (N,) the expected chance that a vote on the example is a guess, 0 to 1.
    difficulties: (draws,) its mean over all examples.
    apart: the largest difference between the posteriors of one half of the chains and the other."""

    posterior: Floats
    skills: Floats
    difficulty: Floats
    difficulties: Floats
    apart: float
    seed: int

    def skill(self, rater: int, n: int, confidence: float = 0.95) -> Figure:
        """Return one rater's skill with its posterior interval, WIDER times as wide.

        Args: rater, n, confidence: its column, its votes, and the level.
        Returns: the posterior mean between the limits."""
        drawn = self.skills[:, rater]
        mean = drawn.mean()
        low, high, _ = interval(np.clip(mean + WIDER * (drawn - mean), 0, 1), confidence)
        return Estimate(float(mean), n, low, high)

    def mean_difficulty(self, confidence: float = 0.95) -> Figure:
        """Return how often a vote is a guess, with its posterior interval.

        Args: confidence: the level.
        Returns: the posterior mean between the limits; n the examples."""
        return _summed(self.difficulties, len(self.posterior), confidence)


def _summed(draws: Floats, n: int, confidence: float) -> Figure:
    low, high, _ = interval(draws, confidence)
    return Estimate(float(draws.mean()), n, low, high)


def hierarchical(votes: CastVotes, *, seed: int = SEED) -> Hierarchical | Undefined:
    """Estimate right labels, annotators' skill and examples' difficulty together.

    The model is the hierarchical Dawid-Skene model of Paun et al. (2018, doi:10.1162/tacl_a_00040,
    section 3.2) with partially pooled confusion matrices: each row of a person's matrix is drawn
    from a Dirichlet distribution around the typical person's. A vote is a guess with the example's
    own chance, which has a beta distribution over the examples; in MACE (Hovy et al. 2013,
    https://aclanthology.org/N13-1132) that chance belongs to the person instead. Gibbs sampling
    draws from the posterior, and Metropolis steps draw how far people are alike.

    Args:
        votes: one or more per example.
        seed: of the chains; the same votes and seed give the same labels.
    Returns: the posterior, or Undefined below three raters, or if no two of them met."""
    if votes.untold is not None:
        return votes.untold
    chosen = WORK / len(votes.label)
    n_chains = int(np.clip(chosen / FEWEST_SWEEPS, FEWEST_CHAINS, MOST_CHAINS))
    chains = _Chains(votes, n_chains, np.random.default_rng(seed))
    chains.run(int(np.clip(chosen / n_chains, FEWEST_SWEEPS, MOST_SWEEPS)))
    posteriors = _of_equal_votes(votes, chains.posterior / len(chains.skills))
    halves = posteriors[::2].mean(axis=0) - posteriors[1::2].mean(axis=0)
    return Hierarchical(
        posterior=np.asarray(posteriors.mean(axis=0)),
        skills=np.concatenate(chains.skills),
        difficulty=np.asarray(chains.difficulty.mean(axis=0) / len(chains.skills)),
        difficulties=np.concatenate(chains.difficulties),
        apart=float(np.abs(halves).max()),
        seed=seed,
    )


def _of_equal_votes(votes: CastVotes, posteriors: Floats) -> Floats:
    """(C, N, 3) means over the examples on which the same people voted alike: by the model these
    have the same posterior, so that draws of all of them tell more than draws of one."""
    cell = votes.rater * CLASSES + votes.label
    parts = np.split(cell, votes.starts[1:])
    seen: dict[bytes, int] = {}
    kind = np.array([seen.setdefault(np.sort(part).tobytes(), len(seen)) for part in parts])
    sums = np.zeros((len(posteriors), len(seen), CLASSES))
    for chain, own in zip(sums, posteriors, strict=True):
        np.add.at(chain, kind, own)
    return np.asarray((sums / np.bincount(kind)[:, None])[:, kind])


class _Chains:
    """Several chains at once: their state, and the sums over the sweeps that are kept.

    C is the number of chains, which is the first axis of everything that they draw."""

    def __init__(self, votes: CastVotes, chains: int, rng: np.random.Generator) -> None:
        self.votes, self.chains, self.rng = votes, chains, rng
        self.starts = votes.starts
        self.n_votes = np.bincount(votes.example, minlength=votes.examples)
        typical = TYPICAL / TYPICAL.sum(axis=1, keepdims=True)
        self.typical = np.repeat(typical[None], self.chains, axis=0)
        self.alike = np.full(self.chains, np.exp(ALIKE[0]))
        self.shares = np.full((self.chains, CLASSES), 1 / CLASSES)
        self.guess = np.full((self.chains, CLASSES), 1 / CLASSES)
        self.errors = np.repeat(self.typical[:, None], votes.raters, axis=1)
        self.mean = np.full(self.chains, 0.1)
        self.hard = np.full((self.chains, votes.examples), 0.1)
        # What the votes on an example can come to: how many there are, and how many are guesses.
        kinds = [(n, k) for n in np.unique(self.n_votes) for k in range(n + 1)]
        self.kinds = np.array(kinds)
        place = {kind: at for at, kind in enumerate(kinds)}
        self.first_kind = np.array([place[n, 0] for n in self.n_votes.tolist()])
        mean, same = (grid.reshape(-1, 1) for grid in np.meshgrid(DIFFICULTIES, SAMENESS))
        self.often, self.seldom = mean * same, (1 - mean) * same
        n, k = self.kinds.T
        log_likely = betaln(self.often + k, self.seldom + n - k) - betaln(self.often, self.seldom)
        # Fewer guesses are likelier beforehand: a beta distribution of 1 and 4.
        self.kind_likely, self.few = log_likely, 3 * np.log(1 - mean[:, 0])
        self.posterior = np.zeros((self.chains, votes.examples, CLASSES))
        self.difficulty = np.zeros((self.chains, votes.examples))
        self.skills: list[Floats] = []
        self.difficulties: list[Floats] = []

    def run(self, sweeps: int) -> None:
        """Sweep, and keep what comes after the warm-up."""
        for sweep in range(sweeps):
            probability = self._sweep()
            if sweep < int(sweeps * WARM_UP):
                continue
            self.posterior += probability
            self.difficulty += self.hard
            knows = (1 - self.mean)[:, None, None] * np.einsum("crtt->crt", self.errors)
            right = knows + (self.mean[:, None] * self.guess)[:, None]
            self.skills.append(np.einsum("crt,ct->cr", right, self.shares))
            self.difficulties.append(self.mean.copy())

    def _sweep(self) -> Floats:
        votes, rng = self.votes, self.rng
        hard = self.hard[:, votes.example]
        guessed = hard * self.guess[:, votes.label]
        known = (1 - hard)[..., None] * self.errors[:, votes.rater, :, votes.label].swapaxes(0, 1)
        log_chance = np.log(np.maximum(known + guessed[..., None], SMALLEST))
        log_weight = np.log(self.shares)[:, None] + np.add.reduceat(log_chance, self.starts, axis=1)
        probability = _normalised(log_weight)
        passed = np.cumsum(probability, axis=2)[..., :-1]
        right = (rng.random(passed.shape[:2])[..., None] > passed).sum(axis=2)
        of_vote = right[:, votes.example]
        meant = np.take_along_axis(known, of_vote[..., None], axis=2)[..., 0]
        guesses = rng.random(of_vote.shape) * (guessed + meant) < guessed
        self.shares = self._shares(1 + self._count(right, CLASSES))
        label = np.broadcast_to(votes.label, guesses.shape)
        self.guess = self._shares(GUESSES + self._count(label, CLASSES, guesses))
        self._draw_difficulty(np.add.reduceat(guesses.astype(np.intp), self.starts, axis=1))
        cell = (votes.rater * CLASSES + of_vote) * CLASSES + votes.label
        counts = self._count(cell, votes.raters * CLASSES**2, ~guesses)
        self._draw_errors(counts.reshape(self.chains, votes.raters, CLASSES, CLASSES))
        return probability

    def _count(self, values: Codes, size: int, weight: Booleans | None = None) -> Floats:
        """(C, size) how often each value occurs in each chain, where the weight is True."""
        cell = (values + size * np.arange(self.chains)[:, None]).reshape(-1)
        weights = None if weight is None else weight.reshape(-1)
        counted = np.bincount(cell, weights, self.chains * size)
        return counted.reshape(self.chains, size).astype(np.float64)

    def _shares(self, alpha: Floats) -> Floats:
        """Dirichlet draws along the last axis."""
        drawn = np.maximum(self.rng.standard_gamma(alpha), SMALLEST)
        return np.asarray(drawn / drawn.sum(axis=-1, keepdims=True))

    def _draw_difficulty(self, guesses: Codes) -> None:
        """The mean and the sameness with each example's own chance summed out, then the chances."""
        times = self._count(self.first_kind + guesses, len(self.kinds))
        log_weight = times @ self.kind_likely.T + self.few
        # The largest of sums with Gumbel noise is a draw by these log weights.
        place = (log_weight + self.rng.gumbel(size=log_weight.shape)).argmax(axis=1)
        often, seldom = self.often[place], self.seldom[place]
        self.mean = (often / (often + seldom))[:, 0]
        self.hard = self.rng.beta(often + guesses, seldom + self.n_votes - guesses)

    def _draw_errors(self, counts: Floats) -> None:
        """The typical person's matrix and how alike people are, then each person's matrix."""
        rng = self.rng
        n_votes = counts.sum(axis=3)
        now = self._likely(counts, n_votes, self.typical, self.alike)
        moved = self.typical * np.exp(rng.normal(0, STEP, self.typical.shape))
        moved = np.maximum(moved / moved.sum(axis=2, keepdims=True), LEAST_SHARE)
        moved /= moved.sum(axis=2, keepdims=True)
        gain = self._likely(counts, n_votes, moved, self.alike) - now
        # On logarithms of shares, the distribution beforehand has one count more in each cell.
        gain += (TYPICAL * np.log(moved / self.typical)).sum(axis=2)
        taken = np.log(rng.random(gain.shape)) < gain
        self.typical = np.where(taken[..., None], moved, self.typical)
        alike = self.alike * np.exp(rng.normal(0, STEP_ALIKE, self.chains))
        gain = self._likely(counts, n_votes, self.typical, alike)
        gain -= self._likely(counts, n_votes, self.typical, self.alike)
        before, after = ((np.log(value) - ALIKE[0]) / ALIKE[1] for value in (self.alike, alike))
        taken = np.log(rng.random(self.chains)) < gain.sum(axis=1) + (before**2 - after**2) / 2
        self.alike = np.where(taken, alike, self.alike)
        self.errors = self._shares(counts + (self.alike[:, None, None] * self.typical)[:, None])

    @staticmethod
    def _likely(counts: Floats, n_votes: Floats, typical: Floats, alike: Floats) -> Floats:
        """(C, 3) log likelihoods of the counts by row, with each person's matrix summed out."""
        prior = (alike[:, None, None] * typical)[:, None]
        log_likely = (gammaln(prior + counts) - gammaln(prior)).sum(axis=(1, 3))
        own = alike[:, None, None]
        return np.asarray(log_likely + (gammaln(own) - gammaln(own + n_votes)).sum(axis=1))


def two_way_alpha(
    votes: CastVotes, question: Codes, rng: np.random.Generator, confidence: float = 0.95
) -> Figure:
    """Return Krippendorff's alpha with limits for other examples and other annotators.

    `agreement_interval` keeps these annotators and draws examples. Here both are drawn: a pair of
    votes weighs the product of its example's and of its two annotators' weights, each exponential
    (Owen, Eckles 2012, doi:10.1214/12-AOAS547). That counts the variance of single votes too often,
    so it errs to the wide side. Drawn weights of few annotators vary too little, so the limits move
    away from the median by t over z with (R - 1) degrees of freedom, times sqrt((R + 1) / (R - 1)).

    Args:
        votes: one or more per example; each example's other votes count only if two met.
        question: (N,) equal codes share a question and are drawn together.
        rng, confidence: for the draws, and the level.
    Returns: nominal alpha, n the examples on which two people met, or Undefined."""
    twice = np.bincount(votes.example, minlength=votes.examples) >= 2
    keep = twice[votes.example]
    if not keep.any():
        return NEVER_MET
    _, example = np.unique(votes.example[keep], return_inverse=True)
    raters, rater = np.unique(votes.rater[keep], return_inverse=True)
    label, asked = votes.label[keep], np.unique(question[twice], return_inverse=True)[1]
    n, r, questions = int(twice.sum()), len(raters), int(asked.max()) + 1
    starts = np.searchsorted(example, np.arange(n))
    ones = np.ones((1, len(label)))
    value = float(_weighted_alphas(ones, np.ones((1, n)), label, starts, plain=True)[0])
    if not np.isfinite(value):
        return Undefined(ONE_CATEGORY)
    if r < FEWEST_RATERS or questions < FEWEST_RATERS:
        return Estimate(value, n, note=FEW_RATERS if r < FEWEST_RATERS else FEW_QUESTIONS)
    draws, parts = int(np.clip(WORK / len(label), FEWEST_RESAMPLES, RESAMPLES)), []
    step = max(1, CHUNK // len(label))
    for start in range(0, draws, step):
        now = min(step, draws - start)
        people = rng.standard_exponential((now, r))[:, rater]
        items = rng.standard_exponential((now, questions))[:, asked]
        parts.append(_weighted_alphas(people, items, label, starts))
    drawn = np.concatenate(parts)
    low, high, lacking = interval(drawn, confidence)
    middle, tail = float(np.nanmedian(drawn)), (1 + confidence) / 2
    wider = float(t_distribution.ppf(tail, r - 1) / normal.ppf(tail) * ((r + 1) / (r - 1)) ** 0.5)
    low = max(-1.0, value - wider * (middle - low))
    high = min(1.0, value + wider * (high - middle))
    note = f"undefined in {lacking} of {draws} resamples" if lacking else ""
    return Estimate(value, n, min(low, value), max(high, value), note)


def _weighted_alphas(
    people: Floats, items: Floats, label: Labels, starts: Codes, *, plain: bool = False
) -> Floats:
    """(B,) alphas of (B, V) weights of votes' annotators and (B, N) weights of examples.

    plain: all weights are 1, so that the correction for the number of votes is exact."""
    total = np.add.reduceat(people, starts, axis=1)
    own = np.add.reduceat(people * people, starts, axis=1)
    agreeing, shares = -own, []
    for category in range(CLASSES):
        counted = np.add.reduceat(np.where(label == category, people, 0.0), starts, axis=1)
        agreeing = agreeing + counted * counted
        shares.append((items * counted).sum(axis=1))
    size = items * total
    with np.errstate(divide="ignore", invalid="ignore"):
        differ = (size * (1 - agreeing / (total * total - own))).sum(axis=1) / size.sum(axis=1)
        expected = 1 - sum((share / size.sum(axis=1)) ** 2 for share in shares)
        if plain:
            expected = expected * size.sum(axis=1) / (size.sum(axis=1) - 1)
        return np.asarray(np.where(expected > 0, 1 - differ / expected, np.nan))
