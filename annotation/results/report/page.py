"""What the pages and the HTML file say of a report: answers, chapters, and how to cite it.

Everything here reads the report alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from annotation.results.data.figures import Json, Plot, Sentence, share, short
from annotation.results.report.cache import kept_for
from annotation.results.report.report import (
    Chapter,
    PeopleAlone,
    Report,
    after,
    alone,
    chapters_of,
    drawn,
    who_wins,
)
from annotation.results.sections import judge_card, position, review_gain, win_rates
from annotation.results.sections.analysis import Section
from annotation.results.sections.review import ReviewCurves
from annotation.results.sections.trust import AGAINST, certified
from judging.core.formatting import (
    NARROW_SPACE,
    count,
    in_sentence,
    interval,
    number_of,
    percent,
    set_apart,
)
from judging.dataset.models import Label
from judging.methods.intervals.estimates import Estimate, Figure, Undefined
from judging.projects.models import Project
from judging.runs.models import Run


def in_short(report: Report) -> list[Sentence]:
    """Who is better, how far the judge can be trusted, and what speaks against it."""
    conflict = position.answer(report.position)
    ranking = review_gain.ranking_sentence(report.hitlc)
    return [
        who_wins(report),
        *_agreement(report),
        *_unblinded(report),
        *_unchecked(report),
        *([] if isinstance(report.position.conflict_rate, Undefined) else [conflict]),
        *([] if ranking is None else [ranking]),
    ]


def who_wins_alone(project: Project, alone: PeopleAlone) -> dict[str, Any]:
    """Say which model people prefer, as far as they voted, when there is no judge to compare."""
    pairs = kept_for(
        project,
        "pairs_of_models",
        lambda: list(project.examples.judged().values_list("model_1", "model_2").distinct()[:2]),
    )
    names = pairs[0] if len(pairs) == 1 and all(pairs[0]) else None
    win, tie, lose = (alone.labels[name] for name in Label.values)
    n = win + tie + lose
    said = f"People voted on {count(alone.voted)} of {number_of(alone.examples, 'example')}."
    if names and n:
        first, second = map(in_sentence, names)
        said = (
            f"Of {number_of(n, 'label')} by people, {first} wins {count(win)} and {second} wins "
            f"{count(lose)}; {count(tie)} {'is a tie' if tie == 1 else 'are ties'}."
        )
    # Several models share the places of the two responses.
    of_models = names is not None or pairs == [("", "")]
    whose = names[0] if names else "response 1" if of_models else "response 1 of each pair"
    return {
        "answer": Sentence(said, "verdict"),
        "names": names,
        "whose": whose,
        "of_models": of_models,
    }


def _agreement(report: Report) -> Iterator[Sentence]:
    accuracy = alone(report)
    if isinstance(accuracy, Undefined):
        return
    own = (row.kappa for row in report.methods if row.run == report.run.name and not row.beta)
    kappa = next(own, None)
    by_kappa = f" Cohen's kappa is {short(kappa)}." if isinstance(kappa, Estimate) else ""
    against = AGAINST[report.coverage.basis]
    yield Sentence(
        f"Without review, the judge agrees with {against} on {share(accuracy, 'pairs')}.{by_kappa}",
        "methods",
    )


def _unblinded(report: Report) -> Iterator[Sentence]:
    unblinded = report.coverage.unblinded
    if unblinded.sentence:
        yield Sentence(unblinded.sentence, "people", warns=bool(unblinded.counted))


def _unchecked(report: Report) -> Iterator[Sentence]:
    found = report.certificate
    if found.issued:
        yield certified(found)
    elif report.coverage.basis == "round":
        yield Sentence(
            f"There is no certificate for the unreviewed labels ({found.reason}).",
            "trust",
            warns=True,
        )


_BETAS_SHOWN = (0, 5, 10, 20, 30, 50, 100)
_COLUMNS = ("bpde", "random", "one_order", "margin", "oracle", "independent")
_LINES = ("unreviewed_accuracy", "errors_found", "errors_expected", "errors_p", "gain")


@dataclass(frozen=True)
class Part:
    """A section as a page shows it, with its plots."""

    section: Section
    plots: list[Plot]


def page_context(run: Run, report: Report) -> Json:
    """What the templates of all chapters need."""
    reason = no_people(report)
    shown = said_once(report, reason) if reason else report
    first = win_rates.pair_names(report.models)
    return {
        "run": run,
        "report": shown,
        "no_people": reason,
        "in_short": in_short(report),
        "betas": by_beta(shown.hitlc),
        "costs": report.cost,
        "names": first,
        "whose": win_rates.whose_rate(report.models),
        "of_models": win_rates.is_of_models(report.models),
        "cited": win_rates.to_cite(report.win_rate)
        if win_rates.is_of_models(report.models)
        else None,
        "accuracy": {"alone": alone(shown), "after": after(shown)},
        "known": [one for one in shown.judge_card.entries if has_value(one.value)],
        "unknown": [one for one in shown.judge_card.entries if not has_value(one.value)],
        "likelihood": judge_card.entry_of(shown.judge_card, "likelihood"),
    }


def file_context(run: Run, report: Report) -> Json:
    """What the report as one file shows: all chapters in their order."""
    context = page_context(run, report)
    context["chapters"] = [
        {
            "name": one.name,
            "title": one.title,
            "answer": one.answer(report),
            "parts": parts_of(one, report),
        }
        for one in chapters_of(report)
    ]
    return context | {"citation": citation(report)}


def overview_context(run: Run, report: Report) -> Json:
    """What a project's overview says of its results."""
    cited = win_rates.to_cite(report.win_rate)
    of_models = win_rates.is_of_models(report.models)
    rate = getattr(report.win_rate, cited) if cited and of_models else None
    return {
        "run": run,
        "report": report,
        "answer": who_wins(report),
        "names": win_rates.pair_names(report.models),
        "of_models": of_models,
        "rate": rate,
        "drawn": drawn_interval(rate) if rate is not None else None,
        "alone": alone(report),
        "after": after(report),
    }


