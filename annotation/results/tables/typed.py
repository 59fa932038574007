"""Tables in files with types: Parquet, Arrow, Excel, and the folder of a data set.

`datasets.load_dataset` opens such a folder: Parquet files under `data/`, and a card, README.md,
that says which files they are and how the labels were made. The user fills in the licence. The
images that the texts name are under `images/`, by their hash, so that an import finds them.
"""

import io
import json
import shutil
import tempfile
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Context, Decimal
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from django.db.models import Count, QuerySet

from annotation.models import Protocol, Vote
from judging.core.errors import UserError
from judging.core.formatting import count, number_of
from judging.core.images import suffix_of
from judging.core.workbooks import LONGEST_CELL, MOST_ROWS, TooLong, write_workbook
from judging.dataset.models import ExampleImage, Frame, Image
from judging.dataset.uploads import designs_of
from judging.projects.models import Project
from judging.runs.models import Run

Rows = Iterable[dict[str, Any]]
Pieces = Iterator[tuple[bytes, int]]
# Rows of a group of a file, which are in memory at once.
_ROWS_A_GROUP = 5_000
_ROWS_A_SHARD = 100_000
_PIECE = 1 << 20
# The types of columns. All others are text.
_WHOLE = frozenset(
    "rank n_valid n_asked votes_win votes_tie votes_lose n_votes left_response round "
    "example_votes_n slot attempt prompt_tokens completion_tokens rounds votes imported_votes "
    "checks checks_passed self_agreement_n agreement_n left_n votes_aside win tie lose "
    "training_n training_right qualification_tries qualification_n qualification_right "
    "repeats".split()
)
_REAL = frozenset(
    "score_1 score_2 bpde routing_score probability active_seconds rating p_first mass "
    "p_chosen hours self_agreement agreement left_rate left_p mean practice_seconds "
    "self_agreement_low self_agreement_high repeat_seconds p_win p_tie p_lose".split()
)
_MONEY = frozenset({"judge_usd", "human_usd", "usd", "practice_usd", "repeat_usd"})
_TRUTH = frozenset({"estimated", "unblinded", "reviewed", "qualified"})
_TIMES = frozenset({"submitted_at"})
_WITH_TEXTS = ("labels", "preferences")
# Digits of money, and how many of them are behind the point.
_DIGITS, _PLACES = 38, 18
_EXACT = Context(prec=_DIGITS)


_IN_WORDS = {"parquet": "Parquet", "arrow": "Arrow", "dataset": "A data set", "zstd": "zstd"}


def arrow_for_export(named: str) -> Any:
    """Return pyarrow. Raises UserError if it is not installed."""
    try:
        # Imported when it is needed, because the extra `arrow` is optional.
        import pyarrow.parquet
    except ImportError:
        raise UserError(
            f"{_IN_WORDS[named]} needs the package pyarrow, which is not installed. Nothing was "
            "exported. Install it with: pip install 'fairjudge[arrow]'"
        ) from None
    return pyarrow


class Sink(io.RawIOBase):
    """Holds what was written until it is taken."""

    def __init__(self) -> None:
        super().__init__()
        self._pieces: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        # A copy, since the buffer belongs to the writer, which may fill it with what comes next.
        self._pieces.append(bytes(data))
        return len(self._pieces[-1])

    def taken(self) -> bytes:
        written, self._pieces = b"".join(self._pieces), []
        return written


