"""The loopback judge as a process of its own, whose log others count their calls against."""

import asyncio
import json
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from judging.llm.client.judge_client import JudgeClient
from judging.llm.client.limits import Limits
from judging.llm.endpoint import Endpoint
from tests.judging.llm.asking import KNOWN, make_request, replied, until

ROOT = Path(__file__).parents[4]


@contextmanager
def loopback(*options: str):
    command = [sys.executable, "-m", "tests.loopback", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        try:
            yield Endpoint("loopback", process.stdout.readline().strip())
        finally:
            process.terminate()


def entries(log: Path):
    lines = log.read_text().splitlines() if log.exists() else []
    return [json.loads(line) for line in lines]


def client_at(endpoint: Endpoint) -> JudgeClient:
    return JudgeClient(endpoint, None, Limits(8), learned=KNOWN)


def test_its_log_counts_what_it_answered_and_what_nobody_received(tmp_path):
    log = tmp_path / "log.jsonl"

    async def main(endpoint):
        async with client_at(endpoint) as client:
            await asyncio.gather(*(client.complete(make_request(str(n))) for n in range(5)))
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(client.complete(make_request("left")), timeout=0.5)
            await until(lambda: len(entries(log)) == 6)

    with loopback("--latency", "1.0", "--log", str(log)) as endpoint:
        asyncio.run(main(endpoint))
    complete = [entry for entry in entries(log) if entry["complete"]]
    assert [entry["status"] for entry in complete] == [200] * 5
    assert len({entry["prompt_sha256"] for entry in entries(log)}) == 6


def test_its_judge_favours_a_position_and_is_the_same_in_every_process():
    shown = "[The Start of Assistant {0}'s response]\n{1}\n[The End of Assistant {0}'s response]"

    def pair(first, second):
        return make_request(f"{shown.format(1, first)}\n{shown.format(2, second)}", n=4)

    async def main(endpoint):
        async with client_at(endpoint) as client:
            requests = [pair(f"r{n}", f"s{n}") for n in range(10)]
            swapped = [pair(f"s{n}", f"r{n}") for n in range(10)]
            replies = [replied(await client.complete(r)) for r in requests + swapped]
            return [choice.text for reply in replies for choice in reply.choices]

    def first_minus_second(text):
        one, two = (int(line.rpartition(":")[2]) for line in text.splitlines()[-2:])
        return one - two

    answers = []
    for _ in range(2):
        with loopback("--position-bias", "2", "--seed", "7") as endpoint:
            answers.append(asyncio.run(main(endpoint)))
    assert answers[0] == answers[1]
    # Over both orders the responses' own qualities cancel, and the position's share is left.
    mean = sum(first_minus_second(text) for text in answers[0]) / len(answers[0])
    assert 1.2 <= mean <= 2.4
