"""The pages of people, rounds and the annotator."""

from django.urls import path

from annotation.pages import adjudication, crowd, people, rounds, settings
from annotation.screen import actions, views
from annotation.screen import crowd as screen_crowd

urlpatterns = [
    path("p/<slug:slug>/settings", settings.settings, name="settings"),
    path("p/<slug:slug>/settings/trail", settings.trail, name="trail"),
    path("p/<slug:slug>/settings/retention", settings.retention_dates, name="retention"),
    path("p/<slug:slug>/settings/delete", settings.delete, name="project_delete"),
    path("p/<slug:slug>/settings/webhooks", settings.webhooks, name="webhooks"),
    path("p/<slug:slug>/settings/webhooks/<int:number>", settings.webhook, name="webhook"),
    path(
        "p/<slug:slug>/settings/webhooks/<int:number>/deliveries/<int:delivery>/send",
        settings.webhook_send,
        name="webhook_send",
    ),
    path("p/<slug:slug>/people", people.people, name="people"),
    path("p/<slug:slug>/people/team", people.people_team, name="people_team"),
    path("teams/", people.teams, name="teams"),
    path("teams/<int:number>", people.team, name="team"),
    path("p/<slug:slug>/leave", people.leave, name="project_leave"),
    path("p/<slug:slug>/people/<int:number>", people.member, name="member"),
    path(
        "p/<slug:slug>/people/invitations/<int:number>/revoke",
        people.invitation_revoke,
        name="invitation_revoke",
    ),
    path("account/data/", people.own_data, name="own_data"),
    path("account/data.jsonl", people.own_data_file, name="own_data_file"),
    path("account/mail/", people.own_mail, name="own_mail"),
    path("account/mail/confirm/<str:token>/", people.mail_confirm, name="mail_confirm"),
    path("mail/off/<str:token>/", people.mail_off, name="mail_off"),
    path("join/<str:token>/", people.join, name="invite"),
    path("p/<slug:slug>/rounds/", rounds.rounds, name="rounds"),
    path("p/<slug:slug>/rounds/practice", rounds.practice, name="practice"),
    path("p/<slug:slug>/rounds/<int:number>", rounds.round_, name="round"),
    path("p/<slug:slug>/rounds/<int:number>/standing", rounds.standing, name="round_standing"),
    path("p/<slug:slug>/rounds/<int:number>/pause", rounds.pause, name="round_pause"),
    path("p/<slug:slug>/rounds/<int:number>/resume", rounds.resume, name="round_resume"),
    path("p/<slug:slug>/rounds/<int:number>/close", rounds.close, name="round_close"),
    path("p/<slug:slug>/rounds/<int:number>/reopen", rounds.reopen, name="round_reopen"),
    path("p/<slug:slug>/rounds/<int:number>/cancel", rounds.cancel, name="round_cancel"),
    path("p/<slug:slug>/rounds/<int:number>/votes", rounds.votes, name="round_votes"),
    path("p/<slug:slug>/rounds/<int:number>/people", rounds.people, name="round_people"),
    path(
        "p/<slug:slug>/rounds/<int:number>/people/<int:annotator>",
        rounds.person,
        name="round_person",
    ),
    path("p/<slug:slug>/rounds/<int:number>/crowd", crowd.crowd, name="round_crowd"),
    path(
        "p/<slug:slug>/rounds/<int:number>/crowd/withdraw",
        crowd.withdraw,
        name="round_crowd_withdraw",
    ),
    path(
        "p/<slug:slug>/rounds/<int:number>/crowd/file",
        crowd.file_for_paying,
        name="round_crowd_file",
    ),
    path("p/<slug:slug>/rounds/<int:number>/crowd/marks", crowd.mark, name="round_crowd_marks"),
    path("p/<slug:slug>/rounds/<int:number>/crowd/aside", crowd.aside, name="round_crowd_aside"),
    path("p/<slug:slug>/rounds/<int:number>/extend", rounds.extend, name="round_extend"),
    path(
        "p/<slug:slug>/rounds/<int:number>/flags/<int:flag>", rounds.flag_settle, name="flag_settle"
    ),
    path(
        "p/<slug:slug>/rounds/<int:number>/adjudication",
        adjudication.adjudication,
        name="adjudication",
    ),
    path(
        "p/<slug:slug>/rounds/<int:number>/items/<int:item>",
        adjudication.round_item,
        name="round_item",
    ),
    path(
        "p/<slug:slug>/rounds/<int:number>/decisions/<int:decision>/undo",
        adjudication.decision_undo,
        name="decision_undo",
    ),
    # The annotator's screen. Only its token names an item.
    path("crowd/", screen_crowd.own, name="crowd_own"),
    path("crowd/<str:token>/", screen_crowd.enter, name="crowd"),
    path("images/<str:sha256>", views.image, name="image"),
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
