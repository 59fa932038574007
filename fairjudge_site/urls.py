"""Every address of the site: the pages of each app, logging in, and the health check."""

from django.contrib.auth import views as auth
from django.urls import include, path

from fairjudge_site.demo_entry import Login, enter
from fairjudge_site.health import healthz

handler400 = "fairjudge_site.refusals.bad_request"

urlpatterns = [
    path("healthz", healthz, name="healthz"),
    path("login/", Login.as_view(), name="login"),
    path("demo/enter", enter, name="demo_enter"),
    path("logout/", auth.LogoutView.as_view(), name="logout"),
    path(
        "password/",
        auth.PasswordChangeView.as_view(success_url="/"),
        name="password_change",
    ),
    path(
        "password/<uidb64>/<token>/",
        auth.PasswordResetConfirmView.as_view(success_url="/login/"),
        name="password_reset_confirm",
    ),
    path("", include("judging.urls")),
    path("", include("annotation.urls")),
    path("", include("annotation.results.urls")),
]
