"""Exports of chat services: the conversation is the way to the message that was seen last."""

import json
from pathlib import Path
from typing import Any

from carbonrouter_core.traces.loading import staged_trace
from carbonrouter_core.traces.report import TraceReport
from carbonrouter_core.traces.schema import Trace
from carbonrouter_core.traces.staging import stage


def bring(path: Path, records: Any) -> tuple[Trace, TraceReport]:
    path.write_text(json.dumps(records))
    with stage([path]) as staged:
        staged.require()
        return staged_trace(staged, "t"), staged.report


def node(name: str, parent: str | None, role: str, characters: int, time_s: float) -> Any:
    message = {
        "author": {"role": role},
        "create_time": time_s,
        "content": {"content_type": "text", "parts": ["a" * characters]},
        "metadata": {"model_slug": "gpt-4o"} if role == "assistant" else {},
    }
    return {"id": name, "parent": parent, "children": [], "message": message}


def test_chatgpt_without_the_answers_that_were_asked_for_again(tmp_path: Path) -> None:
    nodes = [
        {"id": "root", "parent": None, "children": ["u1"], "message": None},
        node("u1", "root", "user", 40, 1_716_200_000),
        node("old", "u1", "assistant", 4000, 1_716_200_005),
        node("new", "u1", "assistant", 80, 1_716_200_010),
        node("u2", "new", "user", 8, 1_716_200_060),
        node("a2", "u2", "assistant", 12, 1_716_200_070),
    ]
    record = {"id": "c", "current_node": "a2", "mapping": {one["id"]: one for one in nodes}}
    trace, report = bring(tmp_path / "conversations.json", [record])
    assert report.format_id == "chatgpt-export"
    assert trace.new_prompt_tokens.tolist() == [10, 2]
    assert trace.output_tokens.tolist() == [20, 3]
    assert trace.history_tokens.tolist() == [0, 30]
    assert trace.start_utc_s is not None
    assert trace.start_utc_s.tolist() == [1_716_200_000, 1_716_200_060]
    assert trace.served_model == ("gpt-4o", "gpt-4o")


def test_a_circle_of_parents_ends(tmp_path: Path) -> None:
    nodes = [node("u1", "a1", "user", 40, 1), node("a1", "u1", "assistant", 80, 2)]
    record = {"id": "c", "current_node": "a1", "mapping": {one["id"]: one for one in nodes}}
    trace, _ = bring(tmp_path / "conversations.json", [record])
    assert trace.output_tokens.tolist() == [20]


def test_claude_with_a_file_that_came_with_the_prompt(tmp_path: Path) -> None:
    messages = [
        {
            "uuid": "m1",
            "sender": "human",
            "text": "a" * 40,
            "content": [{"type": "text", "text": "a" * 40}],
            "attachments": [{"file_name": "f", "extracted_content": "b" * 399}],
            "created_at": "2024-05-20T10:00:00.5Z",
        },
        {
            "uuid": "m2",
            "sender": "assistant",
            "text": "c" * 80,
            "content": [],
            "created_at": "2024-05-20T10:00:09Z",
        },
    ]
    trace, report = bring(
        tmp_path / "conversations.json", [{"uuid": "c", "chat_messages": messages}]
    )
    assert report.format_id == "claude-export"
    assert trace.new_prompt_tokens.tolist() == [110]
    assert trace.output_tokens.tolist() == [20]


def test_messages_with_a_system_prompt_beside_them(tmp_path: Path) -> None:
    said = [{"role": "user", "content": "a" * 40}, {"role": "assistant", "content": "b" * 80}]
    records = [{"system": "s" * 400, "messages": said}, {"messages": said}]
    trace, report = bring(tmp_path / "fine-tuning.json", records)
    assert report.format_id == "openai-messages"
    assert trace.new_prompt_tokens.tolist() == [111, 10]  # a line break parts the two messages
    assert trace.session_ids == ("record-0-1", "record-0-2")
