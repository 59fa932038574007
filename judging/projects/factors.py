"""Second factors of logins: authenticator apps, passkeys and recovery codes.

The secret of an app is stored encrypted, by a key that is derived from the site's secret key, and a
recovery code as a keyed hash. So neither the database nor a backup opens anything by itself. A code
counts once, and guesses are counted per person in the database, for all processes together.
"""

import base64
import hmac
import secrets
import time
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from axes.models import AccessAttempt
from django.conf import settings
from django.contrib.auth.models import AbstractUser
from django.db import IntegrityError, transaction
from django.db.models import F, QuerySet, Sum
from django.utils import timezone
from django.utils.crypto import salted_hmac
from django.utils.translation import gettext as _

from judging.core.errors import UserError
from judging.core.formatting import duration
from judging.core.text import unstorable
from judging.projects.access import record_event
from judging.projects.models import RecoveryCode, SecondFactor

OFF, OFFERED, REQUIRED = "OFF", "OFFERED", "REQUIRED"
N_CODES = 10
# RFC 6238: a code is for a step of 30 s. Clocks may differ by a step.
_STEP_SECONDS = 30
_STEPS_OFF = 1
# Without characters that look alike. Ten of them have 49 bits.
_ALPHABET = "ABCDEFGHJKMNPQRSTVWXYZ23456789"
_CODE_LENGTH = 10
_LONGEST_NAME: int = SecondFactor._meta.get_field("name").max_length
_SALT = "fairjudge.second_factor"


class TooManyTries(UserError):
    """Codes were guessed too often. It passes."""


def are_offered() -> bool:
    return bool(settings.FAIRJUDGE_SECOND_FACTOR != OFF)


def factors_of(user: AbstractUser) -> QuerySet[SecondFactor]:
    return SecondFactor.objects.filter(user=user.pk).order_by("pk")


def has_factor(user: AbstractUser) -> bool:
    """Return True if the login has to ask this person for a second factor."""
    return are_offered() and factors_of(user).exists()


# Guesses, which are counted where failed logins are counted, without an address


def tries_of(name: str) -> str:
    """Return under which name wrong codes of a login are counted. No login can have this name."""
    return f"second factor of {name}"


def _take_try(user: AbstractUser) -> None:
    """Count a guess before it is checked, so that many at once get no further."""
    rows = AccessAttempt.objects.filter(username=tries_of(user.get_username()))
    window = settings.AXES_COOLOFF_TIME
    rows.filter(attempt_time__lt=timezone.now() - window).delete()
    if not rows.update(failures_since_start=F("failures_since_start") + 1):
        name = tries_of(user.get_username())
        AccessAttempt.objects.create(username=name, ip_address=None, failures_since_start=1)
    # Nothing is left if a right code came at the same moment.
    if (rows.aggregate(n=Sum("failures_since_start"))["n"] or 0) > settings.AXES_FAILURE_LIMIT:
        raise TooManyTries(
            _(
                "Too many wrong codes were entered for this login. The login is safe and "
                "unchanged. Wait %(time)s, then try again."
            )
            % {"time": duration(window.total_seconds())}
        )


def _forget_tries(user: AbstractUser) -> None:
    AccessAttempt.objects.filter(username=tries_of(user.get_username())).delete()


# Codes of an app, and recovery codes


def check_code(user: AbstractUser, text: str) -> bool:
    """Return True if it is a fresh code of the person's app, or one of their recovery codes.

    Raises TooManyTries after too many wrong ones, also for a right one.
    """
    _take_try(user)
    code = "".join(text.split()).replace("-", "").upper()
    if len(code) > _CODE_LENGTH or not (_is_of_app(user, code) or _use_recovery(user, code)):
        return False
    _forget_tries(user)
    return True


def new_secret() -> str:
    import pyotp

    return pyotp.random_base32()


def app_address(user: AbstractUser, secret: str) -> str:
    """Return the otpauth: address that an app reads, which names this site and the login."""
    import pyotp

    host = urlsplit(settings.FAIRJUDGE_URL).hostname or "localhost"
    app = pyotp.TOTP(secret)
    return app.provisioning_uri(name=user.get_username(), issuer_name=f"FairJudge ({host})")


def picture_of(address: str) -> str:
    """Return a QR code as the address of an image."""
    from qrcode.image.svg import SvgPathImage
    from qrcode.main import make

    svg: bytes = make(address, image_factory=SvgPathImage, border=2).to_string()
    return "data:image/svg+xml;base64," + base64.b64encode(svg).decode()


