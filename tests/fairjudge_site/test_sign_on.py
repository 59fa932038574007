"""Single sign-on with a real provider on loopback: who gets in, who not, what groups give."""

import json
import time
from urllib.parse import parse_qs, quote, urlsplit

import jwt
import pytest
import requests
from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.test import Client, override_settings

from fairjudge_site.environment import Environment, SettingError
from judging.projects.access import add_member, change_role, remove_member
from judging.projects.accounts import create_login, expect_sign_on
from judging.projects.logins import PROVED
from judging.projects.models import AuditEvent, Membership, Role, SignOn
from tests.factories import make_member, make_project, make_user
from tests.loopback.identity import CLIENT, SECRET, IdentityProvider, new_key

pytestmark = [pytest.mark.databases, pytest.mark.django_db]

APPS = [
    "allauth",
    "allauth.account",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.openid_connect",
]
ANA = {"sub": "0815", "email": "Ana@uni.example", "email_verified": True, "name": "Ana M."}


@pytest.fixture(scope="module")
def running():
    with IdentityProvider() as made:
        yield made


@pytest.fixture
def provider(running):
    running.person = dict(ANA)
    running.change, running.sign, running.says = (lambda claims: claims), None, ""
    running.listed = {}
    return running


@pytest.fixture
def configured(provider):
    """Configures the site as its environment does, with more keys of the provider."""
    opened = []

    def close():
        while opened:
            opened.pop().disable()

    def configure(new_accounts=False, **keys):
        one = {"name": "uni", "label": "The University", "issuer": provider.issuer}
        one |= {"client_id": CLIENT, "secret": "UNI_SECRET"} | keys
        found = Environment({"FAIRJUDGE_OIDC": json.dumps([one])}).providers("FAIRJUDGE_OIDC")
        close()
        # An app of allauth looks for its middleware when it is loaded.
        override = override_settings(
            FAIRJUDGE_URL="http://testserver",
            FAIRJUDGE_OIDC=found,
            FAIRJUDGE_OIDC_SECRETS={"UNI_SECRET": SECRET},
            FAIRJUDGE_OIDC_NEW_ACCOUNTS=new_accounts,
            MIDDLEWARE=[*settings.MIDDLEWARE, "allauth.account.middleware.AccountMiddleware"],
            SOCIALACCOUNT_ADAPTER="fairjudge_site.oidc.Accounts",
        )
        apps = override_settings(INSTALLED_APPS=[*settings.INSTALLED_APPS, *APPS])
        for one in (override, apps):
            one.enable()
            opened.append(one)
        return Client()

    yield configure
    close()


@pytest.fixture
def ana(db):
    user = create_login("ana")
    expect_sign_on(user, "ana@uni.example")
    return user


def leave(client, path="/login/with/uni") -> str:
    """The address with which the provider sends the browser back."""
    begun = client.get(path)
    assert begun.status_code == 302, begun.content.decode()
    answered = requests.get(begun["Location"], allow_redirects=False, timeout=10)
    assert answered.status_code == 302, answered.text
    return answered.headers["Location"].removeprefix("http://testserver")


def sign_on(client, path="/login/with/uni"):
    return client.get(leave(client, path))


def said(response) -> str:
    return " ".join(response.content.decode().split())


def who(client) -> str | None:
    key = client.session.get("_auth_user_id")
    return key and User.objects.get(pk=key).get_username()


def test_a_person_who_is_expected_logs_in_and_comes_back_to_where_they_were(configured, ana):
    client = configured()
    came = sign_on(client, "/login/with/uni?next=/docs/files")
    assert (came.status_code, came["Location"]) == (302, "/docs/files")
    assert who(client) == "ana"
    row = SignOn.objects.get()
    assert (row.subject, row.email) == ("0815", "ana@uni.example")


def test_the_login_page_names_the_provider_and_keeps_where_one_goes(configured, provider):
    page = said(configured().get("/login/?next=/annotate/"))
    assert "/login/with/uni?next=%2Fannotate%2F" in page
    assert "Log in with <bdi>The University</bdi></span>" in page
    assert provider.issuer not in page


def test_the_request_has_a_nonce_a_state_and_a_proof_key(configured, ana, provider):
    client = configured()
    provider.asked.clear()
    sign_on(client)
    sign_on(Client())
    first, second = provider.asked
    assert first["redirect_uri"] == "http://testserver/login/with/uni/done"
    assert set(first["scope"].split()) == {"openid", "profile", "email"}
    for name in ("nonce", "state", "code_challenge"):
        assert len(first[name]) >= 16
        assert first[name] != second[name]
    assert "nonce" not in json.dumps([row.get_decoded() for row in Session.objects.all()])


