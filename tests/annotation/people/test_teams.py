"""Teams across projects, and rounds that ask teams, tags, names and shares."""

from decimal import Decimal

import pytest
from django.core.management import CommandError, call_command
from django.urls import reverse

from annotation.models import Annotator, Item, Round, Seat, Slot, Team
from annotation.people.annotators import annotator_of, leave_project
from annotation.people.personal_data import erase_person, held_about
from annotation.people.teams import (
    Whom,
    add_to_project,
    asked_in,
    assign_whom,
    delete_team,
    make_team,
    put_in,
    read_share,
    read_tags,
    take_out,
    team_named,
)
from annotation.queue.queue import NoItem, claim_next, skip
from annotation.rounds.opening import RoundSettings, open_round
from annotation.votes.voting import record_vote
from judging.core.errors import UserError
from judging.projects.models import AuditEvent, Membership, Role
from tests.factories import make_examples, make_member, make_project, make_user

pytestmark = [pytest.mark.django_db, pytest.mark.databases]


@pytest.fixture
def olga(project):
    return make_member(project, Role.OWNER, "olga")


@pytest.fixture
def people(project):
    return {name: make_member(project, name=name) for name in ("ana", "ben", "cem", "dan")}


@pytest.fixture
def team(project, olga, people):
    made = make_team(olga, "Berlin")
    put_in(made, olga, [people["ana"], people["ben"]], ["German"])
    put_in(made, olga, [people["cem"]], ["german", "law"])
    return made


@pytest.fixture
def round_(project):
    make_examples(project, 4)
    return open_round(project, None, None, RoundSettings(everything=True, votes=2, seed=5))


def seated(round_):
    seats = Seat.objects.filter(round=round_).values_list("annotator__name", "limit")
    return dict(seats)


def test_a_team_has_people_of_its_owners_projects_alone(client, project, olga, team, people):
    client.force_login(olga)
    page = reverse("team", args=[team.pk])
    stranger = make_member(make_project("elsewhere"), name="stranger")
    assert "stranger" not in client.get(page).text
    refused = client.post(page, {"add": "1", "people": [stranger.pk]})
    assert refused.status_code == 422
    with pytest.raises(UserError, match="in no project that olga owns"):
        put_in(team, olga, [stranger], [])
    client.post(page, {"add": "1", "people": [people["dan"].pk], "tags": "Law,  medicine,law"})
    assert team.members.get(user=people["dan"]).tags == ["law", "medicine"]
    dan = team.members.get(user=people["dan"])
    client.post(page, {"member": dan.pk, "tags": "french"})
    client.post(page, {"rename": "1", "name": "  Berlin <b>\t2 "})
    assert "Berlin &lt;b&gt; 2" in client.get(page).text
    client.post(page, {"member": dan.pk, "remove": "1"})
    assert client.post(page, {"delete": "1", "confirm": "no"}).status_code == 422
    trail = project.audit_events.filter(detail__has_key="team").order_by("pk")
    assert list(trail.values_list("actor", "action", "subject"))[-4:] == [
        ("olga", "added to a team", "dan"),
        ("olga", "tags in a team changed", "dan"),
        ("olga", "team renamed", "Berlin <b> 2"),
        ("olga", "removed from a team", "dan"),
    ]
    client.post(page, {"delete": "1", "confirm": "Berlin <b> 2"})
    assert not Team.objects.exists()
    assert Membership.objects.filter(project=project).count() == 5
    assert AuditEvent.objects.filter(action="team deleted", project=project).exists()


def test_a_stranger_and_the_people_themselves_learn_of_no_team(client, team, people, round_):
    assign_whom(round_, None, Whom(teams=(team,)))
    others = [make_user("nobody"), make_member(make_project(), Role.OWNER), people["ana"]]
    for user in others:
        client.force_login(user)
        assert client.get(reverse("team", args=[team.pk])).status_code == 404
        assert "Berlin" not in client.get("/annotate/").text + client.get("/").text
    assert client.get("/teams/").status_code == 404
    client.force_login(make_user("sue", is_superuser=True))
    assert "Berlin" in client.get("/teams/").text


@pytest.mark.parametrize("tag", ["x" * 41, "a\u202eb", "nul\x00"])
def test_what_can_be_no_tag_is_refused(tag):
    with pytest.raises(UserError, match="can't be a tag"):
        read_tags([tag])


