"""Forms of the manager's pages: settings, invitations, decisions, and changes to a round."""

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from functools import partial
from itertools import product
from typing import Any, cast

from django import forms
from django.conf import settings
from django.contrib.auth.forms import UserCreationForm
from django.contrib.auth.models import AbstractUser, User
from django.db import IntegrityError, transaction
from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.functional import lazy
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from annotation.models import Annotator, Round, Team
from annotation.people.annotators import assignable
from annotation.people.invitations import MAX_DAYS, MAX_USES, Terms
from annotation.people.teams import Whom, reachable, read_shares, read_tags, teams_in
from annotation.queue.drafts import label_of
from annotation.rounds.opening import (
    PASS_MARK,
    Practice,
    RoundSettings,
    impossible,
    practice_rounds,
)
from annotation.votes.aside import LONGEST_REASON
from judging.core.errors import Overtaken, UserError
from judging.core.languages import LONGEST_TAG, choices, is_tag, name_of
from judging.core.outbound import LONGEST_URL
from judging.dataset.models import Label
from judging.methods.verdicts.verdicts import plain_number
from judging.projects.access import overtaken, version_of
from judging.projects.accounts import look_alike
from judging.projects.mail import mail_is_configured
from judging.projects.models import AuditEvent, Project, Role
from judging.projects.webhooks import EVENTS

_MOST_CRITERIA = 12
_MOST_TAGS, _LONGEST_TAG = 9, 40
_LONGEST_SHOWN = 60
_WEIGHT = re.compile(r"\d{1,6}(?:\.\d{1,4})?", re.ASCII)
# If one of these is wrong, the others are not compared with it.
_OF_RULE = {"criteria", "criterion_weights", "tie_margin", "both_bad"}
_TAKEN = _lazy("This name is taken. Choose another, or log in with it.")


class LinesField(forms.CharField):
    """Text of several lines. Browsers add carriage returns, which don't count as a change."""

    def widget_attrs(self, widget: forms.Widget) -> dict[str, Any]:
        return super().widget_attrs(widget) | {"dir": "auto"}

    def to_python(self, value: Any) -> str:
        return super().to_python(value).replace("\r\n", "\n")

    def has_changed(self, initial: Any, data: Any) -> bool:
        # Browsers send lines with CRLF, which would make every text look changed.
        return self.to_python(initial) != self.to_python(data)


@dataclass(frozen=True)
class FormText:
    """A text that is translated: its label, and how long it may be."""

    label: str
    rows: int = 2
    longest: int = 100_000


def translations_in_inputs(stored: Mapping[str, Any], parts: Iterable[str]) -> dict[str, str]:
    """Return the inputs of a form that hold these translations, of each language all parts."""
    texts = {}
    for (code, _name), part in product(settings.LANGUAGES, parts):
        text = stored.get(code, {}).get(part, "")
        is_by_name = isinstance(text, Mapping)
        texts[f"translations-{code}-{part}"] = weights_in_lines(text) if is_by_name else text
    return texts


class TranslationsWidget(forms.Widget):
    """Inputs for each language, which open one by one."""

    use_fieldset = True

    def __init__(self, parts: Mapping[str, FormText]) -> None:
        super().__init__()
        self.parts = parts

    def value_from_datadict(self, data: Mapping[str, Any], files: Any, name: str) -> dict[str, str]:
        names = translations_in_inputs({}, self.parts)
        return {
            field_name: str(data.get(field_name) or "").replace("\r\n", "\n").strip()
            for field_name in names
        }

    def value_omitted_from_data(self, data: Mapping[str, Any], files: Any, name: str) -> bool:
        return not any(field_name in data for field_name in translations_in_inputs({}, self.parts))

    def render(
        self, name: str, value: Any, attrs: dict[str, Any] | None = None, renderer: Any = None
    ) -> SafeString:
        languages = []
        for code, own_name in settings.LANGUAGES:
            parts = [
                {
                    "name": (key := f"translations-{code}-{part}"),
                    "id": f"id_{key}",
                    "label": about.label,
                    "rows": about.rows,
                    "text": value.get(key, ""),
                }
                for part, about in self.parts.items()
            ]
            filled = any(part["text"] for part in parts)
            # A fault in a closed part would not be seen.
            is_open = filled and "aria-invalid" in (attrs or {})
            fieldset = {"code": code, "name": own_name, "parts": parts, "filled": filled}
            languages.append(fieldset | {"open": is_open})
        return render_to_string("parts/translations.html", {"languages": languages})


