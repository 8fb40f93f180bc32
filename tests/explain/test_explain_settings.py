"""The options of an explanation: declared once, and the same for Python and for the command line."""

from __future__ import annotations

import inspect
from dataclasses import fields
from typing import get_args, get_type_hints

import pytest
import typer

from likewise.cli.app import app
from likewise.encoder import modes
from likewise.encoder.similarity import MEASURES
from likewise.errors import UsageError
from likewise.explain import compare, contrast, explain, explain_many
from likewise.explain.linear_map import METHODS
from likewise.explain.settings import RULES, ExplainOptions, Option, Settings
from likewise.explain.texts import SPANS

HINTS = get_type_hints(ExplainOptions, include_extras=True)
OPTIONS: dict[str, Option] = {field.name: get_args(HINTS[field.name])[1] for field in fields(ExplainOptions)}


def test_choices_are_those_that_exist() -> None:
    assert modes.RULES == RULES
    assert set(OPTIONS["method"].choices) == METHODS.keys()
    assert OPTIONS["similarity"].choices == MEASURES
    assert OPTIONS["granularity"].choices == ("token", *SPANS)


@pytest.mark.slow
def test_every_field_is_an_option_of_the_command() -> None:
    command = typer.main.get_command(app).commands["explain"]  # type: ignore[attr-defined]
    found = {option.name: option for option in command.params}
    for name, option in OPTIONS.items():
        assert option.help.rstrip(".") in found[name].help, name
        assert all(choice in found[name].help for choice in option.choices), name


def test_keywords_are_taken_by_the_functions() -> None:
    named = set(inspect.signature(explain).parameters) & set(inspect.signature(explain_many).parameters)
    own = {field.name for field in fields(ExplainOptions)} - {field.name for field in fields(Settings)}
    assert own <= named
    options = ExplainOptions(granularity="word", fold_special=True)
    assert set(options.keywords()) == set(OPTIONS)
    settings = {field.name for field in fields(Settings)}
    for function in (contrast, compare):
        assert set(options.difference_keywords()) <= settings | set(inspect.signature(function).parameters)
    assert "granularity" not in ExplainOptions().keywords()


@pytest.mark.parametrize("options", [{"method": "hxp"}, {"rules": ("norm",)}, {"split": True}])
def test_differences_need_plain_bilrp(options: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="exact only by plain bilrp"):
        ExplainOptions(**options).difference_keywords()  # type: ignore[arg-type]