def test_a_team_is_added_to_another_project_of_its_owner(client, olga, team, people):
    second = make_project("second")
    Membership.objects.create(project=second, user=olga, role=Role.OWNER)
    Membership.objects.create(project=second, user=people["cem"], role=Role.RESEARCHER)
    client.force_login(olga)
    client.post(reverse("people_team", args=["second"]), {"team": team.pk})
    roles = dict(second.memberships.values_list("user__username", "role"))
    assert roles == {
        "olga": "owner", "cem": "researcher", "ana": "annotator", "ben": "annotator"
    }  # fmt: skip
    assert Annotator.objects.filter(project=second).count() == 2
    added = second.audit_events.filter(action="member added")
    assert set(added.values_list("actor", "subject")) == {("olga", "ana"), ("olga", "ben")}
    # Who left comes back by a link alone, and who is in no project of the owner isn't taken along.
    leave_project(second.memberships.get(user=people["ben"]), people["ben"])
    for membership in people["ana"].memberships.all():
        leave_project(membership, olga)
    done = add_to_project(team, second, olga)
    assert (done.joined, done.already, done.to_invite) == (0, 1, 2)
    with pytest.raises(UserError, match="doesn't own this project"):
        add_to_project(team, make_project("third"), olga)


def test_a_co_owner_adds_no_team_of_another(client, project, olga, team):
    other = make_member(project, Role.OWNER, "otto")
    client.force_login(other)
    address = reverse("people_team", args=[project.slug])
    assert client.post(address, {"team": team.pk}).status_code == 404


def test_a_round_asks_a_team_by_tag_and_keeps_the_words(
    client, project, olga, team, people, round_
):
    client.force_login(olga)
    page = reverse("round", args=[project.slug, 1])
    dan = annotator_of(project, people["dan"])
    sent = {"teams": [team.pk], "tags": "Law", "people": [dan.pk], "limit": "4", "shares": ""}
    assert client.post(reverse("round_people", args=[project.slug, 1]), sent).status_code == 302
    assert seated(round_) == {"cem": 4, "dan": 4}
    text = " ".join(client.get(page).text.split())
    assert "<dt>Team</dt><dd><bdi>Berlin</bdi></dd>" in text
    assert "<dt>Tag</dt><dd><bdi>law</bdi>" in text
    assert "Nobody has joined or left since the last assignment." in text
    # Who joins the team gets nothing until the round is assigned again.
    put_in(team, olga, [people["ana"]], ["law"])
    take_out(team, olga, people["cem"])
    assert "1 person joined and 1 left" in client.get(page).text
    ana = annotator_of(project, people["ana"])
    round_.refresh_from_db()
    assert claim_next(round_, ana) == NoItem("not_assigned")
    client.post(reverse("round_people", args=[project.slug, 1]), {"again": "1"})
    assert seated(round_) == {"ana": 4, "dan": 4}
    # Without the team nothing is guessed.
    delete_team(team, olga)
    assert "was deleted" in client.get(page).text
    client.post(reverse("round_people", args=[project.slug, 1]), {"again": "1"})
    assert seated(round_) == {"ana": 4, "dan": 4}
    client.post(reverse("round_people", args=[project.slug, 1]), {"people": []})
    round_.refresh_from_db()
    assert round_.open_to_all
    assert asked_in(round_) is None


def test_words_that_name_nobody_never_mean_everybody(project, olga, team, round_):
    for whom in (Whom(teams=(team,), tags=("latin",)), Whom(tags=("latin",))):
        with pytest.raises(UserError, match=r"Nobody in .* with the tag latin"):
            assign_whom(round_, None, whom)
    round_.refresh_from_db()
    assert round_.open_to_all
    assert not Seat.objects.exists()
    observer = make_member(project, Role.OBSERVER, "oona")
    put_in(team, olga, [observer], ["latin"])
    with pytest.raises(UserError, match="Nobody in"):
        assign_whom(round_, None, Whom(tags=("latin",)))


def test_shares_become_limits_that_give_each_item_its_votes(project, team, people, round_):
    ana, ben, cem = (annotator_of(project, people[name]) for name in ("ana", "ben", "cem"))
    # 4 items with 2 votes are 8 votes: 30 % of them are 2.4, rounded up.
    whom = Whom(teams=(team,), shares={ana: Decimal(30), ben: 2})
    assert assign_whom(round_, None, whom) == 3
    assert seated(round_) == {"ana": 3, "ben": 2, "cem": None}
    for person in (ana, ben, cem) * 4:
        draft = claim_next(round_, person)
        if not isinstance(draft, NoItem):
            record_vote(draft, {"overall": "tie"})
    assert not Slot.objects.filter(round=round_, vote=None).exists()
    assert Slot.objects.filter(round=round_, annotator=ana).count() <= 3


