"""Adaptive concurrency: wide open at first, halved once a burst, grown by success."""

import asyncio

from judging.llm.client.limits import Window


def test_the_window_starts_at_the_limit():
    async def main():
        window = Window(3)
        for _ in range(3):
            await window.take()
        fourth = asyncio.create_task(window.take())
        await asyncio.sleep(0)
        assert not fourth.done()
        window.give_back()
        await fourth
        assert window.in_use == 3

    asyncio.run(main())


def test_it_halves_when_the_count_of_halvings_has_grown_and_not_by_itself():
    window = Window(16)
    for halvings, size in [(0, 16), (0, 16), (1, 8), (1, 8), (2, 4), (0, 4), (1, 2)]:
        window.follow(halvings)
        assert window.size == size


def test_who_comes_later_does_not_pay_for_the_past():
    window = Window(16)
    window.follow(7)
    assert window.size == 16
    window.follow(8)
    assert window.size == 8


def test_it_never_closes_and_never_grows_beyond_the_limit():
    window = Window(4)
    for halvings in range(10):
        window.follow(halvings)
    assert window.size == 1
    for _ in range(10):
        window.succeeded()
    assert window.size == 4


def test_success_without_a_refusal_changes_nothing():
    window = Window(4)
    window.succeeded()
    assert window.size == 4


def test_a_halved_window_admits_nobody_until_enough_have_left():
    async def main():
        window = Window(4)
        for _ in range(4):
            await window.take()
        window.follow(0)
        window.follow(1)
        waiting = asyncio.create_task(window.take())
        window.give_back()
        window.give_back()
        await asyncio.sleep(0)
        assert not waiting.done()
        window.give_back()
        await waiting
        assert window.in_use == 2

    asyncio.run(main())


def test_places_are_given_in_the_order_of_asking():
    async def main():
        window = Window(1)
        await window.take()
        order = []

        async def take(name):
            await window.take()
            order.append(name)
            window.give_back()

        tasks = [asyncio.create_task(take(name)) for name in "abc"]
        await asyncio.sleep(0)
        window.give_back()
        await asyncio.gather(*tasks)
        assert order == ["a", "b", "c"]

    asyncio.run(main())


def test_who_stops_waiting_takes_no_place_even_at_the_last_moment():
    async def main():
        window = Window(1)
        await window.take()
        early, late = (asyncio.create_task(window.take()) for _ in range(2))
        await asyncio.sleep(0)
        early.cancel()
        window.give_back()  # Hands the place to `early`, which no longer wants it, or to `late`.
        await asyncio.wait([early])
        await late
        assert window.in_use == 1
        window.give_back()
        assert window.in_use == 0

        await window.take()
        granted = asyncio.create_task(window.take())
        await asyncio.sleep(0)
        window.give_back()
        granted.cancel()
        await asyncio.wait([granted])
        assert window.in_use == 0

    asyncio.run(main())
