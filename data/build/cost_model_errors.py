"""Hold the cost model against published measurements, and say what its errors do to the saving.

    python data/build/cost_model_errors.py [--shared ../shared]

Writes ``data/cost_model_errors.csv`` (errors by source, model, GPU type and quantity),
``data/saving_uncertainty.csv`` (how far the saving moves when energies are off by those errors)
and the two tables in ``docs/method.md``.
Reads the measurements from ``../shared/data/raw``, which stay there. Columns, what is compared
with what, and what is independent: ``data/README.md``. The same inputs give the same tables.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from carbonrouter_core import (  # noqa: E402
    FAIRCARBON,
    Comparison,
    Scenario,
    prepare,
    run_policy,
)
from carbonrouter_core.fleet import costs  # noqa: E402
from carbonrouter_core.fleet.catalog import Catalog, EnergyCurve  # noqa: E402
from carbonrouter_core.fleet.deployments import Fleet  # noqa: E402
from carbonrouter_core.fleet.tables import read_catalog  # noqa: E402
from carbonrouter_core.replay.world import Prepared  # noqa: E402
from carbonrouter_core.units import MS_PER_S  # noqa: E402

METHOD = ROOT / "docs" / "method.md"

ML_ENERGY_PROMPT_TOKENS = 150.0
"""Prompt length of the ML.ENERGY chats, which the source does not give: the one assumed when the
energy points were computed (data/README.md)."""
SPLITWISE_MODEL = "Llama-3.1-70B"
"""Stands for Llama-2-70B, which has the same layers, heads and parameters."""
ARGONNE_MODEL = "Llama-3.1-8B"
"""Stands for Llama-3-8B, which has the same layers, heads and parameters."""

INDEPENDENT = "independent"
SAME_RUNS = "same runs"
LEFT_OUT = "same runs, each left out in turn"
SAME_RATIO = "A100 factors match these runs"

INSIDE, BELOW, PREFILL = "measured batches", "below the smallest measured batch", "prefill"
FULL = 0.95
"""A batch averaged over a run stays a little short of the one that was allowed."""

DRAWS = 100
SEED = 20240513
POLICIES = ("carbonrouter", "carbonrouter-lookahead")
TRACES = ("sharegpt", "claude-code")


class Point(NamedTuple):
    """One measured figure and what the cost model says of it."""

    source: str
    model: str
    gpu: str
    quantity: str
    relation: str
    range: str
    batch: float
    measured: float
    predicted: float


# --- What the cost model predicts ------------------------------------------------------------


class Pair:
    """One model on one GPU type, with the functions of ``costs`` at any batch and context."""

    def __init__(self, catalog: Catalog, model: str, gpu: str) -> None:
        self.model, self.gpu = catalog.models[model], catalog.gpus[gpu]
        self.curve = catalog.energy[model, gpu]
        self.share = self.model.global_layers / self.model.layers
        self.alpha = costs.attention_alpha(
            self.model.layers, self.model.attention_dim, self.model.active_params_b
        )
        self.context_j_per_token = costs.context_j_per_token(
            self.gpu.context_nj_per_byte, self.model.kv_bytes_per_token
        )

    def range_of(self, batch: float) -> str:
        """Whether energy points surround ``batch``, or decoding is extrapolated as 1/B."""
        return INSIDE if batch >= FULL * self.curve.batch[0] else BELOW

    def prefill_work(self, tokens: float) -> float:
        """Work of a prompt without history, in tokens of the attention-free cost."""
        return costs.prefill_work(tokens, self.alpha, self.share, self.model.window_tokens)

    def prefill_j(self, tokens: float) -> float:
        return self.curve.prefill_j_per_token * self.prefill_work(tokens)

    def prefill_ms(self, tokens: float) -> float:
        return self.curve.prefill_ms_per_token * self.prefill_work(tokens)

    def decode_j(self, batch: float, prompt: float, output: float) -> float:
        """GPU energy of one output token."""
        at = costs.decode_energy_at(batch, self.curve.batch, self.curve.decode_j_per_token)
        beyond = costs.decode_context(0.0, prompt, output, self.share, self.model.window_tokens)
        return at + self.context_j_per_token * beyond

    def step_ms(self, batch: float, prompt: float, output: float) -> float:
        """Time between two output tokens."""
        context = costs.attention_context(
            prompt + 0.5 * output, self.share, self.model.window_tokens
        )
        return costs.step_ms_at(
            batch, self.curve.batch, self.curve.inter_token_ms
        ) + costs.context_read_ms(
            batch,
            self.model.kv_bytes_per_token,
            context,
            self.curve.n_gpus,
            self.gpu.bandwidth_gb_s,
        )

    def j_per_output_token(self, batch: float, prompt: float, output: float) -> float:
        """GPU energy of a whole request, its prompt included, per output token."""
        return self.prefill_j(prompt) / output + self.decode_j(batch, prompt, output)


# --- The measurements ------------------------------------------------------------------------


def ml_energy_v3(raw: Path, catalog: Catalog) -> Iterator[Point]:
    """The runs the energy points were computed from; the points are also left out in turn."""
    runs = pd.read_csv(raw / "ml_energy_v3_chat.csv")
    runs["gpu"] = runs.gpu_model.map({"H100": "H100-80GB", "B200": "B200-180GB"})
    models = pd.read_csv(ROOT / "data" / "models.csv").set_index("hf_id").model
    for (hf_id, gpu, n_gpus), group in runs.groupby(["model_id", "gpu", "num_gpus"]):
        model = models.get(hf_id)
        if model is None or n_gpus != catalog.energy[model, gpu].n_gpus:
            continue
        pair = Pair(catalog, model, gpu)
        known = group[group.max_num_seqs.isin(pair.curve.batch)].sort_values("max_num_seqs")
        key = ("ML.ENERGY v3", model, gpu)
        for run in known.itertuples():
            batch, output = float(run.max_num_seqs), run.avg_output_len
            predicted = pair.j_per_output_token(batch, ML_ENERGY_PROMPT_TOKENS, output)
            measured = run.energy_per_token_joules
            yield Point(
                *key, "gpu_j_per_output_token", SAME_RUNS, INSIDE, batch, measured, predicted
            )
        yield from _left_out(key, pair.curve, known.max_num_seqs.to_numpy(np.float64))


def _left_out(
    key: tuple[str, str, str], curve: EnergyCurve, batches: np.ndarray
) -> Iterator[Point]:
    """Each run's point predicted from the others; the largest has nothing above to lean on."""
    ran = np.isin(curve.batch, batches)  # some B200 points are interpolated, and no evidence
    batch, j, ms = curve.batch[ran], curve.decode_j_per_token[ran], curve.inter_token_ms[ran]
    for i in range(len(batch) - 1):
        others = np.arange(len(batch)) != i
        at = (batch[i], batch[others])
        where = (LEFT_OUT, INSIDE if i else BELOW, batch[i])
        energy = costs.decode_energy_at(*at, j[others])
        yield Point(*key, "decode_j_per_token", *where, j[i], energy)
        time = costs.step_ms_at(*at, ms[others])
        yield Point(*key, "inter_token_ms", *where, ms[i], time)