class TranslationsField(forms.Field):
    """Texts in other languages, by language and part. A language without any text is left out."""

    def __init__(self, parts: Mapping[str, FormText], **kwargs: Any) -> None:
        super().__init__(required=False, widget=TranslationsWidget(parts), **kwargs)
        self.parts = parts

    def prepare_value(self, value: Any) -> dict[str, str]:
        """Return the inputs, for what is stored and for what was sent."""
        value = value or {}
        # A form that comes back holds its inputs, not languages.
        if any(key.startswith("translations-") for key in value):
            return cast(dict[str, str], value)
        return translations_in_inputs(value, self.parts)

    def has_changed(self, initial: Any, data: Any) -> bool:
        return self.prepare_value(initial) != self.prepare_value(data)

    def clean(self, value: Any) -> dict[str, dict[str, str]]:
        by_language: dict[str, dict[str, str]] = {}
        for (code, own_name), (part, about) in product(settings.LANGUAGES, self.parts.items()):
            if not (text := value[f"translations-{code}-{part}"]):
                continue
            if len(text) > about.longest or "\x00" in text:
                raise forms.ValidationError(
                    f"{own_name}: {about.label} has at most {about.longest:,} characters, and no "
                    "NUL."
                )
            by_language.setdefault(code, {})[part] = text
        return by_language


_PARTS = {
    "question_asked": FormText("The question asked", longest=300),
    "guidelines": FormText("Guidelines", rows=8),
    "names": FormText("Criteria and reasons, one per line, such as accuracy: Genauigkeit", rows=6),
}
_COST_BASES = (("assumed", "assumed minutes per vote"), ("measured", "measured active time"))


