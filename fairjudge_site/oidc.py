"""OpenID Connect by django-allauth: the address to go to, and what the provider says of a person.

allauth keeps the state, uses PKCE, finds the provider's addresses and exchanges the code. Added
here are a nonce, and that the ID token's signature and claims are checked in any case. Nothing of
this is imported unless `FAIRJUDGE_OIDC` names a provider. allauth's own tables stay empty.
"""

import hmac
import secrets
from typing import Any, NoReturn

import jwt
import requests
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter, get_adapter
from allauth.socialaccount.models import SocialApp, SocialToken
from allauth.socialaccount.providers.base.constants import AuthError, AuthProcess
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.oauth2.views import OAuth2CallbackView
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _

from judging.core.errors import Failed, UserError

# Keys of providers are public, so a token that is signed with a shared secret proves nothing.
_ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"]
_ALGORITHMS += ["ES256", "ES384", "ES512", "EdDSA"]
_CLOCKS_OFF_SECONDS = 60
_REASONS: dict[type[Exception], str] = {
    jwt.ExpiredSignatureError: "it has expired",
    jwt.ImmatureSignatureError: "it is not valid yet",
    jwt.InvalidAudienceError: "it was made for another site",
    jwt.InvalidIssuerError: "it comes from another provider",
    jwt.InvalidSignatureError: "its signature is wrong",
}


class NotVerified(OAuth2Error):
    """What came from the provider can't be trusted. The text says why, as `it has expired`."""


def address_of(request: HttpRequest, name: str, next_: str, *, connect: bool) -> str:
    """Return where the provider asks the person. Raises Failed if it doesn't say."""
    provider = get_adapter().get_provider(request, provider=name)
    nonce = secrets.token_urlsafe(32)
    try:
        response = _Client(request, name).redirect(provider, next_, nonce, connect)
    except (requests.RequestException, OAuth2Error, KeyError, ValueError) as error:
        raise Failed(
            _(
                "%(name)s can't be reached now. Nothing was changed. Try again later, or log "
                "in with a password."
            )
            % {"name": provider.name}
        ) from error
    return str(response["Location"])


