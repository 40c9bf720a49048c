"""A run whose columns lie in a temporary file: a million turns take 142 MB a policy."""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from carbonrouter_core.errors import InputError
from carbonrouter_core.progress import Progress, nobody_listens, part_of
from carbonrouter_core.replay.charging import Charges
from carbonrouter_core.replay.decisions import Decisions, blocks
from carbonrouter_core.replay.run import Run, run_policy
from carbonrouter_core.replay.world import Prepared
from carbonrouter_core.routing.policies import Policy, policy

ON_DISK_TURNS = 65_536
"""Turns in memory at a time of a run that is kept on disk; a session is never split."""

_CHARGES = tuple(field.name for field in fields(Charges))


class _Columns:
    """Columns of ``rows`` rows in a file that is deleted with this object."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        try:
            self._file = tempfile.TemporaryFile(prefix="carbonrouter-run-")  # noqa: SIM115 - kept
        except OSError as error:
            raise _no_space(error) from error
        self._types: list[np.dtype[Any]] = []

    def write(self, first_row: int, columns: Sequence[np.ndarray]) -> None:
        """Put ``columns`` at the rows from ``first_row``; their types are those of the first."""
        if not self._types:
            self._types = [column.dtype for column in columns]
        begin = 0
        try:
            for kind, column in zip(self._types, columns, strict=True):
                self._file.seek(begin + first_row * kind.itemsize)
                self._file.write(np.ascontiguousarray(column, kind).data)
                begin += self._rows * kind.itemsize
            self._file.flush()
        except OSError as error:
            raise _no_space(error) from error

    def read(self) -> list[np.ndarray]:
        """The columns, read-only.

        A page of the file is in memory once it is read, as long as one of these arrays is.
        """
        if not self._rows:
            return [np.empty(0, kind) for kind in self._types]
        mapped = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        begin, columns = 0, []
        for kind in self._types:
            columns.append(np.frombuffer(mapped, kind, self._rows, begin))
            begin += self._rows * kind.itemsize
        return columns


def _no_space(error: OSError) -> InputError:
    return InputError(
        f"The run cannot be kept while it is worked on: {error.strerror or error}. It needs space "
        f"for temporary files in {tempfile.gettempdir()}; TMPDIR names another folder."
    )


class RunOnDisk(Run):
    """A run in a file, of which only what is read is in memory.

    Keep no reference to :attr:`decisions` or :attr:`charges`: pages that were read stay in memory
    as long as there is a reference to them.
    """

    _decided: _Columns
    _charged: _Columns

    def __init__(self, policy: Policy, turns: int) -> None:
        object.__setattr__(self, "policy", policy)  # the fields of a run cannot be set
        object.__setattr__(self, "notes", ())
        object.__setattr__(self, "_decided", _Columns(turns))
        object.__setattr__(self, "_charged", _Columns(turns))

    def write(self, first_turn: int, part: Run) -> None:
        """Keep ``part``, whose turns are those from ``first_turn``."""
        self._decided.write(first_turn, part.decisions)
        self._charged.write(first_turn, [getattr(part.charges, name) for name in _CHARGES])
        object.__setattr__(self, "notes", part.notes)

    @property
    def decisions(self) -> Decisions:
        """What was decided, mapped into memory."""
        return Decisions(*self._decided.read())

    @property
    def charges(self) -> Charges:
        """What it comes to, mapped into memory."""
        return Charges(*self._charged.read())


def run_on_disk(prepared: Prepared, policy_id: str, progress: Progress = nobody_listens) -> Run:
    """The same as :func:`run_policy`, to the bit, a block of sessions at a time and kept in a file.

    Sessions are independent, so neither decisions nor charges depend on the blocks.
    """
    chosen, trace = policy(policy_id), prepared.placed.trace
    run = RunOnDisk(chosen, trace.n_turns)
    if chosen.from_log:  # it reads the log as a whole
        run.write(0, run_policy(prepared, policy_id, progress))
        return run
    for first, end, done in blocks(trace.offsets, ON_DISK_TURNS):
        part = prepared.between(first, end)
        turns = part.placed.trace.n_turns
        share = turns / trace.n_turns
        part_run = run_policy(part, policy_id, part_of(progress, done - share, share))
        run.write(int(trace.offsets[first]), part_run)
    return run
