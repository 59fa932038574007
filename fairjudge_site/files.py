"""Uploads go to a temporary file, and end at the size limit instead of after it."""

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.core.files.uploadhandler import TemporaryFileUploadHandler
from whitenoise.storage import CompressedManifestStaticFilesStorage


class LimitedUploadHandler(TemporaryFileUploadHandler):
    """Counts the bytes of all files of a request while they arrive."""

    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self.received = 0

    def receive_data_chunk(self, raw_data: bytes, start: int) -> None:
        self.received += len(raw_data)
        if self.received > settings.FAIRJUDGE_MAX_UPLOAD_BYTES:
            self.file.close()
            raise RequestDataTooBig("The upload is larger than FAIRJUDGE_MAX_UPLOAD_MB allows.")
        super().receive_data_chunk(raw_data, start)


class CollectedStorage(CompressedManifestStaticFilesStorage):
    """Lets a checkout and its tests serve pages without `collectstatic`."""

    def stored_name(self, name: str) -> str:
        return super().stored_name(name) if self.hashed_files else name
