"""A round's items: each selection's at random places of one order, with n slots each."""

from collections.abc import Iterable, Sequence
from random import Random

from annotation.models import Item, Round, Selection, Slot
from annotation.selecting import Drawn, Ranked
from judging.table_statistics import rows_came

_CHUNK = 1000


def add_items(
    round_: Round, selection: Selection, ranked: Sequence[Ranked], positions: Iterable[float]
) -> None:
    """Items of one selection at their places in the order, with n slots each."""
    share = 1.0
    if selection.kind in (Selection.Kind.AUDIT, Selection.Kind.LEARN):
        share = len(ranked) / selection.frame_size if selection.frame_size else 0.0
    places = list(positions)
    for start in range(0, len(ranked), _CHUNK):
        items = [
            Item(
                round=round_,
                selection=selection,
                example_id=one.example_id,
                position=places[start + offset],
                audit_order=start + offset if selection.kind == Selection.Kind.AUDIT else None,
                rank=one.rank or None,
                bpde=one.bpde,
                routing_score=one.routing_score,
                probability=share,
            )
            for offset, one in enumerate(ranked[start : start + _CHUNK])
        ]
        made = Item.objects.bulk_create(items)
        Slot.objects.bulk_create(
            Slot(round=round_, item=item, index=index, position=item.position)
            for item in made
            for index in range(round_.votes_per_item)
        )
    Selection.objects.filter(pk=selection.pk).update(n_items=len(ranked))


def fill(
    round_: Round,
    parts: Sequence[tuple[str, Sequence[Ranked]]],
    drawn: Drawn,
    start: float = 0.0,
) -> None:
    """Items of each kind in one uniform order from `start` on, so that a place tells nothing."""
    places = [start + place for place in range(sum(len(ranked) for _, ranked in parts))]
    Random(f"order:{round_.seed}" + (f":{start:g}" if start else "")).shuffle(places)
    for kind, ranked in parts:
        if not ranked:
            continue
        selection = _empty_selection(round_, kind) or _new_selection(round_, kind)
        audited = kind == Selection.Kind.AUDIT
        selection.frame_size = drawn.n_rest if audited else drawn.frame_size
        selection.save(update_fields=["frame_size"])
        add_items(round_, selection, ranked, [places.pop() for _ in ranked])
    rows_came(sum(len(ranked) for _, ranked in parts) * round_.votes_per_item, Item, Slot)


def _new_selection(round_: Round, kind: str, n_items: int = 0) -> Selection:
    return Selection.objects.create(
        round=round_,
        kind=kind,
        seed=round_.seed,
        frame_size=round_.frame_size,
        parameters=round_.parameters,
        n_items=n_items,
    )


def _empty_selection(round_: Round, kind: str) -> Selection | None:
    return round_.selections.filter(kind=kind, items=None).order_by("pk").first()


def first_items(round_: Round, drawn: Drawn, checks: Sequence[Ranked]) -> None:
    """All of a round's items; or those that it starts to learn from, with their share of the
    attention checks. Selections that come later are announced, so that people see from the start
    how much they are asked for."""
    if not drawn.learn:
        top = Selection.Kind.ALL if round_.parameters["everything"] else Selection.Kind.TOP
        parts = [(top, drawn.top), (Selection.Kind.AUDIT, drawn.audit)]
        fill(round_, [*parts, (Selection.Kind.CHECK, checks)], drawn)
        return
    learn, m, audit = len(drawn.learn), round_.parameters["m"], round_.parameters["audit"]
    early = round(len(checks) * learn / (m + audit))
    fill(round_, [("learn", drawn.learn), ("check", checks[:early])], drawn)
    later = (("top", m - learn), ("audit", audit), ("check", len(checks) - early))
    for kind, n_items in later:
        if n_items:
            _new_selection(round_, kind, n_items)
