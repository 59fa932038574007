"""Why judge and people disagree, where the guidelines leave a gap, and what closing one changed."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlencode

import numpy as np

from annotation.models import Protocol
from annotation.results.data.figures import Data
from annotation.results.data.samples import SampleArrays
from annotation.results.data.sheet import Sheet
from annotation.results.merge.final_labels import human_labels
from annotation.results.sections.analysis import Analysis
from annotation.results.sections.judge_card import read_card
from annotation.results.sections.people import CRITERIA, MISSING, read_criteria
from annotation.votes.agreement import SIGN
from judging.core.formatting import count, number_of
from judging.dataset.models import Example, tags_of_examples
from judging.methods.agreement.noise import (
    REST,
    SOURCES,
    over_represented,
    pulled,
    said_as_people,
    split,
)
from judging.methods.arrays import Booleans, Codes, Floats
from judging.methods.intervals.bootstrap import plus_two_mean, plus_two_ratio
from judging.methods.intervals.covariates import covariate_bias
from judging.methods.intervals.estimates import Estimate, Figure, Undefined

NAME = "disagreement"
NONE = Undefined("judge and people disagree on no example")
NO_CHANGE = Undefined("no example has a label by people under two versions of the protocol")
# With more labelled examples, the groups are categories and criteria alone.
MOST_READ = 20_000
NO_LABEL = -9
# Tags, and examples of a group, that are shown.
MOST_TAGS, MOST_SHOWN = 40, 5
# A disagreement is a gap if at least so much of it is not explained.
UNEXPLAINED = 0.5
SIGNIFICANT = 0.05
WORDS = {
    "judge_noise": "The judge's noise",
    "position": "Position: the judge says so in one order only",
    "pull": "Length or likelihood, as far as people don't share the preference",
    "people_noise": "People's noise",
    REST: "Not explained",
}
_UNMEASURED = {
    "judge_noise": "not measured: the judge gave one sample in each order",
    "position": "not measured: the judge was asked in one order",
    "pull": "no bias is shown",
    "people_noise": "not measured: no two people voted on the same example",
}


@dataclass(frozen=True)
class Part:
    """number: of disagreements, adding up over the parts. share: of all; why not, if the source
    explains none because it can't be measured."""

    source: str
    number: float
    share: Figure

    @property
    def name(self) -> str:
        return WORDS[self.source]


@dataclass(frozen=True)
class Gap:
    """A group of examples. kind: category, tag or criterion. inside: labelled examples of it.

    gaps: disagreements of which most is not explained. expected: how many there would be by chance.
    examples: ids of some of them, the least explained first."""

    kind: str
    value: str
    inside: int
    gaps: int
    expected: float
    p_holm: float
    examples: Sequence[str]

    @property
    def query(self) -> str:
        """Return the data browser's filter; empty for examples without a category."""
        return urlencode({self.kind: self.value, "people": "differs"}) if self.value else ""

    @property
    def shown(self) -> bool:
        return self.p_holm < SIGNIFICANT


@dataclass(frozen=True)
class ProtocolEffect:
    """before, after: names of two versions of the protocol. n: examples with people's labels under
    both and the judge's. disagreed: of these, on how many judge and people disagreed before.

    agreement_before, agreement_after, change: of judge and people on these examples."""

    before: str
    after: str
    n: int
    disagreed: int
    agreement_before: Figure
    agreement_after: Figure
    change: Figure

    @property
    def warning(self) -> str:
        """Say so if only disagreements were asked again, which agree more by chance alone."""
        if not self.n or self.disagreed < self.n:
            return ""
        return (
            "Only disagreements were asked again. Some of them agree now by chance, whatever the "
            "protocol says. Ask whole categories or tags again to measure a change."
        )


