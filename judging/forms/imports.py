"""Forms of the import pages: the files, and which column is which field."""

from collections.abc import Mapping
from typing import Any

from django import forms

from judging.imports.columns import FIELDS, IGNORE
from judging.imports.layouts import FORMATS

FORMAT_NAMES = {
    "auto": "recognise it",
    "csv": "CSV, semicolons too",
    "tsv": "TSV",
    "jsonl": "JSON Lines",
    "json": "JSON array",
    "pandalm": "PandaLM",
    "llmbar": "LLMBar",
    "faireval": "FairEval: a question file and two answer files",
}
MOST_COLUMNS = 100


class FilesInput(forms.ClearableFileInput):
    allow_multiple_selected = True


class FilesField(forms.FileField):
    """One or more files."""

    widget = FilesInput

    def clean(self, data: Any, initial: Any = None) -> list[Any]:
        files = data if isinstance(data, list | tuple) and data else [data or None]
        return [super(FilesField, self).clean(file, initial) for file in files]


class UploadForm(forms.Form):
    files = FilesField(
        label="File of pairs",
        help_text="CSV, TSV, JSON Lines or JSON. For FairEval, choose the question file and both "
        "answer files together; the first answer file gives response 1.",
    )
    file_format = forms.ChoiceField(
        label="Format", choices=[(name, FORMAT_NAMES[name]) for name in FORMATS], initial="auto"
    )


class MappingForm(forms.Form):
    """One choice a column. What is left as it was recognised is not part of the mapping."""

    def __init__(self, summary: Mapping[str, Any], data: Any = None) -> None:
        super().__init__(data)
        sources = {
            column: field
            for field, columns in summary["columns"].items()
            for column in [columns, *columns.split(" + ")]
        }
        both = [c for c in summary["names"] if summary["columns"].get("model_1") == c
                and summary["columns"].get("model_2") == c]  # fmt: skip
        self.columns = {}
        for number, column in enumerate(summary["names"][:MOST_COLUMNS]):
            if column in both:
                continue
            name = f"column-{number}"
            self.columns[name] = column
            self.fields[name] = forms.ChoiceField(
                label=column,
                choices=[(IGNORE, "not read"), *((field, field) for field in FIELDS)],
                initial=sources.get(column, IGNORE),
            )

    def mapping(self, before: Mapping[str, str]) -> dict[str, str]:
        """What was mapped before, and what the form changes."""
        changed = {
            column: self.cleaned_data[name]
            for name, column in self.columns.items()
            if name in self.changed_data
        }
        return {**before, **changed}