def ml_energy_v2(raw: Path, catalog: Catalog) -> Iterator[Point]:
    """Chats of 2024 with an older server; its A100 has 40 GB. Batches beyond ours are left out."""
    runs = pd.read_csv(raw / "ml_energy_v2.csv")
    models = {
        "meta-llama/Meta-Llama-3.1-8B-Instruct": "Llama-3.1-8B",
        "meta-llama/Meta-Llama-3.1-70B-Instruct": "Llama-3.1-70B",
    }
    gpus = {"NVIDIA H100 80GB HBM3": "H100-80GB", "NVIDIA A100-SXM4-40GB": "A100-80GB"}
    for run in runs[runs.Model.isin(models) & runs.GPU.isin(gpus)].to_dict("records"):
        pair = Pair(catalog, models[run["Model"]], gpus[run["GPU"]])
        batch, output = run["Avg BS (reqs)"], run["Avg Output Tokens"]
        assert run["TP"] * run["PP"] == pair.curve.n_gpus
        if batch > pair.curve.batch[-1]:
            continue
        relation = SAME_RATIO if pair.gpu.gpu == "A100-80GB" else INDEPENDENT
        where = (relation, pair.range_of(batch), batch)
        key = ("ML.ENERGY v2", pair.model.model, pair.gpu.gpu)
        energy = pair.j_per_output_token(batch, ML_ENERGY_PROMPT_TOKENS, output)
        measured = run["J_per_out_tok"]
        yield Point(*key, "gpu_j_per_output_token", *where, measured, energy)
        time = pair.step_ms(batch, ML_ENERGY_PROMPT_TOKENS, output)
        measured = run["Avg TPOT (s)"] * MS_PER_S
        yield Point(*key, "inter_token_ms", *where, measured, time)