def test_a_person_is_known_by_the_lasting_id_once_they_came(configured, ana, provider):
    sign_on(configured())
    provider.person |= {"email": "new@elsewhere.example"}
    client = configured()
    sign_on(client)
    assert who(client) == "ana"
    # Somebody else who gets the old address is not that person.
    provider.person = ANA | {"sub": "4711"}
    other = configured()
    assert sign_on(other).status_code == 403
    assert who(other) is None


def test_somebody_unknown_is_refused_with_a_sentence_and_no_account(configured, provider):
    client = configured()
    refused = sign_on(client)
    assert refused.status_code == 403
    assert "Nobody has an account here for this person at The University." in said(refused)
    assert who(client) is None
    assert not User.objects.exists()


def test_a_login_with_that_mail_address_is_not_taken_over(configured, provider):
    """A mail address that a person entered themselves is no proof of who they are."""
    make_user("mallory", email="ana@uni.example")
    assert sign_on(configured()).status_code == 403


def test_accounts_are_made_where_the_operator_wants_it(configured, provider):
    make_user("ana")
    client = configured(new_accounts=True)
    provider.person |= {"preferred_username": "ana"}
    assert sign_on(client).status_code == 302
    assert who(client) == "ana-2"
    made = User.objects.get(username="ana-2")
    assert made.email == "ana@uni.example"
    assert not made.has_usable_password()
    assert not made.is_staff
    again = configured(new_accounts=True)
    sign_on(again)
    assert who(again) == "ana-2"


@pytest.mark.parametrize(
    ("claims", "name"),
    [
        ({"preferred_username": "Ана Π <b>"}, "Ана-Π-b"),
        ({"preferred_username": "\u202e\0"}, "ana"),
        ({"preferred_username": 7, "email": None, "name": ""}, "7"),
        ({"email": None, "name": None}, "person"),
        ({"preferred_username": "x" * 400}, "x" * 120),
    ],
)
def test_hostile_names_become_user_names(configured, provider, claims, name):
    provider.person |= claims
    client = configured(new_accounts=True)
    assert sign_on(client).status_code == 302
    assert who(client) == name


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"nonce": "another"}, "it belongs to another login"),
        ({"nonce": None}, "it belongs to another login"),
        ({"aud": "another site"}, "it was made for another site"),
        ({"aud": [CLIENT, "another"]}, "it was made for another site"),
        ({"azp": "another"}, "it was made for another site"),
        ({"iss": "http://127.0.0.1:1"}, "it comes from another provider"),
        ({"exp": int(time.time()) - 120}, "it has expired"),
        ({"iat": int(time.time()) + 86_400}, "it is not valid yet"),
        ({"sub": "someone else"}, "its two parts are about different people"),
        ({"exp": None}, "it is no valid ID token"),
    ],
)
def test_an_id_token_that_is_not_for_this_login_opens_nothing(
    configured, ana, provider, change, reason
):
    provider.change = lambda claims: {
        name: value for name, value in (claims | change).items() if value is not None
    }
    client = configured()
    refused = sign_on(client)
    assert refused.status_code == 403
    assert f"The answer of The University can&#x27;t be used: {reason}." in said(refused)
    assert who(client) is None


def of_another_key(provider):
    key, kid = new_key(), {"kid": provider.key_id}
    return lambda claims: jwt.encode(claims, key, algorithm="RS256", headers=kid)


def of_an_unknown_key(provider):
    return lambda claims: jwt.encode(claims, new_key(), algorithm="RS256", headers={"kid": "x"})


def unsigned(provider):
    kid = {"kid": provider.key_id}
    return lambda claims: jwt.encode(claims, None, algorithm="none", headers=kid)


def signed_with_what_everybody_knows(provider):
    """The client's secret signs by HS256. Many sites were fooled by a public key in its place."""
    kid = {"kid": provider.key_id}
    return lambda claims: jwt.encode(claims, SECRET * 2, algorithm="HS256", headers=kid)


@pytest.mark.parametrize(
    "sign", [of_another_key, of_an_unknown_key, unsigned, signed_with_what_everybody_knows]
)
def test_an_id_token_must_be_signed_by_the_provider(configured, ana, provider, sign):
    provider.sign = sign(provider)
    client = configured()
    refused = sign_on(client)
    assert refused.status_code == 403
    assert "can&#x27;t be used: it" in said(refused)
    assert who(client) is None


