"""The data set of a project: pairs, single responses with people's scores, and their imports.

An import remembers what was read from which file. Its rows are seen only once it is done.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Any, Self, TypeVar

import numpy as np
from django.db import models
from django.db.models import Count, Exists, F, OuterRef, QuerySet, Subquery, Sum
from django.db.models.expressions import Combinable
from django.db.models.functions import MD5, Coalesce
from numpy.typing import ArrayLike, NDArray

from judging.core.formatting import number_of
from judging.core.models import Leased, user_or_none
from judging.methods.verdicts.verdicts import Label as Label
from judging.projects.models import Project


class Image(models.Model):
    """An image of any number of projects, kept once. It goes with the last that uses it.

    sha256: of `content`, which has no metadata.
    """

    sha256 = models.CharField(max_length=64, primary_key=True)
    content_type = models.CharField(max_length=20)
    width = models.PositiveIntegerField()
    height = models.PositiveIntegerField()
    content = models.BinaryField()
    created_at = models.DateTimeField(auto_now_add=True)


class Import(Leased):
    """What was read from files at once.

    n_judged: how many of its pairs judges are asked about. It is counted when the import is done,
        since counting a large project for each page takes longer than the page. None: not counted.
    """

    class Kind(models.TextChoices):
        EXAMPLES = "examples", "pairs"
        POINTS = "points", "single responses"
        JUDGMENTS = "judgments", "recorded judgments"
        VOTES = "votes", "votes"

    class State(models.TextChoices):
        CHECKED = "checked", "checked, nothing written yet"
        WRITING = "writing", "being written"
        INTERRUPTED = "interrupted", "interrupted: resume or undo"
        DONE = "done", "done"
        FAILED = "failed", "failed"
        UNDONE = "undone", "undone"

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="imports")
    number = models.PositiveIntegerField()
    kind = models.CharField(max_length=10, choices=Kind, default=Kind.EXAMPLES)
    state = models.CharField(max_length=12, choices=State, default=State.CHECKED)
    reason = models.TextField(blank=True)
    # People know the first names. The others say where the files are: see `uploads.stored_name`.
    file_names = models.JSONField(default=list)
    stored_files = models.JSONField(default=list, blank=True)
    sha256 = models.CharField(max_length=64, blank=True)
    format = models.CharField(max_length=20, blank=True)
    mapping = models.JSONField(default=dict, blank=True)
    # How else the files are read: the sheet of a workbook, and the design of wide rows.
    options = models.JSONField(default=dict, blank=True)
    skip_invalid = models.BooleanField(default=False)
    summary = models.JSONField(default=dict, blank=True)
    n_rows = models.PositiveIntegerField(default=0)
    n_written = models.PositiveIntegerField(default=0)
    n_known = models.PositiveIntegerField(default=0)
    n_refused = models.PositiveIntegerField(default=0)
    n_conflicts = models.PositiveIntegerField(default=0)
    n_judged = models.PositiveIntegerField(null=True)
    images = models.ManyToManyField(Image, related_name="imports")
    created_by = user_or_none()
    created_at = models.DateTimeField(auto_now_add=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "number"], name="import_number_once")
        ]


def _unfinished_imports() -> QuerySet[Import]:
    return Import.objects.exclude(state=Import.State.DONE)


Imported = TypeVar("Imported", bound=models.Model)


class ImportedQuerySet(models.QuerySet[Imported]):
    """Rows that came with an import, their `source`."""

    def visible(self) -> Self:
        """Keep rows whose import is finished: half an import is never seen.

        With a join, databases take the rows of one import for few, and sort them all for a page.
        """
        return self.exclude(source__in=_unfinished_imports())

    def later_than(self, number: int, pk: int) -> Self:
        """Keep what comes after this row in import order, by a range that an index can find."""
        return self.filter(number__gte=number).exclude(number=number, pk__lte=pk)


class ExampleQuerySet(ImportedQuerySet["Example"]):
    def judged(self) -> Self:
        """Keep what runs, N, rankings and analysis are about: visible, and no attention check."""
        return self.visible().filter(is_check=False)

    def not_judged(self) -> Self:
        """Keep the others, which are few: an index finds those of either kind."""
        return self.filter(is_check=True).union(self.filter(source__in=_unfinished_imports()))

    def checks(self, check_for: str = "") -> Self:
        """Keep the pairs with a known label that are for this."""
        return self.visible().filter(is_check=True, check_for=check_for)


class CheckFor(models.TextChoices):
    """What a check is for: each kind of round takes its own, so that nobody knows one before."""

    ATTENTION = "", "an attention check"
    TRAINING = "training", "a training pair"
    QUALIFICATION = "qualification", "a qualification pair"


class Example(models.Model):
    """A pair: a question with two responses, one by each of two models.

    check_for: what a pair with a known label is for. explanation: what people read after they
        practised on it.
    conversation: the lists of messages behind the texts as JSON, by field; null if all three are
        plain texts. PostgreSQL's own JSON would lose the order of keys.
    """

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="examples")
    source = models.ForeignKey(Import, on_delete=models.CASCADE, related_name="examples")
    external_id = models.CharField(max_length=200)
    number = models.PositiveIntegerField()
    question = models.TextField(blank=True)
    response_1 = models.TextField(blank=True)
    response_2 = models.TextField(blank=True)
    model_1 = models.CharField(max_length=200, blank=True)
    model_2 = models.CharField(max_length=200, blank=True)
    category = models.CharField(max_length=200, blank=True)
    reference = models.TextField(blank=True)
    gold_label = models.CharField(max_length=4, choices=Label.choices, null=True, blank=True)
    is_check = models.BooleanField(default=False)
    check_for = models.CharField(
        max_length=13, choices=CheckFor, blank=True, default=CheckFor.ATTENTION
    )
    explanation = models.TextField(blank=True, default="")
    conversation = models.TextField(null=True, blank=True)

    objects = ExampleQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "external_id"], name="example_once")
        ]
        indexes = [
            models.Index(fields=["project", "number"], name="example_in_import_order"),
            # Counts read no texts.
            models.Index(fields=["project", "is_check", "source"], name="example_counted"),
            models.Index(fields=["project", "category", "number"], name="example_by_category"),
            models.Index(
                fields=["project"],
                name="example_conversations",
                condition=models.Q(conversation__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return self.external_id


class OfAnExample(models.QuerySet[Imported]):
    """Rows that go with their example, and so are no use of it."""

    def that_use_examples(self) -> Self:
        return self.none()


class ExampleImage(models.Model):
    """An image in the texts of an example: who may see the example may see the image."""

    example = models.ForeignKey(Example, on_delete=models.CASCADE, related_name="images")
    image = models.ForeignKey(Image, on_delete=models.CASCADE, related_name="examples")

    objects = OfAnExample["ExampleImage"].as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["example", "image"], name="example_image_once")
        ]


class Tag(models.Model):
    """A name that people give to examples of a project, to find and choose them again."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="tags")
    name = models.CharField(max_length=200)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "name"], name="tag_once")]

    def __str__(self) -> str:
        return self.name


