"""The line between the harness and a driver: answers, errors, and drivers that die."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.driver import Contestant, DriverFailed, Place, parse_contestant, running
from benchmarks.line import closed_loop, explained, one_by_one
from benchmarks.work import WrongRun

MODULE = "tests.unit.benchmarks.scripted_driver"


def contestant(**options: Any) -> Contestant:
    return Contestant("scripted", MODULE, Path(sys.executable), options)


def place(tmp_path: Path) -> Place:
    return Place("127.0.0.1:1", "postgresql://nobody@127.0.0.1:1/none", tmp_path / "own")


async def test_a_driver_answers_and_what_it_prints_is_no_answer(tmp_path: Path) -> None:
    async with running(contestant(), place(tmp_path)) as driver:
        assert driver.versions == {"python": sys.version.split()[0]}
        assert list(driver.roles) == ["worker"]
        done = await driver.ask(do="runs", work="W1", runs=5, at_once=2)
        assert sorted(done["ids"]) == [f"run {number}" for number in range(5)]
        assert len(done["latencies_ms"]) == 5
        assert sum(done["latencies_ms"]) > 0 < done["wall_ms"]
        session = await driver.ask(do="turns", work="W5", turns=3)
        assert (session["ids"], len(session["latencies_ms"])) == ([str(tmp_path / "own")], 3)
        assert await driver.ask(do="stored", ids=["a", "b"]) == {"history_bytes": 2, "events": 0}
    assert (tmp_path / "own" / "driver.log").read_text().splitlines() == ["what a library prints", "stopped"]


async def test_a_run_with_a_wrong_answer_fails_the_measurement(tmp_path: Path) -> None:
    async with running(contestant(does="answer wrongly"), place(tmp_path)) as driver:
        with pytest.raises(DriverFailed, match=r"scripted: WrongRun: W1: the run ended with 'nonsense'"):
            await driver.ask(do="runs", work="W1", runs=5, at_once=2)


async def test_a_driver_that_dies_is_noticed(tmp_path: Path) -> None:
    with pytest.raises(DriverFailed, match="has ended"):
        async with running(contestant(does="die"), place(tmp_path)) as driver:
            await driver.ask(do="runs", work="W1", runs=1, at_once=1)


async def test_a_driver_that_does_not_start_says_why(tmp_path: Path) -> None:
    with pytest.raises(DriverFailed, match="OSError: no server"):
        async with running(contestant(does="not start"), place(tmp_path)):
            pytest.fail("it is not ready")


async def test_what_a_driver_cannot_do_is_an_error(tmp_path: Path) -> None:
    async with running(contestant(), place(tmp_path)) as driver:
        with pytest.raises(DriverFailed, match="cannot 'dance'"):
            await driver.ask(do="dance")
        assert await driver.ask(do="stored", ids=[]) == {"history_bytes": 0, "events": 0}


async def test_as_many_runs_are_in_flight_as_asked() -> None:
    flying = most = 0

    async def one(number: int) -> str:
        nonlocal flying, most
        flying += 1
        most = max(most, flying)
        await _yielded()
        flying -= 1
        return str(number)

    done = await closed_loop(one, 10, 3)
    assert most == 3
    assert sorted(done.ids, key=int) == [str(number) for number in range(10)]


async def test_turns_come_one_after_another_in_one_session() -> None:
    seen: list[int] = []

    async def one(turn: int) -> str:
        await _yielded()
        seen.append(turn)
        return "session"

    done = await one_by_one(one, 4)
    assert (seen, list(done.ids), len(done.latencies_ms)) == ([0, 1, 2, 3], ["session"], 4)


async def test_one_run_that_fails_fails_them_all() -> None:
    async def one(number: int) -> str:
        if number == 1:
            raise WrongRun("lost")
        return str(number)

    with pytest.raises(ExceptionGroup) as raised:
        await closed_loop(one, 4, 2)
    assert explained(raised.value) == "WrongRun: lost"


@pytest.mark.parametrize(
    ("name", "module", "options"),
    [
        ("perdure", "benchmarks.perdure_driver", {}),
        ("floor+rows", "benchmarks.floor_driver", {"rows": True}),
        ("perdure+workers=2+effect=none", "benchmarks.perdure_driver", {"workers": 2, "effect": "none"}),
        ("perdure+PERDURE_X=1", "benchmarks.perdure_driver", {"environment": {"PERDURE_X": "1"}}),
    ],
)
def test_a_contestants_name_holds_its_options(name: str, module: str, options: dict[str, Any]) -> None:
    assert parse_contestant(name) == Contestant(name, module, Path(sys.executable), options)


def test_a_contestant_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="no contestant 'nobody'"):
        parse_contestant("nobody+rows")


async def _yielded() -> None:
    """Let the others have their turn."""
    await asyncio.sleep(0)
