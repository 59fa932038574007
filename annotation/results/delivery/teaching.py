"""Teaching a judge: from the errors that people found in a run to a template that was tested.

A random part of people's labels teaches (`pool_of`). Errors of the run among them become solved
examples in the prompt, a rubric that a model drafts from them, or both. A person reads and approves
that as a version of a template. A run with the version is about the other examples only, so that no
label both teaches and measures. On their labels the version is compared with the old template, and
it is retired unless it is shown to be better.

Votes of single annotators may teach, too. Then the judge is asked once in the place of each. How
many of these simulated annotators agree says how sure it is.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np
from django.contrib.auth.models import AbstractUser
from django.db import transaction
from django.utils import timezone
from django.utils.text import slugify

from annotation.models import Item, Lesson, Selection, Vote
from annotation.results.data.sheet import LABELS, Sheet
from annotation.results.delivery.drift import paired_runs
from annotation.results.merge.final_labels import places_of
from annotation.results.sections.analysis import Analysis
from judging.core.errors import UserError
from judging.core.formatting import count, number_of, usd
from judging.core.text import storable
from judging.dataset.models import Example, Label
from judging.llm.client.errors import CallFailure
from judging.llm.client.messages import JudgeRequest, Message
from judging.llm.own_templates import TemplateRefused, problems
from judging.llm.prices import PriceSnapshot
from judging.llm.prompts.marks import disarm
from judging.llm.prompts.templates import TaughtPairs, Template, default_template
from judging.methods.arrays import Booleans, Codes
from judging.methods.intervals.estimates import Estimate, Undefined
from judging.methods.intervals.looks import Ruling, Spending
from judging.methods.review.teaching import (
    annotators_with,
    balanced_sides,
    choose_pairs,
    draw_annotators,
    shown_better,
)
from judging.projects import access
from judging.projects.access import next_number
from judging.projects.models import Project
from judging.runs.endpoints import default_endpoint_name, find_price_of, named_endpoint
from judging.runs.engine.working import ask_once
from judging.runs.models import Form, Method, Run
from judging.runs.planning.start import Price, choose_model
from judging.runs.templates import current, keep, restored, set_retired

FEWEST_ERRORS = 5
# If every label is known, this many teach at most, and never more than half.
MOST_TAUGHT = 160
SHOTS, MOST_SHOTS = 4, 8
# The paper's N and K: simulated annotators, and votes of each in its prompts.
ANNOTATORS, MOST_ANNOTATORS, VOTES_OF_EACH = 5, 20, 5
LONGEST_RUBRIC = 6_000
DRAFT_TOKENS = 800
# What the model that drafts a rubric reads: errors, and characters of each text and comment.
CASES, LOCAL_CASES = 12, 3
LONGEST_CASE, LONGEST_LOCAL_CASE, LONGEST_COMMENT, MOST_COMMENTS = 1_500, 300, 400, 5
NOTHING = "Nothing was sent."
# Fewer seldom show that a judge has become better, even by a tenth.
FEWEST_HELD_OUT = 50


@dataclass(frozen=True)
class Pool:
    """The labels that may teach. source: where they come from, in words.

    taught: places in the sheet of all examples whose labels teach, or would if they had one.
    rows: those that people and the judge labelled; wrong: (rows) if they disagree.
    held_out: labels that are left to compare by.
    """

    source: str
    taught: Codes
    rows: Codes
    wrong: Booleans
    human: np.ndarray
    held_out: int


def pool_of(analysis: Analysis) -> Pool:
    """Return the random part of people's labels that teaches, always the same one of a run.

    That is the learning sample of its rounds, else half of the audit, else half of all labels.
    Raises UserError if no label was drawn at random.
    """
    sheet, run = analysis.sheet, analysis.run
    if sheet.everyone:
        source, taught = "drawn at random from all labels", _drawn_by_question(analysis)
        human, labelled = sheet.human, sheet.labelled
        left = labelled.copy()
    else:
        items = Item.objects.filter(round__run=run, selection__kind=Selection.Kind.LEARN)
        places = places_of(sheet.ids, list(items.values_list("example", flat=True)))
        source, taught = "the learning sample", np.unique(places[places >= 0])
        if not len(taught):
            audit = analysis.audit
            if isinstance(audit, Undefined):
                raise UserError(
                    f"No label of people on {run.name} can teach: {audit.reason}. {NOTHING} Open a "
                    "round with a learning sample or an audit, or import labels for all examples."
                )
            settled = analysis.rng.permutation(audit.places[: audit.resolved])
            source, taught = "half of the audit", np.sort(settled[: len(settled) // 2])
        human, labelled = sheet.answer, sheet.answered
        left = (sheet.selected | sheet.audited) & labelled
    left[taught] = False
    rows = taught[labelled[taught] & sheet.judged[taught]]
    wrong = sheet.judge[rows] != human[rows]
    return Pool(source, taught, rows, wrong, human, int(left.sum()))


def _drawn_by_question(analysis: Analysis) -> Codes:
    """Draw labelled examples with all others of their questions."""
    sheet = analysis.sheet
    labelled = np.flatnonzero(sheet.labelled)
    most = min(MOST_TAUGHT, len(labelled) // 2)
    drawn: list[np.ndarray] = []
    # Whole questions teach, so that no other pair of a taught question is left to measure by.
    for question in analysis.rng.permutation(np.unique(sheet.question[labelled])):
        rows = labelled[sheet.question[labelled] == question]
        if sum(map(len, drawn)) + len(rows) <= most:
            drawn.append(rows)
        if sum(map(len, drawn)) >= most:
            break
    return np.sort(np.concatenate(drawn)) if drawn else np.array([], dtype=np.intp)


@dataclass(frozen=True)
class LessonPlan:
    """What a lesson would teach, and what drafting its rubric would cost. Nothing has been sent.

    pairs: key and label of the solved examples, the first to be shown first. taught, errors: keys.
    annotators: the same of each simulated annotator.
    request: what the model is asked; None without a rubric. usd: expected, usd_most: at most; None
    if the price is unknown.
    """

    run: Run
    way: Lesson.Way
    base: str
    name: str
    source: str
    pairs: list[list[Any]]
    shown: int
    taught: list[int]
    n_labels: int
    errors: list[int]
    held_out: int
    endpoint: str = ""
    model: str = ""
    request: JudgeRequest | None = None
    price: PriceSnapshot | None = None
    annotators: Sequence[list[list[Any]]] = ()

    @property
    def prompt_tokens(self) -> int:
        return self.request.prompt_tokens if self.request else 0

    @property
    def usd(self) -> Decimal | None:
        return self._cost(DRAFT_TOKENS // 2)

    @property
    def usd_most(self) -> Decimal | None:
        return self._cost(DRAFT_TOKENS)

    def _cost(self, completion: int) -> Decimal | None:
        if self.request is None:
            return Decimal(0)
        return self.price.reserve(self.prompt_tokens, 1, completion) if self.price else None


def plan_lesson(
    project: Project,
    run: Run,
    way: str,
    *,
    shots: int | None = None,
    annotators: int | None = None,
    name: str = "",
    endpoint: str = "",
    model: str = "",
    price: Price | None = None,
    budget: Decimal | None = None,
) -> LessonPlan:
    """Choose what a lesson teaches, and price its draft. Raises UserError if it can't be taught.

    Args:
        shots: How many solved examples a prompt shows; an even number is balanced in each order.
            Default: 4, or 5 votes of each simulated annotator.
        annotators: How many annotators are simulated, if they are. Default: 5.
        name: Of the taught template. Default: that of the run's template with `-taught`.
        endpoint, model: What drafts the rubric. Default: those of the run.
        budget: The most that the draft may cost, in USD.
    """
    access.need_texts(project, "They teach the judge.")
    run.require_ranking(NOTHING)
    if run.form == Form.POINTWISE:
        raise UserError(f"Run {run.name} scored single responses, and pairs teach. {NOTHING}")
    if way not in Lesson.Way.values:
        raise UserError(f"Teach by one of: {', '.join(Lesson.Way.values)}. {NOTHING}")
    simulates = way == Lesson.Way.ANNOTATORS
    if annotators is not None and not simulates:
        raise UserError(
            f"Annotators are simulated only if you teach by {Lesson.Way.ANNOTATORS}. {NOTHING}"
        )
    n_annotators = ANNOTATORS if annotators is None else annotators
    if not 2 <= n_annotators <= MOST_ANNOTATORS:
        raise UserError(
            f"2 to {MOST_ANNOTATORS} annotators can be simulated, not {n_annotators}. {NOTHING}"
        )
    if shots is None:
        shots = VOTES_OF_EACH if simulates else SHOTS
    if way != Lesson.Way.RUBRIC and not 1 <= shots <= MOST_SHOTS:
        raise UserError(f"A prompt shows 1 to {MOST_SHOTS} solved examples, not {shots}. {NOTHING}")
    base = old_template(run)
    name = name or f"{slugify(base.name)[:66]}-{'annotators' if simulates else 'taught'}"
    if slugify(name, allow_unicode=False) != name.lower() or len(name) > 80:
        raise UserError(
            f"“{name}” is no name of a template: use letters, digits and hyphens. {NOTHING}"
        )
    analysis = Analysis(project, run)
    sheet, pool = analysis.sheet, pool_of(analysis)
    errors = pool.rows[pool.wrong]
    earlier = list(base.lesson.taught) if base.lesson else []
    if simulates:
        return _simulating(run, base, name, sheet, pool, n_annotators, shots, analysis.rng, earlier)
    if len(errors) < FEWEST_ERRORS:
        raise UserError(
            f"People disagree with {run.name} on {count(len(errors))} of the "
            f"{number_of(len(pool.rows), 'label')} that may teach ({pool.source}). At least "
            f"{FEWEST_ERRORS} disagreements are needed. {NOTHING} Label more examples at random."
        )
    taught = sorted({*earlier, *sheet.ids[pool.taught].tolist()})
    pairs: list[list[Any]] = []
    if way != Lesson.Way.RUBRIC:
        # One more than is shown, in case that the pair to judge has the question of one of them.
        pairs = [[key, label] for key, label in _chosen(sheet, pool, shots + 1)]
    plan = LessonPlan(
        run=run,
        way=Lesson.Way(way),
        base=base.name,
        name=name,
        source=pool.source,
        pairs=pairs,
        shown=min(shots, max(len(pairs) - 1, 1)) if pairs else 0,
        taught=taught,
        n_labels=len(pool.rows),
        errors=sheet.ids[errors].tolist(),
        held_out=pool.held_out,
    )
    if way == Lesson.Way.EXAMPLES:
        return plan
    return _with_request(plan, analysis, pool, endpoint, model, price, budget)


def _simulating(
    run: Run, base: Template, name: str, sheet: Sheet, pool: Pool, n: int, shots: int,
    rng: np.random.Generator, earlier: Sequence[int],
) -> LessonPlan:  # fmt: skip
    """Plan a lesson that shows each simulated annotator one annotator's own votes.

    Examples of an earlier lesson keep out of prompts: they were chosen by where the judge erred.
    """
    places = pool.taught[~np.isin(sheet.ids[pool.taught], np.array(earlier, dtype=np.intp))]
    present, question = sheet.ballots.present[places], sheet.question[places]
    # One more than is shown, in case that the example in question has the question of one of them.
    able = len(annotators_with(present, question, shots + 1))
    if able < n:
        fewer = "Have more votes cast."
        if able > 1:
            fewer = f"Simulate {able}, show fewer votes of each, or have more votes cast."
        raise UserError(
            f"{number_of(able, 'annotator')} voted on at least {shots + 1} questions among the "
            f"{number_of(len(places), 'example')} whose votes may teach ({pool.source}), and "
            f"{n} are needed. {NOTHING} {fewer}"
        )
    votes, sets, shown = sheet.ballots.votes[places], [], set[int]()
    for column, rows in draw_annotators(present, question, n, shots + 1, rng):
        keys = sheet.ids[places[rows]].tolist()
        shown.update(keys)
        labels = votes[rows, column].tolist()
        sets.append([[key, str(LABELS[sign])] for key, sign in zip(keys, labels, strict=True)])
    unused = ~np.isin(sheet.ids[pool.rows], np.array(sorted(shown), dtype=np.intp))
    return LessonPlan(
        run=run, way=Lesson.Way.ANNOTATORS, base=base.name, name=name, source=pool.source,
        pairs=[], shown=shots, taught=sorted({*earlier, *shown}), n_labels=len(shown), errors=[],
        held_out=pool.held_out + int(unused.sum()), annotators=sets,
    )  # fmt: skip


def _chosen(sheet: Sheet, pool: Pool, n: int) -> list[tuple[int, str]]:
    rows = pool.rows
    category = [str(name) for name in sheet.category[rows]]
    places = choose_pairs(pool.wrong, sheet.bpde[rows], category, sheet.question[rows], n)
    return [(int(sheet.ids[row]), str(LABELS[int(pool.human[row])])) for row in rows[places]]


def old_template(run: Run) -> Template:
    """Return what the run asked; of judgments recorded elsewhere, the default of their form."""
    if run.method == Method.IMPORTED or not run.template_text:
        return default_template(run.form)
    return restored(run.template_name, run.template_text, run.form, run.parameters["output"])


def _with_request(
    plan: LessonPlan,
    analysis: Analysis,
    pool: Pool,
    endpoint: str,
    model: str,
    price: Price | None,
    budget: Decimal | None,
) -> LessonPlan:
    run = plan.run
    chosen = named_endpoint(endpoint or run.endpoint or default_endpoint_name())
    name = model or (run.model if chosen.name == run.endpoint else "") or choose_model(chosen)
    known = find_price_of(chosen, name, price)
    cases = LOCAL_CASES if chosen.is_local else CASES
    only_errors = replace(pool, rows=pool.rows[pool.wrong], wrong=pool.wrong[pool.wrong])
    asked = _chosen(analysis.sheet, only_errors, cases)
    longest = LONGEST_LOCAL_CASE if chosen.is_local else LONGEST_CASE
    text = _asking(analysis, asked, longest)
    request = JudgeRequest((Message("user", text),), name, temperature=0.0, max_tokens=DRAFT_TOKENS)
    plan = replace(plan, endpoint=chosen.name, model=name, request=request, price=known)
    if budget is None:
        return plan
    if plan.usd_most is None:
        raise UserError(
            f"The price of {name} at {chosen.name} is unknown, so a budget can't be kept. "
            f"{NOTHING} Give the price, or leave the budget out."
        )
    if plan.usd_most > budget:
        raise UserError(
            f"The draft may cost {usd(plan.usd_most)}, which is more than the budget of "
            f"{usd(budget)}. {NOTHING} Raise the budget, or teach by examples only."
        )
    return plan


_ASKED = """An LLM judge compares two responses to a question. People disagree with it in the \
cases below. Write a rubric by which the judge would decide as people do.

