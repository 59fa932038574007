"""Every part of a page with invented content, ordinary and hostile, to be looked at and tested."""

from datetime import UTC, datetime
from decimal import Decimal
from types import SimpleNamespace

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import include, path

from annotation.rendering import render as rendered
from judging.core.glossary import GLOSSARY

HOSTILE = "<script>window.fired = 1</script><img src=x onerror='window.fired = 1'> \u202eevil\u202c"
LONG_WORD = "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft" * 2
ARABIC = "كيف يمكنني تحسين مهارات إدارة الوقت؟ (FairEval, 2023)"
PROJECT = SimpleNamespace(slug="vicuna-80", name="Vicuna 80")
ROWS = [
    ("generic-1", "How can I improve my time management skills?", "generic", "win", 0.0, 8.5, 6.17),
    ("fermi-3", HOSTILE, "fermi", "tie", 1.0986, 7.0, 7.0),
    ("writing-12", LONG_WORD, "writing", "lose", 0.6365, 5.25, 8.0),
    ("common-4", ARABIC, "common-sense", "win", 0.6931, 8.0, 7.5),
    ("=cmd|' /C calc'!A0", "x " * 300, "", None, None, None, None),
]
RESPONSE = (
    """Here are **five ways** to manage your time better:

1. Write down everything that you have to do, and when it is due.
2. Do the important thing first, before you read your mail.
3. Say no to what is neither important nor yours.

```python
for task in sorted(tasks, key=deadline):
    work_on(task)  # a line that is longer than its column and has to scroll within a box of its own
```

| Method | Minutes |
|---|---|
| Pomodoro | 25 |

$$\\frac{a + b}{2}$$

"""
    + "A plan that is looked at once a day is worth more than a perfect one that is not.\n\n" * 20
)
THREE = [
    SimpleNamespace(value="left", text="Left is better", keys=("1", "A")),
    SimpleNamespace(value="tie", text="Tie", keys=("0", "T")),
    SimpleNamespace(value="right", text="Right is better", keys=("2", "B")),
]
FIVE = [
    SimpleNamespace(value="left_much", text="Left is much better", keys=("1",)),
    SimpleNamespace(value="left", text="Left is better", keys=("2",)),
    SimpleNamespace(value="tie", text="Tie", keys=("3", "T")),
    SimpleNamespace(value="right", text="Right is better", keys=("4",)),
    SimpleNamespace(value="right_much", text="Right is much better", keys=("5",)),
    SimpleNamespace(value="both_bad", text="Both are bad", keys=("X",)),
]


class RunForm(forms.Form):
    name = forms.CharField(help_text="Shown in tables and exports.", initial="GPT-4, MEC + BPC")
    endpoint = forms.ChoiceField(choices=[("local", "local"), ("default", "default")])
    k = forms.IntegerField(label="Samples in each order (k)", min_value=1, max_value=9)
    budget = forms.DecimalField(required=False, help_text="In USD. The run pauses before it.")
    method = forms.ChoiceField(
        widget=forms.RadioSelect,
        choices=[("mec", "MEC: evidence first"), ("mec_bpc", "MEC + BPC: in both orders")],
    )
    adaptive = forms.BooleanField(required=False, label="Stop early where the judge is certain")
    guidelines = forms.CharField(widget=forms.Textarea(attrs={"rows": 3}), required=False)
    file = forms.FileField(required=False)

    def clean(self) -> None:
        raise forms.ValidationError("No price is known for this model, so no budget can be kept.")


@login_not_required
def parts(request: HttpRequest) -> HttpResponse:
    messages.success(request, "24 pairs were imported. Nothing was refused.")
    messages.error(request, f"The file {HOSTILE} could not be read. Nothing was stored.")
    form = RunForm({"name": "", "endpoint": "local", "k": "12", "method": "mec"})
    context = {
        "project": PROJECT,
        "tab": "examples",
        "rows": ROWS,
        "form": form,
        "page": Paginator(range(12_345), 50).page(3),
        "when": datetime(2026, 3, 1, 12, 30, tzinfo=UTC),
        "money": [Decimal("1234.5"), Decimal("0.0031"), Decimal(0), None],
        "measured": {"value": 0.732, "low": 0.691, "high": 0.771, "n": 80},
        "undefined": {"value": None, "reason": "people saw only the contested examples"},
        "hostile": HOSTILE,
    }
    return render(request, "gallery/parts.html", context)


@login_not_required
def overview(request: HttpRequest) -> HttpResponse:
    return render(request, "gallery/overview.html", {"project": PROJECT, "tab": "overview"})


@login_not_required
def run(request: HttpRequest) -> HttpResponse:
    context = {"project": PROJECT, "tab": "runs", "evidence": [HOSTILE, ARABIC]}
    return render(request, "gallery/run.html", context)


@login_not_required
def screen(request: HttpRequest, scale: str) -> HttpResponse:
    choices = FIVE if scale == "five" else THREE
    context = {
        "where": "Vicuna 80 · round 2",
        "done": 12,
        "total": 16,
        "token": "token",
        "pair": SimpleNamespace(
            question=rendered("How can I improve my time management skills?"),
            left=rendered(RESPONSE),
            right=rendered(HOSTILE),
        ),
        "guidelines": "Judge the answer, not its length.",
        "question_asked": "Which response answers the question better?",
        "choices": choices,
        "n_choices": len(choices),
        "criteria": ["Helpfulness", "Accuracy", "Level of detail"] if scale == "five" else [],
        "criterion_choices": FIVE[:5],
        "draft": {"overall": "left", "comment": ""},
        "back_url": "/back",
        "skip_url": "/skip",
    }
    return render(request, "annotation/screen/screen.html", context)


@login_not_required
def nothing(request: HttpRequest) -> HttpResponse:
    context = {
        "where": "Vicuna 80 · round 2",
        "done": 16,
        "total": 16,
        "title": "Nothing to label at the moment",
        "text": "The last three pairs are in work by others.",
        "until": datetime(2026, 3, 1, 12, 30, tzinfo=UTC),
    }
    return render(request, "annotation/screen/nothing.html", context)


@login_not_required
def glossary(request: HttpRequest) -> HttpResponse:
    return render(request, "glossary.html", {"terms": GLOSSARY.values()})


@login_not_required
def error(request: HttpRequest, code: str) -> HttpResponse:
    return render(request, f"{code}.html")


urlpatterns = [
    path("gallery/parts", parts),
    path("gallery/overview", overview),
    path("gallery/run", run),
    path("gallery/screen/<scale>", screen),
    path("gallery/nothing", nothing),
    path("gallery/glossary", glossary),
    path("gallery/error/<code>", error),
    path("", include("fairjudge_site.urls")),
]
