"""What the logs of inference services call their fields: one entry a format.

Each is a list of requests with their counts of tokens; they differ in names alone, so that
:mod:`.logs` reads all of them. A name is a path (``usage.prompt_tokens``), and stands for the same
name written another way (``promptTokens``, ``Prompt Tokens``). What a format does not name is
looked for under the names of :data:`COMMON`.

A format is recognised if a record holds all paths of one of its signs. The record may be wrapped:
``response.body.usage`` is ``usage`` below ``response.body``, and a cell of text may hold JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from carbonrouter_core.traces.importers.base import Times

Fields = Mapping[str, tuple[str, ...]]

COMMON: Fields = {
    "session": (
        "metadata.session_id",
        "session_id",
        "metadata.conversation_id",
        "conversation_id",
        "conversation.id",
        "conversation",
        "thread_id",
        "metadata.thread_id",
        "litellm_session_id",
        "metadata.litellm_session_id",
        "request_properties.Helicone-Session-Id",
        "properties.Helicone-Session-Id",
        "Helicone-Session-Id",
        "metadata.chat_id",
        "chat_id",
        "metadata.trace_id",
        "trace_id",
    ),
    "ident": ("id", "request_id", "response_id", "generation_id", "uuid"),
    "before": ("previous_response_id",),
    "time_s": (
        "created",
        "created_at",
        "timestamp",
        "startTime",
        "start_time",
        "request_created_at",
        "request_time",
        "time",
        "@timestamp",
        "datetime",
        "date",
    ),
    "prompt": (
        "usage.prompt_tokens",
        "prompt_tokens",
        "usage.prompt_token_count",
        "prompt_token_count",
        "num_prompt_tokens",
        "n_prompt_tokens",
        "tokens.prompt",
    ),
    "input": (
        "usage.input_tokens",
        "input_tokens",
        "usage.input",
        "input_token_count",
        "num_input_tokens",
        "tokens_in",
        "tokens.input",
    ),
    "output_tokens": (
        "usage.completion_tokens",
        "usage.output_tokens",
        "completion_tokens",
        "output_tokens",
        "usage.generation_tokens",
        "usage.output",
        "generated_tokens",
        "generation_tokens",
        "completion_token_count",
        "output_token_count",
        "num_generation_tokens",
        "num_output_tokens",
        "tokens_out",
        "tokens.completion",
        "tokens.output",
    ),
    "total_tokens": ("usage.total_tokens", "total_tokens", "usage.total"),
    "cached_tokens_observed": (
        "usage.prompt_tokens_details.cached_tokens",
        "usage.input_tokens_details.cached_tokens",
        "prompt_tokens_details.cached_tokens",
        "input_tokens_details.cached_tokens",
        "metadata.usage_object.prompt_tokens_details.cached_tokens",
        "usage.cached_tokens",
        "usage.cached_input_tokens",
        "usage.prompt_cache_hit_tokens",
        "usage.num_cached_tokens",
        "cached_tokens",
        "cached_input_tokens",
        "input_cached_tokens",
        "num_cached_tokens",
        "prompt_cache_hit_tokens",
    ),
    "cache_read": (
        "usage.cache_read_input_tokens",
        "usage.cache_read_tokens",
        "cache_read_input_tokens",
        "prompt_cache_read_tokens",
        "cache_read_tokens",
    ),
    "cache_written_tokens": (
        "usage.cache_creation_input_tokens",
        "usage.cache_creation_tokens",
        "usage.cache_write_tokens",
        "cache_creation_input_tokens",
        "prompt_cache_write_tokens",
        "cache_write_tokens",
        "cache_creation_tokens",
    ),
    "reasoning_tokens": (
        "usage.completion_tokens_details.reasoning_tokens",
        "usage.output_tokens_details.reasoning_tokens",
        "completion_tokens_details.reasoning_tokens",
        "output_tokens_details.reasoning_tokens",
        "usage.reasoning_tokens",
        "usage.reasoning_output_tokens",
        "reasoning_tokens",
    ),
    "served_model": ("model", "response_model", "request_model", "model_name"),
    "served_region": ("metadata.region", "region", "metadata.served_region", "served_region"),
    "user_region": ("metadata.user_region", "user_region"),
}
"""Where the columns of a log may stand, the most likely first.