def test_a_provider_may_change_its_key(configured, ana, provider):
    sign_on(configured())
    provider.replace_key()
    client = configured()
    sign_on(client)
    assert who(client) == "ana"


def test_a_provider_that_calls_itself_otherwise_is_not_asked(configured, ana, provider):
    provider.listed = {"issuer": "https://elsewhere.example"}
    answer = configured().get("/login/with/uni")
    assert answer.status_code == 502
    assert "The University can&#x27;t be reached now." in said(answer)


@pytest.mark.parametrize(
    "listed",
    [{"jwks_uri": None}, {"token_endpoint": 7}, {"userinfo_endpoint": "nonsense"}],
)
def test_a_provider_that_talks_nonsense_is_a_sentence(configured, ana, provider, listed):
    client = configured()
    back = leave(client)
    provider.listed = listed
    answer = client.get(back)
    assert answer.status_code in (403, 502)
    assert "You are not logged in." in said(answer)
    assert who(client) is None


def test_a_provider_that_is_down_is_a_sentence(configured, ana, provider, caplog):
    client = configured(issuer="http://127.0.0.1:9")
    answer = client.get("/login/with/uni")
    assert answer.status_code == 502
    assert "can&#x27;t be reached now. Nothing was changed." in said(answer)
    assert SECRET not in caplog.text


def test_an_answer_counts_once_and_only_in_the_browser_that_asked(configured, ana):
    client = configured()
    back = leave(client)
    stranger = Client()
    refused = stranger.get(back)
    assert refused.status_code == 403
    assert "began in another browser" in said(refused)
    assert who(stranger) is None
    assert client.get(back).status_code == 302
    assert who(client) == "ana"
    used = Client()
    used.cookies = client.cookies
    assert used.get(back).status_code == 403


def test_a_changed_state_or_code_opens_nothing(configured, ana):
    client = configured()
    back = leave(client)
    code = parse_qs(urlsplit(back).query)["code"][0]
    assert client.get(f"/login/with/uni/done?code={code}&state=made-up").status_code == 403
    assert client.get(back.replace(code, "made-up")).status_code == 502
    assert client.get("/login/with/uni/done").status_code == 403
    assert who(client) is None


def test_a_person_who_cancels_is_told_so(configured, ana, provider):
    provider.says = "access_denied"
    assert "You cancelled at The University." in said(sign_on(configured()))


def test_a_login_that_was_deactivated_stays_out(configured, ana):
    User.objects.filter(pk=ana.pk).update(is_active=False)
    refused = sign_on(configured())
    assert refused.status_code == 403
    assert "The login ana is deactivated." in said(refused)


@pytest.mark.parametrize("verified", [False, None, "no", 0])
def test_an_address_that_is_not_verified_is_nobodys(configured, ana, provider, verified):
    provider.person |= {"email_verified": verified}
    assert sign_on(configured()).status_code == 403
    assert SignOn.objects.get().subject == ""


def test_an_operator_may_trust_the_addresses_of_a_provider(configured, ana, provider):
    del provider.person["email_verified"]
    assert sign_on(configured()).status_code == 403
    assert sign_on(configured(trust_mail=True)).status_code == 302


@pytest.mark.parametrize(
    "email", ["ana@gmail.example", "ana@uni.example.evil.example", "ana@sub.uni.example", None]
)
def test_other_domains_are_refused_by_name(configured, provider, email):
    provider.person |= {"email": email}
    refused = sign_on(configured(domains=["Uni.example", "lab.example"], new_accounts=True))
    assert refused.status_code == 403
    assert "Only verified mail addresses of uni.example, lab.example may log in" in said(refused)
    assert not User.objects.exists()


def test_an_unverified_address_of_the_right_domain_is_refused_too(configured, provider):
    provider.person |= {"email_verified": False}
    assert sign_on(configured(domains=["uni.example"], new_accounts=True)).status_code == 403
    provider.person |= {"email_verified": True}
    assert sign_on(configured(domains=["uni.example"], new_accounts=True)).status_code == 302


