"""What the pages and the HTML file say of a report: answers, chapters, and how to cite it.

Everything here reads the report alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from annotation.results.data.figures import Plot, Sentence, share, short
from annotation.results.report.cache import kept_for
from annotation.results.report.report import (
    Chapter,
    PeopleAlone,
    Report,
    RunDescription,
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
from judging.runs.models import Method, Run


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
    # Two different pairs are enough to know that several models share the places.
    pairs = kept_for(
        project,
        "pairs_of_models",
        lambda: list(project.examples.judged().values_list("model_1", "model_2").distinct()[:2]),
    )
    names = pairs[0] if len(pairs) == 1 and all(pairs[0]) else None
    win, tie, lose = (alone.labels[name] for name in Label.values)
    n = win + tie + lose
    sentence = f"People voted on {count(alone.voted)} of {number_of(alone.examples, 'example')}."
    if names and n:
        first, second = map(in_sentence, names)
        sentence = (
            f"Of {number_of(n, 'label')} by people, {first} wins {count(win)} and {second} wins "
            f"{count(lose)}; {count(tie)} {'is a tie' if tie == 1 else 'are ties'}."
        )
    # Several models share the places of the two responses.
    of_models = names is not None or pairs == [("", "")]
    whose = names[0] if names else "response 1" if of_models else "response 1 of each pair"
    return {
        "answer": Sentence(sentence, "verdict"),
        "names": names,
        "whose": whose,
        "of_models": of_models,
    }


def _agreement(report: Report) -> Iterator[Sentence]:
    accuracy = alone(report)
    if isinstance(accuracy, Undefined):
        return
    # The row of the run's own labels, before people review any.
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
    certificate = report.certificate
    if certificate.issued:
        yield certified(certificate)
    elif report.coverage.basis == "round":
        yield Sentence(
            f"There is no certificate for the unreviewed labels ({certificate.reason}).",
            "trust",
            warns=True,
        )


_BETAS_SHOWN = (0, 5, 10, 20, 30, 50, 100)


@dataclass(frozen=True)
class BetaRow:
    """The points of all curves and lines (a) to (c) at one β, as in `ReviewCurves`."""

    beta: int
    bpde: Figure
    random: Figure
    one_order: Figure
    margin: Figure
    oracle: Figure
    independent: Figure
    unreviewed_accuracy: Figure
    errors_found: Figure
    errors_expected: Figure
    errors_p: Figure
    gain: Figure


@dataclass(frozen=True)
class ShownSection:
    """A section as a page shows it, with its plots."""

    section: Section
    plots: list[Plot]


def page_context(run: Run, report: Report) -> dict[str, Any]:
    """Return what the templates of all chapters need."""
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
        "known": [entry for entry in shown.judge_card.entries if has_value(entry.value)],
        "unknown": [entry for entry in shown.judge_card.entries if not has_value(entry.value)],
        "likelihood": judge_card.entry_of(shown.judge_card, "likelihood"),
    }


def file_context(run: Run, report: Report) -> dict[str, Any]:
    """Return what the report shows as one file: all chapters in their order."""
    context = page_context(run, report)
    context["chapters"] = [
        {
            "name": chapter.name,
            "title": chapter.title,
            "answer": chapter.answer(report),
            "parts": parts_of(chapter, report),
        }
        for chapter in chapters_of(report)
    ]
    return context | {"citation": citation(report), "paper": paper_of(report)}


def overview_context(run: Run, report: Report) -> dict[str, Any]:
    """Return what a project's overview says of its results."""
    cited = win_rates.to_cite(report.win_rate)
    of_models = win_rates.is_of_models(report.models)
    # If response 1 is another model in each pair, its win rate says nothing about a model.
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


@dataclass(frozen=True)
class DrawnInterval:
    """The interval of a share as a line 100 wide, in the numbers of the drawing."""

    low: str
    width: str
    value: str


def drawn_interval(figure: Estimate) -> DrawnInterval:
    # Without an interval the line spans all that is possible.
    low, high = figure.low or 0.0, figure.high if figure.high is not None else 1.0
    return DrawnInterval(*(f"{100 * size:.2f}" for size in (low, high - low, figure.value)))


def has_value(figure: Figure) -> bool:
    return not isinstance(figure, Undefined)


def parts_of(chapter: Chapter, report: Report) -> list[ShownSection]:
    """Return the chapter's sections with their plots; the first one is shown at once."""
    shown = [section for section in chapter.sections if section.has(report)]
    return [ShownSection(section, drawn(report, section)) for section in shown]


