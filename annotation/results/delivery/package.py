"""A report as files: one HTML page that needs nothing else, and a ZIP that can be verified.

The ZIP holds the tables, the figures, the texts, and `data.npz` with `context.json`: the arrays and
settings from which anyone can compute the report again without the database. `pack` writes these,
`Unpacked` reads them as an `Analysis`. The manifest holds each file's hash, and a hash of the code,
since another release may compute a figure in another way.
"""

import hashlib
import io
import json
import math
import platform
import re
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, fields
from decimal import Decimal
from functools import cache
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

import numpy as np
from django.contrib.auth.models import AbstractUser
from django.contrib.staticfiles import finders
from django.template.loader import render_to_string
from django.utils.html import escape

import annotation.results
import judging.methods
from annotation.models import Vote
from annotation.results.data.figures import (
    NEEDS_CONVERTER,
    Data,
    Json,
    Plot,
    as_svg,
    can_draw,
    to_json,
)
from annotation.results.data.runs import Costs, OtherRun
from annotation.results.data.samples import SampleArrays
from annotation.results.data.sheet import Ballots, Sheet
from annotation.results.delivery.latex import as_latex
from annotation.results.delivery.pdf import as_pdf
from annotation.results.report.page import file_context, paper_of, release
from annotation.results.report.report import SECTIONS, Report, described, plots, report
from annotation.results.sections.analysis import Analysis
from annotation.results.sections.routing import ESCALATION
from annotation.results.sections.trust import (
    NOT_REGISTERED,
    REGISTERED,
    SCORES,
    Audit,
    CertificateFigures,
    Replacement,
    Unblinded,
)
from annotation.results.tables.exports import ExportRequest, export, in_frame, whole_file
from judging.core.bounds import MEBIBYTE, Archive, ArchiveBounds
from judging.core.sql.statements import snapshot
from judging.dataset.models import Frame
from judging.methods.agreement.annotators import Expertise
from judging.methods.intervals.estimates import Undefined
from judging.projects.models import Project
from judging.runs.models import Run


