"""The scenarios that are saved in the store."""

from __future__ import annotations

import carbonrouter_core as core
from carbonrouter_core.store.store import StoredText, existing_store


def stored() -> tuple[dict[str, StoredText], str]:
    """The saved scenarios by name, and why there are none where the store cannot be read."""
    try:
        store = existing_store()
        return {one.name: one for one in store.scenarios()} if store else {}, ""
    except core.CarbonRouterError as error:
        return {}, str(error)
