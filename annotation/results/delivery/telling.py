"""Telling webhooks whether an audit certifies the labels that nobody checked."""

from django.db import transaction

from annotation.models import Round, RoundTold
from annotation.results.sections.analysis import Analysis
from annotation.results.sections.trust import CertificateFigures, certificate
from annotation.rounds.telling import audit_level, move_on
from judging.core.formatting import percent
from judging.methods.intervals.estimates import Undefined
from judging.projects.access import tell

ISSUED, REFUSED = "issued", "refused"


def tell_of_certificate(round_: Round) -> None:
    """Tell of a certificate that is issued, or refused now that all planned looks are over."""
    run = round_.run
    told, _ = RoundTold.objects.get_or_create(round=round_)
    level, is_over = audit_level(round_)
    if level == told.level:
        return
    outcome, figures = told.certificate, None
    if run is not None and run.ranked_at is not None:
        of = Analysis(round_.project, run)
        # A later round of the run may have an audit and a plan of its own, which then counts.
        if not isinstance(of.audit, Undefined) and of.audit.number == round_.number:
            figures = certificate(of.sheet, of.audit, of.unchecked)
            outcome = _outcome(figures, told.certificate, is_over=is_over)
    before = told.certificate
    with transaction.atomic():
        # Two workers may have come to the same outcome. The one that moves the row on tells of it.
        if not move_on(told, level=level, certificate=outcome):
            return
        if figures is not None and outcome and outcome != before:
            tell(round_.project, f"certificate.{outcome}", lambda: _data(round_, figures))


def _outcome(figures: CertificateFigures, before: str, *, is_over: bool) -> str:
    if figures.issued:
        return ISSUED
    return REFUSED if is_over else before


def _data(round_: Round, figures: CertificateFigures) -> dict[str, object]:
    data = {
        "round": round_.number,
        "run": round_.run and round_.run.number,
        "largest_error": figures.epsilon,
        "confidence": figures.confidence,
        "looks": figures.looks,
        "audited": figures.resolved,
        "sentence": figures.reason or "",
    }
    if figures.issued:
        data["labels"] = figures.n_from_judge
        data["sentence"] = (
            f"At most {percent(figures.epsilon)} of {figures.n_from_judge} labels are wrong, with "
            f"confidence {percent(figures.confidence)}."
        )
    return data
