"""The error tree. Every error of Perdure is a leaf of it and says what was wrong and what to do.

PerdureError
├── UserError               the caller's mistake; nothing was stored or half done
│   ├── InvalidInput        a value that cannot be used, named in the message
│   ├── UnknownAgent        no worker registered an agent of that name
│   ├── UnknownTask         this worker has no function for a task that a stage session is pinned to
│   ├── UnknownSession      no session of that id
│   │   └── WrongAgent      the session is there, and another agent's
│   ├── UnknownRun          no run of that id
│   ├── UnknownWait         no wait of that id
│   ├── UnknownAction       the stage session has no action of that id
│   ├── UnknownContent      no stored media of that id, or its time is over
│   ├── WaitAnswered        the wait has been answered; it is answered once
│   ├── WaitStale           the wait's run has ended, its time is over, or what it asks about has changed
│   ├── KeyConflict         an idempotency key used again with another body
│   ├── ActionOpen          the stage session has an action that is not settled
│   ├── RunActive           policy "reject" met an active run
│   ├── QueueFull           the session's inbox holds as many inputs as it may
│   ├── SessionLimitReached the session's runs have used all that they may
│   ├── PaymentNeeded       the agent is paid for, and the request brought nothing that pays
│   └── SessionGone         the session is being deleted
├── RunError                the run failed; carries the run's id where it is known
│   ├── LimitExceeded       a limit on steps, tokens, money or time was reached
│   ├── ModelError          the model could not be used
│   ├── ToolError           a tool could not be used
│   ├── OutcomeUnknown      a tool may or may not have had its effect
│   ├── StrategyError       the strategy's own code raised
│   ├── RunCancelled        the run was cancelled
│   ├── PaymentMissing      the run was not paid for
│   ├── GuardrailRejected   a guardrail rejected the input or the answer
│   └── DamagedSession      a stored body does not have the hash that history names
├── ProtocolError           a wire protocol's error; has the protocol's code
├── ServerError             something that Perdure needs is missing
│   ├── ServerUnavailable   Temporal or PostgreSQL does not answer
│   ├── SchemaOutdated      the database's schema is not this version's
│   ├── FilterIncomplete    a list cannot be filtered by a key yet that has been allowed a while ago
│   ├── KeyMissing          this process lacks a key that opens what is stored
│   ├── GateMissing         this process lacks the payment gate of an agent
│   └── EmbeddedError       an embedded server cannot be started
└── UPPError                perdure.upp.errors: an error of the model layer, with UPP's codes

Only two functions know the activity border: `perdure.activities.border.to_application_error` and its inverse.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence


class PerdureError(Exception):
    """The root of every error that Perdure raises on purpose."""


class UserError(PerdureError):
    """The caller's mistake; the request was refused whole."""


class InvalidInput(UserError):
    """A value that cannot be used. The message names the value and the remedy."""


class UnknownAgent(UserError):
    """No worker has registered an agent of that name."""


class UnknownTask(UserError):
    """This worker has nothing that carries out a task which a stage session's definition has; another one may."""


class UnknownSession(UserError):
    """No session of that id exists for this tenant."""


class WrongAgent(UnknownSession):
    """The session exists and belongs to another agent, which the message names. Nothing of it was changed."""


class UnknownRun(UserError):
    """No run of that id exists for this tenant."""


class UnknownWait(UserError):
    """No wait of that id exists for this tenant."""


class UnknownAction(UserError):
    """The stage session has no action of that id."""


class UnknownContent(UserError):
    """No stored media of that id exists for this tenant: it was never stored, is deleted, or its time is over."""


class WaitAnswered(UserError):
    """The wait has been answered before. The message says by whom and when."""


class WaitStale(UserError):
    """The wait can be answered no more: its run has ended, it has expired, or the arguments are not those it asked about."""


class KeyConflict(UserError):
    """The idempotency key was used before with another body."""


class ActionOpen(UserError):
    """The stage session has an action that is not settled, which what was asked for would cut off."""


class RunActive(UserError):
    """The session has an active run and the policy was `reject`.

    Attributes:
        run_id: the active run.
    """

    def __init__(self, message: str, *, run_id: str) -> None:
        super().__init__(message)
        self.run_id = run_id


class QueueFull(UserError):
    """The session's inbox holds as many inputs as it may; nothing was stored and the key is unused."""


class SessionLimitReached(UserError):
    """The session's runs have used all that they may; nothing was stored and the key is unused.

    Attributes:
        code: which limit, such as "session_max_steps".
    """

    def __init__(self, message: str, *, code: str = "session_limit") -> None:
        super().__init__(message)
        self.code = code


class PaymentNeeded(UserError):
    """The agent is paid for, and what the request brought does not pay. Nothing was stored.

    Attributes:
        code: "payment_required", or why the payment was refused, such as "token_invalid".
        accepts: the ways to pay, each with the amount and its currency.
        can_retry: another payment may be accepted.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str = "payment_required",
        accepts: Sequence[Mapping[str, str]] = (),
        can_retry: bool = True,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.accepts = [dict(way) for way in accepts]
        self.can_retry = can_retry


class SessionGone(UserError):
    """The session is being deleted; it takes no more input."""


class RunError(PerdureError):
    """A run that ended without an answer.

    Attributes:
        run_id: the run, where it is known.
        code: a stable word for programs, where there is one.
    """

    def __init__(self, message: str, *, run_id: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.run_id = run_id
        self.code = code


class LimitExceeded(RunError):
    """A limit of the run or session was reached."""


class ModelError(RunError):
    """The model could not be used."""


class ToolError(RunError):
    """A tool could not be used."""


class OutcomeUnknown(RunError):
    """A tool may or may not have had its effect."""


class StrategyError(RunError):
    """The strategy's own code raised; the message carries the original type and text."""


class RunCancelled(RunError):
    """The run was cancelled before it had an answer."""


class PaymentMissing(RunError):
    """The run was not paid for in time (code "payment_timeout"), or its payment was refused for good."""


class GuardrailRejected(RunError):
    """A guardrail rejected the input (code "input_rejected") or the answer (code "output_rejected") of a run."""


class DamagedSession(RunError):
    """A stored body does not have the hash that history names; it is never used."""


class ProtocolError(PerdureError):
    """An error of a wire protocol.

    Attributes:
        code: the protocol's own code.
    """

    def __init__(self, message: str, *, code: str) -> None:
        super().__init__(message)
        self.code = code


class ServerError(PerdureError):
    """Something that Perdure needs is missing."""


class ServerUnavailable(ServerError):
    """Temporal or PostgreSQL does not answer at its address."""


class SchemaOutdated(ServerError):
    """The database's schema is not the one of this version; the message says which command helps."""


class FilterIncomplete(ServerError):
    """Lists are filtered by this key soon: the sessions that are there already are still gone through. Try again."""


class KeyMissing(ServerError):
    """This process lacks a key that opens what is stored; `PERDURE_ENCRYPTION_KEYS` must name it."""


class GateMissing(ServerError):
    """This process lacks the payment gate that an agent is paid through; it must be started with the app that has it."""


class EmbeddedError(ServerError):
    """An embedded server cannot be started; the message says why and what to do."""
