"""Pages of rounds: the list, one round and its progress, and what a manager changes in it."""

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.core.paginator import Paginator
from django.db.models import Sum
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.template.loader import render_to_string
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from annotation.models import Annotator, Flag, Round, Slot
from annotation.pages.forms import AsideForm, AssignForm, ExtendForm, PracticeForm, VotesForm
from annotation.people.teams import asked_in, assign_whom, whom_of
from annotation.queue.queue import settle_flag
from annotation.queue.settling import counted_slots
from annotation.rendering import render as rendered
from annotation.rounds import changes, growing
from annotation.rounds.opening import check_rules_of, open_round, practice_of
from annotation.rounds.practice import practice_standing, rounds_after
from annotation.rounds.progress import (
    RoundProgress,
    round_progress,
    rounds_with_counts,
    say_what_waits,
)
from annotation.votes import aside
from annotation.votes.agreement import RoundAgreement
from judging.core.caching import kept_a_while
from judging.core.errors import UserError
from judging.core.formatting import number_of
from judging.dataset.models import Example
from judging.projects.access import Access, project_for, version_of
from judging.projects.models import Role

PAGE = 50


def round_for(
    request: HttpRequest, slug: str, number: int, role: Role = Role.REVIEWER
) -> tuple[Access, Round]:
    """Return the round if this person may see it. Its pages never show what the judge said."""
    access = project_for(request.user, slug, role)
    rounds = Round.objects.select_related("project", "run", "protocol", "opened_by", "after")
    return access, get_object_or_404(rounds, project=access.project, number=number)


@require_safe
def rounds(request: HttpRequest, slug: str) -> HttpResponse:
    access = project_for(request.user, slug, Role.REVIEWER)
    context = {
        **access.under("rounds"),
        "page": Paginator(rounds_with_counts(access.project), PAGE).get_page(
            request.GET.get("page")
        ),
        "heading": say_what_waits(access.project),
    }
    return render(request, "annotation/rounds/list.html", context)


