"""What a run is started with where nothing is said."""

from decimal import Decimal

from judging.llm.endpoint import Endpoint
from judging.models.runs import Form, Method
from judging.runs import choices
from judging.runs.choices import ChoiceOptions

ONE_SAMPLE = (Method.VANILLA, Method.EC)
USUALLY_ONE_SAMPLE = (*ONE_SAMPLE, Method.PORTIA)
K = 3
# What is read in these is a token's log-probability.
BY_LOGPROBS = (Form.CHOICE, Form.POINTWISE)
LEAST_CONFIDENCE = 0.5
# Two requests of three samples keep the local model's four places busy.
LOCAL_CONCURRENCY, CONCURRENCY = 2, 8
LOCAL_MAX_TOKENS, MAX_TOKENS = 300, 1024


def usual_concurrency(endpoint: Endpoint) -> int:
    return LOCAL_CONCURRENCY if endpoint.is_local else CONCURRENCY


def usual_method(method: str, form: str, k: int | None, options: ChoiceOptions) -> str:
    if form == Form.POINTWISE:
        return Method.VANILLA if k in (None, 1) else Method.MEC
    if form != Form.CHOICE:
        return method or Method.MEC_BPC
    found = choices.method_of(options, k)
    choices.check_method(method, found)
    return found


def usual_k(method: str, form: str) -> int:
    """A token's probability is the same in every sample, but for the server's rounding."""
    return 1 if method in USUALLY_ONE_SAMPLE or form in BY_LOGPROBS else K


def usual_max_tokens(form: str, endpoint: Endpoint) -> int:
    if form in BY_LOGPROBS:
        return choices.MAX_TOKENS
    return LOCAL_MAX_TOKENS if endpoint.is_local else MAX_TOKENS


def usual_temperature(form: str) -> Decimal:
    """Samples differ by temperature; log-probabilities do without."""
    return Decimal(0) if form in BY_LOGPROBS else Decimal(1)
