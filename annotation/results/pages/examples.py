"""The data browser: examples with the judge's, people's and final labels, and the page of one."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from annotation.models import Adjudication, Vote
from annotation.queue.drafts import more_said
from annotation.rendering import render as rendered
from annotation.rendering import render_shown, shown_of
from annotation.rendering.spans import ShownText, painted
from annotation.results.data.browsing import SORTS, Filter, People, browse, keys_of, neighbours
from annotation.results.merge.final_labels import Merged, merged_page
from annotation.rounds.practice import change_check
from annotation.votes.agreement import criteria_asked
from judging.core.errors import UserError
from judging.core.formatting import count, number_of
from judging.dataset.models import Example, Label, TagChange, n_judged, tags_of_examples
from judging.dataset.pages.subsets import MOST_NAMES, named, shortened
from judging.dataset.subsets import categories_of, change_tag, model_pairs_of, tag_names, undo_tag
from judging.llm.prompts.mentions import mentions
from judging.llm.prompts.templates import PromptVariant, ReplyFormat, UnknownPart
from judging.projects.access import Access, project_for
from judging.projects.models import Project, Role
from judging.runs.forms.portia import shown_stages
from judging.runs.models import Run, Verdict
from judging.runs.samples import OrderTranscript, RecordedReply, transcript_of

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
    criterion = forms.ChoiceField(label="Contradicted on", required=False)
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
        criteria = [(name, shortened(name)) for name in criteria_asked(project)]
        self.fields["criterion"].choices = [("", "any or no criterion"), *criteria]
        # At once, because the run that is chosen decides which other fields there are.
        self.is_valid()
        number = self.cleaned_data.get("run", "")
        self.run = next((run for run in runs if str(run.number) == number), None)
        self.with_people = number != ""

    def heading(self) -> str:
        """Say what the project holds, whatever is filtered."""
        n = n_judged(self.project.pk)
        categories = len(self.fields["category"].choices) - 1
        models = len(self.fields["model"].choices) - 1
        matches = number_of(n, "pair") if n else "No pairs yet"
        # A list that is full may have been cut off, so its length is no count.
        if 1 < categories < MOST_NAMES:
            matches += f" in {count(categories)} categories"
        if 1 < models < MOST_NAMES:
            matches += f", by {count(models)} models"
        if checks := self.project.examples.visible().filter(is_check=True).count():
            matches += f", and {number_of(checks, 'check')}"
        return f"{matches}."

    def shown_fields(self) -> list[forms.BoundField]:
        names = ["q", "category", "tag", "model"]
        # A filter that keeps everything is left out: by one category, no tag, or two models that
        # are in every pair.
        if len(self.fields["category"].choices) <= 2:
            names.remove("category")
        if len(self.fields["tag"].choices) <= 1:
            names.remove("tag")
        if len(self.fields["model"].choices) <= 3:
            names.remove("model")
        if self.with_people:
            names += ["people"]
            names += ["criterion"] if len(self.fields["criterion"].choices) > 1 else []
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
            criterion=asked.get("criterion", "") if self.with_people else "",
            sort=sort if sort.removeprefix("-") in SORTS else "number",
        )

    def people_asked(self) -> People:
        """Return which votes were asked for; any, if the page has no labels or judge to tell."""
        asked = People(self.cleaned_data.get("people", ""))
        impossible = not self.with_people or (self.run is None and asked == People.DIFFERS)
        return People.ANY if impossible else asked


def label_choices(pairs: Any) -> list[tuple[str, str]]:
    """Name the models, if all examples compare the same two."""
    first, two = pairs[0] if len(pairs) == 1 else ("", "")
    values = {
        Label.WIN: f"{shortened(first) or 'response 1'} wins",
        Label.TIE: "tie",
        Label.LOSE: f"{shortened(two) or 'response 2'} wins",
    }
    return [("", "any"), *((label.value, text) for label, text in values.items())]


@require_GET
def examples(request: HttpRequest, slug: str) -> HttpResponse:
    """List the examples. Without a run it shows nothing of the judge, so it unblinds nobody."""
    access = project_for(request.user, slug, Role.OBSERVER)
    form = asked_form(request, access)
    if form.run is not None:
        project_for(request.user, slug, Role.OBSERVER, shows_judge=True)
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
        "heading": form.heading(),
    }
    return render(request, "annotation/results/examples.html", context)


def is_filtered(asked: Filter) -> bool:
    chosen = (asked.text, asked.category, asked.tag, asked.model, asked.label, asked.state)
    return any(chosen) or asked.is_about_votes


def last_change(access: Access) -> TagChange | None:
    """Return the person's last change of tags, unless it was taken back."""
    mine = TagChange.objects.filter(project=access.project, made_by=access.user)
    # A change holds the keys of all its examples, which may be a hundred thousand.
    last = mine.defer("examples").order_by("-pk").first()
    return last if last is not None and last.undone_at is None else None


