"""Template tags for numbers, labels, times and glossary words, the same on all pages."""

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from django import template
from django.template.context import RequestContext
from django.templatetags.static import static
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _

from judging.core import formatting, languages
from judging.core.glossary import GLOSSARY
from judging.core.images import in_words
from judging.llm.prompts.templates import UNSPLIT, PromptVariant, UnknownPart

register = template.Library()

OUTCOMES = ("win", "tie", "lose")
# How PORTIA shows the responses, by the name of its stage.
STAGES = {
    UNSPLIT: "whole responses",
    "length": "by length",
    "semantic": "by similarity",
    "none": "none (the orders never agreed)",
}

register.filter("usd", formatting.usd)
register.filter("duration", formatting.duration)
register.filter("count", formatting.count)
register.filter("percent", formatting.percent)


@register.simple_tag
def number(
    value: float | Decimal | None,
    low: float | None = None,
    high: float | None = None,
    digits: int = 3,
    n: int | None = None,
    of: int | None = None,
    reason: str = "",
    signed: bool = False,
    percent: bool = False,
    points: bool = False,
    said: bool = False,
    counted: bool = False,
) -> SafeString:
    """Show a value with its 95 % interval and coverage, or the reason why there is none.

    Args:
        percent: the number is a share.
        points: the number is a difference of shares, shown in percentage points.
        said: the page has already said the reason, so show only a dash.
        counted: the number is a count or an amount, so keep its leading zero.
    """
    if value is None and said:
        return format_html('<span class="number why" title="{}">–</span>', reason)
    if value is None:
        return format_html('<span class="number why">{}</span>', reason or "not known")
    unit = " points" if points else formatting.NARROW_SPACE + "%" if percent else ""
    # A share in percent has the same precision with two decimals less.
    scale, places = (100, max(digits - 2, 0)) if unit else (1, digits)
    # Papers leave out the leading zero of shares, not of percentages.
    counted = counted or bool(unit)
    size = float(value) * scale
    shown = formatting.places_of(size, places) if percent or not counted else places
    text = formatting.decimals(size, shown, signed=signed, counted=counted)
    return format_html(
        '<span class="number">{}{}{}{}</span>',
        text,
        unit,
        _interval(low, high, places, signed=signed, scale=scale, counted=counted),
        _coverage(n, of),
    )


@register.simple_tag
def p_value(value: float, bare: bool = False) -> SafeString:
    """Show a p-value, which is never 0. `bare` leaves out the letter, for columns headed p."""
    text = formatting.p_value(value)
    return format_html("{}", text.removeprefix("= ") if bare else f"p {text}")


def _interval(
    low: float | None, high: float | None, places: int, *, signed: bool, scale: int, counted: bool
) -> SafeString | str:
    if low is None or high is None:
        return ""
    return format_html(
        ' <span class="interval"><span class="visually-hidden">95 % interval </span>{}</span>',
        formatting.interval(low * scale, high * scale, places, signed=signed, counted=counted),
    )


def _coverage(n: int | None, of: int | None) -> SafeString | str:
    if n is None or of is None or n == of:
        return ""
    return format_html(
        ' <span class="coverage">on {} of {}</span>', formatting.count(n), formatting.count(of)
    )


@register.simple_tag
def cell(value: Any) -> str:
    """Show a value in the table under a plot, rounded as in the plot. A dash means no value."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


@register.simple_tag
def estimate(measured: Any, digits: int = 3, **options: Any) -> SafeString:
    """Show what the analysis returns, a value with low, high and n, or a reason, by `number`."""

    def part(name: str) -> Any:
        if isinstance(measured, Mapping):
            return measured.get(name)
        return getattr(measured, name, None)

    if part("value") is not None and part("low") is None and part("note"):
        alone = number(part("value"), digits=digits, **options)
        why = '<span class="interval" title="{}">no interval</span>'
        return format_html("{} " + why, alone, part("note"))
    return number(
        part("value"), part("low"), part("high"), digits, n=part("n"), reason=part("reason") or "",
        said=bool(part("said")), **options,
    )  # fmt: skip


def _whose(outcome: str, model_1: str, model_2: str) -> SafeString | str:
    """Return whose response won: a model's name, or response 1 or 2 if it has none."""
    if outcome == "tie":
        return "tie"
    number, model = (1, model_1) if outcome == "win" else (2, model_2)
    return named(model) if model else f"response {number}"


@register.filter
def named(model: str) -> SafeString:
    """Show a model's name. A long one is shortened, and whole when the pointer is on it."""
    # A name from right to left must not turn the rest of its sentence around, so it is isolated.
    short = formatting.short_name(model)
    if short == model:
        return format_html("<bdi>{}</bdi>", model)
    return format_html('<bdi title="{}">{}</bdi>', model, short)


@register.filter
def breaking(name: str) -> SafeString:
    """Show a method's name, which may break after each of its parts and nowhere else."""
    return format_html_join(mark_safe("+<wbr>"), "{}", ((part,) for part in name.split("+")))


@register.filter
def brief(text: str, longest: int = 0) -> str:
    """Show a text as one line, its images in words, and cut it if it is longer than `longest`."""
    line = " ".join(in_words(text).split())
    return f"{line[:longest].rstrip()} …" if 0 < longest < len(line) else line


@register.filter
def number_of(n: int, thing: str) -> str:
    """Show a count with its noun: `1 example`, `2 examples`."""
    return formatting.number_of(n, thing)