{cases}

Write at most 8 rules. Begin each with "- " on a line of its own. Say what people value, and what \
they don't. Speak of responses in general: name no case, no position and no assistant. Write the \
rules and nothing else."""


def _asking(analysis: Analysis, asked: list[tuple[int, str]], longest: int) -> str:
    """Return the prompt. Of decided cases, as many show people's choice first as second."""
    sheet, texts = analysis.sheet, Example.objects.in_bulk([key for key, _ in asked])
    by_key = dict(zip(sheet.ids.tolist(), sheet.people, strict=True)) | sheet.asked
    judge = dict(zip(sheet.ids.tolist(), sheet.judge.tolist(), strict=True))
    sides = balanced_sides([label != Label.TIE for _, label in asked], first=True)
    shown = []
    for number, ((key, label), better_first) in enumerate(zip(asked, sides, strict=True), start=1):
        example, people = texts[key], by_key.get(key)
        turned = better_first != (label != Label.LOSE)
        responses = example.response_1, example.response_2
        named = [("question", example.question)]
        named += zip(
            ("first response", "second response"), responses[:: -1 if turned else 1], strict=True
        )
        # Disarmed, because a text may hold such marks itself and would end its case early.
        lines = [
            f"[The Start of case {number}'s {name}]\n{disarm(_clipped(text, longest))}\n"
            f"[The End of case {number}'s {name}]"
            for name, text in named
        ]
        lines.append(f"The judge: {_words(LABELS[judge[key]], turned=turned)}.")
        lines.append(f"People: {_words(label, turned=turned)}.")
        lines += _reasons([vote.pk for vote in people.votes] if people else [])
        shown.append("\n\n".join(lines))
    return _ASKED.format(cases="\n\n".join(shown))