def argonne(raw: Path, catalog: Catalog) -> Iterator[Point]:
    """Batches of equal requests (1,024 tokens in, 1,024 out) under three servers."""
    runs = pd.read_csv(raw / "argonne_power.csv")
    gpus = {"Nvidia A100 GPU": "A100-80GB", "Nvidia H100 GPU": "H100-80GB"}
    mine = (runs.Model == "meta-llama/Meta-Llama-3-8B") & runs.Hardware.isin(gpus)
    for run in runs[mine].to_dict("records"):
        pair = Pair(catalog, ARGONNE_MODEL, gpus[run["Hardware"]])
        batch, tokens = float(run["Batch Size"]), float(run["Input Output Length"])
        key = (f"Argonne, {run['Framework']}", ARGONNE_MODEL, pair.gpu.gpu)
        where = (INDEPENDENT, pair.range_of(batch), batch)
        energy = pair.j_per_output_token(batch, tokens, tokens)
        yield Point(*key, "gpu_j_per_output_token", *where, run["J_out_tok"], energy)
        whole_ms = batch * pair.prefill_ms(tokens) + tokens * pair.step_ms(batch, tokens, tokens)
        yield Point(*key, "batch_latency_s", *where, run["Latency"], whole_ms / MS_PER_S)


def splitwise(raw: Path, catalog: Catalog) -> Iterator[Point]:
    """Llama-2-70B by phase, 2023; power only on A100, and a prompt's at its peak."""
    runs = pd.read_csv(raw / "splitwise_llama2_70b.csv")
    gpus = {"a100-80gb": "A100-80GB", "h100-80gb": "H100-80GB"}
    mine = (runs.model == "llama2-70b") & runs.hardware.isin(gpus)
    for run in runs[mine].to_dict("records"):
        pair = Pair(catalog, SPLITWISE_MODEL, gpus[run["hardware"]])
        if run["tensor_parallel"] != pair.curve.n_gpus:
            continue
        batch, prompt, output = (
            float(run[name]) for name in ("batch_size", "prompt_size", "token_size")
        )
        key = ("Splitwise", SPLITWISE_MODEL, pair.gpu.gpu)
        rows = {
            "prefill_j_per_prompt_token": (run["prefill_J_tok"], pair.prefill_j(prompt) / prompt),
            "prefill_ms": (run["prompt_time"], batch * pair.prefill_ms(prompt)),
            "decode_j_per_token": (run["decode_J_tok"], pair.decode_j(batch, prompt, output)),
            "inter_token_ms": (run["token_time"], pair.step_ms(batch, prompt, output)),
        }
        for quantity, (measured, predicted) in rows.items():
            if measured > 0:  # 0: not measured
                where = PREFILL if quantity.startswith("prefill") else pair.range_of(batch)
                yield Point(*key, quantity, INDEPENDENT, where, batch, measured, predicted)


def points(raw: Path, catalog: Catalog) -> pd.DataFrame:
    """All measured figures beside the predicted ones: the fields of :class:`Point`."""
    sources = (ml_energy_v3, ml_energy_v2, argonne, splitwise)
    return pd.DataFrame([point for source in sources for point in source(raw, catalog)])


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """Mean absolute error and bias in percent, by source, model, GPU type and quantity."""
    keys = ["source", "model", "gpu", "quantity", "relation", "range"]
    error = 100.0 * (frame.predicted / frame.measured - 1.0)
    grouped = frame.assign(error=error, size=error.abs()).groupby(keys, sort=False)
    return pd.DataFrame(
        {
            "smallest_batch": grouped.batch.min().round(1),
            "largest_batch": grouped.batch.max().round(1),
            "points": grouped.size(),
            "mean_absolute_error_percent": grouped["size"].mean().round(1),
            "bias_percent": grouped.error.mean().round(1) + 0.0,
        }
    ).reset_index()


