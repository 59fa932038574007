"""Tags and subsets: chosen by what examples say, fixed once, and taken back."""

import json

import pytest

from judging.core.errors import UserError
from judging.dataset.models import (
    Example,
    Frame,
    FrameMember,
    Import,
    Tag,
    TagChange,
    Tagging,
    tags_of_examples,
)
from judging.dataset.subsets import (
    ALL,
    Subset,
    categories_of,
    change_tag,
    freeze,
    undo_tag,
    words_of,
)
from judging.dataset.writing import import_files, undo
from tests.factories import make_examples, make_project
from tests.rows_written import reads_of_cache

pytestmark = [pytest.mark.django_db, pytest.mark.databases]
HOSTILE = '<img src=x onerror="alert(1)">' + "\u202eR" + "x" * 100


@pytest.fixture
def mixed(project):
    """e0 to e5: math, by maple and birch; e6 to e8: code, by oak; e9 has no category."""
    make_examples(project, 6, category="math")
    make_examples(project, 3, category="code", model_1="oak-1b", question="How to %_\\ sort?")
    make_examples(project, 1, category="")
    return project


def ids(project, keys):
    names = dict(Example.objects.filter(project=project).values_list("pk", "external_id"))
    return [names[key] for key in keys]


def chosen(project, *where, **options):
    return ids(project, Subset.chosen(where, **options).members(project))


def test_any_value_of_a_name_will_do_and_every_name_must_fit(mixed):
    assert chosen(mixed, "category=code") == ["e6", "e7", "e8"]
    assert chosen(mixed, "category=code", "Category = math") == [f"e{n}" for n in range(9)]
    assert chosen(mixed, "category=") == ["e9"]
    assert chosen(mixed, "model=oak-1b", "category=code") == ["e6", "e7", "e8"]
    assert chosen(mixed, "model=birch-3b", "text=sort") == ["e6", "e7", "e8"]
    # What a pattern would mean is a letter like any other.
    assert chosen(mixed, "text=%_\\ SORT") == ["e6", "e7", "e8"]
    with pytest.raises(UserError, match="There is no example with category math, with model oak"):
        chosen(mixed, "category=math", "model=oak-1b")


def test_attention_checks_are_never_chosen(mixed):
    mixed.examples.filter(external_id="e6").update(is_check=True, gold_label="win")
    assert chosen(mixed, "category=code") == ["e7", "e8"]


def test_a_sample_is_the_same_by_its_seed_and_in_import_order(mixed):
    one = chosen(mixed, "category=math", sample=3, seed=1)
    assert one == chosen(mixed, "category=math", sample=3, seed=1)
    assert one == sorted(one)
    assert len({tuple(chosen(mixed, sample=3, seed=seed)) for seed in range(10)}) > 3
    with pytest.raises(UserError, match="A sample of 4 is more than the 3 examples"):
        chosen(mixed, "category=code", sample=4, seed=1)


def test_ids_may_be_written_by_a_table_program_and_unknown_ones_are_named(mixed):
    mixed.examples.filter(external_id="e0").update(external_id="7")
    assert chosen(mixed, ids=["7.0", "e2", "e2"]) == ["7", "e2"]
    with pytest.raises(UserError, match="2 ids are not among the examples: 'no', 'nor'"):
        chosen(mixed, ids=["no", "e2", "nor"])


@pytest.mark.parametrize(
    ("where", "said"),
    [
        (["math"], "is no condition"),
        (["size=3"], "category=VALUE"),
        (["tag="], "needs a value"),
        (["text=" + "x" * 201], "at most 200"),
        (["category=a\x00"], "should be text"),
        ([f"tag=t{n}" for n in range(101)], "At most 100"),
    ],
)
def test_what_is_no_condition_is_refused_in_a_sentence(where, said):
    with pytest.raises(UserError, match=said):
        Subset.chosen(where)


def test_a_frame_keeps_its_members_whatever_comes_later(mixed):
    frame = freeze(mixed, Subset.chosen(["category=code"]))
    make_examples(mixed, 2, category="code")
    mixed.examples.filter(external_id="e6").update(category="math")
    members = FrameMember.objects.filter(frame=frame).order_by("example")
    assert ids(mixed, members.values_list("example", flat=True)) == ["e6", "e7", "e8"]
    assert frame.words == "with category code"
    assert freeze(mixed, ALL) is None


def test_the_same_choice_is_the_same_frame_and_another_one_is_not(mixed):
    code = Subset.chosen(["category=code"])
    assert freeze(mixed, code).pk == freeze(mixed, code).pk
    assert Frame.objects.count() == 1
    make_examples(mixed, 1, category="code")
    assert freeze(mixed, code).pk != Frame.objects.earliest("pk").pk


