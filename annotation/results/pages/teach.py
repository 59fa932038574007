"""Teaching the judge: what would teach and cost, reading and approving a lesson, and its test."""

from decimal import Decimal
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from annotation.models import Job, Lesson
from annotation.results.delivery.jobs import leave_to_worker
from annotation.results.delivery.teaching import (
    ANNOTATORS,
    LONGEST_RUBRIC,
    MOST_ANNOTATORS,
    MOST_SHOTS,
    SHOTS,
    VOTES_OF_EACH,
    LessonPlan,
    approve,
    begin_lesson,
    compare_lesson,
    figures,
    headline,
    in_use,
    plan_lesson,
    plan_lines,
    runs_of,
)
from judging.core.errors import UserError
from judging.dataset.models import Example
from judging.projects.access import Access, project_for
from judging.projects.models import Role
from judging.runs.endpoints import endpoint_names
from judging.runs.models import Form, Run, Verdict, run_to_show
from judging.runs.pages.runs import MAY_NOT_START
from judging.runs.pages.start_form import dollars


class TeachForm(forms.Form):
    run = forms.ModelChoiceField(
        Run.objects.none(), label="Learn from the errors of", to_field_name="number"
    )
    way = forms.ChoiceField(
        label="Teach by",
        choices=[
            (Lesson.Way.EXAMPLES, "solved examples on which the judge erred, in each prompt"),
            (Lesson.Way.RUBRIC, "a rubric that a model drafts from the errors, and you approve"),
            (Lesson.Way.BOTH, "both"),
            (
                Lesson.Way.ANNOTATORS,
                "simulated annotators: the judge imitates several people by their votes, and is "
                "surer of a label if more of them agree",
            ),
        ],
        initial=Lesson.Way.BOTH,
        widget=forms.RadioSelect,
    )
    shots = forms.IntegerField(
        label="Solved examples per prompt",
        min_value=1,
        max_value=MOST_SHOTS,
        required=False,
        help_text=f"Default: {SHOTS}, or {VOTES_OF_EACH} votes of each simulated annotator. An "
        "even number shows the better response first as often as second.",
    )
    annotators = forms.IntegerField(
        label="Simulated annotators",
        min_value=2,
        max_value=MOST_ANNOTATORS,
        required=False,
        help_text=f"Default: {ANNOTATORS}. Each is asked once in each order of an example.",
    )
    name = forms.SlugField(
        label="Name of the template",
        required=False,
        max_length=80,
        help_text="Default: the name of the run’s template with “-taught” or “-annotators”.",
    )
    endpoint = forms.ChoiceField(
        label="Endpoint that drafts the rubric", required=False, help_text="Default: the run’s own."
    )
    model = forms.CharField(
        label="Model that drafts the rubric", required=False, max_length=200,
        help_text="Default: the run’s own.",
    )  # fmt: skip
    price_in = dollars(
        "Price of prompts", "USD per million tokens. Needed only if FairJudge doesn’t know it."
    )
    price_out = dollars("Price of completions", "USD per million tokens.")
    budget = dollars("Budget of the draft, USD", "If the draft could cost more, nothing is sent.")

    def __init__(self, access: Access, data: Any = None) -> None:
        super().__init__(data)
        ranked = access.project.runs.filter(ranked_at__isnull=False).exclude(form=Form.POINTWISE)
        field = self.fields["run"]
        assert isinstance(field, forms.ModelChoiceField)
        # Single responses have no pairs to teach by, and an unranked run has no known errors.
        field.queryset = ranked.order_by("-number")
        shown = run_to_show(access.project)
        field.initial = shown.number if shown else None
        self.fields["endpoint"].choices = [("", "the run’s own")] + [
            (name, name) for name in endpoint_names()
        ]

    def clean(self) -> dict[str, Any]:
        values = super().clean() or self.cleaned_data
        if (values.get("price_in") is None) != (values.get("price_out") is None):
            raise forms.ValidationError("Give both prices, or neither.")
        return values

    def plan(self, access: Access) -> LessonPlan:
        data = self.cleaned_data
        price = None
        if data["price_in"] is not None:
            price = Decimal(data["price_in"]), Decimal(data["price_out"])
        names = ("shots", "annotators", "name", "endpoint", "model", "budget")
        options = {name: data[name] for name in names}
        return plan_lesson(access.project, data["run"], data["way"], price=price, **options)