def test_a_person_connects_the_provider_with_their_login_and_ends_it(configured, provider):
    user = make_user("ana")
    client = configured()
    client.post("/login/", {"username": "ana", "password": "pw"})
    assert client.get("/login/with/uni")["Location"] == "/account/"
    link = client.get("/account/").context["connect_key"]
    came = sign_on(client, f"/login/with/uni?key={link}")
    assert came["Location"] == "/account/"
    assert "You can log in with <bdi>The University</bdi>" in said(client.get("/account/"))
    other = configured()
    sign_on(other)
    assert who(other) == "ana"
    # A second login can't have the same person.
    make_user("ben")
    other = configured()
    other.post("/login/", {"username": "ben", "password": "pw"})
    link = other.get("/account/").context["connect_key"]
    assert "already has a login here" in said(sign_on(other, f"/login/with/uni?key={link}"))
    assert SignOn.objects.get().user == user
    # A session that somebody left open is not enough to take a way in from its person.
    session = client.session
    session[PROVED] = 0
    session.save()
    remove = f"/account/sign-on/{SignOn.objects.get().pk}"
    assert "Log in again first" in said(client.post(remove, follow=True))
    assert SignOn.objects.exists()
    session[PROVED] = time.time()
    session.save()
    client.post(remove)
    assert not SignOn.objects.exists()


def test_a_session_left_open_connects_no_other_way_in(configured, provider):
    """Who finds it could connect a person of their own, and come back for good."""
    make_user("ana")
    client = configured()
    client.post("/login/", {"username": "ana", "password": "pw"})
    begun = f"/login/with/uni?key={client.get('/account/').context['connect_key']}"
    session = client.session
    session[PROVED] = 0
    session.save()
    asked = client.get(begun)["Location"]
    assert asked == f"/login/confirm?next={quote(begun, safe='')}"
    assert client.post(asked, {"password": "no"}).status_code == 422
    assert client.get(begun)["Location"] == asked
    assert client.post(asked, {"password": "pw"})["Location"] == begun
    assert sign_on(client, begun)["Location"] == "/account/"
    assert SignOn.objects.get().subject == "0815"


def test_without_a_password_the_only_way_in_stays(configured, ana):
    client = configured()
    sign_on(client)
    page = client.post(f"/account/sign-on/{SignOn.objects.get().pk}", follow=True)
    assert "You have no password" in said(page)
    assert SignOn.objects.exists()


# Groups


ROLES = {
    "judges": ["researcher"],
    "admins": ["operator"],
    "labellers": ["vicuna:annotator"],
    "leads": ["vicuna:owner", "researcher"],
    "gone": ["no-such-project:annotator"],
}


@pytest.fixture
def come(configured, ana, provider):
    """Logs Ana in with these groups."""

    def come(*groups):
        provider.person["groups"] = list(groups)
        client = configured(roles=ROLES)
        assert sign_on(client).status_code == 302
        return User.objects.get(username="ana")

    return come


def role_in(project, user) -> str | None:
    return project.memberships.filter(user=user).values_list("role", flat=True).first()


def test_a_group_gives_a_right_and_takes_it_again_at_the_next_login(come):
    assert not come().has_perm("judging.researcher")
    assert come("judges", "unknown").has_perm("judging.researcher")
    assert SignOn.objects.get().granted == ["researcher"]
    assert not come().has_perm("judging.researcher")
    assert SignOn.objects.get().granted == []
    said = AuditEvent.objects.filter(actor="single sign-on").order_by("pk")
    assert list(said.values_list("action", flat=True)) == [
        "research granted", "research withdrawn",
    ]  # fmt: skip


def test_a_group_gives_a_role_in_a_project_the_largest_of_several(come):
    project = make_project("vicuna")
    make_member(project, Role.OWNER, "olga")
    assert role_in(project, come("labellers")) == "annotator"
    assert role_in(project, come("labellers", "leads")) == "owner"
    assert role_in(project, come("labellers")) == "annotator"
    assert role_in(project, come()) is None
    assert role_in(project, come("labellers")) == "annotator"


def test_the_domain_of_a_verified_address_gives_rights_as_a_group_does(configured, provider):
    project, other = make_project("vicuna"), make_project("other")
    roles = {"@uni.example": ["vicuna:annotator"], "@lab.example": ["other:annotator"]}
    client = configured(new_accounts=True, roles=roles)
    sign_on(client)
    user = User.objects.get(username=who(client))
    assert (role_in(project, user), role_in(other, user)) == ("annotator", None)
    provider.person["email_verified"] = False
    sign_on(configured(roles=roles))
    assert role_in(project, user) is None
    # A part of the name, another domain, and no address at all.
    for email in ("ana@sub.uni.example", "ana@lab.example@evil.example", None):
        provider.person |= {"email": email, "email_verified": True}
        sign_on(configured(roles=roles))
        assert not user.memberships.exists()


def test_what_people_gave_by_hand_stays(come, ana):
    project = make_project("vicuna")
    olga = make_member(project, Role.OWNER, "olga")
    add_member(project, olga, ana, Role.REVIEWER)
    assert role_in(project, come("labellers")) == "reviewer"
    assert SignOn.objects.get().granted == []
    assert role_in(project, come()) == "reviewer"


