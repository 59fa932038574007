"""The data browser: a project's examples with the judge's, people's and final labels."""

from typing import Any
from urllib.parse import urlencode

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from annotation.results.data.browsing import SORTS, Filter, People, browse, keys_of
from annotation.results.merge.final_labels import Merged
from judging.core.errors import UserError
from judging.core.formatting import number_of
from judging.dataset.models import Label, TagChange, tags_of_examples
from judging.dataset.pages.subsets import MOST_NAMES, named, shortened
from judging.dataset.subsets import (
    categories_of,
    change_tag,
    model_pairs_of,
    tag_names,
    undo_tag,
)
from judging.projects.access import Access, project_for
from judging.projects.models import Project, Role
from judging.runs.models import Run, Verdict

# How many runs you can choose from; older ones have their own pages.
MOST_RUNS = 100
LONGEST_SEARCH = 200
PEOPLE_ALONE = "people"


class ExampleFilter(forms.Form):
    """Invalid values filter nothing. The run comes first: labels and states belong to it."""

    run = forms.ChoiceField(label="Labels of", required=False)
    q = forms.CharField(
        label="Search the texts",
        required=False,
        max_length=LONGEST_SEARCH,
        widget=forms.TextInput({"type": "search"}),
    )
    category = forms.ChoiceField(label="Category", required=False)
    tag = forms.ChoiceField(label="Tag", required=False)
    model = forms.ChoiceField(label="Model", required=False)
    label = forms.ChoiceField(label="Judge says", required=False)
    people = forms.ChoiceField(
        label="People",
        required=False,
        choices=[
            (People.ANY, "any"),
            (People.DIFFERS, "disagree with the judge"),
            (People.UNDECIDED, "have not decided (no final label)"),
            (People.REVIEWED, "reviewed it"),
            (People.UNREVIEWED, "did not review it"),
        ],
    )
    state = forms.ChoiceField(
        label="Verdict",
        required=False,
        choices=[("", "any"), *Verdict.State.choices, ("conflict", "changes when swapped")],
    )

    def __init__(self, project: Project, data: object, runs: list[Run]) -> None:
        super().__init__(data, auto_id="filter-%s")
        self.project = project
        self.fields["run"].choices = [
            ("", "none: texts only"),
            (PEOPLE_ALONE, "people alone"),
            *((str(run.number), shortened(f"run {run.number}: {run.name}")) for run in runs),
        ]
        categories = categories_of(project, MOST_NAMES)
        pairs = model_pairs_of(project, MOST_NAMES)
        models = sorted({name for pair in pairs for name in pair if name})
        self.fields["category"].choices = named("all", categories)
        self.fields["tag"].choices = named("all", tag_names(project, MOST_NAMES))
        self.fields["model"].choices = named("all", models)
        self.fields["label"].choices = label_choices(pairs)
        self.is_valid()
        number = self.cleaned_data.get("run", "")
        self.run = next((run for run in runs if str(run.number) == number), None)
        self.with_people = number != ""

    def shown_fields(self) -> list[forms.BoundField]:
        names = ["q", "category", "tag", "model"]
        if len(self.fields["category"].choices) <= 2:
            names.remove("category")
        if len(self.fields["tag"].choices) <= 1:
            names.remove("tag")
        if len(self.fields["model"].choices) <= 3:
            names.remove("model")
        names += ["people"] if self.with_people else []
        names += ["label", "state"] if self.run else []
        return [self[name] for name in names]

    def filter(self, sort: str) -> Filter:
        asked = self.cleaned_data
        return Filter(
            self.project,
            self.run,
            with_people=self.with_people,
            text=asked.get("q", ""),
            category=asked.get("category", ""),
            tag=asked.get("tag", ""),
            model=asked.get("model", ""),
            label=asked.get("label", "") if self.run else "",
            state=asked.get("state", "") if self.run else "",
            people=self.people_asked(),
            sort=sort if sort.removeprefix("-") in SORTS else "number",
        )

    def people_asked(self) -> People:
        """Only with labels on the page, and without a judge nobody can disagree with it."""
        asked = People(self.cleaned_data.get("people", ""))
        impossible = not self.with_people or (self.run is None and asked == People.DIFFERS)
        return People.ANY if impossible else asked


def label_choices(pairs: Any) -> list[tuple[str, str]]:
    """Name the models, if all examples compare the same two."""
    one, two = pairs[0] if len(pairs) == 1 else ("", "")
    said = {
        Label.WIN: f"{shortened(one) or 'response 1'} wins",
        Label.TIE: "tie",
        Label.LOSE: f"{shortened(two) or 'response 2'} wins",
    }
    return [("", "any"), *((label.value, text) for label, text in said.items())]