class Tagging(models.Model):
    """An example that has a tag."""

    tag = models.ForeignKey(Tag, on_delete=models.CASCADE, related_name="taggings")
    example = models.ForeignKey(Example, on_delete=models.CASCADE, related_name="taggings")

    objects = OfAnExample["Tagging"].as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tag", "example"], name="tagging_once")]


class TagChange(models.Model):
    """A tag that was given to many examples at once, or taken from them, for the undo.

    examples: the keys of those that changed.
    """

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="tag_changes")
    name = models.CharField(max_length=200)
    added = models.BooleanField()
    examples = models.JSONField()
    made_by = user_or_none()
    made_at = models.DateTimeField(auto_now_add=True)
    undone_at = models.DateTimeField(null=True, blank=True)


def words_of(subset: Mapping[str, Any]) -> str:
    """Say in words how a stored subset was chosen."""
    words = []
    for name, values in subset.get("where", ()):
        shown = " or ".join(value or "(none)" for value in values)
        words.append(f"with {name} {shown}" if name != "text" else f"with the text “{shown}”")
    if "ids" in subset:
        words.append(f"from a list of {number_of(subset['ids'], 'id')}")
    if "without" in subset:
        words.append(f"without the {number_of(subset['without'], 'example')} that taught the judge")
    if "within" in subset:
        words.append(f"within the examples {words_of(subset['within'])}")
    if "sample" in subset:
        words.append(f"drawn at random (seed {subset['seed']})")
    return ", ".join(words)


class Frame(models.Model):
    """A part of a project's examples, chosen once: later imports and tags don't change it.

    subset: how it was chosen, as `judging.dataset.subsets.Subset` stores itself.
    digest: of the subset and the members, so that the same choice is the same frame.
    """

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="frames")
    subset = models.JSONField()
    digest = models.CharField(max_length=64)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "digest"], name="frame_once")]

    @property
    def words(self) -> str:
        """How its examples were chosen, in words: `with category math`."""
        return words_of(self.subset)


class FrameMember(models.Model):
    frame = models.ForeignKey(Frame, on_delete=models.CASCADE, related_name="members")
    example = models.ForeignKey(Example, on_delete=models.CASCADE, related_name="frames")

    objects = OfAnExample["FrameMember"].as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["frame", "example"], name="member_once")]


