"""Whether a delivered ZIP is complete, and whether its figures follow from its data.

The ZIP can be anybody's file. Each thing that is wrong with it becomes a sentence, and nothing that
reading it raises goes further.

People read labels.csv, votes.csv and samples.csv, and figures are computed from arrays. Each
`compare_*` function yields a sentence for each difference between the two, and `compare_verdicts`
checks that the judge's labels follow from its samples. Cells are read as they were before escaping.
These functions may raise what `BROKEN` names, for a table that somebody has changed.
"""

import csv
import io
import json
import math
import os
import re
import subprocess
import sys
import zipfile
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from annotation.results.data.figures import Data, Json, to_json
from annotation.results.data.samples import SampleArrays
from annotation.results.data.sheet import Ballots, Sheet, signs
from annotation.results.delivery.package import (
    FILES,
    MANIFEST,
    Unpacked,
    as_html,
    code,
    hash_of,
    methods_text,
    signed,
)
from annotation.results.report.report import report
from annotation.results.sections.people import NAME as PACE
from annotation.results.sections.people import read as read_pace
from annotation.votes.agreement import SIGN
from judging.core.bounds import MEBIBYTE, Archive, ArchiveBounds, allow_long_cells, shallow_json
from judging.core.errors import UserError
from judging.core.formatting import duration
from judging.core.text import ESCAPE_COLUMN, unescape_cell
from judging.llm.prompts.templates import PromptVariant
from judging.methods.agreement.votes import JUDGE_SOURCES, MODEL_SOURCES, LabelSource, majority_of
from judging.methods.arrays import Booleans, Floats, Signs
from judging.methods.intervals.estimates import Undefined
from judging.methods.verdicts.arrays import verdict_arrays
from judging.runs.models import Form, Parse, Run