def _words(label: str, *, turned: bool) -> str:
    if label == Label.TIE:
        return "both responses are equally good"
    first = (label == Label.WIN) != turned
    return f"the {'first' if first else 'second'} response is better"


def _reasons(votes: Iterable[int]) -> list[str]:
    rows = Vote.objects.filter(pk__in=list(votes)).order_by("pk")
    remarks = list(rows.values_list("comment", "answer"))
    tags = dict.fromkeys(str(tag) for _, answer in remarks for tag in answer.get("reasons", ()))
    comments = [disarm(_clipped(text, LONGEST_COMMENT)) for text, _ in remarks if text.strip()]
    lines = [f"Reasons that people chose: {', '.join(tags)}."] if tags else []
    return lines + [f"A person's comment: {text}" for text in comments[:MOST_COMMENTS]]


def _clipped(text: str, longest: int) -> str:
    text = text.strip()
    return text if len(text) <= longest else f"{text[:longest]} …"


def begin_lesson(
    project: Project,
    user: AbstractUser | None,
    plan: LessonPlan,
    budget: Decimal | None = None,
    made: Callable[[Lesson], None] = lambda lesson: None,
) -> Lesson:
    """Record what a plan teaches. Its rubric, if it has one, is then drafted by `draft`.

    Args:
        made: Called in the transaction that makes the lesson.
    """
    drafts = plan.request is not None
    with transaction.atomic():
        lesson = Lesson.objects.create(
            project=project,
            number=next_number(project, Lesson),
            run=plan.run,
            way=plan.way,
            state=Lesson.State.WAITING if drafts else Lesson.State.DRAFTED,
            base=plan.base,
            name=plan.name,
            taught=plan.taught,
            pairs=plan.pairs,
            annotators=plan.annotators,
            shown=plan.shown,
            errors=plan.errors,
            endpoint=plan.endpoint,
            model=plan.model,
            price=plan.price.to_json() if plan.price else None,
            budget_usd=budget,
            reserved_usd=plan.usd_most if drafts else None,
            created_by=user,
        )
        access.record_event(
            project, user, "judge taught", plan.name, lesson=lesson.number, run=plan.run.name
        )
        made(lesson)
    return lesson


