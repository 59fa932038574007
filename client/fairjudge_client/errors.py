"""Everything that can go wrong, as one tree. `FairJudgeError` catches all of it.

Programs decide by `code`. The codes of refusals are the site's, and never change their meaning. The
client adds `unreachable`, `not_understood`, `not_finished` and `timed_out`.
"""

from collections.abc import Sequence

from fairjudge_client.models import FieldError


class FairJudgeError(Exception):
    """Base of all errors of this client.

    Attributes:
        code: Stable name of what went wrong.
        detail: What went wrong, as a sentence.
        status: HTTP status of the answer, or None if there was none.
        field: The first field that is wrong, or None.
        errors: Each field or line that is wrong, of which `field` is the first.
    """

    code = "failed"

    def __init__(
        self,
        detail: str,
        *,
        code: str = "",
        status: int | None = None,
        field: str | None = None,
        errors: Sequence[FieldError] = (),
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.code = code or type(self).code
        self.status, self.field, self.errors = status, field, list(errors)

    def __str__(self) -> str:
        known = [self.code, *([str(self.status)] if self.status else [])]
        return f"{self.detail} [{', '.join(known)}]"


class Unreachable(FairJudgeError):
    """No answer came, also after several attempts."""

    code = "unreachable"


class NotUnderstood(FairJudgeError):
    """The answer isn't one of FairJudge's: another server, a proxy, or another release."""

    code = "not_understood"


class NotFinished(FairJudgeError):
    """Work came to an end other than the one you waited for.

    Attributes:
        state: The state in which it is.
        reason: Why, as the site says it.
    """

    code = "not_finished"

    def __init__(self, detail: str, *, state: str, reason: str = "") -> None:
        super().__init__(detail)
        self.state, self.reason = state, reason


class WaitTimeout(NotFinished, TimeoutError):
    """Work goes on, but you didn't want to wait longer."""

    code = "timed_out"


class Problem(FairJudgeError):
    """A refusal by the site, which changed nothing.

    Attributes:
        retry_after: Seconds after which the site wants to be asked again, or None.
    """

    retry_after: float | None = None


class BadRequest(Problem):
    """400: the request can't be read."""


class Unauthorized(Problem):
    """401: the token is missing, unknown, expired or revoked."""


class Forbidden(Problem):
    """403: the token's scope or your role doesn't include this."""


class NotFound(Problem):
    """404: there is nothing here, or not for you."""


class Conflict(Problem):
    """409: somebody changed it meanwhile, or an idempotency key belongs to another request."""


class TooLarge(Problem):
    """413: the body is larger than the site accepts."""


class Invalid(Problem):
    """422: fields, rows or the moment don't allow it. `errors` names each field or line."""


class RateLimited(Problem):
    """429: the token has sent too many requests. `retry_after` says how long to wait."""


class ServerFailed(Problem):
    """5xx: the site failed."""


_OF_STATUS: dict[int, type[Problem]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    413: TooLarge,
    422: Invalid,
    429: RateLimited,
}


def problem_of(
    status: int,
    code: str,
    detail: str,
    *,
    field: str | None = None,
    errors: Sequence[FieldError] = (),
    retry_after: float | None = None,
) -> Problem:
    """Return the error for a status of 400 or more."""
    kind = _OF_STATUS.get(status, ServerFailed if status >= 500 else Problem)
    made = kind(detail, code=code, status=status, field=field, errors=errors)
    made.retry_after = retry_after
    return made
