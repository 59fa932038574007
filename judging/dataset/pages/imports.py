"""Pages that import pairs: upload, preview with problems and mapping, confirm, progress, undo.

The last one is about single responses and people's scores: what there is, importing, undoing.
"""

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.core.paginator import Paginator
from django.db.models import Avg, Count, Max, Min
from django.http import FileResponse, Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_http_methods, require_POST
from django_htmx.http import HttpResponseClientRefresh

from judging.core.errors import Overtaken, UserError
from judging.core.models import Worker
from judging.dataset import writing
from judging.dataset.files import FORMAT_NAMES
from judging.dataset.models import HumanScore, Import, PointItem
from judging.dataset.reading import NAMED
from judging.dataset.records import (
    AS_MESSAGES,
    AS_TEXT,
    FIELDS,
    IGNORE,
    READ_AS_MESSAGES,
    REQUIRED,
    Codes,
    codes_of,
    readings,
    spelled,
    way_of,
)
from judging.dataset.scores import FORMATS as SCORE_FORMATS
from judging.dataset.scores import import_scores, undo_scores
from judging.dataset.uploads import (
    check_again,
    discard,
    record_import,
    refused_files_of,
    refused_names_of,
    store,
)
from judging.dataset.wide import LARGEST_SEED, MOST_RESPONSES, RESPONSE, SIZES, PairDesign
from judging.dataset.writing import refuse_invalid, undo
from judging.projects.access import Access, project_for, version_of
from judging.projects.models import Role

MOST_COLUMNS = 100


class FilesInput(forms.ClearableFileInput):
    allow_multiple_selected = True


class FilesField(forms.FileField):
    """One or more files."""

    widget = FilesInput

    def clean(self, data: Any, initial: Any = None) -> list[Any]:
        # Django's field checks a single file, so each goes through it.
        files = data if isinstance(data, list | tuple) and data else [data or None]
        return [super(FilesField, self).clean(file, initial) for file in files]


def sheet_field() -> forms.CharField:
    return forms.CharField(
        label="Sheet",
        required=False,
        max_length=31,
        help_text="For Excel. By default, FairJudge reads the first sheet.",
    )


class UploadForm(forms.Form):
    files = FilesField(
        label="File of pairs",
        help_text="CSV, TSV, JSON Lines, JSON, Excel (.xlsx), Parquet or Arrow. Texts may be "
        "compressed (.gz, .zst). If the pairs have images, upload a ZIP with both. For FairEval, "
        "choose the question file and both answer files together; the first answer file gives "
        "response 1.",
    )
    file_format = forms.ChoiceField(
        label="Format", choices=list(FORMAT_NAMES.items()), initial="auto"
    )
    sheet = sheet_field()


DESIGNS = {
    "all": "All pairs",
    "baseline": "Each response against a baseline",
    "random": "Random opponents for each response",
    "blocks": "Balanced blocks: some responses per question",
}


def design_fields(wide: Mapping[str, Any]) -> dict[str, forms.Field]:
    """Return the fields that ask which pairs to make of wide rows."""
    kind, _, value = wide["design"].partition("=")
    models = [(name, name) for name in wide["models"]]
    return {
        "design": forms.ChoiceField(
            label="Which responses are compared?",
            choices=[("", "Choose…"), *DESIGNS.items()],
            initial=kind,
        ),
        "baseline": forms.ChoiceField(
            label="Baseline",
            choices=[("", "Choose…"), *models],
            initial=value if kind == "baseline" else "",
            required=False,
            help_text="For the design with a baseline.",
        ),
        "size": forms.IntegerField(
            label="Opponents, or responses per block",
            initial=value if value.isdecimal() else 2,
            min_value=1,
            max_value=MOST_RESPONSES,
            required=False,
            help_text="For random opponents: how many each response gets at least. For blocks: how "
            "many responses to each question are compared.",
        ),
        "seed": forms.IntegerField(
            label="Seed",
            initial=wide["seed"],
            min_value=0,
            max_value=LARGEST_SEED,
            required=False,
            help_text="The same seed gives the same pairs again.",
        ),
    }