def no_people(report: Report) -> str:
    """Return why nothing is compared with people yet; empty if something is."""
    known = report.coverage.known
    return known.reason if isinstance(known, Undefined) else ""


@dataclass(frozen=True)
class SaidAbove(Undefined):
    """Its reason is shown once at the head of the page, so its cell shows only a dash."""

    said: bool = True


def said_once(part: Any, reason: str) -> Any:
    """Return a part of the report, with a mark on every figure that lacks its value for this
    reason."""
    if isinstance(part, Undefined):
        return SaidAbove(reason) if part.reason == reason else part
    if isinstance(part, dict):
        return {key: said_once(value, reason) for key, value in part.items()}
    if isinstance(part, list | tuple):
        return [said_once(value, reason) for value in part]
    # An estimate has a value, and nothing inside that could lack one.
    if not is_dataclass(part) or isinstance(part, Estimate):
        return part
    names = [field.name for field in fields(part)]
    values = {name: said_once(getattr(part, name), reason) for name in names}
    return replace(part, **values)


def by_beta(curves: ReviewCurves) -> list[BetaRow]:
    """Turn the report's lists into one row for each β that pages show."""
    names = [field.name for field in fields(BetaRow)]
    return [
        BetaRow(*(getattr(curves, name)[place] for name in names))
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
    """sentence, methods: for the text of a paper. bibtex: the software, and all methods used."""

    sentence: str
    bibtex: str
    methods: str


def citation(report: Report) -> Citation | Undefined:
    """Return how to cite the win rate of this report, or why there is none to cite."""
    cited = win_rates.to_cite(report.win_rate)
    if cited is None:
        rate = report.win_rate.people
        return Undefined(rate.reason if isinstance(rate, Undefined) else rate.note)
    if not win_rates.is_of_models(report.models):
        return Undefined(win_rates.NO_ONE_MODEL)
    figure: Estimate = getattr(report.win_rate, cited)
    first, second = map(
        set_apart, win_rates.pair_names(report.models) or ("response 1", "response 2")
    )
    # `to_cite` names only win rates that have an interval.
    assert figure.low is not None
    assert figure.high is not None
    # As `share` writes the same figure in a sentence.
    digits = int(figure.n >= 1000)
    limits = interval(100 * figure.low, 100 * figure.high, digits)
    sentence = (
        f"{first} has a win rate of {percent(figure.value, digits)} against {second} (95 % "
        f"confidence interval {limits}{NARROW_SPACE}%, n = {count(figure.n)}; a tie counts as half "
        f"a win). {_design(report, cited)} Computed with FairJudge {release()}."
    )
    paper = paper_of(report)
    # A dict drops works that are cited twice, and keeps the order.
    used = dict.fromkeys(["fairjudge", *_methods_used(report, cited), *paper.references])
    return Citation(sentence, "\n\n".join(_entry(key) for key in used), paper.text)


def _design(report: Report, cited: str) -> str:
    who = _who(report, number_of(report.coverage.examples, "pair"))
    if cited == "people":
        return who
    sentence = f"{who} {_judge_sentence(report)}"
    if cited == "calibrated":
        sentence += (
            " Its labels were calibrated by human labels with cross-fitting; this estimate was "
            "chosen before the audit was drawn."
        )
    return sentence


def _who(report: Report, pairs: str) -> str:
    return {
        "votes": f"People voted on all {pairs}.",
        "gold": f"All {pairs} have known labels.",
        "round": _reviewed(report, pairs),
    }[report.coverage.basis]


def _judge_sentence(report: Report) -> str:
    run = report.run
    judge = f"The judge, {run.model}," if run.model else "The judge"
    labelled = sum(report.coverage.labels.values())
    every = labelled == report.coverage.examples
    of_them = "every pair" if every else f"{count(labelled)} of them"
    return (
        f"{judge} labelled {of_them} ({_method(run)}, {_orders(report)}, k = {run.k} samples per "
        f"order{_temperature(run)})."
    )


def _method(run: RunDescription) -> str:
    return "recorded elsewhere" if run.method == Method.IMPORTED else run.method


def _temperature(run: RunDescription) -> str:
    """Say it if it is known: what was recorded elsewhere doesn't tell it."""
    return "" if run.method == Method.IMPORTED else f", temperature {run.temperature}"


def _orders(report: Report) -> str:
    return "one order" if isinstance(report.position.conflict_rate, Undefined) else "both orders"


def _reviewed(report: Report, pairs: str) -> str:
    # The row of the review that took place; other rows with a β are what reviews would give.
    done = next((row for row in report.methods if row.done), None)
    if done is None or not done.m:
        return f"People labelled a part of {pairs}."
    audited = f" and {count(done.audited)} drawn at random" if done.audited else ""
    return f"Of {pairs}, people labelled {count(done.m)} selected by rank{audited}."


def _methods_used(report: Report, cited: str) -> Iterator[str]:
    """Yield the keys of the papers whose methods the cited figure rests on."""
    judged = cited != "people"
    if judged:
        yield "angelopoulos2023prediction"
    if cited == "calibrated":
        yield "zrnic2024cross"
    # People alone who labelled everything need no judge. Otherwise BPDE selected what they saw.
    if judged or report.coverage.basis == "round":
        yield from _judge_methods(report)
        if report.coverage.basis == "round":
            yield "wang2024large"
    if report.certificate.issued:
        yield "angelopoulos2021learn"


def _judge_methods(report: Report) -> Iterator[str]:
    if report.run.portia:
        yield "li2024split"
    if report.run.form == "choice":
        yield "li2024calibraeval"
    if report.run.method in _FAIREVAL:
        yield "wang2024large"


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
            "author": "Zrnic, Tijana and Candès, Emmanuel J.",
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
            "author": "Angelopoulos, Anastasios N. and Bates, Stephen and Candès, Emmanuel J. "
            "and Jordan, Michael I. and Lei, Lihua",
            "year": "2021",
            "note": "arXiv:2110.01052",
        },
    ),
    "cohen1960coefficient": (
        "article",
        {
            "title": "A Coefficient of Agreement for Nominal Scales",
            "author": "Cohen, Jacob",
            "journal": "Educational and Psychological Measurement",
            "volume": "20",
            "number": "1",
            "pages": "37--46",
            "year": "1960",
            "doi": "10.1177/001316446002000104",
        },
    ),
    "fleiss1971measuring": (
        "article",
        {
            "title": "Measuring nominal scale agreement among many raters",
            "author": "Fleiss, Joseph L.",
            "journal": "Psychological Bulletin",
            "volume": "76",
            "number": "5",
            "pages": "378--382",
            "year": "1971",
            "doi": "10.1037/h0031619",
        },
    ),
    "hayes2007answering": (
        "article",
        {
            "title": "Answering the Call for a Standard Reliability Measure for Coding Data",
            "author": "Hayes, Andrew F. and Krippendorff, Klaus",
            "journal": "Communication Methods and Measures",
            "volume": "1",
            "number": "1",
            "pages": "77--89",
            "year": "2007",
            "doi": "10.1080/19312450709336664",
        },
    ),
    "bradley1952rank": (
        "article",
        {
            "title": "Rank Analysis of Incomplete Block Designs: I. The Method of Paired "
            "Comparisons",
            "author": "Bradley, Ralph Allan and Terry, Milton E.",
            "journal": "Biometrika",
            "volume": "39",
            "number": "3/4",
            "pages": "324--345",
            "year": "1952",
            "doi": "10.2307/2334029",
        },
    ),
    "calderon2025alternative": (
        "misc",
        {
            "title": "The Alternative Annotator Test for LLM-as-a-Judge: How to Statistically "
            "Justify Replacing Human Annotators with LLMs",
            "author": "Calderon, Nitay and Reichart, Roi and Dror, Rotem",
            "year": "2025",
            "note": "arXiv:2501.10970",
        },
    ),
}


