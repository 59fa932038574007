"""Judge templates: a run's own copy, and a project's templates, kept in versions.

A run's template is chosen once, kept with the run, and never looked up again. A project's own
templates are tried out before they are kept.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, Self

from django.db.models import Max, OuterRef, QuerySet
from django.utils import timezone

from judging.core.errors import UserError
from judging.core.models import count_of
from judging.dataset.models import Example, Label
from judging.dataset.subsets import Subset
from judging.llm.own_templates import TemplateRefused, read_template
from judging.llm.parsing.parse import JudgeReading, parse, turn_back
from judging.llm.prompts.marks import fold
from judging.llm.prompts.templates import (
    BY_ONE_TOKEN,
    LEAST_MASS,
    ORDERS,
    JudgeForm,
    NoResponseBlocks,
    ReplyFormat,
    Scale,
    Shot,
    TaughtPairs,
    Template,
    UnknownTemplate,
    default_template,
    render,
    reply_schema,
    response_blocks,
    solved_pairs,
    template,
)
from judging.llm.prompts.templates import names as catalogue_names
from judging.methods.verdicts.verdicts import CriteriaRule
from judging.projects import access
from judging.projects.models import Project
from judging.runs.models import JudgeTemplate, Method, Run, Subject

# FairEval's Table 1 asks for the scores first, which is what VANILLA is.
VANILLA_TEMPLATE = "faireval-table1"


def template_from(path: Path) -> Template:
    """Read a template from a TOML file; it is named after the file.

    Raises UserError with everything that is wrong with it.
    """
    try:
        return read_template(path.stem, path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise UserError(f"{path} can't be read: {reason}. Nothing was started.") from None
    except TemplateRefused as refused:
        raise UserError(f"{path} is no judge template. {refused} Nothing was started.") from None


def choose_template(
    project: Project, name: str | Template, method: str, form: str, *, local: bool
) -> Template:
    """Return the named template of project or catalogue, else the default of method and form."""
    if isinstance(name, Template):
        return of_form(name, form)
    if not name:
        if method == Method.VANILLA and form == JudgeForm.SCORE:
            return template(VANILLA_TEMPLATE)
        return default_template(JudgeForm(form), json=local)
    # A project's own version comes first. A shipped name can't be taken, so no run changes by it.
    own = current(project, name)
    try:
        return of_form(template_in(own) if own else template(name), form)
    except UnknownTemplate as error:
        raise UserError(f"{error} Nothing was started.") from None


def of_form(chosen: Template, form: str) -> Template:
    if chosen.form != form:
        raise UserError(
            f"Template {chosen.name} asks for the form {chosen.form}, and the run for {form}. "
            "Choose another template or another form."
        )
    return chosen


def chosen_criteria(project: Project, chosen: Template, criteria: str) -> str:
    """Return what fills {criteria}: the run's own, else the criteria that people rate by."""
    if "criteria" not in chosen.slots:
        if criteria:
            raise UserError(
                f"Template {chosen.name} has no slot {{criteria}} for them. Nothing was started."
            )
        return ""
    if chosen.criteria:
        return listed_criteria(chosen.criteria)
    text = criteria.strip() or criteria_of(project)
    if not text:
        raise UserError(
            f"Template {chosen.name} asks for criteria, and there are none. Give them with the "
            "run, or in the project's settings. Nothing was started."
        )
    return text


MOST_CRITERIA, LONGEST_CRITERION = 12, 60


def with_criteria(project: Project, chosen: Template, criteria: str) -> Template:
    """Return a template of the form criteria with what is scored, by default what people answer.

    If people's overall answer is derived from these criteria, so is the judge's verdict.
    """
    if chosen.form is not JudgeForm.CRITERIA:
        return chosen
    lines = criteria.splitlines() if "\n" in criteria.strip() else criteria.split(",")
    named = [line.strip().removeprefix("- ").strip() for line in lines]
    names = list(dict.fromkeys(filter(None, named))) or list(project.criteria)
    if not names:
        raise UserError(
            "The form criteria asks about criteria, and there are none. Give them with the run, or "
            "in the project's settings. Nothing was started."
        )
    # Replies are compared without regard to case, so such names could not be told apart.
    if len({fold(name) for name in names}) < len(names):
        raise UserError(
            "Two criteria have names that differ only in upper and lower case. Nothing was started."
        )
    if len(names) > MOST_CRITERIA or max(map(len, names)) > LONGEST_CRITERION:
        raise UserError(
            f"A run scores {MOST_CRITERIA} criteria at most, each with a name of "
            f"{LONGEST_CRITERION} characters at most. Nothing was started."
        )
    rule = project.criteria_rule
    # The protocol says nothing about other criteria: then the means decide.
    applies = rule is not None and set(rule.criteria) <= set(names)
    return replace(chosen, criteria=tuple(names), rule=rule if applies else None)