@require_safe
def round_(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    access = project_for(request.user, slug, Role.REVIEWER)
    # `Round.objects` leaves out rounds that are still being opened.
    opening = Round.every.filter(
        project=access.project, number=number, state=Round.State.OPENING
    ).first()
    if opening is not None:
        context = {
            **access.under("rounds"),
            "round": opening,
            "work": growing.current_work(opening),
        }
        return render(request, "annotation/rounds/opening.html", context)
    return round_page(request, *round_for(request, slug, number))


@require_http_methods(["GET", "HEAD", "POST"])
def practice(request: HttpRequest, slug: str) -> HttpResponse:
    """Open training or a qualification."""
    access = project_for(request.user, slug, Role.RESEARCHER)
    form = PracticeForm(access.project, request.POST or None)
    if form.is_valid():
        try:
            opened = open_round(
                access.project, request.user, None, form.settings(), background=True
            )
        except UserError as error:
            form.add_error(None, str(error))
        else:
            messages.success(request, f"{str(opened).capitalize()} is open.")
            return redirect("round", slug, opened.number)
    of_kind = [
        (kind.label, Example.objects.filter(project=access.project).checks(kind).count())
        for kind in Round.PRACTICE
    ]
    context = {**access.under("rounds"), "form": form, "pools": of_kind}
    status = 422 if form.errors else 200
    return render(request, "annotation/rounds/practice.html", context, status=status)


@require_POST
def cancel(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    """Undo what is under way: opening or closing the round, more items, or more votes."""
    access = project_for(request.user, slug, Role.RESEARCHER)
    shown_round = get_object_or_404(Round.every, project=access.project, number=number)
    was_closed = shown_round.state == Round.State.CLOSED
    try:
        growing.cancel(shown_round, request.user, background=True)
    except UserError as error:
        messages.error(request, str(error))
    else:
        outcome = "What was written so far is removed."
        if was_closed:
            state = shown_round.get_state_display()
            outcome = f"The round is {state} again. All its votes are there."
        messages.success(request, f"Cancelled. {outcome}")
    if shown_round.state == Round.State.OPENING:
        return redirect("rounds", slug)
    return redirect("round", slug, number)


# The page of a smaller round counts every vote each time it is opened.
FEW_ITEMS = 100


def _kept(shown_round: Round, name: str, make: Callable[[], Any]) -> Any:
    """Return what a round's page counted a moment ago, unless a manager changed the round.

    While many people vote, each look at the page would slow them down.
    """
    state = (shown_round.state, changes.round_version(shown_round))
    is_large = (shown_round.selections.aggregate(n=Sum("n_items"))["n"] or 0) > FEW_ITEMS
    return kept_a_while(
        f"{name}:{shown_round.pk}", shown_round.project, state, make, is_large=is_large
    )


def _standing_of(shown_round: Round) -> RoundProgress:
    shown: RoundProgress = _kept(shown_round, "standing", lambda: round_progress(shown_round))
    return shown


def _agreement_in(shown_round: Round) -> RoundAgreement:
    shown: RoundAgreement = _kept(
        shown_round, "agreement-in", lambda: RoundAgreement(shown_round).without_votes()
    )
    return shown


@require_safe
def standing(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    """Return the part of the page that is reloaded while people work."""
    access, shown_round = round_for(request, slug, number)
    work = growing.current_work(shown_round)
    context = {"project": access.project, "access": access, "round": shown_round, "work": work}
    if shown_round.is_practice:
        context |= {
            "standing": _standing_of(shown_round),
            "practised": practice_standing(shown_round),
        }
        return render(request, "annotation/rounds/_detail_practice.html", context)

    def standing() -> str:
        context["standing"] = _standing_of(shown_round)
        return render_to_string("annotation/rounds/_detail_standing.html", context, request)

    # While work is under way the page shows how far it is, which a kept page would not follow.
    if work is not None:
        return HttpResponse(standing())
    # A table of two hundred people takes longer to write than to count.
    return HttpResponse(_kept(shown_round, f"standing-of-{slug}-{access.role}", standing))


def _change_view(
    change: Callable[..., object], success: str | Callable[[Round], str], **options: bool
) -> Callable[..., HttpResponse]:
    """Return a view that brings the round into another state, or says why that isn't possible."""

    @require_POST
    def view(request: HttpRequest, slug: str, number: int) -> HttpResponse:
        _, round_ = round_for(request, slug, number, Role.RESEARCHER)
        try:
            _refuse_overtaken(request, round_)
            change(round_, request.user, **options)
        except UserError as error:
            messages.error(request, str(error))
        else:
            messages.success(request, success if isinstance(success, str) else success(round_))
        return redirect("round", slug, number)

    return view


def _said_of_closing(round_: Round) -> str:
    slots = Slot.objects.filter(round=round_, vote__isnull=False)
    n = counted_slots(slots, round_.project.leave_out_unblinded).count()
    if not n:
        return "The round is closed. It has no vote that counts."
    return f"The round is closed. {number_of(n, 'vote')} {'counts' if n == 1 else 'count'}."


def _refuse_overtaken(request: HttpRequest, round_: Round) -> None:
    changes.refuse_overtaken(round_, request.user, request.POST.get("made_for"))


pause = _change_view(changes.pause, "No new items are handed out.")
resume = _change_view(changes.resume, "The round is no longer paused.")
close = _change_view(changes.close, _said_of_closing, background=True)
reopen = _change_view(changes.reopen, "The round is open again.", background=True)


@require_POST
def votes(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    """Ask for more votes per item."""
    access, shown_round = round_for(request, slug, number, Role.RESEARCHER)
    form = VotesForm(request.POST)
    if form.is_valid():
        try:
            _refuse_overtaken(request, shown_round)
            votes = form.cleaned_data["votes"]
            done = changes.raise_votes(shown_round, request.user, votes, background=True)
        except UserError as error:
            form.add_error("votes", str(error))
        else:
            if done:
                asked = number_of(votes, "vote")
                messages.success(request, f"The round now asks for {asked} per item.")
            return redirect("round", slug, number)
    return round_page(request, access, shown_round, votes_form=form, status=422)


@require_POST
def extend(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    """Select up to a larger cut."""
    access, shown_round = round_for(request, slug, number, Role.RESEARCHER)
    form = ExtendForm(request.POST)
    if form.is_valid():
        try:
            _refuse_overtaken(request, shown_round)
            beta = form.cleaned_data["beta"]
            n_new = changes.extend(shown_round, request.user, beta, background=True)
        except UserError as error:
            form.add_error("beta", str(error))
        else:
            if growing.current_work(shown_round) is None:
                new = number_of(n_new, "item")
                messages.success(request, f"{new} joined the round, at random places.")
            return redirect("round", slug, number)
    return round_page(request, access, shown_round, extend_form=form, status=422)


@require_POST
def people(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    """Choose who labels in the round, and how much each."""
    access, shown_round = round_for(request, slug, number, Role.RESEARCHER)
    if "again" in request.POST:
        return _assign_again(request, shown_round)
    form = AssignForm(shown_round, request.POST)
    if form.is_valid():
        whom = form.whom()
        try:
            _refuse_overtaken(request, shown_round)
            n = assign_whom(shown_round, request.user, whom)
        except UserError as error:
            form.add_error(None, str(error))
        else:
            who = "Everybody" if whom.is_everybody else f"{n} {'person' if n == 1 else 'people'}"
            messages.success(
                request, f"{who} can label in this round now. Votes already given are kept."
            )
            return redirect("round", slug, number)
    return round_page(request, access, shown_round, assign_form=form, status=422)


def _assign_again(request: HttpRequest, shown_round: Round) -> HttpResponse:
    """Resolve the round's teams, tags and shares as they are today."""
    try:
        _refuse_overtaken(request, shown_round)
        whom = whom_of(shown_round)
        if whom is not None:
            assign_whom(shown_round, request.user, whom)
            messages.success(
                request,
                "The current members of the teams get items now. Votes already given are kept.",
            )
    except UserError as error:
        messages.error(request, str(error))
    return redirect("round", shown_round.project.slug, shown_round.number)


@require_http_methods(["GET", "HEAD", "POST"])
def person(request: HttpRequest, slug: str, number: int, annotator: int) -> HttpResponse:
    """One person in the round: put their votes aside, count them again, or let them go on."""
    access, shown_round = round_for(request, slug, number, Role.RESEARCHER)
    there = get_object_or_404(Annotator, project=access.project, number=annotator)
    form = AsideForm(request.POST if "aside" in request.POST else None)
    try:
        if form.is_bound and form.is_valid():
            sentence = _put_aside(request, shown_round, there, **form.cleaned_data)
        elif "again" in request.POST:
            sentence = _said_of_counting(aside.count_again(shown_round, there, access.user))
        elif "release" in request.POST:
            was_held = aside.let_go_on(shown_round, there, access.user)
            sentence = "They can label in this round again." if was_held else _WARNED_NO_MORE
        else:
            sentence = ""
    except UserError as error:
        messages.error(request, str(error))
        return redirect("round_person", slug, number, annotator)
    if sentence:
        messages.success(request, sentence)
        return redirect("round_person", slug, number, annotator)
    context = {
        **access.under("rounds"),
        "round": shown_round,
        "annotator": there,
        "person": aside.standing_of(shown_round, there),
        "form": form,
    }
    status = 422 if form.errors else 200
    return render(request, "annotation/rounds/person.html", context, status=status)


def _put_aside(
    request: HttpRequest, round_: Round, person: Annotator, reason: str, stop: bool
) -> str:
    stops = stop and round_.kind != Round.Kind.IMPORT
    n = aside.put_aside(round_, person, request.user, reason, stop=stops)
    return f"{number_of(n, 'vote')} put aside. {_SAID_OF_ASIDE}"


_WARNED_NO_MORE = "The warning was taken back."
_SAID_OF_ASIDE = "They no longer count. You can count them again here."


def _said_of_counting(done: aside.CountedAgain) -> str:
    sentence = f"{number_of(done.votes, 'vote')} {'counts' if done.votes == 1 else 'count'} again."
    if done.still_aside:
        stay = "stays" if done.still_aside == 1 else "stay"
        left = f"{number_of(done.still_aside, 'vote')} {stay}"
        sentence += (
            f" {left} aside, because other people gave or are giving all votes on these pairs."
        )
    return sentence


@require_POST
def flag_settle(request: HttpRequest, slug: str, number: int, flag: int) -> HttpResponse:
    access, shown_round = round_for(request, slug, number)
    flags = Flag.objects.select_related("item__example", "item__round__project")
    row = get_object_or_404(flags, item__round=shown_round, pk=flag)
    # A person may flag the same pair again with another reason, which replaces the one that the
    # reviewer read.
    if request.POST.get("made_for") not in (None, version_of(row.reason)):
        messages.error(request, "The flag has changed. Read what is wrong again.")
    else:
        settle_flag(row, access.user)
    return redirect("round", slug, number)


def round_page(
    request: HttpRequest,
    access: Access,
    shown_round: Round,
    *,
    votes_form: VotesForm | None = None,
    extend_form: ExtendForm | None = None,
    assign_form: AssignForm | None = None,
    status: int = 200,
) -> HttpResponse:
    # A form is often refused because somebody else changed the round since it was read.
    shown_round.refresh_from_db(fields=["votes_per_item", "state", "parameters"])
    if shown_round.state == Round.State.CLOSED:
        # The page has no forms to show these at.
        for form in filter(None, (votes_form, extend_form, assign_form)):
            for errors in form.errors.values():
                messages.error(request, " ".join(errors))
    flags = Flag.objects.filter(item__round=shown_round, settled_at=None)
    context = {
        **access.under("rounds"),
        "round": shown_round,
        "guidelines": rendered(shown_round.protocol.guidelines)
        if shown_round.protocol.guidelines
        else "",
        "version": changes.round_version(shown_round),
        "selections": shown_round.selections.order_by("pk"),
        "check_rules": check_rules_of(shown_round),
        "practice": practice_of(shown_round) if shown_round.is_practice else None,
        "practised": practice_standing(shown_round) if shown_round.is_practice else None,
        "opens": rounds_after(shown_round) if shown_round.is_practice else (),
        "standing": _standing_of(shown_round),
        "work": growing.current_work(shown_round),
        "agreement": _agreement_in(shown_round),
        "flags": [
            (flag, version_of(flag.reason))
            for flag in flags.select_related("annotator", "item__example").order_by("pk")
        ],
        "votes_form": votes_form or VotesForm(initial={"votes": shown_round.votes_per_item + 1}),
        "extend_form": extend_form or ExtendForm(),
        "assign_form": assign_form or AssignForm(shown_round),
        "asked": asked_in(shown_round),
    }
    return render(request, "annotation/rounds/detail.html", context, status=status)
