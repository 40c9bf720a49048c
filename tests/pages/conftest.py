"""Pages are run when all is compiled: none is kept waiting for that."""

import pytest


@pytest.fixture(autouse=True)
def _compiled(compiled: None) -> None:
    """Compile before the first page is run."""
