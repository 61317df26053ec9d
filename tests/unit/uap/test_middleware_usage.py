"""What model calls of middleware use."""

from __future__ import annotations

from decimal import Decimal

from perdure.uap.middleware_usage import MiddlewareUsage
from perdure.upp.prices import Price
from perdure.upp.providers.scripted import scripted
from perdure.upp.usage import TokenUsage

MODEL = scripted(["hello"]).bind()


def test_it_is_added_up_by_the_middlewares_name_with_its_cost() -> None:
    told: list[TokenUsage] = []
    used = MiddlewareUsage({MODEL.provider: {MODEL.model_id: Price(Decimal(1), Decimal(2))}}, told.append)
    for _ in range(2):
        used.add("memory", MODEL, TokenUsage(10, 5, 15))
    found = used.by_path("lead/scout")["lead/scout#memory"]
    assert (found.total_tokens, found.cost, len(told)) == (30, Decimal("0.04"), 2)


def test_its_cost_is_not_known_where_the_model_has_no_price() -> None:
    assert MiddlewareUsage().add("memory", MODEL, TokenUsage(10, 5, 15)).cost is None