@cache
def code() -> str:
    """Return a hash of all code that computes figures, the same wherever it is installed."""
    digest = hashlib.sha256()
    for package in (judging.methods, annotation.results):
        folder = Path(str(package.__file__)).parent
        for path in sorted(folder.rglob("*.py")):
            digest.update(f"{path.relative_to(folder).as_posix()}\n".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


_ARRAYS = [
    field.name
    for field in fields(Sheet)
    if field.name not in ("models", "basis", "unsettled", "people", "asked")
]
_COSTS = [field.name for field in fields(Costs) if field.name != "runs"]
# Costs that are no amount of money.
_COUNTED = ("n_votes", "votes_an_example", "measured_votes", "measured_minutes")
ARRAY_BOUNDS = ArchiveBounds(members=10_000, inflated=2048 * MEBIBYTE, free=256 * MEBIBYTE)
_BALLOTS = ("votes", "present", "left")
_OF_OTHERS = ("judge", "judged", "bpde")


def pack(analysis: Analysis) -> tuple[bytes, Json]:
    """Return what the report is computed from: the arrays as .npz, everything else as JSON."""
    sheet, samples, audit = analysis.sheet, analysis.samples, analysis.audit
    arrays = {f"sheet.{name}": getattr(sheet, name) for name in _ARRAYS}
    arrays |= {f"ballots.{name}": getattr(sheet.ballots, name) for name in _BALLOTS}
    context: Json = {
        "project": {
            name: getattr(analysis.project, name) for name in ("slug", "name", "label_rule")
        },
        "frame": analysis.about,
        "reused": analysis.reused,
        "run": to_json(described(analysis.run)) | {"orders": list(analysis.run.orders)},
        "models": list(sheet.models),
        "basis": sheet.basis,
        "unsettled": sheet.unsettled,
        "annotators": list(sheet.ballots.names),
        "prompt_share": str(analysis.prompt_share),
        "costs": {name: _plain(getattr(analysis.costs, name)) for name in _COSTS},
        "statuses": analysis.statuses,
        "unblinded": to_json(analysis.unblinded),
        "replacement": to_json(analysis.replacement),
        "band": str(analysis.run.band),
        "other_votes": _other_votes(analysis),
        "samples": samples.reason if isinstance(samples, Undefined) else None,
        "audit": None,
    }
    if isinstance(samples, SampleArrays):
        arrays |= {"samples.difference": samples.difference, "samples.valid": samples.valid}
        context["scale"], context["samples_band"] = samples.scale, samples.band
    if isinstance(audit, Audit):
        described_audit = asdict(audit)
        arrays["audit.places"] = described_audit.pop("places")
        if (scores := described_audit.pop("scores")) is not None:
            arrays["audit.scores"] = scores
        context["audit"] = described_audit
    else:
        context["no_audit"] = audit.reason
    context["others"] = []
    for place, other in enumerate(analysis.others):
        arrays |= {f"other.{place}.{name}": getattr(other, name) for name in _OF_OTHERS}
        cost = _plain(other.judge_usd)
        context["others"].append({"settings": other.settings, "judge_usd": cost})
    context["sections"] = {}
    for section in SECTIONS:
        if section.read is not None:
            own = analysis.own(section.name, section.read)
            if isinstance(own, Undefined):
                context["sections"][section.name] = {"reason": own.reason}
                continue
            context["sections"][section.name] = {"plain": own.plain}
            arrays |= {f"{section.name}.{name}": array for name, array in own.arrays.items()}
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    return stream.getvalue(), context


class Unpacked(Analysis):
    """An analysis whose data come from a file. It never touches a database."""

    def __init__(self, data: bytes, context: Json) -> None:
        run = dict(context["run"])
        parameters = {"orders": run.pop("orders")}
        if run.pop("adaptive"):
            parameters["adaptive"] = True
        for name in ("portia", "permutations"):
            if kept := run.pop(name):
                parameters[name] = kept
        parameters["output"] = {"band": context["band"]}
        names = {"template": "template_name", "template_sha256": "template_hash"}
        run = {names.get(name, name): value for name, value in run.items()}
        run["temperature"] = Decimal(run["temperature"])
        made = Run(**run, parameters=parameters)
        self.other_votes = int(context["other_votes"])
        super().__init__(Project(**context["project"]), made)
        self.about = context.get("frame")
        self.reused = int(context.get("reused", 0))
        self._read(_loaded(data), context)

    def _read(self, arrays: dict[str, Any], context: Json) -> None:
        self.sheet = Sheet(
            **{name: arrays[f"sheet.{name}"] for name in _ARRAYS},
            models=tuple(context["models"]),
            basis=context["basis"],
            unsettled=context["unsettled"],
            people=(),
            asked={},
        )
        votes = (arrays[f"ballots.{name}"] for name in _BALLOTS)
        self.sheet.__dict__["ballots"] = Ballots(tuple(context["annotators"]), *votes)
        self.prompt_share = Decimal(context["prompt_share"])
        self.samples = _samples(arrays, context)
        self.audit = Undefined(context.get("no_audit", ""))
        if context["audit"] is not None:
            own = {"places": arrays["audit.places"], "scores": arrays.get("audit.scores")}
            self.audit = Audit(**context["audit"], **own)
        self.costs = _costs(context["costs"])
        self.statuses = context["statuses"]
        self.unblinded = Unblinded(**context["unblinded"])
        # Older packages were made when every project had this one.
        old = {"epsilon": Expertise.SKILLED.value, "changed": False}
        self.replacement = Replacement(**context.get("replacement", old))
        self.kept = {
            name: _section(name, plain, arrays) for name, plain in context["sections"].items()
        }
        # Older packages don't say, and nothing is read from a database here.
        self.kept.setdefault(REGISTERED, NOT_REGISTERED)
        self.kept.setdefault(ESCALATION, Data())
        self.others = tuple(
            OtherRun(
                other["settings"],
                arrays[f"other.{place}.judge"],
                arrays[f"other.{place}.judged"],
                # Older packages don't have it.
                arrays.get(f"other.{place}.bpde", np.full(len(self.sheet), np.nan)),
                _decimal(other["judge_usd"]),
            )
            for place, other in enumerate(context["others"])
        )


def _loaded(data: bytes) -> dict[str, np.ndarray]:
    """Read an .npz from outside. Raises ValueError if an array isn't as large as its head says."""
    with Archive(data, ARRAY_BOUNDS) as archive:
        return {name.removesuffix(".npy"): _array(archive.read(name)) for name in archive.names}


def _array(content: bytes) -> np.ndarray:
    stream = io.BytesIO(content)
    version = np.lib.format.read_magic(stream)
    heads = {(1, 0): np.lib.format.read_array_header_1_0}
    shape, _, kind = heads.get(version, np.lib.format.read_array_header_2_0)(stream)
    # NumPy takes the memory before it reads. An element of no bytes would take none of the file.
    if math.prod(shape) * max(kind.itemsize, 1) > len(content):
        raise ValueError("an array is shorter than its head says")
    stream.seek(0)
    return np.asarray(np.lib.format.read_array(stream, allow_pickle=False))


def _other_votes(analysis: Analysis) -> int:
    """Return the number of votes that are delivered but that the figures don't count."""
    votes = Vote.objects.filter(example__project=analysis.project)
    n_votes = in_frame(votes, "example", analysis.frame).count()
    return n_votes - int(analysis.sheet.ballots.present.sum())


def _costs(packed: Json) -> Costs:
    costs = {name: value if name in _COUNTED else _decimal(value) for name, value in packed.items()}
    return Costs(runs=(), **costs)


def _section(name: str, packed: Json, arrays: dict[str, Any]) -> Data | Undefined:
    if "reason" in packed:
        return Undefined(packed["reason"])
    own = {
        key.removeprefix(f"{name}."): array
        for key, array in arrays.items()
        if key.startswith(f"{name}.")
    }
    return Data(own, packed["plain"])


def _samples(arrays: dict[str, Any], context: Json) -> SampleArrays | Undefined:
    if context["samples"] is not None:
        return Undefined(context["samples"])
    # Older packages hold the differences within the band as 0.
    band = int(context.get("samples_band", 0))
    return SampleArrays(
        arrays["samples.difference"], arrays["samples.valid"], context["scale"], band=band
    )


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Decimal) else value


