import os
import stat
import threading

import pytest

from fairjudge_site.environment import Environment, SettingError, kept_secret


def test_an_empty_variable_counts_as_unset():
    environment = Environment({"A": " ", "B": ""})
    assert environment.text("A", "default") == "default"
    assert environment.flag("B", True) is True
    assert environment.integer("B", 7, 0, 9) == 7


@pytest.mark.parametrize(
    ("read", "value"),
    [
        (lambda e: e.flag("X"), "maybe"),
        (lambda e: e.integer("X", 1, 0, 9), "1.5"),
        (lambda e: e.integer("X", 1, 0, 9), "10"),
        (lambda e: e.choice("X", "INFO", "INFO", "ERROR"), "LOUD"),
        (lambda e: e.origin("X", ""), "judge.example.org"),
        (lambda e: e.origin("X", ""), "https://judge.example.org/path"),
        (lambda e: e.origin("X", ""), "https://host:port"),
        (lambda e: e.origin("X", ""), "ftp://host"),
        (lambda e: e.origin("X", ""), "https://*"),
        (lambda e: e.origin("X", ""), "https://.example.org"),
        (lambda e: e.origin("X", ""), "http://a b"),
        (lambda e: e.port("X"), "redis://host:abc/0"),
        (lambda e: e.base_url("X", ""), "ftp://host/v1"),
        (lambda e: e.base_url("X", ""), "https://user:password@host/v1"),
        (lambda e: e.address("X", ""), "8000"),
        (lambda e: e.address("X", ""), "127.0.0.1:http"),
        (lambda e: e.address("X", ""), "127.0.0.1:65536"),
        (lambda e: e.address("X", ""), "127.0.0.1:８０"),
        (lambda e: e.file("X"), "/no/such/file"),
        (lambda e: e.file("X"), "~nobody-of-this-name/prices.toml"),
        (lambda e: e.existing_folder("X"), "/no/such/folder"),
        (lambda e: e.folder("X", "/"), "~nobody-of-this-name/data"),
        (lambda e: e.folder("X", "/"), "/dev/null/folder"),
        (lambda e: e.endpoints("X"), "not json"),
        (lambda e: e.endpoints("X"), '{"name": "lab"}'),
        (lambda e: e.endpoints("X"), '[{"name": "lab"}]'),
        (lambda e: e.endpoints("X"), '[{"name": "lab", "base_url": "http://h", "api_key": "k"}]'),
        (lambda e: e.endpoints("X"), '[{"name": "local", "base_url": "http://h"}]'),
        (lambda e: e.endpoints("X"), '[{"name": "a\\n", "base_url": "http://h"}]'),
        (lambda e: e.endpoints("X"), f'[{{"name": "{"a" * 81}", "base_url": "http://h"}}]'),
        (lambda e: e.endpoints("X"), "[" * 100_000),
        (lambda e: e.endpoints("X"), '[{"name": "lab", "base_url": "http://k:k@h"}]'),
    ],
)
def test_a_wrong_value_is_refused_by_the_name_of_its_variable(read, value):
    with pytest.raises(SettingError, match=r"^X is not usable: .+ Correct it and start again\.$"):
        read(Environment({"X": value}))


def test_a_secret_must_be_long(tmp_path):
    with pytest.raises(SettingError, match="50 characters"):
        Environment({"X": "short"}).secret("X", tmp_path / "unused")


def test_endpoints_keep_the_name_of_the_key_and_never_the_key():
    text = '[{"name": "lab", "base_url": "http://host/v1", "key": "LAB_KEY"}]'
    environment = Environment({"X": text, "LAB_KEY": "sk-secret"})
    assert environment.endpoints("X") == {
        "lab": {"base_url": "http://host/v1", "key_variable": "LAB_KEY"}
    }


def test_a_key_in_the_place_of_its_variables_name_is_refused_and_not_repeated():
    text = '[{"name": "lab", "base_url": "http://host/v1", "key": "sk-secret"}]'
    with pytest.raises(SettingError, match="not the key itself") as refused:
        Environment({"X": text}).endpoints("X")
    assert "sk-secret" not in str(refused.value)


def test_an_address_is_read_as_browsers_write_it():
    assert Environment({"X": "HTTPS://Judge.Example.org/"}).origin("X", "") == (
        "https://judge.example.org"
    )