CUT_OFF = (
    "The model was asked, and the answer was cut off. The request may have been billed. Teach "
    "again."
)


def draft(
    lesson: Lesson, keep_answer: Callable[[dict[str, Any]], object] = lambda answer: None
) -> Lesson:
    """Have the model draft the rubric, once: nothing is asked again by itself.

    Raises UserError if no draft came. The lesson then says why.
    """
    mine = Lesson.objects.filter(pk=lesson.pk, state=Lesson.State.WAITING)
    # Claimed before the request. After a crash, nobody knows whether it was billed, so it isn't
    # sent a second time.
    if not mine.filter(asked_at=None).update(asked_at=timezone.now()):
        mine.update(state=Lesson.State.FAILED, reason=CUT_OFF)
        lesson.refresh_from_db()
        if lesson.state == Lesson.State.FAILED:
            raise UserError(lesson.reason)
        keep_answer({"lesson": lesson.number})
        return lesson
    price = PriceSnapshot.from_json(lesson.price) if lesson.price else None
    stated = (price.prompt.base, price.completion.base) if price else None
    try:
        # The request isn't stored. It is made from the labels that there are now.
        plan = plan_lesson(
            lesson.project, lesson.run, lesson.way, shots=max(lesson.shown, 1), name=lesson.name,
            endpoint=lesson.endpoint, model=lesson.model, price=stated, budget=lesson.budget_usd,
        )  # fmt: skip
        assert plan.request is not None
        outcome = ask_once(lesson.endpoint, plan.request)
        if isinstance(outcome, CallFailure):
            raise UserError(f"The model gave no draft ({outcome.message.rstrip('.')}).")
    except Exception as error:
        reason = str(error) if isinstance(error, UserError) else CUT_OFF
        mine.update(state=Lesson.State.FAILED, reason=reason)
        raise
    # Votes may have come since the lesson was planned. Whatever was read now teaches.
    taught = sorted({*lesson.taught, *plan.taught})
    usage = outcome.usage
    written = outcome.choices[0].text if outcome.choices else ""
    text = _clipped(storable(written or ""), LONGEST_RUBRIC)
    drafted: dict[str, Any] = {
        "state": Lesson.State.DRAFTED if text else Lesson.State.FAILED,
        "reason": "" if text else "The model answered without a text.",
        "drafted": text,
        "taught": taught,
        "errors": plan.errors,
        "rubric": text,
        "usd": price.cost(usage) if price else None,
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
    }
    with transaction.atomic():
        if mine.update(**drafted):
            keep_answer({"lesson": lesson.number})
    lesson.refresh_from_db()
    if not text:
        raise UserError(lesson.reason)
    return lesson