@require_GET
def examples(request: HttpRequest, slug: str) -> HttpResponse:
    """List the examples. Without a run it shows nothing of the judge, so it unblinds nobody."""
    access = project_for(request.user, slug, Role.RESEARCHER)
    form = asked_form(request, access)
    if form.run is not None:
        project_for(request.user, slug, Role.RESEARCHER, shows_judge=True)
    asked = form.filter(request.GET.get("sort", ""))
    place = {name: key_of(request.GET.get(name)) for name in ("after", "before")}
    page = browse(asked, **place)
    tags = tags_of_examples([row.example.pk for row in page.rows])
    context = {
        **access.under("examples"),
        "form": form,
        "run": form.run,
        "page": page,
        "rows": [(row, votes_said(row), tags.get(row.example.pk)) for row in page.rows],
        "subset": urlencode(
            {name: value for name in ("category", "tag") if (value := getattr(asked, name))}
        ),
        "last_change": last_change(access),
        "query": query_of(request, form),
        "shows": columns_of(page.rows) | {"tags": bool(tags)},
        "filtered": is_filtered(asked),
    }
    return render(request, "annotation/results/examples.html", context)


def is_filtered(asked: Filter) -> bool:
    chosen = (asked.text, asked.category, asked.tag, asked.model, asked.label, asked.state)
    return any(chosen) or bool(asked.people)


def last_change(access: Access) -> TagChange | None:
    """Return the person's last change of tags, unless it was taken back."""
    mine = TagChange.objects.filter(project=access.project, made_by=access.user)
    last = mine.defer("examples").order_by("-pk").first()
    return last if last is not None and last.undone_at is None else None


@require_POST
def tag_examples(request: HttpRequest, slug: str) -> HttpResponse:
    """Give a tag to all examples that the address's filter matches, or take it from them."""
    access = project_for(request.user, slug, Role.RESEARCHER)
    form = asked_form(request, access)
    if form.run is not None:
        project_for(request.user, slug, Role.RESEARCHER, shows_judge=True)
    added = request.POST.get("action") != "remove"
    try:
        keys = keys_of(form.filter(""))
        change = change_tag(
            access.project, access.user, request.POST.get("name", ""), keys, added=added
        )
    except UserError as error:
        messages.error(request, str(error))
    else:
        n = number_of(len(change.examples) if change else 0, "example")
        done = "now have this tag" if added else "no longer have this tag"
        messages.success(request, f"{n} {done}." if change else "No example changed.")
    return redirect(f"{reverse('examples', args=[slug])}?{query_of(request, form)}")


@require_POST
def untag_examples(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    """Take a change of tags back, and show the same list again."""
    access = project_for(request.user, slug, Role.RESEARCHER)
    change = get_object_or_404(TagChange, project=access.project, pk=pk)
    undone = undo_tag(change, access.user)
    messages.success(request, "The tags are as before." if undone else "That was undone before.")
    form = asked_form(request, access)
    return redirect(f"{reverse('examples', args=[slug])}?{query_of(request, form)}")


def columns_of(rows: tuple[Merged, ...]) -> dict[str, bool]:
    """Say which columns hold anything that differs between rows."""
    examples = [row.example for row in rows]
    return {
        "models": len({(example.model_1, example.model_2) for example in examples}) > 1,
        "category": any(example.category for example in examples),
        "gold": any(example.gold_label for example in examples),
    }


def asked_form(request: HttpRequest, access: Access) -> ExampleFilter:
    """Return the filter that the address names, for the list and for an example within it."""
    project = access.project
    runs = list(project.runs.order_by("-number")[:MOST_RUNS])
    return ExampleFilter(project, asked_for(request, access, runs), runs)


def asked_for(request: HttpRequest, access: Access, runs: list[Run]) -> QueryDict:
    """Return the query, by default with the primary run for users who have seen the judge."""
    asked = request.GET.copy()
    if access.has_seen_judge and "run" not in asked:
        primary = [run for run in runs if run.pk == access.project.primary_run_id]
        asked["run"] = str(primary[0].number) if primary else ""
    return asked


def query_of(request: HttpRequest, form: ExampleFilter) -> str:
    """Return the part of an address that reproduces the filter and the order."""
    asked = {name: value for name, value in form.cleaned_data.items() if value}
    asked["run"] = form.cleaned_data.get("run", "")
    if request.GET.get("sort"):
        asked["sort"] = request.GET["sort"]
    return urlencode(asked)


def key_of(text: str | None) -> int | None:
    # More digits than any key has; Python refuses to read thousands of them.
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 19 else None


def votes_said(row: Merged) -> list[tuple[str, int]]:
    """Return the votes by label, without labels that nobody gave."""
    counts = row.people.counts if row.people else {}
    return [(label, n) for label, n in counts.items() if n]