def test_nobody_waits_for_a_person_whose_share_is_used_up(
    project, people, round_, django_capture_on_commit_callbacks
):
    ana, ben, cem = (annotator_of(project, people[name]) for name in ("ana", "ben", "cem"))
    assign_whom(round_, None, Whom(people=(ben, cem), shares={ana: 1}))
    hers = claim_next(round_, ana)
    for person in (ben, cem):
        for _ in range(2):
            skip(claim_next(round_, person))
    skipped = Item.objects.filter(skips__annotator=ben).exclude(pk=hers.item_id).first()
    assert skipped.state == Item.State.OPEN
    with django_capture_on_commit_callbacks(execute=True):
        record_vote(hers, {"overall": "tie"})
    skipped.refresh_from_db()
    assert skipped.state == Item.State.ADJUDICATE


@pytest.mark.parametrize(
    ("shares", "limit", "said"),
    [
        ({"ana": "60 %"}, None, "more than one vote on each of 4 items. ana can give at most 50 %"),
        ({"ana": "25%", "ben": "25%"}, 2, "the 3 people who are asked can give 6 votes, but 8"),
        ({"ana": "1", "ben": "1"}, None, "can give 6 votes, but 8 are needed"),
    ],
)
def test_shares_that_give_too_few_votes_are_refused_with_the_numbers(
    project, team, people, round_, shares, limit, said
):
    before = Round.objects.values().get()
    own = {annotator_of(project, people[name]): read_share(text) for name, text in shares.items()}
    with pytest.raises(UserError, match=said):
        assign_whom(round_, None, Whom(teams=(team,), limit=limit, shares=own))
    assert Round.objects.values().get() == before
    assert not Seat.objects.exists()


@pytest.mark.parametrize("text", ["", "0", "0%", "101 %", "30 percent", "-1", "1.5", "٣%"])
def test_what_is_no_share_is_refused(text):
    with pytest.raises(UserError, match="isn't a share"):
        read_share(text)


def test_the_command_opens_a_round_for_teams_tags_names_and_shares(project, olga, team, people):
    make_examples(project, 4)
    own = {"team": ["Berlin"], "tag": ["german"], "annotator": ["dan"], "share": ["ana=50%"]}
    call_command("open_round", project.slug, all=True, votes=2, limit=3, **own)
    round_ = Round.objects.get()
    assert seated(round_) == {"ana": 4, "ben": 3, "cem": 3, "dan": 3}
    assert not round_.open_to_all
    assert round_.selections.get().parameters.get("assigned") is None
    asked = asked_in(round_)
    assert (asked.teams, asked.tags, asked.people) == (["Berlin"], ["german"], ["dan"])
    assert asked.shares == [("ana", "50 %")]
    for wrong, said in (
        ({"team": ["Rome"]}, "Known teams: Berlin"),
        ({"share": ["zoe=30%"]}, "zoe is not a member"),
        ({"share": ["ana=much"]}, "isn't a share"),
    ):
        with pytest.raises(CommandError, match=said):
            call_command("open_round", project.slug, all=True, **wrong)
    assert Round.objects.count() == 1


def test_too_small_a_team_is_warned_of(client, project, olga, team, people):
    make_examples(project, 2)
    settings = RoundSettings(everything=True, votes=3, teams=(team,), tags=("law",))
    open_round(project, None, None, settings)
    client.force_login(olga)
    page = " ".join(client.get(reverse("round", args=[project.slug, 1])).text.split())
    assert "Only one person can vote in this round, but 2 items need 3 votes." in page


def test_owners_with_teams_of_one_name_are_told_apart(project, team):
    otto = make_member(project, Role.OWNER, "otto")
    theirs = make_team(otto, "Berlin")
    with pytest.raises(UserError, match="olga/Berlin, otto/Berlin"):
        team_named(project, "Berlin")
    assert team_named(project, "otto/Berlin") == theirs


def test_an_erased_person_is_in_no_team(project, olga, team, people):
    (held,) = [row for row in held_about(people["ana"]) if row["about"] == "team"]
    assert (held["team"], held["tags"]) == ("Berlin", ["german"])
    erase_person(people["ana"], None)
    assert sorted(team.members.values_list("user__username", flat=True)) == ["ben", "cem"]
    erased = AuditEvent.objects.filter(action="added to a team")
    assert "ana" not in set(erased.values_list("subject", flat=True))


def test_a_team_costs_a_round_page_the_same_queries_whatever_its_size(
    client, project, olga, team, people, round_, django_assert_max_num_queries
):
    assign_whom(round_, None, Whom(teams=(team,)))
    client.force_login(olga)
    pages = [reverse("round", args=[project.slug, 1]), reverse("team", args=[team.pk])]
    counts = []
    for _ in range(2):
        for page in pages:
            with django_assert_max_num_queries(60) as queries:
                client.get(page)
            counts.append(len(queries))
        put_in(team, olga, [make_member(project) for _ in range(20)], ["german"])
        assign_whom(round_, None, Whom(teams=(team,)))
    assert counts[:2] == counts[2:]
