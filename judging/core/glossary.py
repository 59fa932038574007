"""The field's words, each explained in one sentence, for the pages and the docs."""

from dataclasses import dataclass

PAGE = "/docs/glossary"


@dataclass(frozen=True)
class Term:
    word: str
    meaning: str
    source: str = ""

    @property
    def anchor(self) -> str:
        return "".join(c if c.isalnum() else "-" for c in self.word.lower()).strip("-")

    @property
    def address(self) -> str:
        return f"{PAGE}#{self.anchor}"


FAIREVAL = "FairEval, §"
_TERMS = (
    Term(
        "example", "A question with two responses, response 1 by model 1 and response 2 by model 2."
    ),
    Term(
        "label", "Win, tie or lose, always from the point of view of response 1.", FAIREVAL + "4.1"
    ),
    Term(
        "order",
        "Which response was shown first; swapped means that response 2 was.",
        FAIREVAL + "3.2",
    ),
    Term("evidence", "The explanation that the judge writes before its scores.", FAIREVAL + "3.1"),
    Term(
        "form",
        "What the judge answers with: two scores, the better response, a rating, a choice, or a "
        "score for a single response.",
        "PORTIA, §2",
    ),
    Term(
        "preregistration",
        "A plan that is stored unchanged, with its hash and date, before people label.",
    ),
    Term("SHA-256", "A short text computed from a longer one. It changes with any change there."),
    Term("call", "One request to the judge; it may return several samples."),
    Term("sample", "One completion that the judge returned."),
    Term("outcome", "Win, tie or lose of one sample.", FAIREVAL + "3.3, eq. 3"),
    Term("vote", "One person's label for one example."),
    Term("tie", "Neither response is better. In a win rate, it counts as one half."),
    Term("accuracy", "The share of labels that are the same as people's or the gold labels."),
    Term("item", "An example within a round, with the votes that the round asks for."),
    Term("rank", "The place in the order of review: 1 is the example with the highest BPDE."),
    Term("score gap", "The difference between the calibrated scores of the two responses."),
    Term("disputed", "The judge's outcomes for the example don't all agree: its BPDE is above 0."),
    Term("inconsistent", "Both orders were judged, and no stage of PORTIA made them agree."),
    Term("primary run", "The run whose labels pages, reports and exports use unless you choose."),
    Term("template", "The text of the prompt that a judge gets, and how its reply is read."),
    Term("put aside", "A vote that is kept but not counted. Its place is free for another person."),
    Term("k", "The number of samples in each order."),
    Term(
        "VANILLA",
        "One sample in one order, with the scores first and the explanation after.",
        FAIREVAL + "3.1",
    ),
    Term(
        "EC",
        "Evidence calibration: the judge explains first and then scores, once.",
        FAIREVAL + "3.1",
    ),
    Term(
        "MEC",
        "Multiple evidence calibration: k samples with the evidence first, averaged.",
        FAIREVAL + "3.1",
    ),
    Term(
        "BPC",
        "Balanced position calibration: the judge is asked again with the responses swapped, "
        "and the two orders are averaged.",
        FAIREVAL + "3.2",
    ),
    Term(
        "CS",
        "Calibrated score: the mean score of a response over its samples and both orders.",
        FAIREVAL + "3.2, eq. 2",
    ),
    Term(
        "BPDE",
        "Balanced position diversity entropy: how much the judge's outcomes for one example "
        "disagree with each other, within and across both orders; 0 when all agree.",
        FAIREVAL + "3.3, eqs. 3–5",
    ),
    Term(
        "calibrated judge",
        "For each example, a prediction of people's label in place of the judge's label. It is "
        "learned from the examples that people labelled, and each of these is predicted by a fit "
        "that left it out.",
    ),
    Term(
        "HITLC",
        "Human-in-the-loop calibration: people label the examples on which the judge "
        "contradicts itself most.",
        FAIREVAL + "3.3",
    ),
    Term(
        "learned routing",
        "FairJudge learns from a random sample of labels where this judge errs. People then see "
        "the examples on which an error is most probable.",
    ),
    Term(
        "jury", "Several runs as one panel: the mean of their verdicts, and how much they differ."
    ),
    Term(
        "plan",
        "A way to label all examples: which judge with how many samples, the share that people "
        "label and how it is chosen, and the votes per example.",
    ),
    Term(
        "goal",
        "What a plan has to reach: accuracy of the final labels, a narrow win rate, or a "
        "certificate.",
    ),
    Term(
        "learning sample",
        "Examples drawn at random and labelled by people, from which FairJudge learns where judges "
        "err and which plan is the cheapest.",
    ),
    Term(
        "judges in a row",
        "The first judge keeps the labels that it is sure of, the next one those of the rest that "
        "it is sure of, and people label what is left.",
    ),
    Term("β", "The percentage of the examples that people label.", FAIREVAL + "3.3"),
    Term("pending", "Some samples of the example have not been requested yet."),
    Term("unjudged", "Finished, but an order that the method needs has no valid sample."),
    Term(
        "unparsed",
        "The judge answered, but no score could be read from its reply. It counts as no answer, "
        "never as a tie.",
    ),
    Term("coverage", "The share of the examples on which a number is based."),
    Term(
        "conflict rate",
        "The share of examples whose label changes when the responses are swapped.",
        FAIREVAL + "2.2",
    ),
    Term(
        "PORTIA",
        "Both responses are split and shown in aligned parts, stage after stage, until both orders "
        "give the same label.",
        "PORTIA, §3",
    ),
    Term(
        "consistency",
        "The share of examples that get the same label in both orders.",
        "PORTIA, §4.2",
    ),
    Term(
        "fixed coverage",
        "The share of the inconsistent examples that became consistent.",
        "PORTIA, §4.2",
    ),
    Term(
        "permutation",
        "One of the four pairings of option names with contents and positions.",
        "CalibraEval, eqs. 5–6",
    ),
    Term(
        "kappa",
        "Cohen's kappa: agreement beyond what chance alone would give; 1 is perfect, 0 is chance.",
    ),
    Term(
        "span",
        "Part of a response that a person marked, by its first and last character in the text.",
    ),
    Term("confidence", "How sure a person says they are of their vote: low, medium or high."),
    Term(
        "Fleiss' kappa",
        "Agreement of several people or samples beyond chance, if each example has equally many; "
        "1 is perfect, 0 is chance.",
    ),
    Term(
        "Krippendorff's alpha",
        "Agreement beyond chance that allows a different number of votes per example; 1 is "
        "perfect, 0 is chance.",
    ),
    Term(
        "Gwet's AC1",
        "Agreement beyond chance that stays stable if nearly all labels are the same; 1 is "
        "perfect, 0 is chance.",
    ),
    Term("skill", "How often an annotator says what is right, as a model of all votes finds it."),
    Term(
        "Dawid–Skene",
        "A model that learns from all votes how each annotator errs, and weighs votes by it.",
        "Dawid and Skene (1979)",
    ),
    Term(
        "hierarchical model",
        "Dawid–Skene with errors pooled between annotators, and with examples on which anybody "
        "would guess.",
        "Paun et al. (2018)",
    ),
    Term(
        "corrected for noise",
        "How often the judge would agree with people if their votes had no noise.",
        "Spearman (1904)",
    ),
    Term(
        "Shapley value",
        "A source's part of a whole: the mean, over all orders of the sources, of what it adds to "
        "those before it.",
        "Shapley (1953)",
    ),
    Term(
        "guideline gap",
        "A disagreement of judge and people of which at least half isn't explained by noise, "
        "position, length or likelihood.",
    ),
    Term(
        "odds ratio",
        "How many times the odds of an answer change with something, such as the side; 1 means "
        "that it makes no difference.",
    ),
    Term(
        "adjusted p",
        "A p-value that allows for the number of tests that were made, by Holm's method.",
    ),
    Term("oracle", "A review that finds every error first. No real ranking can do better."),
    Term("LS", "Likelihood score: the log-probability that a language model gives to a response."),
    Term(
        "BiasScore",
        "The rank correlation between a response's likelihood and how much the judge overrates it; "
        "0 means no bias.",
    ),
    Term(
        "AUROC", "How well a number tells wrong labels from right ones; ½ is chance, 1 is perfect."
    ),
    Term(
        "interval",
        "The 95\u202f% confidence interval: the range in which the true value plausibly lies.",
    ),
    Term(
        "γ",
        "How much a larger difference between the responses, such as in length, raises the "
        "log-odds of winning; 0 means no preference.",
    ),
    Term(
        "position effect",
        "How much more often two samples disagree if the order differs than if it is the same; 0 "
        "means that positions don't matter.",
    ),
    Term("repetition stability", "The share of pairs of samples of the same order that agree."),
    Term(
        "strength",
        "A model's log-odds of winning, from its wins, losses and ties against the others; the "
        "mean over all models is 0.",
    ),
    Term(
        "ICC",
        "Intraclass correlation: how much of the variation between probabilities comes from the "
        "examples and not from the permutation; 1 means that all permutations agree.",
    ),
    Term(
        "RStd",
        "The standard deviation of the recall over the options: how unequally the judge finds each "
        "option where it is the right one; 0 means no preference.",
    ),
    Term(
        "ρ",
        "In the alternative annotator test, how often the judge (or the annotator) agrees with the "
        "other annotators at least as well as the one it is compared with.",
    ),
    Term(
        "ω",
        "In the alternative annotator test, the share of annotators against whom the judge is as "
        "good; the judge passes at ½.",
    ),
    Term(
        "ε",
        "In the alternative annotator test, the advantage that the judge gets because it is "
        "cheaper than a person.",
    ),
    Term("selected", "Sent to people because of its rank."),
    Term(
        "audit",
        "Examples drawn at random from those that were not selected, so that people also check "
        "labels that are left to the judge.",
    ),
    Term("learn", "Examples drawn at random at first, to learn where the judge errs."),
    Term(
        "check",
        "An example with a known label, mixed in to test attention. No other number includes it.",
    ),
    Term("routing", "Choosing which examples people label."),
    Term("adjudication", "A person's decision on an example whose votes have no majority."),
    Term(
        "final label",
        "The delivered label: people's if they voted on the example, otherwise the judge's.",
    ),
    Term("gold label", "A label that was known before, from an imported file."),
    Term(
        "certificate",
        "A statement, planned before the audit, that at most a stated share of the labels left to "
        "the judge are wrong, with a stated confidence.",
    ),
    Term(
        "protocol",
        "What annotators are asked: the question, the scale, the criteria and the guidelines, in "
        "each language.",
    ),
    Term("round", "A set of examples sent to people, with the number of votes asked for each."),
    Term("run", "One judge with one method and one set of settings, for the project's examples."),
    Term(
        "win rate", "The share of examples on which response 1 is better. A tie counts as one half."
    ),
    Term(
        "lesson",
        "What people's labels teach a judge: solved examples on which it erred, a rubric, or both.",
    ),
    Term(
        "simulated annotators",
        "The judge, asked once in the place of each of several annotators, whose votes it reads. "
        "The more of them agree, the surer it is.",
    ),
    Term(
        "solved example",
        "An example with people's label, which a taught judge reads before it decides.",
    ),
    Term("rubric", "Rules that a prompt gives the judge, drafted by a model from its errors."),
    Term(
        "paired test",
        "The chance of so large a difference between two judges on the same labels if they are "
        "equally good: McNemar's exact test.",
    ),
    Term("settled", "An item needs no more votes: it has all of them, or a decision."),
    Term("flag", "What an annotator says is wrong with a pair. It is no vote."),
    Term(
        "attention check",
        "A pair with a known label, which looks like any other pair. It shows if a person reads.",
    ),
    Term("training", "A round in which people read after each pair whether they were right."),
    Term(
        "qualification",
        "A round that people pass if they answer enough pairs with a known label right.",
    ),
    Term("team", "People whom you ask together, in any of your projects."),
    Term("share", "The part of a round's votes, or the number of items, that one person is asked."),
    Term("panel", "A service that finds people for a study, such as Prolific or MTurk."),
    Term(
        "crowd link", "An address by which people of a panel label in one round, without a login."
    ),
    Term("submission", "What one person of a panel does in one study, from start to end."),
    Term("reviewer", "A member who labels and decides what votes leave open, blind to the judge."),
    Term("observer", "A member who reads data and results, and doesn't label."),
    Term("design", "Which pairs are made of several models' responses to a question."),
    Term("reference answer", "A correct answer, for judges and people to compare with."),
    Term("criterion", "One aspect that people or judges compare, such as accuracy or tone."),
    Term(
        "unblinded",
        "Before voting, the annotator had seen what a judge said in this project, or which model "
        "wrote a response.",
    ),
)
GLOSSARY: dict[str, Term] = {term.word: term for term in _TERMS}
