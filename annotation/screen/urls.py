"""Addresses of the annotator's screen. Only its token names an item."""

from django.urls import path

from annotation.screen import actions, crowd, views

urlpatterns = [
    path("crowd/", crowd.own, name="crowd_own"),
    path("crowd/<str:token>/", crowd.enter, name="crowd"),
    path("annotate/", views.annotate, name="annotate"),
    path("annotate/preferences", actions.preferences, name="annotate_preferences"),
    path("annotate/r/<str:signed>/", views.annotate_round, name="annotate_round"),
    path("annotate/r/<str:signed>/leave", actions.annotate_leave, name="annotate_leave"),
    path("annotate/r/<str:signed>/return", actions.annotate_return, name="annotate_return"),
    path("annotate/r/<str:signed>/own", views.annotate_own, name="annotate_own"),
    path("annotate/<str:token>", views.annotate_item, name="annotate_item"),
    path("annotate/<str:token>/texts", views.annotate_texts, name="annotate_texts"),
    path("annotate/<str:token>/ahead", views.annotate_ahead, name="annotate_ahead"),
    path("annotate/<str:token>/vote", actions.vote, name="annotate_vote"),
    path("annotate/<str:token>/draft", actions.save, name="annotate_draft"),
    path("annotate/<str:token>/beat", actions.beat, name="annotate_beat"),
    path("annotate/<str:token>/skip", actions.skip, name="annotate_skip"),
    path("annotate/<str:token>/unskip", actions.unskip, name="annotate_unskip"),
    path("annotate/<str:token>/flag", actions.flag, name="annotate_flag"),
    path("annotate/<str:token>/read", actions.read, name="annotate_read"),
    path("annotate/<str:token>/back", actions.back, name="annotate_back"),
]