def claims_of(request: HttpRequest, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what the provider says of the person who comes back, and what was kept for them.

    Raises UserError if they cancelled, or if anything about it can't be trusted.
    """
    try:
        _SignOnView.adapter_view(_Client(request, name))(request)
    except _Verified as verified:
        return verified.claims, verified.state
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise Failed(
            _(
                "The provider sent something that is no answer of OpenID Connect. You are not "
                "logged in. Tell the operator of this site."
            )
        ) from error
    raise AssertionError("allauth has no other way out")


class _Verified(Exception):
    """Leaves allauth before it looks for the person in tables of its own."""

    def __init__(self, claims: dict[str, Any], state: dict[str, Any]) -> None:
        self.claims, self.state = claims, state


class Accounts(DefaultSocialAccountAdapter):
    """Providers come from the environment alone, and refusals are ours."""

    def list_apps(
        self, request: HttpRequest, provider: str | None = None, client_id: str | None = None
    ) -> list[SocialApp]:
        return [
            SocialApp(
                provider="openid_connect",
                provider_id=name,
                name=named["label"],
                client_id=named["client_id"],
                secret=settings.FAIRJUDGE_OIDC_SECRETS.get(named["secret"], ""),
                settings={
                    "server_url": named["issuer"],
                    "oauth_pkce_enabled": True,
                    "scope": named["scopes"],
                },
            )
            for name, named in settings.FAIRJUDGE_OIDC.items()
            if provider in (None, name, "openid_connect")
        ]

    def on_authentication_error(
        self,
        request: HttpRequest,
        provider: Any,
        error: str | None = None,
        exception: Exception | None = None,
        extra_context: dict[str, Any] | None = None,
    ) -> NoReturn:
        if error == AuthError.CANCELLED:
            raise UserError(
                _("You cancelled at %(name)s. You are not logged in.") % {"name": provider.name}
            )
        if isinstance(exception, NotVerified):
            raise UserError(
                _(
                    "The answer of %(name)s can't be used: %(exception)s. You are not logged in. "
                    "Try again. If it happens twice, tell the operator of this site."
                )
                % {"name": provider.name, "exception": exception}
            ) from exception
        if exception is not None:
            raise Failed(
                _(
                    "%(name)s didn't confirm who you are. You are not logged in. Try again. If it "
                    "happens twice, tell the operator of this site."
                )
                % {"name": provider.name}
            ) from exception
        raise UserError(
            _(
                "This login was already used, took too long, or began in another browser. You are "
                "not logged in. Begin again."
            )
        )


class _Client(OpenIDConnectOAuth2Adapter):
    state: dict[str, Any]

    @property
    def openid_config(self) -> dict[str, Any]:
        config: dict[str, Any] = super().openid_config
        # OpenID Connect Discovery demands it. One provider could answer for another otherwise.
        if str(config.get("issuer", "")).rstrip("/") != self._issuer:
            raise NotVerified("the provider calls itself by another address")
        return config

    @property
    def _issuer(self) -> str:
        issuer: str = settings.FAIRJUDGE_OIDC[self.provider_id]["issuer"]
        return issuer

    def get_callback_url(self, request: HttpRequest, app: SocialApp) -> str:
        # Not from the request, because providers accept one exact address only.
        return settings.FAIRJUDGE_URL + reverse("sign_on_done", args=[self.provider_id])

    def redirect(self, provider: Any, next_: str, nonce: str, connect: bool) -> HttpResponse:
        """Keep what has to come back in the session, and lead to the provider."""
        provider.get_oauth2_adapter = lambda request: self
        response: HttpResponse = provider.redirect(
            self.request,
            AuthProcess.LOGIN,
            next_url=next_,
            auth_params={"nonce": nonce},
            nonce=nonce,
            connect=connect,
        )
        return response

    def complete_login(
        self, request: HttpRequest, app: SocialApp, token: SocialToken, **kwargs: Any
    ) -> NoReturn:
        claims = self._checked(app, kwargs["response"].get("id_token", ""))
        if self.openid_config.get("userinfo_endpoint"):
            more = self._fetch_user_info(token.token)
            # OpenID Connect (5.3.2) demands it, because the second answer isn't signed.
            if more.get("sub") != claims["sub"]:
                raise NotVerified("its two parts are about different people")
            # What was signed comes before what was only fetched.
            claims = more | claims
        raise _Verified(claims, self.state)

    def _checked(self, app: SocialApp, token: str) -> dict[str, Any]:
        """Return the claims of an ID token after everything about it was checked."""
        with get_adapter().get_requests_session() as session:
            # Fetched at each login, so that a key that the provider withdraws ends at once.
            reply = session.get(self.openid_config["jwks_uri"])
            reply.raise_for_status()
        try:
            key_id = jwt.get_unverified_header(token).get("kid")
            keys = [
                key
                for key in jwt.PyJWKSet.from_dict(reply.json()).keys
                if key.public_key_use in (None, "sig") and key_id in (None, key.key_id)
            ]
            # A token without a key's id can only be checked if there is a single key.
            if len(keys) != 1:
                raise NotVerified("it is signed with an unknown key")
            claims: dict[str, Any] = jwt.decode(
                token,
                keys[0],
                algorithms=_ALGORITHMS,
                audience=app.client_id,
                issuer=self.openid_config["issuer"],
                leeway=_CLOCKS_OFF_SECONDS,
                options={"require": ["iss", "sub", "aud", "exp", "iat"]},
            )
        except jwt.PyJWTError as error:
            raise NotVerified(_REASONS.get(type(error), "it is no valid ID token")) from error
        for_several = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
        # A token for several sites has to name the one that asked for it.
        if claims.get("azp", "" if for_several else app.client_id) != app.client_id:
            raise NotVerified("it was made for another site")
        # The nonce ties the token to the login that began in this browser.
        if not hmac.compare_digest(str(claims.get("nonce", "")), self.state["nonce"]):
            raise NotVerified("it belongs to another login")
        return claims


class _SignOnView(OAuth2CallbackView):
    def _get_state(self, request: HttpRequest, provider: Any) -> Any:
        state, refused = super()._get_state(request, provider)
        self.adapter.state = state
        return state, refused
