"""The page of single responses and people's scores: what there is, importing, undoing."""

from django import forms
from django.contrib import messages
from django.db.models import Avg, Count, Max, Min
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from judging.core.errors import UserError
from judging.dataset.models import HumanScore, Import, PointItem
from judging.dataset.pages.imports import FORMAT_NAMES
from judging.dataset.scores import FORMATS, import_scores, undo_scores
from judging.dataset.uploads import discard, store
from judging.projects.access import Access, project_for
from judging.projects.models import Role


class ScoresForm(forms.Form):
    file = forms.FileField(
        label="File of scores",
        help_text="One score per row: input, output, criterion, rater, score; model and "
        "external_id if they are known.",
    )
    file_format = forms.ChoiceField(
        label="Format", choices=[(name, FORMAT_NAMES[name]) for name in FORMATS], initial="auto"
    )
    rater = forms.CharField(
        label="Rater", required=False, max_length=200, help_text="Who scored, if no column says it."
    )


@require_http_methods(["GET", "HEAD", "POST"])
def scores(request: HttpRequest, slug: str) -> HttpResponse:
    access = project_for(request.user, slug, Role.RESEARCHER)
    form = ScoresForm(request.POST or None, request.FILES or None)
    if request.method == "POST" and form.is_valid():
        paths = store([form.cleaned_data["file"]])
        options = {name: form.cleaned_data[name] for name in ("file_format", "rater")}
        try:
            added = import_scores(access.project, access.user, paths[0], **options)
        except UserError as error:
            form.add_error("file", str(error))
        else:
            sentence = f"{added.items} new items and {added.scores} new scores were imported."
            messages.success(request, sentence)
            return redirect("scores", slug)
        finally:
            discard(paths)
    return _page(request, access, form, status=422 if form.errors else 200)


@require_POST
def scores_undo(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    access = project_for(request.user, slug, Role.RESEARCHER)
    imports = Import.objects.filter(project=access.project, kind=Import.Kind.POINTS)
    imported = get_object_or_404(imports, number=number)
    try:
        if request.POST.get("confirm") != f"import {number}":
            raise UserError(f"Nothing was changed. Type “import {number}” to undo it.")
        undo_scores(imported, access.user)
    except UserError as error:
        messages.error(request, str(error))
        return _page(request, access, ScoresForm(), status=422)
    messages.success(request, f"Import {number} is undone.")
    return redirect("scores", slug)


def _page(request: HttpRequest, access: Access, form: ScoresForm, status: int) -> HttpResponse:
    visible = HumanScore.objects.filter(
        point_item__project=access.project, point_item__source__state=Import.State.DONE
    )
    criteria = visible.values("criterion").annotate(
        n=Count("pk"),
        items=Count("point_item", distinct=True),
        raters=Count("rater", distinct=True),
        mean=Avg("value"),
        low=Min("value"),
        high=Max("value"),
    )
    past = Import.objects.filter(project=access.project, kind=Import.Kind.POINTS)
    context = {
        **access.under("examples"),
        "form": form,
        "criteria": criteria.order_by("criterion"),
        "n_items": PointItem.objects.filter(project=access.project).visible().count(),
        "imports": past.order_by("-number")[:100],
    }
    return render(request, "judging/imports/scores.html", context, status=status)