@dataclass
class Card:
    """What the card of a data set says of a table; `count` sees each of its rows.

    frame: the part of the examples that the table is about, if they are not all.
    """

    project: Project
    run: Run | None
    what: str
    frame: Frame | None = None
    sources: Counter[str] = field(default_factory=Counter)
    n_rows: int = 0

    def counted(self, rows: Rows) -> Rows:
        for row in rows:
            self.n_rows += 1
            if row.get("source") is not None:
                self.sources[str(row["source"])] += 1
            yield row

    def images(self) -> QuerySet[Image]:
        """Return the images in the texts of the table, if it has texts."""
        of_table = ExampleImage.objects.filter(example__project=self.project)
        if self.frame is not None:
            of_table = of_table.filter(example__frames__frame=self.frame)
        if self.what not in _WITH_TEXTS:
            of_table = of_table.none()
        return Image.objects.filter(pk__in=of_table.values("image")).order_by("pk")

    def text(self, shards: Sequence[str], size: int) -> str:
        """Return README.md. What people called their project is quoted: YAML begins the file."""
        title = json.dumps(f"{self.project.name}: {self.what}", ensure_ascii=False)
        return "\n".join(
            [
                *_head(title, {self.what: "data"}),
                "",
                f"# {' '.join(self.project.name.split())}: {self.what}",
                "",
                "## Splits",
                "",
                "| split | rows | files | bytes |",
                "|---|---|---|---|",
                f"| train | {self.n_rows} | {len(shards)} | {size} |",
                "",
                "## How the labels were made",
                "",
                *(f"- {sentence}" for sentence in self.sentences()),
                "",
                "## Columns",
                "",
                "FairJudge's documentation, *Files and columns*, says what each column means.",
                "",
            ]
        )

    def sentences(self) -> Iterator[str]:
        """Say who gave the labels, of what, and which pairs were compared."""
        if self.frame is not None:
            yield f"The table is about a part of the examples: {self.frame.words}."
        run = self.run
        if run is not None:
            yield (
                f"The judge is {run.model} (run “{run.name}”): method {run.method}, form "
                f"{run.form}, template {run.template_name}, {number_of(run.k, 'sample')} per "
                f"order, temperature {run.temperature}."
            )
            if run.rule is not None:
                yield f"Its verdict was derived from scores on criteria: {run.rule}."
        else:
            yield "No judge has labelled these examples."
        votes = Vote.objects.filter(example__project=self.project)
        if self.frame is not None:
            votes = votes.filter(example__frames__frame=self.frame)
        people = votes.aggregate(votes=Count("pk"), people=Count("annotator", distinct=True))
        yield (
            f"{number_of(people['people'], 'annotator')} gave {number_of(people['votes'], 'vote')}."
        )
        for asked in Protocol.objects.filter(project=self.project).order_by("number"):
            if asked.rule is not None:
                yield (
                    f"Overall answers under {asked.name} were derived from those on criteria: "
                    f"{asked.rule}."
                )
        if self.sources:
            counts = ", ".join(f"{name}: {count(n)}" for name, n in self.sources.most_common())
            yield f"Rows by the source of their label: {counts}."
        if self.images().exists():
            yield "Images in texts are named by their SHA-256 and are under `images/`."
        for words in dict.fromkeys(design.words for design in designs_of(self.project)):
            yield f"Pairs were made of more than two responses to a question: {words}."


def _head(title: str, folders: Mapping[str, str]) -> list[str]:
    """Return the YAML of a card: one configuration for each table, the first one by default."""
    return [
        "---",
        "# Choose a licence that you may give, such as cc-by-4.0, and remove the mark.",
        "# license:",
        f"pretty_name: {title}",
        "configs:",
        *(
            line
            for number, (what, folder) in enumerate(folders.items())
            for line in (
                f"- config_name: {what}",
                f"  default: {'false' if number else 'true'}",
                "  data_files:",
                "  - split: train",
                f"    path: {folder}/train-*.parquet",
            )
        ),
        "---",
    ]


def join_cards(folder: Path, name: str, tables: Sequence[str]) -> None:
    """Write the card of a data set in which each table has a folder with a card of its own.

    Args:
        name: what the project is called.
    """
    bodies = [
        (folder / what / "README.md").read_text(encoding="utf-8").split("\n---\n", 1)[1]
        for what in tables
    ]
    head = _head(json.dumps(name, ensure_ascii=False), {what: f"{what}/data" for what in tables})
    (folder / "README.md").write_text("\n".join((*head, *bodies)), encoding="utf-8")


def typed_file(
    kind: str, card: Card, columns: Sequence[str], rows: Rows, as_text: Callable[[Any], str]
) -> Pieces:
    """Return the pieces of a file, each with how many rows it ends.

    Excel is written before the first piece, so that a cell that is too long refuses the export.
    """
    if kind == "xlsx":
        return _excel(card.what, columns, rows, as_text)
    if kind == "dataset":
        return _zipped_dataset(card, columns, rows, as_text)
    return _arrow_pieces(kind, columns, rows, as_text)


def _arrow_pieces(
    kind: str, columns: Sequence[str], rows: Rows, as_text: Callable[[Any], str]
) -> Pieces:
    sink, left = Sink(), iter(rows)
    schema = _schema(columns)
    with _writer(kind, sink, schema) as writer:
        while group := list(islice(left, _ROWS_A_GROUP)):
            writer.write_table(_group(schema, columns, group, as_text))
            yield sink.taken(), len(group)
    yield sink.taken(), 0


def _writer(kind: str, target: Any, schema: Any) -> Any:
    arrow = arrow_for_export(kind)
    if kind == "arrow":
        return arrow.ipc.new_file(arrow.PythonFile(target, mode="w"), schema)
    return arrow.parquet.ParquetWriter(target, schema)


def _schema(columns: Sequence[str]) -> Any:
    """Return the columns' types: times are UTC, and money has 18 decimal places."""
    arrow = arrow_for_export("parquet")
    kinds = [
        (_WHOLE, arrow.int64()),
        (_REAL, arrow.float64()),
        (_MONEY, arrow.decimal128(_DIGITS, _PLACES)),
        (_TRUTH, arrow.bool_()),
        (_TIMES, arrow.timestamp("us", tz="UTC")),
    ]
    types = {name: kind for names, kind in kinds for name in names}
    return arrow.schema([(name, types.get(name, arrow.string())) for name in columns])