def _decimal(value: str | None) -> Decimal | None:
    return None if value is None else Decimal(value)


def as_text(value: Json) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


TABLES = ("labels", "votes", "samples")
MANIFEST = "manifest.json"
FILES = (
    *(f"{name}.csv" for name in TABLES),
    *("report.json", "report.html", "methods.md", "data.npz", "context.json", "certificate.json"),
)
PACKAGES = ("Django", "numpy", "scipy")
_LINK = re.compile(r'<a class="term-word"[^<>]*+>((?:[^<]|<(?!/?a\b))*+)</a>')


def deliver(
    project: Project,
    run: Run,
    user: AbstractUser | None,
    path: Path,
    frame: Frame | None = None,
    *,
    advance: Callable[[int], None] | None = None,
) -> Report:
    """Write the report as .html, .pdf, .zip or .tex, by the file's name, and return the figures.

    Votes that are cast meanwhile are neither in the tables nor in the figures.

    Args:
        frame: The examples that it is about; by default those of the run.
        advance: Told how many rows of the tables in a .zip are written.

    Raises:
        UserError: The file can't be written.
    """
    with whole_file(path) as partial, snapshot():
        analysis = Analysis(project, run, frame)
        figures = report(analysis)
        if path.suffix == ".zip":
            packed, frame = pack(analysis), analysis.frame
            # The votes would be in memory together with the drawings.
            del analysis
            _write_zip(partial, project, run, user, frame, figures, *packed, advance)
        elif path.suffix == ".tex":
            page = as_html(run, figures, with_drawings=False)
            partial.write_text(as_latex(page, paper_of(figures)), encoding="utf-8")
        elif path.suffix == ".pdf":
            title = f"{figures.project.name}: {run.name}"
            drawn = {plot.name: plot for plot in plots(figures)}
            partial.write_bytes(as_pdf(_page(run, figures), paper_of(figures), title, drawn))
        else:
            partial.write_text(as_html(run, figures), encoding="utf-8")
    return figures


def open_report(project: Project, run: Run, user: AbstractUser, kind: str) -> BinaryIO:
    """Return a report to send, named after project and run; it is gone once it is closed.

    Raises:
        UserError: The run isn't ranked, or the file can't be written.
    """
    run.require_ranking()
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"{project.slug}-run{run.number}-report.{kind}"
        deliver(project, run, user, path)
        # Opened before the folder is removed, the file lives until it is sent.
        return path.open("rb")


def as_html(run: Run, figures: Report, *, with_drawings: bool = True) -> str:
    """Return the report as one page with its styles and drawings. It loads nothing else."""
    body = _page(run, figures)
    styles = Path(str(finders.find("css/report.css"))).read_text(encoding="utf-8")
    for plot in plots(figures):
        drawing = _drawing(plot) if with_drawings else ""
        body = body.replace(f"<!-- drawing:{plot.name} -->", drawing)
    return f'<!doctype html>\n<html lang="en">\n<style>\n{styles}</style>\n{body}</html>\n'


