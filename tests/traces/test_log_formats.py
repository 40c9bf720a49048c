"""Logs of gateways, clouds and tools: what other names, wrappers and containers are read as."""

import csv
import io
import json
import random
from pathlib import Path
from typing import Any

import pytest

from carbonrouter_core.errors import TraceError
from carbonrouter_core.traces.importers import IMPORTERS
from carbonrouter_core.traces.importers.chat_exports import EXPORTS
from carbonrouter_core.traces.importers.log_formats import LOG_FORMATS
from carbonrouter_core.traces.importers.mapped import MAPPED
from carbonrouter_core.traces.importers.spans import FORM
from carbonrouter_core.traces.loading import staged_trace
from carbonrouter_core.traces.report import TraceReport
from carbonrouter_core.traces.schema import Trace
from carbonrouter_core.traces.staging import stage


def bring(*paths: Path) -> tuple[Trace, TraceReport]:
    with stage(list(paths)) as staged:
        staged.require()
        return staged_trace(staged, "t"), staged.report


def lines(path: Path, records: list[Any]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def span(number: int, attributes: dict[str, Any], parent: str = "") -> dict[str, Any]:
    listed = [
        {"key": key, "value": {"intValue": str(v)} if isinstance(v, int) else {"stringValue": v}}
        for key, v in attributes.items()
    ]
    return {
        "traceId": "t1",
        "spanId": f"s{number}",
        "parentSpanId": parent,
        "startTimeUnixNano": str((1_716_200_000 + number) * 10**9),
        "attributes": listed,
    }


def otlp(*spans: dict[str, Any]) -> dict[str, Any]:
    return {"resourceSpans": [{"resource": {}, "scopeSpans": [{"spans": list(spans)}]}]}


def test_a_span_that_sums_up_calls_is_none(tmp_path: Path) -> None:
    used = {"gen_ai.usage.input_tokens": 500, "gen_ai.usage.output_tokens": 20}
    records = [
        otlp(span(1, used | {"gen_ai.operation.name": "chat"}, "s3")),
        otlp(
            span(2, {"http.method": "POST"}),
            span(3, used | {"gen_ai.operation.name": "invoke_agent"}),
            span(4, {"llm.token_count.prompt": 600, "llm.token_count.completion": 30}),
            span(5, {"llm.token_count.prompt": 600, "llm.token_count.completion": 30}, "s4"),
        ),
    ]
    trace, report = bring(lines(tmp_path / "spans.jsonl", records))
    assert report.format_id == "otel"
    assert trace.output_tokens.tolist() == [20, 30]
    assert trace.history_tokens.tolist() == [0, 520]
    assert report.count("left out") == 3


def test_spans_of_anthropic_that_leave_out_cached_tokens(tmp_path: Path) -> None:
    used = {
        "gen_ai.usage.input_tokens": 3,
        "gen_ai.usage.cache_read.input_tokens": 5000,
        "gen_ai.usage.cache_creation.input_tokens": 100,
        "gen_ai.usage.output_tokens": 20,
    }
    trace, _ = bring(lines(tmp_path / "spans.jsonl", [otlp(span(1, used))]))
    assert int(trace.history_tokens[0] + trace.new_prompt_tokens[0]) == 5103


def test_a_page_of_observations_with_counts_as_text(tmp_path: Path) -> None:
    rows = [
        {
            "id": f"o{n}",
            "traceId": "t",
            "sessionId": "s",
            "type": kind,
            "startTime": f"2024-05-20T10:0{n}:00Z",
            "usageDetails": {"input": str(100 * n + 100), "output": "10"},
        }
        for n, kind in enumerate(["GENERATION", "GENERATION", "SPAN"])
    ]
    path = tmp_path / "page.json"
    path.write_text(json.dumps({"data": rows, "meta": {"page": 1}}, indent=1))
    trace, report = bring(path)
    assert report.format_id == "langfuse"
    assert trace.history_tokens.tolist() == [0, 110]
    assert trace.new_prompt_tokens.tolist() == [100, 90]


def test_json_in_a_cell_is_looked_into_as_python_writes_it_too(tmp_path: Path) -> None:
    text = io.StringIO()
    table = csv.writer(text)
    table.writerow(["id", "traceId", "type", "startTime", "usageDetails"])
    usage = {"input": 90, "input_cached_tokens": 10, "output": 5, "total": 105}
    for n, cell in enumerate([json.dumps(usage), str(usage)]):
        table.writerow([f"o{n}", f"t{n}", "GENERATION", f"2024-05-20T10:0{n}:00Z", cell])
    path = tmp_path / "observations.csv"
    path.write_text(text.getvalue())
    trace, _ = bring(path)
    assert (trace.history_tokens + trace.new_prompt_tokens).tolist() == [100, 100]
    assert trace.cached_tokens_observed is not None
    assert trace.cached_tokens_observed.tolist() == [10, 10]


@pytest.mark.parametrize("wrapper", ["response.body", "_source", "jsonPayload"])
def test_a_record_may_be_wrapped(tmp_path: Path, wrapper: str) -> None:
    record: dict[str, Any] = {
        "created": 1_716_200_000,
        "model": "m",
        "usage": {"promptTokens": 100, "completionTokens": 20},
    }
    for name in reversed(wrapper.split(".")):
        record = {name: record}
    trace, report = bring(lines(tmp_path / "log.jsonl", [{"key": 1} | record]))
    assert report.format_id == "openai-usage"
    assert trace.new_prompt_tokens.tolist() == [100]
    assert trace.served_model == ("m",)
    assert trace.start_utc_s is not None


def test_a_project_of_langsmith_is_no_session(tmp_path: Path) -> None:
    run = {
        "trace_id": "t",
        "run_type": "llm",
        "session_id": "project",
        "start_time": "2024-05-20T10:00:00.000000",
        "prompt_tokens": 100,
        "completion_tokens": 10,
        "extra": {"metadata": {"thread_id": "a", "ls_model_name": "m"}},
    }
    chain = run | {"run_type": "chain"}
    trace, report = bring(lines(tmp_path / "runs.jsonl", [run, chain]))
    assert report.format_id == "langsmith"
    assert trace.session_ids == ("a",)
    assert trace.output_tokens.tolist() == [10]
    assert trace.served_model == ("m",)


def test_times_as_the_azure_portal_writes_them(tmp_path: Path) -> None:
    path = tmp_path / "apim.csv"
    path.write_text(
        'CorrelationId,"TimeGenerated [UTC]",PromptTokens,CompletionTokens\n'
        'a,"5/20/2024, 10:00:00.123 PM",100,20\n'
    )
    trace, report = bring(path)
    assert report.format_id == "azure-apim"
    assert report.first_utc_s == pytest.approx(1_716_242_400.123)


def answer(session: str, ident: str, second: int, **more: Any) -> dict[str, Any]:
    usage = {"input_tokens": 10, "cache_read_input_tokens": 90, "output_tokens": 5}
    return {
        "type": "assistant",
        "sessionId": session,
        "timestamp": f"2024-05-20T10:00:{second:02}Z",
        "message": {"id": ident, "model": "claude", "usage": usage},
    } | more


def test_a_folder_of_sessions_with_sub_agents_and_one_taken_up_again(tmp_path: Path) -> None:
    project = tmp_path / "projects" / "one"
    project.mkdir(parents=True)
    first = [answer("a", "m1", 1), answer("a", "m2", 2, isSidechain=True, agentId="x")]
    lines(project / "a.jsonl", [{"type": "user", "message": {"content": "x"}}, *first])
    lines(project / "b.jsonl", [answer("b", "m1", 1), answer("b", "m3", 9)])
    (project / "index.txt").write_text("sessions\na\nb\n")
    trace, report = bring(tmp_path / "projects")
    assert report.format_id == "claude-code-session"
    assert trace.session_ids == ("a", "a/x", "b")
    assert trace.output_tokens.tolist() == [5, 5, 5]
    assert report.count("left out") == 3


def test_files_of_formats_that_are_read_alike_make_one_trace(tmp_path: Path) -> None:
    usage = {"prompt_tokens": 100, "completion_tokens": 20}
    request = {"session_id": "s", "created": 1_716_200_000, "usage": usage}
    first = lines(tmp_path / "a.jsonl", [request])
    usage = {"input_tokens": 10, "cache_read_input_tokens": 120, "output_tokens": 5}
    second = lines(tmp_path / "b.jsonl", [request | {"created": 1_716_200_060, "usage": usage}])
    trace, report = bring(first, second)
    assert report.format_label == "OpenAI-compatible usage log, Anthropic messages"
    assert trace.history_tokens.tolist() == [0, 120]
    assert trace.new_prompt_tokens.tolist() == [100, 10]


def test_files_that_do_not_go_together_are_named(tmp_path: Path) -> None:
    usage = {"prompt_tokens": 100, "completion_tokens": 20}
    first = lines(tmp_path / "a.jsonl", [{"created": 1_716_200_000, "usage": usage}])
    said = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    second = lines(tmp_path / "b.jsonl", [{"messages": said}])
    with pytest.raises(TraceError, match="b.jsonl of Lists of messages; import them apart"):
        bring(first, second)


def test_codex_counts_an_event_that_comes_twice_once(tmp_path: Path) -> None:
    def event(prompt: int, cached: int, total: int) -> dict[str, Any]:
        last = {
            "input_tokens": prompt,
            "cached_input_tokens": cached,
            "output_tokens": 400,
            "reasoning_output_tokens": 300,
        }
        info = {"total_token_usage": {"input_tokens": total}, "last_token_usage": last}
        return {
            "timestamp": "2025-10-17T05:54:20.209Z",
            "type": "event_msg",
            "payload": {"type": "token_count", "info": info},
        }

    about = {"type": "session_meta", "payload": {"id": "c"}}
    path = lines(
        tmp_path / "rollout.jsonl",
        [about, event(6000, 0, 6000), event(6000, 0, 6000), event(6245, 5376, 12245)],
    )
    trace, report = bring(path)
    assert report.format_id == "codex-session"
    assert trace.history_tokens.tolist() == [0, 6100]
    assert trace.new_prompt_tokens.tolist() == [6000, 145]


def test_sums_over_the_calls_of_a_turn_are_refused(tmp_path: Path) -> None:
    record = {"type": "turn.completed", "usage": {"input_tokens": 10, "output_tokens": 5}}
    with pytest.raises(TraceError, match="sums over all calls"):
        bring(lines(tmp_path / "exec.jsonl", [record]))


def test_the_docs_list_every_format() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "traffic-data.md").read_text()
    for form in (*LOG_FORMATS, FORM, *EXPORTS):
        assert f"| `{form.id}` | {form.label} | {form.what} |" in text
    for format_id in IMPORTERS:
        assert f"`{format_id}`" in text
    for name in MAPPED:
        assert f"`{name}`" in text