def add_app(user: AbstractUser, secret: str, code: str, name: str) -> list[str]:
    """Add an authenticator app that shows this code now. Returns recovery codes if it is the first.

    Raises UserError for a wrong code, for a second app, and for a name that can't be stored.
    """
    name = _checked_name(name, _("Authenticator app"))
    _take_try(user)
    step = _step_of(secret, "".join(code.split()))
    if step is None:
        raise UserError(
            _(
                "This code is wrong or too old. Nothing was changed. Enter the code that the app "
                "shows now, and check the clock of your phone."
            )
        )
    _forget_tries(user)
    row = SecondFactor(user_id=user.pk, kind=SecondFactor.Kind.APP, name=name)
    row.secret, row.last_step = seal(secret), step
    try:
        with transaction.atomic():
            return _add(user, row)
    except IntegrityError:
        raise UserError(
            _("You already have an authenticator app. Nothing was changed. Remove it first.")
        ) from None


def _is_of_app(user: AbstractUser, code: str) -> bool:
    app = factors_of(user).filter(kind=SecondFactor.Kind.APP).first()
    step = _step_of(unseal(app.secret), code) if app is not None else None
    if app is None or step is None:
        return False
    # A code that somebody saw or that was sent twice opens nothing a second time.
    fresh = SecondFactor.objects.filter(pk=app.pk, last_step__lt=step)
    return fresh.update(last_step=step, used_at=timezone.now()) == 1


def _step_of(secret: str, code: str) -> int | None:
    """Return the time step of which this is the code, or None if it is of none around now."""
    import pyotp

    if not (code.isascii() and code.isdecimal()):
        return None
    app, now = pyotp.TOTP(secret), int(time.time()) // _STEP_SECONDS
    steps = range(now - _STEPS_OFF, now + _STEPS_OFF + 1)
    return next((at for at in steps if hmac.compare_digest(app.generate_otp(at), code)), None)


def new_codes(user: AbstractUser) -> list[str]:
    """Replace the person's recovery codes. They are shown once: only their hashes are stored."""
    letters = [[secrets.choice(_ALPHABET) for _ in range(_CODE_LENGTH)] for _ in range(N_CODES)]
    codes = ["".join(of_code) for of_code in letters]
    with transaction.atomic():
        RecoveryCode.objects.filter(user=user.pk).delete()
        RecoveryCode.objects.bulk_create(
            RecoveryCode(user_id=user.pk, digest=_digest(user, code)) for code in codes
        )
        record_event(None, user, "recovery codes made", user.get_username())
    return [f"{code[:5]}-{code[5:]}" for code in codes]


def _use_recovery(user: AbstractUser, code: str) -> bool:
    mine = RecoveryCode.objects.filter(user=user.pk, digest=_digest(user, code))
    with transaction.atomic():
        # If two use the code at once, one of them deletes it.
        if not mine.delete()[0]:
            return False
        record_event(None, user, "recovery code used", user.get_username())
    return True


def _digest(user: AbstractUser, code: str) -> str:
    key = f"{_SALT}.recovery"
    return salted_hmac(key, f"{user.pk}:{code}", algorithm="sha256").hexdigest()


def seal(text: str) -> str:
    """Encrypt a secret for the database or a session."""
    return _cipher().encrypt(text.encode()).decode()


def unseal(text: str) -> str:
    from cryptography.fernet import InvalidToken

    try:
        return _cipher().decrypt(text.encode()).decode()
    except InvalidToken:
        raise UserError(
            _(
                "The secret key of this site has changed, so codes of your app can't be checked. "
                "Nothing was changed. Ask the operator to reset your second factor."
            )
        ) from None


def _cipher() -> Any:
    from cryptography.fernet import Fernet

    key = salted_hmac(_SALT, "secrets", algorithm="sha256").digest()
    return Fernet(base64.urlsafe_b64encode(key))


# Passkeys


def passkeys_work() -> bool:
    """Return True if browsers make passkeys for this site: by https or localhost, with a name."""
    site = urlsplit(settings.FAIRJUDGE_URL)
    host = site.hostname or ""
    try:
        ip_address(host)
    except ValueError:
        return site.scheme == "https" or host == "localhost"
    return False


