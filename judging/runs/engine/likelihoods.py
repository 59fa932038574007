"""Asking a language model how likely it finds the texts of a run, each text once."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from decimal import Decimal

from judging.core.errors import UserError
from judging.core.formatting import number_of
from judging.core.images import hashes_in
from judging.dataset.models import PointItem
from judging.llm.client.errors import AttemptFailure, FailureKind
from judging.llm.client.likelihoods import LikelihoodClient, ScoreOutcome, TextScore
from judging.llm.client.limits import DEFAULT_RETRY, RetryPolicy
from judging.llm.endpoint import Endpoint
from judging.llm.prices import Usage
from judging.runs.endpoints import LOCAL, find_price_of, key_of, named_endpoint
from judging.runs.engine.content_free import keep
from judging.runs.engine.working import LOCAL_RETRY, live_endpoint
from judging.runs.forms.likelihood import Text, task_of, texts_of_pair
from judging.runs.models import Form, Run, TextLikelihood
from judging.runs.planning.start import choose_model, default_concurrency

# These are about the text itself, so another try would fail in the same way.
ABOUT_THE_TEXT = (FailureKind.TOO_LONG, FailureKind.FILTERED, FailureKind.BAD_REQUEST)


@dataclass(frozen=True, slots=True)
class LikelihoodsAsked:
    """How many texts the run has, how many were asked now, and how many have no likelihood."""

    texts: int
    asked: int
    untold: int
    model: str
    usd: Decimal | None


def texts_of(run: Run) -> dict[str, Text]:
    """Return both responses of each pair, or each single response, by their hash.

    Texts with images are left out: a likelihood is one of words.
    """
    return {
        text.sha256: text
        for text in _texts(run)
        if text.output.strip() and not hashes_in(text.input, text.output)
    }


def _texts(run: Run) -> Iterator[Text]:
    if run.form == Form.POINTWISE:
        items = PointItem.objects.filter(project=run.project_id).visible()
        task = task_of(run)
        for source, output in items.order_by("number").values_list("input", "output"):
            yield Text(task, source, output)
        return
    rows = run.project.examples.judged().order_by("number", "pk")
    for row in rows.values_list("question", "response_1", "response_2").iterator(chunk_size=500):
        yield from texts_of_pair(*row)


def ask_likelihoods(
    run: Run,
    *,
    endpoint: str = "",
    model: str = "",
    say: Callable[[str], None] = lambda line: None,
    advance: Callable[[int], None] = lambda texts: None,
) -> LikelihoodsAsked:
    """Ask for the likelihoods that are not recorded yet.

    Each answer is written as it arrives, so that an interruption costs only what is under way.
    Raises UserError if the endpoint can't give likelihoods.
    """
    chosen = named_endpoint(endpoint or run.endpoint or LOCAL)
    name = model or (run.model if chosen.base_url == run.base_url else choose_model(chosen))
    price = find_price_of(chosen, name)
    texts = texts_of(run)
    # Not filtered by hash: a query takes a limited number of values.
    held = TextLikelihood.objects.filter(
        project=run.project_id, base_url=chosen.base_url, model=name
    )
    known = set(held.values_list("sha256", flat=True))
    left = {key: text for key, text in texts.items() if key not in known}
    keep(run, likelihood={"base_url": chosen.base_url, "model": name})
    usd = None if price is None else Decimal(0)
    if left:
        with live_endpoint(chosen.name, say) as live:
            for outcomes in asked_as_they_arrive(live, chosen, name, left):
                rows = [
                    row_of(chosen, name, *outcome) for outcome in outcomes if is_final(outcome[1])
                ]
                for row in rows:
                    row.project_id = run.project_id
                    if price is not None and row.prompt_tokens:
                        row.usd = price.cost(Usage(row.prompt_tokens, 0, 1))
                        usd += row.usd
                # Another process may have recorded the same text meanwhile. Its row stays.
                TextLikelihood.objects.bulk_create(rows, ignore_conflicts=True)
                advance(len(rows))
    untold = texts.keys() & held.filter(log_likelihood=None).values_list("sha256", flat=True)
    return LikelihoodsAsked(len(texts), len(left), len(untold), name, usd)


Outcomes = Sequence[tuple[str, ScoreOutcome]]


def asked_as_they_arrive(
    live: Endpoint, chosen: Endpoint, model: str, left: Mapping[str, Text]
) -> Iterator[Outcomes]:
    """Yield what arrived. Raises UserError after a failure, once nothing is under way any more."""
    # An endpoint that gives no likelihoods is refused here, before any text is sent.
    way = asyncio.run(way_of(live, chosen, model))
    pairs, places = list(left.items()), default_concurrency(chosen)
    # The caller writes to the database between two answers, and Django refuses queries while a
    # loop runs. A runner stops the loop meanwhile and keeps the client's connections in it.
    with asyncio.Runner() as runner, ExitStack() as at_the_end:
        client = LikelihoodClient(live, key_of(chosen), retry=retry_of(chosen), way=way)
        runner.run(client.__aenter__())
        at_the_end.callback(lambda: runner.run(client.__aexit__(None, None, None)))
        for start in range(0, len(pairs), places):
            chunk = pairs[start : start + places]
            waiting = runner.run(sent(client, model, chunk))
            arrived: list[tuple[str, ScoreOutcome]] = []
            while waiting:
                first = asyncio.FIRST_COMPLETED
                done, waiting = runner.run(asyncio.wait(waiting, return_when=first))
                outcomes = [task.result() for task in done]
                arrived += outcomes
                yield outcomes
            stop_at_a_failure(chosen, arrived)


async def sent(
    client: LikelihoodClient, model: str, texts: Sequence[tuple[str, Text]]
) -> set[asyncio.Task[tuple[str, ScoreOutcome]]]:
    async def score_text(sha256: str, text: Text) -> tuple[str, ScoreOutcome]:
        return sha256, await client.score(model, text.context, text.output)

    return {asyncio.create_task(score_text(*pair)) for pair in texts}


async def way_of(live: Endpoint, chosen: Endpoint, model: str) -> str:
    async with LikelihoodClient(live, key_of(chosen), retry=retry_of(chosen)) as client:
        refused = await client.find_way(model)
        if refused is not None:
            raise UserError(cannot_tell(chosen, model, refused))
        return client.way


def retry_of(endpoint: Endpoint) -> RetryPolicy:
    return LOCAL_RETRY if endpoint.is_local else DEFAULT_RETRY


def is_final(outcome: ScoreOutcome) -> bool:
    """Return True for a number, or a refusal that another try would meet again."""
    return isinstance(outcome, TextScore) or outcome.kind in ABOUT_THE_TEXT


def stop_at_a_failure(endpoint: Endpoint, outcomes: Outcomes) -> None:
    failed = [outcome for _, outcome in outcomes if not is_final(outcome)]
    if failed and isinstance(failed[0], AttemptFailure):
        raise UserError(
            f"The endpoint {endpoint.name} did not answer about {number_of(len(failed), 'text')} "
            f"({failed[0].message}). What was recorded is kept: run the command again to go on."
        )


def row_of(endpoint: Endpoint, model: str, sha256: str, outcome: ScoreOutcome) -> TextLikelihood:
    made = TextLikelihood(base_url=endpoint.base_url, model=model, sha256=sha256)
    if isinstance(outcome, AttemptFailure):
        made.reason = outcome.message[:300]
        return made
    made.log_likelihood = outcome.log_likelihood
    made.tokens = outcome.tokens
    made.prompt_tokens = outcome.prompt_tokens
    return made


def cannot_tell(endpoint: Endpoint, model: str, refused: AttemptFailure) -> str:
    return (
        f"{model} at {endpoint.name} does not tell how likely a given text is "
        f"({refused.message.rstrip('.')}). Nothing was recorded. Use an endpoint that gives the "
        "log-probabilities of a prompt, such as vLLM, or --endpoint local: the likelihood may "
        "come from another model than the judge."
    )