_RUBRIC = """People compared responses like those below. Decide as they do, by this rubric:

{rubric}

"""


def taught_template(lesson: Lesson, rubric: str) -> Template:
    """Return the template that a lesson makes with this rubric. Raises UserError if it can't."""
    base = old_template(lesson.run)
    rubric = rubric.replace("\r\n", "\n").strip()
    if lesson.has_rubric and not rubric:
        raise UserError("The rubric is empty. Write one, or teach by examples only.")
    if len(rubric) > LONGEST_RUBRIC:
        raise UserError(f"A rubric has at most {LONGEST_RUBRIC:,} characters.")
    text = (_RUBRIC.format(rubric=rubric) if rubric else "") + base.text
    names = "pairs", "shown", "taught", "number", "annotators"
    taught = TaughtPairs.from_json({name: getattr(lesson, name) for name in names})
    made = replace(base, name=lesson.name, text=text, lesson=taught, source="taught by people")
    # The old template may have problems of its own, for which the rubric isn't to blame.
    before = problems(base)
    if new := [reason for reason in problems(made) if reason not in before]:
        raise UserError(f"The rubric can't be part of the template. {TemplateRefused(new)}")
    return made


def approve(lesson: Lesson, user: AbstractUser | None, rubric: str | None = None) -> Lesson:
    """Make a version of the template of what a person has read. Nothing is judged by this.

    Args:
        rubric: As the person edited it; None leaves the draft as it is.
    """
    if lesson.state != Lesson.State.DRAFTED:
        raise UserError(
            f"Lesson {lesson.number} is {lesson.get_state_display()}, so it can't be approved."
        )
    text = lesson.rubric if rubric is None else rubric
    made = taught_template(lesson, text if lesson.has_rubric else "")
    with transaction.atomic():
        mine = Lesson.objects.filter(pk=lesson.pk, state=Lesson.State.DRAFTED)
        version = keep(lesson.project, user, made, "")
        mine.update(state=Lesson.State.APPROVED, rubric=text, version=version)
    lesson.refresh_from_db()
    return lesson