def _group(
    schema: Any,
    columns: Sequence[str],
    rows: Sequence[dict[str, Any]],
    as_text: Callable[[Any], str],
) -> Any:
    values = [[_arrow_value(name, row.get(name), as_text) for row in rows] for name in columns]
    return arrow_for_export("parquet").table(values, schema=schema)


def _arrow_value(name: str, value: Any, as_text: Callable[[Any], str]) -> Any:
    if value is None:
        return None
    if name in _MONEY:
        # Within the usual 28 digits, an amount with 18 decimal places would soon be refused.
        return Decimal(value).quantize(Decimal(1).scaleb(-_PLACES), context=_EXACT)
    if name in _REAL:
        return float(value)
    if name in _WHOLE or name in _TRUTH or name in _TIMES:
        return value
    return as_text(value)


def _excel(sheet: str, columns: Sequence[str], rows: Rows, as_text: Callable[[Any], str]) -> Pieces:
    def cells(row: dict[str, Any]) -> list[Any]:
        return [_excel_value(name, row.get(name), as_text) for name in columns]

    file = tempfile.TemporaryFile()  # noqa: SIM115
    try:
        n_rows = write_workbook(file, sheet, columns, map(cells, rows))
    except TooLong as error:
        file.close()
        if error.column < 0:
            raise UserError(
                f"A sheet of Excel holds at most {count(MOST_ROWS - 1)} rows, and the table has "
                "more. Nothing was exported. Use CSV or Parquet."
            ) from None
        raise UserError(
            f"A cell of Excel holds at most {count(LONGEST_CELL)} characters, and "
            f"{columns[error.column]} in row {count(error.row)} of the table has "
            f"{count(error.length)}. Nothing was exported. Use CSV or Parquet."
        ) from None
    except BaseException:
        file.close()
        raise
    return _pieces_of(file, n_rows)


def _excel_value(name: str, value: Any, as_text: Callable[[Any], str]) -> Any:
    """Return a number only for columns of numbers: an ID `007` is a text."""
    if value is None or value == "":
        return None
    if name in _REAL:
        return float(value)
    if name in _MONEY or name in _WHOLE or name in _TRUTH or name in _TIMES:
        return value
    return as_text(value)


def _pieces_of(file: BinaryIO, n_rows: int) -> Pieces:
    with file:
        file.seek(0)
        while piece := file.read(_PIECE):
            yield piece, n_rows
            n_rows = 0


def write_dataset(
    folder: Path, card: Card, columns: Sequence[str], rows: Rows, as_text: Callable[[Any], str]
) -> int:
    """Write the files of a data set into a folder, and return how many rows they have."""
    schema = _schema(columns)
    left = iter(card.counted(rows))
    data = folder / "data"
    data.mkdir(parents=True)
    while True:
        n_before = card.n_rows
        # The final names tell how many shards there are, which is known at the end.
        draft = data / f"{len(list(data.iterdir())):05d}"
        with _writer("parquet", str(draft), schema) as writer:
            shard = islice(left, _ROWS_A_SHARD)
            while group := list(islice(shard, _ROWS_A_GROUP)):
                writer.write_table(_group(schema, columns, group, as_text))
        if card.n_rows == n_before and n_before:
            # The shard before was the last one.
            draft.unlink()
        if card.n_rows - n_before < _ROWS_A_SHARD:
            break
    drafts = sorted(data.iterdir())
    shards = [
        draft.rename(data / f"train-{number:05d}-of-{len(drafts):05d}.parquet")
        for number, draft in enumerate(drafts)
    ]
    size = sum(shard.stat().st_size for shard in shards)
    text = card.text([shard.name for shard in shards], size)
    (folder / "README.md").write_text(text, encoding="utf-8")
    # One image at a time, because each may be megabytes.
    for image in card.images().iterator(chunk_size=1):
        name = f"{image.pk}{suffix_of(image.content_type)}"
        (folder / "images").mkdir(exist_ok=True)
        (folder / "images" / name).write_bytes(image.content)
    return card.n_rows


def _zipped_dataset(
    card: Card, columns: Sequence[str], rows: Rows, as_text: Callable[[Any], str]
) -> Pieces:
    with tempfile.TemporaryDirectory(prefix="fairjudge-") as temporary:
        folder = Path(temporary) / "dataset"
        n_rows = write_dataset(folder, card, columns, rows, as_text)
        archive = Path(temporary) / "dataset.zip"
        # Parquet is compressed by itself.
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as packed:
            for path in sorted(path for path in folder.rglob("*") if path.is_file()):
                # Without times, the same files are the same archive.
                about = zipfile.ZipInfo(str(path.relative_to(folder)))
                # A stream's size isn't known before, and only zip64 holds members of more than 2
                # GiB.
                with path.open("rb") as source, packed.open(about, "w", force_zip64=True) as target:
                    shutil.copyfileobj(source, target)
        yield from _pieces_of(archive.open("rb"), n_rows)