FIRST_IDS = 5


def check_references(chosen: Template, examples: QuerySet[Any]) -> None:
    """Raise UserError if the template shows reference answers and an example has none."""
    if "reference" not in chosen.slots:
        return
    # Checked for all before the start: an empty reference would be judged like a real one.
    lacking = examples.filter(reference="").order_by("number", "pk")
    if ids := list(lacking.values_list("external_id", flat=True)[:FIRST_IDS]):
        n = lacking.count()
        have = "1 example has" if n == 1 else f"{n} examples have"
        raise UserError(
            f"Template {chosen.name} shows the reference answer, and {have} none: "
            f"{', '.join(ids)}{' and others' if n > len(ids) else ''}. Nothing was started. Choose "
            "another template, or import these examples with a reference answer into a new project."
        )


def with_schema(chosen: Template, enforced: bool | None) -> Template:
    """Return a template whose replies an endpoint holds to a JSON schema, or doesn't."""
    if enforced and chosen.form in BY_ONE_TOKEN:
        raise UserError(
            f"The form {chosen.form} is answered by one token, so no JSON schema fits. Nothing was "
            "started. Leave the JSON schema out."
        )
    return replace(chosen, enforced=enforced)


def criteria_of(project: Project) -> str:
    """Return the criteria that people rate by, one per line."""
    return listed_criteria(project.criteria)


def listed_criteria(names: Iterable[str]) -> str:
    return "\n".join(f"- {name}" for name in names)


def kept_fields(chosen: Template, max_tokens: int) -> dict[str, Any]:
    """Return the fields of a Run that hold its template."""
    return {
        "template_name": chosen.name,
        "template_text": chosen.text,
        "template_hash": chosen.sha256,
        "template_source": chosen.source,
        "schema": reply_schema(chosen, max_tokens) if chosen.has_schema else None,
    }


def output_of(chosen: Template) -> dict[str, Any]:
    """Return as JSON how replies are read."""
    scale = chosen.scale
    # Only of this form, so that the hashes of versions of other templates stay.
    asked: dict[str, Any] = {"criteria": list(chosen.criteria)} if chosen.criteria else {}
    asked |= {"rule": chosen.rule.to_json()} if chosen.rule else {}
    asked |= {} if chosen.enforced is None else {"enforced": chosen.enforced}
    asked |= {"lesson": chosen.lesson.to_json()} if chosen.lesson else {}
    return asked | {
        "reply": chosen.reply.value,
        "scale": [str(scale.low), str(scale.high), scale.whole],
        "ids": list(chosen.ids),
        "task": chosen.task,
        "band": str(chosen.band),
        "least_mass": chosen.least_mass,
    }


def template_of(run: Run) -> Template:
    """Return the run's own copy of its template."""
    output = run.parameters["output"]
    if run.endpoint == "local":
        # The small local model mostly means other words, so any share of what it wrote counts.
        output = {"least_mass": 0.0} | output
    return restored(run.template_name, run.template_text, run.form, output)


def restored(name: str, text: str, form: str, output: dict[str, Any]) -> Template:
    # What a run of an earlier release doesn't say keeps the template's default.
    optional: dict[str, Any] = {}
    if "scale" in output:
        low, high, whole = output["scale"]
        optional["scale"] = Scale(Decimal(low), Decimal(high), bool(whole))
    if "ids" in output:
        first, second = output["ids"]
        optional["ids"] = (first, second)
    if "band" in output:
        optional["band"] = Fraction(output["band"])
    if "least_mass" in output:
        optional["least_mass"] = float(output["least_mass"])
    optional["enforced"] = output.get("enforced")
    optional["lesson"] = TaughtPairs.from_json(output["lesson"]) if "lesson" in output else None
    if "criteria" in output:
        optional["criteria"] = tuple(output["criteria"])
        optional["rule"] = CriteriaRule.from_json(output.get("rule", {}))
    return Template(
        name=name,
        text=text,
        form=JudgeForm(form),
        reply=ReplyFormat(output["reply"]),
        task=output.get("task", ""),
        **optional,
    )


BETTER = {Label.WIN.value: 1, Label.LOSE.value: 2, Label.TIE.value: 0}


