"""What a method does, as steps without I/O, so that it is written once for both clients.

A method is a generator. It yields what it needs, such as `Send`, and is resumed with the outcome.
`FairJudge` takes the steps in the calling thread, `AsyncFairJudge` in the running loop. Which of
the two an object belongs to is part of its type: the same method of a `Run[Sync]` returns a value,
and of a `Run[Async]` something to await.
"""

import inspect
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from functools import update_wrapper
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    NotRequired,
    ParamSpec,
    TypeVar,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

if TYPE_CHECKING:
    from fairjudge_client.session import Session
    from fairjudge_client.tables import Upload

P = ParamSpec("P")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Sync:
    """Marks what belongs to `FairJudge`."""


class Async:
    """Marks what belongs to `AsyncFairJudge`."""


F = TypeVar("F")


# What a generator may yield


@dataclass(frozen=True)
class Call(Generic[T_co]):
    """A request of one operation, and how its answer is read.

    Attributes:
        operation: Its name in the schema.
        answer: The type of the answer; None: the bytes as they are.
        rows: A DataFrame, dictionaries or a file to send, row by row.
        key: Your own idempotency key; None: a new one.
        headers: More than every request has.
    """

    operation: str
    method: str
    path: str
    answer: Any
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    rows: Any = None
    key: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Send:
    """Send a request. The outcome is a `Reply`; if there is none, `Lost` is raised here.

    Attributes:
        is_streamed: Leave the body to be read by `Read`.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    content: "bytes | Upload | None" = None
    is_streamed: bool = False


@dataclass(frozen=True)
class Reply:
    """An answer. Names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Read:
    """Read more of the answer that is open. The outcome is bytes, which are empty at the end."""


@dataclass(frozen=True)
class Pause:
    seconds: float


@dataclass(frozen=True)
class Work:
    """Do something that takes long and needs no network. The outcome is what it returns."""

    function: Callable[[], Any]


@dataclass(frozen=True)
class Give(Generic[T_co]):
    """Hand out these rows to the caller that iterates."""

    rows: "list[T_co]"


class Lost(Exception):
    """There is no answer.

    Attributes:
        was_sent: False if the request can't have reached the site.
    """

    def __init__(self, reason: str, *, was_sent: bool) -> None:
        super().__init__(reason)
        self.was_sent = was_sent


Steps = Generator[Send | Read | Pause | Work, Any, T]
Rows = Generator[Send | Read | Pause | Work | Give[T], Any, None]


# Methods


class Resource(Generic[F]):
    """Something on the site, reached with a session."""

    def __init__(self, session: "Session") -> None:
        self._session = session


class _Bound(Generic[P, T]):
    """What methods of all kinds share: their name, their docstring and their signature."""

    _signature: inspect.Signature | None = None

    def __init__(self, body: Callable[Concatenate[Any, P], Any]) -> None:
        self.body = body
        update_wrapper(cast(Any, self), body)

    def _bind(self, instance: Resource[Any], take: Callable[[Any], Any]) -> Callable[..., Any]:
        if self._signature is None:
            self._signature = signature_of(self.body)
        signature, body = self._signature, self.body

        def bound(*args: Any, **kwargs: Any) -> Any:
            # A misspelt setting would be left out silently, and a budget is one of them.
            signature.bind(*args, **kwargs)
            return take(body(instance, *args, **kwargs))

        update_wrapper(bound, body)
        bound.__signature__ = signature  # type: ignore[attr-defined]
        return bound


class method(_Bound[P, T]):
    """A method of which the body is written as steps."""

    def __init__(self, body: Callable[Concatenate[Any, P], Steps[T]]) -> None:
        super().__init__(body)

    @overload
    def __get__(self, instance: Resource[Sync], owner: Any = None) -> Callable[P, T]: ...
    @overload
    def __get__(
        self, instance: Resource[Async], owner: Any = None
    ) -> Callable[P, Awaitable[T]]: ...
    @overload
    def __get__(self, instance: None, owner: Any = None) -> "method[P, T]": ...
    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else self._bind(instance, instance._session.take)


class rows_method(_Bound[P, T]):
    """A method that hands out rows, one after another. Nothing is sent before the first one."""

    def __init__(self, body: Callable[Concatenate[Any, P], Rows[T]]) -> None:
        super().__init__(body)

    @overload
    def __get__(self, instance: Resource[Sync], owner: Any = None) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(
        self, instance: Resource[Async], owner: Any = None
    ) -> Callable[P, AsyncIterator[T]]: ...
    @overload
    def __get__(self, instance: None, owner: Any = None) -> "rows_method[P, T]": ...
    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else self._bind(instance, instance._session.rows)


class operation(_Bound[P, T]):
    """An operation of the schema by its own name."""

    def __init__(self, body: Callable[P, Call[T]]) -> None:
        def steps(instance: Any, /, *args: P.args, **kwargs: P.kwargs) -> Steps[T]:
            return instance._session.ask(body(*args, **kwargs))  # type: ignore[no-any-return]

        super().__init__(update_wrapper(steps, body))
        self._signature = signature_of(body, has_self=False)

    @overload
    def __get__(self, instance: Resource[Sync], owner: Any = None) -> Callable[P, T]: ...
    @overload
    def __get__(
        self, instance: Resource[Async], owner: Any = None
    ) -> Callable[P, Awaitable[T]]: ...
    @overload
    def __get__(self, instance: None, owner: Any = None) -> "operation[P, T]": ...
    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else self._bind(instance, instance._session.take)


class _Unset:
    def __repr__(self) -> str:
        return "…"


def signature_of(body: Callable[..., Any], *, has_self: bool = True) -> inspect.Signature:
    """Return the signature without `self`, with each key of `**settings: Unpack[…]` by its name.

    The site knows the defaults of such keys, so that they are shown as “…”.
    """
    found = inspect.signature(body)
    parameters = list(found.parameters.values())[1 if has_self else 0 :]
    if parameters and parameters[-1].kind is inspect.Parameter.VAR_KEYWORD:
        hint = get_type_hints(body)[parameters[-1].name]
        # `Unpack[RunIn]` of `typing` is an alias of one argument.
        settings = get_args(hint)[0] if get_origin(hint) is not None else hint
        parameters[-1:] = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                # `__required_keys__` doesn't see through annotations that are text.
                default=_Unset() if get_origin(kind) is NotRequired else inspect.Parameter.empty,
                annotation=get_args(kind)[0] if get_origin(kind) is NotRequired else kind,
            )
            for name, kind in get_type_hints(settings, include_extras=True).items()
        ]
    returned = re.sub(r"^(?:Steps|Rows|Call)\[(.*)\]$", r"\1", str(found.return_annotation))
    return found.replace(
        parameters=parameters, return_annotation=returned.replace("[F]", "") or "None"
    )


def gathered(rows: Rows[T], take: Callable[[list[T]], None]) -> Steps[None]:
    """Take the steps of an iteration, and pass on what it gives."""
    try:
        step = next(rows)
        while True:
            if isinstance(step, Give):
                take(step.rows)
                step = next(rows)
                continue
            try:
                outcome = yield step
            except Lost as lost:
                step = rows.throw(lost)
            else:
                step = rows.send(outcome)
    except StopIteration:
        return
