"""What a report was computed on, as arrays and settings in a file, and back again.

From these the report can be computed anew by anyone, without the database.
"""

import io
import json
from dataclasses import asdict, fields
from decimal import Decimal
from typing import Any

import numpy as np

from annotation.models import Annotation
from annotation.results.analysis import Analysis
from annotation.results.ballots import Ballots
from annotation.results.costs import Costs
from annotation.results.figures import Json
from annotation.results.other_runs import OtherRun
from annotation.results.report import SECTIONS, described
from annotation.results.samples_array import Samples
from annotation.results.sections import Data
from annotation.results.sheet import Sheet
from annotation.results.trust import Audit
from judging.methods.estimates import Undefined
from judging.models.projects import Project
from judging.models.runs import Run

_ARRAYS = [
    one.name
    for one in fields(Sheet)
    if one.name not in ("models", "basis", "unsettled", "people", "asked")
]
_COSTS = [one.name for one in fields(Costs) if one.name != "runs"]
_BALLOTS = ("votes", "present", "left")


def pack(analysis: Analysis) -> tuple[bytes, Json]:
    """The arrays as .npz, and everything else as JSON."""
    sheet, samples, audit = analysis.sheet, analysis.samples, analysis.audit
    arrays = {f"sheet.{name}": getattr(sheet, name) for name in _ARRAYS}
    arrays |= {f"ballots.{name}": getattr(sheet.ballots, name) for name in _BALLOTS}
    context: Json = {
        "project": {"slug": analysis.project.slug, "name": analysis.project.name},
        "run": described(analysis.run) | {"orders": list(analysis.run.orders)},
        "models": list(sheet.models),
        "basis": sheet.basis,
        "unsettled": sheet.unsettled,
        "annotators": list(sheet.ballots.names),
        "prompt_share": str(analysis.prompt_share),
        "costs": {name: _plain(getattr(analysis.costs, name)) for name in _COSTS},
        "statuses": analysis.statuses,
        "unblinded": analysis.unblinded,
        "band": str(analysis.run.band),
        "other_votes": _other_votes(analysis),
        "samples": samples.reason if isinstance(samples, Undefined) else None,
        "audit": None,
    }
    if isinstance(samples, Samples):
        arrays |= {"samples.difference": samples.difference, "samples.valid": samples.valid}
        context["scale"] = samples.scale
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
        arrays |= {f"other.{place}.judge": other.judge, f"other.{place}.judged": other.judged}
        cost = _plain(other.judge_usd)
        context["others"].append({"settings": other.settings, "judge_usd": cost})
    context["sections"] = {}
    for section in SECTIONS:
        if section.read is not None:
            own = analysis.own(section.name, section.read)
            arrays |= {f"{section.name}.{name}": one for name, one in _arrays_of(own).items()}
            context["sections"][section.name] = _plain_of(own)
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    return stream.getvalue(), context


class Unpacked(Analysis):
    """An analysis whose data come from a file. Nothing here touches a database."""

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
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            self._read(dict(arrays), context)

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
        self.unblinded = context["unblinded"]
        self.kept = {
            name: _section(name, plain, arrays) for name, plain in context["sections"].items()
        }
        self.others = tuple(
            OtherRun(
                one["settings"],
                arrays[f"other.{place}.judge"],
                arrays[f"other.{place}.judged"],
                _decimal(one["judge_usd"]),
            )
            for place, one in enumerate(context["others"])
        )


def _other_votes(analysis: Analysis) -> int:
    """Votes that are delivered, and that the figures do not count."""
    given = Annotation.objects.filter(example__project=analysis.project).count()
    return given - int(analysis.sheet.ballots.present.sum())


def _costs(packed: Json) -> Costs:
    counts = ("n_votes", "votes_an_example")
    found = {name: value if name in counts else _decimal(value) for name, value in packed.items()}
    return Costs(runs=(), **found)


def _arrays_of(own: Data | Undefined) -> dict[str, np.ndarray]:
    return {} if isinstance(own, Undefined) else own.arrays


def _plain_of(own: Data | Undefined) -> Json:
    return {"reason": own.reason} if isinstance(own, Undefined) else {"plain": own.plain}


def _section(name: str, packed: Json, arrays: dict[str, Any]) -> Data | Undefined:
    if "reason" in packed:
        return Undefined(packed["reason"])
    own = {
        key.removeprefix(f"{name}."): one
        for key, one in arrays.items()
        if key.startswith(f"{name}.")
    }
    return Data(own, packed["plain"])


def _samples(arrays: dict[str, Any], context: Json) -> Samples | Undefined:
    if context["samples"] is not None:
        return Undefined(context["samples"])
    return Samples(arrays["samples.difference"], arrays["samples.valid"], context["scale"])


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Decimal) else value


def _decimal(value: str | None) -> Decimal | None:
    return None if value is None else Decimal(value)


def as_text(value: Json) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
