"""The pages of people who come by a crowd link, as their browsers see them."""

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from annotation.models import CrowdSubmission, Draft, Vote
from annotation.people import crowds
from annotation.people.annotators import annotator_of
from annotation.people.background import read_questions, written
from annotation.people.crowds import State
from annotation.people.personal_data import erase_person
from annotation.queue.queue import claim_next
from annotation.rounds.changes import close, pause
from annotation.rounds.opening import RoundSettings, open_round
from annotation.screen.hand import address_of
from judging.projects.tokens import issue_token
from tests.annotation.crowd import SECRET, address, begin, set_up, submission
from tests.annotation.people.test_crowds import go_away
from tests.annotation.screen.posting import first_item, post, text_of
from tests.factories import make_examples

pytestmark = [pytest.mark.django_db, pytest.mark.databases]


@pytest.fixture
def round_(project):
    make_examples(project, 4)
    return open_round(project, None, None, RoundSettings(everything=True, votes=2))


@pytest.fixture
def link(round_, owner):
    return set_up(round_, owner)


def test_a_person_agrees_labels_their_pairs_and_gets_the_code(link, round_):
    browser = Client()
    page = text_of(browser.get(address(link)))
    assert "<strong>Maple Lab</strong>" in page
    assert "Log in" not in page
    answer = browser.post(address(link))
    assert answer.status_code == 422
    assert "Tick the box" in text_of(answer)
    assert "Nothing was changed" not in text_of(answer)
    assert not CrowdSubmission.objects.exists()
    assert browser.post(address(link), {"consent": "on"}).url == address_of(round_)
    for _ in range(2):
        assert "DONE42" not in text_of(browser.get(reverse("crowd_own")))
        post(browser, first_item(browser, round_), overall="left")
    page = text_of(browser.get(address_of(round_), follow=True))
    assert "DONE42" in page
    assert "worker-1" not in page
    assert submission().state == State.COMPLETE
    assert Vote.objects.count() == 2


def test_done_is_done(link, round_):
    browser = begin(link)
    tokens = []
    for _ in range(2):
        tokens.append(first_item(browser, round_))
        post(browser, tokens[-1], overall="left")
    browser.get(reverse("crowd_own"))
    for token in tokens:
        assert browser.get(f"/annotate/{token}").url == reverse("crowd_own")
        assert post(browser, token, script=True, overall="right").status_code == 409
    assert set(Vote.objects.values_list("answer__overall", flat=True)) == {"left"}


def test_the_page_of_a_pair_shows_no_ids_and_no_way_out(link, round_):
    browser = begin(link, "worker-secret")
    page = text_of(browser.get(address_of(round_), follow=True))
    assert "worker-secret" not in page
    assert SECRET not in page
    assert "Finish or stop" in page
    assert "Log out" not in page
    assert "crowd-" not in page


def test_a_code_comes_with_a_way_back_to_the_panel(link, owner, round_):
    set_up(round_, owner, completion_url="https://app.example.org/done?cc=1", max_pairs=1)
    browser = begin(link)
    post(browser, first_item(browser, round_), overall="left")
    page = text_of(browser.get(reverse("crowd_own")))
    assert 'href="https://app.example.org/done?cc=1"' in page


def test_nothing_but_the_round_is_open_to_them(link, round_, project, owner):
    other = open_round(project, None, None, RoundSettings(everything=True, votes=1))
    browser = begin(link)
    home = reverse("crowd_own")
    for name in ("home", "annotate", "tokens", "password_change", "login"):
        assert browser.get(reverse(name)).url == home, name
        assert browser.post(reverse(name)).url == home, name
    for name in ("project", "people", "rounds", "settings", "results", "project_leave"):
        assert browser.get(reverse(name, args=[project.slug])).url == home, name
    assert browser.get(f"/api/v1/projects/{project.slug}").status_code in (302, 401)
    assert browser.get(address_of(other)).status_code == 404
    user = submission().annotator.user
    # Without the session's mark, by another way to log in, there is nothing either.
    bare = Client()
    bare.force_login(user)
    assert bare.get(reverse("project", args=[project.slug])).status_code == 404
    assert bare.get(address_of(other)).status_code == 404
    assert bare.get(reverse("crowd_own")).status_code == 404
    _, token = issue_token(user, "made up", ["read"])
    headers = {"Authorization": f"Bearer {token}"}
    assert bare.get(f"/api/v1/projects/{project.slug}", headers=headers).status_code == 404


