"""Pages of items that votes did not settle: both responses, the votes, and a person's decision.

A decision is as blind as a vote: sides are drawn for each adjudicator and item, and the votes, and
what the example is called, are hidden until a first choice was made.
"""

from django.contrib import messages
from django.core.paginator import Paginator
from django.db.models import Count, Exists, OuterRef, Q, QuerySet, Subquery
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from annotation.models import Adjudication, FirstChoice, Item, Protocol, Round, Skip, Slot, Vote
from annotation.pages.forms import DecisionForm
from annotation.pages.rounds import round_for
from annotation.queue.drafts import more_said, side_of
from annotation.queue.settling import counted_slots
from annotation.rendering import render as rendered
from annotation.rendering import render_shown, shown_of, without_names
from annotation.rendering.spans import ShownText, painted
from annotation.votes.voting import choose_first, decide, sides_for, withdraw
from judging.core.errors import UserError
from judging.core.models import count_of
from judging.dataset.models import Example
from judging.projects.access import Access, preferences_of, version_of
from judging.projects.models import Project

PAGE = 50
# The keys are those of the annotator's screen, where a person may have moved them.
_OPTIONS = [
    ("left", "Left is better", ("1", "A")),
    ("tie", "Tie", ("0", "T")),
    ("right", "Right is better", ("2", "B")),
]


