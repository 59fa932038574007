"""The operator's sentence model, by which parts may be aligned in place of shared tokens."""

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from django.conf import settings

from judging.errors import UserError
from judging.llm.sentence_models import load_sentence_model
from judging.methods.portia.embedding import EmbeddingSimilarity
from judging.methods.portia.similarity import Similarity


@dataclass(frozen=True, slots=True)
class SentenceModel:
    """`name` says which one it is wherever it lies: its folder, and a digest of what is in it."""

    name: str
    similarity: Similarity


def sentence_model() -> SentenceModel:
    """The operator's own. Raises UserError where there is none."""
    path = settings.FAIRJUDGE_SENTENCE_MODEL
    if not path:
        raise UserError(
            "Embeddings need a sentence model: name its folder by FAIRJUDGE_SENTENCE_MODEL. "
            "Nothing was started."
        )
    return _loaded(Path(path))


@cache
def _loaded(path: Path) -> SentenceModel:
    similarity = EmbeddingSimilarity(load_sentence_model(path))
    digest = hashlib.sha256()
    for file in sorted(one for one in path.rglob("*") if one.is_file()):
        digest.update(str(file.relative_to(path)).encode())
        with file.open("rb") as content:
            digest.update(hashlib.file_digest(content, "sha256").digest())
    return SentenceModel(f"{path.resolve().name} {digest.hexdigest()[:12]}", similarity)
