"""The store and the returns of goods, served by `perdure dev` and walked by plain HTTP as their docstring says."""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.stage_walks import Walk, bodies, served
from tests.acceptance.terminal import ROOT, Forks


@pytest.fixture
def carrier() -> Iterator[tuple[str, dict[str, Any]]]:
    """Where the example's carrier is, and what it has sold."""
    spec = importlib.util.spec_from_file_location("example_carrier", ROOT / "examples" / "carrier.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    server = module.serve(0)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", module.sold
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_store_and_its_returns_are_walked(forks: Forks, folder: Path, carrier: tuple[str, dict[str, Any]]) -> None:
    """One App serves both: the class, and the document, whose HTTP call is made once for one key."""
    place, sold = carrier
    lines = bodies("stage_store")
    with served(forks, folder, "examples.stage_store:app", CARRIER_URL=place) as (terminal, url):
        names = [row["name"] for row in terminal("stages", "workflows", "--json").json["workflows"]]
        walk = Walk(url)
        for line in lines[:9]:
            walk.send(line)
        bought = terminal("stages", "state", walk.session, "--json").json["state"]
        for line in lines[9:]:
            walk.send(line)
        again = [walk.send(lines[-1], **{"Idempotency-Key": "label 2"}) for _ in range(2)]
        kept = terminal("stages", "state", walk.session, "--json").json["state"]
    assert names == ["goods_return", "store"]
    assert [status for status, _ in walk.replies[:9]] == [200, 200, 200, 200, 422, 200, 200, 200, 200]
    assert walk.replies[4][1]["missing"] == ["user.email"]
    receipt = walk.replies[7][1]["result"]
    assert (receipt["total_eur"], receipt["sent_to"]) == (24.5, "ada@example.org")
    assert bought == {"order.receipt": receipt}
    assert [status for status, _ in walk.replies[9:]] == [200] * 6
    assert again[0] == again[1]
    assert len(sold) == 2
    assert [sold[reply["action_id"]] for reply in again] == [again[0]["result"]] * 2
    assert kept == {"order": "A-1001", "label": again[0]["result"]}