def _work(key: str) -> tuple[str, dict[str, str]]:
    # The key `fairjudge` is no paper: its version is that of this installation.
    software = ("software", {"title": "FairJudge", "version": release()})
    return _PAPERS.get(key, software)


def _entry(key: str) -> str:
    kind, values = _work(key)
    lines = [f"  {name} = {{{value}}}," for name, value in values.items()]
    # Older BibTeX sorts and shortens names in ASCII alone.
    text = "\n".join([f"@{kind}{{{key},", *lines, "}"])
    return text.replace("è", "{\\`e}")


def _reference(key: str) -> str:
    """Return an entry of a list of references, as plain text."""
    _, values = _work(key)
    authors = [
        " ".join(reversed(author.split(", "))) for author in values.get("author", "").split(" and ")
    ]
    authors = ["et al." if author == "others" else author for author in authors if author]
    where = " ".join(filter(None, [values.get("journal") or values.get("booktitle"),
                                   values.get("volume")]))  # fmt: skip
    if pages := values.get("pages"):
        where += f": {pages.replace('--', '–')}"
    ends = [where, values.get("year", ""), values.get("note", ""), values.get("version", "")]
    ends += [f"doi:{values['doi']}"] if "doi" in values else []
    first = [", ".join(authors), values["title"]]
    return ". ".join(filter(None, [*first, ", ".join(filter(None, ends))])) + "."