@require_http_methods(["GET", "HEAD", "POST"])
def teach(request: HttpRequest, slug: str) -> HttpResponse:
    """Say what a lesson would teach and cost, or make it. Nothing is judged by this."""
    access = project_for(request.user, slug, Role.RESEARCHER, shows_judge=True)
    form = TeachForm(access, request.POST or None)
    # Without the button that teaches, the form only asks what a lesson would be.
    plan, status = None, 200
    if request.method == "POST":
        status = 422
        if form.is_valid():
            try:
                plan = form.plan(access)
                if "teach" in request.POST:
                    return redirect("lesson", slug, _begun(access, plan, form).number)
                status = 200
            except UserError as error:
                form.add_error(None, str(error))
    lessons = list(access.project.lessons.select_related("run").order_by("-number"))
    context = {
        **access.under("runs"),
        "form": form,
        "plan": plan,
        "lines": list(plan_lines(plan)) if plan else [],
        "lessons": lessons,
        "has_runs": form.fields["run"].queryset.exists(),
        "answer": _answer(lessons[0]) if lessons else "",
    }
    return render(request, "results/teach.html", context, status=status)


def _answer(lesson: Lesson) -> str:
    """Say in a sentence how far a lesson is, or what its newest test decided."""
    message = {
        Lesson.State.WAITING: "A model is drafting the rubric",
        Lesson.State.FAILED: "There is no rubric yet",
        Lesson.State.DRAFTED: "Read what will teach the judge, and approve it",
        Lesson.State.APPROVED: "The template is approved. Judge with it, then test it",
    }
    if lesson.annotators:
        message[Lesson.State.APPROVED] = "The template is approved. Judge with it"
    now = headline(lesson.tests[-1]["verdict"]) if lesson.tests else message[lesson.state]
    return f"Lesson {lesson.number}: {now}."


def _begun(access: Access, plan: LessonPlan, form: TeachForm) -> Lesson:
    if plan.request is not None and not access.may_start_runs:
        # A draft is paid for, like a run.
        raise UserError(MAY_NOT_START)
    project, user = access.project, access.user

    def made(lesson: Lesson) -> None:
        if plan.request is not None:
            # In the transaction that makes the lesson, so that none waits without a job.
            leave_to_worker(project, user, Job.Kind.LESSON, {"lesson": lesson.number})

    return begin_lesson(project, user, plan, form.cleaned_data["budget"], made)


@require_GET
def lesson(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    """Show a lesson to read and approve, and what its tests came to."""
    access, record = _lesson_for(request, slug, number)
    return _lesson_page(request, access, record)


@require_POST
def lesson_approve(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    access, record = _lesson_for(request, slug, number)
    rubric = request.POST.get("rubric")
    try:
        approve(record, access.user, rubric)
    except UserError as error:
        return _lesson_page(request, access, record, str(error), rubric, status=422)
    return redirect("lesson", slug, number)


@require_POST
def lesson_compare(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    """Compare the taught run with the old one. The version is retired unless it is better."""
    access, record = _lesson_for(request, slug, number)
    # Only runs with this lesson's version can be compared, whatever number is sent.
    runs = {str(run.number): run for run in runs_of(record)}
    run = runs.get(request.POST.get("run", ""))
    try:
        if run is None:
            raise UserError(f"Choose a run that judged with the template of {record}.")
        compare_lesson(record, access.user, run)
    except UserError as error:
        messages.error(request, str(error))
    return redirect("lesson", slug, number)


def _lesson_for(request: HttpRequest, slug: str, number: int) -> tuple[Access, Lesson]:
    access = project_for(request.user, slug, Role.RESEARCHER, shows_judge=True)
    rows = Lesson.objects.select_related("run", "version", "project", "created_by")
    return access, get_object_or_404(rows, project=access.project, number=number)


def _lesson_page(
    request: HttpRequest,
    access: Access,
    record: Lesson,
    problem: str = "",
    rubric: str | None = None,
    status: int = 200,
) -> HttpResponse:
    keys = [key for own in (record.pairs, *record.annotators) for key, _ in own]
    examples = Example.objects.in_bulk(keys)
    judged = dict(
        Verdict.objects.filter(run=record.run, example__in=keys).values_list("example", "label")
    )
    context = {
        **access.under("runs"),
        "lesson": record,
        "sets": [
            [
                {"example": examples[key], "people": label, "judge": judged.get(key)}
                for key, label in own
                # An example may have been deleted since it taught.
                if key in examples
            ]
            for own in record.annotators or [record.pairs]
            if own
        ],
        "spare": record.annotators or len(record.pairs) > record.shown,
        # What a person edited stays in the form when it was refused.
        "rubric": record.rubric if rubric is None else rubric,
        "longest": LONGEST_RUBRIC,
        "problem": problem,
        "runs": runs_of(record) if record.version_id else [],
        "answer": _answer(record),
        "figures": figures(record.tests[-1]) if record.tests else "",
        "in_use": in_use(record),
    }
    return render(request, "results/lesson.html", context, status=status)
