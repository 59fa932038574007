"""An item is that of one person: nobody else gets at it, and they get back to it."""

from annotation.models import Vote
from annotation.screen.hand import address_of
from tests.annotation.screen.posting import first_item, post


def test_a_token_is_its_owners_alone(ana, client, round_, other_annotator, outsider):
    token = first_item(ana, round_)
    for person in (other_annotator, outsider):
        client.force_login(person)
        assert client.get(f"/annotate/{token}").status_code == 404
        for what in ("vote", "draft", "skip", "unskip", "flag", "back", "beat"):
            assert post(client, token, what, overall="left").status_code == 404, what
        for what in ("ahead", "texts"):
            assert client.get(f"/annotate/{token}/{what}").status_code == 404, what
    assert not Vote.objects.exists()


def test_a_round_is_its_members_alone_and_its_link_cannot_be_guessed(client, round_, outsider):
    client.force_login(outsider)
    assert client.get(address_of(round_)).status_code == 404
    assert client.get(f"/annotate/r/{round_.pk}/").status_code == 404


def test_who_left_the_project_can_go_on_with_nothing(ana, round_, annotator):
    token = first_item(ana, round_)
    annotator.memberships.all().delete()
    assert post(ana, token, overall="left").status_code == 404
    assert not Vote.objects.exists()


def test_after_a_session_has_ended_the_login_leads_back_to_the_item(client, ana, round_, annotator):
    token = first_item(ana, round_)
    client.logout()
    address = f"/annotate/{token}"
    for answer in (client.get(f"{address}/vote"), post(client, token)):
        assert answer.url == f"/login/?next={address}"
    credentials = {"username": annotator.username, "password": "pw"}
    assert client.post(answer.url, credentials).url == address
