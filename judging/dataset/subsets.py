"""Parts of a project's examples: tags that people give, and subsets chosen by what examples say.

A `Subset` says how examples are chosen: by category, tag, model, text or id, and then perhaps some
of them at random. `freeze` fixes who belongs to it as a `Frame`, which runs, rounds, reports and
exports are about, so that later imports and tags change none of them.
"""

import hashlib
import json
import secrets
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import islice
from operator import or_
from pathlib import Path
from random import Random
from typing import Any, Self

from django.contrib.auth.models import AbstractUser
from django.db import transaction
from django.db.models import Count, Exists, Max, OuterRef, Q, QuerySet, Sum
from django.utils import timezone

from judging.core.caching import CACHED_SECONDS, report_cache
from judging.core.errors import UserError
from judging.core.formatting import count, number_of
from judging.core.leases import delete_rows
from judging.core.sql.statements import insert_columns
from judging.core.text import a_name, is_name, unstorable
from judging.dataset.models import (
    Example,
    Frame,
    FrameMember,
    Import,
    Tag,
    TagChange,
    Tagging,
    frame_of,
    words_of,
)
from judging.dataset.records import ById, quoted
from judging.projects import access
from judging.projects.models import Project

NAMES = ("category", "tag", "model", "text")
TEXTS = ("external_id", "question", "response_1", "response_2")
MOST_VALUES = 100
LONGEST_VALUE = 200
LARGEST_SEED = 2**31 - 1
# SQLite takes 250,000 parameters in a statement, and longer lists gain nothing.
_KEYS_AT_ONCE = 10_000
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Subset:
    """Examples by what they say. Any value of a name will do, and every name must fit.

    Attributes:
        where: By name of `NAMES`, the values. An empty category or model means none.
        ids: The external ids; None for any.
        sample: How many of these are drawn at random; None for all of them.
        without: The keys of examples that are left out, since their labels taught the judge.
    """

    where: tuple[tuple[str, tuple[str, ...]], ...] = ()
    ids: tuple[str, ...] | None = None
    sample: int | None = None
    seed: int = 0
    without: tuple[int, ...] = ()

    @classmethod
    def chosen(
        cls,
        where: Iterable[str] = (),
        *,
        ids: Iterable[str] | None = None,
        sample: int | None = None,
        seed: int | None = None,
    ) -> Self:
        """Read conditions such as `category=math`. Raises UserError that says what is wrong."""
        by_name: dict[str, list[str]] = {}
        for condition in where:
            name, equals, value = condition.partition("=")
            name, value = name.strip().casefold(), value.strip()
            if not equals or name not in NAMES:
                raise UserError(
                    f"{quoted(condition)} is no condition. Write one of "
                    f"{', '.join(f'{known}=VALUE' for known in NAMES)}. Nothing was changed."
                )
            if unstorable(value) or len(value) > LONGEST_VALUE:
                raise UserError(
                    f"The value of {name} should be text of at most {LONGEST_VALUE} characters. "
                    "Nothing was changed."
                )
            if not value and name in ("tag", "text"):
                raise UserError(f"{name}= needs a value. Nothing was changed.")
            if value not in by_name.setdefault(name, []):
                by_name[name].append(value)
        if sum(map(len, by_name.values())) > MOST_VALUES:
            raise UserError(f"At most {MOST_VALUES} conditions are possible. Nothing was changed.")
        if sample is not None and sample < 1:
            raise UserError("A sample has at least 1 example. Nothing was changed.")
        if seed is not None and not 0 <= seed <= LARGEST_SEED:
            raise UserError(f"A seed must be from 0 to {LARGEST_SEED}, not {seed}.")
        if sample is not None and seed is None:
            seed = secrets.randbelow(LARGEST_SEED)
        values = tuple((name, tuple(by_name[name])) for name in NAMES if name in by_name)
        # An ID that is listed twice is one example.
        listed = None if ids is None else tuple(dict.fromkeys(ids))
        return cls(values, listed, sample, (seed or 0) if sample is not None else 0)

    @property
    def is_all(self) -> bool:
        chosen = self.where or self.without
        return not chosen and self.ids is None and self.sample is None

    @property
    def condition(self) -> Q:
        """What the examples must fulfil, without the ids and the sample."""
        condition = ~Q(pk__in=self.without) if self.without else Q()
        for name, values in self.where:
            condition &= condition_of(name, values)
        return condition

    def members(self, project: Project, frame: int | None = None) -> list[int]:
        """Return the keys of the examples in import order, of all or of a frame's members.

        Raises UserError if there are none, an id is unknown, or a sample is larger.
        """
        rows = frame_of(project, frame)
        keys = list(rows.filter(self.condition).values_list("pk", flat=True))
        if self.ids is not None:
            named = self._named(rows)
            keys = [key for key in keys if key in named]
        if not keys:
            raise UserError(f"There is no example {replace(self, sample=None).words}.")
        if self.sample is None:
            return keys
        if self.sample > len(keys):
            there = number_of(len(keys), "example")
            raise UserError(
                f"A sample of {count(self.sample)} is more than the {there} to draw from. Ask for "
                "a smaller sample."
            )
        # With a name before the seed, other draws with the same seed are independent of this one.
        drawn = set(Random(f"sample:{self.seed}").sample(keys, self.sample))
        return [key for key in keys if key in drawn]

    def rows(self, project: Project, frame: int | None = None) -> QuerySet[Example]:
        """Return the examples in import order, without fixing who they are. Raises as `members`."""
        if self.ids is None and self.sample is None:
            return frame_of(project, frame).filter(self.condition)
        return frame_of(project).filter(pk__in=self.members(project, frame))

    def _named(self, rows: QuerySet[Example]) -> set[int]:
        known = ById(rows.values_list("external_id", "pk"))
        missing = [name for name in self.ids or () if name not in known]
        if missing:
            first = ", ".join(quoted(name) for name in missing[:_SHOWN])
            more = " and others" if len(missing) > _SHOWN else ""
            these = "1 id of the list is" if len(missing) == 1 else f"{count(len(missing))} ids are"
            raise UserError(f"{these} not among the examples: {first}{more}. Nothing was changed.")
        return {known[name] for name in self.ids or ()}

    @property
    def words(self) -> str:
        """Say which examples these are, after a number: `with category math`."""
        return words_of(self.to_json())

    def to_json(self) -> dict[str, Any]:
        """Return what a frame stores. Of the ids it says the number: the members are stored."""
        kept: dict[str, Any] = {}
        if self.where:
            kept["where"] = [[name, list(values)] for name, values in self.where]
        if self.ids is not None:
            kept["ids"] = len(self.ids)
        if self.sample is not None:
            kept |= {"sample": self.sample, "seed": self.seed}
        if self.without:
            kept["without"] = len(self.without)
        return kept