@dataclass(frozen=True, slots=True)
class SolvedPairs:
    """The solved pairs of a taught template, with their texts.

    sets: one for all prompts, or one for each simulated annotator.
    """

    shown: int = 0
    sets: tuple[tuple[tuple[Example, int], ...], ...] = ((),)
    simulated: bool = False

    @classmethod
    def of(cls, taught: Template) -> Self:
        """Find the solved pairs of a template. Raises UserError if one has left the project."""
        lesson = taught.lesson
        if lesson is None:
            return cls()
        sets = lesson.annotators or (lesson.pairs,)
        keys = {key for own in sets for key, _ in own}
        examples = Example.objects.in_bulk(keys)
        if len(examples) < len(keys):
            raise UserError(
                f"A solved pair that template {taught.name} shows is no longer in the project. "
                "Answers given with and without it are never mixed: teach the judge again."
            )
        shots = (tuple((examples[key], BETTER[label]) for key, label in own) for own in sets)
        return cls(lesson.shown, tuple(shots), bool(lesson.annotators))

    def before(self, example: Subject, part: str, slot: int = 0) -> str:
        """Return what is shown before this example: never itself, or one with its question.

        Args:
            slot: The place of the sample in its order, and so which annotator is simulated.
        """
        others = [
            Shot(shot.question, shot.response_1, shot.response_2, better, shot.reference)
            for shot, better in self.sets[slot % len(self.sets)]
            if shot.pk != example.pk and shot.question != getattr(example, "question", None)
        ]
        # The pattern of sides is turned for every other example, and for every other annotator, so
        # that no place favours a side.
        place = (getattr(example, "number", None) or 0) + (slot if self.simulated else 0)
        return solved_pairs(
            others[: self.shown], part, first=place % 2 == 0, by_one_person=self.simulated
        )


def untaught(project: Project, subset: Subset, chosen: Template) -> Subset:
    """Return the examples that a run with this template is about: labels of others taught it."""
    lesson = chosen.lesson or lesson_of(project, chosen)
    return replace(subset, without=tuple(sorted(lesson.taught))) if lesson else subset


# Shown if the project has no example yet.
PLACEHOLDER = Example(
    question="What is the capital of France?",
    response_1="It is Paris. Paris lies on the Seine.",
    response_2="Lyon, I think.",
    reference="Paris.",
)
MOST_VERSIONS = 200


@dataclass(frozen=True, slots=True)
class TemplateTrial:
    """The messages of one call, and what is read in a reply to it.

    `first`, `second`: the reading if response 1 was shown first, and if it was shown second.
    `whole`: why PORTIA can't show responses in parts; empty if it can.
    `has_reply`: False for a template that was made without a sample reply.
    """

    messages: tuple[str, ...]
    first: JudgeReading
    second: JudgeReading
    whole: str
    has_reply: bool = True


def try_out(project: Project, template: Template, sample_reply: str) -> TemplateTrial:
    """Fill the template with the project's first example. Nothing is sent."""
    example = project.examples.judged().order_by("number", "pk").first() or PLACEHOLDER
    texts = example.question, example.response_1, example.response_2
    messages = render(
        template,
        *texts,
        "original",
        reference=example.reference,
        conversation=example.conversation,
        criteria=criteria_of(project) or "(the criteria that the run names)",
        taught=SolvedPairs.of(template).before(example, "original"),
    )
    # Quotations are told apart in a trial as in a run, so that the reading is the same.
    parsed = parse(template, sample_reply, "stop", quoted=[text for text in texts if text])
    first, second = (turn_back(parsed, template, part) for part in ORDERS)
    return TemplateTrial(
        tuple(message.content for message in messages),
        first,
        second,
        whole(template),
        bool(sample_reply.strip()),
    )


def whole(template: Template) -> str:
    try:
        response_blocks(template)
    except NoResponseBlocks as error:
        return str(error)
    return ""


def newest_version(project: Project) -> int:
    """Return what the form of a template carries: nothing after it was written when it was made."""
    newest = JudgeTemplate.objects.filter(project=project).aggregate(newest=Max("pk"))["newest"]
    return newest or 0