@dataclass(frozen=True)
class Cited:
    """A sentence of the methods paragraph. keys: of the works that it cites."""

    text: str
    keys: tuple[str, ...] = ()


@dataclass(frozen=True)
class Paper:
    """What a paper needs besides the tables.

    design: for the captions of tables. methods: a paragraph. references, bibtex: the works that it
    cites, by their keys.
    """

    design: str
    methods: tuple[Cited, ...]

    @property
    def _keys(self) -> list[str]:
        return list(dict.fromkeys(key for cited in self.methods for key in cited.keys))

    @property
    def references(self) -> dict[str, str]:
        return {key: _reference(key) for key in self._keys}

    @property
    def bibtex(self) -> str:
        return "\n\n".join(_entry(key) for key in self._keys)

    @property
    def text(self) -> str:
        """Return the paragraph with the authors and years of what it cites, for any editor."""
        return " ".join(_with_authors(cited) for cited in self.methods)


def _with_authors(cited: Cited) -> str:
    if not cited.keys:
        return cited.text
    named = []
    for key in cited.keys:
        _, values = _work(key)
        names = [name.split(",")[0] for name in values.get("author", "").split(" and ")]
        who = names[0] if len(names) == 1 else f"{names[0]} et al."
        # `others` is BibTeX's word for authors that aren't listed.
        if len(names) == 2 and names[1] != "others":
            who = f"{names[0]} & {names[1]}"
        named.append(f"{who or values['title']}, {values.get('year', values.get('version'))}")
    return f"{cited.text.rstrip('.')} ({'; '.join(named)})."


def paper_of(report: Report) -> Paper:
    """Return the methods paragraph of a report, and what the captions of its tables say."""
    run, n = report.run, number_of(report.coverage.examples, "pair")
    about = f" {report.coverage.frame}" if report.coverage.frame else ""
    judge = f"judge {run.model}, " if run.model else ""
    design = (
        f"n = {n}{about} unless a column says otherwise; {judge}{_method(run)}, "
        f"{_orders(report)}, k = {run.k}{_temperature(run)}. FairJudge {release()}."
    )
    return Paper(design, tuple(_methods(report)))


def _methods(report: Report) -> Iterator[Cited]:
    pairs = number_of(report.coverage.examples, "pair")
    names = win_rates.pair_names(report.models)
    compared = f" of {' and '.join(map(set_apart, names))}" if names else ""
    frame = f" ({report.coverage.frame})" if report.coverage.frame else ""
    yield Cited(f"We compare responses{compared} on {pairs}{frame}.")
    yield Cited(_judge_sentence(report), tuple(_judge_methods(report)))
    if report.coverage.basis == "round":
        yield Cited(_reviewed(report, pairs), ("wang2024large",))
    else:
        yield Cited(_who(report, pairs))
    cited = win_rates.to_cite(report.win_rate)
    if cited == "judge_and_people":
        yield Cited(
            "The win rate uses the judge's labels on all pairs and corrects them by people's.",
            ("angelopoulos2023prediction",),
        )
    elif cited == "calibrated":
        yield Cited(
            "The win rate uses the judge's labels, calibrated by people's with cross-fitting.",
            ("angelopoulos2023prediction", "zrnic2024cross"),
        )
    if not isinstance(alone(report), Undefined):
        yield Cited(
            "How far judge and people agree is given as accuracy and Cohen's kappa.",
            ("cohen1960coefficient",),
        )
    if not isinstance(report.people.krippendorff_alpha, Undefined):
        yield Cited(
            "How far people agree with each other is given as Fleiss' kappa and Krippendorff's "
            "alpha.",
            ("fleiss1971measuring", "hayes2007answering"),
        )
    if not isinstance(report.alt_test, Undefined):
        yield Cited(
            "The alternative annotator test asks if the judge can replace an annotator.",
            ("calderon2025alternative",),
        )
    if len(report.models.pairwise) > 1:
        yield Cited("Models are ranked by Bradley and Terry's model.", ("bradley1952rank",))
    if report.certificate.issued:
        yield Cited(certified(report.certificate).text, ("angelopoulos2021learn",))
    yield Cited(
        f"Intervals are 95{NARROW_SPACE}% confidence intervals. All figures were computed with "
        "FairJudge.",
        ("fairjudge",),
    )
