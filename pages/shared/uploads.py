"""Uploaded files on disk, where the core reads them."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from streamlit.runtime.uploaded_file_manager import UploadedFile

BLOCK_BYTES = 2**20


@dataclass(frozen=True)
class Upload:
    """Copies of uploaded files in a folder of their own, and the names that the user gave."""

    folder: Path
    paths: tuple[Path, ...]
    names: tuple[str, ...]

    def delete(self) -> None:
        """Delete the copies."""
        shutil.rmtree(self.folder, ignore_errors=True)


def copy(files: Sequence[UploadedFile]) -> Upload:
    """Copy ``files`` to disk, block by block."""
    folder = Path(tempfile.mkdtemp(prefix="carbonrouter-upload-"))
    paths = []
    for number, file in enumerate(files):
        paths.append(folder / str(number))  # the user's name may be no file name
        file.seek(0)
        with paths[-1].open("wb") as out:
            shutil.copyfileobj(file, out, BLOCK_BYTES)
    return Upload(folder, tuple(paths), tuple(file.name for file in files))
