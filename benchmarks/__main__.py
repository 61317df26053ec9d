"""`python -m benchmarks`: run the works, or write the report from what they gave.

python -m benchmarks run --work W1,W4 --contestants perdure,floor,floor+rows --rounds 9
python -m benchmarks w6 [--option scale=0.1] [--smoke]
python -m benchmarks profile
python -m benchmarks report
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks import w1_w5
from benchmarks.compare import Plan
from benchmarks.driver import DriverFailed, parse_contestant
from benchmarks.line import explained
from benchmarks.processes import ProcessGone
from benchmarks.results import FOLDER, Stamp, append
from benchmarks.samples import NoSamples
from benchmarks.servers import running_servers
from benchmarks.work import WORK

_ALONE = {
    **{work: f"{work.upper()}, Perdure alone" for work in ("w6", "w7", "w8", "w9", "w10")},
    "profile": "where the time of W1 and W4 goes, in Perdure and in the floors",
}
_SMOKE_SCALE = 0.01


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line asks for; returns the exit code."""
    asked = _parser().parse_args(arguments)
    try:
        match asked.command:
            case "run":
                file = asyncio.run(w1_w5.run(asked.work, _plan(asked), smoke=asked.smoke, folder=asked.results))
                w1_w5.say(f"appended to {file}")
            case "report":
                importlib.import_module("benchmarks.report").main()
            case work:
                asyncio.run(_run_alone(work, dict(asked.option), smoke=asked.smoke, folder=asked.results))
    except (DriverFailed, ProcessGone, NoSamples) as error:
        sys.stderr.write(f"{explained(error)}\n")
        return 1
    return 0


async def _run_alone(work: str, options: Mapping[str, Any], *, smoke: bool, folder: Path) -> None:
    """One of W6 to W10, or the profile, on servers of its own."""
    module, stamp = importlib.import_module(f"benchmarks.{work}"), Stamp()
    options = {"scale": _SMOKE_SCALE, **options} if smoke else options
    with TemporaryDirectory(prefix="perdure-benchmark-") as scratch:
        async with running_servers(Path(scratch)) as servers:
            rows = await module.run(servers, options)
            versions = {"servers": await servers.versions()}
    for row in rows:
        w1_w5.say(json.dumps(row))
    file = append(stamp.result(work, versions=versions, settings=options, rows=rows, smoke=smoke), folder)
    w1_w5.say(f"appended to {file}")


def _plan(asked: argparse.Namespace) -> Plan:
    return Plan(
        contestants=asked.contestants, rounds=asked.rounds, runs=asked.runs, at_once=asked.at_once, alone=asked.alone,
        warm=asked.warm, tail_s=asked.tail,
    )  # fmt: skip


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="What a step costs.")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="W1 to W5 of one or more contestants, in interleaved rounds")
    run.add_argument("--work", type=_works, default=list(WORK), help="by commas; all by default")
    run.add_argument("--contestants", type=_contestants, default=_contestants("perdure"), help="by commas")
    run.add_argument("--rounds", type=int, default=9)
    run.add_argument("--runs", type=int, default=40, help="of each work in each round")
    run.add_argument("--at-once", type=int, default=20, help="how many of them are in flight")
    run.add_argument("--alone", type=int, default=3, help="runs one after another, for the latency")
    run.add_argument("--warm", type=int, default=20, help="runs at once before, which are not measured")
    run.add_argument(
        "--tail", type=float, default=11, help="seconds after the last run that count, for Temporal's timers"
    )
    for command in (run, *(commands.add_parser(name, help=text) for name, text in _ALONE.items())):
        command.add_argument("--smoke", action="store_true", help="as little as shows that it works")
        command.add_argument("--results", type=Path, default=FOLDER, help="the folder of result files")
        if command is not run:
            command.add_argument("--option", action="append", type=_option, default=[], help="NAME=JSON")
    commands.add_parser("report", help="write docs/performance.md from the result files")
    return parser


def _works(text: str) -> list[str]:
    works = text.upper().split(",")
    if unknown := [work for work in works if work not in WORK]:
        raise argparse.ArgumentTypeError(f"no work is called {', '.join(unknown)}")
    return works


def _contestants(text: str) -> list[Any]:
    try:
        return [parse_contestant(name) for name in text.split(",")]
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _option(text: str) -> tuple[str, Any]:
    name, _, value = text.partition("=")
    return name, json.loads(value)


if __name__ == "__main__":
    sys.exit(main())
