"""How people agree in a round, by figures that can be derived by hand."""

import pytest

from annotation.models import Round
from annotation.rounds.changes import close, raise_votes
from annotation.rounds.opening import RoundSettings, open_round
from annotation.votes.agreement import RoundAgreement
from annotation.votes.imports import import_votes
from tests.factories import make_annotator, make_examples, make_vote

pytestmark = pytest.mark.django_db

VOTES = [("win", "win", "win"), ("win", "win", "lose"), ("tie", "lose", "lose")]


@pytest.fixture
def people(project):
    return [make_annotator(project, name) for name in ("ana", "ben", "cleo")]


def round_of(project, n, votes):
    make_examples(project, n)
    return open_round(project, None, None, RoundSettings(everything=True, votes=votes, seed=1))


def items_of(round_):
    return round_.items.select_related("example", "round__protocol").order_by("example__number")


@pytest.fixture
def voted(project, people):
    """Three items with three votes each, and an attention check with two."""
    make_examples(project, 3)
    make_examples(project, 1, is_check=True, gold_label="win")
    round_ = open_round(project, None, None, RoundSettings(everything=True, votes=3, seed=1))
    *items, check = items_of(round_)
    for item, labels in zip(items, VOTES, strict=True):
        for person, label in zip(people, labels, strict=True):
            make_vote(item, person, label)
    make_vote(check, people[0], "win")
    make_vote(check, people[1], "tie")
    return round_


def test_the_groups_figures_are_those_of_the_formulas(voted):
    # Agreeing pairs: (1 + 1/3 + 1/3) / 3. Shares 5/9, 1/9, 3/9, whose squares sum to 35/81.
    found = RoundAgreement(voted)
    assert found.n_items == 3
    assert found.percent.value == pytest.approx(5 / 9)
    assert found.fleiss.value == pytest.approx((45 - 35) / (81 - 35))
    assert found.alpha.value == pytest.approx(1 - (4 / 9) / ((81 - 35) / (9 * 8)))
    assert found.ac1.value == pytest.approx((45 - 23) / (81 - 23))


def test_each_person_is_compared_with_the_others_majority_alone(voted):
    # Where the two others are split there is no majority, and the item is left out.
    shares = [record.with_others.value for record in RoundAgreement(voted).records]
    assert shares == [1 / 2, 1, 1 / 2]


def test_attention_checks_are_counted_apart(voted):
    records = RoundAgreement(voted).records
    assert [(one.checks_right, one.checks_seen) for one in records] == [(1, 1), (0, 1), (0, 0)]
    assert [one.n_votes for one in records] == [4, 4, 3]


def test_fleiss_takes_complete_items_and_alpha_all_that_have_two_votes(project, people):
    round_ = round_of(project, 3, votes=2)
    first, second, third = items_of(round_)
    for item, labels in ((first, ("win", "win")), (second, ("lose", "lose")), (third, ("tie",))):
        for person, label in zip(people, labels, strict=False):
            make_vote(item, person, label)
    found = RoundAgreement(round_)
    assert (found.fleiss.value, found.fleiss.n) == (1, 2)
    assert found.n_items == 2


def test_fleiss_takes_imported_votes_where_most_examples_have_as_many(project, tmp_path):
    # e0 to e2 have three votes as in VOTES; e3 and e4 have two, and e5 has four.
    make_examples(project, 6)
    more = [("win", "win"), ("tie", "tie"), ("win", "tie", "lose", "lose")]
    rows = [
        f"e{example},person-{person},{label}"
        for example, labels in enumerate([*VOTES, *more])
        for person, label in enumerate(labels)
    ]
    path = tmp_path / "votes.csv"
    path.write_text("\n".join(["external_id,annotator,label", *rows]), encoding="utf-8")
    import_votes(project, None, path)
    found = RoundAgreement(Round.objects.get(kind=Round.Kind.IMPORT))
    assert found.fleiss.value == pytest.approx((45 - 35) / (81 - 35))
    assert (found.fleiss_on, found.fleiss_votes) == (3, 3)
    assert found.n_items == 6


def test_fleiss_takes_the_votes_that_came_where_more_were_asked_for_in_vain(project, people):
    round_ = round_of(project, 2, votes=2)
    for item, labels in zip(items_of(round_), (("win", "win"), ("lose", "lose")), strict=True):
        for person, label in zip(people, labels, strict=False):
            make_vote(item, person, label)
    raise_votes(round_, None, 3)
    close(round_, None)
    found = RoundAgreement(round_)
    assert (found.fleiss.value, found.fleiss_on, found.fleiss_votes) == (1, 2, 2)


def test_what_cannot_be_had_says_why(project, people):
    round_ = round_of(project, 2, votes=2)
    nothing = RoundAgreement(round_)
    assert nothing.records == ()
    assert nothing.fleiss.value is None
    make_vote(items_of(round_)[0], people[0], "win")
    (only,) = RoundAgreement(round_).records
    assert only.with_others.value is None
    assert "shares no example" in only.with_others.reason


@pytest.mark.parametrize(("follows", "leans"), [("side", True), ("response", False)])
def test_whoever_follows_the_side_is_pointed_out(project, people, follows, leans):
    # Twelve pairs, response 1 left in half of them: always left is 2 / C(12, 6) by chance.
    round_ = round_of(project, 12, votes=1)
    for number, item in enumerate(items_of(round_)):
        left = 1 + number % 2
        by_side = "win" if left == 1 else "lose"
        label = by_side if follows == "side" else "win"
        make_vote(item, people[0], label, left_response=left)
    (record,) = RoundAgreement(round_).records
    assert record.leans == leans
    assert record.left.value == (1 if leans else 1 / 2)


def test_votes_that_were_given_elsewhere_have_no_side(project, people):
    round_ = round_of(project, 1, votes=1)
    make_vote(items_of(round_)[0], people[0], "win", left_response=None)
    (record,) = RoundAgreement(round_).records
    assert record.left.value is None
