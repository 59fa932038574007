"""A report as files: one HTML page that needs nothing else, and a ZIP that can be verified."""

import hashlib
import json
import platform
import re
import time
import zipfile
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from django.contrib.auth.models import AbstractUser
from django.contrib.staticfiles import finders
from django.template.loader import render_to_string

from annotation.results.analysis import Analysis
from annotation.results.computed_by import code
from annotation.results.exports import Wanted, export
from annotation.results.figures import Json
from annotation.results.packed import as_text, pack
from annotation.results.report import plots, report
from annotation.results.report_page import page_context
from annotation.results.state_of_data import fingerprint
from annotation.results.trust import SCORES
from annotation.results.unblinded import sentence
from annotation.results.vega import as_svg
from annotation.results.whole_file import whole_file
from judging.errors import UserError
from judging.models.projects import Project
from judging.models.runs import Run

TABLES = ("labels", "votes", "samples")
MANIFEST = "manifest.json"
FILES = (
    *(f"{name}.csv" for name in TABLES),
    *("report.json", "report.html", "methods.md", "data.npz", "context.json", "certificate.json"),
)
TRIES = 3
PACKAGES = ("Django", "numpy", "scipy")
_LINK = re.compile(r'<a class="term-word"[^>]*>(.*?)</a>', re.DOTALL)


def deliver(project: Project, run: Run, user: AbstractUser | None, path: Path) -> Json:
    """Write the report as .html or .zip, by the name of the file. Returns the figures."""
    with whole_file(path) as partial:
        for _ in range(TRIES):
            state = fingerprint(project)
            analysis = Analysis(project, run)
            figures = report(analysis)
            if path.suffix == ".zip":
                _write_zip(partial, project, run, user, figures, *pack(analysis))
            else:
                partial.write_text(as_html(run, figures), encoding="utf-8")
            # A vote in between would be in the labels and not in the figures.
            if fingerprint(project) == state:
                return figures
        raise UserError(
            "Votes or verdicts came in while the report was written. Try again, or pause the round."
        )


def as_html(run: Run, figures: Json, *, with_drawings: bool = True) -> str:
    """Styles and drawings are inside, and nothing is fetched."""
    body = render_to_string("results/report_file.html", page_context(run, figures))
    drawn = "".join(
        f"<figure><figcaption><b>{one.title}.</b> {one.caption}</figcaption>{as_svg(one)}</figure>"
        for one in (plots(figures) if with_drawings else ())
    )
    styles = Path(str(finders.find("css/report.css"))).read_text(encoding="utf-8")
    body = _LINK.sub(r"\1", body).replace("<!-- drawings -->", drawn)
    return f'<!doctype html>\n<html lang="en">\n<style>\n{styles}</style>\n{body}</html>\n'


def methods_text(figures: Json) -> str:
    """What was done, for the methods section of a paper."""
    run, coverage = figures["run"], figures["coverage"]
    lines = [
        "# Methods",
        "",
        f"Judge: `{run['model'] or 'recorded elsewhere'}` at `{run['endpoint'] or '–'}`, "
        f"method {run['method']}, form {run['form']}, k = {run['k']} samples in each order, "
        f"temperature {run['temperature']}, seed {run['seed']}.",
        f"Template: `{run['template'] or '–'}`, SHA-256 {run['template_sha256'] or '–'}.",
        f"Prices: {run['price_source'] or 'unknown'}.",
        f"Examples: {coverage['examples']}; compared with: {coverage['basis']}.",
        *filter(None, [sentence(coverage["unblinded"])]),
        f"Certificate: {certificate_sentence(figures['certificate'])}",
        "",
        f"Computed with {', '.join(_versions())}.",
        "Intervals are 95 %. Every figure's definition is in FairJudge's documentation.",
        "",
    ]
    return "\n".join(lines)


def _versions() -> Iterator[str]:
    try:
        yield f"FairJudge {version('fairjudge')}"
    except PackageNotFoundError:
        yield "FairJudge, run from its source"
    yield f"Python {platform.python_version()}"
    yield from (f"{name} {version(name)}" for name in PACKAGES)


def certificate_sentence(found: Json) -> str:
    if not found["issued"]:
        return f"none ({found['reason']})."
    return (
        f"with confidence {found['confidence']:.0%}, at most {found['epsilon']:.0%} of the "
        f"{found['n_from_judge']} labels taken from the judge with {SCORES[found['score']]} of at "
        f"most {found['threshold']:.4f} differ from what this round's people would give. "
        "In at most 5 of 100 projects is such a certificate issued and untrue."
    )


def _write_zip(
    path: Path,
    project: Project,
    run: Run,
    user: AbstractUser | None,
    figures: Json,
    data: bytes,
    context: Json,
) -> None:
    hashes: dict[str, str] = {}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:

        def add(name: str, pieces: Iterable[bytes]) -> None:
            hashes[name] = _add(archive, name, pieces)

        for what in TABLES:
            add(f"{what}.csv", export(project, run, user, Wanted(what)))
        add("report.json", [as_text(figures).encode()])
        add("report.html", [as_html(run, figures).encode()])
        add("methods.md", [methods_text(figures).encode()])
        add("data.npz", [data])
        add("context.json", [as_text(context).encode()])
        certificate = signed(figures["certificate"], hashes["labels.csv"])
        add("certificate.json", [as_text(certificate).encode()])
        archive.writestr(MANIFEST, as_text({"sha256": hashes, "code": code()}))


def _add(archive: zipfile.ZipFile, name: str, pieces: Iterable[bytes]) -> str:
    """The hash of the content, which is never whole in memory."""
    digest = hashlib.sha256()
    entry = zipfile.ZipInfo(name, date_time=time.localtime()[:6])
    entry.compress_type = zipfile.ZIP_DEFLATED
    # How much it will be is not known when its head is written.
    with archive.open(entry, "w", force_zip64=True) as file:
        for piece in pieces:
            digest.update(piece)
            file.write(piece)
    return digest.hexdigest()


def signed(certificate: Json, labels_sha256: str) -> Json:
    """The certificate with a hash of the delivered labels and, over all of that, of itself."""
    content = {"certificate": certificate, "labels_sha256": labels_sha256}
    return content | {"sha256": sha256(json.dumps(content, sort_keys=True).encode())}


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
