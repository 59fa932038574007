"""The template of a run: chosen once, kept with the run, and never looked up again."""

from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from judging.errors import UserError
from judging.llm.catalogue import UnknownTemplate, default_template, template
from judging.llm.custom import TemplateRefused, read_template
from judging.llm.schemas import reply_schema
from judging.llm.templating import Form, ReplyFormat, Scale, Template
from judging.models.endpoints import JudgeTemplate
from judging.models.projects import Project
from judging.models.runs import Method, Run

# FairEval's Table 1 asks for the scores first, which is what VANILLA is.
VANILLA_TEMPLATE = "faireval-table1"


def template_from(path: Path) -> Template:
    """An operator's own, from a TOML file: form, reply, text, and where they matter scale and ids.

    Named for the file. Raises UserError, with all that is wrong with it.
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
    """The named template of the project or the catalogue, else the default of method and form."""
    if isinstance(name, Template):
        return of_form(name, form)
    if not name:
        if method == Method.VANILLA and form == Form.SCORE:
            return template(VANILLA_TEMPLATE)
        return default_template(Form(form), json=local)
    kept = JudgeTemplate.objects.filter(project=project, name=name, retired_at=None)
    own = kept.order_by("-pk").first()
    try:
        found = restored(own.name, own.text, own.form, own.output) if own else template(name)
    except UnknownTemplate as error:
        raise UserError(f"{error} Nothing was started.") from None
    return of_form(found, form)


def of_form(found: Template, form: str) -> Template:
    if found.form != form:
        raise UserError(
            f"Template {found.name} asks for the form {found.form}, and the run for {form}. "
            "Choose another template or another form."
        )
    return found


def chosen_criteria(project: Project, chosen: Template, criteria: str) -> str:
    """What fills {criteria}: what this run says, else the criteria that people rate by."""
    if "criteria" not in chosen.slots:
        if criteria:
            raise UserError(
                f"Template {chosen.name} has no slot {{criteria}} for them. Nothing was started."
            )
        return ""
    text = criteria.strip() or criteria_of(project)
    if not text:
        raise UserError(
            f"Template {chosen.name} asks for criteria, and there are none. Give them with the "
            "run, or in the project's settings. Nothing was started."
        )
    return text


def criteria_of(project: Project) -> str:
    """The criteria that people rate by, one a line."""
    return "\n".join(f"- {name}" for name in project.criteria)


def kept_fields(chosen: Template, max_tokens: int) -> dict[str, Any]:
    """The fields of a Run that hold its template whole."""
    in_json = chosen.reply is ReplyFormat.SCORE_JSON
    return {
        "template_name": chosen.name,
        "template_text": chosen.text,
        "template_hash": chosen.sha256,
        "template_source": chosen.source,
        "schema": reply_schema(chosen, max_tokens) if in_json else None,
    }


def output_of(chosen: Template) -> dict[str, Any]:
    """How replies are read, as JSON."""
    scale = chosen.scale
    return {
        "reply": chosen.reply.value,
        "scale": [str(scale.low), str(scale.high), scale.whole],
        "ids": list(chosen.ids),
        "task": chosen.task,
        "band": str(chosen.band),
    }


def template_of(run: Run) -> Template:
    """The run's own copy."""
    output = run.parameters["output"]
    return restored(run.template_name, run.template_text, run.form, output)


def restored(name: str, text: str, form: str, output: dict[str, Any]) -> Template:
    optional: dict[str, Any] = {}
    if "scale" in output:
        low, high, whole = output["scale"]
        optional["scale"] = Scale(Decimal(low), Decimal(high), bool(whole))
    if "ids" in output:
        first, second = output["ids"]
        optional["ids"] = (first, second)
    if "band" in output:
        optional["band"] = Fraction(output["band"])
    return Template(
        name=name,
        text=text,
        form=Form(form),
        reply=ReplyFormat(output["reply"]),
        task=output.get("task", ""),
        **optional,
    )
