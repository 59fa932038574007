"""The pages around a login in a real browser: passkeys, codes, sessions, and single sign-on."""

import json
import os
import re
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import httpx
import pyotp
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from judging.projects import factors, logins
from judging.projects.models import LoginSession, SecondFactor, SignOn
from tests.browser.opening import in_both_schemes
from tests.factories import make_user
from tests.loopback.identity import CLIENT, SECRET, IdentityProvider
from tests.processes import eventually, free_port

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

ROOT = Path(__file__).parents[2]
SIZES = (390, 820, 1440)
HOSTILE = "<b>Ünïcode</b> \u202eevil مفتاح العمل" + "W" * 20


@pytest.fixture(autouse=True)
def offered(settings, live_server):
    settings.FAIRJUDGE_SECOND_FACTOR = "OFFERED"
    settings.FAIRJUDGE_URL = live_server.url


@pytest.fixture
def ana(project):
    return make_user("ana")


@pytest.fixture
def page(pages):
    taken = pages.take({})
    yield taken
    pages.give_back(taken)


def enter_password(page):
    page.goto("/login/")
    page.get_by_label("Username").fill("ana")
    page.get_by_label("Password").fill("pw")
    page.get_by_role("button", name="Log in").click()


def log_out(page):
    page.get_by_role("button", name="Log out", exact=True).click()
    expect(page.get_by_role("heading", name="Log in", exact=True)).to_be_visible()


@contextmanager
def authenticator(page, **options):
    """A virtual authenticator in the browser, as a phone or a laptop has one."""
    session = page.context.new_cdp_session(page)
    session.send("WebAuthn.enable")
    made = {
        "protocol": "ctap2", "transport": "internal", "hasResidentKey": True,
        "hasUserVerification": True, "isUserVerified": True, "automaticPresenceSimulation": True,
    }  # fmt: skip
    found = session.send("WebAuthn.addVirtualAuthenticator", {"options": made | options})
    try:
        yield session, found["authenticatorId"]
    finally:
        session.send("WebAuthn.disable")
        session.detach()


def add_passkey(page, name="Work laptop"):
    page.goto("/account/")
    page.get_by_role("link", name="Add a passkey").click()
    page.get_by_label("Name").fill(name)
    page.get_by_role("button", name="Make a passkey").click()


def test_a_passkey_is_made_and_opens_the_next_login(page, ana):
    enter_password(page)
    with authenticator(page) as (session, key):
        add_passkey(page)
        expect(page.get_by_role("heading", name="Keep these recovery codes now")).to_be_visible()
        assert page.locator(".codes code").count() == factors.N_CODES
        expect(page.get_by_role("row", name="Work laptop")).to_contain_text("passkey")
        (made,) = session.send("WebAuthn.getCredentials", {"authenticatorId": key})["credentials"]
        assert made["rpId"] == "localhost"
        # The same authenticator makes no second one for the same login.
        add_passkey(page, "again")
        expect(page.get_by_role("alert")).to_contain_text("Your browser made no passkey.")
        log_out(page)
        enter_password(page)
        expect(page.get_by_role("heading", name="Enter your second factor")).to_be_visible()
        page.get_by_role("button", name="Use a passkey").click()
        expect(page.get_by_role("button", name="Log out", exact=True)).to_be_visible()
    assert SecondFactor.objects.get().used_at is not None


def test_another_passkey_opens_nothing(page, ana):
    enter_password(page)
    with authenticator(page):
        add_passkey(page)
        expect(page.get_by_role("heading", name="Keep these recovery codes now")).to_be_visible()
        log_out(page)
    with authenticator(page):
        enter_password(page)
        page.get_by_role("button", name="Use a passkey").click()
        expect(page.get_by_role("alert")).to_contain_text("Your browser used no passkey.")
    assert page.request.get("/tokens/", max_redirects=0).status == 302


def test_an_answer_of_a_passkey_counts_once(page, ana):
    enter_password(page)
    with authenticator(page):
        add_passkey(page)
        log_out(page)
        enter_password(page)
        sent = []
        page.on("request", lambda one: one.method == "POST" and sent.append(one.post_data))
        page.get_by_role("button", name="Use a passkey").click()
        expect(page.get_by_role("button", name="Log out", exact=True)).to_be_visible()
        log_out(page)
        enter_password(page)
        answer = next(text for text in sent if "answer=%7B" in text)
        token = page.locator("form[data-passkey] [name=csrfmiddlewaretoken]").input_value()
        body = re.sub(r"csrfmiddlewaretoken=[^&]*", f"csrfmiddlewaretoken={token}", answer)
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Referer": page.url}
        again = page.request.post(
            "/login/second", data=body.encode(), headers=headers, max_redirects=0
        )
    assert again.status == 422
    assert "This passkey was not accepted." in again.text()


