"""The form `pointwise`: one response alone, one criterion per call, its expected score.

Each criterion is a part of its own, `item:fluency`. What fills the template's {criteria} is kept
with the run. If no template is named, a criterion gets the prompt that Ohi et al. published for it.
"""

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal, InvalidOperation

from judging.core.errors import UserError
from judging.dataset.models import HumanScore, PointItem
from judging.llm.endpoint import Endpoint
from judging.llm.prompts.templates import JudgeForm, PromptVariant, Scale, Template, UnknownTemplate
from judging.llm.prompts.templates import template as shipped
from judging.projects.models import Project
from judging.runs.templates import choose_template

GENERAL = "ohi-any"
PUBLISHED = "ohi-{}"
LONGEST_CRITERION = 50
MOST_CRITERIA = 50
NO_ITEMS = (
    "Project {} has no single responses yet. Import some first: manage.py import_scores PROJECT "
    "FILE, or the page of scores."
)


# The template, and by criterion what fills its slot {criteria}.
PointwiseWording = tuple[Template, dict[str, str]]


def choose_wording(
    project: Project,
    template: str | Template,
    method: str,
    form: str,
    criteria: str,
    scale: str,
    endpoint: Endpoint,
) -> PointwiseWording:
    """Return the template, and for single responses what is asked about each criterion."""
    if form != JudgeForm.POINTWISE:
        return choose_template(project, template, method, form, local=endpoint.is_local), {}
    named = choose_template(project, template, method, form, local=False) if template else None
    return points_of(project, named, criteria, scale)


def check_subjects(project: Project, form: str) -> None:
    if form == JudgeForm.POINTWISE:
        if not PointItem.objects.filter(project=project).visible().exists():
            raise UserError(NO_ITEMS.format(project.slug))
    elif not project.examples.judged().exists():
        raise UserError(f"Project {project.slug} has no examples yet. Import some first.")


def points_of(
    project: Project, chosen: Template | None, criteria: str, scale: str
) -> PointwiseWording:
    """Return what is asked. Raises UserError if it can't be.

    Args:
        chosen: The template that was named, if any.
    """
    names = named_criteria(project, criteria)
    template = chosen or default_criterion_template(names)
    bounds = read_scale(scale)
    if "criteria" not in template.slots:
        return fixed(template, names, bounds)
    if bounds is not None:
        template = replace(template, scale=bounds)
    low, high = (f"{end.normalize():f}" for end in (template.scale.low, template.scale.high))
    items = {
        name: f"{name[:1].upper()}{name[1:]}: ({low}-{high}) {low} is the lowest score, {high} is "
        "the highest."
        for name in names
    }
    return template, items


def named_criteria(project: Project, criteria: str) -> list[str]:
    """Return the criteria that were named, else those that people scored by."""
    names = [name.strip() for name in criteria.split(",") if name.strip()]
    if not names:
        scored = HumanScore.objects.filter(point_item__project=project)
        names = sorted(set(scored.values_list("criterion", flat=True)))
    if not names:
        raise UserError("Name the criteria: --criteria fluency,correctness. Nothing was started.")
    if too_long := [name for name in names if len(name) > LONGEST_CRITERION]:
        raise UserError(
            f"A criterion has at most {LONGEST_CRITERION} characters, and “{too_long[0][:60]}…” "
            "has more. Nothing was started."
        )
    names = list(dict.fromkeys(names))
    if len(names) > MOST_CRITERIA:
        raise UserError(
            f"A run asks about at most {MOST_CRITERIA} criteria, because each takes a call per "
            f"item, and there are {len(names)}. Name those to ask about. Nothing was started."
        )
    return names


def default_criterion_template(names: Sequence[str]) -> Template:
    """Return the published prompt if there is one criterion that has it, else the general one."""
    if len(names) == 1:
        try:
            return shipped(PUBLISHED.format(names[0].casefold()))
        except UnknownTemplate:
            return shipped(GENERAL)
    return shipped(GENERAL)


def fixed(template: Template, names: Sequence[str], bounds: Scale | None) -> PointwiseWording:
    """Return a template that itself says what is rated, and on which scale."""
    if len(names) > 1:
        raise UserError(
            f"Template {template.name} rates one criterion, and {len(names)} were named. Choose "
            f"one with a slot {{criteria}}, such as {GENERAL}. Nothing was started."
        )
    scale = template.scale
    if bounds is not None and (bounds.low, bounds.high) != (scale.low, scale.high):
        raise UserError(
            f"Template {template.name} asks for {scale.low} to {scale.high}. Choose one with a "
            f"slot {{criteria}}, such as {GENERAL}, for another scale. Nothing was started."
        )
    return template, {names[0]: ""}


def read_scale(text: str) -> Scale | None:
    if not text.strip():
        return None
    ends = text.split(",")
    try:
        low, high = (Decimal(end.strip()) for end in ends)
    except (InvalidOperation, ValueError):
        low = high = Decimal(0)
    # Compare before taking remainders: 1e50 has more digits than a Decimal keeps.
    within = low.is_finite() and high.is_finite() and 0 <= low < high <= 100
    if not within or low % 1 or high % 1:
        raise UserError(
            f"The scale is two whole numbers from 0 to 100, the lowest and the highest, such as "
            f"1,5, not {text[:40]}. Nothing was started."
        )
    return Scale(low, high)


def part_of(criterion: str) -> str:
    return str(PromptVariant(criterion=criterion))


def check_form(form: str, scale: str, shots_from: str, *, shots_random: bool) -> None:
    if shots_random and not shots_from:
        raise UserError("--shots-random goes with --shots-from RUN. Nothing was started.")
    chosen = [name for name, value in (("--scale", scale), ("--shots-from", shots_from)) if value]
    if chosen and form != JudgeForm.POINTWISE:
        raise UserError(
            f"{chosen[0]} is a setting of the form pointwise, and the form is {form}. "
            "Nothing was started."
        )
