"""Long work on a round: short transactions, unseen until it is whole, resumed after a kill."""

import gc
import os
import signal
from decimal import Decimal

import pytest
from django.core.management import call_command
from django.db import connection, connections
from django.urls import reverse

from annotation.models import Item, Round, RoundWork, Selection, Slot, WorkPart
from annotation.queue import settling
from annotation.queue.queue import NoItem, claim_next
from annotation.results.tables.exports import ExportRequest, export
from annotation.rounds import changes, growing
from annotation.rounds.opening import RoundSettings, open_round
from annotation.rounds.progress import round_progress
from annotation.screen.progress import open_work
from annotation.votes.voting import record_vote
from judging.core import leases
from judging.core.errors import UserError
from judging.dataset.writing import in_use
from judging.projects.models import AuditEvent
from tests.factories import make_annotator, make_examples, make_run, make_verdict
from tests.rows_written import rows_of_transactions

pytestmark = [pytest.mark.databases]

N, CHUNK = 60, 5
WHOLE = RoundSettings(everything=True, votes=2, seed=5)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(leases, "FIRST", CHUNK)
    monkeypatch.setattr(leases, "MOST", CHUNK)
    monkeypatch.setattr(growing, "PART", 2 * CHUNK)


@pytest.fixture
def run(project):
    run = make_run(project)
    for example in make_examples(project, N):
        make_verdict(run, example, example.number / N)
    return run


class Cut(Exception):
    """The process ends here, and leaves everything as it is."""


@pytest.fixture
def cut(monkeypatch):
    """Cuts the work off in its third chunk, as a kill would: the lease is not given back."""

    def after(name, look=lambda: None, module=growing):
        real, calls = getattr(module, name), []

        def write(*arguments):
            calls.append(1)
            if len(calls) == 3:
                look()
                raise Cut
            return real(*arguments)

        monkeypatch.setattr(module, name, write)
        monkeypatch.setattr(growing.leases, "FREE", {})
        monkeypatch.setattr(growing.leases, "is_dead", lambda holder: True)

    return after


def resumed(monkeypatch, round_):
    monkeypatch.undo()
    monkeypatch.setattr(growing.leases, "is_dead", lambda holder: True)
    work = growing.current_work(Round.every.get(pk=round_.pk))
    assert growing.work_on(work.pk)
    return Round.objects.get(pk=round_.pk)


def settled_by_one(project, round_):
    """One person votes on everything, so that every item is settled again later."""
    person = make_annotator(project, "ana")
    while not isinstance(draft := claim_next(round_, person), NoItem):
        record_vote(draft, {"overall": "left"})


def extended(project, run):
    round_ = open_round(project, None, run, RoundSettings(beta=Decimal(10), votes=2, seed=1))
    return lambda: changes.extend(round_, None, Decimal(100))


def closed(project, run):
    round_ = open_round(project, None, run, WHOLE)
    settled_by_one(project, round_)
    return lambda: changes.close(round_, None)


def reopened(project, run):
    close = closed(project, run)
    close()
    return lambda: changes.reopen(Round.objects.get(), None)


def raised(project, run):
    round_ = open_round(project, None, run, RoundSettings(everything=True, votes=1, seed=5))
    settled_by_one(project, round_)
    return lambda: changes.raise_votes(round_, None, 3)


OPERATIONS = {
    "open": lambda project, run: lambda: open_round(project, None, run, WHOLE),
    "extend": extended,
    "raise votes": raised,
    "close": closed,
    "reopen": reopened,
}


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.django_db
def test_no_transaction_changes_many_rows(project, run, operation):
    work = OPERATIONS[operation](project, run)
    with rows_of_transactions() as sizes:
        work()
    # A chunk of items with three slots each and what the slots' votes change, and some single rows.
    assert max(sizes) <= 4 * CHUNK + 5
    assert sum(sizes) >= N


