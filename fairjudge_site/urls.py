"""All addresses of the site: the pages of each app, logging in, docs, and the health check."""

from django.contrib.auth import views as auth
from django.urls import include, path

from annotation.pages.people import ChangePassword, SetPassword
from fairjudge_site import account, sign_on
from fairjudge_site.demo_entry import Login, demo_enter
from fairjudge_site.docs_pages import docs, glossary, picture
from fairjudge_site.health import healthz, readyz
from fairjudge_site.metrics import metrics
from fairjudge_site.requests import look
from fairjudge_site.status import change_endpoint, change_user, site_status, users

handler400 = "fairjudge_site.requests.bad_request"
handler500 = "fairjudge_site.requests.server_error"

urlpatterns = [
    path("healthz", healthz, name="healthz"),
    path("readyz", readyz, name="readyz"),
    path("metrics", metrics, name="metrics"),
    path("site/", site_status, name="site_status"),
    path("site/endpoints", change_endpoint, name="site_endpoints"),
    path("site/users", users, name="site_users"),
    path("site/users/<int:number>", change_user, name="site_user"),
    path("login/", Login.as_view(), name="login"),
    path("demo/enter", demo_enter, name="demo_enter"),
    path("login/second", account.second_step, name="second_step"),
    path("login/confirm", account.confirm, name="confirm"),
    path("login/with/<slug:name>", sign_on.begin, name="sign_on"),
    path("login/with/<slug:name>/done", sign_on.done, name="sign_on_done"),
    path("logout/", auth.LogoutView.as_view(), name="logout"),
    path("account/", account.account, name="account"),
    path("language", account.language, name="language"),
    path("account/sessions", account.sessions_end, name="sessions_end"),
    path("account/app", account.factor_app, name="factor_app"),
    path("account/passkey", account.factor_passkey, name="factor_passkey"),
    path("account/codes", account.recovery_codes, name="recovery_codes"),
    path("account/factors/<int:number>", account.factor_remove, name="factor_remove"),
    path("account/sign-on/<int:number>", sign_on.remove, name="sign_on_remove"),
    path("password/forgot", account.password_forgot, name="password_forgot"),
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
