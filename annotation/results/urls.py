"""The pages that need judge and people together."""

from django.urls import path, re_path

from annotation.results.pages import (
    cheapest,
    examples,
    overview,
    plan,
    registration,
    results,
    teach,
)

urlpatterns = [
    path("", overview.home, name="home"),
    path("p/<slug:slug>/", overview.project, name="project"),
    path("p/<slug:slug>/figures", overview.project_figures, name="project_figures"),
    path("p/<slug:slug>/examples", examples.examples, name="examples"),
    path("p/<slug:slug>/examples/tag", examples.tag_examples, name="tag_examples"),
    path(
        "p/<slug:slug>/examples/tag/<int:pk>/undo", examples.untag_examples, name="untag_examples"
    ),
    path("p/<slug:slug>/examples/<int:pk>", examples.example, name="example"),
    path("p/<slug:slug>/examples/<int:pk>/check", examples.example_check, name="example_check"),
    path("p/<slug:slug>/plan", plan.plan, name="plan"),
    path("sizes", plan.sizes, name="sizes"),
    path("p/<slug:slug>/sizes", plan.project_sizes, name="project_sizes"),
    path("p/<slug:slug>/preregistration", registration.preregistration, name="preregistration"),
    path(
        "p/<slug:slug>/preregistration/new",
        registration.preregistration_new,
        name="preregistration_new",
    ),
    path(
        "p/<slug:slug>/preregistration/check",
        registration.preregistration_check,
        name="preregistration_check",
    ),
    path(
        "p/<slug:slug>/preregistration/<int:number>.<slug:kind>",
        registration.preregistration_file,
        name="preregistration_file",
    ),
    path("p/<slug:slug>/cheapest", cheapest.cheapest, name="project_cheapest"),
    path(
        "p/<slug:slug>/cheapest/<int:number>",
        cheapest.cheapest_progress,
        name="project_cheapest_progress",
    ),
    path("p/<slug:slug>/plan/preview", plan.plan_preview, name="plan_preview"),
    path("p/<slug:slug>/teach/", teach.teach, name="teach"),
    path("p/<slug:slug>/teach/<int:number>", teach.lesson, name="lesson"),
    path("p/<slug:slug>/teach/<int:number>/approve", teach.lesson_approve, name="lesson_approve"),
    path("p/<slug:slug>/teach/<int:number>/compare", teach.lesson_compare, name="lesson_compare"),
    path("p/<slug:slug>/people/pace", results.pace, name="people_pace"),
    path(
        "p/<slug:slug>/runs/<int:number>/reselection", results.reselection, name="run_reselection"
    ),
    path("p/<slug:slug>/results", results.results, name="results"),
    path("p/<slug:slug>/results/<slug:name>", results.results_page, name="results_page"),
    re_path(
        r"^p/(?P<slug>[-\w]+)/results/(?P<name>[-a-z]+)\.(?P<kind>svg|png)$",
        results.plot,
        name="plot",
    ),
    path("p/<slug:slug>/export", results.download, name="export"),
    path("p/<slug:slug>/files/<int:number>", results.made_file, name="made_file"),
    path(
        "p/<slug:slug>/files/<int:number>/cancel", results.cancel_made_file, name="cancel_made_file"
    ),
    re_path(
        r"^p/(?P<slug>[-\w]+)/report\.(?P<kind>html|pdf|zip|tex)$",
        results.report_file,
        name="report_file",
    ),
]