def test_the_size_of_a_chunk_follows_what_the_last_one_took(monkeypatch):
    monkeypatch.setattr(leases, "MOST", 10_000)
    monkeypatch.setattr(leases, "LONGEST_PAUSE", 0)
    sizes = leases.Chunks()
    sizes.size = 4000
    sizes.took(4 * leases.AIM_SECONDS)
    assert sizes.size == 1000
    sizes.took(leases.AIM_SECONDS)
    assert sizes.size == 1000
    sizes.took(0.0)
    assert sizes.size == 2000
    for _ in range(20):
        sizes.took(10.0)
    # A server lets others write meanwhile, so its chunks may take longer.
    is_file = connection.vendor == "sqlite"
    assert sizes.size == (leases.LEAST if is_file else leases.LEAST_ON_A_SERVER)


@pytest.mark.django_db
def test_no_search_for_unused_objects_falls_into_a_chunk():
    assert gc.isenabled()
    with leases.Chunks().transaction():
        assert not gc.isenabled()
        # Another thread's chunk ends first.
        with leases.Chunks().transaction():
            assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(Cut), leases.Chunks().transaction():
        raise Cut
    assert gc.isenabled()


def table(project, what, run=None):
    return b"".join(export(project, run, None, ExportRequest(what)))


@pytest.mark.django_db
def test_half_a_round_is_seen_by_nobody_and_is_finished_after_a_kill(
    project, run, cut, monkeypatch, client, owner
):
    ana = make_annotator(project, "ana")
    before = table(project, "labels", run)
    client.force_login(owner)
    cut("_insert_items")
    with pytest.raises(Cut):
        open_round(project, None, run, WHOLE)
    half = Round.every.get()
    assert 0 < Item.every.count() < N
    assert not Round.objects.exists()
    assert not project.rounds.exists()
    assert not Item.objects.exists()
    assert not Selection.objects.exists()
    assert not Slot.objects.asked().exists()
    assert claim_next(half, ana) == NoItem("closed")
    assert open_work(ana.user) == []
    assert table(project, "labels", run) == before
    assert in_use(project.imports.get())
    assert not AuditEvent.objects.filter(action="round opened").exists()
    shown = client.get(reverse("round", args=[project.slug, half.number])).content.decode()
    assert "The round is being opened" in shown
    assert f"10 of {N} items written" in shown
    assert "being opened" in client.get(reverse("rounds", args=[project.slug])).content.decode()
    with pytest.raises(Round.DoesNotExist):
        Round.objects.get(number=half.number)
    whole = resumed(monkeypatch, half)
    assert whole.state == Round.State.OPEN
    assert Item.objects.filter(round=whole).count() == N
    assert Slot.objects.asked().filter(round=whole).count() == 2 * N
    assert Selection.objects.get().n_items == N
    assert AuditEvent.objects.get(action="round opened").detail["items"] == N
    assert not WorkPart.objects.exists()
    assert not isinstance(claim_next(whole, ana), NoItem)


@pytest.mark.django_db
def test_a_killed_round_is_the_same_as_one_that_was_opened_at_once(project, run, cut, monkeypatch):
    def items(round_):
        columns = ("example", "position", "rank", "bpde", "probability", "audit_order")
        return list(Item.objects.filter(round=round_).order_by("position").values_list(*columns))

    settings = RoundSettings(beta=Decimal(40), audit=9, votes=1, seed=8)
    cut("_insert_items")
    with pytest.raises(Cut):
        open_round(project, None, run, settings)
    first = resumed(monkeypatch, Round.every.get())
    assert items(first) == items(open_round(project, None, run, settings))


@pytest.mark.django_db
def test_half_an_extension_is_seen_by_nobody(project, run, cut, monkeypatch):
    round_ = open_round(project, None, run, RoundSettings(beta=Decimal(10), votes=1, seed=1))
    progress = round_progress(round_)
    cut("_insert_items")
    with pytest.raises(Cut):
        changes.extend(round_, None, Decimal(100))
    assert Item.every.count() > 6
    assert round_progress(Round.objects.get()) == progress
    assert round_.selections.count() == 1
    with pytest.raises(UserError, match="extending the cut is still under way"):
        changes.extend(round_, None, Decimal(50))
    with pytest.raises(UserError, match="still under way"):
        changes.close(round_, None)
    assert Round.objects.get().state == Round.State.OPEN
    whole = resumed(monkeypatch, round_)
    assert Item.objects.filter(round=whole).count() == N
    assert whole.parameters["beta"] == "100"


