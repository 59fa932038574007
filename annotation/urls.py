"""The pages of people, rounds and the annotator."""

from django.urls import include, path

urlpatterns = [
    path("", include("annotation.screen.urls")),
]