@require_safe
def adjudication(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    """List items that wait for a decision, then those that were decided."""
    access, round_ = round_for(request, slug, number)
    page = Paginator(items_to_decide(round_, access), PAGE).get_page(request.GET.get("page"))
    counts = _vote_counts([item.pk for item in page if item.is_shown], access.project)
    context = {
        **access.under("rounds"),
        **_standing(round_, access),
        "round": round_,
        "page": page,
        "any_shown": any(item.is_shown for item in page),
        "items": [
            (item, counts.get(item.pk, {}), place)
            for place, item in enumerate(page, page.start_index())
        ],
    }
    return render(request, "annotation/rounds/adjudication.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
def round_item(request: HttpRequest, slug: str, number: int, item: int) -> HttpResponse:
    """Show an item, and record a first choice and then a decision if votes did not settle it."""
    access, round_ = round_for(request, slug, number)
    rows = Item.objects.select_related("example", "round__project", "selection")
    row = get_object_or_404(rows, round=round_, pk=item)
    decisions = list(row.adjudications.order_by("-pk"))
    waits = row.state == Item.State.ADJUDICATE or bool(decisions)
    first = sides_for(row, access.user) if waits else None
    # Sides are drawn only for items to decide. A settled one is shown as it was imported.
    left = first.left_response if first else 1
    form = DecisionForm(left, request.POST if request.method == "POST" else None)
    if request.method == "POST":
        try:
            if first is not None and "first" in request.POST and "reason" not in request.POST:
                choose_first(row, access.user, request.POST.get("choice", ""))
                return redirect("round_item", slug, number, row.pk)
            if form.is_valid():
                made_for = request.POST.get("made_for")
                decide(row, access.user, **form.cleaned_data, made_for=made_for)
                return _go_on(request, slug, round_, row)
        except UserError as error:
            form.add_error(None, str(error))
    # Who decided by a script, without a first choice, has nothing hidden afterwards.
    has_decided = any(decision.decided_by_id == access.user.pk for decision in decisions)
    knows = "reason" in request.POST or has_decided
    is_blind = first is not None and not first.label and not knows
    key_of = preferences_of(access.user).key_of
    context = {
        **access.under("rounds"),
        **_standing(round_, access),
        "round": round_,
        "item": row,
        "waits": waits,
        "is_blind": is_blind,
        "first": first,
        "first_side": side_of(first.label, left) if first and first.label else "",
        "chosen": _chosen(request, first, left),
        "decision_options": [
            (value, text, [key for key in map(key_of, keys) if key])
            for value, text, keys in _OPTIONS
        ],
        "reason_key": key_of("R"),
        "later_key": key_of("S"),
        "following": _following(round_, row),
        **_texts(row, round_.protocol, left),
        "form": form,
        "version": version_of(decisions[0].pk if decisions else None),
        **({} if is_blind else _said(row, decisions, left, round_.protocol)),
    }
    return render(
        request, "annotation/rounds/item.html", context, status=422 if form.errors else 200
    )


@require_POST
def decision_undo(request: HttpRequest, slug: str, number: int, decision: int) -> HttpResponse:
    """Take back one's own last decision, and show its item again."""
    access, round_ = round_for(request, slug, number)
    rows = Adjudication.objects.select_related("item__example", "item__round__project")
    row = get_object_or_404(rows, item__round=round_, pk=decision)
    try:
        withdraw(row, access.user)
    except UserError as error:
        messages.error(request, str(error))
        return redirect("adjudication", slug, number)
    messages.success(request, "Your decision was taken back. The audit trail keeps it.")
    return redirect("round_item", slug, number, row.item_id)


def items_to_decide(round_: Round, access: Access) -> QuerySet[Item]:
    """Return items with their last decision. Those that wait for one come first.

    `is_shown`: this person may see its votes, since they chose or somebody decided.
    """
    latest = Adjudication.objects.filter(item=OuterRef("pk")).order_by("-pk")
    mine = FirstChoice.objects.filter(item=OuterRef("pk"), user=access.user).exclude(label="")
    return (
        _in_question(round_)
        .select_related("example")
        .annotate(
            decision=Subquery(latest.values("label")[:1]),
            decider=Subquery(latest.values("decider")[:1]),
            n_skips=count_of(Skip.objects.filter(item=OuterRef("pk")), "item"),
            is_shown=Q(Exists(mine)) | ~Q(state=Item.State.ADJUDICATE),
        )
        # In the alphabet “adjudicate” comes before “complete” and “open”.
        .order_by("state", "position")
    )


def undecided(round_: Round) -> QuerySet[Item]:
    return Item.objects.filter(round=round_, state=Item.State.ADJUDICATE)


def _in_question(round_: Round) -> QuerySet[Item]:
    decided = Adjudication.objects.filter(item=OuterRef("pk"))
    items = Item.objects.filter(round=round_)
    return items.filter(Q(state=Item.State.ADJUDICATE) | Exists(decided))


def _standing(round_: Round, access: Access) -> dict[str, object]:
    counts = _in_question(round_).aggregate(
        n=Count("pk"), undecided=Count("pk", filter=Q(state=Item.State.ADJUDICATE))
    )
    mine = Adjudication.objects.filter(item__round=round_, decided_by=access.user)
    return {
        "n_in_question": counts["n"],
        "n_undecided": counts["undecided"],
        "n_decided": counts["n"] - counts["undecided"],
        "last_decision": mine.order_by("-pk").first(),
    }


def _following(round_: Round, item: Item) -> Item | None:
    """Return the next item that waits, after this one in the round's order or from its start."""
    waiting = undecided(round_).exclude(pk=item.pk).order_by("position")
    return waiting.filter(position__gt=item.position).first() or waiting.first()


def _go_on(request: HttpRequest, slug: str, round_: Round, item: Item) -> HttpResponse:
    """Redirect to the next item that waits, or to the list if there is none."""
    following = _following(round_, item)
    if following is None:
        messages.success(request, "Decided. No other item waits for a decision.")
        return redirect("adjudication", slug, round_.number)
    messages.success(request, "Decided. This is the next one.")
    return redirect("round_item", slug, round_.number, following.pk)


def _chosen(request: HttpRequest, first: FirstChoice | None, left: int) -> str:
    sent = request.POST.get("choice", "")
    if not sent and (label := request.POST.get("label")):
        sent = side_of(label, left)
    return sent or (side_of(first.label, left) if first and first.label else "")


def _texts(item: Item, protocol: Protocol, left: int) -> dict[str, object]:
    """Return what annotators saw too: names of models are hidden here if they were for them."""
    example, how = item.example, protocol.rendering
    texts = example.question, example.response_1, example.response_2
    question, *responses = shown_of(texts, example.conversation)
    if protocol.hide_models:
        responses = [without_names(text, example.model_1, example.model_2) for text in responses]
    first, second = (render_shown(response, how) for response in responses)
    sides = (first, second) if left == 1 else (second, first)
    return {
        "question": render_shown(question, how),
        "reference": rendered(example.reference, how) if protocol.show_reference else "",
        "sides": list(zip(("Left", "Right"), sides, ("marked-left", "marked-right"), strict=True)),
    }


def _shown_texts(example: Example, protocol: Protocol) -> dict[int, ShownText]:
    names = (example.model_1, example.model_2) if protocol.hide_models else ()
    responses = enumerate((example.response_1, example.response_2), start=1)
    return {number: ShownText(text, names) for number, text in responses}


def _said(
    item: Item, decisions: list[Adjudication], left: int, protocol: Protocol
) -> dict[str, object]:
    """Return the votes and decisions, with the sides on which this person sees the responses."""
    votes, texts = list(_votes_on(item)), _shown_texts(item.example, protocol)
    marked = [(vote.annotator.pseudonym, vote.answer.get("spans", ())) for vote in votes]
    of_side = {1: left, 2: 3 - left}
    return {
        "votes": [
            (
                vote,
                side_of(vote.label, left),
                vote.left_response == left,
                more_said(vote.answer, texts),
            )
            for vote in votes
        ],
        "left_number": left,
        "marked": {
            name: reason
            for name, place in (("marked-left", 1), ("marked-right", 2))
            if (reason := painted(marked, of_side[place], texts[of_side[place]]))
        },
        "skips": item.skips.select_related("annotator").order_by("pk"),
        "flags": item.flags.select_related("annotator").order_by("pk"),
        "decisions": [(decision, side_of(decision.label, left)) for decision in decisions],
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
