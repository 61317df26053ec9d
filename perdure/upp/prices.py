"""What a model call costs, by a table that the user keeps: vendors' prices are not known to the code.

Source: Perdure's own; UPP's TokenUsage has no cost.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeAlias

from perdure.upp.provider import LLMResponse
from perdure.upp.usage import TokenUsage

_PER = 1000
_CACHE_IS_APART = frozenset({"anthropic"})
"""Providers whose input tokens leave out what the cache read and wrote; with all others they are part of the input."""


@dataclass(frozen=True, slots=True)
class Price:
    """What 1,000 tokens of one model cost, in whatever currency the whole table is in.

    Attributes:
        cache_read: of input that the vendor's cache gave; None means as `input`.
        cache_write: of input that went into the vendor's cache; None means as `input`.
    """

    input: Decimal
    output: Decimal
    cache_read: Decimal | None = None
    cache_write: Decimal | None = None


PriceTable: TypeAlias = Mapping[str, Mapping[str, Price]]
"""Prices by provider name and model id."""


def find_price(prices: PriceTable, provider: str, model_id: str) -> Price | None:
    """Returns a model's price, or None if the table has none."""
    return prices.get(provider, {}).get(model_id)


def with_cost(response: LLMResponse, prices: PriceTable, provider: str, model_id: str) -> LLMResponse:
    """Returns the response with `usage.cost`; the response itself if the model has no price or no token was counted.

    A server that counts no tokens says nothing of the cost, which is not the same as no cost.
    """
    price = find_price(prices, provider, model_id)
    if price is None or response.usage.is_empty:
        return response
    usage = dataclasses.replace(response.usage, cost=cost_of(response.usage, price, provider))
    return dataclasses.replace(response, usage=usage)


def cost_of(usage: TokenUsage, price: Price, provider: str) -> Decimal:
    """Returns what one model call cost, exactly."""
    read, written = usage.cache_read_tokens, usage.cache_write_tokens
    plain = usage.input_tokens if provider in _CACHE_IS_APART else max(usage.input_tokens - read - written, 0)
    total = (
        plain * price.input
        + usage.output_tokens * price.output
        + read * (price.input if price.cache_read is None else price.cache_read)
        + written * (price.input if price.cache_write is None else price.cache_write)
    )
    return total / _PER
