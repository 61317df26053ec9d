"""What a client makes of a UI message stream: the parts of one UI message. Source: AI SDK 7, processUIMessageStream."""

from __future__ import annotations

from collections.abc import Iterable

from perdure.upp.json_value import JSONObject

_STATES = {
    "tool-input-available": "input-available",
    "tool-output-available": "output-available",
    "tool-output-error": "output-error",
    "tool-output-denied": "output-denied",
}
_TOLD = ("input", "output", "errorText")


def ui_parts(chunks: Iterable[JSONObject]) -> list[JSONObject]:
    """The parts of the UI message of a whole stream; of what is transient nothing stays."""
    parts: list[JSONObject] = []
    open_blocks: dict[str, JSONObject] = {}
    tools: dict[str, JSONObject] = {}
    for chunk in chunks:
        kind, ident = str(chunk["type"]), str(chunk.get("id", chunk.get("toolCallId", "")))
        name, _, what = kind.partition("-")
        if kind == "start-step":
            parts.append({"type": "step-start"})
        elif name in ("text", "reasoning") and what == "start":
            open_blocks[ident] = {"type": name, "text": "", "state": "streaming"}
            parts.append(open_blocks[ident])
        elif name in ("text", "reasoning") and what == "delta":
            block = open_blocks[ident]
            block["text"] = f"{block['text']}{chunk['delta']}"
        elif name in ("text", "reasoning") and what == "end":
            block = open_blocks.pop(ident)
            block["state"] = "done"
            block |= {key: value for key, value in chunk.items() if key == "providerMetadata"}
        elif kind == "tool-input-start":
            tools[ident] = {"type": f"tool-{chunk['toolName']}", "toolCallId": ident, "state": "input-streaming"}
            parts.append(tools[ident])
        elif kind in _STATES:
            told: JSONObject = {key: chunk[key] for key in _TOLD if key in chunk}
            tools[ident] |= {"state": _STATES[kind], **told}
        elif kind in ("file", "steering-message") or (name == "data" and chunk.get("transient") is not True):
            parts.append(dict(chunk))
    return parts
