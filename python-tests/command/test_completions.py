"""Completions for bash, zsh and fish: every option of every subcommand, verbs, and the command behind dlock run NAME --."""
from __future__ import annotations

import os
import re
import shutil
import subprocess
from shlex import quote

import pytest

from harness.build import ROOT, clean_env
from harness.waiting import wait_until
from shell import PROGRAM, dlock
from test_live import Screen

FOLDER = ROOT / "tools/dlock/completions"
COMMANDS = re.findall(r"^  ([a-z]+) ", dlock("--help").stdout, re.M)
ENV = {**clean_env(), "PATH": os.path.dirname(PROGRAM) + ":" + os.environ["PATH"]}


def options(command: str) -> set[str]:
    """Those of the help."""
    said = dlock(command, "--help").stdout
    return {"--" + name for name in re.findall(r"--([a-z-]+)", said)} | {"--help"}


def shell(name: str, script: str) -> list[str]:
    if not shutil.which(name):
        pytest.skip(f"there is no {name}")
    done = subprocess.run([name, "-c", script], env=ENV, text=True, capture_output=True, check=True, timeout=30)
    assert not done.stderr
    return [line.partition("\t")[0] for line in done.stdout.splitlines()]


def bash(*words: str) -> set[str]:
    script = 'source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _dlock; printf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "-c", script, str(FOLDER / "dlock.bash"), "dlock", *words], env=ENV, text=True, capture_output=True, check=True)
    assert not done.stderr
    return set(done.stdout.split())


def fish(line: str) -> set[str]:
    return set(shell("fish", f"source {quote(str(FOLDER / 'dlock.fish'))}; complete -C '{line}'"))


@pytest.mark.parametrize("name, file", [("bash", "dlock.bash"), ("zsh", "_dlock"), ("fish", "dlock.fish")])
def test_syntax(name: str, file: str) -> None:
    if not shutil.which(name):
        pytest.skip(f"there is no {name}")
    subprocess.run([name, "-n", str(FOLDER / file)], env=ENV, check=True)


@pytest.mark.parametrize("command", COMMANDS)
def test_options(command: str) -> None:
    assert bash(command, "--") == options(command)
    assert {word for word in fish(f"dlock {command} --") if word.startswith("--")} == options(command)


def test_commands_verbs_and_values() -> None:
    assert bash("") >= set(COMMANDS) and {word for word in fish("dlock ") if not word.startswith("-")} == {*COMMANDS, "help"}
    assert bash("gate", "") == {"close", "open"} == fish("dlock gate ")
    assert bash("semaphore", "") == {"set", "add", "remove", "drain", "reclaim", "show"} == fish("dlock semaphore ")
    assert bash("run", "--kind", "") == {"mutex", "fair", "read", "write", "permit"} == fish("dlock run --kind ")
    assert bash("top", "--sort", "h") == {"holder", "held"} == fish("dlock top --sort h")


def test_the_command_that_is_run() -> None:
    assert "printenv" in bash("run", "job", "--", "printen") and "printenv" in fish("dlock run job -- printen")
    assert "--kind" not in bash("run", "job", "--", "env", "--") and "--kind" not in fish("dlock run job -- env --ki")


def tab(screen: Screen, number: int, line: str) -> None:
    """That line and Tab, on an empty screen. C-c may end no more than a completion that is still under way: C-u clears the line."""
    screen.type("C-c", "C-u", "Enter", f"clear; echo round $(({number}))", "Enter")
    screen.see(rf"round {number}\n%")
    screen.type(line, "Tab", "Tab")


def test_zsh(redis_server) -> None:
    """In a real one: what a person sees after Tab."""
    if not shutil.which("zsh") or not shutil.which("tmux"):
        pytest.skip("there is no zsh or no tmux")
    screen = Screen(redis_server.url, "version", width=200, height=60)
    try:
        screen.see("code=0")
        screen.tmux("respawn-pane", "-k", f"env PATH={quote(ENV['PATH'])} PS1='%% ' zsh -f -i")
        screen.see("%")
        screen.type(f"fpath=({quote(str(FOLDER))} $fpath); autoload -Uz compinit; compinit -u -D; echo loaded", "Enter")
        screen.see("\nloaded")
        for number, command in enumerate(COMMANDS):
            need = options(command) - {"--url"}  # a part of another one
            tab(screen, number, f"dlock {command} --")
            wait_until(lambda: need <= {*re.findall(r"--[a-z][a-z-]*", "\n".join(screen.lines()))})
        tab(screen, 100, "dlock gate ")
        screen.see("close +open")
        tab(screen, 101, "dlock run job -- printen")
        screen.see("printenv")
    finally:
        screen.close()
