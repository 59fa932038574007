"""All addresses of the site: the pages of each app, logging in, docs, and the health check."""

from django.contrib.auth import views as auth
from django.urls import include, path

from annotation.pages.people import ChangePassword, SetPassword
from fairjudge_site.demo_entry import Login, enter
from fairjudge_site.docs_pages import docs, glossary, picture
from fairjudge_site.health import healthz, readyz
from fairjudge_site.metrics import metrics
from fairjudge_site.requests import look
from fairjudge_site.status import change_user, status, users

handler400 = "fairjudge_site.requests.bad_request"
handler500 = "fairjudge_site.requests.server_error"

urlpatterns = [
    path("healthz", healthz, name="healthz"),
    path("readyz", readyz, name="readyz"),
    path("metrics", metrics, name="metrics"),
    path("site/", status, name="site_status"),
    path("site/users", users, name="site_users"),
    path("site/users/<int:number>", change_user, name="site_user"),
    path("login/", Login.as_view(), name="login"),
    path("demo/enter", enter, name="demo_enter"),
    path("logout/", auth.LogoutView.as_view(), name="logout"),
    path("password/", ChangePassword.as_view(success_url="/"), name="password_change"),
    path("password/<uidb64>/<token>/", SetPassword.as_view(), name="password_reset_confirm"),
    path("p/<slug:slug>/look", look, name="look"),
    path("docs/", docs, name="docs"),
    path("docs/glossary", glossary, name="glossary"),
    path("docs/images/<slug:name>.png", picture, name="docs_picture"),
    path("docs/<path:name>", docs, name="docs_page"),
    path("", include("fairjudge_site.api.urls")),
    path("", include("judging.urls")),
    path("", include("annotation.urls")),
    path("", include("annotation.results.urls")),
]
