import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from fairjudge_site.environment import SettingError

ROOT = Path(__file__).parents[2]


@pytest.fixture
def read_settings(tmp_path, monkeypatch):
    """The settings as a start in this environment would read them."""

    def read(**variables):
        for name in ("DATABASE_URL", "CELERY_BROKER_URL", "EMAIL_URL", "EMAIL_FROM"):
            monkeypatch.delenv(name, raising=False)
        for name, value in {"FAIRJUDGE_DATA": str(tmp_path), **variables}.items():
            monkeypatch.setenv(name, value)
        return runpy.run_path(str(ROOT / "fairjudge_site" / "settings.py"))

    return read


def test_no_configuration_is_a_safe_configuration(read_settings, tmp_path):
    settings = read_settings()
    assert settings["DEBUG"] is False
    assert settings["FAIRJUDGE_BIND"] == "127.0.0.1:8000"
    assert settings["FAIRJUDGE_PROXIES"] == 0
    assert settings["DATABASES"]["default"]["NAME"] == str(tmp_path / "fairjudge.sqlite3")
    assert settings["DATABASES"]["default"]["OPTIONS"]["transaction_mode"] == "IMMEDIATE"
    assert settings["CELERY_BROKER_URL"].startswith("filesystem://")
    assert settings["FAIRJUDGE_ENDPOINTS"] == {}
    assert "*" not in settings["ALLOWED_HOSTS"]


def test_an_https_address_decides_hosts_cookies_hsts_and_the_proxy(read_settings):
    settings = read_settings(FAIRJUDGE_URL="https://judge.example.org/")
    assert settings["FAIRJUDGE_URL"] == "https://judge.example.org"
    assert "judge.example.org" in settings["ALLOWED_HOSTS"]
    assert settings["CSRF_TRUSTED_ORIGINS"] == ["https://judge.example.org"]
    assert settings["SESSION_COOKIE_SECURE"]
    assert settings["CSRF_COOKIE_SECURE"]
    assert settings["SECURE_SSL_REDIRECT"]
    assert settings["SECURE_HSTS_SECONDS"] >= 365 * 24 * 3600
    assert settings["FAIRJUDGE_PROXIES"] == 1
    assert settings["FAIRJUDGE_BIND"] == "127.0.0.1:8000"


def test_a_local_address_decides_the_port(read_settings):
    assert read_settings(FAIRJUDGE_URL="http://localhost:8123")["FAIRJUDGE_BIND"] == (
        "localhost:8123"
    )


@pytest.mark.parametrize(
    ("url", "sender"),
    [
        ("https://judge.example.org", "fairjudge@judge.example.org"),
        ("http://127.0.0.1:8000", "fairjudge@localhost"),
        ("http://[::1]:8000", "fairjudge@localhost"),
    ],
)
def test_mail_comes_from_the_sites_host_unless_one_says_otherwise(read_settings, url, sender):
    assert read_settings(FAIRJUDGE_URL=url)["DEFAULT_FROM_EMAIL"] == sender
    mine = read_settings(FAIRJUDGE_URL=url, EMAIL_FROM="me@lab.org", EMAIL_URL="console://")
    assert mine["DEFAULT_FROM_EMAIL"] == "me@lab.org"
    assert mine["EMAIL_BACKEND"].endswith("console.EmailBackend")


def test_without_a_server_no_mail_leaves(read_settings):
    settings = read_settings()
    assert settings["MAIL"] == {}
    assert settings["EMAIL_BACKEND"].endswith("dummy.EmailBackend")


@pytest.mark.parametrize(
    ("url", "host", "bind"),
    [
        ("http://[::1]:8123", "[::1]", "[::1]:8123"),
        ("https://[2001:DB8::1]", "[2001:db8::1]", "127.0.0.1:8000"),
    ],
)
def test_an_address_in_figures_is_a_host_too(read_settings, url, host, bind):
    settings = read_settings(FAIRJUDGE_URL=url)
    assert host in settings["ALLOWED_HOSTS"]
    assert settings["FAIRJUDGE_BIND"] == bind


