"""All tables of an app in one step. After each table alone, Django would make the classes of all
models once more: most of the time that a new database takes."""

from collections.abc import Sequence
from typing import Any

from django.db.migrations.operations import CreateModel
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState


class CreateTables(Operation):
    reversible = True

    def __init__(self, operations: Sequence[Operation]) -> None:
        self.operations = operations

    def state_forwards(self, app_label: str, state: ProjectState) -> None:
        # The classes are made again when they are next asked for.
        state.__dict__.pop("apps", None)
        for operation in self.operations:
            operation.state_forwards(app_label, state)

    def database_forwards(
        self, app_label: str, schema_editor: Any, from_state: ProjectState, to_state: ProjectState
    ) -> None:
        """Create each table with what later operations add to its model."""
        for model in self._models(app_label, to_state):
            if self.allow_migrate_model(schema_editor.connection.alias, model):
                schema_editor.create_model(model)

    def database_backwards(
        self, app_label: str, schema_editor: Any, from_state: ProjectState, to_state: ProjectState
    ) -> None:
        for model in reversed(self._models(app_label, from_state)):
            if self.allow_migrate_model(schema_editor.connection.alias, model):
                schema_editor.delete_model(model)

    def describe(self) -> str:
        return "Create all tables"

    def _models(self, app_label: str, state: ProjectState) -> list[Any]:
        made = [each for each in self.operations if isinstance(each, CreateModel)]
        return [state.apps.get_model(app_label, each.name) for each in made]
