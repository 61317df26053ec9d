"""Judging the `cap_token` of an envelope, which only issuers that the operator names can give."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import cast

from perdure.protocols.uamp_envelope.cap_token import read_cap_token, verify_cap_token
from perdure.protocols.uamp_envelope.envelope import Envelope
from perdure.protocols.uamp_envelope.error import Code, UAMPError
from perdure.runtime.envelopes.configured_keys import ConfiguredKeys


class Capabilities:
    """What senders may do here, by their tokens."""

    def __init__(
        self, issuers: ConfiguredKeys, *, base_url: str, is_needed: bool, clock: Callable[[], datetime]
    ) -> None:
        """Judge by these rules.

        Args:
            issuers: that are trusted, with their keys.
            base_url: of this server, which a token may be for in the place of one agent.
            is_needed: whether an envelope without a token is refused. Not one about an exchange, as an ACK or a cancel:
                what opened that had one.
            clock: the time.
        """
        self._issuers = issuers
        self._base_url = base_url
        self._is_needed = is_needed
        self._clock = clock

    async def check(self, envelope: Envelope, own: str) -> None:
        """Judge an envelope whose signature is verified.

        Args:
            envelope: with a token, or without.
            own: the DID of ours that it is for.

        Raises:
            UAMPError: 4.03.
        """
        if envelope.cap_token is None:
            if self._is_needed and not envelope.intent.answers:
                raise UAMPError(
                    Code.UNAUTHORIZED, "this agent takes envelopes with a cap_token only", ref=envelope.id_text
                )
            return
        try:
            token = read_cap_token(envelope.cap_token)
            capability = verify_cap_token(
                token,
                await self._issuers.of(token.issuer),
                audiences=(own, self._base_url),
                sender=envelope.sender,
                now=self._clock(),
            )
            capability.check_allows(envelope.intent, cast(str, envelope.body["type"]))
        except UAMPError as error:
            raise error.about(envelope.id_text) from error