@require_POST
def tag_examples(request: HttpRequest, slug: str) -> HttpResponse:
    """Give a tag to all examples that the address's filter matches, or take it from them."""
    access = project_for(request.user, slug, Role.RESEARCHER)
    form = asked_form(request, access)
    if form.run is not None:
        # How many examples match a verdict says something about the judge.
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
    messages.success(
        request,
        "The last change of tags was taken back." if undone else "That change was already undone.",
    )
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


# Marking is for people who read. Nobody reads on after this many characters.
MOST_MARKED = 50_000


@require_GET
def example(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    """Show the texts with the models that wrote them, which unblinds like judge output."""
    access = project_for(request.user, slug, Role.OBSERVER)
    project = access.project
    shown = get_object_or_404(Example.objects.visible(), project=project, pk=pk)
    form = asked_form(request, access)
    if form.run is not None:
        project_for(request.user, slug, Role.OBSERVER, shows_judge=True)
    elif shown.model_1 or shown.model_2:
        project_for(request.user, slug, Role.OBSERVER, names_models=True)
    before, after = neighbours(form.filter(request.GET.get("sort", "")), shown)
    context = {
        **access.under("examples"),
        "example": shown,
        **texts_of(shown, project.rendering),
        "before": before,
        "after": after,
        "query": query_of(request, form),
        "check_form": CheckForm(instance=shown) if shown.is_check and access.may_manage else None,
        "runs": project.runs.order_by("-number")[:MOST_RUNS],
        "run": form.run,
        **(people_about(shown, form.run) if form.with_people else {}),
        **(judge_about(shown, form.run) if form.run else {}),
    }
    return render(request, "annotation/results/example.html", context)


class CheckForm(forms.ModelForm):
    """What a pair with a known label is for, and what people are told about it."""

    gold_label = forms.ChoiceField(choices=Label.choices, label="Known label (for response 1)")

    class Meta:
        model = Example
        fields = ("check_for", "gold_label", "explanation")
        labels = {"check_for": "What is it for?", "explanation": "Explanation"}
        help_texts = {
            "explanation": "Markdown. People read it after they answered the pair in training. "
            "Don't write “response 1”: people see the responses left and right, in random order."
        }


@require_POST
def example_check(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    """Change a check: what it is for, its known label, and its explanation."""
    access = project_for(request.user, slug, Role.RESEARCHER)
    pair = get_object_or_404(Example.objects.visible(), project=access.project, pk=pk)
    form = CheckForm(request.POST)
    try:
        if not form.is_valid():
            raise UserError(next(iter(form.errors.values()))[0])
        change_check(pair, access.user, **form.cleaned_data)
    except UserError as error:
        messages.error(request, str(error))
    else:
        messages.success(request, "The check is changed.")
    return redirect("example", slug, pk)


def texts_of(example: Example, how: str) -> dict[str, object]:
    texts = example.question, example.response_1, example.response_2
    shown = shown_of(texts, example.conversation)
    question, *responses = (render_shown(text, how) for text in shown)
    return {
        "question": question,
        "reference": rendered(example.reference, how) if example.reference else "",
        "responses": [
            (1, example.model_1, responses[0], "marked-1"),
            (2, example.model_2, responses[1], "marked-2"),
        ],
    }


def people_about(example: Example, run: Run | None) -> dict[str, object]:
    """Return the final label, the votes and the decisions. An attention check has no final one."""
    (merged,) = merged_page(example.project, run, [example])
    # Votes that were put aside are shown as well.
    rows = Vote.every.filter(example=example).select_related("annotator", "item__round")
    votes = list(rows.order_by("item__round__number", "pk"))
    texts = {1: ShownText(example.response_1), 2: ShownText(example.response_2)}
    marked = [(vote.annotator.pseudonym, vote.answer.get("spans", ())) for vote in votes]
    decisions = Adjudication.objects.filter(item__example=example)
    return {
        "verdict": merged.verdict,
        "final": None if example.is_check else merged,
        "votes": [(vote, more_said(vote.answer, texts)) for vote in votes],
        "marked": {
            f"marked-{number}": places
            for number, shown in texts.items()
            if (places := painted(marked, number, shown))
        },
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
            # Judgments recorded elsewhere may name a part that FairJudge doesn't know.
            return [(text, "")]
        how = ReplyFormat(output["reply"]) if "reply" in output else None
        mentioned = mentions(text[:MOST_MARKED], variant, reply=how, ids=(first, second))
        pieces = [(piece, names[response - 1] if response else "") for piece, response in mentioned]
        return [*pieces, (text[MOST_MARKED:], "")]

    return MarkedReply(reply, marked(reply.parse.evidence), marked(reply.raw_text))
