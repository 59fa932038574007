"""The page of one example: its texts, its samples and verdict in a run, and its final label."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_GET

from annotation.rendering import render as rendered
from annotation.results.merge.final_labels import merged_one
from judging.dataset.models import Example
from judging.projects.access import project_for
from judging.projects.models import Role
from judging.runs.forms.portia import shown_stages
from judging.runs.models import Run
from judging.runs.pages.examples import asked_for
from judging.runs.samples import transcript_of

MOST_RUNS = 100


@require_GET
def example(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    """Show the texts with the models that wrote them, which unblinds like judge output."""
    access = project_for(request.user, slug, Role.RESEARCHER)
    project = access.project
    shown = get_object_or_404(Example.objects.visible(), project=project, pk=pk)
    runs = list(project.runs.order_by("-number")[:MOST_RUNS])
    number = asked_for(request, access, runs).get("run", "")
    run = next((run for run in runs if str(run.number) == number), None)
    if run is not None or shown.model_1 or shown.model_2:
        project_for(request.user, slug, Role.RESEARCHER, shows_judge=True)
    context = {
        **access.under("examples"),
        "example": shown,
        **texts_of(shown, project.rendering),
        "before": neighbour(shown, "number__lt", "-number"),
        "after": neighbour(shown, "number__gt", "number"),
        "runs": runs,
        "run": run,
        **(judged_in(shown, run) if run else {}),
    }
    return render(request, "annotation/results/example.html", context)


def texts_of(example: Example, how: str) -> dict[str, object]:
    return {
        "question": rendered(example.question, how),
        "responses": [
            (1, example.model_1, rendered(example.response_1, how)),
            (2, example.model_2, rendered(example.response_2, how)),
        ],
    }


def neighbour(example: Example, condition: str, order: str) -> Example | None:
    others = Example.objects.visible().filter(project=example.project_id)
    return others.filter(**{condition: example.number}).only("pk").order_by(order).first()


def judged_in(example: Example, run: Run) -> dict[str, object]:
    orders = transcript_of(run, example)
    final = merged_one(example, run)
    return {
        "verdict": final.verdict,
        # An attention check has a known label, and never gets a final one.
        "final": None if example.is_check else final,
        "order_rows": [orders[place : place + 2] for place in range(0, len(orders), 2)],
        "shown_stages": shown_stages(run, example, [order.part for order in orders]),
    }