class PointItem(models.Model):
    """One response alone, for pointwise judging (Ohi et al., section 2)."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="point_items")
    source = models.ForeignKey(Import, on_delete=models.CASCADE, related_name="point_items")
    external_id = models.CharField(max_length=200)
    number = models.PositiveIntegerField()
    input = models.TextField(blank=True)
    output = models.TextField(blank=True)
    model = models.CharField(max_length=200, blank=True)

    objects = ImportedQuerySet["PointItem"].as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "external_id"], name="point_item_once")
        ]


class HumanScore(models.Model):
    """What one person scored a single response by one criterion."""

    point_item = models.ForeignKey(PointItem, on_delete=models.CASCADE, related_name="scores")
    criterion = models.CharField(max_length=100)
    rater = models.CharField(max_length=200)
    # Decimals, so that the same score is equal from whichever file it comes.
    value = models.DecimalField(max_digits=12, decimal_places=6)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["point_item", "criterion", "rater"], name="human_score_once"
            )
        ]


# The MD5 of an empty text.
NO_TEXT = "d41d8cd98f00b204e9800998ecf8427e"


def question_codes(digests: ArrayLike) -> NDArray[np.intp]:
    """Return equal codes for equal questions; each example without a question has its own."""
    names, codes = np.unique(np.asarray(digests, dtype="S32"), return_inverse=True)
    without = np.flatnonzero(names[codes] == NO_TEXT.encode())
    codes[without] = len(names) + np.arange(len(without))
    first, numbered = np.unique(codes, return_index=True, return_inverse=True)[1:]
    # Numbered in the order in which they come.
    return np.argsort(np.argsort(first))[numbered]


def questions_of(project_id: int, examples: NDArray[np.int64]) -> NDArray[np.intp]:
    """Return the question codes of these examples, which are in the order of their keys."""
    rows = Example.objects.filter(project=project_id).order_by("pk")
    digests = rows.annotate(md5=MD5(F("question"))).values_list("pk", "md5")
    digested = np.fromiter(digests.iterator(chunk_size=5000), dtype=[("pk", "i8"), ("md5", "S32")])
    return question_codes(digested["md5"][np.isin(digested["pk"], examples)])


def alike_questions(examples: QuerySet[Example]) -> tuple[float, int]:
    """Return how many examples share a question, averaged over examples, and how many questions
    there are. One query.

    The first is the design effect of labels that depend on the question alone.
    """
    named = examples.order_by().exclude(question="").annotate(md5=MD5(F("question")))
    often = named.values("md5").annotate(n=Count("pk")).filter(n__gt=1)
    sizes, n = list(often.values_list("n", flat=True)), examples.count()
    alone = n - sum(sizes)
    # Each of the examples of a question counts as many as the question has, so their sum is a
    # square.
    return (alone + sum(size**2 for size in sizes)) / max(n, 1), alone + len(sizes)


def judged_in(project_id: int, frame: int | None) -> QuerySet[Example]:
    """Return what judges are asked about: all of the project, or the members of a frame."""
    examples = Example.objects.filter(project_id=project_id).judged()
    if frame is None:
        return examples
    return examples.filter(Exists(FrameMember.objects.filter(frame=frame, example=OuterRef("pk"))))


def number_judged() -> Combinable:
    """Count, of an outer project, the examples that judges are asked about.

    Examples never change their import, and whether they are a check.
    """
    done = Import.objects.filter(project=OuterRef("pk"), state=Import.State.DONE).order_by()
    sums = done.values("project").annotate(n=Sum("n_judged")).values("n")
    uncounted = {"source__state": Import.State.DONE, "source__n_judged": None}
    others = Example.objects.filter(project=OuterRef("pk"), is_check=False, **uncounted)
    counts = others.order_by().values("project").annotate(n=Count("pk")).values("n")
    known, counted = (
        Coalesce(Subquery(rows, output_field=models.IntegerField()), 0) for rows in (sums, counts)
    )
    return known + counted


def n_judged(project_id: int, frame: int | None = None) -> int:
    """Return how many examples `judged_in` has, by one query."""
    if frame is not None:
        return judged_in(project_id, frame).count()
    # A project that is being deleted has examples, too.
    project = Project.every.filter(pk=project_id)
    return int(project.values_list(number_judged(), flat=True).get())


def import_states(project: Project) -> list[tuple[int, str]]:
    """Return what changes when pairs come or go: each import with its state."""
    return list(project.imports.order_by("pk").values_list("pk", "state"))


def has_examples(project: Project) -> bool:
    """Return True if the project has an example that a judge or a round could be about."""
    return Example.objects.visible().filter(project=project, is_check=False).exists()


def frame_of(project: Project, frame: int | None = None) -> QuerySet[Example]:
    """Return the N examples that a review of beta percent is about, in import order.

    Args:
        frame: the key of a `Frame`; None for all examples of the project.
    """
    return judged_in(project.pk, frame).order_by("number", "pk")


def tags_of_examples(keys: Collection[int]) -> Mapping[int, list[str]]:
    """Return the tags of some examples, in alphabetical order, by one query."""
    tags: defaultdict[int, list[str]] = defaultdict(list)
    rows = Tagging.objects.filter(example__in=keys).order_by("tag__name")
    for example, name in rows.values_list("example", "tag__name"):
        tags[example].append(name)
    return tags
