"""Python client of FairJudge: pairs in, judge runs and rounds of people, final labels out.

`FairJudge` is for notebooks and scripts, `AsyncFairJudge` for event loops. Both have the same
methods, which are written once. `errors` has everything that can go wrong, and `models` what the
site answers.
"""

from fairjudge_client.client import AsyncFairJudge, FairJudge
from fairjudge_client.errors import (
    BadRequest,
    Conflict,
    FairJudgeError,
    Forbidden,
    Invalid,
    NotFinished,
    NotFound,
    NotUnderstood,
    Problem,
    RateLimited,
    ServerFailed,
    TooLarge,
    Unauthorized,
    Unreachable,
    WaitTimeout,
)
from fairjudge_client.resources import (
    Examples,
    Filters,
    Import,
    Judgments,
    Project,
    Run,
    Runs,
    Scores,
    Templates,
)
from fairjudge_client.rounds import People, Round, Rounds
from fairjudge_client.steps import Async, Sync
from fairjudge_client.webhooks import Webhook, Webhooks

__all__ = [
    "Async",
    "AsyncFairJudge",
    "BadRequest",
    "Conflict",
    "Examples",
    "FairJudge",
    "FairJudgeError",
    "Filters",
    "Forbidden",
    "Import",
    "Invalid",
    "Judgments",
    "NotFinished",
    "NotFound",
    "NotUnderstood",
    "People",
    "Problem",
    "Project",
    "RateLimited",
    "Round",
    "Rounds",
    "Run",
    "Runs",
    "Scores",
    "ServerFailed",
    "Sync",
    "Templates",
    "TooLarge",
    "Unauthorized",
    "Unreachable",
    "WaitTimeout",
    "Webhook",
    "Webhooks",
]
