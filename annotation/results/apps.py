"""The results app: no tables of its own beyond the cache that `annotation.models` holds."""

from django.apps import AppConfig


class ResultsConfig(AppConfig):
    name = "annotation.results"
    label = "results"
