"""Each form in which a server says how long to stay away."""

import pytest

from judging.llm.client.errors import LONGEST_PAUSE, asked_wait

NOW = 1_800_000_000.0  # 2027-01-15 08:00:00 UTC


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),
        ({"Retry-After": "Fri, 15 Jan 2027 08:00:30 GMT"}, 30.0),
        # The server's clock is ten seconds behind, and its date is in its own time.
        (
            {
                "Retry-After": "Fri, 15 Jan 2027 08:00:00 GMT",
                "Date": "Fri, 15 Jan 2027 07:59:50 GMT",
            },
            10.0,
        ),
        ({"Retry-After": "Fri, 15 Jan 2027 07:00:00 GMT"}, 0.0),
        ({"x-ratelimit-reset-requests": "1m30s"}, 90.0),
        ({"x-ratelimit-reset-tokens": "20ms"}, 0.02),
        ({"x-ratelimit-reset-requests": "7.66s"}, 7.66),
        ({"x-ratelimit-reset": str(NOW + 12)}, 12.0),
        ({"x-ratelimit-reset": str(int((NOW + 12) * 1000))}, 12.0),
        ({"anthropic-ratelimit-requests-reset": "2027-01-15T08:00:05Z"}, 5.0),
        # Two limits: the exhausted one decides, else the nearer one.
        (
            {
                "x-ratelimit-reset-requests": "1s",
                "x-ratelimit-remaining-requests": "12",
                "x-ratelimit-reset-tokens": "40s",
                "x-ratelimit-remaining-tokens": "0",
            },
            40.0,
        ),
        ({"x-ratelimit-reset-requests": "1s", "x-ratelimit-reset-tokens": "40s"}, 1.0),
        ({"Retry-After": "86400"}, LONGEST_PAUSE),
        ({"x-ratelimit-reset-requests": "1d2h"}, LONGEST_PAUSE),
    ],
)
def test_the_wait_is_read_from_every_header_form(headers, seconds):
    assert asked_wait(headers, now=NOW) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Retry-After": "soon"},
        {"Retry-After": ""},
        {"Retry-After": "-5"},
        {"x-ratelimit-reset-requests": "5 parsecs"},
        {"x-ratelimit-remaining-requests": "0"},
    ],
)
def test_what_can_not_be_read_is_no_wait(headers):
    assert asked_wait(headers, now=NOW) is None


@pytest.mark.parametrize(
    ("message", "seconds"),
    [
        ("Rate limit reached. Please try again in 1m30s. Visit …", 90.0),
        ("Limit 30000, Used 29000. Please try again in 1.2s.", 1.2),
        ("Please retry after 10 seconds.", 10.0),
        ("Please retry in 37.48s.", 37.48),
        ("Please try again in 820ms.", 0.82),
        ("Please try again in 1 min 5 secs.", 65.0),
        ("Please try again in 1 minute and 20 seconds.", 80.0),
        ("Please retry later.", None),
    ],
)
def test_without_a_header_the_message_is_read(message, seconds):
    wait = asked_wait({}, message, now=NOW)
    assert wait is None if seconds is None else wait == pytest.approx(seconds)
    assert asked_wait({"Retry-After": "3"}, message, now=NOW) == 3.0