``prompt`` and ``input``: tokens of the prompt, as OpenAI and as Anthropic call them.
``cached_tokens_observed``: cached tokens that the prompt counts hold; ``cache_read`` and
``cache_written_tokens``: under names of which some logs count them apart.
"""


@dataclass(frozen=True, kw_only=True)
class LogFormat:
    """The names of one format.

    ``signs``: alternatives, each a set of paths that tell the format. ``fields``: names that come
    before those of :data:`COMMON`; ``replaced``: columns for which only they count. ``cached``:
    whether the prompt counts hold the cached tokens; None: the names and counts of each row tell.
    ``reasoning_apart``: whether output counts leave out reasoning tokens. ``only``: a path, the
    values of it that are calls of a model, and what the other rows are. ``no_output_fails``:
    whether a row without output tokens is a failed request. ``times``: what a time is. ``apart``:
    paths whose values are names of sub-agents, with sessions of their own. ``repeats``: whether a
    request may stand in several files, as where a session was taken up again in a new one.
    """

    id: str
    label: str
    what: str
    """What the files are, for the list of formats."""
    url: str
    """Where the format is described."""
    signs: tuple[tuple[str, ...], ...]
    fields: Fields = field(default_factory=dict)
    replaced: frozenset[str] = frozenset()
    cached: Literal["included", "excluded"] | None = None
    reasoning_apart: bool = False
    only: tuple[tuple[str, ...], str, str] | None = None
    no_output_fails: bool = False
    times: Times = "start_utc"
    apart: tuple[str, ...] = ()
    repeats: bool = False

    def paths(self, column: str) -> tuple[str, ...]:
        """Where a column of :data:`COMMON` may stand."""
        own = self.fields.get(column, ())
        return own if column in self.replaced else (*own, *COMMON[column])


NO_SESSIONS: frozenset[str] = frozenset({"session"})

LOG_FORMATS: tuple[LogFormat, ...] = (
    LogFormat(
        id="claude-code-session",
        label="Claude Code sessions",
        what="session files of Claude Code, also a folder of them, and its stream-json output",
        url="https://docs.anthropic.com/en/docs/claude-code",
        signs=(
            ("sessionId", "message.usage.input_tokens"),
            ("session_id", "type", "message.usage.input_tokens"),
        ),
        fields={
            "session": ("sessionId", "session_id"),
            "ident": ("message.id", "requestId"),
            "time_s": ("timestamp",),
            "input": ("message.usage.input_tokens",),
            "output_tokens": ("message.usage.output_tokens",),
            "cache_read": ("message.usage.cache_read_input_tokens",),
            "cache_written_tokens": ("message.usage.cache_creation_input_tokens",),
            "served_model": ("message.model",),
        },
        replaced=frozenset({"session", "ident", "time_s", "served_model"}),
        cached="excluded",
        only=(("type",), r"^assistant$", "a line that is no answer of the model"),
        apart=("agentId", "isSidechain", "parent_tool_use_id"),
        repeats=True,
    ),
    LogFormat(
        id="litellm",
        label="LiteLLM log",
        what="spend logs as JSON, CSV or pages of its interface, and StandardLoggingPayload",
        url="https://docs.litellm.ai/docs/proxy/logging_spec",
        signs=(
            ("call_type", "prompt_tokens", "completion_tokens"),
            ("custom_llm_provider", "prompt_tokens", "completion_tokens"),
            ("litellm_call_id", "prompt_tokens", "completion_tokens"),
            ("model_group", "prompt_tokens", "completion_tokens"),
        ),
        fields={
            "session": ("session_id", "litellm_session_id", "litellm_trace_id"),
            "ident": ("request_id", "id"),
            "time_s": ("startTime",),
            "prompt": ("prompt_tokens",),
            "output_tokens": ("completion_tokens",),
            "total_tokens": ("total_tokens",),
            "cached_tokens_observed": (
                "metadata.usage_object.prompt_tokens_details.cached_tokens",
                "metadata.additional_usage_values.prompt_tokens_details.cached_tokens",
                "response.usage.prompt_tokens_details.cached_tokens",
                "response.usage.input_tokens_details.cached_tokens",
            ),
            "cache_read": (
                "metadata.usage_object.cache_read_input_tokens",
                "metadata.additional_usage_values.cache_read_input_tokens",
                "response.usage.cache_read_input_tokens",
            ),
            "cache_written_tokens": (
                "metadata.usage_object.cache_creation_input_tokens",
                "metadata.additional_usage_values.cache_creation_input_tokens",
                "response.usage.cache_creation_input_tokens",
            ),
            "reasoning_tokens": (
                "metadata.usage_object.completion_tokens_details.reasoning_tokens",
                "metadata.additional_usage_values.completion_tokens_details.reasoning_tokens",
                "response.usage.completion_tokens_details.reasoning_tokens",
            ),
        },
    ),
    LogFormat(
        id="langsmith",
        label="LangSmith runs",
        what="runs as JSON Lines, pages of the API or CSV",
        url="https://docs.langchain.com/langsmith/run-data-format",
        signs=(
            ("run_type", "trace_id"),
            ("run_type", "prompt_tokens"),
            ("run_type", "total_tokens"),
            ("run_type", "extra.metadata"),
            ("run_type", "outputs"),
        ),
        fields={
            "session": (
                "extra.metadata.session_id",
                "extra.metadata.thread_id",
                "extra.metadata.conversation_id",
                "metadata.session_id",
                "metadata.thread_id",
                "metadata.conversation_id",
                "thread_id",
                "trace_id",
            ),
            "time_s": ("start_time",),
            "prompt": (
                "prompt_tokens",
                "usage_metadata.input_tokens",
                "outputs.usage_metadata.input_tokens",
                "extra.metadata.usage_metadata.input_tokens",
                "outputs.llm_output.token_usage.prompt_tokens",
                "outputs.usage.prompt_tokens",
            ),
            "output_tokens": (
                "completion_tokens",
                "usage_metadata.output_tokens",
                "outputs.usage_metadata.output_tokens",
                "extra.metadata.usage_metadata.output_tokens",
                "outputs.llm_output.token_usage.completion_tokens",
                "outputs.usage.completion_tokens",
            ),
            "cached_tokens_observed": (
                "prompt_token_details.cache_read",
                "usage_metadata.input_token_details.cache_read",
                "outputs.usage_metadata.input_token_details.cache_read",
                "extra.metadata.usage_metadata.input_token_details.cache_read",
                "outputs.llm_output.token_usage.prompt_tokens_details.cached_tokens",
                "outputs.usage.prompt_tokens_details.cached_tokens",
            ),
            "reasoning_tokens": (
                "completion_token_details.reasoning",
                "usage_metadata.output_token_details.reasoning",
                "outputs.usage_metadata.output_token_details.reasoning",
                "extra.metadata.usage_metadata.output_token_details.reasoning",
            ),
            "served_model": (
                "extra.metadata.ls_model_name",
                "metadata.ls_model_name",
                "extra.invocation_params.model",
                "extra.invocation_params.model_name",
            ),
        },
        replaced=NO_SESSIONS,
        cached="included",
        only=(("run_type",), r"(?i)^llm$", "a run that is no call of a model"),
    ),
    LogFormat(
        id="langfuse",
        label="Langfuse observations",
        what="observations as JSON, pages of the API, blob export or CSV",
        url="https://langfuse.com/docs/api-and-data-platform",
        signs=(
            ("usageDetails.input",),
            ("usage_details.input",),
            ("usageDetails.output",),
            ("usage_details.output",),
            ("traceId", "promptTokens", "completionTokens"),
            ("traceId", "usage.input", "usage.output"),
            ("traceId", "inputUsage", "outputUsage"),
            ("traceId", "inputTokens", "outputTokens"),
        ),
        fields={
            "session": ("sessionId", "session_id", "trace.sessionId", "traceSessionId", "traceId"),
            "time_s": ("startTime",),
            "input": (
                "usageDetails.input",
                "usageDetails.input_tokens",
                "inputUsage",
                "inputTokens",
                "promptTokens",
                "usage.input",
            ),
            "output_tokens": (
                "usageDetails.output",
                "usageDetails.output_tokens",
                "outputUsage",
                "outputTokens",
                "completionTokens",
                "usage.output",
            ),
            "total_tokens": ("usageDetails.total", "totalUsage", "totalTokens"),
            "cache_read": (
                "usageDetails.input_cached_tokens",
                "usageDetails.input_cache_read",
                "usageDetails.cache_read_input_tokens",
                "usageDetails.input_cache_read_tokens",
                "usageDetails.cached_tokens",
                "usageDetails.input_cached",
            ),
            "cache_written_tokens": (
                "usageDetails.cache_creation_input_tokens",
                "usageDetails.input_cache_creation",
                "usageDetails.input_cache_creation_tokens",
                "usageDetails.input_cache_write",
            ),
            "reasoning_tokens": (
                "usageDetails.output_reasoning_tokens",
                "usageDetails.output_reasoning",
                "usageDetails.reasoning_tokens",
            ),
            "served_model": ("providedModelName", "model", "modelName", "internalModel"),
        },
        replaced=frozenset({"input"}),
        only=(
            ("type", "observationType"),
            r"(?i)^generation$",
            "an observation that is no GENERATION",
        ),
    ),
    LogFormat(
        id="helicone",
        label="Helicone requests",
        what="requests as JSON, pages of the API or CSV",
        url="https://docs.helicone.ai/rest/request/post-v1requestquery",
        signs=(
            ("request_created_at", "prompt_tokens"),
            ("request_properties", "prompt_tokens"),
            ("response_status", "prompt_tokens", "completion_tokens"),
        ),
        fields={
            "session": (
                "request_properties.Helicone-Session-Id",
                "properties.Helicone-Session-Id",
                "Helicone-Session-Id",
            ),
            "time_s": ("request_created_at",),
            "ident": ("request_id",),
            "served_model": ("model_override", "response_model", "model", "request_model"),
        },
    ),
    LogFormat(
        id="openrouter",
        label="OpenRouter activity",
        what="activity as CSV, and generations of the API",
        url="https://openrouter.ai/docs/api-reference/get-a-generation",
        signs=(("tokens_prompt", "tokens_completion"), ("native_tokens_prompt",)),
        fields={
            "ident": ("generation_id", "id"),
            "prompt": ("native_tokens_prompt", "tokens_prompt"),
            "output_tokens": ("native_tokens_completion", "tokens_completion"),
            "cached_tokens_observed": ("native_tokens_cached", "tokens_cached"),
            "reasoning_tokens": ("native_tokens_reasoning", "tokens_reasoning"),
            "served_model": ("model_permaslug", "model"),
        },
        cached="included",
    ),
    LogFormat(
        id="bedrock",
        label="Amazon Bedrock invocations",
        what="model invocation logs of S3 and CloudWatch, and answers of Converse",
        url="https://docs.aws.amazon.com/bedrock/latest/userguide/model-invocation-logging.html",
        signs=(
            ("modelId", "input.inputTokenCount"),
            ("schemaType", "input.inputTokenCount"),
            ("usage.inputTokens", "usage.outputTokens", "metrics.latencyMs"),
        ),
        fields={
            "session": (
                "requestMetadata.session_id",
                "requestMetadata.conversation_id",
                "requestMetadata.session",
                "requestMetadata.thread_id",
            ),
            "ident": ("requestId",),
            "input": ("input.inputTokenCount", "usage.inputTokens"),
            "output_tokens": ("output.outputTokenCount", "usage.outputTokens"),
            "total_tokens": ("output.outputBodyJson.usage.totalTokens", "usage.totalTokens"),
            "cache_read": (
                "input.cacheReadInputTokenCount",
                "output.outputBodyJson.usage.cacheReadInputTokens",
                "output.outputBodyJson.usage.cacheReadInputTokenCount",
                "output.outputBodyJson.usage.cache_read_input_tokens",
                "usage.cacheReadInputTokens",
                "usage.cacheReadInputTokenCount",
            ),
            "cache_written_tokens": (
                "input.cacheWriteInputTokenCount",
                "output.outputBodyJson.usage.cacheWriteInputTokens",
                "output.outputBodyJson.usage.cacheWriteInputTokenCount",
                "output.outputBodyJson.usage.cache_creation_input_tokens",
                "usage.cacheWriteInputTokens",
                "usage.cacheWriteInputTokenCount",
            ),
            "served_model": ("modelId",),
            "served_region": ("inferenceRegion", "region", "awsRegion"),
        },
        replaced=frozenset({"total_tokens"}),
        cached="excluded",
    ),
    LogFormat(
        id="azure-apim",
        label="Azure API Management LLM log",
        what="table ApiManagementGatewayLlmLog as CSV or JSON",
        url="https://learn.microsoft.com/azure/azure-monitor/reference/tables/apimanagementgatewayllmlog",
        signs=(
            ("CorrelationId", "PromptTokens", "CompletionTokens"),
            ("TimeGenerated", "PromptTokens", "CompletionTokens"),
            ("TimeGenerated [UTC]", "PromptTokens", "CompletionTokens"),
            ("DeploymentName", "PromptTokens", "CompletionTokens"),
        ),
        fields={
            "ident": ("CorrelationId",),
            "time_s": ("TimeGenerated", "TimeGenerated [UTC]", "TimeGeneratedUtc"),
            "prompt": ("PromptTokens",),
            "output_tokens": ("CompletionTokens",),
            "total_tokens": ("TotalTokens",),
            "served_model": ("ModelName", "DeploymentName"),
            "served_region": ("Region",),
        },
    ),
    LogFormat(
        id="gemini",
        label="Gemini responses",
        what="answers of the Gemini API and of Vertex AI with their usage metadata",
        url="https://ai.google.dev/api/generate-content",
        signs=(("usageMetadata.promptTokenCount",),),
        fields={
            "ident": ("responseId",),
            "time_s": ("createTime",),
            "prompt": ("usageMetadata.promptTokenCount",),
            "output_tokens": (
                "usageMetadata.candidatesTokenCount",
                "usageMetadata.responseTokenCount",
            ),
            "total_tokens": ("usageMetadata.totalTokenCount",),
            "cached_tokens_observed": ("usageMetadata.cachedContentTokenCount",),
            "reasoning_tokens": ("usageMetadata.thoughtsTokenCount",),
            "served_model": ("modelVersion", "model"),
        },
        cached="included",
        reasoning_apart=True,
    ),
    LogFormat(
        id="sglang",
        label="SGLang responses",
        what="answers of /generate with their meta_info",
        url="https://docs.sglang.ai/basic_usage/native_api.html",
        signs=(("meta_info.prompt_tokens", "meta_info.completion_tokens"),),
        fields={
            "ident": ("meta_info.id", "rid"),
            "prompt": ("meta_info.prompt_tokens",),
            "output_tokens": ("meta_info.completion_tokens",),
            "cached_tokens_observed": ("meta_info.cached_tokens",),
            "reasoning_tokens": ("meta_info.reasoning_tokens",),
            "session": ("session_params.id", "meta_info.session_id"),
            "time_s": ("meta_info.request_received_ts", "received_time"),
            "served_model": ("meta_info.model", "model_path"),
        },
        cached="included",
    ),
    LogFormat(
        id="burstgpt",
        label="BurstGPT",
        what="requests of ChatGPT and GPT-4, with times that count from a start",
        url="https://github.com/HPMLL/BurstGPT",
        signs=(("Request tokens", "Response tokens"),),
        fields={
            "session": ("Session ID",),
            "time_s": ("Timestamp",),
            "prompt": ("Request tokens",),
            "output_tokens": ("Response tokens",),
            "total_tokens": ("Total tokens",),
            "served_model": ("Model",),
        },
        no_output_fails=True,
        times="start_s",
    ),
    LogFormat(
        id="servegen",
        label="Lengths of requests",
        what="input_length and output_length of requests without sessions, as of ServeGen",
        url="https://github.com/alibaba/ServeGen",
        signs=(("input_length", "output_length"), ("input_len", "output_len")),
        fields={
            "prompt": ("input_length", "input_len"),
            "output_tokens": ("output_length", "output_len"),
            "time_s": ("timestamp", "arrival_time", "arrived_at"),
        },
        replaced=frozenset({"time_s"}),
        times="start_s",
    ),
    LogFormat(
        id="anthropic",
        label="Anthropic messages",
        what="answers of the Messages API and of its batches",
        url="https://docs.anthropic.com/en/api/messages",
        signs=(
            ("usage.input_tokens", "usage.cache_read_input_tokens"),
            ("usage.input_tokens", "usage.cache_creation_input_tokens"),
        ),
        fields={"input": ("usage.input_tokens",)},
        only=(("result.type",), r"^succeeded$", "a request of a batch without an answer"),
    ),
    LogFormat(
        id="openai-usage",
        label="OpenAI-compatible usage log",
        what="answers and log records with their `usage`: vLLM, SGLang, OpenAI (chat, Responses, "
        "Batch output), gateways",
        url="https://platform.openai.com/docs/api-reference/chat/object",
        signs=(
            ("usage.prompt_tokens",),
            ("usage.input_tokens",),
            ("prompt_tokens", "completion_tokens"),
            ("input_tokens", "output_tokens"),
            ("prompt_tokens", "generated_tokens"),
            ("num_prompt_tokens", "num_generation_tokens"),
            ("tokens_in", "tokens_out"),
            ("tokens.input", "tokens.output"),
            ("prompt_token_count", "completion_token_count"),
            ("input_token_count", "output_token_count"),
        ),
    ),
)
"""The formats, in the order in which they are tried."""