def test_a_site_under_another_name_gets_no_passkey(page, ana, settings, live_server):
    """A page that only looks like this one can make no answer that this one takes."""
    enter_password(page)
    with authenticator(page):
        add_passkey(page)
        log_out(page)
        settings.FAIRJUDGE_URL = "https://localhost"
        enter_password(page)
        page.get_by_role("button", name="Use a passkey").click()
        expect(page.get_by_text("This passkey was not accepted.")).to_be_visible()


def test_an_app_is_added_and_its_codes_open_the_next_logins(page, ana):
    """By the clock of this machine, over the end of a time step."""
    enter_password(page)
    page.goto("/account/")
    page.get_by_role("link", name="Add an authenticator app").click()
    app = pyotp.TOTP(page.get_by_label("No camera?").input_value())
    page.get_by_label("Code that the app shows now").fill(app.now())
    page.get_by_role("button", name="Add the app").click()
    expect(page.get_by_role("heading", name="Keep these recovery codes now")).to_be_visible()
    used = app.now()
    log_out(page)
    enter_password(page)
    page.get_by_label("Code").fill(used)
    page.get_by_role("button", name="Go on").click()
    expect(page.get_by_text("This code is wrong, too old, or was used before.")).to_be_visible()
    # Until the app shows the next code.
    assert eventually(lambda: app.now() != used, within=40)
    page.get_by_label("Code").fill(app.now())
    page.get_by_role("button", name="Go on").click()
    expect(page.get_by_role("button", name="Log out", exact=True)).to_be_visible()


def fits(page):
    for scheme in in_both_schemes(page):
        for width in SIZES:
            page.set_viewport_size({"width": width, "height": 900})
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, f"{page.url} at {width} px in {scheme} is {wide} px wide"
            if folder := os.environ.get("FAIRJUDGE_TEST_PICTURES"):
                name = page.url.split("/", 3)[3].replace("/", "-").split("?")[0]
                page.screenshot(path=f"{folder}/{name}-{width}-{scheme}.png", full_page=True)
        found = Axe().run(page).response["violations"]
        assert not found, f"{page.url} in {scheme}: {found[0]['id']}: {found[0]['nodes'][0]}"


def test_the_pages_fit_and_are_accessible_with_hostile_names(page, ana, settings, monkeypatch):
    settings.MAIL = {"EMAIL_HOST": "localhost"}
    uni = {"name": "uni", "label": f"The {HOSTILE}", "issuer": "https://login.uni.example"}
    other = {"name": "lab", "label": "Lab", "issuer": "https://lab.example"}
    settings.FAIRJUDGE_OIDC = {"uni": uni, "lab": other}
    SignOn.objects.create(
        user=ana, issuer=uni["issuer"], subject="1", email="x" * 60 + "@" + "y" * 60 + ".example"
    )
    page.goto("/login/?next=/annotate/")
    fits(page)
    page.goto("/password/forgot")
    fits(page)
    page.get_by_label("User name").fill("nobody")
    page.get_by_role("button", name="Send").click()
    fits(page)
    enter_password(page)
    expect(page.get_by_role("button", name="Log out", exact=True)).to_be_visible()
    page.goto("/account/")
    fits(page)
    page.goto("/account/app")
    fits(page)
    page.goto("/account/passkey")
    fits(page)
    with authenticator(page):
        add_passkey(page, HOSTILE)
        for n in range(3):
            LoginSession.objects.create(
                user=ana, session_key=page.context.cookies()[0]["value"][:30] + str(n),
                device="Samsung Internet on Android",
            )  # fmt: skip
        expect(page.get_by_role("heading", name="Keep these recovery codes now")).to_be_visible()
        fits(page)
        monkeypatch.setattr(logins, "_FRESH_SECONDS", 0)
        page.goto("/account/app")
        expect(page.get_by_role("heading", name="Confirm that it is you")).to_be_visible()
        fits(page)
        log_out(page)
        enter_password(page)
        expect(page.get_by_role("button", name="Use a passkey")).to_be_visible()
        fits(page)
    factors.reset(ana, None)
    enter_password(page)
    page.goto("/login/confirm")
    fits(page)