def _page(run: Run, figures: Report) -> str:
    """Return the page with a comment in the place of each drawing."""
    body = render_to_string("results/report_file.html", file_context(run, figures))
    return _LINK.sub(r"\1", body)


def _drawing(shown: Plot) -> str:
    if not can_draw():
        return f"<figure><figcaption>{escape(NEEDS_CONVERTER)}</figcaption></figure>"
    title = f'<b dir="auto">{escape(shown.title)}.</b> {escape(shown.caption)}'
    return f"<figure><figcaption>{title}</figcaption>{as_svg(shown)}</figure>"


def methods_text(figures: Report) -> str:
    """Return what was done, for the methods section of a paper."""
    run, coverage = figures.run, figures.coverage
    about = f" {coverage.frame}" if coverage.frame else ""
    lines = [
        "# Methods",
        "",
        f"Judge: `{run.model or 'recorded elsewhere'}` at `{run.endpoint or '–'}`, "
        f"method {run.method}, form {run.form}, k = {run.k} samples in each order, "
        f"temperature {run.temperature}, seed {run.seed}.",
        f"Template: `{run.template or '–'}`, SHA-256 {run.template_sha256 or '–'}.",
        f"Prices: {run.price_source or 'unknown'}.",
        f"Examples: {coverage.examples}{about}; compared with: {coverage.basis}.",
        *filter(None, [coverage.unblinded.sentence]),
        f"Certificate: {certificate_sentence(figures.certificate)}",
        "",
        f"Computed with {', '.join(_versions())}.",
        "Intervals are 95 %. Every figure's definition is in FairJudge's documentation.",
        "",
    ]
    return "\n".join(lines)


def _versions() -> Iterator[str]:
    yield f"FairJudge {release()}"
    yield f"Python {platform.python_version()}"
    yield from (f"{name} {version(name)}" for name in PACKAGES)


def certificate_sentence(terms: CertificateFigures) -> str:
    if not terms.issued:
        return f"none ({terms.reason})."
    return (
        f"with confidence {terms.confidence:.0%}, at most {terms.epsilon:.0%} of the "
        f"{terms.n_from_judge} labels taken from the judge with {SCORES[terms.score]} of at "
        f"most {terms.threshold:.4f} differ from what this round's people would give. "
        f"A wrong certificate is issued in at most {100 * (1 - terms.confidence):.3g}% of projects."
    )


def _write_zip(
    path: Path,
    project: Project,
    run: Run,
    user: AbstractUser | None,
    frame: Frame | None,
    figures: Report,
    data: bytes,
    context: Json,
    advance: Callable[[int], None] | None,
) -> None:
    hashes: dict[str, str] = {}
    page = as_html(run, figures).encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:

        def add(name: str, pieces: Iterable[bytes]) -> None:
            hashes[name] = _add(archive, name, pieces)

        for what in TABLES:
            wanted = ExportRequest(what, frame=frame)
            add(f"{what}.csv", export(project, run, user, wanted, advance=advance))
        add("report.json", [as_text(to_json(figures)).encode()])
        add("report.html", [page])
        add("methods.md", [methods_text(figures).encode()])
        add("data.npz", [data])
        add("context.json", [as_text(context).encode()])
        certificate = signed(to_json(figures.certificate), hashes["labels.csv"])
        add("certificate.json", [as_text(certificate).encode()])
        archive.writestr(MANIFEST, as_text({"sha256": hashes, "code": code()}))


def _add(archive: zipfile.ZipFile, name: str, pieces: Iterable[bytes]) -> str:
    """Add a file piece by piece, so that it is never in memory as a whole. Return its hash."""
    digest = hashlib.sha256()
    entry = zipfile.ZipInfo(name, date_time=time.localtime()[:6])
    entry.compress_type = zipfile.ZIP_DEFLATED
    # ZIP64, since the size isn't known yet when the entry's head is written.
    with archive.open(entry, "w", force_zip64=True) as file:
        for piece in pieces:
            digest.update(piece)
            file.write(piece)
    return digest.hexdigest()


def signed(certificate: Json, labels_sha256: str) -> Json:
    """Return the certificate with a hash of the delivered labels, and a hash of both."""
    content = {"certificate": certificate, "labels_sha256": labels_sha256}
    return content | {"sha256": hash_of(json.dumps(content, sort_keys=True).encode())}


def hash_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
