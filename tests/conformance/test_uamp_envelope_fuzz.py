"""Fifty thousand envelopes by chance over real sockets: each is taken, or refused with a code of the sender's fault. Never a 5xx."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from contextlib import aclosing
from urllib.parse import quote

import grpc

from tests.conformance.envelope_fuzz import VALUES, fuzzed, hash_of
from tests.conformance.envelope_lines import text_of
from tests.conformance.envelope_server import EnvelopeServer
from tests.conformance.uamp_agents import gate, plan
from tests.conformance.uamp_server import new_gate
from tests.scale import scaled

AT_ONCE = 8
SENT = scaled(50_000)


def share(of: int, number: int) -> int:
    """How many of them one of those who send at once has."""
    return of // AT_ONCE + (number < of % AT_ONCE)


async def test_e60_fuzzed_envelopes_over_http_give_no_5xx(envelopes: EnvelopeServer) -> None:
    """And none passes that its peer has not signed as it is."""
    codes = Counter[str]()

    async def send(number: int) -> None:
        chance = random.Random(number)
        async with envelopes.http("ann" if number % 2 else "edd") as line:
            for _ in range(share(SENT, number)):
                case = fuzzed(chance, line.peer)
                response = await line.post(case.data, content_type=case.media_type)
                assert response.status_code < 500, (response.status_code, response.text, case.data)
                if response.status_code == 202:
                    assert hash_of(case.data) in case.may_pass, case.data
                    codes["taken"] += 1
                    continue
                problem = response.json()
                codes[problem["code"]] += 1
                assert problem["code"].startswith("4."), problem
                assert {"message", "retryable", "status", "title"} <= set(problem)
                assert "Traceback" not in response.text

    await asyncio.gather(*(send(number) for number in range(AT_ONCE)))
    assert sum(codes.values()) == SENT
    assert codes["taken"] > SENT // 50, codes
    assert {"4.00", "4.01", "4.03", "4.04", "4.15"} <= set(codes), codes


async def test_e60_fuzzed_envelopes_over_grpc_give_no_internal_error(envelopes: EnvelopeServer) -> None:
    chance = random.Random(51)
    fine = {"INVALID_ARGUMENT", "UNAUTHENTICATED", "PERMISSION_DENIED", "NOT_FOUND", "UNIMPLEMENTED", "ALREADY_EXISTS"}
    async with envelopes.grpc("ann") as line:
        for _ in range(scaled(5_000)):
            case = fuzzed(chance, line.peer)
            try:
                await line.send(case.data, case.media_type)
            except grpc.aio.AioRpcError as error:
                assert error.code().name in fine | {"RESOURCE_EXHAUSTED"}, (error, case.data)  # noqa: PT017
            else:
                assert hash_of(case.data) in case.may_pass, case.data


async def test_e60_fuzzed_envelopes_over_a_websocket_give_no_internal_error(envelopes: EnvelopeServer) -> None:
    """Whoever is hung up on connects anew."""
    chance = random.Random(50)
    left = scaled(5_000)
    while left:
        async with envelopes.socket("ann") as line:
            closing = False
            while left and not closing:
                left -= 1
                case = fuzzed(chance, line.peer)
                await line.send(case.data)
                told = await line.receive()
                while "delta_seq" in told:
                    told = await line.receive()
                if told["intent"] == "progress":
                    assert hash_of(case.data) in case.may_pass, case.data
                    continue
                code = json.loads(told["body"]["content"])["code"]
                assert code.startswith("4."), (code, case.data)
                closing = code in ("4.01", "4.03", "4.13")
            if closing:
                await line.socket.wait_closed()
                assert line.socket.close_code in (4401, 4403, 1009)


async def test_e60_odd_stream_ids_and_resume_points_give_no_5xx(envelopes: EnvelopeServer) -> None:
    chance = random.Random(33)
    texts = [value for value in VALUES if isinstance(value, str) and "\ud800" not in value and "\udc00" not in value]
    async with envelopes.http("ann") as line:
        asked = await line.ask("hello")
        for _ in range(scaled(2_000)):
            place = chance.choice((asked.location, "/v1/stream/" + quote(chance.choice(texts), safe="")))
            last = chance.choice(
                ("", "0", "-1", "1e3", "9" * 17, "9" * 400, "x", "0x1", "18446744073709551616", "²", "1 ")
            )
            headers = [(b"last-event-id", last.encode())]
            async with line.http.stream("GET", place, headers=headers) as response:
                assert response.status_code < 500, (place, last, await response.aread())


async def test_e31_a_stream_outlives_a_thousand_requests_beside_it(envelopes: EnvelopeServer) -> None:
    """A consumer ACKs on the connection on which it reads; no number of ACKs breaks that off."""
    held = new_gate()
    async with envelopes.http("ann") as line:
        asked = await line.ask(plan({"say": ["a ", gate(held), "b"]}))
        async with aclosing(line.follow(asked.location)) as coming:
            found = [await anext(coming)]
            while found[-1]["type"] != "chunk":
                found.append(await anext(coming))
            for _ in range(1100):
                assert (await line.http.get("/health")).status_code == 200
            envelopes.open_gate(held)
            assert text_of(found + [delta async for delta in coming]) == "a b"
