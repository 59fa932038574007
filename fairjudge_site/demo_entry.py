"""The login page, and the demo's buttons on it that need no password.

The buttons exist only if `manage.py demo` started the site on this machine's loopback address. They
open only the two logins that the demo created.
"""

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from annotation.results.demo import ANNOTATOR, OWNER, STUDY
from judging.projects.logins import enter, log_in
from judging.projects.mail import mail_is_configured

LONGEST_NAME = 150
ENTRIES = {"owner": OWNER, "annotator": ANNOTATOR}


class LoginForm(AuthenticationForm):
    """Checks the length of a name on the server, which Django leaves to browsers."""

    def clean_username(self) -> str:
        name: str = self.cleaned_data["username"]
        if len(name) > LONGEST_NAME:
            raise self.get_invalid_login_error()
        return name


class Login(LoginView):
    authentication_form = LoginForm
    redirect_authenticated_user = True

    def get_context_data(self, **extra: object) -> dict[str, object]:
        return super().get_context_data(
            demo=settings.FAIRJUDGE_DEMO,
            providers=settings.FAIRJUDGE_OIDC.values(),
            has_mail=mail_is_configured(),
            **extra,
        )

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        return redirect(enter(self.request, form.get_user(), self.get_success_url()))


@login_not_required
@require_POST
def demo_enter(request: HttpRequest) -> HttpResponse:
    name = ENTRIES.get(request.POST.get("as", ""))
    user = get_user_model().objects.filter(username=name).first() if name else None
    # Somebody may have given this login more rights, or closed it.
    if not settings.FAIRJUDGE_DEMO or user is None or user.is_superuser or not user.is_active:
        raise Http404("There is no demo here.")
    log_in(request, user)
    return redirect("annotate") if name == ANNOTATOR else redirect("project", STUDY)