def test_a_part_of_the_data_folder_that_cannot_be_made_is_named(read_settings, tmp_path):
    (tmp_path / "queue").touch()
    with pytest.raises(SettingError, match=r"^FAIRJUDGE_DATA is not usable: .*queue/messages"):
        read_settings()


def test_a_key_alone_makes_the_default_endpoint(read_settings):
    settings = read_settings(OPENAI_API_KEY="sk-secret")
    assert settings["FAIRJUDGE_ENDPOINTS"]["default"] == {
        "base_url": "https://api.openai.com/v1",
        "key_variable": "OPENAI_API_KEY",
    }
    assert settings["FAIRJUDGE_ENDPOINT_KEYS"] == {"OPENAI_API_KEY": "sk-secret"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DATABASE_URL", "mysql://user@host/name"),
        ("DATABASE_URL", "nonsense"),
        ("DATABASE_URL", "postgres://localhost"),
        ("DATABASE_URL", "sqlite://"),
        ("CELERY_BROKER_URL", "redis://host:abc/0"),
        ("FAIRJUDGE_SENTENCE_MODEL", "/no/such/folder"),
        ("CELERY_BROKER_URL", "memory://"),
        ("FAIRJUDGE_LOG_LEVEL", "LOUD"),
        ("FAIRJUDGE_MAX_UPLOAD_MB", "0"),
    ],
)
def test_an_unsupported_value_stops_the_start(read_settings, name, value):
    with pytest.raises(SettingError, match=f"^{name} is not usable"):
        read_settings(**{name: value})


def test_a_wrong_setting_is_one_sentence_and_no_traceback(own_environment):
    wrong = {**own_environment, "FAIRJUDGE_URL": "judge.example.org"}
    command = [sys.executable, "manage.py", "check"]
    done = subprocess.run(command, cwd=ROOT, env=wrong, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("FAIRJUDGE_URL is not usable")
    assert "Traceback" not in done.stderr


@pytest.mark.system
def test_production_settings_pass_the_deployment_check(own_environment):
    production = {**own_environment, "FAIRJUDGE_URL": "https://judge.example.org"}
    command = [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "WARNING"]
    done = subprocess.run(
        command, cwd=ROOT, env=production, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_every_variable_is_in_the_example_file_and_explained_in_the_docs():
    code = (ROOT / "fairjudge_site" / "settings.py").read_text()
    compose = (ROOT / "compose.yaml").read_text()
    read = set(re.findall(r'environment\.\w+\(\s*"([A-Z_]+)"', code))
    read |= set(re.findall(r"\$\{([A-Z_]+)", compose))
    example = (ROOT / ".env.example").read_text()
    assert set(re.findall(r"^#?([A-Z_]+)=", example, re.MULTILINE)) == read
    docs = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    explained = "\n".join(path.read_text() for path in docs if path.exists())
    assert {name for name in read if name not in explained} == set()


def test_containers_have_no_rights_that_they_do_not_need():
    services = (ROOT / "compose.yaml").read_text().split("\nservices:")
    shared, named = services[0], re.split(r"\n  (?=\w+:\n)", services[1].split("\nvolumes:")[0])
    for part in (shared, *(text for text in named[1:] if "image:" in text)):
        assert "cap_drop: [ALL]" in part, part
        assert 'security_opt: ["no-new-privileges:true"]' in part, part
    with_keys = {text.partition(":")[0] for text in named[1:] if "env_file: *keys" in text}
    assert with_keys == {"web", "runs"}
    assert "--requirepass" in services[1]


def test_nothing_but_the_settings_reads_the_environment():
    """What a module needs is passed to it; another process gets the whole of it."""
    reading = re.compile(r"os\.environ\.get|getenv|os\.environ\[[^]]+\](?! =)|Environment\(os")
    readers = {
        str(path.relative_to(ROOT))
        for package in ("annotation", "fairjudge_site", "judging")
        for path in (ROOT / package).rglob("*.py")
        if reading.search(path.read_text())
    }
    assert readers == {"fairjudge_site/settings.py"}