def test_people_download_what_is_held_about_them_and_nobody_else(link, round_):
    others = begin(link, "worker-2")
    post(others, first_item(others, round_), overall="left", comment="not of worker 1")
    browser = begin(link)
    post(browser, first_item(browser, round_), overall="left", comment="of worker 1")
    page = text_of(browser.get(reverse("crowd_own")))
    assert f'href="{reverse("own_data_file")}"' in page
    file = browser.get(reverse("own_data_file")).getvalue().decode()
    assert "worker-1" in file
    assert "of worker 1" in file
    assert "worker-2" not in file
    assert "not of worker 1" not in file
    # Their login has no password, and who erased themselves could come back as somebody new.
    assert browser.get(reverse("own_data")).url == reverse("crowd_own")


def test_nobody_sees_the_work_of_others_by_the_link(link, round_, annotator):
    first, second = begin(link, "worker-1"), begin(link, "worker-2")
    token = first_item(first, round_)
    assert first_item(second, round_) != token
    assert second.get(f"/annotate/{token}").status_code == 404
    assert post(second, token, overall="left").status_code == 404
    held = claim_next(round_, annotator_of(round_.project, annotator))
    assert isinstance(held, Draft)
    assert first.get(f"/annotate/{held.token}").status_code == 404
    stranger = Client()
    assert stranger.get(reverse("crowd_own")).status_code == 404
    stranger.force_login(annotator)
    assert stranger.get(f"/annotate/{token}").status_code == 404


def test_a_worker_id_alone_opens_nothing_and_the_submissions_id_does(link, round_):
    token = first_item(begin(link), round_)
    thief = Client()
    for session in ("", "made-up-session-id-0000"):
        answer = thief.get(address(link, session=session))
        assert answer.status_code == 410
        assert "already" in text_of(answer)
        assert thief.post(address(link, session=session), {"consent": "on"}).status_code == 410
    assert thief.get(f"/annotate/{token}").status_code == 302
    phone = Client()
    assert "Welcome back" in text_of(phone.get(address(link)))
    assert phone.get(f"/annotate/{token}").status_code == 302
    assert phone.post(address(link)).url == reverse("crowd_own")
    assert phone.get(f"/annotate/{token}").status_code == 200
    assert User.objects.filter(username__startswith="crowd-").count() == 1


def test_a_short_session_id_opens_nothing_on_another_device(link):
    browser = begin(link, session="7")
    assert browser.get(address(link, session="7")).url == reverse("crowd_own")
    answer = Client().post(address(link, session="7"))
    assert (answer.status_code, "another browser" in text_of(answer)) == (410, True)


def test_another_worker_in_the_same_browser_is_another_person(link, round_):
    browser = begin(link, "worker-1")
    token = first_item(browser, round_)
    browser.post(address(link, "worker-2"), {"consent": "on"})
    assert browser.get(f"/annotate/{token}").status_code == 404
    assert first_item(browser, round_) != token
    assert CrowdSubmission.objects.count() == 2


def test_members_see_a_preview_and_take_no_place(link, as_owner):
    page = as_owner.get(address(link))
    assert "preview" in text_of(page)
    as_owner.post(address(link), {"consent": "on"})
    assert "preview" in text_of(as_owner.get(address(link).split("?")[0]))
    assert not CrowdSubmission.objects.exists()


@pytest.mark.parametrize("end", ["withdrawn", "closed", "paused", "full", "cut"])
def test_a_link_that_lets_nobody_in_says_so(link, round_, owner, end):
    there = address(link)
    if end == "withdrawn":
        crowds.withdraw(link, owner)
    elif end == "closed":
        close(round_, None)
    elif end == "paused":
        pause(round_, None)
    elif end == "full":
        set_up(round_, owner, max_people=1)
        begin(link, "worker-0")
    else:
        there = there.replace("/?", "x/?")
    answer = Client().post(there, {"consent": "on"})
    assert answer.status_code == 410
    assert not CrowdSubmission.objects.filter(worker_id="worker-1").exists()
    assert "notice warning" in answer.content.decode()


def test_stopping_gives_the_pair_back_and_shows_no_code(link, round_):
    browser = begin(link)
    token = first_item(browser, round_)
    browser.post(reverse("crowd_own"), {"what": "stop"})
    page = text_of(browser.get(reverse("crowd_own")))
    assert "Return your submission" in page
    assert "DONE42" not in page
    assert browser.get(f"/annotate/{token}").url == reverse("crowd_own")
    assert browser.get(address(link)).url == reverse("crowd_own")


