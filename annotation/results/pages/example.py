"""The page of one example: its texts, the judge's evidence in each order, votes and decisions."""

from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_GET

from annotation.models import Adjudication, Vote
from annotation.rendering import render as rendered
from annotation.rendering import render_shown, shown_of
from annotation.results.data.browsing import neighbours
from annotation.results.merge.final_labels import merged_page
from annotation.results.pages.examples import MOST_RUNS, asked_form, query_of
from judging.dataset.models import Example
from judging.llm.prompts.mentions import mentions
from judging.llm.prompts.templates import PromptVariant, ReplyFormat, UnknownPart
from judging.projects.access import project_for
from judging.projects.models import Role
from judging.runs.forms.portia import shown_stages
from judging.runs.models import Run
from judging.runs.samples import OrderTranscript, RecordedReply, transcript_of

# Marking is for people who read. Nobody reads on after this many characters.
MOST_MARKED = 50_000


@require_GET
def example(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    """Show the texts with the models that wrote them, which unblinds like judge output."""
    access = project_for(request.user, slug, Role.RESEARCHER)
    project = access.project
    shown = get_object_or_404(Example.objects.visible(), project=project, pk=pk)
    form = asked_form(request, access)
    if form.run is not None or shown.model_1 or shown.model_2:
        project_for(request.user, slug, Role.RESEARCHER, shows_judge=True)
    before, after = neighbours(form.filter(request.GET.get("sort", "")), shown)
    context = {
        **access.under("examples"),
        "example": shown,
        **texts_of(shown, project.rendering),
        "before": before,
        "after": after,
        "query": query_of(request, form),
        "runs": project.runs.order_by("-number")[:MOST_RUNS],
        "run": form.run,
        **(people_about(shown, form.run) if form.with_people else {}),
        **(judge_about(shown, form.run) if form.run else {}),
    }
    return render(request, "annotation/results/example.html", context)


def texts_of(example: Example, how: str) -> dict[str, object]:
    texts = example.question, example.response_1, example.response_2
    question, *responses = (render_shown(one, how) for one in shown_of(texts, example.conversation))
    return {
        "question": question,
        "reference": rendered(example.reference, how) if example.reference else "",
        "responses": [
            (1, example.model_1, responses[0]),
            (2, example.model_2, responses[1]),
        ],
    }


def people_about(example: Example, run: Run | None) -> dict[str, object]:
    """Return the final label, the votes and the decisions. An attention check has no final one."""
    (merged,) = merged_page(example.project, run, [example])
    votes = Vote.every.filter(example=example).select_related("annotator", "item__round")
    decisions = Adjudication.objects.filter(item__example=example)
    return {
        "verdict": merged.verdict,
        "final": None if example.is_check else merged,
        "votes": votes.order_by("item__round__number", "pk"),
        "decisions": decisions.select_related("item__round").order_by("pk"),
    }


@dataclass(frozen=True)
class MarkedReply:
    """A reply of the judge, cut where it names a response: each piece with the name it means."""

    reply: RecordedReply
    evidence: list[tuple[str, str]]
    raw_text: list[tuple[str, str]]


def judge_about(example: Example, run: Run) -> dict[str, object]:
    orders = transcript_of(run, example)
    marked = [
        (order, [marked_reply(run, order, reply, example) for reply in order.replies])
        for order in orders
    ]
    return {
        "order_rows": [marked[place : place + 2] for place in range(0, len(marked), 2)],
        "shown_stages": shown_stages(run, example, [order.part for order in orders]),
    }


def marked_reply(
    run: Run, order: OrderTranscript, reply: RecordedReply, example: Example
) -> MarkedReply:
    output = run.parameters.get("output", {})
    first, second = output.get("ids", ("A", "B"))
    names = (example.model_1 or "response 1", example.model_2 or "response 2")

    def marked(text: str) -> list[tuple[str, str]]:
        try:
            variant = PromptVariant.parse(order.part)
        except UnknownPart:
            return [(text, "")]
        how = ReplyFormat(output["reply"]) if "reply" in output else None
        found = mentions(text[:MOST_MARKED], variant, reply=how, ids=(first, second))
        pieces = [(piece, names[response - 1] if response else "") for piece, response in found]
        return [*pieces, (text[MOST_MARKED:], "")]

    return MarkedReply(reply, marked(reply.parse.evidence), marked(reply.raw_text))
