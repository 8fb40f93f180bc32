"""Base classes of the requests and responses of all views."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

LONGEST_NAME = 200
Name = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)]
Text = Annotated[str, Field(min_length=1)]  # the studio's limits bound its length
Models = Annotated[list[Name], Field(min_length=1, max_length=4)]
Limit = Annotated[int, Field(ge=2)] | None
Number = float | None  # None stands for what is no number
Matrix = list[list[float]]


class StudioRequest(BaseModel):
    """A request; unknown keys are refused."""

    model_config = ConfigDict(extra="forbid")


class PoolingRequest(StudioRequest):
    """A model and its pooling; the model's own settings are the defaults."""

    model: Name = "minilm"
    pooling: Name | None = None
    layer: Annotated[int, Field(ge=-100, le=100)] | None = None
    special_tokens: bool = True

    def options(self) -> dict[str, Any]:
        """The options of ``Encoder.with_pooling`` that the request gives."""
        special_tokens = None if self.special_tokens else False
        chosen = {"pooling": self.pooling, "layer": self.layer, "special_tokens": special_tokens}
        return {name: value for name, value in chosen.items() if value is not None}


def _open_schema(schema: dict[str, Any]) -> None:
    """Further keys need no type."""
    schema.pop("additionalProperties", None)


class StudioResponse(BaseModel):
    """A response; keys that the library adds are passed on."""

    model_config = ConfigDict(extra="allow", json_schema_extra=_open_schema)


class Estimate(StudioResponse):
    """A value with its 95 % interval."""

    value: Number
    low: Number
    high: Number


class ErrorResponse(BaseModel):
    """An error in one line that names the cure."""

    error: str


ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorResponse, "description": words}
    for status, words in {
        401: "no token", 403: "another origin, or a model that is not offered", 404: "not found", 409: "not now",
        413: "too large", 421: "another host", 422: "invalid request", 429: "too much is waiting",
        501: "needs a package that is not installed",
    }.items()
}  # fmt: skip
