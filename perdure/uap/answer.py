"""What becomes of a model's answer before it counts: one meaning in both hosts."""

from __future__ import annotations

from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.prices import PriceTable, with_cost
from perdure.upp.provider import BoundLLMModel, LLMResponse


def accepted(response: LLMResponse, model: BoundLLMModel, prices: PriceTable) -> LLMResponse:
    """The answer with its cost, fit to stand in a conversation.

    Raises:
        UPPError: CONTENT_FILTERED if the vendor took out all of it: nothing is left that could be sent back.
    """
    if response.stop_reason == "content_filter" and not response.message.content:
        raise UPPError("the model's answer was filtered", ErrorCode.CONTENT_FILTERED, model.provider)
    return with_cost(response, prices, model.provider, model.model_id)