def test_a_secret_that_cannot_be_kept_is_told_by_its_place(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(SettingError, match=r"file/secret_key cannot be kept \(Not a directory\)"):
        Environment({}).secret("X", tmp_path / "file" / "secret_key")


def test_a_data_folder_is_made_and_closed_to_others(tmp_path):
    made = Environment({"X": str(tmp_path / "a" / "b")}).folder("X", tmp_path)
    assert stat.S_IMODE(made.stat().st_mode) == 0o700


def test_the_kept_secret_is_made_once_and_read_by_its_owner_only(tmp_path):
    path = tmp_path / "secret_key"
    first = kept_secret(path)
    assert len(first) >= 50
    assert kept_secret(path) == first
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_processes_that_start_at_once_agree_on_the_secret(tmp_path):
    together = threading.Barrier(16)
    seen = set()

    def start():
        together.wait()
        seen.add(kept_secret(tmp_path / "secret_key"))

    threads = [threading.Thread(target=start) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 1
    assert os.listdir(tmp_path) == ["secret_key"]


@pytest.mark.parametrize(
    ("before", "after"), [(0o777, 0o770), (0o755, 0o750), (0o700, 0o700), (0o1777, 0o1777)]
)
def test_a_data_folder_that_was_made_by_hand_is_closed_to_others(tmp_path, before, after):
    folder = tmp_path / "data"
    folder.mkdir()
    folder.chmod(before)
    assert Environment({"X": str(folder)}).folder("X", tmp_path) == folder
    assert stat.S_IMODE(folder.stat().st_mode) == after


def test_a_data_folder_that_can_not_be_closed_is_refused_with_the_command(tmp_path, monkeypatch):
    def refuse(*arguments, **more):
        raise PermissionError(1, "Operation not permitted")

    tmp_path.chmod(0o755)
    monkeypatch.setattr(type(tmp_path), "chmod", refuse)
    with pytest.raises(SettingError, match="Run: chmod o-rwx"):
        Environment({"X": str(tmp_path)}).folder("X", tmp_path)


@pytest.mark.parametrize(
    ("url", "host", "port", "ssl", "starttls"),
    [
        ("smtp://mail.example.org", "mail.example.org", 25, False, False),
        ("submission://mail.example.org", "mail.example.org", 587, False, True),
        ("smtps://mail.example.org", "mail.example.org", 465, True, False),
        ("smtp://[::1]:2525", "::1", 2525, False, False),
    ],
)
def test_the_scheme_of_mail_decides_port_and_encryption(url, host, port, ssl, starttls):
    found = Environment({"X": url}).mail("X")
    assert (found["EMAIL_HOST"], found["EMAIL_PORT"]) == (host, port)
    assert (found["EMAIL_USE_SSL"], found["EMAIL_USE_TLS"]) == (ssl, starttls)
    assert (found["EMAIL_HOST_USER"], found["EMAIL_HOST_PASSWORD"]) == ("", "")


def test_the_user_and_the_password_of_mail_may_hold_any_character():
    found = Environment({"X": "smtps://me%40example.org:p%2F%23%3A@mail.example.org"}).mail("X")
    assert found["EMAIL_HOST_USER"] == "me@example.org"
    assert found["EMAIL_HOST_PASSWORD"] == "p/#:"


def test_mail_goes_to_the_console_or_to_a_folder_that_is_made(tmp_path):
    assert "console" in Environment({"X": "console://"}).mail("X")["EMAIL_BACKEND"]
    found = Environment({"X": f"file://{tmp_path}/mails"}).mail("X")
    assert found["EMAIL_FILE_PATH"] == str(tmp_path / "mails")
    assert (tmp_path / "mails").is_dir()
    assert Environment({}).mail("X") == {}


@pytest.mark.parametrize(
    "url",
    [
        "mail.example.org", "smtp://", "http://mail.example.org", "smtp://u:hush@host:99999",
        "smtp://u:hush@host/path", "smtp://u:hush#@host", "file://", "smtp://u:hush@[host",
        "smtp://u:hush@host?tls=1", "smtp://u:hush@ho st.example",
    ],
)  # fmt: skip
def test_an_address_of_mail_that_can_not_be_used_is_refused_without_its_password(url):
    with pytest.raises(SettingError) as refused:
        Environment({"X": url}).mail("X")
    assert "X is not usable" in str(refused.value)
    assert "hush" not in str(refused.value)


def test_the_sender_of_mail_is_an_address():
    assert Environment({}).sender("X", "fairjudge@localhost") == "fairjudge@localhost"
    with pytest.raises(SettingError, match="no mail address"):
        Environment({"X": "a@b.org\r\nBcc: c@d.org"}).sender("X", "")
