"""Enums that have labels for pages and need no Django, so that the science can define them.

A model's field takes them as `choices=Label.choices`.
"""

from enum import EnumType, StrEnum
from typing import Self


class _LabelledType(EnumType):
    """Gives an enum `values` and `choices`, as Django's TextChoices has them."""

    def _members(cls) -> "list[LabelledEnum]":
        return list(cls.__members__.values())

    @property
    def values(cls) -> list[str]:
        return [member.value for member in cls._members()]

    @property
    def choices(cls) -> list[tuple[str, str]]:
        return [(member.value, member.label) for member in cls._members()]


class LabelledEnum(StrEnum, metaclass=_LabelledType):
    """Members are written `NAME = value` or `NAME = value, label`."""

    label: str

    def __new__(cls, value: str, label: str = "") -> Self:
        member = str.__new__(cls, value)
        member._value_ = value
        member.label = label or value.replace("_", " ")
        return member
