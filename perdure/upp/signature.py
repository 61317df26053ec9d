"""The parameters of a typed function as JSON Schema, and a model's arguments as that function's keyword arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaWarningKind

from perdure.errors import InvalidInput
from perdure.upp.docstring import read_docstring
from perdure.upp.json_value import JSONObject, well_formed
from perdure.upp.tools import ToolContext


@dataclass(frozen=True, slots=True)
class Signature:
    """A function's parameters.

    Attributes:
        schema: JSON Schema 2020-12 of type object; one property per parameter that the model fills.
        hidden: the parameters that whoever calls the function fills, such as the ToolContext, with their types.
    """

    schema: JSONObject
    hidden: dict[str, type]
    _model: type[BaseModel]
    _names: dict[str, str]
    _without_default: frozenset[str]

    @property
    def context_parameters(self) -> tuple[str, ...]:
        """Names of the hidden parameters."""
        return tuple(self.hidden)

    def bind(self, arguments: JSONObject) -> dict[str, object]:
        """Returns validated and coerced keyword arguments; parameters that the model left out are left out.

        Strings with lone surrogates are passed as they are where pydantic takes them; where it does not (keys,
        constrained strings), all surrogates are replaced for this call as `well_formed` says.

        Raises:
            InvalidInput: the arguments do not fit; the message lists every misfit with its path.
        """
        try:
            bound = self._model.model_validate(arguments)
        except (ValidationError, UnicodeError):
            try:
                bound = self._model.model_validate(well_formed(arguments))
            except ValidationError as error:
                raise InvalidInput(_describe(error)) from error
        given = bound.model_fields_set | self._without_default
        return {name: getattr(bound, field) for field, name in self._names.items() if field in given}


def read_signature(
    function: Callable[..., object],
    names: Mapping[str, object],
    *,
    what: str = "tool function",
    hidden: tuple[type, ...] = (ToolContext,),
) -> Signature:
    """Returns the parameters of a function.

    Args:
        function: a function whose parameters are all annotated.
        names: what annotations written as strings may refer to besides the function's module.
        what: what errors call the function.
        hidden: the types of the parameters that the model does not fill.

    Raises:
        InvalidInput: a parameter is positional-only, variadic or has no annotation, or an annotation cannot be
            resolved or has no JSON Schema.
    """
    label = f"{what} {getattr(function, '__qualname__', repr(function))}"
    parameters = inspect.signature(function).parameters
    for parameter in parameters.values():
        _check_kind(parameter, label)
    hints = _resolve(function, parameters, names, label)
    kinds = {name: kind for name in parameters if (kind := _hidden_type(hints[name], hidden)) is not None}
    docs = read_docstring(function).parameters
    # Fields get neutral names: a parameter may be called like an attribute of BaseModel, or begin with "_".
    visible = [name for name in parameters if name not in kinds]
    names_of_fields = {f"p{index}": name for index, name in enumerate(visible)}
    fields: dict[str, Any] = {
        field: _to_field(parameters[name], hints[name], docs.get(name)) for field, name in names_of_fields.items()
    }
    without_default = frozenset(
        field for field, name in names_of_fields.items() if not _has_plain_default(parameters[name])
    )
    model, schema = _build(label, fields)
    return Signature(schema, kinds, model, names_of_fields, without_default)


def _build(label: str, fields: dict[str, Any]) -> tuple[type[BaseModel], JSONObject]:
    try:
        model = create_model(label, __config__=_CONFIG, **fields)
        schema = model.model_json_schema(schema_generator=ParameterSchema)
    except Exception as error:
        raise InvalidInput(f"{label}: its parameters have no JSON Schema: {error}") from error
    schema.pop("title", None)
    schema.setdefault("properties", {})
    return model, schema


_CONFIG = ConfigDict(extra="forbid", arbitrary_types_allowed=False, protected_namespaces=())


class ParameterSchema(GenerateJsonSchema):
    """Without the titles that only repeat names, and without warnings for defaults that have no JSON form."""

    def emit_warning(self, kind: JsonSchemaWarningKind, detail: str) -> None:
        return

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def _has_plain_default(parameter: inspect.Parameter) -> bool:
    """Whether Python itself fills the parameter; `Field(default=...)` as a default is for pydantic to fill."""
    return parameter.default is not parameter.empty and not isinstance(parameter.default, FieldInfo)


def _check_kind(parameter: inspect.Parameter, label: str) -> None:
    if parameter.kind is parameter.POSITIONAL_ONLY:
        problem = "is positional-only; models pass arguments by name, remove the '/'"
    elif parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        problem = "is variadic; declare each parameter, or one dict or list"
    elif parameter.annotation is parameter.empty:
        problem = "has no annotation; the model must be told its type"
    else:
        return
    raise InvalidInput(f"{label}: parameter '{parameter.name}' {problem}")


def _resolve(
    function: Callable[..., object],
    parameters: Mapping[str, inspect.Parameter],
    names: Mapping[str, object],
    label: str,
) -> dict[str, Any]:
    """Returns the parameters' annotations as types; the return annotation is not looked at."""
    annotations = {name: parameter.annotation for name, parameter in parameters.items()}
    module_names: dict[str, Any] = getattr(inspect.unwrap(function), "__globals__", {})
    try:
        return get_type_hints(
            SimpleNamespace(__annotations__=annotations), module_names, dict(names), include_extras=True
        )
    except Exception as error:
        raise InvalidInput(f"{label}: an annotation cannot be resolved: {error}") from error


def _hidden_type(annotation: Any, hidden: tuple[type, ...]) -> type | None:
    if get_origin(annotation) in (Annotated, Union, UnionType):
        kinds = (_hidden_type(part, hidden) for part in get_args(annotation))
        return next((kind for kind in kinds if kind is not None), None)
    return next((kind for kind in hidden if annotation is kind), None)


def _to_field(parameter: inspect.Parameter, annotation: Any, doc: str | None) -> tuple[Any, Any]:
    """Returns what `create_model` takes; our alias and description come first, so that the user's own win."""
    own = Field(alias=parameter.name, description=doc)
    if get_origin(annotation) is Annotated:
        base, *extras = get_args(annotation)
        annotation = Annotated[(base, own, *extras)]
    else:
        annotation = Annotated[annotation, own]
    return annotation, (... if parameter.default is parameter.empty else parameter.default)


def _describe(error: ValidationError) -> str:
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    return "; ".join(f"{'.'.join(map(str, problem['loc'])) or 'arguments'}: {problem['msg']}" for problem in problems)
