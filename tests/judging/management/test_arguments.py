"""`manage.py help COMMAND` leaves nothing to guess."""

import pytest
from django.core.management import get_commands, load_command_class

from tests.test_docs import OURS

OWN = sorted((app, name) for name, app in get_commands().items() if app in OURS)


@pytest.mark.parametrize(("app", "name"), OWN, ids=lambda part: part)
def test_a_command_says_what_it_does_and_what_each_of_its_arguments_is(app, name):
    parser = load_command_class(app, name).create_parser("manage.py", name)
    assert parser.description
    unsaid = [a.option_strings or a.dest for a in parser._actions if not a.help]
    assert unsaid == []
