"""The wire of OpenAI's Responses API, and of the services that speak it.

A service's differences are its `Dialect`; the model that a user binds is made by `perdure.upp.providers.openai`.
"""

from perdure.upp.providers.openai_responses.dialect import OPENAI, Dialect
from perdure.upp.providers.openai_responses.model import ResponsesModel

__all__ = ["OPENAI", "Dialect", "ResponsesModel"]