@dataclass(frozen=True)
class DisagreementFigures:
    """n: examples on which judge and people disagree, of `labelled` with both labels. number: how
    many these represent, audited ones weighted up."""

    n: int
    labelled: int
    number: float
    parts: Sequence[Part]
    unexplained: int
    gaps: Sequence[Gap]
    effect: ProtocolEffect | Undefined

    @property
    def sentence(self) -> str:
        shown = [gap for gap in self.gaps if gap.shown]
        start = f"Judge and people disagree on {count(self.n)} of {count(self.labelled)} examples. "
        if not shown:
            return (
                f"{start}No category, tag or criterion is shown to have more unexplained "
                "disagreements than chance gives."
            )
        named = ", ".join(f"{gap.kind} {gap.value or '(none)'}" for gap in shown[:3])
        return start + (
            f"{number_of(len(shown), 'group')} {'has' if len(shown) == 1 else 'have'} more "
            f"unexplained disagreements than chance would give: {named}."
        )


def read_disagreement(of: Analysis) -> Data:
    """Read tags and ids of the examples with both labels, and people's labels by protocol."""
    sheet, known = of.sheet, of.sheet.known
    rows = np.zeros(0, np.intp) if isinstance(known, Undefined) else known.rows
    keys = sheet.ids[rows].tolist()
    ids: dict[int, str] = {}
    if len(keys) <= MOST_READ:
        ids = dict(Example.objects.filter(pk__in=keys).values_list("pk", "external_id"))
    tags = tags_of_examples(keys) if ids else {}
    often = Counter(name for names in tags.values() for name in names)
    names = [name for name, _ in often.most_common(MOST_TAGS)]
    tagged = np.array([[name in tags.get(key, ()) for name in names] for key in keys], dtype=bool)
    versions, labels = _by_protocol(of)
    return Data(
        {"tagged": tagged.reshape(len(keys), len(names)), "labels": labels},
        {"tags": names, "ids": [ids.get(key, "") for key in keys], "protocols": versions},
    )


def _by_protocol(of: Analysis) -> tuple[list[str], Codes]:
    """Return the protocols' names in their order, and (N, protocols) signs of people's labels."""
    versions = Protocol.objects.filter(project=of.project).order_by("number")
    protocols = dict(versions.values_list("pk", "name"))
    labels = np.full((len(of.sheet), len(protocols)), NO_LABEL, np.int8)
    # Under a single version nothing can have changed, so its votes aren't read again.
    if len(protocols) > 1:
        place = {pk: row for row, pk in enumerate(of.sheet.ids.tolist())}
        for column, pk in enumerate(protocols):
            everywhere, _ = human_labels(of.project, None, None, round__protocol=pk)
            for example, say in everywhere.items():
                if say.label and say.votes and example in place:
                    labels[place[example], column] = SIGN[say.label]
    return list(protocols.values()), labels


def disagreement(of: Analysis) -> DisagreementFigures | Undefined:
    sheet, known = of.sheet, of.sheet.known
    if isinstance(known, Undefined):
        return known
    inside = sheet.judged[known.rows]
    rows = known.rows[inside]
    apart = sheet.judge[rows] != sheet.human[rows]
    n = int(apart.sum())
    if not n:
        return NONE
    data = of.own(NAME, read_disagreement)
    assert isinstance(data, Data)
    explained, why = _explained(of, rows)
    parts = split(explained)
    weight, stratum = known.weight[inside], known.stratum[inside]
    # The last part is what no source explains.
    gap = apart & (parts[:, -1] >= UNEXPLAINED)
    audited = stratum > 0
    if audited.any() and not apart[audited].any():
        note = "judge and people disagree on no audited example, so there is no interval"
        number = float(weight @ apart)
        values = (weight[apart] @ parts[apart]) / number
        shares: list[Figure] = [Estimate(float(value), n, note=note) for value in values]
    else:
        shares = [_share(part, apart, weight, stratum, sheet.question[rows]) for part in parts.T]
    return DisagreementFigures(
        n=n,
        labelled=len(rows),
        number=float(weight @ apart),
        parts=[
            Part(
                source,
                float(weight[apart] @ part[apart]),
                Undefined(why[source]) if source in why else share,
            )
            for source, part, share in zip((*SOURCES, REST), parts.T, shares, strict=True)
        ],
        unexplained=int(gap.sum()),
        gaps=_gaps(of, data, inside, rows, gap, parts[:, -1]),
        effect=_effect(sheet, data),
    )