def runs_of(lesson: Lesson) -> list[Run]:
    """Return the runs that asked with the lesson's version, the newest first."""
    runs = lesson.project.runs.filter(parameters__output__lesson__number=lesson.number)
    return list(runs.defer("template_text").order_by("-number"))


COMPARED = ("endpoint", "model", "method", "form", "k", "temperature")


def compare_lesson(
    lesson: Lesson,
    user: AbstractUser | None,
    run: Run,
    keep_answer: Callable[[Lesson], object] = lambda lesson: None,
) -> Lesson:
    """Compare the taught run with the old one on labels that taught nothing.

    The version stays in use if it is shown to be better, and is retired otherwise. Each test on the
    labels of the old run spends its part of one error. The same data is no new test.

    Args:
        keep_answer: Called in the transaction that records the test.
    """
    if lesson.annotators:
        raise UserError(
            f"Lesson {lesson.number} simulates annotators to find out how sure the judge is. "
            "It is neither kept nor retired by a test. Compare the runs with `compare`."
        )
    if lesson.version is None or run.pk not in {taught.pk for taught in runs_of(lesson)}:
        raise UserError(f"{run.name} is no run with the template of lesson {lesson.number}.")
    run.require_ranking()
    old, new = Analysis(lesson.project, lesson.run, run.frame), Analysis(lesson.project, run)
    while True:
        taken = sum(len(other.tests) for other in Lesson.objects.filter(run=lesson.run))
        outcome = _tested(old, new, taken + 1)
        lesson.refresh_from_db()
        last = next((test for test in reversed(lesson.tests) if test["run"] == run.number), None)
        same = ("n", "better", "worse", "difference")
        if last and all(last[name] == outcome[name] for name in same):
            keep_answer(lesson)
            return lesson
        better = outcome["verdict"] == Ruling.PASS
        with transaction.atomic():
            # Tests on the labels of one run queue up here. Without a key lock, rows that refer to
            # the project can still be added.
            Project.objects.select_for_update(no_key=True).get(pk=lesson.project_id)
            again = sum(len(other.tests) for other in Lesson.objects.filter(run=lesson.run))
            # Another test came first, so this one is a later look and needs a wider interval.
            if again != taken:
                continue
            lesson.tests = [*lesson.tests, outcome]
            lesson.state = Lesson.State.KEPT if better else Lesson.State.DROPPED
            lesson.save(update_fields=["tests", "state"])
            set_retired(lesson.version, user, retired=not better)
            access.record_event(
                lesson.project, user, "taught judge tested", lesson.name,
                lesson=lesson.number, verdict=outcome["verdict"],
            )  # fmt: skip
            keep_answer(lesson)
        return lesson