JUNK: tuple[Any, ...] = (None, "", "x", "512", -1, 1e400, True, [], [1], {}, {"a": 1}, "{", "{}")


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The places of all values within a record."""
    inner: Any = ()
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list):
        inner = enumerate(value)
    return [path, *(place for key, below in inner for place in leaves(below, (*path, key)))]


def replaced(value: Any, path: tuple[Any, ...], junk: Any) -> Any:
    """A copy of a record with another value at one place."""
    if not path:
        return junk
    copied = dict(value) if isinstance(value, dict) else list(value)
    copied[path[0]] = replaced(value[path[0]], path[1:], junk)
    return copied


@pytest.mark.parametrize(
    "name",
    [
        "T02_litellm_spend_logs.csv",
        "T09b_langfuse_api_v2.json",
        "T12_otlp_genai.json",
        "T12c_otel_console.jsonl",
        "T13_bedrock_invocations.jsonl",
        "T15_gemini_responses.jsonl",
        "T18_claude_code_session.jsonl",
        "T20_openai_messages.jsonl",
        "T22_chatgpt_export.json",
        "T35_openai_batch_output.jsonl",
    ],
)
def test_damaged_files_are_told_and_nothing_breaks(
    shared_data: Path, tmp_path: Path, name: str
) -> None:
    draw = random.Random(name)
    text = (shared_data / "field_cases" / name).read_text()
    path = tmp_path / name
    for number in range(12):
        damaged = text
        if number % 3 == 0 or name.endswith(".csv"):
            at = draw.randrange(len(text))
            damaged = (
                text[:at] + draw.choice(["", "\x01", '"', "{", "}", ",", "\n"]) + text[at + 3 :]
            )
            damaged = damaged[: draw.choice([len(damaged), draw.randrange(1, len(damaged))])]
        else:
            whole = name.endswith(".json")
            records = [json.loads(text)] if whole else [*map(json.loads, text.splitlines())]
            for n in range(len(records)):
                place = draw.choice(leaves(records[n])[1:])
                records[n] = replaced(records[n], place, draw.choice(JUNK))
            damaged = "\n".join(json.dumps(record) for record in records)
        path.write_text(damaged)
        try:
            with stage([path]) as staged:
                staged.require(accept_unreadable=True)
        except TraceError as refused:
            assert str(refused)
