"""What `manage.py judge` takes of the judge, of its forms and methods, and of the pace."""

from argparse import ArgumentTypeError
from decimal import Decimal
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from judging.forms.amounts import MOST_USD
from judging.forms.runs import LARGEST_SEED
from judging.management.arguments import decimal_argument
from judging.models.runs import Form, Method
from judging.runs.portia.settings import PARTS, TOKENS, WITHOUT, PortiaOptions
from judging.runs.usual import CONCURRENCY, LOCAL_MAX_TOKENS, MAX_TOKENS, K
from judging.runs.wording import template_from

OF_CHOICE = ("permutations", "ids", "band", "shots", "scale", "shots_from", "shots_random")
OF_PORTIA = ("parts", "tokens", "unsplit_first", "without")


def add_judge_arguments(parser: CommandParser) -> None:
    parser.add_argument("--endpoint", help="an endpoint that the operator named")
    parser.add_argument(
        "--model", help="default: FAIRJUDGE_JUDGE_MODEL, else the endpoint's only one"
    )
    parser.add_argument(
        "--method",
        choices=[m for m in Method.values if m != Method.IMPORTED],
        help=f"default: {Method.MEC_BPC}, evidence first in both orders",
    )
    parser.add_argument(
        "--form", choices=Form.values, help=f"what is asked of the judge; default: {Form.SCORE}"
    )
    parser.add_argument(
        "--template",
        metavar="NAME|FILE.toml",
        help="shipped, the project's own, or a file; default: the form's usual one",
    )
    parser.add_argument(
        "--criteria",
        metavar="TEXT",
        help="fills a template's {criteria}; of a pointwise run names, such as fluency,relevance",
    )
    parser.add_argument("--k", type=positive, help=f"samples in each order, {K} usually")
    parser.add_argument(
        "--max-tokens",
        type=positive,
        help=f"the longest reply; default: {MAX_TOKENS}, of the local judge {LOCAL_MAX_TOKENS}",
    )
    parser.add_argument(
        "--price", type=price, metavar="IN,OUT", help="USD a million prompt, completion tokens"
    )


def add_choice_arguments(parser: CommandParser) -> None:
    parser.add_argument(
        "--permutations",
        type=positive,
        metavar="1|2|3|4",
        help="of a choice: X0; X0, X2 (the usual); X0 to X2; or X0 to X3",
    )
    parser.add_argument("--ids", metavar="A,B", help="of a choice: its two option IDs")
    parser.add_argument(
        "--band", type=amount, metavar="B", help="of a choice: a P within B of ½ is a tie"
    )
    parser.add_argument(
        "--scale", metavar="LOW,HIGH", help="of a pointwise run: the scores that may be given"
    )
    parser.add_argument(
        "--shots-from",
        metavar="RUN",
        help="of a pointwise run: show first what RUN was most biased about, with people's scores",
    )
    parser.add_argument(
        "--shots-random",
        action="store_true",
        default=None,
        help="with --shots-from: as many of its training items at random, to compare with",
    )
    parser.add_argument(
        "--shots", type=whole, metavar="0..3", help="of a choice: solved examples shown before"
    )


def add_portia_arguments(parser: CommandParser) -> None:
    parser.add_argument(
        "--parts", type=positive, metavar="N", help=f"of PORTIA: parts a response, {PARTS} usually"
    )
    parser.add_argument(
        "--tokens", choices=TOKENS, help="of PORTIA: what parts are alike by; words usually"
    )
    parser.add_argument(
        "--unsplit-first",
        action="store_true",
        default=None,
        help="of PORTIA: show the whole responses before any part",
    )
    parser.add_argument(
        "--without", choices=WITHOUT, help="of PORTIA: leave out the alignment by length, or other"
    )


def template_file(options: dict[str, Any]) -> dict[str, Any]:
    """A template from a file, which says itself what form it is of."""
    name = options["template"] or ""
    if not name.endswith(".toml"):
        return {}
    found = template_from(Path(name))
    return {"template": found, "form": options["form"] or found.form.value}


def portia_options(options: dict[str, Any]) -> dict[str, Any]:
    given = {name: options[name] for name in OF_PORTIA if options[name] is not None}
    return {"portia": PortiaOptions(**given)} if given else {}


def add_pace_arguments(parser: CommandParser) -> None:
    parser.add_argument("--name", metavar="RUN", help="default: its model and method")
    parser.add_argument(
        "--seed", type=seed, help="repeats the order of equal ranks; default: drawn"
    )
    parser.add_argument(
        "--temperature", type=amount, help="default: 1, so that samples differ; 0 by probabilities"
    )
    parser.add_argument(
        "--budget", type=amount, metavar="USD", help="pause before more than this is spent"
    )
    parser.add_argument(
        "--concurrency", type=positive, help=f"requests at once; default: {CONCURRENCY}"
    )
    parser.add_argument("--rpm", type=positive, help="requests a minute at most")
    parser.add_argument("--tpm", type=positive, help="tokens a minute at most")


def positive(text: str) -> int:
    if not text.isdecimal() or len(text) > 9 or int(text) < 1:
        raise ArgumentTypeError(f"{text!r} is not a whole number above 0, of nine digits at most")
    return int(text)


def whole(text: str) -> int:
    return 0 if text == "0" else positive(text)


def seed(text: str) -> int:
    if not text.isdecimal() or len(text) > 10 or int(text) > LARGEST_SEED:
        raise ArgumentTypeError(f"{text!r} is not a whole number from 0 to {LARGEST_SEED}")
    return int(text)


def amount(text: str) -> Decimal:
    value = decimal_argument(text)
    if not 0 <= value <= MOST_USD:
        raise ArgumentTypeError(f"{text!r} is not an amount up to {MOST_USD}")
    return value


def price(text: str) -> tuple[Decimal, Decimal]:
    prompt, comma, completion = text.partition(",")
    if not comma:
        raise ArgumentTypeError("give two prices, such as 2.50,10")
    return amount(prompt), amount(completion)