def _tested(old: Analysis, new: Analysis, look: int) -> dict[str, Any]:
    """Return one test as it is stored, or raise UserError if there is nothing to compare."""
    paired = paired_runs(old, new, Spending().confidence(look))
    difference = paired.difference
    if not isinstance(difference, Estimate):
        raise UserError(f"The two templates can't be compared yet: {difference.reason}.")
    differs = [name for name in COMPARED if getattr(old.run, name) != getattr(new.run, name)]
    return {
        "run": new.run.number,
        "look": look,
        "n": difference.n,
        "better": paired.better,
        "worse": paired.worse,
        "difference": difference.value,
        "low": difference.low,
        "high": difference.high,
        "confidence": Spending().confidence(look),
        "p": paired.p,
        "verdict": str(shown_better(difference, paired.p, look)),
        "differs": differs,
        "at": timezone.now().isoformat(),
    }


def told(test: dict[str, Any]) -> str:
    """Say what a test came to."""
    return f"{headline(test['verdict'])}. {figures(test)}"


def figures(test: dict[str, Any]) -> str:
    """Say in a sentence how accuracy changed."""
    change, low, high = (f"{100 * test[name]:+.0f}" for name in ("difference", "low", "high"))
    return (
        f"On {number_of(test['n'], 'label')} that taught nothing, accuracy changed by {change} "
        f"points ({low} to {high}): {number_of(test['better'], 'verdict')} became better, "
        f"{count(test['worse'])} worse."
    ).replace("-", "−")


def headline(verdict: str) -> str:
    """Say in one sentence, without a full stop, what a test decided."""
    return {
        Ruling.PASS: "The taught judge is better, so its template stays in use",
        Ruling.FAIL: "The taught judge is worse, so its template is retired",
    }.get(verdict, "The taught judge isn't shown to be better, so its template is retired")


