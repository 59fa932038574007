"""All tables of judging, gathered for Django from the `models` modules of its rooms."""

from judging.core.models import Worker
from judging.dataset.models import Example, HumanScore, Import, Label, PointItem
from judging.projects.models import (
    AuditEvent,
    Export,
    LostRight,
    Membership,
    PasswordLink,
    Preferences,
    Project,
    Role,
)
from judging.runs.models import (
    Batch,
    Call,
    EndpointLearned,
    Form,
    JudgeTemplate,
    Method,
    Parse,
    Run,
    Sample,
    TextLikelihood,
    Verdict,
)

__all__ = [
    "AuditEvent",
    "Batch",
    "Call",
    "EndpointLearned",
    "Example",
    "Export",
    "Form",
    "HumanScore",
    "Import",
    "JudgeTemplate",
    "Label",
    "LostRight",
    "Membership",
    "Method",
    "Parse",
    "PasswordLink",
    "PointItem",
    "Preferences",
    "Project",
    "Role",
    "Run",
    "Sample",
    "TextLikelihood",
    "Verdict",
    "Worker",
]