class MappingForm(forms.Form):
    """One choice for each column. What stays as it was recognised is not part of the mapping.

    If cells hold messages as JSON, a column can also be texts, or messages in every cell.
    """

    def __init__(
        self,
        summary: Mapping[str, Any],
        data: Any = None,
        *,
        mapping: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        super().__init__(data)
        chosen = {column: target for column, target in mapping.items() if way_of(target)[1]}
        kinds = {notice["kind"] for notice in summary.get("notices", ())}
        fields = [(field, field) for field in FIELDS]
        if chosen or READ_AS_MESSAGES in kinds:
            for field in REQUIRED:
                fields.append((f"{field}:{AS_TEXT}", f"{field}: texts"))
                fields.append((f"{field}:{AS_MESSAGES}", f"{field}: messages as JSON"))
        sources = {
            column: field
            for field, columns in summary["columns"].items()
            # An instruction and its input are shown with a plus between them, and one name may have
            # a plus as well.
            for column in [columns, *columns.split(" + ")]
        }
        read = summary["columns"]
        self.columns = {}
        labels = summary.get("labels", {})
        if labels:
            meanings = readings(labels.keys())
            # What somebody said by --labels may be none of the usual readings.
            meanings += [codes for codes in [labels] if codes not in meanings]
            self.fields["labels"] = forms.ChoiceField(
                label="What do the codes of gold labels mean?",
                choices=[("", "Choose…"), *((spelled(m), in_words(m)) for m in meanings)],
                initial="" if summary.get("readings") else spelled(labels),
                required=False,
            )
        if wide := summary.get("wide", {}):
            self.fields |= design_fields(wide)
            sources |= dict.fromkeys(wide["mapped"], RESPONSE)
        for number, column in enumerate(summary["names"][:MOST_COLUMNS]):
            # A column that names both models is no field's alone.
            if column == read.get("model_1") == read.get("model_2"):
                continue
            name = f"column-{number}"
            self.columns[name] = column
            self.fields[name] = forms.ChoiceField(
                label=column,
                choices=[
                    (IGNORE, "not read"),
                    *fields,
                    (RESPONSE, "response of the model with this name"),
                ],
                initial=chosen.get(column, sources.get(column, IGNORE)),
            )

    def clean(self) -> None:
        data = self.cleaned_data
        if data.get("design") == "baseline" and data.get("baseline") == "":
            self.add_error("baseline", "Choose the model that the others are compared with.")
        if data.get("design") in ("random", "blocks") and "size" in data:
            low, high = SIZES[data["design"]]
            if not low <= (data["size"] or 0) <= high:
                self.add_error("size", f"Enter a number from {low} to {high} for this design.")

    @property
    def labels(self) -> dict[str, str] | None:
        """What was said about the codes of the column that holds the gold labels."""
        codes, changed = self.cleaned_data.get("labels"), set(self.changed_data)
        columns = {self.fields[name].initial for name in changed & self.columns.keys()}
        columns |= {self.cleaned_data[name] for name in changed & self.columns.keys()}
        # What was chosen is about the codes of the column before. Another one has codes of its own.
        other_column = "gold_label" in columns and "labels" not in changed
        return codes_of(codes) if codes and not other_column else None

    @property
    def design(self) -> PairDesign | None:
        """Which pairs to make of wide rows. Raises UserError."""
        data = self.cleaned_data
        if not data.get("design"):
            return None
        values = {"baseline": data["baseline"], "all": ""}
        value = values.get(data["design"], data["size"] or "")
        return PairDesign.read(f"{data['design']}={value}", data["seed"] or 0)

    def mapping(self, before: Mapping[str, str]) -> dict[str, str]:
        """Return what was mapped before, with the form's changes."""
        changed = {
            column: self.cleaned_data[name]
            for name, column in self.columns.items()
            if name in self.changed_data
        }
        return {**before, **changed}


def in_words(codes: Codes) -> str:
    words = {"win": "response 1 is better", "lose": "response 2 is better", "tie": "tie"}
    return ", ".join(f"{code}: {words[label]}" for code, label in codes.items())


PAGE = 50


def import_for(request: HttpRequest, slug: str, number: int) -> tuple[Access, Import]:
    """Return an import of a project whose examples the user may change."""
    access = project_for(request.user, slug, Role.RESEARCHER)
    imports = Import.objects.select_related("project", "created_by")
    kind = Import.Kind.EXAMPLES
    return access, get_object_or_404(imports, project=access.project, number=number, kind=kind)


def reading_version(imported: Import) -> str:
    """Return what the forms of a checked import carry: how its columns and codes were read."""
    reading = [imported.format, imported.mapping, imported.summary.get("labels"), imported.options]
    return version_of(json.dumps(reading, sort_keys=True))


def refuse_overtaken(imported: Import, made_for: str | None) -> None:
    """Raise Overtaken if the file was read another way after the form was made."""
    if made_for not in (None, reading_version(imported)):
        raise Overtaken(
            "Somebody changed how the columns of this file are read, after you loaded this page. "
            "Nothing was changed. Check the columns and the first rows below, then try again."
        )


@require_http_methods(["GET", "HEAD", "POST"])
def imports(request: HttpRequest, slug: str) -> HttpResponse:
    access = project_for(request.user, slug, Role.RESEARCHER)
    form = UploadForm(request.POST or None, request.FILES or None)
    if request.method == "POST" and form.is_valid():
        paths = store(form.cleaned_data["files"])
        file_format = form.cleaned_data["file_format"]
        try:
            imported = record_import(
                access.project,
                access.user,
                paths,
                file_format=file_format,
                sheet=form.cleaned_data["sheet"],
            )
        except UserError as error:
            discard(paths)
            form.add_error("files", str(error))
        else:
            return redirect("import_detail", slug, imported.number)
    past = Import.objects.filter(project=access.project, kind=Import.Kind.EXAMPLES)
    page = Paginator(past.order_by("-number"), PAGE).get_page(request.GET.get("page"))
    context = {**access.under("examples"), "form": form, "page": page}
    return render(request, "judging/imports/list.html", context, status=422 if form.errors else 200)


@require_GET
def import_detail(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    """Show the whole page or, while the import is written, the part of it that changes."""
    access, imported = import_for(request, slug, number)
    return _detail(request, access, writing.look_after(imported))


@require_POST
def import_check(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    """Read the file again with another mapping of its columns."""
    access, imported = import_for(request, slug, number)
    form = MappingForm(imported.summary, request.POST, mapping=imported.mapping)
    try:
        if form.is_valid():
            refuse_overtaken(imported, request.POST.get("made_for"))
            mapping = form.mapping(imported.mapping)
            check_again(imported, imported.format, mapping, form.labels, form.design)
            return redirect("import_detail", slug, number)
    except UserError as error:
        form.add_error(None, str(error))
    return _detail(request, access, imported, form, status=422)


@require_POST
def import_begin(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    """Confirm a checked import, or resume an interrupted one."""
    access, imported = import_for(request, slug, number)
    # What was chosen at the start holds when an interrupted import is resumed.
    skip = imported.skip_invalid or "skip_invalid" in request.POST
    try:
        refuse_overtaken(imported, request.POST.get("made_for"))
        refuse_invalid(imported, skip)
        if "hide_models" in request.POST and access.includes(Role.OWNER):
            writing.hide_models(access.project, access.user)
        writing.begin(imported, skip_invalid=skip)
    except UserError as error:
        return _refusal(request, access, imported, error)
    return redirect("import_detail", slug, number)


@require_POST
def import_undo(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    """Undo an import; to undo a finished one, its name must be typed first."""
    access, imported = import_for(request, slug, number)
    name = f"import {number}"
    try:
        if imported.state == Import.State.DONE and request.POST.get("confirm") != name:
            raise UserError(f"Nothing was changed. Type “{name}” to undo it.")
        undo(imported, access.user)
    except UserError as error:
        return _refusal(request, access, imported, error)
    messages.success(request, f"Import {number} is undone.")
    return redirect("imports", slug)


@require_GET
def import_refused(request: HttpRequest, slug: str, number: int, index: int) -> FileResponse:
    """Download the refused rows of a file, unchanged."""
    _, imported = import_for(request, slug, number)
    # Rows as they are in the file, with the names of the models.
    project_for(request.user, slug, Role.RESEARCHER, names_models=True)
    with refused_files_of(imported) as copies:
        if index >= len(copies):
            raise Http404("No such file.")
        # The open file can be read after the block, when a copy from the store is gone.
        name, stream = copies[index].name, copies[index].open("rb")
    # One type whatever its name: a browser would run `x.js` or show `x.html` as this site's own.
    return FileResponse(
        stream, as_attachment=True, filename=name, content_type="application/octet-stream"
    )


def _refusal(
    request: HttpRequest, access: Access, imported: Import, error: UserError
) -> HttpResponse:
    messages.error(request, str(error))
    return _detail(request, access, imported, status=422)


def _detail(
    request: HttpRequest,
    access: Access,
    imported: Import,
    form: MappingForm | None = None,
    status: int = 200,
) -> HttpResponse:
    summary, being_written = imported.summary, imported.state == Import.State.WRITING
    # FairEval's three files have no columns to map.
    by_column = "faireval" not in (imported.format, summary.get("format")) and summary.get("names")
    if form is None and imported.state == Import.State.CHECKED and by_column:
        form = MappingForm(summary, mapping=imported.mapping)
    rows = summary.get("rows", ())
    models = {model.casefold() for row in rows for model in row["models"] if model}
    is_blind = bool(models) and not access.has_seen_judge
    # IDs, files and columns may tell whose the responses are, as those of FastChat do.
    around = [*imported.file_names, *(summary.get("names") or ())]
    around += [row[name] or "" for row in rows for name in ("external_id", "category")]
    told = any(model in text.casefold() for model in models for text in around)
    context = {
        **access.under("examples"),
        "import": imported,
        "summary": summary,
        "format_name": FORMAT_NAMES.get(summary.get("format", ""), summary.get("format")),
        "shown": {
            # The first rows would name the models next to their responses.
            "models": models and not is_blind,
            "category": any(row["category"] for row in rows),
            "gold": not summary.get("readings") and any(row["gold_label"] for row in rows),
        },
        "hides_models": is_blind,
        "hides_rows": is_blind and told,
        "undesigned": summary.get("wide") and not summary["wide"]["design"],
        "settled": imported.n_written + imported.n_known + imported.n_conflicts,
        "form": form,
        "version": reading_version(imported),
        "names_models": any(notice["kind"] == NAMED for notice in summary.get("notices", ())),
        "may_hide": access.includes(Role.OWNER),
        "refused_files": refused_names_of(imported),
        "worker_missing": being_written and not Worker.objects.alive().serve(settings.QUICK),
    }
    part = request.htmx and request.htmx.target == "import-state"  # type: ignore[attr-defined]
    # With the state, the rest of the page changes too.
    if part and not being_written:
        return HttpResponseClientRefresh()
    template = "_detail_state.html" if part else "detail.html"
    return render(request, f"judging/imports/{template}", context, status=status)


class ScoresForm(forms.Form):
    file = forms.FileField(
        label="File of scores",
        help_text="One score per row: input, output, criterion, rater, score; model and "
        "external_id if they are known.",
    )
    file_format = forms.ChoiceField(
        label="Format",
        choices=[(name, FORMAT_NAMES[name]) for name in SCORE_FORMATS],
        initial="auto",
    )
    rater = forms.CharField(
        label="Rater", required=False, max_length=200, help_text="Who scored, if no column says it."
    )
    sheet = sheet_field()


@require_http_methods(["GET", "HEAD", "POST"])
def scores(request: HttpRequest, slug: str) -> HttpResponse:
    access = project_for(request.user, slug, Role.RESEARCHER)
    form = ScoresForm(request.POST or None, request.FILES or None)
    if request.method == "POST" and form.is_valid():
        paths = store([form.cleaned_data["file"]])
        options = {name: form.cleaned_data[name] for name in ("file_format", "rater", "sheet")}
        try:
            added = import_scores(access.project, access.user, paths[0], **options)
        except UserError as error:
            form.add_error("file", str(error))
        else:
            sentence = f"{added.items} new items and {added.scores} new scores were imported."
            messages.success(request, sentence)
            return redirect("scores", slug)
        finally:
            # Scores are written within the request, so nothing needs the file afterwards.
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
