"""A scripted judge endpoint on loopback: real HTTP, real faults, its own log.

    with LoopbackServer([rate_limited(retry_after="1"), server_error()]) as server:
        ...  # base_url = server.base_url; afterwards server.log and server.completed

The script's answers are given in the order of arrival; what follows is answered by the judge.
As a process of its own: `python -m tests.loopback --port 0 --latency 0.2 --log log.jsonl`.
"""

from tests.loopback.answers import (
    Answer,
    completion,
    cut_in_body,
    error,
    hang,
    rate_limited,
    server_error,
)
from tests.loopback.choice import ChoiceJudge
from tests.loopback.judges import BiasedJudge, fixed_judge
from tests.loopback.latency import fixed, lognormal
from tests.loopback.log import Asked, LogEntry
from tests.loopback.points import PointJudge
from tests.loopback.quirks import Quirks
from tests.loopback.server import LoopbackServer
from tests.loopback.teachable import ImitatingJudge, TeachableJudge

__all__ = [
    "Answer",
    "Asked",
    "BiasedJudge",
    "ChoiceJudge",
    "ImitatingJudge",
    "LogEntry",
    "LoopbackServer",
    "PointJudge",
    "Quirks",
    "TeachableJudge",
    "completion",
    "cut_in_body",
    "error",
    "fixed",
    "fixed_judge",
    "hang",
    "lognormal",
    "rate_limited",
    "server_error",
]