def _share(
    part: Floats, apart: Booleans, weight: Floats, stratum: Codes, question: Codes
) -> Figure:
    """Return the mean part of the disagreements, of which there are n."""
    # Without an audit all examples weigh the same, so the disagreements can be averaged by
    # themselves.
    if not stratum.any():
        return plus_two_mean(part[apart], (0, 1), question[apart])
    there, above = apart.astype(np.float64), np.where(apart, part, 0.0)
    design = {"weight": weight, "stratum": stratum, "question": question}
    figure = plus_two_ratio(above, there, (0, 1), **design)
    # The n of the ratio is that of all labelled examples, and this share is of the disagreements.
    return figure if isinstance(figure, Undefined) else replace(figure, n=int(apart.sum()))


def _explained(of: Analysis, rows: Codes) -> tuple[Floats, dict[str, str]]:
    """Return (n, sources) how far each source explains a disagreement, and why one can't."""
    sheet, samples = of.sheet, of.samples
    explained, why = np.zeros((len(rows), len(SOURCES))), {}
    if isinstance(samples, SampleArrays):
        outcomes = (samples.signs[rows], samples.valid[rows], sheet.human[rows])
        explained[:, 0], explained[:, 1] = said_as_people(*outcomes)
    if not isinstance(samples, SampleArrays) or samples.k < 2:
        why["judge_noise"] = _UNMEASURED["judge_noise"]
    if not isinstance(samples, SampleArrays) or samples.orders < 2:
        why["position"] = _UNMEASURED["position"]
    pulls = [_pull(sheet, rows, sheet.length.astype(np.float64))]
    card = of.own("judge_card", read_card)
    if isinstance(card, Data):
        pulls.append(_pull(sheet, rows, card.arrays["likelihood"]))
    # Two preferences are combined as sources are: what the one leaves, the other may explain.
    explained[:, 2] = 1 - np.prod([1 - pull for pull in pulls], axis=0)
    if not explained[:, 2].any():
        why["pull"] = _UNMEASURED["pull"]
    pooled = sheet.ballots.pooled
    if isinstance(pooled, Undefined):
        why["people_noise"] = _UNMEASURED["people_noise"]
    else:
        place = np.full(len(sheet), -1, np.intp)
        place[sheet.ballots.rows] = np.arange(len(sheet.ballots.rows))
        voted = place[rows] >= 0
        chances = pooled.posterior[place[rows][voted]]
        # Columns are win, tie and lose, so that the column of a sign is 1 less the sign.
        explained[voted, 3] = chances[np.arange(len(chances)), 1 - sheet.judge[rows][voted]]
    return explained, why


def _pull(sheet: Sheet, rows: Codes, difference: Floats) -> Floats:
    """Return 0 unless the interval of the bias leaves out 0: people don't share the preference."""
    nothing, there = np.zeros(len(rows)), ~np.isnan(difference[rows])
    known = sheet.known
    if not there.any() or isinstance(known, Undefined):
        return nothing
    inside = sheet.judged[known.rows] & ~np.isnan(difference[known.rows])
    chosen = known.rows[inside]
    judge, human = ((signs[chosen] + 1) / 2 for signs in (sheet.judge, sheet.human))
    design = {"weight": known.weight[inside], "stratum": known.stratum[inside]}
    delta, asked = difference[chosen], sheet.question[chosen]
    measured = covariate_bias(delta, judge, human, question=asked, **design)
    if isinstance(measured, Undefined) or isinstance(measured.bias, Undefined):
        return nothing
    bias, slope, equal = measured.bias, measured.judge.slope, measured.judge.equal
    # People may share the preference, or the audit may be too small to tell. Then it explains
    # nothing.
    if bias.low is None or bias.high is None or bias.low <= 0 <= bias.high:
        return nothing
    if isinstance(slope, Undefined) or isinstance(equal, Undefined) or measured.judge.separated:
        return nothing
    # At equal size the fit predicts σ(α), so the logit of this rate is the intercept α.
    intercept = float(np.log(equal.value / (1 - equal.value)))
    # The covariate as `covariate_bias` scales it; a difference that is not known pulls nowhere.
    x = np.tanh(np.nan_to_num(difference[rows]) / float(delta.std(ddof=1)))
    return pulled(x, sheet.judge[rows], intercept, slope.value, bias.value)