@pytest.mark.django_db
def test_more_votes_are_asked_for_once_all_their_slots_are_there(project, run, cut, monkeypatch):
    round_ = open_round(project, None, run, RoundSettings(everything=True, votes=1, seed=5))
    settled_by_one(project, round_)
    progress, ben = round_progress(round_), make_annotator(project, "ben")
    labels = table(project, "labels", run)
    cut("_insert_slots")
    with pytest.raises(Cut):
        changes.raise_votes(round_, None, 2)
    half = Round.objects.get()
    assert Slot.objects.count() > N
    assert (half.votes_per_item, round_progress(half).votes_asked) == (1, progress.votes_asked)
    assert table(project, "labels", run) == labels
    assert claim_next(half, ben) == NoItem("done")
    whole = resumed(monkeypatch, round_)
    assert whole.votes_per_item == 2
    assert Item.objects.filter(state=Item.State.OPEN).count() == N
    assert not isinstance(claim_next(whole, ben), NoItem)


CANCELLED = {"open": "_insert_items", "extend": "_insert_items", "raise votes": "_insert_slots"}


@pytest.mark.parametrize("operation", CANCELLED)
@pytest.mark.django_db
def test_what_is_cancelled_leaves_nothing(project, run, cut, monkeypatch, operation):
    work = OPERATIONS[operation](project, run)
    rows = [table.objects.count() for table in (Item, Slot)], Selection.objects.count()
    cut(CANCELLED[operation])
    with pytest.raises(Cut):
        work()
    monkeypatch.undo()
    assert Item.every.count() + Slot.objects.count() > sum(rows[0])
    round_ = Round.every.get()
    growing.cancel(round_, None)
    assert ([table.objects.count() for table in (Item, Slot)], Selection.objects.count()) == rows
    assert Item.every.count() == rows[0][0]
    assert Round.every.filter(state=Round.State.OPENING).count() == 0
    assert Round.every.exists() == (operation != "open")
    with pytest.raises(UserError, match="can be cancelled"):
        growing.cancel(round_, None)


def standing(round_):
    slots = Slot.objects.filter(round=round_).order_by("pk")
    return (
        list(Item.objects.filter(round=round_).order_by("pk").values_list("pk", "state")),
        list(slots.values_list("pk", "annotator", "vote", "lease_until")),
    )


