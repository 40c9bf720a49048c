"""A run kept in a file, a block of sessions at a time, is the run in memory to the bit."""

import dataclasses
import errno
import io

import numpy as np
import pytest

from carbonrouter_core import POLICIES, Scenario, compare, find_trace, prepare, run_policy
from carbonrouter_core.errors import InputError
from carbonrouter_core.replay import on_disk
from carbonrouter_core.replay.on_disk import RunOnDisk, run_on_disk
from carbonrouter_core.replay.run import Run
from carbonrouter_core.replay.world import Prepared
from carbonrouter_core.report.bundle import decisions_sha256
from carbonrouter_core.traces.schema import Trace


@pytest.fixture(scope="module")
def trace() -> Trace:
    """150 chat sessions."""
    whole = find_trace("sharegpt")
    return whole.subset(np.arange(whole.n_sessions) < 150)


@pytest.fixture(scope="module")
def prepared(trace: Trace) -> Prepared:
    """Where the optimum starts from other policies' paths, and what is known is a forecast."""
    scenario = Scenario(copies="all", intensity_knowledge="persistence", fairness_weight=0.5)
    return prepare(scenario, trace)


def assert_same(ours: Run, theirs: Run) -> None:
    for name, column in theirs.decisions._asdict().items():
        kept = getattr(ours.decisions, name)
        assert kept.dtype == column.dtype and kept.tobytes() == column.tobytes(), name
    for field in dataclasses.fields(theirs.charges):
        kept, column = (getattr(run.charges, field.name) for run in (ours, theirs))
        assert kept.dtype == column.dtype and kept.tobytes() == column.tobytes(), field.name
    assert (ours.policy, ours.notes) == (theirs.policy, theirs.notes)


@pytest.mark.parametrize(
    ("policy_id", "turns"), [*((one, 300) for one in POLICIES), ("carbonrouter", 1)]
)
def test_every_column_is_that_of_the_run_in_memory(
    prepared: Prepared, policy_id: str, turns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_disk, "ON_DISK_TURNS", turns)
    kept = run_on_disk(prepared, policy_id)
    assert isinstance(kept, RunOnDisk)
    assert_same(kept, run_policy(prepared, policy_id))


def test_figures_and_exported_bytes_are_the_same(
    trace: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_disk, "ON_DISK_TURNS", 200)
    policies = ("carbonrouter", "faircarbon")
    in_memory = compare(Scenario(), policies, trace)
    kept = compare(Scenario(), policies, trace, on_disk=True)
    assert kept.to_dict() == in_memory.to_dict()
    assert decisions_sha256(kept) == decisions_sha256(in_memory)


def test_progress_goes_from_block_to_block(
    prepared: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_disk, "ON_DISK_TURNS", 100)
    seen: list[float] = []
    run_on_disk(prepared, "sticky", seen.append)
    assert seen == sorted(seen) and len(seen) > 5 and seen[-1] == pytest.approx(1.0)


def test_what_was_read_outlives_the_run(prepared: Prepared) -> None:
    """An array stays valid when its run, and with it the file, is gone."""
    run = run_on_disk(prepared, "sticky")
    carbon_g = run.charges.carbon_g
    expected = carbon_g.sum()
    del run
    assert carbon_g.sum() == expected > 0
    assert not carbon_g.flags.writeable


def test_a_full_disk_is_a_clear_error(prepared: Prepared, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.BytesIO):
        def write(self, data) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(on_disk.tempfile, "TemporaryFile", lambda prefix: Full())
    with pytest.raises(InputError, match="No space left on device.*TMPDIR"):
        run_on_disk(prepared, "sticky")


def test_a_part_of_a_prepared_trace_is_its_sessions(prepared: Prepared) -> None:
    trace, part = prepared.placed.trace, prepared.between(10, 30)
    rows = slice(int(trace.offsets[10]), int(trace.offsets[30]))
    assert part.placed.trace.session_ids == trace.session_ids[10:30]
    assert (part.placed.trace.session_keys == trace.session_keys[10:30]).all()
    assert (part.intensity == prepared.intensity[rows]).all()
    assert (part.placed.trace.session_turns == trace.session_turns[10:30]).all()