def test_a_part_of_a_part_says_both(mixed):
    code = freeze(mixed, Subset.chosen(["category=code"]))
    two = freeze(mixed, Subset.chosen(sample=2, seed=3), within=code)
    assert two.members.count() == 2
    assert two.words == "within the examples with category code, drawn at random (seed 3)"
    with pytest.raises(UserError, match="There is no example"):
        freeze(mixed, Subset.chosen(["category=math"]), within=code)
    assert words_of({}) == ""


def test_categories_are_named_in_order_and_up_to_a_number(project, django_assert_num_queries):
    make_examples(make_project("other"), 1, category="a")
    for name, n in (("math", 3), ("", 2), ("code", 2), ("art", 1)):
        make_examples(project, n, category=name)
    (hidden,) = make_examples(project, 1, category="hidden")
    other = Import.objects.create(project=project, number=99, state=Import.State.WRITING)
    Example.objects.filter(pk=hidden.pk).update(source=other)
    # One for the state of the imports, and one for each name and the end.
    with django_assert_num_queries(5 + reads_of_cache(2)):
        assert categories_of(project, 10) == ["art", "code", "math"]
    with django_assert_num_queries(3 + reads_of_cache(2)):
        assert categories_of(project, 2) == ["art", "code"]


def test_tags_are_given_taken_and_undone(mixed, researcher):
    keys = list(mixed.examples.order_by("number").values_list("pk", flat=True))
    change = change_tag(mixed, researcher, " hard ", keys[:4], added=True)
    assert chosen(mixed, "tag=hard") == ["e0", "e1", "e2", "e3"]
    assert change_tag(mixed, researcher, "hard", keys[:2], added=True) is None
    more = change_tag(mixed, researcher, "hard", keys[2:6], added=True)
    assert len(more.examples) == 2
    removed = change_tag(mixed, researcher, "hard", keys[:1], added=False)
    assert tags_of_examples(keys[:2]) == {keys[1]: ["hard"]}
    assert undo_tag(removed, researcher)
    assert not undo_tag(removed, researcher)
    assert undo_tag(more, researcher)
    assert chosen(mixed, "tag=hard") == ["e0", "e1", "e2", "e3"]
    assert undo_tag(change, researcher)
    # A tag that nothing has is offered nowhere.
    assert not Tag.objects.filter(project=mixed).exists()
    actions = list(mixed.audit_events.order_by("pk").values_list("action", flat=True))
    assert actions == ["tag added", "tag added", "tag removed", *["tags undone"] * 3]


@pytest.mark.parametrize("name", ["", "  ", "a,b", "a;b", "a\nb", "x" * 201, "a\x00b"])
def test_nothing_else_can_be_a_tag(mixed, name):
    with pytest.raises(UserError, match="A tag is one line"):
        change_tag(mixed, None, name, [mixed.examples.first().pk], added=True)
    assert not TagChange.objects.exists()


def test_examples_of_another_project_get_no_tag(mixed):
    (other,) = make_examples(make_project("other"), 1)
    assert change_tag(mixed, None, "hard", [other.pk], added=True) is None


def test_tags_come_with_the_data_and_stay_with_what_is_there(project, tmp_path):
    path = tmp_path / "a.jsonl"
    row = {"id": "p", "question": "q", "response_1": "a", "response_2": "b"}
    lines = [
        row | {"tags": "hard; long,hard"},
        row | {"id": "q", "tags": ["long", HOSTILE]},
        row | {"id": "r", "tags": None},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    imported = import_files(project, None, [path])
    assert chosen(project, "tag=long") == ["p", "q"]
    assert chosen(project, f"tag={HOSTILE}") == ["q"]
    path.write_text(json.dumps(row | {"tags": "other"}) + "\n", encoding="utf-8")
    again = import_files(project, None, [path])
    assert (again.n_known, again.n_conflicts) == (1, 0)
    assert not Tag.objects.filter(name="other").exists()
    assert undo(again, None)
    # Neither tags nor frames keep an import from being undone.
    freeze(project, Subset.chosen(["tag=hard"]))
    assert undo(imported, None)
    assert not Tagging.objects.exists()
    assert not FrameMember.objects.exists()


def test_a_tag_that_cant_be_is_refused_by_its_line(project, tmp_path):
    path = tmp_path / "a.jsonl"
    row = {"question": "q", "response_1": "a", "response_2": "b"}
    lines = [row, row | {"id": "2", "tags": ["x" * 201]}]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    with pytest.raises(UserError, match="1 row is invalid"):
        import_files(project, None, [path])
