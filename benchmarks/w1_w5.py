"""W1 to W5: the command, its plan, and what it prints."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.compare import Comparison, Plan
from benchmarks.measure import ALL_ROLES, Measurement
from benchmarks.pairs import paired
from benchmarks.results import FOLDER, Stamp, append
from benchmarks.servers import running_servers

_SMOKE = {"rounds": 1, "runs": 2, "at_once": 2, "alone": 1, "warm": 1, "turns": 10, "tail_s": 0}


async def run(works: Sequence[str], plan: Plan, *, smoke: bool = False, folder: Path = FOLDER) -> Path:
    """Measure the contestants of a plan on each work; a line for each work is appended to the result file.

    Args:
        works: of W1 to W5.
        plan: how much.
        smoke: as little as shows that everything works.
        folder: of result files.

    Returns:
        The result file.

    Raises:
        DriverFailed: a contestant did not do its work. The works before are in the file.
        ProcessGone: one of its processes, or a server, ended.
    """
    plan = replace(plan, **_SMOKE) if smoke else plan
    file = folder
    with TemporaryDirectory(prefix="perdure-benchmark-") as scratch:
        async with running_servers(Path(scratch)) as servers:
            comparison = await Comparison.prepare(servers, plan, Path(scratch))
            for work in works:
                stamp = Stamp()
                measured: list[Measurement] = []
                async for measurement in comparison.rounds(work):
                    measured.append(measurement)
                    say(_line(measurement))
                result = stamp.result(
                    "pairs", versions={**comparison.versions, "servers": await servers.versions()},
                    settings=_settings(plan), measurements=measured, smoke=smoke,
                )  # fmt: skip
                file = append(result, folder)
                for ratio in ratios(measured):
                    say(ratio)
    return file


def say(text: str) -> None:
    """Tell the user, at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _settings(plan: Plan) -> dict[str, float]:
    return {name: getattr(plan, name) for name in ("rounds", "runs", "at_once", "alone", "warm", "turns", "tail_s")}


def _line(one: Measurement) -> str:
    cpu = one.cpu_ms_per_step
    parts = " ".join(f"{role} {cpu[role]:.1f}" for role in ALL_ROLES if role in cpu)
    memory = sum(used.pss_bytes for role, used in one.memory.items() if role == "worker") / 2**20
    return (
        f"{one.work} round {one.round} {one.contestant:28} {one.ms_per_step:7.1f} ms/step  "
        f"CPU ms/step {one.cpu_per_step():6.1f} ({parts})  {one.steps_per_second:5.0f} steps/s  {one.events:.0f} events  "
        f"history {one.history_bytes / 1e3:.0f} kB  stored {one.stored_bytes / 1e3:.0f} kB per run  "
        f"worker {memory:.0f} MiB  others {one.other_cpu:.0%}"
    )


def ratios(measured: Sequence[Measurement]) -> list[str]:
    """Each contestant against the first, in words."""
    names = list(dict.fromkeys(one.contestant for one in measured))
    by_name = {name: sorted((m for m in measured if m.contestant == name), key=lambda m: m.round) for name in names}
    first = by_name[names[0]]
    lines = [f"{names[0]}: median {median(m.ms_per_step for m in first):.1f} ms/step"]
    for name in names[1:]:
        latency = paired([m.ms_per_step for m in first], [m.ms_per_step for m in by_name[name]])
        cpu = paired([m.cpu_per_step() for m in first], [m.cpu_per_step() for m in by_name[name]])
        lines.append(
            f"{names[0]} / {name}: ms/step {latency.median:.2f} [{latency.low:.2f}, {latency.high:.2f}]  "
            f"CPU/step {cpu.median:.2f} [{cpu.low:.2f}, {cpu.high:.2f}]  {cpu.pairs} pairs"
        )
    return lines