@register.simple_tag
def label(outcome: str | None, model_1: str = "", model_2: str = "") -> SafeString:
    """Show a label by the name of the model that wins, by shape and colour.

    Args:
        model_1, model_2: the models of responses 1 and 2; without names, they are response 1 and 2.
    """
    if not outcome:
        return format_html('<span class="why">{}</span>', "no label")
    if outcome not in OUTCOMES:
        raise ValueError(f"{outcome!r} is not a label")
    whose = _whose(outcome, model_1, model_2)
    wins = "" if outcome == "tie" else " wins"
    return format_html('<span class="label {}">{}{}</span>', outcome, whose, wins)


@register.simple_tag
def shares(win: int, tie: int, lose: int, model_1: str = "", model_2: str = "") -> SafeString:
    """Show the shares of the three labels as one bar, followed by the counts with names."""
    counts = dict(zip(OUTCOMES, (win, tie, lose), strict=True))
    total = sum(counts.values())
    if not total:
        return format_html('<span class="why">{}</span>', "none yet")
    bars, start = [], 0.0
    for outcome, part in counts.items():
        width = round(100 * part / total, 3)
        bars.append((outcome[0], start, width))
        start += width
    words = [
        (
            outcome,
            _whose(outcome, model_1, model_2),
            "" if outcome == "tie" else " wins",
            formatting.count(part),
        )
        for outcome, part in counts.items()
    ]
    return format_html(
        '<span class="shares"><svg viewBox="0 0 100 10" preserveAspectRatio="none"'
        ' aria-hidden="true">{}</svg>{}</span>',
        format_html_join("", '<rect class="{}" x="{}" width="{}" height="10"/>', bars),
        format_html_join(" ", '<span class="label {}">{}{} {}</span>', words),
    )


@register.simple_tag
def progress(done: int, total: int | None, word: str = "") -> SafeString:
    """Show a progress bar with words, or only the words while the total isn't known.

    Args:
        word: what is counted, in English. Without one it is what is done, in the page's language.
    """
    counts = {"done": formatting.count(done), "total": formatting.count(total or 0)}
    if not total:
        words = f"{counts['done']} {word}" if word else _("%(done)s done") % counts
        return format_html('<span class="progress">{}</span>', words)
    words = _("%(done)s of %(total)s done") % counts
    if word:
        words = f"{counts['done']} of {counts['total']} {word}"
    return format_html(
        '<span class="progress"><progress max="{}" value="{}" aria-label="{}"></progress>'
        "<span>{}</span></span>",
        total,
        done,
        word or _("done"),
        words,
    )


@register.simple_tag
def term(word: str, shown: str = "") -> SafeString:
    """Show a glossary word. Hover and focus show its meaning, and the link leads to the docs."""
    entry = GLOSSARY[word]
    return format_html(
        '<a class="term-word" href="{}" data-meaning="{}">{}</a>',
        entry.address,
        entry.meaning,
        shown or word,
    )


@register.filter
def part_name(part: str) -> str:
    """Say which response was shown first, and for PORTIA how both were split."""
    try:
        variant = PromptVariant.parse(part)
        first = f"response {variant.shown(1, 2)[0]} shown first"
    # Parts of other forms, such as single responses, name no order.
    except UnknownPart:
        return part
    if variant.permutation == part:
        return f"{part}: {first}"
    if variant.stage == UNSPLIT:
        return first.capitalize()
    return f"{stage_name(variant.stage).capitalize()}: {first}"


@register.filter
def stage_name(stage: str) -> str:
    return STAGES.get(stage, stage)


@register.filter
def moment(when: datetime | None) -> SafeString | str:
    """Show a time in UTC, which times.js turns into the browser's time zone."""
    return _time(when, "local", "")


@register.filter
def ago(when: datetime | None) -> SafeString | str:
    """Show how long ago a time was. times.js keeps it current."""
    if when is None:
        return _("never")
    passed = formatting.duration((timezone.now() - when).total_seconds())
    return _time(when, "ago", _("%(time)s ago") % {"time": passed})


def _time(when: datetime | None, kind: str, text: str) -> SafeString | str:
    if when is None:
        return _("never")
    utc = when.astimezone(UTC)
    return format_html(
        '<time datetime="{}" data-{}>{}</time>',
        utc.isoformat(timespec="seconds").replace("+00:00", "Z"),
        kind,
        text or f"{utc:%Y-%m-%d %H:%M} UTC",
    )


@register.simple_tag
def words_address() -> str:
    """Return the address of what scripts say in the page's language. English needs none."""
    return static(f"js/words/{languages.now()}.js")


@register.simple_tag(takes_context=True)
def sort_header(context: RequestContext, text: str, field: str, css: str = "") -> SafeString:
    """Show the header of a sortable column. It links to `?sort=field`, then `?sort=-field`."""
    query = context["request"].GET.copy()
    current = query.get("sort", "")
    state = {field: "ascending", f"-{field}": "descending"}.get(current, "none")
    query["sort"] = f"-{field}" if state == "ascending" else field
    # In another order there are other pages, so it begins with the first.
    for place in ("page", "after", "before"):
        query.pop(place, None)
    return format_html(
        '<th scope="col" class="{}" aria-sort="{}"><a href="?{}">{}</a></th>',
        css,
        state,
        query.urlencode(),
        text,
    )
