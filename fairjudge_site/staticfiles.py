"""Static files under hashed names once collected, under their plain names before that."""

from whitenoise.storage import CompressedManifestStaticFilesStorage


class CollectedStorage(CompressedManifestStaticFilesStorage):
    """Lets a checkout and its tests serve pages without `collectstatic`."""

    def stored_name(self, name: str) -> str:
        return super().stored_name(name) if self.hashed_files else name
