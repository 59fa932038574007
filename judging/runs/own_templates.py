"""A project's own judge templates: tried out before they are kept, and kept in versions."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.db.models import OuterRef
from django.utils import timezone

from judging import audit
from judging.counted import count_of
from judging.errors import UserError
from judging.llm.catalogue import names as catalogue_names
from judging.llm.parsing import Reading, parse, turn_back
from judging.llm.prompts import NoResponseBlocks, render, response_blocks
from judging.llm.templating import Template
from judging.models.endpoints import JudgeTemplate
from judging.models.examples import Example
from judging.models.projects import Project
from judging.models.runs import Run
from judging.runs.wording import criteria_of, output_of, restored

# Shown where the project has no example yet.
PLACEHOLDER = Example(
    question="What is the capital of France?",
    response_1="It is Paris. Paris lies on the Seine.",
    response_2="Lyon, I think.",
    reference="Paris.",
)
MOST_VERSIONS = 200


@dataclass(frozen=True, slots=True)
class Trial:
    """The messages of one call, and what is read in a reply to it.

    `first`, `second`: the reading where response 1 was shown first, and where it was second.
    `whole`: why PORTIA could not show responses in parts; empty where it can.
    """

    messages: tuple[str, ...]
    first: Reading
    second: Reading
    whole: str


def try_out(project: Project, template: Template, sample_reply: str) -> Trial:
    """On the project's first example; nothing is sent."""
    example = project.examples.judged().order_by("number", "pk").first() or PLACEHOLDER
    texts = example.question, example.response_1, example.response_2
    messages = render(
        template,
        *texts,
        "original",
        reference=example.reference,
        criteria=criteria_of(project) or "(the criteria that the run names)",
    )
    parsed = parse(template, sample_reply, "stop", quoted=[text for text in texts if text])
    first, second = (turn_back(parsed, template, part) for part in ("original", "swapped"))
    return Trial(tuple(message.content for message in messages), first, second, whole(template))


def whole(template: Template) -> str:
    try:
        response_blocks(template)
    except NoResponseBlocks as error:
        return str(error)
    return ""


def keep(project: Project, user: Any, template: Template, sample_reply: str) -> JudgeTemplate:
    """A new version under the template's name. What is the same as an earlier one is that one.

    Raises UserError for a name of the catalogue, and where a later version stands before it.
    """
    if template.name in catalogue_names():
        raise UserError(f"{template.name} ships with FairJudge. Choose another name.")
    output = output_of(template)
    digest = version_hash(template.text, output)
    output["sample_reply"] = sample_reply
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
        audit.record(project, user, "judge template written", template.name, version=version.pk)
    elif version.retired_at or version != current(project, template.name):
        raise UserError(
            f"An earlier version of {template.name} is the same. Nothing was changed. To use it, "
            "restore it and retire the later ones."
        )
    return version


def version_hash(text: str, output: dict[str, Any]) -> str:
    """Of the text and of how replies to it are read."""
    return hashlib.sha256(json.dumps([text, output], sort_keys=True).encode()).hexdigest()


def current(project: Project, name: str) -> JudgeTemplate | None:
    """What the name stands for in a new run."""
    own = JudgeTemplate.objects.filter(project=project, name=name, retired_at=None)
    return own.order_by("-pk").first()


def set_retired(version: JudgeTemplate, user: Any, *, retired: bool) -> None:
    """Runs keep their own copy, so that neither changes anything that was judged."""
    same = JudgeTemplate.objects.filter(pk=version.pk, retired_at__isnull=retired)
    if same.update(retired_at=timezone.now() if retired else None):
        said = "judge template retired" if retired else "judge template restored"
        audit.record(version.project, user, said, version.name, version=version.pk)


def versions(project: Project, name: str = "") -> list[JudgeTemplate]:
    """The newest first, each with the number of runs that used its text: `n_runs`."""
    used = Run.objects.filter(
        project=project, template_name=OuterRef("name"), template_text=OuterRef("text")
    )
    found = JudgeTemplate.objects.filter(project=project, **({"name": name} if name else {}))
    found = found.annotate(n_runs=count_of(used, "project"))
    return list(found.select_related("created_by").order_by("name", "-pk")[:MOST_VERSIONS])


@dataclass(frozen=True, slots=True)
class Own:
    """A name of the project: its versions, the newest first, and the one that it stands for."""

    name: str
    versions: tuple[JudgeTemplate, ...]
    current: JudgeTemplate | None


def own_templates(project: Project) -> Iterator[Own]:
    by_name: dict[str, list[JudgeTemplate]] = {}
    for version in versions(project):
        by_name.setdefault(version.name, []).append(version)
    for name, found in by_name.items():
        standing = next((one for one in found if one.retired_at is None), None)
        yield Own(name, tuple(found), standing)


def template_in(version: JudgeTemplate) -> Template:
    return restored(version.name, version.text, version.form, version.output)
