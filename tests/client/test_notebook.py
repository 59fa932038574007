"""The notebook of the docs, executed as people execute it: real site, workers, judge and votes."""

import asyncio
import base64
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
import pytest
from fairjudge_client import FairJudge, FairJudgeError, TooLarge
from nbclient import NotebookClient

from tests.client.people import Person
from tests.processes import eventually

pytestmark = pytest.mark.system

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "docs" / "notebook.ipynb"
MOST_CELLS = 12


@pytest.fixture
def notebook():
    return nbformat.read(NOTEBOOK, as_version=4)


def test_it_is_short_and_stored_without_outputs(notebook):
    nbformat.validate(notebook)
    assert len(notebook.cells) <= MOST_CELLS
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not [cell for cell in code if cell.outputs or cell.execution_count]


def vote(site, name, ended):
    """Join by the link of the notebook's invitation, and vote until nothing is left."""
    with FairJudge(site.url, site.token) as fj, Person(name, prefers="careful") as person:
        links = []

        def invited():
            if "notebook" in {one.slug for one in fj.projects()}:
                links[:] = [one.link for one in fj.project("notebook").people.invitations()]
            return links or ended.is_set()

        assert eventually(invited, 240)
        if links:
            person.join(links[0])
            person.vote_on_everything()
        return person.n_votes


def test_from_pairs_to_a_plot(notebook, working_site, tmp_path):
    environment = {
        **os.environ, "FAIRJUDGE_URL": working_site.url, "FAIRJUDGE_TOKEN": working_site.token,
        "PYTHONPATH": str(ROOT / "client"), "IPYTHONDIR": str(tmp_path), "HOME": str(tmp_path),
        "JUPYTER_RUNTIME_DIR": str(tmp_path), "MPLCONFIGDIR": str(tmp_path),
    }  # fmt: skip
    client = NotebookClient(notebook, timeout=240, kernel_name="python3")
    ended = threading.Event()
    with ThreadPoolExecutor(3) as people:
        votes = [people.submit(vote, working_site, name, ended) for name in ("ana", "ben", "cleo")]
        try:
            client.execute(env=environment)
        finally:
            ended.set()
        given = [one.result() for one in votes]
    outputs = [cell.get("outputs", []) for cell in notebook.cells]
    said = "".join(one.get("text", "") for cell in outputs for one in cell)
    # 25 % of 24 pairs and 3 others, 3 votes each.
    assert given == [9, 9, 9]
    assert "27 of 27" in said
    assert "144 of 144" in said
    assert "48 calls to loopback-judge" in said
    pictures = [one.data["image/png"] for one in outputs[-1] if "image/png" in one.get("data", {})]
    assert base64.b64decode(pictures[0]).startswith(b"\x89PNG")
    assert working_site.token not in str(notebook)
    with FairJudge(working_site.url, working_site.token) as fj:
        labels = fj.project("notebook").labels()
        assert (labels.source != "judge").sum() == 9
        assert set(labels[labels.source == "majority"].final_label) == {"lose"}
    # Each pair was asked about in both orders, three samples in each.
    assert len(working_site.judge.log) >= 48


def test_two_cells_that_run_again_start_no_second_run(working_site):
    """As the notebook says of its key."""
    pair = {"question": "Q?", "response_1": "a", "response_2": "b"}
    judge = {"k": 1, "price": {"prompt": 1, "completion": 1}, "idempotency_key": "cell"}
    with FairJudge(working_site.url, working_site.token, progress=False) as fj:
        project = fj.create_project("Again")
        project.examples.upsert([pair]).wait(timeout=300)
        first = project.runs.start(**judge).wait(timeout=300)
        again = project.runs.start(**judge)
        assert again.number == first.number
        assert len(list(project.runs.list())) == 1
        assert again.wait(timeout=300).info.settled == 2


@pytest.mark.parametrize(("is_known", "refused"), [(True, TooLarge), (False, FairJudgeError)])
def test_rows_over_the_limit_are_refused_at_once(working_site, is_known, refused):
    """The site stops reading. Its answer counts all the same, and nothing is sent again."""
    token = working_site.token if is_known else "fj_unknown_token"
    rows = ({"question": "Q?", "response_1": "x" * 9000, "response_2": "b"} for _ in range(2000))
    with FairJudge(working_site.url, token, retries=0) as fj:
        with pytest.raises(refused) as refusal:
            fj.project("any").examples.upsert(rows)
        assert refusal.value.status in (401, 404, 413)


def test_the_same_in_a_loop(working_site):
    from fairjudge_client import AsyncFairJudge

    async def main():
        async with AsyncFairJudge(working_site.url, working_site.token, progress=False) as fj:
            project = await fj.create_project("In a loop")
            rows = ({"question": f"Q{n}?", "response_1": "a", "response_2": "b"} for n in range(5))
            await (await project.examples.upsert(rows)).wait(timeout=300)
            runs = await asyncio.gather(*(project.runs.start(k=1, name=f"r{n}") for n in range(2)))
            await asyncio.gather(*(run.wait(timeout=300) for run in runs))
            return [len(await project.samples(run)) for run in runs]

    assert asyncio.run(main()) == [10, 10]