def _gaps(
    of: Analysis, data: Data, inside: Booleans, rows: Codes, gap: Booleans, rest: Floats
) -> list[Gap]:
    """Return the groups with more gaps than chance gives, the clearest first."""
    names, members = _groups(of, data, inside, rows)
    if not names or not gap.any():
        return []
    ids = [key for key, is_in in zip(data.plain["ids"], inside, strict=True) if is_in]
    tests = over_represented(np.stack(members, axis=1), gap)
    gaps = []
    for (kind, value), member, tested in zip(names, members, tests, strict=True):
        places = np.flatnonzero(member & gap)
        first = places[np.argsort(-rest[places], kind="stable")][:MOST_SHOWN]
        numbers = (tested.inside, tested.gaps, tested.expected, tested.p_holm)
        gaps.append(Gap(kind, value, *numbers, [ids[place] for place in first if ids[place]]))
    beyond = [group for group in gaps if group.gaps > group.expected]
    return sorted(beyond, key=lambda gap: (gap.p_holm, -gap.gaps, gap.kind, gap.value))


def _groups(
    of: Analysis, data: Data, inside: Booleans, rows: Codes
) -> tuple[list[tuple[str, str]], list[Booleans]]:
    """Return categories, tags, and the criteria on which people contradict each other."""
    category = of.sheet.category[rows]
    names, members = [], []
    for value in np.unique(category).tolist():
        names.append(("category", str(value)))
        members.append(category == value)
    for column, value in enumerate(data.plain["tags"]):
        names.append(("tag", value))
        members.append(data.arrays["tagged"][inside, column])
    read = of.own(CRITERIA, read_criteria)
    for column, value in enumerate(read.plain["names"] if isinstance(read, Data) else ()):
        answers = read.arrays["answers"][:, column]
        example, signs = read.arrays["example"][answers != MISSING], np.sign(answers)
        signs = signs[answers != MISSING]
        sums = [np.bincount(example[signs == sign], minlength=len(of.sheet)) for sign in (1, 0, -1)]
        names.append(("criterion", value))
        # People contradict each other if more than one of better, tie and worse was said.
        members.append((np.stack(sums) > 0).sum(axis=0)[rows] > 1)
    # A group of all or of a single example tells nothing.
    kept = [place for place, member in enumerate(members) if 1 < member.sum() < len(rows)]
    return [names[place] for place in kept], [members[place] for place in kept]


def _effect(sheet: Sheet, data: Data) -> ProtocolEffect | Undefined:
    """Compare the newest version of the protocol that asked again with the one before it."""
    labels, names = data.arrays["labels"], data.plain["protocols"]
    there = labels != NO_LABEL
    # A version that asked nothing again can't be compared, so the newest one that did is.
    for after in range(len(names) - 1, 0, -1):
        earlier = there[:, :after]
        rows = np.flatnonzero(there[:, after] & earlier.any(axis=1) & sheet.judged)
        if not len(rows):
            continue
        # argmax finds the first True, so the columns are turned round to find the last version with
        # a label.
        last = after - 1 - earlier[rows, ::-1].argmax(axis=1)
        # Examples may come from several earlier versions. A change needs one version before and one
        # after, so the version with the most of these examples is taken.
        before = int(np.bincount(last).argmax())
        rows = rows[last == before]
        old, new = (
            (labels[rows, column] == sheet.judge[rows]).astype(float) for column in (before, after)
        )
        asked = sheet.question[rows]
        return ProtocolEffect(
            before=names[before], after=names[after], n=len(rows), disagreed=int((old == 0).sum()),
            agreement_before=plus_two_mean(old, (0, 1), asked),
            agreement_after=plus_two_mean(new, (0, 1), asked),
            change=plus_two_mean(new - old, (-1, 1), asked),
        )  # fmt: skip
    return NO_CHANGE
