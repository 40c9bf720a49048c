"""Traces and scenarios in the store, as pages list them."""

from __future__ import annotations

from carbonrouter_core.errors import StoreError
from carbonrouter_core.store.scenarios import StoredText
from carbonrouter_core.store.store import existing_store
from carbonrouter_core.store.traces import StoredTrace


def traces() -> tuple[list[StoredTrace], str]:
    """The stored traces, or none and why the store cannot be read."""
    try:
        store = existing_store()
        return (store.traces() if store else []), ""
    except StoreError as error:
        return [], str(error)


def scenarios() -> tuple[dict[str, StoredText], str]:
    """The saved scenarios by name, or none and why the store cannot be read."""
    try:
        store = existing_store()
        return ({scenario.name: scenario for scenario in store.scenarios()} if store else {}), ""
    except StoreError as error:
        return {}, str(error)
