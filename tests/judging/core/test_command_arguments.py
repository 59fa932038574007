"""`manage.py help COMMAND` leaves nothing to guess; numbers are taken as they are written."""

from argparse import ArgumentTypeError
from decimal import Decimal

import pytest
from django.core.management import get_commands, load_command_class

from judging.core.commands import decimal_argument
from tests.test_docs import OURS

OWN = sorted((app, name) for name, app in get_commands().items() if app in OURS)


@pytest.mark.parametrize(("app", "name"), OWN, ids=lambda part: part)
def test_a_command_says_what_it_does_and_what_each_of_its_arguments_is(app, name):
    parser = load_command_class(app, name).create_parser("manage.py", name)
    assert parser.description
    unsaid = [a.option_strings or a.dest for a in parser._actions if not a.help]
    assert unsaid == []


@pytest.mark.parametrize(("app", "name"), OWN, ids=lambda part: part)
def test_an_option_that_is_left_out_is_told_from_an_empty_one(app, name):
    parser = load_command_class(app, name).create_parser("manage.py", name)
    assert [action.option_strings for action in parser._actions if action.default == ""] == []


def test_a_number_is_kept_as_written():
    assert str(decimal_argument("20.50")) == "20.50"
    assert decimal_argument("0") == Decimal(0)


@pytest.mark.parametrize("text", ["x", "nan", "-inf", "1e9999999", "1e-9999999", "0e-9999999"])
def test_what_no_percentage_or_money_can_be_is_refused(text):
    with pytest.raises(ArgumentTypeError, match="is not a number"):
        decimal_argument(text)