def drawn_interval(figure: Estimate) -> Json:
    """The interval of a share as a line 100 wide."""
    low, high = figure.low or 0.0, figure.high if figure.high is not None else 1.0
    return {
        "low": f"{100 * low:.2f}",
        "width": f"{100 * (high - low):.2f}",
        "value": f"{100 * figure.value:.2f}",
    }


def has_value(figure: Figure) -> bool:
    return not isinstance(figure, Undefined)


def parts_of(chapter: Chapter, report: Report) -> list[Part]:
    """Return the chapter's sections with their plots; the first one is shown at once."""
    shown = [section for section in chapter.sections if section.has(report)]
    return [Part(section, drawn(report, section)) for section in shown]


def no_people(report: Report) -> str:
    """Why nothing is compared with people yet; empty where something is."""
    known = report.coverage.known
    return known.reason if isinstance(known, Undefined) else ""


@dataclass(frozen=True)
class SaidAbove(Undefined):
    """Its reason is shown once at the head of the page, so its cell shows only a dash."""

    said: bool = True


def said_once(part: Any, reason: str) -> Any:
    """The same part of the report, with a mark on every figure that lacks its value for this
    reason."""
    if isinstance(part, Undefined):
        return SaidAbove(reason) if part.reason == reason else part
    if isinstance(part, dict):
        return {key: said_once(value, reason) for key, value in part.items()}
    if isinstance(part, list | tuple):
        return [said_once(value, reason) for value in part]
    if not is_dataclass(part) or isinstance(part, Estimate):
        return part
    values = {one.name: said_once(getattr(part, one.name), reason) for one in fields(part)}
    return replace(part, **values)


def by_beta(curves: ReviewCurves) -> list[Json]:
    """The report's lists, turned into one row a beta."""
    return [
        {"beta": beta} | {name: getattr(curves, name)[place] for name in (*_COLUMNS, *_LINES)}
        for place, beta in enumerate(curves.beta)
        if beta in _BETAS_SHOWN
    ]


def release() -> str:
    """Return FairJudge's version, or say that it runs from its source."""
    try:
        return version("fairjudge")
    except PackageNotFoundError:
        return "(run from its source)"


@dataclass(frozen=True)
class Citation:
    """sentence: for the text of a paper. bibtex: the software and the methods that it rests on."""

    sentence: str
    bibtex: str


def citation(report: Report) -> Citation | Undefined:
    """Return how to cite the win rate of this report, or why there is none to cite."""
    cited = win_rates.to_cite(report.win_rate)
    if cited is None:
        rate = report.win_rate.people
        return Undefined(rate.reason if isinstance(rate, Undefined) else rate.note)
    if not win_rates.is_of_models(report.models):
        return Undefined(win_rates.NO_ONE_MODEL)
    found: Estimate = getattr(report.win_rate, cited)
    first, second = map(
        set_apart, win_rates.pair_names(report.models) or ("response 1", "response 2")
    )
    assert found.low is not None
    assert found.high is not None
    digits = int(found.n >= 1000)
    limits = interval(100 * found.low, 100 * found.high, digits)
    sentence = (
        f"{first} has a win rate of {percent(found.value, digits)} against {second} (95 % "
        f"confidence interval {limits}{NARROW_SPACE}%, n = {count(found.n)}; a tie counts as half "
        f"a win). {_design(report, cited)} Computed with FairJudge {release()}."
    )
    used = dict.fromkeys(["fairjudge", *_methods_used(report, cited)])
    return Citation(sentence, "\n\n".join(_entry(key) for key in used))


