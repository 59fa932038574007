"""Whose request it is: every one of them asks for a session and a login, by prepared queries."""

from typing import Any

from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import User
from django.contrib.sessions.backends import db
from django.contrib.sessions.models import Session
from django.db.models import QuerySet
from django.utils import timezone

from judging.core.sql.prepared import prepared


class SessionStore(db.SessionStore):
    def _get_session_from_db(self) -> Session | None:
        session: Session | None = _live.first(key=self.session_key, now=timezone.now())
        if session is None:
            self._session_key = None
        return session


class Logins(ModelBackend):
    def get_user(self, user_id: int) -> User | None:
        user: User | None = _users.first(key=user_id)
        return user if user is not None and self.user_can_authenticate(user) else None


@prepared
def _live(key: Any, now: Any) -> QuerySet[Session]:
    return Session.objects.filter(session_key=key, expire_date__gt=now)


@prepared
def _users(key: Any) -> QuerySet[User]:
    return User.objects.filter(pk=key)
