"""The pages that need judge and people together."""

from django.urls import path, re_path

from annotation.results.views import (
    example,
    exports,
    home,
    pace,
    plan,
    project,
    reselection,
    results,
)

urlpatterns = [
    path("", home.home, name="home"),
    path("p/<slug:slug>/", project.project, name="project"),
    path("p/<slug:slug>/examples/<int:pk>", example.example, name="example"),
    path("p/<slug:slug>/plan", plan.plan, name="plan"),
    path("p/<slug:slug>/plan/preview", plan.plan_preview, name="plan_preview"),
    path("p/<slug:slug>/people/pace", pace.pace, name="people_pace"),
    path(
        "p/<slug:slug>/runs/<int:number>/reselection",
        reselection.reselection,
        name="run_reselection",
    ),
    path("p/<slug:slug>/results", results.results, name="results"),
    re_path(
        r"^p/(?P<slug>[-\w]+)/results/(?P<name>[-a-z]+)\.(?P<kind>svg|png)$",
        results.plot,
        name="plot",
    ),
    path("p/<slug:slug>/export", exports.download, name="export"),
    re_path(
        r"^p/(?P<slug>[-\w]+)/report\.(?P<kind>html|zip)$", exports.report_file, name="report_file"
    ),
]