def offer_passkey(user: AbstractUser) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what the browser needs to make a passkey, and what `add_passkey` needs to check it."""
    from fido2.webauthn import (
        PublicKeyCredentialUserEntity,
        ResidentKeyRequirement,
        UserVerificationRequirement,
    )

    # WebAuthn wants an identifier that tells an authenticator nothing about the person.
    handle = salted_hmac(f"{_SALT}.handle", str(user.pk), algorithm="sha256").digest()
    name = user.get_username()
    options, state = _server().register_begin(
        PublicKeyCredentialUserEntity(id=handle, name=name, display_name=name),
        credentials=_credentials(user),
        resident_key_requirement=ResidentKeyRequirement.PREFERRED,
        user_verification=UserVerificationRequirement.PREFERRED,
    )
    return dict(options), dict(state)


def add_passkey(
    user: AbstractUser, state: Mapping[str, Any], answer: Mapping[str, Any], name: str
) -> list[str]:
    """Add the passkey that the browser made. Returns recovery codes if it is the first factor."""
    name = _checked_name(name, "Passkey")
    try:
        made = _server().register_complete(dict(state), answer).credential_data
    except (ValueError, TypeError, KeyError):
        made = None
    if made is None:
        raise UserError(_("Your browser's answer doesn't fit. Nothing was changed. Try again."))
    row = SecondFactor(user_id=user.pk, kind=SecondFactor.Kind.PASSKEY, name=name)
    row.credential = base64.b64encode(made).decode()
    with transaction.atomic():
        return _add(user, row)


def ask_passkey(user: AbstractUser) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Return what the browser needs to use one of the person's passkeys, and what checks it."""
    from fido2.webauthn import UserVerificationRequirement

    credentials = _credentials(user)
    if not credentials or not passkeys_work():
        return None
    preferred = UserVerificationRequirement.PREFERRED
    options, state = _server().authenticate_begin(credentials, user_verification=preferred)
    return dict(options), dict(state)


def check_passkey(user: AbstractUser, state: Mapping[str, Any], answer: Mapping[str, Any]) -> bool:
    """Return True if the browser signed this challenge with one of the person's passkeys."""
    try:
        used = _server().authenticate_complete(dict(state), _credentials(user), answer)
    except (ValueError, TypeError, KeyError):
        return False
    credential = base64.b64encode(used).decode()
    factors_of(user).filter(credential=credential).update(used_at=timezone.now())
    _forget_tries(user)
    return True


def _credentials(user: AbstractUser) -> list[Any]:
    from fido2.webauthn import AttestedCredentialData

    passkeys = factors_of(user).filter(kind=SecondFactor.Kind.PASSKEY)
    rows = passkeys.values_list("credential", flat=True)
    return [AttestedCredentialData(base64.b64decode(row)) for row in rows]


def _server() -> Any:
    from fido2.server import Fido2Server
    from fido2.webauthn import PublicKeyCredentialRpEntity

    host = urlsplit(settings.FAIRJUDGE_URL).hostname
    site = PublicKeyCredentialRpEntity(name="FairJudge", id=host)
    # By default, the library accepts the origins of all subdomains.
    return Fido2Server(site, verify_origin=lambda origin: origin == settings.FAIRJUDGE_URL)


# All kinds


def _checked_name(name: str, usual: str) -> str:
    name = " ".join(name.split()) or usual
    if len(name) > _LONGEST_NAME or unstorable(name):
        raise UserError(_("Give it a name of at most %(n)s characters.") % {"n": _LONGEST_NAME})
    return name


def _add(user: AbstractUser, row: SecondFactor) -> list[str]:
    is_first = not factors_of(user).exists()
    row.save()
    record_event(None, user, "second factor added", user.get_username(), kind=row.kind)
    return new_codes(user) if is_first else []


def remove(factor: SecondFactor, by: AbstractUser) -> None:
    """Remove one factor. Without any, recovery codes are of no use."""
    with transaction.atomic():
        user = factor.user
        SecondFactor.objects.filter(pk=factor.pk).delete()
        if not factors_of(user).exists():
            RecoveryCode.objects.filter(user=user.pk).delete()
        name = user.get_username()
        record_event(None, by, "second factor removed", name, kind=factor.kind)


def reset(user: AbstractUser, by: AbstractUser | None) -> int:
    """Remove all second factors of a person who lost them. Returns how many there were."""
    with transaction.atomic():
        n = SecondFactor.objects.filter(user=user.pk).delete()[0]
        RecoveryCode.objects.filter(user=user.pk).delete()
        _forget_tries(user)
        if n:
            record_event(None, by, "second factor reset", user.get_username(), factors=n)
    return n