ALL = Subset()


def condition_of(name: str, values: Sequence[str]) -> Q:
    """Return the condition that any of the values fits."""
    if name == "category":
        return Q(category__in=values)
    if name == "model":
        return Q(model_1__in=values) | Q(model_2__in=values)
    if name == "tag":
        tagged = Tagging.objects.filter(
            example=OuterRef("pk"), tag__project=OuterRef("project"), tag__name__in=values
        )
        return Q(Exists(tagged))
    texts = (Q(**{f"{field}__icontains": value}) for field in TEXTS for value in values)
    return reduce(or_, texts)


def freeze(project: Project, subset: Subset, within: Frame | None = None) -> Frame | None:
    """Fix who belongs to a subset. Returns None for all examples, which stay open to imports.

    The same choice with the same members is the same frame. Raises UserError as `members` does.

    Args:
        within: The frame that the examples are chosen from; None for all examples.
    """
    if subset.is_all:
        return within
    keys = subset.members(project, within.pk if within else None)
    kept = subset.to_json() | ({"within": within.subset} if within else {})
    text = json.dumps([kept, keys], sort_keys=True, ensure_ascii=False)
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    with transaction.atomic():
        # If two freeze the same choice at once, the second one waits here and finds the frame.
        Project.objects.select_for_update(no_key=True).get(pk=project.pk)
        frame, made = Frame.objects.get_or_create(
            project=project, digest=digest, defaults={"subset": kept}
        )
        if made:
            insert_columns(FrameMember, len(keys), frame_id=frame.pk, example_id=tuple(keys))
    return frame


def subset_from(options: Mapping[str, Any]) -> Subset:
    """Return what a command's options choose. Raises UserError."""
    path: Path | None = options["examples"]
    ids = None
    if path is not None:
        try:
            # Spreadsheet programs put a byte-order mark in front.
            lines = path.read_text(encoding="utf-8-sig").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
            raise UserError(f"{path} can't be read: {reason}. Nothing was changed.") from None
        ids = [line.strip() for line in lines if line.strip()]
        # A column of an export begins with its name.
        ids = ids[1:] if ids[:1] == ["external_id"] else ids
        if not ids:
            raise UserError(f"{path} names no example. Write one id a line. Nothing was changed.")
    return Subset.chosen(options["where"], ids=ids, sample=options["sample"], seed=options["seed"])


def tag_new(project_id: int, tagged: Sequence[tuple[int, Collection[str]]]) -> None:
    """Give tags to examples that have none yet, in the transaction that writes them."""
    names = dict.fromkeys(name for _, tags in tagged for name in tags)
    if not names:
        return
    keys = {name: _tag(project_id, name).pk for name in names}
    rows = [(keys[name], pk) for pk, tags in tagged for name in tags]
    of_tags, examples = zip(*rows, strict=True)
    insert_columns(Tagging, len(rows), tag_id=of_tags, example_id=examples)


def _tag(project_id: int, name: str) -> Tag:
    return Tag.objects.get_or_create(project_id=project_id, name=name)[0]


