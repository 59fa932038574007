"""Adaptive concurrency: wide open at first, halved once a burst, grown by success."""

import asyncio

from judging.llm.window import Window


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


def test_a_burst_of_refusals_halves_it_once_and_the_next_burst_again():
    async def main():
        window = Window(16)
        burst = [await window.take() for _ in range(8)]
        for place in burst:
            window.refused(place)
            window.give_back()
        assert window.size == 8
        window.refused(await window.take())
        assert window.size == 4

    asyncio.run(main())


def test_it_never_closes_and_never_grows_beyond_the_limit():
    async def main():
        window = Window(4)
        for _ in range(10):
            window.refused(await window.take())
            window.give_back()
        assert window.size == 1
        for _ in range(10):
            window.succeeded()
        assert window.size == 4

    asyncio.run(main())


def test_success_without_a_refusal_changes_nothing():
    window = Window(4)
    window.succeeded()
    assert window.size == 4


def test_a_halved_window_admits_nobody_until_enough_have_left():
    async def main():
        window = Window(4)
        places = [await window.take() for _ in range(4)]
        window.refused(places[0])
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
