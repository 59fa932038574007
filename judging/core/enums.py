"""Enums that have labels for pages and need no Django, so that the science can define them."""

from enum import StrEnum
from typing import ClassVar, Self


class LabelledEnum(StrEnum):
    """An enum with `label`, `values` and `choices`, as Django's TextChoices has them.

    Members are written `NAME = value` or `NAME = value, label`. A model's field takes them as
    `choices=Label.choices`.
    """

    label: str
    values: ClassVar[list[str]]
    choices: ClassVar[list[tuple[str, str]]]

    def __new__(cls, value: str, label: str = "") -> Self:
        # `StrEnum` would pass the label on to str, which takes a second argument for an encoding.
        member = str.__new__(cls, value)
        member._value_ = value
        member.label = label or value.replace("_", " ")
        return member

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.values = [member.value for member in cls]
        cls.choices = [(member.value, member.label) for member in cls]