def checked_tag(name: str) -> str:
    """Return the name as it is stored. Raises UserError if nothing can be called so."""
    name = name.strip()
    # Files part their tags by commas and semicolons.
    if not is_name(name, LONGEST_VALUE) or unstorable(name) or set(",;") & set(name):
        raise UserError(
            f"A tag is {a_name(LONGEST_VALUE)}, without comma and semicolon. Nothing was changed."
        )
    return name


def change_tag(
    project: Project, user: AbstractUser | None, name: str, keys: Collection[int], *, added: bool
) -> TagChange | None:
    """Give a tag to examples, or take it from them; None if that changes nothing.

    What is recorded can be undone. Raises UserError if nothing can be called so.
    """
    name = checked_tag(name)
    with transaction.atomic():
        # Changes of tags come one after another, so that each records exactly what it changed
        # itself.
        Project.objects.select_for_update(no_key=True).get(pk=project.pk)
        changed = _set_tag(project, name, keys, added=added)
        if not changed:
            return None
        change = TagChange.objects.create(
            project=project, name=name, added=added, examples=changed, made_by=user
        )
        action = "tag added" if added else "tag removed"
        access.record_event(project, user, action, name, examples=len(changed))
    return change


def undo_tag(change: TagChange, user: AbstractUser | None) -> bool:
    """Take a change of tags back; False if it was taken back before."""
    with transaction.atomic():
        Project.objects.select_for_update(no_key=True).get(pk=change.project_id)
        # The conditional UPDATE lets one of two that undo it at once go on.
        open_ = TagChange.objects.filter(pk=change.pk, undone_at=None)
        if not open_.update(undone_at=timezone.now()):
            return False
        _set_tag(change.project, change.name, change.examples, added=not change.added)
        access.record_event(
            change.project, user, "tags undone", change.name, examples=len(change.examples)
        )
    return True


def _set_tag(project: Project, name: str, keys: Collection[int], *, added: bool) -> list[int]:
    """Return the keys of the examples that changed, in the order of their keys."""
    wanted, tag = sorted(set(keys)), _tag(project.pk, name)
    changed: list[int] = []
    for first in range(0, len(wanted), _KEYS_AT_ONCE):
        part = wanted[first : first + _KEYS_AT_ONCE]
        taggings = Tagging.objects.filter(tag=tag, example__in=part)
        there = set(taggings.values_list("example", flat=True))
        if added:
            # The keys come from outside, and may be of another project's examples.
            known = Example.objects.filter(project=project, pk__in=part)
            fresh = sorted(set(known.values_list("pk", flat=True)) - there)
            insert_columns(Tagging, len(fresh), tag_id=tag.pk, example_id=tuple(fresh))
            changed += fresh
        else:
            delete_rows(Tagging, tag=tag.pk, example__in=part)
            changed += sorted(there)
    # Forms offer every tag that there is, so one that no example has goes.
    if not Tagging.objects.filter(tag=tag).exists():
        tag.delete()
    return changed


def tag_names(project: Project, most: int) -> list[str]:
    """Return the project's tags in alphabetical order."""
    return list(project.tags.order_by("name").values_list("name", flat=True)[:most])


Pairs = list[tuple[str, str]]


def categories_of(project: Project, most: int) -> list[str]:
    """Return the project's categories in alphabetical order."""
    rows = Example.objects.filter(project=project).visible().order_by("category")

    def one_after_the_other() -> Iterator[str]:
        # An index leads from each to the next. Together they would be looked for in all examples.
        name = ""
        while following := rows.filter(category__gt=name).values_list("category", flat=True)[:1]:
            (name,) = following
            yield name

    return _kept(project, "categories", most, islice(one_after_the_other(), most))


def model_pairs_of(project: Project, most: int) -> Pairs:
    """Return the project's pairs of models in alphabetical order."""
    rows = Example.objects.filter(project=project).visible().order_by("model_1", "model_2")
    return _kept(project, "models", most, rows.values_list("model_1", "model_2").distinct()[:most])


def n_known_labels(project: Project) -> int:
    """Return how many examples came with a label. Those of checks alone can be changed."""
    rows = frame_of(project).exclude(gold_label=None).exclude(gold_label="").order_by()
    counted = rows.values("project").values_list(Count("pk"), flat=True)
    return sum(_kept(project, "known-labels", 0, counted))


def _kept(project: Project, what: str, most: int, rows: Iterable[Any]) -> list[Any]:
    """Return what changes with imports only. Reading it reads every example."""
    imports = Import.objects.filter(project=project, state=Import.State.DONE)
    state = imports.aggregate(n=Count("pk"), last=Max("finished_at"), rows=Sum("n_written"))
    last = state["last"].timestamp() if state["last"] else ""
    which = f"{project.pk}-{project.created_at.timestamp()}"
    key = f"{what}-{which}-{most}-{state['n']}-{last}-{state['rows']}"
    kept: list[Any] | None = report_cache.get(key)
    if kept is None:
        kept = list(rows)
        report_cache.set(key, kept, CACHED_SECONDS)
    return kept
