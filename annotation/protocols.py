"""Finding the protocol that a project asks by now, and making it when it is new."""

import hashlib
import json

from django.db import transaction

from annotation.models import Protocol
from judging.errors import UserError
from judging.models.projects import Project
from judging.numbering import next_number

_ASKED = ("question_asked", "guidelines", "scale", "both_bad", "criteria", "rendering")


def current_protocol(project: Project) -> Protocol:
    """The protocol of the project's present settings; the same settings give the same row."""
    asked = {name: getattr(project, name) for name in _ASKED}
    text = json.dumps(asked, sort_keys=True, ensure_ascii=False)
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    same = Protocol.objects.filter(project=project, digest=digest)
    if (found := same.first()) is not None:
        return found
    with transaction.atomic():
        number = next_number(project, Protocol)
        # Someone else may have made it while this one waited for its turn.
        return same.first() or Protocol.objects.create(
            project=project, number=number, name=f"protocol-{number}", digest=digest, **asked
        )


def protocol_named(project: Project, name: str | None) -> Protocol:
    """By number or name; without one, the current protocol."""
    if not name:
        return current_protocol(project)
    protocols = Protocol.objects.filter(project=project)
    found = protocols.filter(name=name).first()
    if found is None and name.isdecimal():
        found = protocols.filter(number=int(name)).first()
    if found is None:
        known = ", ".join(protocols.order_by("number").values_list("name", flat=True)) or "none yet"
        raise UserError(f"There is no protocol “{name}” in {project.slug}. Known: {known}.")
    return found
