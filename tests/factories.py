"""Plain functions that make rows for tests, with defaults that rarely matter."""

from itertools import count
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth.models import Permission, User
from django.utils import timezone

from annotation.models import Annotator, Item, Lesson, Slot, Vote
from annotation.queue.settling import settle
from judging.dataset.models import Example, Import
from judging.projects.models import Membership, Project, Role
from judging.runs.models import Method, Run, Verdict

_numbers = count(1)


def make_user(name: str = "", *, researcher: bool = False, **fields: Any) -> User:
    user = User.objects.create_user(name or f"person-{next(_numbers)}", password="pw", **fields)
    if researcher:
        user.user_permissions.add(Permission.objects.get(codename="researcher"))
    return user


def make_project(slug: str = "", **fields: Any) -> Project:
    slug = slug or f"project-{next(_numbers)}"
    return Project.objects.create(slug=slug, name=fields.pop("name", slug), **fields)


def make_member(project: Project, role: str = Role.ANNOTATOR, name: str = "") -> User:
    user = make_user(name, researcher=role != Role.ANNOTATOR)
    Membership.objects.create(project=project, user=user, role=role)
    return user


def make_annotator(project: Project, name: str = "", user: User | None = None) -> Annotator:
    """With a login and a membership unless `user` is given."""
    user = user or make_member(project, name=name)
    number = Annotator.objects.filter(project=project).count() + 1
    return Annotator.objects.create(
        project=project, user=user, number=number, name=user.get_username()
    )


def make_import(project: Project, **fields: Any) -> Import:
    number = Import.objects.filter(project=project).count() + 1
    fields.setdefault("state", Import.State.DONE)
    return Import.objects.create(project=project, number=number, **fields)


def make_examples(project: Project, n: int, **fields: Any) -> list[Example]:
    """n visible examples `e0`, `e1`, …, by models whose names tests can grep for."""
    source = make_import(project)
    start = Example.objects.filter(project=project).count()
    return Example.objects.bulk_create(
        Example(
            project=project,
            source=source,
            external_id=f"e{number}",
            number=number,
            **{
                "question": f"Question {number}?",
                "response_1": f"First response to {number}.",
                "response_2": f"Second response to {number}.",
                "model_1": "maple-7b",
                "model_2": "birch-3b",
                "category": "generic",
            }
            | fields,
        )
        for number in range(start, start + n)
    )


def make_run(project: Project, **fields: Any) -> Run:
    """A finished and ranked run, unless fields say otherwise."""
    number = Run.objects.filter(project=project).count() + 1
    defaults: dict[str, Any] = {
        "name": f"run-{number}",
        "method": Method.MEC_BPC,
        "state": Run.State.DONE,
        "seed": 7,
        "ranked_at": timezone.now(),
    }
    return Run.objects.create(project=project, number=number, **defaults | fields)


def make_verdict(run: Run, example: Example, bpde: float | None, **fields: Any) -> Verdict:
    """Judged with this BPDE; unjudged when it is None."""
    judged = bpde is not None
    defaults: dict[str, Any] = {
        "state": Verdict.State.JUDGED if judged else Verdict.State.UNJUDGED,
        "label": "win" if judged else None,
        "cs_1": 8.0 if judged else None,
        "cs_2": 7.0 if judged else None,
        "gap": 1.0 if judged else None,
        "n_valid": 6 if judged else 0,
        "n_asked": 6,
        "bpde": bpde,
    }
    return Verdict.objects.create(run=run, example=example, **defaults | fields)


def make_lesson(run: Run, **fields: Any) -> Lesson:
    """A lesson with a drafted rubric, to be approved."""
    number = Lesson.objects.filter(project=run.project).count() + 1
    defaults: dict[str, Any] = {
        "way": Lesson.Way.RUBRIC,
        "state": Lesson.State.DRAFTED,
        "name": f"taught-{number}",
        "drafted": "- Be brief.",
        "rubric": "- Be brief.",
    }
    given = defaults | fields
    return Lesson.objects.create(project=run.project, number=number, run=run, **given)


def make_vote(item: Item, annotator: Annotator, label: str, **fields: Any) -> Vote:
    """A vote in the item's first free slot, whatever was handed out."""
    slot = Slot.objects.filter(item=item, vote=None).order_by("index").first()
    assert slot is not None, "the item has all its votes"
    defaults: dict[str, Any] = {
        "left_response": 1,
        "active_seconds": 30.0,
        "submitted_at": timezone.now(),
        "protocol": item.round.protocol,
        "example": item.example,
    }
    vote = Vote.objects.create(
        slot=slot, item=item, annotator=annotator, label=label, **defaults | fields
    )
    Slot.objects.filter(pk=slot.pk).update(annotator=annotator, vote=vote, lease_until=None)
    settle(item)
    return vote


def uploads_of(imported: Import) -> list[Path]:
    """Where the site's own copies of an import are, as long as they are here."""
    return [Path(settings.MEDIA_ROOT) / name for name in imported.stored_files]