# --- What these errors do to the saving ------------------------------------------------------


class Sigmas(NamedTuple):
    """Standard deviations of log(measured / predicted)."""

    alike_decode: float
    """Of all pairs together, from one source to the next: server software, above all."""
    alike_prefill: float
    each: float
    """Of one pair against the others of its source."""


def sigmas(frame: pd.DataFrame) -> Sigmas:
    """Errors of the energies, from measurements that the energy points were not computed from.

    Within the measured batches. Prefill energy was measured on one pair only, so ``each`` is
    of decoding and serves for both.
    """
    usable = frame[frame.relation.isin([INDEPENDENT, SAME_RATIO]) & (frame.range != BELOW)]
    usable = usable.assign(error=np.log(usable.measured / usable.predicted))
    prefill = usable[usable.quantity == "prefill_j_per_prompt_token"]
    decode = usable[usable.quantity.isin(["gpu_j_per_output_token", "decode_j_per_token"])]
    pairs = decode.groupby(["source", "model", "gpu"]).error.mean()
    source = pairs.groupby("source")
    spare = int((source.size() - 1).sum())
    return Sigmas(
        alike_decode=float(np.sqrt((source.mean() ** 2).mean())),
        alike_prefill=float(np.sqrt((prefill.error**2).mean())),
        each=math.sqrt(float(((pairs - source.transform("mean")) ** 2).sum()) / spare),
    )