def keep(
    project: Project,
    user: Any,
    template: Template,
    sample_reply: str,
    *,
    made_for: int | None = None,
) -> JudgeTemplate:
    """Keep a new version under the template's name, or return the current one if it is the same.

    Raises UserError for a name of the catalogue, and if an older version is the same.

    Args:
        made_for: `newest_version` when the form was made. Raises Overtaken if the name has got
            another version since.
    """
    if template.name in catalogue_names():
        raise UserError(f"{template.name} ships with FairJudge. Choose another name.")
    if template.lesson is None:
        # A text that labels taught stays taught, however it is edited.
        template = replace(template, lesson=lesson_of(project, template))
    output = output_of(template)
    digest = version_hash(template.text, output)
    output["sample_reply"] = sample_reply
    now = current(project, template.name)
    if made_for is not None and now is not None and now.pk > made_for and now.sha256 != digest:
        by = now.created_by.get_username() if now.created_by else "Somebody"
        did = f"wrote a version of {template.name}"
        raise access.overtaken(by, user, did, now.created_at)
    # The hash makes the same text one version, however often it is saved.
    version, created = JudgeTemplate.objects.get_or_create(
        project=project,
        name=template.name,
        sha256=digest,
        defaults={
            "form": template.form.value,
            "text": template.text,
            "output": output,
            "created_by": user,
        },
    )
    if created:
        access.record_event(
            project, user, "judge template written", template.name, version=version.pk
        )
    elif version.retired_at or version != current(project, template.name):
        raise UserError(
            f"An earlier version of {template.name} is the same. Nothing was changed. To use it, "
            "restore it and retire the later ones."
        )
    return version


def version_hash(text: str, output: dict[str, Any]) -> str:
    """Return the hash of the text and of how replies are read.

    What the versions of earlier releases don't say is left out, so that their hashes stay.
    """
    if output.get("least_mass") == LEAST_MASS:
        output = {name: value for name, value in output.items() if name != "least_mass"}
    return hashlib.sha256(json.dumps([text, output], sort_keys=True).encode()).hexdigest()


def current(project: Project, name: str) -> JudgeTemplate | None:
    """Return the version that the name means in a new run."""
    own = JudgeTemplate.objects.filter(project=project, name=name, retired_at=None)
    return own.order_by("-pk").first()


def simulating(project: Project, name: str) -> dict[str, Any]:
    """Return the settings of a run if the template of this name simulates annotators."""
    version = current(project, name)
    annotators = version.output.get("lesson", {}).get("annotators", ()) if version else ()
    if not annotators:
        return {}
    return {"method": Method.MEC_BPC, "k": len(annotators), "adaptive": None}


def lesson_of(project: Project, chosen: Template) -> TaughtPairs | None:
    """Return what the newest version of its name was taught, retired or not, or else its text.

    A taught text may come back under another name, or in a file. A text that is also there
    untaught was taught by solved pairs alone, which don't come with it.
    """
    versions = JudgeTemplate.objects.filter(project=project).order_by("-pk")
    own = versions.filter(name=chosen.name).first()
    if own is not None and (lesson := template_in(own).lesson):
        return lesson
    same = versions.filter(text=chosen.text)
    taught = same.filter(output__has_key="lesson").first()
    if taught is None or same.exclude(output__has_key="lesson").exists():
        return None
    is_shipped = any(template(name).text == chosen.text for name in catalogue_names())
    return None if is_shipped else template_in(taught).lesson


def set_retired(version: JudgeTemplate, user: Any, *, retired: bool) -> None:
    """Retire or restore a version. Runs keep their own copy, so nothing that was judged changes."""
    same = JudgeTemplate.objects.filter(pk=version.pk, retired_at__isnull=retired)
    if same.update(retired_at=timezone.now() if retired else None):
        event = "judge template retired" if retired else "judge template restored"
        access.record_event(version.project, user, event, version.name, version=version.pk)


def versions(project: Project, name: str = "") -> list[JudgeTemplate]:
    """Return the newest versions first, each with `n_runs`, the number of runs that used it."""
    # By the text: runs keep a copy of it, and an edited version is another text.
    used = Run.objects.filter(
        project=project, template_name=OuterRef("name"), template_text=OuterRef("text")
    )
    kept = JudgeTemplate.objects.filter(project=project, **({"name": name} if name else {}))
    kept = kept.annotate(n_runs=count_of(used, "project"))
    return list(kept.select_related("created_by").order_by("name", "-pk")[:MOST_VERSIONS])


@dataclass(frozen=True, slots=True)
class OwnTemplate:
    """A name of the project: its versions, the newest first, and the one in use."""

    name: str
    versions: tuple[JudgeTemplate, ...]
    current: JudgeTemplate | None


def own_templates(project: Project) -> Iterator[OwnTemplate]:
    by_name: dict[str, list[JudgeTemplate]] = {}
    for version in versions(project):
        by_name.setdefault(version.name, []).append(version)
    for name, kept in by_name.items():
        in_use = next((version for version in kept if version.retired_at is None), None)
        yield OwnTemplate(name, tuple(kept), in_use)


def template_in(version: JudgeTemplate) -> Template:
    return restored(version.name, version.text, version.form, version.output)