@pytest.mark.parametrize("before", ["open", "paused"])
@pytest.mark.django_db
def test_a_closing_that_is_cancelled_leaves_the_round_as_it_was(
    project, run, cut, monkeypatch, before
):
    close = closed(project, run)
    round_ = Round.objects.get()
    ben = make_annotator(project, "ben")
    for _ in range(N // 2):
        record_vote(claim_next(round_, ben), {"overall": "right"})
    in_hand = claim_next(round_, ben)
    if before == "paused":
        changes.pause(round_, None)
    was, to_settle = standing(round_), Item.objects.exclude(state=Item.State.COMPLETE).count()
    cut("_settle", module=settling)
    with pytest.raises(Cut):
        close()
    monkeypatch.undo()
    half = Round.objects.get()
    assert half.state == "closed"
    assert standing(half) != was
    work = growing.current_work(half)
    assert (work.n_done, work.n_total) == (2 * CHUNK, to_settle)
    growing.cancel(half, None)
    now = Round.objects.get()
    assert (half.state, now.state, now.closed_at) == (before, before, None)
    assert standing(now) == was
    assert growing.current_work(now) is None
    with pytest.raises(UserError, match="can be cancelled"):
        growing.cancel(now, None)
    if before == "open":
        record_vote(in_hand, {"overall": "right"})
        changes.close(now, None)
        assert not Item.objects.filter(state=Item.State.OPEN).exists()


@pytest.mark.django_db
def test_a_closing_that_is_cancelled_after_its_last_item_frees_nothing_in_hand(
    project, run, monkeypatch
):
    round_ = open_round(project, None, run, WHOLE)
    in_hand = claim_next(round_, make_annotator(project, "ben"))
    real = growing.settle_all

    def cancelled_meanwhile(*arguments):
        real(*arguments)
        monkeypatch.setattr(growing, "settle_all", real)
        growing.cancel(Round.objects.get(), None)

    monkeypatch.setattr(growing, "settle_all", cancelled_meanwhile)
    with pytest.raises(UserError, match="cancelled this meanwhile"):
        changes.close(round_, None)
    assert Round.objects.get().state == "open"
    assert Slot.objects.filter(item=in_hand.item, annotator=in_hand.annotator).exists()


@pytest.mark.parametrize(
    ("option", "said"), [("resume", "is closed"), ("cancel", "as it was before")]
)
@pytest.mark.django_db
def test_a_closing_that_was_cut_off_is_finished_or_undone_by_the_command(
    project, run, cut, monkeypatch, capsys, option, said
):
    close = closed(project, run)
    cut("_settle", module=settling)
    with pytest.raises(Cut):
        close()
    monkeypatch.undo()
    RoundWork.objects.update(lease_until=None)
    call_command("open_round", project.slug, f"--{option}", "1")
    assert said in capsys.readouterr().out
    round_ = Round.objects.get()
    assert (round_.state, growing.current_work(round_)) == (
        "closed" if option == "resume" else "open",
        None,
    )


@pytest.mark.django_db
def test_a_process_whose_work_was_cancelled_says_so(project, run, monkeypatch):
    real = growing._insert_items

    def cancelled_meanwhile(*arguments):
        real(*arguments)
        monkeypatch.setattr(growing, "_insert_items", real)
        RoundWork.objects.update(state=RoundWork.State.CANCELLING, holder="another")

    monkeypatch.setattr(growing, "_insert_items", cancelled_meanwhile)
    with pytest.raises(UserError, match="cancelled this meanwhile"):
        open_round(project, None, run, WHOLE)


@pytest.mark.django_db
def test_a_page_leaves_large_rounds_to_a_worker(project, run, monkeypatch, client, owner):
    woken = []
    monkeypatch.setattr(growing, "AT_ONCE", N - 1)
    monkeypatch.setattr(growing.waking, "wake_on_commit", lambda *what: woken.append(what))
    round_ = open_round(project, owner, run, WHOLE, background=True)
    assert round_.state == Round.State.OPENING
    assert not Item.every.exists()
    ((task, key),) = woken
    assert task == growing.waking.WORK_ON_ROUND
    client.force_login(owner)
    page = client.get(reverse("round", args=[project.slug, round_.number])).content.decode()
    assert "It waits for a worker." in page
    assert growing.work_on(key)
    assert not growing.work_on(key)
    assert Round.objects.get().opened_by == owner
    monkeypatch.setattr(growing, "AT_ONCE", N)
    assert open_round(project, owner, run, WHOLE, background=True).state == Round.State.OPEN


@pytest.mark.django_db
def test_the_sweep_finds_what_was_cut_off_and_leaves_what_is_under_way(
    project, run, cut, monkeypatch
):
    cut("_insert_items")
    with pytest.raises(Cut):
        open_round(project, None, run, WHOLE)
    woken = []
    monkeypatch.undo()
    monkeypatch.setattr(growing.waking, "wake", lambda *what: woken.append(what))
    growing.wake_unfinished()
    assert woken == []
    RoundWork.objects.update(lease_until=leases.timezone.now() - growing.LEASE.length)
    growing.wake_unfinished()
    growing.wake_unfinished()
    assert woken == [(growing.waking.WORK_ON_ROUND, RoundWork.objects.get().pk)]


@pytest.mark.django_db(transaction=True)
def test_another_process_goes_on_after_a_kill(project, run):
    connections.close_all()
    child = os.fork()
    if not child:
        real, calls = growing._insert_items, []

        def killed(*arguments):
            real(*arguments)
            calls.append(1)
            if len(calls) == 4:
                os.kill(os.getpid(), signal.SIGKILL)

        growing._insert_items = killed
        try:
            open_round(project, None, run, WHOLE)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    # The fourth chunk was not committed.
    assert Item.every.count() == 3 * CHUNK
    work = RoundWork.objects.get()
    assert work.n_done == 3 * CHUNK
    assert growing.work_on(work.pk)
    assert Item.objects.count() == N
    assert Slot.objects.count() == 2 * N