# The report of 100,000 examples takes less than a minute.
SECONDS = 1800
BOUNDS = ArchiveBounds(members=100, inflated=4096 * MEBIBYTE, free=256 * MEBIBYTE)
# The figures of a project are a few hundred kilobytes.
LARGEST_JSON = 32 * MEBIBYTE
LONGEST_SHOWN = 200
# Other releases of NumPy may add numbers in another order.
TOLERANCE = 1e-9
MOST_LISTED = 20
OTHER_CODE = (
    "this report was made by another version of FairJudge, which may compute or store figures "
    "differently: verify it with the release that methods.md names"
)
# What can be raised by reading a file that somebody has changed.
BROKEN = (
    ArithmeticError, AttributeError, EOFError, LookupError, MemoryError, OSError, RecursionError,
    TypeError, ValueError, csv.Error, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
_DRAWING = re.compile(r"<(style|figure)>")
# This line of methods.md names the releases that computed it. Others may verify it.
_VERSIONS = "Computed with "

Files = dict[str, bytes]


def verify(path: Path) -> list[str]:
    """Return what is wrong with the file, a sentence each; an empty list if nothing is.

    Raises:
        UserError: The file is missing, or is not a report of FairJudge.
    """
    try:
        with Archive(path, BOUNDS) as archive:
            names = archive.names
            files = {
                name: archive.read(name, LARGEST_JSON if name.endswith(".json") else None)
                for name in names
            }
        manifest = shallow_json(files[MANIFEST])
        hashes = dict(manifest["sha256"])
    except FileNotFoundError as error:
        raise UserError(f"There is no file {path}.") from error
    # zipfile raises the last two for members with a password, or packed in a way it doesn't know.
    except (*BROKEN, RuntimeError, NotImplementedError) as error:
        raise UserError(f"{path} is not a report of FairJudge: {error}.") from error
    missing = [name for name in dict.fromkeys((*FILES, *hashes)) if name not in files]
    if missing:
        return [f"{name} is missing" for name in missing]
    problems = [f"{name} is there {n} times" for name, n in Counter(names).items() if n > 1]
    problems += _hashes(files, hashes)
    problems += _part("the certificate", lambda: _certificate(files))
    differing = _computed(files)
    if differing and manifest.get("code") != code():
        differing.append(OTHER_CODE)
    return problems + differing


def verify_within(path: Path, seconds: float) -> list[str]:
    """Return what `verify` returns, computed by another process that is ended after this time.

    A ZIP that was made to be slow may keep NumPy busy where nothing in this process could stop it.
    """
    # The other process has to find FairJudge where this one found it.
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", _CHILD, str(path)]
    try:
        done = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        raise UserError(
            f"{path} can't be verified within {duration(seconds)}. Nothing can be said about it. "
            "Very large reports may need longer: --time-limit SECONDS."
        ) from None
    if done.returncode:
        raise UserError(
            f"{path} can't be verified: the process that computed it ended early, perhaps because "
            "it needed more memory than there is."
        )
    problems: list[str] | str = json.loads(done.stdout)
    if isinstance(problems, str):
        raise UserError(problems)
    return problems


# Django has to be ready before the module is imported.
_CHILD = f"""
import sys, django
django.setup()
from {__name__} import print_verified
print_verified(sys.argv[1])
"""


def print_verified(path: str) -> None:
    """Print what is wrong with the file as a JSON list, or why it is no report as a string."""
    try:
        problems: list[str] | str = verify(Path(path))
    except UserError as error:
        problems = str(error)
    sys.stdout.write(json.dumps(problems))


def _hashes(files: Files, hashes: dict[str, str]) -> Iterator[str]:
    for name, content in files.items():
        # The manifest can't hold its own hash.
        if name == MANIFEST:
            continue
        if name not in hashes:
            yield f"{name} is not in the manifest"
        elif hash_of(content) != hashes[name]:
            yield f"{name} is not the file that was delivered"


def _part(name: str, check: Callable[[], Iterator[str]]) -> list[str]:
    """Return what a check finds, or a sentence that what it checks cannot be read."""
    try:
        # A file that is wrong everywhere would give a sentence for each of its numbers.
        return list(islice(check(), MOST_LISTED))
    except BROKEN as error:
        return [f"{name} cannot be read: {type(error).__name__} {error}"]


def _certificate(files: Files) -> Iterator[str]:
    delivered = shallow_json(files["certificate.json"])
    if delivered != signed(delivered["certificate"], hash_of(files["labels.csv"])):
        yield "the certificate is not about these labels, or was changed"
    if delivered["certificate"] != shallow_json(files["report.json"])["certificate"]:
        yield "the certificate differs from the one in the report"


def _computed(files: Files) -> list[str]:
    """Return how the report differs from what this version of the code reads and computes."""
    unpacked = _unpacked(files)
    if isinstance(unpacked, str):
        return [unpacked]
    return [*_tables(files, unpacked), *_part("the report", lambda: _figures(files, unpacked))]


def _tables(files: Files, unpacked: Unpacked) -> Iterator[str]:
    """Compare the tables that people read with the arrays that figures are computed from."""
    sheet, samples, run = unpacked.sheet, unpacked.samples, unpacked.run
    yield from _part("labels.csv", lambda: compare_labels(files["labels.csv"], sheet))
    ids: list[str] = []
    yield from _part("labels.csv", lambda: _ids(files["labels.csv"], len(sheet), ids))
    if len(ids) != len(sheet):
        return
    votes = sheet.ballots, unpacked.other_votes, unpacked.own(PACE, read_pace)
    yield from _part("votes.csv", lambda: compare_votes(files["votes.csv"], ids, *votes))
    yield from _part(
        "samples.csv", lambda: compare_samples(files["samples.csv"], ids, samples, run)
    )
    yield from _part("the judge's labels", lambda: compare_verdicts(sheet, samples, run))


def _ids(content: bytes, n: int, ids: list[str]) -> Iterator[str]:
    """Put the external ids into `ids`, in the order of the examples."""
    in_file = [name for (name,) in rows(content, ("external_id",))]
    if len(set(in_file)) < len(in_file):
        yield "labels.csv has an example twice"
    elif len(in_file) == n:
        ids += in_file


def _unpacked(files: Files) -> Unpacked | str:
    try:
        return Unpacked(files["data.npz"], shallow_json(files["context.json"]))
    except BROKEN as error:
        return f"the data of the report cannot be read: {type(error).__name__} {error}"


def _figures(files: Files, unpacked: Unpacked) -> Iterator[str]:
    """Compute every number again from the data in the ZIP alone, and compare the texts."""
    figures = report(unpacked)
    # Through JSON and back, as the delivered figures went: tuples became lists there.
    computed = json.loads(json.dumps(to_json(figures)))
    yield from differences(shallow_json(files["report.json"]), computed, "")
    if _text(files["methods.md"].decode()) != _text(methods_text(figures)):
        yield "methods.md differs from what the report says"
    page = as_html(unpacked.run, figures, with_drawings=False)
    if _undrawn(files["report.html"].decode()) != _undrawn(page):
        yield "report.html does not show the figures of report.json, or another release made it"


def _undrawn(page: str) -> str:
    """Return the page without styles and drawings, in one pass over it."""
    kept, at = [], 0
    while opening := _DRAWING.search(page, at):
        end = f"</{opening[1]}>"
        closing = page.find(end, opening.end())
        if closing < 0:
            break
        kept.append(page[at : opening.start()])
        at = closing + len(end)
    return "".join([*kept, page[at:]])


def _text(methods: str) -> list[str]:
    return [line for line in methods.splitlines() if not line.startswith(_VERSIONS)]


def differences(delivered: Json | Any, computed: Json | Any, path: str) -> Iterator[str]:
    if isinstance(delivered, dict) and isinstance(computed, dict):
        for name in {**delivered, **computed}:
            yield from differences(delivered.get(name), computed.get(name), f"{path}.{name}")
    elif isinstance(delivered, list) and isinstance(computed, list):
        if len(delivered) != len(computed):
            yield f"{path.lstrip('.')} has another length"
            return
        for place, (before, other) in enumerate(zip(delivered, computed, strict=True)):
            yield from differences(before, other, f"{path}[{place}]")
    elif not _same(delivered, computed):
        yield f"{path.lstrip('.')} is {_shown(delivered)}, and computes to {_shown(computed)}"


def _shown(value: Any) -> str:
    text = str(value)
    return text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + "…"


def _same(delivered: Any, other: Any) -> bool:
    # In Python True equals 1. In JSON it doesn't.
    truths = isinstance(delivered, bool), isinstance(other, bool)
    if any(truths):
        return all(truths) and delivered == other
    if isinstance(delivered, int | float) and isinstance(other, int | float):
        return math.isclose(delivered, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    return bool(delivered == other)


def rows(content: bytes, wanted: Sequence[str]) -> Iterator[list[str]]:
    """Yield these columns of each row. Raises ValueError if a column is missing."""
    # A response may be longer than the 131,072 characters that Python's reader accepts in a cell.
    allow_long_cells()
    reader = csv.reader(io.TextIOWrapper(io.BytesIO(content), "utf-8-sig", newline=""))
    head = next(reader, None)
    if head is None:
        return
    lacking = [name for name in wanted if name not in head]
    if lacking:
        raise ValueError(f"the column {lacking[0]} is missing")
    places = [head.index(name) for name in wanted]
    escaped = head.index(ESCAPE_COLUMN) if ESCAPE_COLUMN in head else None
    for row in reader:
        cells = [row[place] for place in places]
        yield cells if escaped is None else [unescape_cell(cell, row[escaped]) for cell in cells]


def _numbers(column: Sequence[str]) -> Floats:
    """Return the column as numbers, NaN for an empty cell."""
    return np.array([float(cell) if cell else np.nan for cell in column], dtype=np.float64)


LABEL_COLUMNS = (
    "external_id", "response_1", "response_2", "model_1", "model_2", "category", "gold_label",
    "judge_label", "score_1", "score_2", "bpde", "rank", "selection", "votes_win", "votes_tie",
    "votes_lose", "human_label", "final_label", "source",
)  # fmt: skip
VOTES = ("win", "tie", "lose")
LABEL_TOLERANCE = 1e-9
Columns = dict[str, list[str]]


def compare_labels(content: bytes, sheet: Sheet) -> Iterator[str]:
    """Yield how labels.csv differs from the arrays."""
    table = list(rows(content, LABEL_COLUMNS))
    columns = {name: [row[i] for row in table] for i, name in enumerate(LABEL_COLUMNS)}
    n = len(columns["external_id"])
    # All that follows compares rows by their place.
    if n != len(sheet):
        yield f"labels.csv has {n} examples, and the figures rest on {len(sheet)}"
        return
    for name, wrong in (*_labels(columns, sheet), *_judge(columns, sheet), *_texts(columns, sheet)):
        if wrong.any():
            yield f"{name} of {int(wrong.sum())} examples is not what the figures rest on"
    yield from _merged(columns)
    yield from _by_model(content, columns)


def _labels(columns: Columns, sheet: Sheet) -> Iterator[tuple[str, Booleans]]:
    yield "judge_label", _other(columns["judge_label"], sheet.judge, sheet.judged)
    yield "final_label", _other(columns["final_label"], sheet.final, sheet.has_final)
    selection = np.array(columns["selection"], dtype=np.str_)
    if sheet.basis == "gold":
        yield "gold_label", _other(columns["gold_label"], sheet.human, sheet.labelled)
    elif sheet.basis == "round":
        # Labels of other rounds are in the file, and not in the figures of this run.
        human = _other(columns["human_label"], sheet.human, sheet.labelled)
        yield "human_label", human & sheet.labelled
    else:
        # If a round asked again, the file has the label of the round.
        human = _other(columns["human_label"], sheet.human, sheet.labelled)
        yield "human_label", human & (selection == "")
    yield "selection", (selection == "audit") != (sheet.audited & ~sheet.selected)
    votes = sheet.ballots.counts.counts
    comparable = votes.any(axis=1) & ((selection == "") | (sheet.basis == "round"))
    for place, name in enumerate(VOTES):
        counts = np.nan_to_num(_numbers(columns[f"votes_{name}"]))
        yield f"votes_{name}", (counts != votes[:, place]) & comparable


def _judge(columns: Columns, sheet: Sheet) -> Iterator[tuple[str, Booleans]]:
    yield "bpde", ~_close(_numbers(columns["bpde"]), sheet.bpde)
    gap = np.abs(_numbers(columns["score_1"]) - _numbers(columns["score_2"]))
    yield "the gap between score_1 and score_2", ~_close(gap, sheet.gap) & ~np.isnan(gap)
    rank = _numbers(columns["rank"])
    order = np.argsort(rank, kind="stable")[: int(np.isfinite(rank).sum())]
    moved = np.zeros(len(sheet), bool)
    if len(order) == len(sheet.ranking):
        moved[order] = order != sheet.ranking
    else:
        moved[:] = True
    yield "rank", moved


def _texts(columns: Columns, sheet: Sheet) -> Iterator[tuple[str, Booleans]]:
    names = np.array([*sheet.models], dtype=np.str_)
    for column, codes in (("model_1", sheet.model_1), ("model_2", sheet.model_2)):
        yield column, np.array(columns[column], dtype=np.str_) != names[codes]
    yield "category", np.array(columns["category"], dtype=np.str_) != sheet.category
    pairs = zip(columns["response_1"], columns["response_2"], strict=True)
    length = np.array([len(first) - len(two) for first, two in pairs], dtype=np.int64)
    yield "the difference in length", length != sheet.length


def _merged(columns: Columns) -> Iterator[str]:
    """Check each final label against the column from which its source says it comes."""
    names = ("source", "judge_label", "final_label", *(f"votes_{name}" for name in VOTES))
    wrong = 0
    for source, judge, final, *votes in zip(*(columns[name] for name in names), strict=True):
        expected: Any = final
        if source in JUDGE_SOURCES:
            expected = judge
        elif source == LabelSource.MAJORITY:
            expected = majority_of(dict(zip(VOTES, map(int, votes), strict=True)))
        elif source == LabelSource.POLICY_TIE:
            expected = "tie"
        wrong += final != expected
    if wrong:
        yield f"final_label of {wrong} examples does not follow from its source"


POSTERIOR = ("external_id", "source", "final_label", "p_win", "p_tie", "p_lose")


def _by_model(content: bytes, columns: Columns) -> Iterator[str]:
    """Yield how labels of a model differ from the likeliest ones by the model's probabilities."""
    if not any(source in MODEL_SOURCES for source in columns["source"]):
        return
    wrong = 0
    for _, source, final, *chances in rows(content, POSTERIOR):
        if source in MODEL_SOURCES:
            likely = dict(zip(VOTES, map(float, chances), strict=True))
            wrong += final != max(likely, key=likely.__getitem__)
    if wrong:
        yield f"final_label of {wrong} examples is not the likeliest one by the model of votes"


def _other(column: list[str], values: Signs, there: Booleans) -> Booleans:
    in_file, given_there = signs([cell or None for cell in column])
    return np.asarray((there != given_there) | (there & (values != in_file)))


def _close(delivered: np.ndarray, other: np.ndarray) -> Booleans:
    return np.isclose(delivered, other, rtol=0, atol=LABEL_TOLERANCE, equal_nan=True)


SAMPLE_COLUMNS = (
    "external_id", "part", "slot", "attempt", "status", "score_1", "score_2", "rating", "p_first",
    "outcome",
)  # fmt: skip
MIDDLE = 4
SAMPLE_TOLERANCE = 1e-6
# The samples' values, by the place of the example, the order, and the place within the order.
SampleValues = dict[tuple[int, int, int], set[float]]


def compare_samples(
    content: bytes, ids: Sequence[str], samples: SampleArrays | Undefined, run: Run
) -> Iterator[str]:
    """Yield how samples.csv differs from the arrays. ids: the examples in their order."""
    in_file = _valid(content, ids, run)
    if isinstance(samples, Undefined):
        return
    cells = np.argwhere(samples.valid)
    band = float(run.band)
    values = (samples.difference[samples.valid] / samples.scale).tolist()
    wrong = [
        place
        for (place, order, slot), value in zip(cells.tolist(), values, strict=True)
        if not _has(in_file.get((place, order, slot), set()), value, band)
    ]
    if wrong:
        yield (
            f"{len(wrong)} samples that the figures rest on are not in samples.csv, or differ "
            f"there, such as one on {ids[wrong[0]]}"
        )
    # With PORTIA, the file also has the samples of earlier stages.
    elif not run.stages and len(in_file) != len(values):
        yield f"samples.csv has {len(in_file)} valid samples, and the figures rest on {len(values)}"


def compare_verdicts(sheet: Sheet, samples: SampleArrays | Undefined, run: Run) -> Iterator[str]:
    """Yield how the judge's labels and BPDE differ from what its samples give.

    Not checked for probabilities and stages, whose labels take more than these samples.
    """
    if isinstance(samples, Undefined) or run.form == Form.CHOICE or run.stages:
        return
    scores = np.zeros((*samples.valid.shape, 2), dtype=np.int64)
    # A verdict depends on the difference of both scores alone, so the second one may be 0.
    scores[..., 0] = samples.difference
    computed = verdict_arrays(scores, samples.valid, samples.scale)
    there = sheet.judged
    wrong = there & (~computed.judged | (computed.sign != sheet.judge))
    if wrong.any():
        yield f"the judge's label of {int(wrong.sum())} examples does not follow from its samples"
    wrong = there & ~np.isclose(computed.bpde, sheet.bpde, rtol=0, atol=SAMPLE_TOLERANCE)
    if wrong.any():
        yield f"bpde of {int(wrong.sum())} examples does not follow from its samples"


def _valid(content: bytes, ids: Sequence[str], run: Run) -> SampleValues:
    """Return the value of the last attempt at each place, if it is valid."""
    places = {name: place for place, name in enumerate(ids)}
    slots = _slots(run)
    last: dict[tuple[int, str, int], tuple[int, str, float]] = {}
    for name, part, slot, attempt, status, *reading in rows(content, SAMPLE_COLUMNS):
        if part not in slots or name not in places:
            continue
        key = places[name], part, int(slot)
        if key not in last or int(attempt) >= last[key][0]:
            value = _difference(part, *reading) if status == Parse.Status.VALID else 0.0
            last[key] = int(attempt), status, value
    values: SampleValues = {}
    for (place, part, slot), (_, status, value) in last.items():
        if status == Parse.Status.VALID:
            order, start = slots[part]
            values.setdefault((place, order, start + slot), set()).add(value)
    return values


def _slots(run: Run) -> dict[str, tuple[int, int]]:
    """Return each part's order, and the place within the order at which its samples begin."""
    seen: Counter[int] = Counter()
    slots = {}
    for part in run.parts if run.stages else run.counted_parts:
        order = run.orders.index(PromptVariant.parse(part).order)
        # As `samples._slot` has it: permutations that show the same order follow one another.
        slots[part] = order, 0 if run.stages else seen[order] * run.k
        seen[order] += 1
    return slots


def _difference(
    part: str, score_1: str, score_2: str, rating: str, p_first: str, outcome: str
) -> float:
    if score_1:
        return float(score_1) - float(score_2)
    if rating:
        return float(rating) - MIDDLE
    if p_first:
        preferred = 2 * float(p_first) - 1
        # Unlike scores, this probability is of the response that was shown first.
        return -preferred if PromptVariant.parse(part).swapped else preferred
    return float(SIGN[outcome])


def _has(values: set[float], value: float, band: float) -> bool:
    """Return True if the value is there. Older packages hold probabilities within the band as 0."""
    return any(
        abs(delivered - value) <= SAMPLE_TOLERANCE or (value == 0 and abs(delivered) <= 2 * band)
        for delivered in values
    )


VOTE_COLUMNS = ("external_id", "annotator", "label", "left_response", "active_seconds", "source")
Counted = dict[tuple[str, str], tuple[int, int]]


def compare_votes(
    content: bytes, ids: Sequence[str], ballots: Ballots, n_others: int, pace: Data | Undefined
) -> Iterator[str]:
    """Yield how votes.csv differs from the arrays.

    Args:
        ids: The examples in their order.
        n_others: Votes that the figures don't count, such as those under an earlier protocol.
    """
    counted = _counted(ids, ballots)
    others, seconds = 0, defaultdict(list)
    for example, annotator, label, left, active, source in rows(content, VOTE_COLUMNS):
        if counted.get((example, annotator)) == (SIGN.get(label), int(left or 0)):
            # Taken out, so that a row that is in the file twice counts once.
            del counted[example, annotator]
        else:
            others += 1
        if source == "screen" and active:
            seconds[annotator].append(float(active))
    if counted:
        example, annotator = min(counted)
        yield (
            f"{len(counted)} votes that the figures rest on are not in votes.csv, or differ there, "
            f"such as {annotator}'s on {example}"
        )
    elif others != n_others:
        yield (
            f"votes.csv has {others} votes besides those that the figures rest on, and {n_others} "
            "were delivered"
        )
    if _sorted(seconds) != _sorted(_timed(pace)):
        yield "active_seconds of votes.csv are not what the figures rest on"


def _counted(ids: Sequence[str], ballots: Ballots) -> Counted:
    places, people = np.nonzero(ballots.present)
    return {
        (ids[place], ballots.names[person]): (
            int(ballots.votes[place, person]),
            int(ballots.left[place, person]),
        )
        for place, person in zip(places.tolist(), people.tolist(), strict=True)
    }


def _timed(pace: Data | Undefined) -> dict[str, list[float]]:
    if isinstance(pace, Undefined):
        return {}
    people, seconds = pace.arrays["person"], pace.arrays["seconds"]
    names = enumerate(pace.plain["names"])
    return {name: seconds[people == place].tolist() for place, name in names}


def _sorted(seconds: dict[str, list[float]]) -> dict[str, list[float]]:
    return {name: sorted(values) for name, values in seconds.items() if values}
