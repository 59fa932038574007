"""What a run does differently from the usual one, in sentences for its page."""

from judging.methods.portia.stages import Stage
from judging.models.runs import Run
from judging.runs.portia.settings import PortiaSettings


def notes_of(run: Run, samples_left: int) -> tuple[str, ...]:
    kept = run.parameters.get("adaptive")
    notes = [portia_note(run)] if run.stages else []
    if run.parameters.get("batch"):
        notes.append("In batches: half the price, and done within 24 hours of each.")
    if kept is not None:
        notes += [
            "Adaptive: an example is asked until its label can no longer change, or is with "
            f"{kept['confidence']:.0%} confidence the one that all samples would give. That is "
            "about this judge, not about the truth. It is ranked by its smoothed entropy.",
            rules_note(kept),
        ]
        if run.state == Run.State.DONE:
            notes.append(f"{samples_left} samples of the full run were not needed.")
    return tuple(notes)


def portia_note(run: Run) -> str:
    said = {Stage.UNSPLIT: "whole", Stage.LENGTH: "by length", Stage.SEMANTIC: "by what is alike"}
    # The whole responses come last only where nothing else can be shown.
    asked = [stage for stage in run.stages if stage != Stage.UNSPLIT or stage == run.stages[0]]
    stages = ", then ".join(said[Stage(stage)] for stage in asked)
    split = PortiaSettings.of(run)
    parts = f", in {split.parts} parts, tokens {split.tokens}" if split else ""
    return (
        f"PORTIA{parts}: an example is asked until both orders agree, {stages}. Whole responses "
        "are shown where one is too short to split or nothing is alike."
    )


def rules_note(kept: dict[str, object]) -> str:
    pilot, rules = kept.get("pilot"), kept.get("rules")
    if not isinstance(pilot, list) or rules is None:
        return "Its pilot is being asked in full, to calibrate when others may stop."
    if not isinstance(rules, list) or not rules:
        why = f": {kept['why']}" if kept.get("why") else ""
        return f"The pilot of {len(pilot)} gave no rule{why}; only certain labels stop early."
    stated = "; ".join(
        f"after {rule['rounds']} where its differences add up to {rule['lead']:g} or more "
        f"({rule['lower']:.1%} at least)"
        for rule in rules
    )
    return f"Rounds after which a label is kept, by a pilot of {len(pilot)}: {stated}."
