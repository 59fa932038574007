"""The pages of imports, templates and runs."""

from django.urls import path

from judging.dataset.pages import imports
from judging.runs.pages import run, runs, templates

urlpatterns = [
    path("p/<slug:slug>/imports/", imports.imports, name="imports"),
    path("p/<slug:slug>/imports/<int:number>", imports.import_detail, name="import_detail"),
    path("p/<slug:slug>/imports/<int:number>/price", runs.import_price, name="import_price"),
    path("p/<slug:slug>/imports/<int:number>/check", imports.import_check, name="import_check"),
    path("p/<slug:slug>/imports/<int:number>/begin", imports.import_begin, name="import_begin"),
    path("p/<slug:slug>/imports/<int:number>/undo", imports.import_undo, name="import_undo"),
    path(
        "p/<slug:slug>/imports/<int:number>/refused/<int:index>",
        imports.import_refused,
        name="import_refused",
    ),
    path("p/<slug:slug>/scores/", imports.scores, name="scores"),
    path("p/<slug:slug>/scores/<int:number>/undo", imports.scores_undo, name="scores_undo"),
    path("p/<slug:slug>/templates/", templates.templates, name="templates"),
    path("p/<slug:slug>/templates/write", templates.template_write, name="template_write"),
    path("p/<slug:slug>/templates/<int:pk>", templates.template, name="template"),
    path(
        "p/<slug:slug>/templates/<int:pk>/retire", templates.template_retire, name="template_retire"
    ),
    path("p/<slug:slug>/runs/", runs.runs, name="runs"),
    path("p/<slug:slug>/runs/start", runs.run_start, name="run_start"),
    path("p/<slug:slug>/runs/estimate", runs.run_estimate, name="run_estimate"),
    path("p/<slug:slug>/runs/models", runs.run_models, name="run_models"),
    path("p/<slug:slug>/runs/<int:number>", run.run, name="run"),
    path("p/<slug:slug>/runs/<int:number>/progress", run.run_progress, name="run_progress"),
    path("p/<slug:slug>/runs/<int:number>/pause", run.run_pause, name="run_pause"),
    path("p/<slug:slug>/runs/<int:number>/cancel", run.run_cancel, name="run_cancel"),
    path("p/<slug:slug>/runs/<int:number>/resume", run.run_resume, name="run_resume"),
    path("p/<slug:slug>/runs/<int:number>/budget", run.run_budget, name="run_budget"),
    path("p/<slug:slug>/runs/<int:number>/reparse", run.run_reparse, name="run_reparse"),
    path("p/<slug:slug>/runs/<int:number>/primary", run.run_primary, name="run_primary"),
]