# Single sign-on, of a site that runs by itself


@pytest.fixture
def site(environment_with_tables):
    """A site with a provider on loopback, started as an operator starts it."""
    port = free_port()
    with IdentityProvider() as provider:
        listed = [{"name": "uni", "label": "The University", "issuer": provider.issuer}]
        listed[0] |= {"client_id": CLIENT, "secret": "UNI_SECRET"}
        listed[0] |= {"roles": {"judges": ["researcher"]}}
        environment = environment_with_tables | {
            "FAIRJUDGE_URL": f"http://localhost:{port}",
            "FAIRJUDGE_BIND": f"127.0.0.1:{port}",
            "FAIRJUDGE_WEB_PROCESSES": "1",
            "FAIRJUDGE_OIDC": json.dumps(listed),
            "FAIRJUDGE_OIDC_NEW_ACCOUNTS": "1",
            "UNI_SECRET": SECRET,
        }

        def manage(*command, **variables):
            return subprocess.run(
                [sys.executable, ROOT / "manage.py", *command], env=environment | variables,
                cwd=ROOT, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
            )  # fmt: skip

        command = [sys.executable, ROOT / "manage.py", "runall", "--only", "web"]
        log = Path(environment["FAIRJUDGE_DATA"], "web.log")
        with log.open("w") as stream:
            running = subprocess.Popen(command, env=environment, stdout=stream, stderr=stream)
        url = environment["FAIRJUDGE_URL"]
        try:
            assert eventually(lambda: running.poll() is not None or answers(url), within=120)
            assert running.poll() is None, log.read_text()
            yield url, provider, manage
        finally:
            running.terminate()
            running.wait(timeout=60)


def answers(url) -> bool:
    try:
        return httpx.get(f"{url}/login/").status_code == 200
    except httpx.HTTPError:
        return False


@pytest.mark.parametrize(
    "variables", [pytest.param({}, marks=pytest.mark.long), {"FAIRJUDGE_OIDC": ""}]
)
def test_a_person_signs_on_and_is_erased_and_the_backup_goes_elsewhere(
    site, browser, tmp_path, variables
):
    url, provider, manage = site
    provider.person = {"sub": "1", "email": "ana@uni.example", "email_verified": True}
    provider.person |= {"groups": ["judges"]}
    page = browser.new_page(base_url=url)
    refused = []
    page.on("console", lambda said: "Content Security" in said.text and refused.append(said.text))
    page.goto("/account/")
    page.get_by_role("link", name="Log in with The University").click()
    expect(page.get_by_role("heading", name="You are logged in as ana.")).to_be_visible()
    expect(page.get_by_text("You can log in with The University as ana@uni.")).to_be_visible()
    expect(page.get_by_text("Chrome on Linux")).to_be_visible()
    page.goto("/")
    expect(page.get_by_role("button", name="Create the project")).to_be_visible()
    page.get_by_role("button", name="Log out", exact=True).click()
    provider.change = lambda claims: claims | {"nonce": "another"}
    page.goto("/login/")
    page.get_by_role("link", name="Log in with The University").click()
    expect(page.get_by_text("can't be used: it belongs to another login.")).to_be_visible()
    assert refused == []
    page.close()
    # allauth's tables are there, are empty, and hold nothing up, with the setting or without.
    backup = str(tmp_path / "backup.zip")
    assert manage("backup", backup).returncode == 0
    erased = manage("erase", "ana", "--yes", **variables)
    assert erased.returncode == 0, erased.stderr
    restored = manage("restore", backup, "--yes", **variables)
    assert restored.returncode == 0, restored.stderr


def test_a_site_without_the_variables_loads_nothing_of_it(environment_with_tables):
    """Neither the start nor a request takes longer for what isn't used."""
    script = (
        "import sys\n"
        "from django.test import Client\n"
        "assert Client(SERVER_NAME='localhost').get('/login/').status_code == 200\n"
        "names = {name.partition('.')[0] for name in sys.modules}\n"
        "print(sorted(names & {'allauth', 'cryptography', 'fido2', 'jwt', 'pyotp', 'qrcode'}))\n"
    )
    command = [sys.executable, ROOT / "manage.py", "shell", "--no-imports", "--command", script]
    done = subprocess.run(
        command, env=environment_with_tables, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "[]", done.stderr
