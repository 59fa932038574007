"""Write docs/tutorial.md with the figures of the demo's finished study.

    python -m benchmarks.published.tutorial [--write docs/tutorial.md]

The study must be there (`manage.py demo --no-serve` makes it). A test compares the page with what
this module writes, so that no figure in it can differ from the one on the pages.
"""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

TEXT = Path(__file__).parent / "tutorial.md"
PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"


def written() -> str:
    """Return the tutorial: its text with the figures of both judges."""
    from annotation.results.demo import AUDIT, BETA, STUDY
    from annotation.results.report.report import report_json
    from annotation.results.sections.analysis import Analysis
    from judging.projects.models import Project

    project = Project.objects.get(slug=STUDY)
    figures: dict[str, str] = {"beta": f"{BETA:.0f}", "audit": str(AUDIT)}
    for run in project.runs.order_by("number"):
        found = report_json(Analysis(project, run))
        judge = run.name.split(",")[0].lower().replace("-", "")
        figures |= {f"{judge}_{name}": text for name, text in figures_of(found).items()}
    text = TEXT.read_text(encoding="utf-8")
    for name, shown in figures.items():
        text = text.replace(f"<{name}>", shown)
    return text


def figures_of(found: Mapping[str, Any]) -> dict[str, str]:
    """Return the figures that the tutorial names, as the pages show them."""
    position, review = found["position"], found["review"]
    certificate = found["certificate"]
    return {
        "first": percent(position["win_rate_first"]["value"]),
        "second": percent(position["win_rate_second"]["value"]),
        "conflict": with_interval(position["conflict_rate"]),
        "flips": percent(position["first_position_rate"]["value"]),
        "n_flips": str(position["first_position_rate"]["n"]),
        "alone": with_interval(found["ties"]["wrong"]["accuracy"]),
        "alone_short": percent(found["ties"]["wrong"]["accuracy"]["value"]),
        "reviewed": percent(review["accuracy"]["value"]),
        "random": percent(review["random"]["value"]),
        "rest": percent(review["unreviewed_accuracy"]["value"]),
        "found": f"{review['errors']['found']:.0f}",
        "expected": f"{review['errors']['expected']:.1f}",
        "final": percent(review["final_accuracy"]["value"]),
        "people": with_interval(found["win_rate"]["people"]),
        "certificate": "issued" if certificate["issued"] else "not issued",
        **{name: str(n) for name, n in certified(certificate).items()},
    }


def certified(certificate: Mapping[str, Any]) -> dict[str, int]:
    """Return what is certified, or what the most certain labels came to if nothing is."""
    if certificate["issued"]:
        return {name: certificate[f"n_{name}"] for name in ("from_judge", "audited", "wrong")}
    most_certain = certificate["bounds"][0]
    return {"audited": most_certain["n_audited"], "wrong": most_certain["n_wrong"]}


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def with_interval(figure: Mapping[str, Any]) -> str:
    low, high = 100 * figure["low"], 100 * figure["high"]
    return f"{percent(figure['value'])} ({low:.0f}–{high:.0f} %, n = {figure['n']})"


if __name__ == "__main__":
    import os

    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "fairjudge_site.settings")
    django.setup()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", type=Path, default=None)
    options = parser.parse_args()
    if options.write:
        options.write.write_text(written(), encoding="utf-8")
    else:
        sys.stdout.write(written())
