"""The tables of judging, one module for each noun."""

from judging.models.audit import AuditEvent
from judging.models.calls import Batch, Call, Parse, Sample
from judging.models.endpoints import EndpointLearned, JudgeTemplate
from judging.models.examples import Example, Label
from judging.models.exports import Export
from judging.models.imports import Import
from judging.models.likelihoods import TextLikelihood
from judging.models.points import HumanScore, PointItem
from judging.models.projects import Membership, Preferences, Project, Role
from judging.models.runs import Form, Method, Run
from judging.models.verdicts import Verdict
from judging.models.workers import Worker

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
    "Membership",
    "Method",
    "Parse",
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