class SettingsForm(forms.ModelForm):
    """What people are asked, how it is merged, and what a vote costs."""

    criteria = LinesField(
        required=False,
        label="Criteria",
        widget=forms.Textarea(attrs={"rows": 4}),
        help_text="One per line, such as helpfulness, relevance, accuracy, level of detail. Each "
        "is asked before the overall question. Leave empty to ask only the overall question.",
    )
    reason_tags = LinesField(
        required=False,
        label="Reasons to choose from",
        widget=forms.Textarea(attrs={"rows": 4}),
        help_text="One per line, such as factual error, better structure, too long. Annotators may "
        "choose any number of them. Leave empty to ask for none.",
    )
    language = forms.ChoiceField(
        required=False,
        choices=lazy(partial(choices, "not stated"), list),
        label="Language of these texts",
        help_text="Pages of annotators are in this language, unless they choose another one. If "
        "it isn't stated, their browsers decide.",
    )
    translations = TranslationsField(
        _PARTS,
        label="The same in other languages",
        help_text="Annotators whose page is in one of these languages read it, all others read "
        "the texts above. Translate everything that is asked, or leave a language empty. Votes "
        "are stored with the names above. A change makes a new protocol.",
    )
    content_language = forms.CharField(
        required=False,
        max_length=LONGEST_TAG,
        label="Language of the questions and responses",
        help_text="A tag such as en, ja or pt-BR, for screen readers. Leave it empty if the "
        "examples are in several languages.",
    )
    criterion_weights = LinesField(
        required=False,
        label="Weights of the criteria",
        widget=forms.Textarea(attrs={"rows": 4, "placeholder": "accuracy: 2\ntone: 1"}),
        help_text="For an overall answer by weights: one criterion per line with its weight, such "
        "as accuracy: 2. A weight of 0 asks the criterion without counting it.",
    )
    tie_margin = forms.DecimalField(
        required=False,
        min_value=0,
        max_digits=10,
        decimal_places=4,
        label="Margin of a tie",
        help_text="For an overall answer by weights: sums of weights that differ by at most this "
        "are a tie.",
    )

    class Meta:
        model = Project
        fields = (
            "name", "description", "question_asked", "guidelines", "scale", "both_bad",
            "cant_judge", "criteria", "overall_from", "criterion_weights", "tie_margin",
            "ask_confidence", "reason_tags", "ask_spans", "language", "translations",
            "content_language", "rendering", "hide_models", "show_reference",
            "no_majority", "label_rule", "leave_out_unblinded", "annotator_advantage", "wage_usd",
            "minutes_per_vote", "cost_basis",
        )  # fmt: skip
        field_classes = {"guidelines": LinesField, "description": LinesField}
        labels = {
            "question_asked": "The question asked",
            "both_bad": "Offer “both are bad” as a choice",
            "cant_judge": "Offer “can't judge” as an answer",
            "ask_confidence": "Ask annotators how sure they are",
            "ask_spans": "Let annotators mark text in the responses",
            "hide_models": "Hide models' names from annotators",
            "show_reference": "Show the reference answer to annotators",
            "overall_from": "The overall answer is",
            "rendering": "Responses are shown as",
            "no_majority": "If votes have no majority",
            "label_rule": "The label of an example is",
            "leave_out_unblinded": "Leave out votes given unblinded",
            "annotator_advantage": "Advantage of the judge for being cheaper, ε",
            "wage_usd": "Wage, USD per hour",
            "minutes_per_vote": "Assumed minutes per vote",
            "cost_basis": "Human cost is based on",
        }
        help_texts = {
            "name": "Annotators see it, so it should name neither model.",
            "guidelines": "Markdown. They open by themselves before an annotator's first pair. "
            "Annotators can open them on every pair.",
            "cant_judge": "Annotators say why in the comment. The answer is paid and counts as "
            "received, but it isn't a label. The majority of the other votes decides, or a person "
            "if there is none.",
            "ask_confidence": "Unsure, fairly sure, or sure. They say it with every vote, "
            "unless they can't judge the pair.",
            "ask_spans": "They select the words that their choice rests on, with the mouse or the "
            "keyboard, in either response. Nobody has to mark anything.",
            "hide_models": "Both models' names are replaced by “[model name hidden]” in both "
            "responses, on the annotators' screen only. Exports keep the texts.",
            "show_reference": "If an example has a reference answer, annotators see it below the "
            "question. It is part of what is asked, so votes given without it don't count for "
            "new rounds.",
            "overall_from": "If it is derived, annotators answer the criteria only, all of them. "
            "Only which response is better counts, so “much better” counts as “better”. Judges "
            "that score the same criteria (form criteria) are merged by the same rule.",
            "label_rule": "A model learns from all votes of the project which annotators err, and "
            "takes the likeliest label. A person's decision stays, and items without a majority "
            "still wait for one if that is the setting above. With a model, no certificate is "
            "issued, because each label depends on the votes on other examples. This takes effect "
            "at once, also in closed rounds, so choose before you look at results.",
            "leave_out_unblinded": "Votes of people who had seen judge output in this project "
            "are kept and their cost counts, but they enter no result and no final label. The "
            "final label is then the majority of the other votes on the item. If they have no "
            "majority, the setting “If votes have no majority” applies, as it was when the round "
            "opened. If there are no "
            "other votes, a person decides. This takes effect at once, also in closed rounds, so "
            "choose before you look at results.",
            "annotator_advantage": "The alternative annotator test asks whether the judge is at "
            "most this much worse than an annotator. Calderon et al. (2025) take 0.2 for experts, "
            "0.15 for skilled annotators, and 0.1 for crowd workers. Set it before people vote: "
            "if it changes later, the report says so.",
            "wage_usd": "7.50 and three minutes are FairEval's figures (footnote 1).",
        }
        widgets = {
            "guidelines": forms.Textarea(attrs={"rows": 12}),
            "description": forms.Textarea(attrs={"rows": 3}),
            "scale": forms.RadioSelect,
            "overall_from": forms.RadioSelect,
            "rendering": forms.RadioSelect,
            "no_majority": forms.RadioSelect,
            "label_rule": forms.RadioSelect,
            "cost_basis": forms.RadioSelect,
        }

    def __init__(self, *args: Any, by: AbstractUser | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.is_bound and "label_rule" not in self.data:
            # A form that was opened or written before there were other rules doesn't send it.
            self.data = self.data.copy()
            self.data["label_rule"] = self.instance.label_rule
        self.by, self.kept = by, set[str]()
        # Which settings the person saw, by which a change of somebody else is noticed.
        self.made_for = _seen(self.data.get("made_for", ""))
        self.before = {name: getattr(self.instance, name) for name in self.fields}
        cast(forms.ChoiceField, self.fields["cost_basis"]).choices = _COST_BASES
        self.initial["criteria"] = "\n".join(self.instance.criteria)
        self.initial["reason_tags"] = "\n".join(self.instance.reason_tags)
        self.initial["criterion_weights"] = weights_in_lines(self.instance.criterion_weights)
        for name in ("wage_usd", "minutes_per_vote", "annotator_advantage", "tie_margin"):
            self.initial[name] = Decimal(f"{self.initial[name].normalize():f}")

    @property
    def version(self) -> str:
        """What the page carries: each setting as it was before this form."""
        return json.dumps({name: version_of(_plain(old)) for name, old in self.before.items()})

    @property
    def chosen(self) -> list[str]:
        """The settings that were changed here, and not by somebody else meanwhile."""
        changed = list(self.changed_data)
        translated = self.cleaned_data.get("translations", self.before["translations"])
        if "translations" not in changed and translated != self.before["translations"]:
            # A criterion that was removed takes its translations along.
            changed.append("translations")
        return [name for name in changed if name not in self.kept]

    def clean(self) -> dict[str, Any]:
        """Keep what somebody else set meanwhile. If it was set here as well, ask which holds."""
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        for name, now in self.before.items():
            seen = self.made_for.get(name)
            if (
                seen in (None, version_of(_plain(now)))
                or name not in cleaned
                or cleaned[name] == now
            ):
                continue
            # Both changed the same setting, so a person decides. Otherwise the other change stays.
            if version_of(_plain(cleaned[name])) != seen:
                self.add_error(name, str(self._overtaken(name)))
                continue
            cleaned[name] = now
            self.kept.add(name)
            # If the form comes back because of another field, it shows what holds now.
            self.data = self.data.copy()
            inputs = {name: str(self.initial[name])}
            if name == "translations":
                inputs = self.fields[name].prepare_value(now)
            for each, text in inputs.items():
                self.data[each] = text
        for name, why in _no_rule(cleaned):
            self.add_error(name, why)
        return cleaned

    def _overtaken(self, name: str) -> Overtaken:
        events = self.instance.audit_events.filter(action="settings changed")
        last = events.filter(detail__has_key=name).order_by("-pk").first()
        if last is None:
            return overtaken("Somebody", None, "changed this", timezone.now())
        return overtaken(last.actor, self.by, f"changed this to “{_said(last, name)}”", last.at)

    def save(self, commit: bool = True) -> Project:
        """Write only what was changed here, since others may change the rest meanwhile."""
        self.instance.save(update_fields=self.chosen)
        return self.instance

    def changes(self) -> dict[str, dict[str, Any]]:
        """Return each changed setting's old and new value, as the audit trail keeps them."""
        now = {name: getattr(self.instance, name) for name in self.chosen}
        return {
            name: {"before": _plain(self.before[name]), "now": _plain(value)}
            for name, value in now.items()
            if value != self.before[name]
        }

    def clean_criteria(self) -> list[str]:
        names = [line.strip() for line in self.cleaned_data["criteria"].splitlines()]
        names = list(dict.fromkeys(name for name in names if name))
        if len(names) > _MOST_CRITERIA:
            raise forms.ValidationError(f"At most {_MOST_CRITERIA} criteria can be asked at once.")
        if any(len(name) > 60 or not name.isprintable() for name in names):
            raise forms.ValidationError("Give each criterion a short name on a line of its own.")
        return names

    def clean_reason_tags(self) -> list[str]:
        names = [" ".join(line.split()) for line in self.cleaned_data["reason_tags"].splitlines()]
        names = list(dict.fromkeys(name for name in names if name))
        if len(names) > _MOST_TAGS:
            raise forms.ValidationError(f"At most {_MOST_TAGS} reasons can be offered.")
        if any(len(name) > _LONGEST_TAG or not name.isprintable() or ";" in name for name in names):
            raise forms.ValidationError(
                f"Give each reason a short name on a line of its own, of at most {_LONGEST_TAG} "
                "characters and without a semicolon."
            )
        return names

    def clean_content_language(self) -> str:
        tag = str(self.cleaned_data["content_language"])
        if tag and not is_tag(tag):
            raise forms.ValidationError("Give a language tag, such as en, ja or pt-BR.")
        return tag

    def clean_translations(self) -> dict[str, dict[str, Any]]:
        """Read names by line. Each language has all that is asked, so that no page mixes two."""
        sent: dict[str, dict[str, Any]] = self.cleaned_data["translations"]
        asked = self.cleaned_data
        if not asked.keys() >= {"criteria", "reason_tags", "question_asked", "guidelines"}:
            return sent
        names = [*asked["criteria"], *asked["reason_tags"]]
        # Lines of names that were removed just now, or earlier by a script, are removed too.
        gone = {*self.before["criteria"], *self.before["reason_tags"]}
        gone |= {
            name
            for translation in self.before["translations"].values()
            for name in translation["names"]
        }
        by_language: dict[str, dict[str, Any]] = {}
        for code, texts in sent.items():
            own_name = name_of(code)
            if code == asked.get("language"):
                raise forms.ValidationError(
                    f"{own_name} is the language of the texts above. Leave it empty here."
                )
            shown = _names_in(own_name, texts.get("names", ""), names, gone)
            lacks = [name for name in names if name not in shown]
            for part in ("question_asked", "guidelines"):
                if bool(asked[part].strip()) != bool(texts.get(part)):
                    lacks.insert(0, _PARTS[part].label)
            if lacks:
                raise forms.ValidationError(
                    f"{own_name} differs from what is asked above in: {', '.join(lacks)}. "
                    "Translate all of it, or leave the language empty."
                )
            by_language[code] = {"question_asked": "", "guidelines": "", **texts, "names": shown}
        return by_language

    def clean_criterion_weights(self) -> dict[str, str]:
        weights: dict[str, str] = {}
        for line in filter(str.strip, self.cleaned_data["criterion_weights"].splitlines()):
            name, _, number = (part.strip() for part in line.rpartition(":"))
            if not name or not _WEIGHT.fullmatch(number):
                raise forms.ValidationError(
                    f"“{line.strip()[:80]}” isn't a weight. Write a criterion, a colon and a "
                    f"number "
                    "from 0 with at most 4 decimals, such as accuracy: 2."
                )
            if name in weights:
                raise forms.ValidationError(f"“{name[:60]}” has two weights. Give it one.")
            weights[name] = plain_number(Decimal(number))
        return weights

    def clean_tie_margin(self) -> Decimal:
        return self.cleaned_data["tie_margin"] or Decimal(0)


def _names_in(
    language: str, lines: str, names: Sequence[str], gone: Collection[str]
) -> dict[str, str]:
    """Return how names are shown, in their order. Raises ValidationError that says what is wrong.

    A name may have a colon, so that the longest one that fits is read.
    """
    texts: dict[str, str] = {}
    for line in filter(None, map(str.strip, lines.splitlines())):
        fits = [name for name in {*names, *gone} if line.startswith(f"{name}:")]
        if not fits:
            raise forms.ValidationError(
                f"{language}: “{line[:80]}” isn't a translation. Write a criterion or a reason as "
                "above, a colon and its translation."
            )
        name = max(fits, key=len)
        shown = " ".join(line.removeprefix(f"{name}:").split())
        if not shown.isprintable() or len(shown) > _LONGEST_SHOWN:
            raise forms.ValidationError(
                f"{language}: give “{name}” a short name of at most {_LONGEST_SHOWN} characters."
            )
        if shown:
            texts[name] = shown
    if len({texts[name] for name in names if name in texts}) < len(texts.keys() & set(names)):
        raise forms.ValidationError(f"{language}: give each criterion and reason its own name.")
    return {name: texts[name] for name in names if name in texts}


def weights_in_lines(weights: Mapping[str, Any]) -> str:
    return "\n".join(f"{name}: {weight}" for name, weight in weights.items())


def _no_rule(chosen: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield why the settings can't derive the overall answer: the setting to change, and why."""
    if not chosen.get("overall_from") or not chosen.keys() >= _OF_RULE:
        return
    criteria, weights = chosen["criteria"], chosen["criterion_weights"]
    if not criteria:
        yield "overall_from", "There are no criteria to derive the overall answer from. Add some."
        return
    if chosen["both_bad"]:
        yield (
            "both_bad",
            "“Both are bad” answers the overall question, which nobody is asked if the answer is "
            "derived. Switch off one of them.",
        )
    if chosen["overall_from"] != Project.OverallFrom.WEIGHTED:
        return
    if missing := [name for name in criteria if name not in weights]:
        yield (
            "criterion_weights",
            f"Give a weight to each criterion. Missing: {', '.join(missing)}.",
        )
    elif unknown := [name for name in weights if name not in criteria]:
        yield "criterion_weights", f"Remove what isn't a criterion: {', '.join(unknown)}."
    elif chosen["tie_margin"] >= sum(map(Decimal, weights.values())):
        yield (
            "tie_margin",
            "Everything would be a tie. Choose a margin below the sum of the weights.",
        )


def _seen(sent: str) -> dict[str, str]:
    """Read a `version`. A form without one asks nothing, as scripts send them."""
    try:
        parsed = json.loads(sent)
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) else {}


def _said(event: AuditEvent, name: str) -> str:
    now = event.detail[name]["now"]
    now = list(map(name_of, now)) if name == "translations" else now
    now = weights_in_lines(now).replace("\n", ", ") if isinstance(now, dict) else now
    text = ", ".join(now) if isinstance(now, list) else str(now)
    return text if len(text) <= 80 else f"{text[:80]} …"


def _plain(value: Any) -> Any:
    return plain_number(value) if isinstance(value, Decimal) else value


class InvitationForm(forms.Form):
    role = forms.ChoiceField(choices=Role, initial=Role.ANNOTATOR, label="They join as")
    uses = forms.IntegerField(
        min_value=1, max_value=MAX_USES, initial=10, label="People who may use the link"
    )
    days = forms.IntegerField(min_value=1, max_value=MAX_DAYS, initial=14, label="Valid for days")
    note = forms.CharField(
        max_length=200,
        required=False,
        label="Note",
        help_text="Only for you, for example who gets the link.",
    )
    mail_to = forms.EmailField(
        max_length=254,
        required=False,
        label="Send it by mail to",
        help_text="One address. FairJudge forgets it once the mail is sent.",
        widget=forms.EmailInput(attrs={"dir": "ltr"}),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not mail_is_configured():
            del self.fields["mail_to"]

    def terms(self) -> Terms:
        return Terms(**{field.name: self.cleaned_data[field.name] for field in fields(Terms)})


class WebhookForm(forms.Form):
    url = forms.CharField(
        max_length=LONGEST_URL,
        label="Address",
        widget=forms.URLInput(attrs={"placeholder": "https://example.org/hook"}),
        help_text="FairJudge sends a POST request there for each event. It must begin with https.",
    )
    events = forms.MultipleChoiceField(
        label="Events",
        choices=[(name, f"{name}: {words}") for name, words in EVENTS.items()],
        initial=list(EVENTS),
        widget=forms.CheckboxSelectMultiple,
    )


class NameTaken(Exception):
    """Somebody else took the name after the form was checked."""


class JoinForm(UserCreationForm):
    """A new login for somebody who joins by an invitation."""

    class Meta:
        model = User
        fields = ("username",)
        help_texts = {
            "username": _lazy("Letters, digits and @ . + - _ only. The project's owners see it.")
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["password1"].help_text = _(
            "At least 8 characters; not a common word or your name."
        )
        self.fields["password2"].help_text = ""

    def clean_username(self) -> str:
        name = self.cleaned_data["username"]
        if look_alike(name):
            raise forms.ValidationError(_TAKEN)
        return name

    def create(self) -> User:
        """Make the login, in a savepoint, so that a taken name does not end the transaction."""
        try:
            with transaction.atomic():
                return self.save()
        except IntegrityError:
            raise NameTaken(_TAKEN) from None


class DecisionForm(forms.Form):
    """A decision by side, as the adjudicator sees the responses; scripts send a label."""

    choice = forms.ChoiceField(
        choices=[("left", "Left is better"), ("tie", "Tie"), ("right", "Right is better")],
        required=False,
        widget=forms.RadioSelect,
        label="Decision",
    )
    label = forms.ChoiceField(choices=Label.choices, required=False, widget=forms.HiddenInput)
    reason = forms.CharField(widget=forms.Textarea(attrs={"rows": 2}), max_length=2000)

    def __init__(self, left_response: int, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.left_response = left_response

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        if choice := data.pop("choice", ""):
            data["label"] = label_of(choice, self.left_response)
        elif not data.get("label") and not self.errors.keys() & {"choice", "label"}:
            self.add_error("choice", "Choose which response is better, or a tie.")
        return data


class VotesForm(forms.Form):
    votes = forms.IntegerField(min_value=2, max_value=99, label="Votes per item")


# Digits of the largest number that fits every column.
LONGEST_KEY = 18


class RowsField(forms.ModelMultipleChoiceField):
    """Rows by their numbers. A number that no column takes is none of them, on SQLite as well."""

    def clean(self, value: Any) -> Any:
        for key in value or ():
            if len(str(key)) > LONGEST_KEY:
                raise forms.ValidationError(
                    self.error_messages["invalid_pk_value"], params={"pk": str(key)[:LONGEST_KEY]}
                )
        return super().clean(value)


class AssignForm(forms.Form):
    """Choosing nobody means everybody, including people who join later."""

    teams = RowsField(
        queryset=Team.objects.none(),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        label="Teams",
        help_text="Everybody in these teams who is in this project gets items. People who join a "
        "team later don't, until you assign again.",
    )
    tags = forms.CharField(
        required=False,
        max_length=400,
        label="Only people with these tags",
        help_text="For example german, medicine. If you chose no team, people of any team who "
        "have all these tags get items. People whom you mark below don't need a tag.",
    )

    people = RowsField(
        queryset=Annotator.objects.none(),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        label="Assign only these people",
        help_text="If you choose nobody here or by a team, tag or share, everybody gets items, "
        "including people who join later.",
    )
    limit = forms.IntegerField(
        min_value=1, max_value=1_000_000, required=False, label="Max items per person"
    )
    shares = LinesField(
        required=False,
        max_length=20_000,
        label="Shares of some people",
        widget=forms.Textarea(attrs={"rows": 3, "placeholder": "ada: 30 %\nben: 40"}),
        help_text="One person per line, with a share of the round's votes or a number of items. "
        "People listed here get items, even if you don't mark them above.",
    )

    def __init__(self, round_: Round, *args: Any, **kwargs: Any) -> None:
        words = round_.parameters.get("assigned") or {}
        seats = [] if round_.open_to_all else round_.seats.filter(annotator__is_crowd=False)
        named = [seat.annotator_id for seat in seats]
        initial = {"people": named, "limit": round_.parameters.get("limit")}
        people = assignable(round_.project)
        if words:
            named = [person.pk for person in people if person.number in words["people"]]
            name_of = {person.number: person.name for person in people}
            initial |= {
                "people": named,
                "teams": [key for key, _ in words["teams"]],
                "tags": ", ".join(words["tags"]),
                "shares": "\n".join(
                    f"{name_of.get(number, number)}: {share}" for number, share in words["shares"]
                ),
            }
        super().__init__(*args, initial=initial, **kwargs)
        self.fields["people"].queryset = people
        usable = teams_in(round_.project)
        self.fields["teams"].queryset = usable
        if not usable:
            del self.fields["teams"], self.fields["tags"]

    def clean_tags(self) -> list[str]:
        return _or_invalid(read_tags, self.cleaned_data["tags"])

    def clean_shares(self) -> Any:
        people = {person.name: person for person in self.fields["people"].queryset}
        return _or_invalid(read_shares, self.cleaned_data["shares"].splitlines(), people)

    def whom(self) -> Whom:
        chosen = self.cleaned_data
        return Whom(
            tuple(chosen.get("teams", ())),
            tuple(chosen.get("tags", ())),
            tuple(chosen["people"]),
            chosen["limit"],
            chosen["shares"],
        )


def _or_invalid(read: Callable[..., Any], *of: Any) -> Any:
    try:
        return read(*of)
    except UserError as error:
        raise forms.ValidationError(str(error)) from None


class TeamPeopleForm(forms.Form):
    """People to put into a team, with the tags that all of them have."""

    people = RowsField(
        queryset=User.objects.none(), widget=forms.CheckboxSelectMultiple, label="People"
    )
    tags = forms.CharField(
        required=False,
        max_length=1_000,
        label="Their tags",
        help_text="Languages and skills, such as german, medicine. You can change them later.",
    )

    def __init__(self, team: Team, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        others = reachable(team.owner).exclude(in_teams__team=team)
        self.fields["people"].queryset = others

    def clean_tags(self) -> list[str]:
        return _or_invalid(read_tags, self.cleaned_data["tags"])


class PracticeForm(forms.Form):
    """A round of training, or a qualification."""

    kind = forms.ChoiceField(
        choices=[(kind, kind.label) for kind in Round.PRACTICE],
        initial=Round.Kind.TRAINING,
        label="What do you open?",
        widget=forms.RadioSelect,
    )
    pairs = forms.IntegerField(
        min_value=1,
        max_value=100_000,
        required=False,
        label="Pairs per person, in each try",
        help_text="If you leave it empty, a training has all its pairs.",
    )
    pass_mark = forms.DecimalField(
        min_value=Decimal("0.01"),
        max_value=100,
        initial=PASS_MARK,
        required=False,
        label="Pass mark of a qualification, percent right",
    )
    tries = forms.IntegerField(
        min_value=1,
        max_value=20,
        initial=1,
        required=False,
        label="Tries at a qualification",
        help_text="Each try has other pairs.",
    )
    after = forms.ModelChoiceField(
        Round.objects.none(), required=False, empty_label="nothing", label="Opens after"
    )

    def __init__(self, project: Project, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.project = project
        self.fields["after"].queryset = practice_rounds(project)

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        if not self.errors:
            for name, why in impossible(self.project, None, self.settings()):
                self.add_error(name if name in self.fields else None, why)
        return data

    def settings(self) -> RoundSettings:
        data = self.cleaned_data
        practice = Practice(data["kind"], data["pairs"])
        if not practice.is_training:
            mark, tries = data["pass_mark"] or PASS_MARK, data["tries"] or 1
            practice = replace(practice, pass_mark=mark, tries=tries)
        return RoundSettings(practice=practice, after=data["after"])


class AsideForm(forms.Form):
    reason = forms.CharField(
        max_length=LONGEST_REASON,
        label="Why do these votes not count?",
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text="Kept in the audit trail, with your name.",
    )
    stop = forms.BooleanField(
        required=False, initial=True, label="Also give this person no more pairs of this round"
    )


class ExtendForm(forms.Form):
    beta = forms.DecimalField(min_value=0, max_value=100, label="New share to review (β), percent")


class ConfirmForm(forms.Form):
    """Confirm a destructive step by typing the name of what it destroys."""

    confirm = forms.CharField(required=False)

    def __init__(self, expected: str, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.expected = expected

    def clean_confirm(self) -> str:
        typed = re.sub(r"\s+", " ", self.cleaned_data["confirm"]).strip()
        if typed != self.expected:
            raise forms.ValidationError(f"Type “{self.expected}” to confirm. Nothing was deleted.")
        return typed
