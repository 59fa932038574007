"""The pages of projects, examples and runs."""

from django.urls import path

from judging.views import imports

urlpatterns = [
    path("p/<slug:slug>/imports/", imports.imports, name="imports"),
    path("p/<slug:slug>/imports/<int:number>", imports.import_detail, name="import_detail"),
    path("p/<slug:slug>/imports/<int:number>/check", imports.import_check, name="import_check"),
    path("p/<slug:slug>/imports/<int:number>/begin", imports.import_begin, name="import_begin"),
    path("p/<slug:slug>/imports/<int:number>/undo", imports.import_undo, name="import_undo"),
    path(
        "p/<slug:slug>/imports/<int:number>/refused/<int:index>",
        imports.import_refused,
        name="import_refused",
    ),
]
