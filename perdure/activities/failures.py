"""Failures on their way to Temporal: what an error says, its stack trace and its causes go without secrets."""

from __future__ import annotations

from temporalio.api.failure.v1 import Failure
from temporalio.converter import DefaultFailureConverter, PayloadConverter

from perdure.upp.redaction import known_secrets


class RedactedFailureConverter(DefaultFailureConverter):
    """Temporal's own. An error's details are redacted by the payload converter, as all payloads are."""

    def to_failure(self, exception: BaseException, payload_converter: PayloadConverter, failure: Failure) -> None:
        """See base class, which calls this for each cause too."""
        super().to_failure(exception, payload_converter, failure)
        failure.message = known_secrets.text(failure.message)
        failure.stack_trace = known_secrets.text(failure.stack_trace)


class EncodedFailureConverter(RedactedFailureConverter):
    """The same; message and stack trace are a payload then, which the payload converter redacts and a codec seals."""

    def __init__(self) -> None:
        """See base class."""
        DefaultFailureConverter.__init__(self, encode_common_attributes=True)
