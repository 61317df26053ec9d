from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class EnvelopeFrame(_message.Message):
    __slots__ = ("json", "media_type")
    JSON_FIELD_NUMBER: _ClassVar[int]
    MEDIA_TYPE_FIELD_NUMBER: _ClassVar[int]
    json: bytes
    media_type: str
    def __init__(self, json: _Optional[bytes] = ..., media_type: _Optional[str] = ...) -> None: ...

class DeltaFrame(_message.Message):
    __slots__ = ("json", "delta_seq", "stream_id")
    JSON_FIELD_NUMBER: _ClassVar[int]
    DELTA_SEQ_FIELD_NUMBER: _ClassVar[int]
    STREAM_ID_FIELD_NUMBER: _ClassVar[int]
    json: bytes
    delta_seq: int
    stream_id: str
    def __init__(self, json: _Optional[bytes] = ..., delta_seq: _Optional[int] = ..., stream_id: _Optional[str] = ...) -> None: ...

class Frame(_message.Message):
    __slots__ = ("envelope", "delta", "error")
    ENVELOPE_FIELD_NUMBER: _ClassVar[int]
    DELTA_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    envelope: EnvelopeFrame
    delta: DeltaFrame
    error: Error
    def __init__(self, envelope: _Optional[_Union[EnvelopeFrame, _Mapping]] = ..., delta: _Optional[_Union[DeltaFrame, _Mapping]] = ..., error: _Optional[_Union[Error, _Mapping]] = ...) -> None: ...

class SendReply(_message.Message):
    __slots__ = ("accepted", "stream_id", "location", "envelope_id")
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    STREAM_ID_FIELD_NUMBER: _ClassVar[int]
    LOCATION_FIELD_NUMBER: _ClassVar[int]
    ENVELOPE_ID_FIELD_NUMBER: _ClassVar[int]
    accepted: bool
    stream_id: str
    location: str
    envelope_id: str
    def __init__(self, accepted: _Optional[bool] = ..., stream_id: _Optional[str] = ..., location: _Optional[str] = ..., envelope_id: _Optional[str] = ...) -> None: ...

class StreamRequest(_message.Message):
    __slots__ = ("stream_id", "last_delta_seq", "delta_window")
    STREAM_ID_FIELD_NUMBER: _ClassVar[int]
    LAST_DELTA_SEQ_FIELD_NUMBER: _ClassVar[int]
    DELTA_WINDOW_FIELD_NUMBER: _ClassVar[int]
    stream_id: str
    last_delta_seq: int
    delta_window: int
    def __init__(self, stream_id: _Optional[str] = ..., last_delta_seq: _Optional[int] = ..., delta_window: _Optional[int] = ...) -> None: ...

class Error(_message.Message):
    __slots__ = ("code", "message", "retryable", "retry_after_ms", "ref")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    RETRYABLE_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    REF_FIELD_NUMBER: _ClassVar[int]
    code: str
    message: str
    retryable: bool
    retry_after_ms: int
    ref: str
    def __init__(self, code: _Optional[str] = ..., message: _Optional[str] = ..., retryable: _Optional[bool] = ..., retry_after_ms: _Optional[int] = ..., ref: _Optional[str] = ...) -> None: ...

class ManifestRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SignedManifest(_message.Message):
    __slots__ = ("jws",)
    JWS_FIELD_NUMBER: _ClassVar[int]
    jws: str
    def __init__(self, jws: _Optional[str] = ...) -> None: ...