def test_who_was_away_goes_on_where_they_were(link, round_):
    browser = begin(link)
    token = first_item(browser, round_)
    go_away(submission())
    crowds.release_absent()
    assert browser.get(f"/annotate/{token}").url == reverse("crowd_own")
    assert "You were away" in text_of(browser.get(reverse("crowd_own")))
    assert browser.post(reverse("crowd_own"), {"what": "go_on"}).url == address_of(round_)
    assert browser.get(f"/annotate/{token}").status_code == 200


def test_a_round_that_closes_pays_those_who_voted(link, round_):
    browser = begin(link)
    post(browser, first_item(browser, round_), overall="left")
    close(round_, None)
    assert "DONE42" in text_of(browser.get(address_of(round_), follow=True))


def test_nobody_finishes_while_there_is_a_pair(link, round_):
    browser = begin(link)
    post(browser, first_item(browser, round_), overall="left")
    browser.post(reverse("crowd_own"), {"what": "finish"})
    assert submission().state == State.WORKING


def test_many_logins_from_one_address_are_refused(link, round_, owner, monkeypatch):
    monkeypatch.setattr(crowds, "LOGINS_AN_HOUR", 1)
    begin(link, "worker-1")
    answer = Client().post(address(link, "worker-2"), {"consent": "on"})
    assert (answer.status_code, "your network" in text_of(answer)) == (410, True)


QUESTIONS = (
    "choice: Do you read English? | yes | no!\nnumber: How old are you? | 18 | 99\ntext?: Job?"
)
AGREED = {"consent": "on", "question-0": "yes", "question-1": "30"}


@pytest.fixture
def asking(round_, owner):
    return set_up(round_, owner, questions=written(read_questions(QUESTIONS)))


def test_questions_come_first_and_their_answers_are_kept(asking, round_):
    browser = Client()
    page = text_of(browser.get(address(asking)))
    assert "Do you read English?" in page
    assert "no!" not in page
    answer = browser.post(address(asking), {"consent": "on", "question-1": "many"})
    assert answer.status_code == 422
    assert "Enter a number" in text_of(answer)
    assert not CrowdSubmission.objects.exists()
    begin(asking, **AGREED)
    assert submission().answers == {"Do you read English?": "yes", "How old are you?": "30"}


@pytest.mark.parametrize("more", [{"question-0": "no"}, {"question-1": "17"}])
def test_who_is_screened_out_gets_the_other_code_and_no_login(asking, round_, more):
    browser = Client()
    page = text_of(browser.post(address(asking), AGREED | more))
    assert "OUT42" in page
    assert "DONE42" not in page
    assert submission().state == State.SCREENED
    assert not User.objects.filter(username__startswith="crowd-").exists()
    assert browser.get(address_of(round_)).status_code == 302
    # Nobody answers until they fit.
    again = browser.post(address(asking), AGREED)
    assert "OUT42" in text_of(again)
    assert submission().annotator is None
    # Nobody who was screened out takes a place.
    set_up(round_, asking.created_by, max_people=1)
    begin(asking, "worker-2", **AGREED)


def test_a_choice_that_is_not_offered_is_refused(asking):
    answer = Client().post(address(asking), AGREED | {"question-0": "perhaps"})
    assert answer.status_code == 422


def test_somebody_else_logs_in_in_the_same_browser(link, round_, project, owner):
    browser = begin(link)
    owner.set_password("a long enough one")
    owner.save()
    assert "Log out of this study" not in text_of(browser.get(reverse("crowd_own")))
    browser.post(reverse("crowd_own"), {"what": "stop"})
    assert "Log out of this study" in text_of(browser.get(reverse("crowd_own")))
    browser.post(reverse("logout"))
    sent = {"username": owner.username, "password": "a long enough one"}
    assert browser.post(reverse("login"), sent).status_code == 302
    assert browser.get(reverse("people", args=[project.slug])).status_code == 200
    assert browser.get(reverse("crowd_own")).status_code == 404


def test_a_browser_of_somebody_erased_is_a_strangers(link, round_, project):
    browser = begin(link)
    token = first_item(browser, round_)
    erase_person(submission().annotator.user, None)
    assert browser.get(f"/annotate/{token}").url.startswith(reverse("login"))
    assert browser.get(reverse("home")).url.startswith(reverse("login"))
    assert browser.get(reverse("crowd_own")).status_code == 404
