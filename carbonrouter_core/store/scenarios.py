"""The user's scenarios in the store."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from carbonrouter_core.errors import InputError
from carbonrouter_core.store.catalogue import Catalogue, checked_name, now, utc
from carbonrouter_core.words.names import unknown


@dataclass(frozen=True)
class StoredText:
    """A named text with a note: a scenario as JSON."""

    name: str
    text: str
    note: str
    created_utc: datetime


class Scenarios(Catalogue):
    """What a store does with scenarios."""

    def save_scenario(
        self, name: str, text: str, *, note: str = "", replace: bool = False
    ) -> StoredText:
        """Store a scenario's JSON under ``name``; ``replace``: whether it may be there already."""
        name = checked_name(name)
        with self.transaction() as connection:
            there = connection.execute("SELECT 1 FROM scenarios WHERE name = $1", [name])
            if there.fetchone() and not replace:
                raise InputError(f"There is already a scenario {name!r}; choose another name.")
            connection.execute("DELETE FROM scenarios WHERE name = $1", [name])
            connection.execute(
                "INSERT INTO scenarios VALUES ($1, $2, $3, $4)", [name, text, note, now()]
            )
        return self.load_scenario(name)

    def scenarios(self) -> list[StoredText]:
        """The stored scenarios, by name."""
        rows = self.rows("SELECT name, json, note, epoch(created_utc) FROM scenarios ORDER BY name")
        return [StoredText(row[0], row[1], row[2], utc(row[3])) for row in rows]

    def load_scenario(self, name: str) -> StoredText:
        """The scenario ``name``."""
        stored = self.scenarios()
        for scenario in stored:
            if scenario.name == name:
                return scenario
        names = [scenario.name for scenario in stored]
        raise InputError(unknown("scenario", name, names or ["none stored"]))

    def delete_scenario(self, name: str) -> None:
        """Delete the scenario ``name``."""
        self.load_scenario(name)
        with self.transaction() as connection:
            connection.execute("DELETE FROM scenarios WHERE name = $1", [name])