def in_use(lesson: Lesson) -> bool:
    """Return True if new runs under the lesson's name ask with its version."""
    return lesson.version is not None and current(lesson.project, lesson.name) == lesson.version


def solved_by(lesson: Lesson) -> list[list[dict[str, str]]]:
    """Return the solved examples by id and label: those of all prompts, then of each annotator."""
    sets = [lesson.pairs, *lesson.annotators]
    keys = {key for own in sets for key, _ in own}
    names = dict(Example.objects.filter(pk__in=keys).values_list("pk", "external_id"))
    return [
        [{"external_id": names.get(key, ""), "label": label} for key, label in own] for own in sets
    ]


def document(lesson: Lesson) -> dict[str, Any]:
    """Return what `teach --json` and the REST interface say of a lesson."""
    pairs, *annotators = solved_by(lesson)
    plain = (
        "number", "way", "state", "base", "name", "shown", "endpoint", "model", "budget_usd",
        "usd", "prompt_tokens", "completion_tokens", "reason", "drafted", "rubric", "tests",
    )  # fmt: skip
    return {name: getattr(lesson, name) for name in plain} | {
        "run": lesson.run.number,
        "taught": len(lesson.taught),
        "disagreements": len(lesson.errors),
        "usd_most": lesson.reserved_usd,
        "pairs": pairs,
        "annotators": annotators,
        "template": lesson.version_id,
        "created_at": lesson.created_at.isoformat(),
        "in_use": in_use(lesson),
        "runs": [run.number for run in runs_of(lesson)],
    }


def plan_document(plan: LessonPlan) -> dict[str, Any]:
    """Return what an estimate says: what would teach, what is sent, and what it costs."""
    names = ("base", "name", "source", "shown", "held_out", "endpoint", "model", "usd", "usd_most")
    return {name: getattr(plan, name) for name in names} | {
        "run": plan.run.number,
        "way": str(plan.way),
        "labels": plan.n_labels,
        "disagreements": len(plan.errors),
        "taught": len(plan.taught),
        "prompt_tokens": plan.prompt_tokens,
        "prompt": plan.request.messages[0].content if plan.request else "",
        "annotators": len(plan.annotators),
    }


def plan_lines(plan: LessonPlan) -> Iterable[str]:
    """Say in sentences what a lesson would teach, and what it costs."""
    if plan.annotators:
        yield from _simulation_lines(plan)
        return
    yield (
        f"{number_of(plan.n_labels, 'label')} may teach ({plan.source}). People disagree with "
        f"{plan.run.name} on {count(len(plan.errors))} of them."
    )
    yield f"{number_of(plan.held_out, 'label')} that teach nothing are left to test by."
    if plan.held_out < FEWEST_HELD_OUT:
        yield (
            "These are few, so even a much better judge may not be shown to be better. Have people "
            "label more examples first."
        )
    if plan.pairs:
        yield f"Each prompt shows {number_of(plan.shown, 'solved example')}."
    if plan.request is None:
        yield "Nothing is sent, so this costs nothing."
    else:
        cost = "an unknown amount, because the price is unknown"
        if plan.usd is not None:
            cost = f"about {usd(plan.usd)}, at most {usd(plan.usd_most)}"
        yield f"{plan.model} at {plan.endpoint} drafts the rubric by one request for {cost}."


def _simulation_lines(plan: LessonPlan) -> Iterable[str]:
    n = len(plan.annotators)
    yield (
        f"{count(n)} annotators are simulated. Each prompt shows {number_of(plan.shown, 'vote')} "
        f"of one person, without a name. Source of the votes: {plan.source}."
    )
    yield (
        f"{number_of(plan.n_labels, 'example')} are used in prompts, and runs with the template "
        f"leave them out. {number_of(plan.held_out, 'label')} are left to measure by."
    )
    yield (
        f"A run with the template makes {count(n)} calls in each order of an example. Nothing is "
        "sent now, so this costs nothing."
    )