def factors(
    size: Sigmas, n_pairs: int, draw: int, *, alike: bool, each: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Factors on decode and prefill energy of each pair in one draw, log-normal.

    Prefill and decode are drawn apart: no source says how far their errors go together, and
    where they do the saving hardly moves. So this is the wide reading.
    """
    rng = np.random.default_rng([SEED, draw])
    common = rng.normal(size=2) * (size.alike_decode, size.alike_prefill) * alike
    own = rng.normal(size=(2, n_pairs)) * size.each * each
    decode, prefill = np.exp(common[:, None] + own)
    return decode, prefill


def scaled(prepared: Prepared, decode: np.ndarray, prefill: np.ndarray) -> Prepared:
    """The same world, with the GPU energies of each pair multiplied; times and hosts stay."""
    fleet: Fleet = prepared.deployments.fleet
    fleet = fleet._replace(
        prefill_j=fleet.prefill_j * prefill,
        work_j=fleet.work_j + fleet.prefill_j * (prefill - 1.0),
        decode_j=fleet.decode_j * decode,
        output_j=fleet.output_j + fleet.decode_j * (decode - 1.0),
        context_j=fleet.context_j * decode,
    )
    return replace(prepared, deployments=replace(prepared.deployments, fleet=fleet))


def savings(prepared: Prepared) -> dict[str, float]:
    """Saving of each of :data:`POLICIES` in percent, on the test half of the sessions."""
    run = Comparison(
        prepared, {name: run_policy(prepared, name) for name in (FAIRCARBON, *POLICIES)}
    )
    total = {name: run.session_carbon_g(name)[run.test_half].sum() for name in run.runs}
    return {name: 100.0 * (1.0 - total[name] / total[FAIRCARBON]) for name in POLICIES}


CASES: Mapping[str, dict[str, bool]] = {
    "each pair by itself": {"alike": False, "each": True},
    "all pairs alike": {"alike": True, "each": False},
}


def uncertainty(size: Sigmas, traces: tuple[str, ...] = TRACES, draws: int = DRAWS) -> pd.DataFrame:
    """Saving on preset Paper as it is, and its spread when energies are drawn anew.

    Routers know the drawn energies: it is the world that differs, not their knowledge of it.
    """
    rows = []
    for trace in traces:
        prepared = prepare(Scenario(trace=trace))
        n_pairs = len(prepared.deployments.replicas)
        nominal = savings(prepared)
        for case, which in CASES.items():
            drawn = pd.DataFrame(
                [
                    savings(scaled(prepared, *factors(size, n_pairs, draw, **which)))
                    for draw in range(draws)
                ]
            )
            for name in POLICIES:
                low, high = np.percentile(drawn[name], [2.5, 97.5])
                rows.append(
                    (trace, name, case, draws, nominal[name], drawn[name].mean(), low, high)
                )
    columns = "trace policy perturbed draws saving_percent mean_percent low_percent high_percent"
    frame = pd.DataFrame(rows, columns=columns.split())
    return frame.round(dict.fromkeys(columns.split()[4:], 1))


# --- The same in docs/method.md --------------------------------------------------------------

QUANTITIES = {
    "gpu_j_per_output_token": "energy, whole request",
    "decode_j_per_token": "energy, decoding",
    "prefill_j_per_prompt_token": "energy, prefill",
    "inter_token_ms": "time between tokens",
    "batch_latency_s": "time of a batch",
    "prefill_ms": "time of prefill",
}


def _one_decimal(value: float) -> str:
    return f"{value + 0.0:.1f}".replace("-", "\N{MINUS SIGN}")


def errors_in_markdown(errors: pd.DataFrame) -> str:
    """The table of errors over all models and servers of a source, weighted by points."""
    frame = errors.assign(
        source=errors.source.str.partition(",")[0],
        order=errors.quantity.map(list(QUANTITIES).index),
        size=errors.mean_absolute_error_percent * errors.points,
        bias=errors.bias_percent * errors.points,
    )
    keys = ["order", "source", "gpu", "relation", "range"]
    sums = frame.groupby(keys, sort=False)[["points", "size", "bias"]].sum()
    lines = [
        "| quantity | source | GPU type | relation to our energy points | batches | points "
        "| error % | bias % |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for key, row in sums.sort_index(level="order", sort_remaining=False).iterrows():
        order, source, gpu, relation, where = key
        cells = [list(QUANTITIES.values())[order], source, gpu, relation, where]
        cells += [f"{row.points:.0f}", _one_decimal(row["size"] / row.points)]
        lines.append(f"| {' | '.join([*cells, _one_decimal(row.bias / row.points)])} |")
    return "\n".join(lines)


def uncertainty_in_markdown(frame: pd.DataFrame) -> str:
    """The table of what the errors do to the saving."""
    lines = [
        "| data | policy | energies off | saving as it is | saving in 95 of 100 draws |",
        "|---|---|---|---|---|",
    ]
    for row in frame.itertuples():
        drawn = f"{_one_decimal(row.low_percent)} to {_one_decimal(row.high_percent)} %"
        cells = [row.trace, row.policy, row.perturbed, f"{_one_decimal(row.saving_percent)} %"]
        lines.append(f"| {' | '.join([*cells, drawn])} |")
    return "\n".join(lines)


def between_marks(text: str, mark: str, content: str) -> str:
    """``text`` with ``content`` between its comments ``mark`` and ``end of mark``."""
    head, start, rest = text.partition(f"<!-- {mark} -->\n")
    _, end, tail = rest.partition(f"\n<!-- end of {mark} -->")
    if not start or not end:
        raise ValueError(f"docs/method.md has no place for {mark}.")
    return f"{head}{start}{content}{end}{tail}"


def write_method(text: str, errors: pd.DataFrame, uncertain: pd.DataFrame) -> str:
    """docs/method.md with both tables as they are now."""
    text = between_marks(text, "cost_model_errors", errors_in_markdown(errors))
    return between_marks(text, "saving_uncertainty", uncertainty_in_markdown(uncertain))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--shared", type=Path, default=ROOT.parent / "shared")
    raw = parser.parse_args().shared / "data" / "raw"
    if not raw.is_dir():
        sys.exit(f"There are no measurements in {raw}; name the folder with --shared.")
    frame = points(raw, read_catalog())
    errors, size = table(frame), sigmas(frame)
    print(f"standard deviations of log(measured / predicted): {size}")
    uncertain = uncertainty(size)
    errors.to_csv(ROOT / "data" / "cost_model_errors.csv", index=False)
    uncertain.to_csv(ROOT / "data" / "saving_uncertainty.csv", index=False)
    METHOD.write_text(write_method(METHOD.read_text("utf-8"), errors, uncertain), "utf-8")


if __name__ == "__main__":
    main()
