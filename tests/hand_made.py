"""Small worlds with round numbers, for examples that a reader can redo by hand.

A token that is prefilled or put out costs a whole number of joules, host included, and at
:data:`MG_PER_J` g/kWh and PUE 1 a joule emits one milligram.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from carbonrouter_core import Scenario, prepare, run_policy
from carbonrouter_core.fleet.catalog import MEASURED, Catalog, EnergyCurve, Gpu, Model, Region
from carbonrouter_core.replay.run import Run
from carbonrouter_core.replay.world import Prepared
from carbonrouter_core.traces.schema import Trace

MG_PER_J = 3600.0
"""Intensity [g/kWh] at which a joule (1/3.6e6 kWh) emits one milligram."""

HOST_PREFILL_J = 0.15
"""Host energy of one prefilled token here: 150 W for 1 ms."""
HOST_DECODE_J = 1.5
"""Host energy of one output token here: 150 W for 100 ms, shared by 10 sequences."""
PREFILL_MS, STEP_MS, BATCH = 1.0, 100.0, 10.0


class T(NamedTuple):
    """One turn: new prompt and output tokens, seconds into the window, difficulty."""

    prompt: int
    output: int
    at_s: float = 0.0
    difficulty: float = 0.0
    history: int | None = None
    """None: all earlier tokens of the session."""


def make_trace(
    sessions: Mapping[str, Sequence[T]], users: Sequence[str] | None = None, **changes: object
) -> Trace:
    """A trace of ``sessions`` by id; ``users``: one region a turn; ``changes`` to its fields."""
    turns = [turn for session in sessions.values() for turn in session]
    history = []
    for session in sessions.values():
        before = 0
        for turn in session:
            history.append(before if turn.history is None else turn.history)
            before += turn.prompt + turn.output
    fields = {
        "name": "hand-made",
        "session_ids": tuple(sessions),
        "offsets": np.cumsum([0, *(len(session) for session in sessions.values())]),
        "new_prompt_tokens": np.array([turn.prompt for turn in turns], np.int64),
        "output_tokens": np.array([turn.output for turn in turns], np.int64),
        "history_tokens": np.array(history, np.int64),
        "start_s": np.array([turn.at_s for turn in turns], np.float64),
        "difficulty": np.array([turn.difficulty for turn in turns], np.float64),
        "user_region": None if users is None else tuple(users),
    }
    return Trace(**(fields | changes))


class Costs(NamedTuple):
    """Joules of one token, host included."""

    prefill_j: float
    decode_j: float


def make_catalog(
    costs: Mapping[tuple[str, str], Costs],
    pue: Mapping[str, float],
    accuracy_percent: Mapping[str, float] | None = None,
    params_b: Mapping[str, float] | None = None,
    context_tokens: Mapping[str, int] | None = None,
    rtt_ms: Mapping[tuple[str, str], float] | None = None,
) -> Catalog:
    """Models and GPU types with ``costs`` by (model, gpu), in the regions of ``pue``.

    Attention is free (dimension 0) and the KV cache is next to nothing, so that only the
    costs a token count.
    """
    models = list(dict.fromkeys(model for model, _ in costs))
    gpus = list(dict.fromkeys(gpu for _, gpu in costs))

    def model(name: str) -> Model:
        return Model(
            model=name,
            total_params_b=(params_b or {}).get(name, 1.0),
            active_params_b=(params_b or {}).get(name, 1.0),
            layers=1,
            global_layers=1,
            window_tokens=float("inf"),
            attention_dim=0,
            kv_bytes_per_token=1e-9,
            weight_bytes_per_param=1.0,
            context_tokens=(context_tokens or {}).get(name, 100_000),
            mmlu_pro_percent=(accuracy_percent or {}).get(name, 50.0),
            quality_source="",
        )

    def gpu(name: str) -> Gpu:
        return Gpu(
            gpu=name,
            peak_tflops_bf16=1.0,
            bandwidth_gb_s=1.0,
            memory_gb=1e4,
            tdp_w=1.0,
            idle_w=1.0,
            embodied_kgco2e=150.0,
            context_nj_per_byte=0.22,
            context_source="made by hand",
            context_assumed=False,
            embodied_source="made by hand",
        )

    def curve(name: str, gpu: str) -> EnergyCurve:
        return EnergyCurve(
            model=name,
            gpu=gpu,
            n_gpus=1,
            batch=np.array([BATCH]),
            prefill_j_per_token=costs[name, gpu].prefill_j - HOST_PREFILL_J,
            prefill_ms_per_token=PREFILL_MS,
            decode_j_per_token=np.array([costs[name, gpu].decode_j - HOST_DECODE_J]),
            inter_token_ms=np.array([STEP_MS]),
            basis=(MEASURED,),
            scaled_from="",
        )

    pairs = {(a, b): 10.0 if a == b else 50.0 for a in pue for b in pue} | dict(rtt_ms or {})
    return Catalog(
        models={name: model(name) for name in models},
        gpus={name: gpu(name) for name in gpus},
        regions={
            name: Region(name, name.title(), "GB", 51.5, 0.0, value, "", False)
            for name, value in pue.items()
        },
        energy={pair: curve(*pair) for pair in costs},
        rtt_ms=pairs,
        rtt_basis=dict.fromkeys(pairs, "made by hand"),
    )


MANY_PER_DAY = 1e9
"""Conversations a day that fill every batch."""


def make_world(
    trace: Trace,
    catalog: Catalog,
    mg_per_j: Sequence[Sequence[float]] | None = None,
    **fields: object,
) -> Prepared:
    """``trace`` ready to run on all that ``catalog`` has, without a quality floor.

    ``mg_per_j``: what a joule emits in each region, one row a turn (1 mg everywhere if left
    out); ``fields``: scenario fields that differ from the defaults.
    """
    scenario = Scenario(
        **(
            {
                "regions": tuple(catalog.regions),
                "gpus": tuple(catalog.gpus),
                "models": tuple(catalog.models),
                "gpu_regions": {},
                "concurrency": BATCH,
                "conversations_per_day": MANY_PER_DAY,
                "quality_floor": 0.0,
            }
            | fields
        )
    )
    prepared = prepare(scenario, trace, catalog)
    if mg_per_j is None:
        mg_per_j = np.ones((trace.n_turns, len(catalog.regions)))
    return dataclasses.replace(prepared, intensity=MG_PER_J * np.array(mg_per_j, np.float64))


def served_by(prepared: Prepared, run: Run | str) -> list[str]:
    """``model gpu region`` of each turn, "" where it is unserved."""
    if isinstance(run, str):
        run = run_policy(prepared, run)
    frame = prepared.deployments.to_frame()
    names = (frame["model"] + " " + frame["gpu"] + " " + frame["region"]).tolist()
    return [names[d] if d >= 0 else "" for d in run.decisions.deployment]


def as_mg(grams: Iterable[float]) -> list[float]:
    """Milligrams, rounded to a millionth."""
    return [round(float(g) * 1e3, 6) for g in grams]
