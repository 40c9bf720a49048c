"""Where many runs go on at once: processes of this machine, or a Dask cluster.

Both are :class:`concurrent.futures.Executor`, and nothing else of them is used: any other one
does, too. Processes are loky's: those of the standard library run the main script again in each
child, which under a Streamlit server is the app.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager

from loky import ProcessPoolExecutor

from carbonrouter_core.errors import InputError

MAX_WORKERS = 256
_WORKER_ENVIRONMENT = {"LOKY_MAX_MEMORY_LEAK_SIZE": "1e18"}
"""Loky would end a worker that has grown by 300 MB, which the kernel and one trace do."""
CONNECT_S = 10.0
"""How long a scheduler may take to answer."""


def cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def process_pool(workers: int, idle_s: float | None = None) -> ProcessPoolExecutor:
    """``workers`` local processes, begun when there is work; those that have had none for
    ``idle_s`` end and give back their memory, some 400 MB each."""
    if not 1 <= workers <= MAX_WORKERS:
        raise InputError(f"{workers} workers asked for; choose 1 to {MAX_WORKERS}.")
    return ProcessPoolExecutor(max_workers=workers, timeout=idle_s, env=_WORKER_ENVIRONMENT)


@contextmanager
def open_executor(
    workers: int | None = None, cluster: str | None = None, timeout_s: float = CONNECT_S
) -> Iterator[Executor]:
    """Processes of this machine, or of a cluster, for the length of a ``with`` block.

    At the end of the block local processes stop at once, and what has not begun is cancelled.

    Parameters
    ----------
    workers
        How many local processes, 1 to 256; one for each core if left out.
    cluster
        Address of a running Dask scheduler, such as ``tcp://host:8786``, instead of local
        processes. Its workers need this package and the folder that holds the traces.
    timeout_s
        Seconds that the scheduler may take to answer.

    Yields
    ------
    concurrent.futures.Executor
        For :func:`run_points` and for traces in parts.

    Raises
    ------
    InputError
        If the number of workers is out of range, or no scheduler answers.
    """
    if cluster is not None:
        with _cluster(cluster, timeout_s) as executor:
            yield executor
        return
    executor = process_pool(cores() if workers is None else workers)
    try:
        yield executor
    finally:
        executor.shutdown(wait=True, kill_workers=True)


@contextmanager
def _cluster(address: str, timeout_s: float) -> Iterator[Executor]:
    try:
        from distributed import Client
    except ImportError:
        raise InputError(
            "A cluster needs Dask, which is not installed: pip install -e '.[cluster]'."
        ) from None
    try:
        client = Client(address, timeout=timeout_s, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise InputError(
            f"No Dask scheduler answers at {address}: {error}. Start one with `dask scheduler` "
            "and give its address, such as tcp://127.0.0.1:8786."
        ) from error
    try:
        yield client.get_executor(pure=False)
    finally:
        client.close()