def _design(report: Report, cited: str) -> str:
    run, basis = report.run, report.coverage.basis
    pairs = number_of(report.coverage.examples, "pair")
    who = {
        "votes": f"People voted on all {pairs}.",
        "gold": f"All {pairs} have known labels.",
        "round": _reviewed(report, pairs),
    }[basis]
    if cited == "people":
        return who
    judge = f" The judge, {run.model}," if run.model else " The judge"
    orders = "both orders" if _both_orders(report) else "one order"
    labelled = sum(report.coverage.labels.values())
    every = labelled == report.coverage.examples
    of_them = "every pair" if every else f"{count(labelled)} of them"
    sentence = (
        f"{who}{judge} labelled {of_them} ({run.method}, {orders}, k = {run.k} samples per order, "
        f"temperature {run.temperature})."
    )
    if cited == "calibrated":
        sentence += (
            " Its labels were calibrated by human labels with cross-fitting; this estimate was "
            "chosen before the audit was drawn."
        )
    return sentence


def _reviewed(report: Report, pairs: str) -> str:
    done = next((row for row in report.methods if row.done), None)
    if done is None or not done.m:
        return f"People labelled a part of {pairs}."
    audited = f" and {count(done.audited)} drawn at random" if done.audited else ""
    return f"Of {pairs}, people labelled {count(done.m)} selected by rank{audited}."


def _both_orders(report: Report) -> bool:
    return not isinstance(report.position.conflict_rate, Undefined)


def _methods_used(report: Report, cited: str) -> Iterator[str]:
    """Yield the keys of the papers whose methods the cited figure rests on."""
    run = report.run
    judged = cited != "people"
    if judged:
        yield "angelopoulos2023prediction"
    if cited == "calibrated":
        yield "zrnic2024cross"
    # People alone who labelled everything need no judge. Otherwise BPDE selected what they saw.
    if judged or report.coverage.basis == "round":
        if run.portia:
            yield "li2024split"
        if run.form == "choice":
            yield "li2024calibraeval"
        if run.method in _FAIREVAL or report.coverage.basis == "round":
            yield "wang2024large"
    if report.certificate.issued:
        yield "angelopoulos2021learn"


_FAIREVAL = ("ec", "mec", "bpc", "mec_bpc")
_PAPERS = {
    "wang2024large": (
        "inproceedings",
        {
            "title": "Large Language Models are not Fair Evaluators",
            "author": "Wang, Peiyi and Li, Lei and Chen, Liang and Cai, Zefan and Zhu, Dawei and "
            "Lin, Binghuai and Cao, Yunbo and Kong, Lingpeng and Liu, Qi and Liu, Tianyu and Sui, "
            "Zhifang",
            "booktitle": "Proceedings of the 62nd Annual Meeting of the Association for "
            "Computational Linguistics",
            "year": "2024",
            "note": "arXiv:2305.17926",
        },
    ),
    "li2024split": (
        "inproceedings",
        {
            "title": "Split and Merge: Aligning Position Biases in LLM-based Evaluators",
            "author": "Li, Zongjie and Wang, Chaozheng and Ma, Pingchuan and Wu, Daoyuan and Wang, "
            "Shuai and Gao, Cuiyun and Liu, Yang",
            "booktitle": "Proceedings of the 2024 Conference on Empirical Methods in Natural "
            "Language Processing",
            "year": "2024",
            "note": "arXiv:2310.01432",
        },
    ),
    "li2024calibraeval": (
        "misc",
        {
            "title": "CalibraEval: Calibrating Prediction Distribution to Mitigate Selection Bias "
            "in LLMs-as-Judges",
            "author": "Li, Haitao and others",
            "year": "2024",
            "note": "arXiv:2410.15393",
        },
    ),
    "angelopoulos2023prediction": (
        "article",
        {
            "title": "Prediction-powered inference",
            "author": "Angelopoulos, Anastasios N. and Bates, Stephen and Fannjiang, Clara and "
            "Jordan, Michael I. and Zrnic, Tijana",
            "journal": "Science",
            "volume": "382",
            "number": "6671",
            "pages": "669--674",
            "year": "2023",
            "doi": "10.1126/science.adi6000",
        },
    ),
    "zrnic2024cross": (
        "article",
        {
            "title": "Cross-prediction-powered inference",
            "author": "Zrnic, Tijana and Cand{\\`e}s, Emmanuel J.",
            "journal": "Proceedings of the National Academy of Sciences",
            "volume": "121",
            "number": "15",
            "pages": "e2322083121",
            "year": "2024",
            "doi": "10.1073/pnas.2322083121",
        },
    ),
    "angelopoulos2021learn": (
        "misc",
        {
            "title": "Learn then Test: Calibrating Predictive Algorithms to Achieve Risk Control",
            "author": "Angelopoulos, Anastasios N. and Bates, Stephen and Cand\\`es, Emmanuel J. "
            "and Jordan, Michael I. and Lei, Lihua",
            "year": "2021",
            "note": "arXiv:2110.01052",
        },
    ),
}


def _entry(key: str) -> str:
    software = ("software", {"title": "FairJudge", "version": release()})
    kind, values = _PAPERS.get(key, software)
    lines = [f"  {name} = {{{value}}}," for name, value in values.items()]
    return "\n".join([f"@{kind}{{{key},", *lines, "}"])