def test_what_people_took_or_changed_by_hand_stays_so_too(come):
    project = make_project("vicuna")
    olga = make_member(project, Role.OWNER, "olga")
    ana = come("labellers")
    remove_member(project.memberships.get(user=ana), olga)
    assert role_in(project, come("labellers")) is None
    # Another group is no new start, at whichever login.
    assert role_in(project, come("leads")) is None
    assert role_in(project, come("leads")) is None
    assert role_in(project, come()) is None
    ana = come("labellers")
    change_role(project.memberships.get(user=ana), olga, Role.RESEARCHER)
    assert role_in(project, come()) == "researcher"


def test_the_last_owner_and_the_last_operator_stay(come, ana, caplog):
    project = make_project("vicuna")
    make_member(project, Role.OWNER, "olga")
    come("leads")
    Membership.objects.exclude(user=ana).update(role=Role.ANNOTATOR)
    assert role_in(project, come()) == "owner"
    assert "This is the last owner" in caplog.text
    assert SignOn.objects.get().granted == ["vicuna:owner"]
    assert come("admins").is_superuser
    assert come().is_superuser
    assert "This is the last operator" in caplog.text
    make_user("sue", is_superuser=True)
    ana = come()
    assert not ana.is_superuser
    assert not ana.is_staff


def test_a_project_that_is_not_there_keeps_nobody_out(come, caplog):
    come("gone", "judges")
    assert SignOn.objects.get().granted == ["researcher"]
    assert "There is no such project" in caplog.text


@pytest.mark.parametrize(
    "groups", [{"a": 1}, 7, None, [["judges"]], "judges-and-more", ["Judges"], [None]]
)
def test_groups_of_another_kind_give_nothing(configured, ana, provider, groups):
    provider.person["groups"] = groups
    sign_on(configured(roles=ROLES))
    assert SignOn.objects.get().granted == []


def test_groups_may_be_in_another_claim_or_deeper(configured, ana, provider):
    provider.person |= {"https://x.example/groups": "judges", "realm_access": {"roles": ["leads"]}}
    sign_on(configured(roles=ROLES, groups="https://x.example/groups"))
    assert SignOn.objects.get().granted == ["researcher"]
    sign_on(configured(roles={"leads": ["operator"]}, groups="realm_access.roles"))
    assert SignOn.objects.get().granted == ["operator"]


# The second factor


@pytest.mark.parametrize(
    ("keys", "claims", "asks"),
    [
        ({}, {}, True),
        ({"second_factor": True}, {}, False),
        ({}, {"amr": ["pwd", "mfa"]}, False),
        ({}, {"amr": ["pwd"]}, True),
        ({}, {"amr": "mfa"}, True),
    ],
)
def test_the_site_asks_for_a_second_factor_unless_the_provider_did(
    configured, ana, provider, settings, keys, claims, asks
):
    settings.FAIRJUDGE_SECOND_FACTOR = "OFFERED"
    ana.second_factors.create(kind="app", name="phone", secret="x")
    provider.person |= claims
    client = configured(**keys)
    came = sign_on(client, "/login/with/uni?next=/annotate/")
    assert came["Location"] == ("/login/second" if asks else "/annotate/")
    assert who(client) == (None if asks else "ana")


# The environment


ONE = {"name": "uni", "issuer": "https://login.uni.example/", "client_id": "x"}


def test_a_provider_needs_three_keys():
    found = Environment({"OIDC": json.dumps([ONE])}).providers("OIDC")
    assert found["uni"]["issuer"] == "https://login.uni.example"
    assert found["uni"]["label"] == "uni"
    assert Environment({}).providers("OIDC") == {}


@pytest.mark.parametrize(
    "wrong",
    [
        {"issuer": "http://login.uni.example"},
        {"roles": {"@Uni.example": ["researcher"]}},
        {"issuer": "login.uni.example"},
        {"issuer": 7},
        {"name": "Uni/1"},
        {"name": ""},
        {"secret": "not a name"},
        {"domains": "uni.example"},
        {"roles": {"judges": "researcher"}},
        {"roles": {"judges": ["superuser"]}},
        {"roles": {"judges": ["vicuna:boss"]}},
        {"second_factor": "yes"},
        {"unknown": 1},
    ],
)
def test_a_provider_that_cannot_be_used_stops_the_start(wrong):
    for listed in ([ONE | wrong], [ONE, ONE], {"uni": ONE}):
        with pytest.raises(SettingError, match=r"^OIDC is not usable: "):
            Environment({"OIDC": json.dumps(listed)}).providers("OIDC")
