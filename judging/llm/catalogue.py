"""The judge templates that ship with FairJudge, by name."""

import tomllib
from collections.abc import Mapping
from decimal import Decimal
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from judging.llm.templating import LIKERT, SCORES, Form, ReplyFormat, Scale, Template

DEFAULT_OF_FORM = {
    Form.SCORE: "faireval-table3",
    Form.RELATION: "portia-table13",
    Form.LIKERT: "portia-table15",
    Form.CHOICE: "calibraeval-default",
    Form.POINTWISE: "ohi-correctness",
}


class UnknownTemplate(LookupError):
    """No template of this name ships with FairJudge."""

    def __init__(self, name: str) -> None:
        super().__init__(f"There is no template {name!r}. The templates are: {', '.join(names())}.")


def names() -> list[str]:
    return list(_catalogue())


def template(name: str) -> Template:
    try:
        return _catalogue()[name]
    except KeyError:
        raise UnknownTemplate(name) from None


def templates_of(form: Form) -> list[Template]:
    return [found for found in _catalogue().values() if found.form is form]


def default_template(form: Form, *, json: bool = False) -> Template:
    """The form's default; `json` gives its JSON twin where it has one."""
    found = template(DEFAULT_OF_FORM[form])
    return template(found.twin) if json and found.twin else found


@cache
def _catalogue() -> Mapping[str, Template]:
    folder = files("judging.llm") / "templates"
    declared = tomllib.loads((folder / "templates.toml").read_text(encoding="utf-8"))
    return MappingProxyType({name: _load(name, entry) for name, entry in declared.items()})


def _load(name: str, entry: Mapping[str, Any]) -> Template:
    folder = files("judging.llm") / "templates"
    texts = [
        (folder / f"{file}.txt").read_text(encoding="utf-8") for file in entry.get("files", [name])
    ]
    form = Form(entry["form"])
    return Template(
        name=name,
        text="".join(texts).removesuffix("\n"),
        form=form,
        reply=ReplyFormat(entry["reply"]),
        scale=_scale(form, entry.get("scale")),
        source=entry["source"],
        twin=entry.get("twin", ""),
        task=entry.get("task", ""),
    )


def _scale(form: Form, bounds: list[int] | None) -> Scale:
    if bounds is None:
        return LIKERT if form is Form.LIKERT else SCORES
    return Scale(Decimal(bounds[0]), Decimal(bounds[1]), whole=form is Form.LIKERT)
