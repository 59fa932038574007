"""Pages of items that votes did not settle: the votes, both responses, and a person's decision."""

from django.contrib import messages
from django.core.paginator import Paginator
from django.db.models import Count, OuterRef, QuerySet, Subquery
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from annotation.models import Adjudication, Item, Round, Skip, Slot, Vote
from annotation.pages.forms import DecisionForm
from annotation.pages.rounds import managed_round
from annotation.queue.settling import counted_slots
from annotation.rendering import render as rendered
from annotation.votes.voting import decide
from judging.core.errors import UserError
from judging.core.queries import count_of
from judging.projects.access import version_of
from judging.projects.models import Project

PAGE = 50


@require_safe
def adjudication(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    """List items that wait for a decision, then those that were decided."""
    access, round_ = managed_round(request, slug, number)
    page = Paginator(items_to_decide(round_), PAGE).get_page(request.GET.get("page"))
    counts = _vote_counts([item.pk for item in page], access.project)
    context = {
        **access.under("rounds"),
        "round": round_,
        "page": page,
        "items": [(item, counts.get(item.pk, {})) for item in page],
        "n_undecided": undecided(round_).count(),
    }
    return render(request, "annotation/rounds/adjudication.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
def round_item(request: HttpRequest, slug: str, number: int, item: int) -> HttpResponse:
    """Show an item with its votes, and record a decision if votes did not settle it."""
    access, round_ = managed_round(request, slug, number)
    rows = Item.objects.select_related("example", "round__project", "selection")
    row = get_object_or_404(rows, round=round_, pk=item)
    form = DecisionForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            made_for = request.POST.get("made_for")
            decide(row, request.user, **form.cleaned_data, made_for=made_for)
        except UserError as error:
            form.add_error(None, str(error))
        else:
            return _go_on(request, slug, round_)
    decisions = list(row.adjudications.order_by("-pk"))
    context = {
        **access.under("rounds"),
        "round": round_,
        "item": row,
        **_texts(row, round_.protocol.rendering),
        "votes": _votes_on(row),
        "skips": row.skips.select_related("annotator").order_by("pk"),
        "flags": row.flags.select_related("annotator").order_by("pk"),
        "decisions": decisions,
        "version": version_of(decisions[0].pk if decisions else None),
        "form": form,
    }
    return render(
        request, "annotation/rounds/item.html", context, status=422 if form.errors else 200
    )


def items_to_decide(round_: Round) -> QuerySet[Item]:
    """Return items with their last decision. Those that wait for one come first."""
    latest = Adjudication.objects.filter(item=OuterRef("pk")).order_by("-pk")
    decided = Item.objects.filter(round=round_, adjudications__isnull=False)
    return (
        (undecided(round_) | decided)
        .distinct()
        .select_related("example")
        .annotate(
            decision=Subquery(latest.values("label")[:1]),
            decider=Subquery(latest.values("decider")[:1]),
            n_skips=count_of(Skip.objects.filter(item=OuterRef("pk")), "item"),
        )
        .order_by("state", "position")
    )


def undecided(round_: Round) -> QuerySet[Item]:
    return Item.objects.filter(round=round_, state=Item.State.ADJUDICATE)


def _go_on(request: HttpRequest, slug: str, round_: Round) -> HttpResponse:
    """Redirect to the next item that waits, or to the list if there is none."""
    following = undecided(round_).order_by("position").first()
    if following is None:
        messages.success(request, "Decided. No other item waits for a decision.")
        return redirect("adjudication", slug, round_.number)
    messages.success(request, "Decided. This is the next one.")
    return redirect("round_item", slug, round_.number, following.pk)


def _texts(item: Item, how: str) -> dict[str, object]:
    example = item.example
    responses = enumerate((example.response_1, example.response_2), 1)
    return {
        "question": rendered(example.question, how),
        "responses": [(place, rendered(text, how)) for place, text in responses],
    }


def _votes_on(item: Item) -> QuerySet[Vote]:
    votes = Vote.objects.filter(counted_in__item=item).select_related("annotator")
    return votes.order_by("counted_in__index")


def _vote_counts(items: list[int], project: Project) -> dict[int, dict[str, int]]:
    votes = counted_slots(Slot.objects.filter(item__in=items), project.leave_out_unblinded)
    counts: dict[int, dict[str, int]] = {}
    for item, label, n in votes.values_list("item", "vote__label").annotate(n=Count("pk")):
        counts.setdefault(item, {"win": 0, "tie": 0, "lose": 0})[label] = n
    return counts
