"""Traces by OpenTelemetry, of a whole site to a collector on loopback; none unless asked for."""

import json
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.fairjudge_site.test_runall import PARTS, RunAll
from tests.loopback import LoopbackServer
from tests.loopback.receiver import Receiver
from tests.processes import eventually

pytestmark = pytest.mark.system

ROOT = Path(__file__).parents[2]
PAIRS = [{"question": f"Question {n}?", "response_1": "Yes, a secret.", "response_2": "No."}
         for n in range(3)]  # fmt: skip


def spans_of(collector):
    """All spans that came: name, trace, parent, links, attributes, and whether it failed."""
    found = []
    for one in collector.received:
        message = ExportTraceServiceRequest.FromString(one.body)
        for resource in message.resource_spans:
            service = {a.key: a.value.string_value for a in resource.resource.attributes}
            for scope in resource.scope_spans:
                for span in scope.spans:
                    about = {a.key: a.value.string_value or a.value.int_value
                             for a in span.attributes}  # fmt: skip
                    found.append((span, about, service["service.name"]))
    return found


def test_a_site_traces_requests_tasks_and_judge_calls(environment_with_tables):
    with Receiver() as collector, LoopbackServer() as judge:
        endpoints = [{"name": "loop", "base_url": judge.base_url}]
        traced = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{collector.host}",
            "OTEL_SERVICE_NAME": "our-judge",
            "OTEL_BSP_SCHEDULE_DELAY": "200",
            "FAIRJUDGE_ENDPOINTS": json.dumps(endpoints),
        }
        environment = environment_with_tables | traced

        def run(*command):
            done = subprocess.run(
                [sys.executable, "manage.py", *command],
                cwd=ROOT, env=environment, text=True, capture_output=True, check=False,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
            return done.stdout.strip()

        run("create_user", "ana", "--superuser")
        token = run("token", "ana", "--scopes", "read,write")
        site = RunAll(environment, *PARTS, FAIRJUDGE_WEB_PROCESSES="1")
        try:
            site.wait_until_up()

            def ask(path, body=None):
                request = urllib.request.Request(f"{site.url}/api/v1/{path}", body)
                request.headers = {"Authorization": f"Bearer {token}"}
                request.headers["Content-type"] = "application/x-ndjson"
                with urllib.request.urlopen(request, timeout=60) as answer:
                    return json.load(answer)

            rows = "\n".join(map(json.dumps, PAIRS)).encode()
            project = urllib.request.Request(
                f"{site.url}/api/v1/projects", json.dumps({"slug": "p", "name": "P"}).encode(),
                {"Authorization": f"Bearer {token}", "Content-type": "application/json"},
            )  # fmt: skip
            urllib.request.urlopen(project, timeout=60).close()
            ask("projects/p/examples", rows)
            done = lambda: ask("projects/p/imports/1")["state"] == "done"  # noqa: E731
            assert eventually(done, 60), site.output()
            run("judge", "p", "--endpoint", "loop", "--model", "loopback-judge", "--k", "1",
                "--background")  # fmt: skip
            judged = lambda: ask("projects/p/runs/1")["state"] == "done"  # noqa: E731
            assert eventually(judged, 60), site.output()

            def names():
                return {span.name for span, *_ in spans_of(collector)}

            wanted = {"POST /api/v1/projects/<slug>/examples", "send write_import"}
            wanted |= {"write_import", "pump_run", "chat loopback-judge"}
            assert eventually(lambda: wanted <= names(), 30), names()
        finally:
            site.end()
        spans = {span.name: (span, about, service) for span, about, service in spans_of(collector)}
        request, asked, service = spans["POST /api/v1/projects/<slug>/examples"]
        assert service == "our-judge"
        assert asked["http.response.status_code"] == 202
        assert len(asked["fairjudge.request"]) == 16
        task, *_ = spans["write_import"]
        sent, *_ = spans["send write_import"]
        assert (task.trace_id, task.parent_span_id) == (request.trace_id, sent.span_id)
        assert sent.parent_span_id == request.span_id
        call, about, _ = spans["chat loopback-judge"]
        pump, *_ = spans["pump_run"]
        assert (call.parent_span_id, about["fairjudge.run"]) == (b"", "p/1")
        assert call.links[0].span_id == pump.span_id
        assert about["gen_ai.usage.input_tokens"] > 0
        # No text, key or address of a page leaves with them.
        whole = b"".join(one.body for one in collector.received)
        assert b"a secret" not in whole
        assert token.encode() not in whole


def test_nothing_is_imported_unless_a_collector_is_named(environment_with_tables):
    code = (
        "import sys, fairjudge_site.wsgi, fairjudge_site.celery\n"
        "from judging.core import tracing\n"
        "with tracing.span('x', 'client', a=1) as span: span.set(b=2)\n"
        "assert tracing.traceparent() == {}\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment_with_tables, text=True,
        capture_output=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == "[]"
