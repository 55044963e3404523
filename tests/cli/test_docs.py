"""No command and no option goes undocumented."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from retcon.cli import main
from tests.cli.conftest import Retcon

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"
COMMANDS = {name: main.command_of(name) for name in main.COMMANDS}


def section(command: str) -> str:
    found = re.search(rf"^## {command}\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert found is not None, f"docs/reference/cli.md has no section on {command}"
    return found[1]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_documented_with_an_example_and_all_of_its_options(command: str) -> None:
    text = section(command)
    assert f"retcon {command}" in text
    assert "```sh" in text
    for parameter in COMMANDS[command].params:
        if parameter.param_type_name == "argument":
            assert parameter.metavar in text, f"{command} {parameter.metavar}"
            continue
        for spelling in parameter.opts:
            assert f"`{spelling}" in text, f"{command} {spelling}"


def test_no_command_is_documented_that_isnt_there() -> None:
    sections = re.findall(r"^## ([a-z]+)$", PAGE.read_text(), re.MULTILINE)
    assert sections == list(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_commands_help_has_an_example(retcon: Retcon, command: str) -> None:
    answer = retcon(command, "--help")
    assert answer.code == 0
    assert re.search(rf"^  Example:\n    retcon {command}\b", answer.out, re.MULTILINE)


def test_every_option_has_a_help() -> None:
    for name, command in COMMANDS.items():
        for parameter in command.params:
            assert parameter.param_type_name == "argument" or parameter.help, f"{name} {parameter.name}"
