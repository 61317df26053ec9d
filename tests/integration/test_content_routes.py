"""Media over HTTP: a real server before a database with keys, two tenants, and strangers with signed addresses."""

from __future__ import annotations

import asyncio
import hashlib
import os
import uuid
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

from perdure.api.principal import Scope
from perdure.store.keyring import new_key
from tests.integration import access_stage
from tests.integration.api_server import ApiProcess, checked, code_of
from tests.integration.stack import Stack, eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

MAX_BYTES = 200_000
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8
MINE, THEIRS = "acme", "other"


@dataclass(frozen=True)
class Place:
    """The server, and a key of each tenant that may do all but administer."""

    api: ApiProcess
    database_url: str
    mine: str
    reader: str
    theirs: str

    @asynccontextmanager
    async def client(self, key: str | None = None) -> AsyncGenerator[httpx.AsyncClient]:
        """A caller; by default of the tenant that owns what is stored here, "" for a stranger."""
        shown = self.mine if key is None else key
        headers = {"Authorization": f"Bearer {shown}"} if shown else {}
        async with httpx.AsyncClient(base_url=self.api.url, headers=headers, timeout=60) as client:
            yield client


@pytest.fixture(scope="module")
def place(stack: Stack) -> Iterator[Place]:
    with access_stage.own_database(stack) as url:

        def key(tenant: str, *scopes: Scope) -> str:
            return asyncio.run(access_stage.make_key(url, tenant, *scopes, name=f"{tenant}-app"))

        bounds = {"PERDURE_MAX_CONTENT_BYTES": str(MAX_BYTES), "PERDURE_MAX_REQUEST_BYTES": "2048"}
        keys = {"PERDURE_ENCRYPTION_KEYS": new_key("first")}
        api = ApiProcess(stack, PERDURE_DATABASE_URL=url, **bounds, **keys).wait_ready()
        both = (Scope.READ, Scope.RUN)
        yield Place(api, url, key(MINE, *both), key(MINE, Scope.READ), key(THEIRS, *both))
        api.kill()


async def put(client: httpx.AsyncClient, body: bytes = PNG, kind: str = "image/png", **query: Any) -> dict[str, Any]:
    response = await client.post("/api/content", content=body, headers={"content-type": kind}, params=query)
    return checked(response, 201)


async def test_what_is_uploaded_is_shown_byte_for_byte(place: Place) -> None:
    """Raw, of any type, also JSON that no request could nest so deeply; with the name that a header or the query gives."""
    named = {"content-type": "image/png", "content-disposition": "attachment; filename*=UTF-8''p%C3%A4ge.png"}
    async with place.client() as client:
        for body, headers, query in (
            (PNG, named, {}),
            (b"[" * 5000, {"content-type": "application/json"}, {"filename": "deep.json"}),
            (b"", {}, {}),
            (os.urandom(MAX_BYTES), {"content-type": "application/octet-stream"}, {}),
        ):
            response = await client.post("/api/content", content=body, headers=headers, params=query)
            made = checked(response, 201)
            assert response.headers["location"] == made["url"] == f"/api/content/{made['content_id']}"
            assert (made["size_bytes"], made["sha256"]) == (len(body), hashlib.sha256(body).hexdigest())
            assert made["made_by"] == "acme-app"
            shown = await client.get(made["url"])
            assert (shown.status_code, shown.content) == (200, body)
            assert shown.headers["content-type"] == headers.get("content-type", "application/octet-stream")
            assert made["filename"] == {PNG: "päge.png", b"[" * 5000: "deep.json"}.get(body)
        first = checked(await client.get("/api/content", params={"limit": 1}))
        rest = checked(await client.get("/api/content", params={"after": first["next"], "limit": 1000}))
        assert [item["size_bytes"] for item in [*first["contents"], *rest["contents"]][:4]] == [
            MAX_BYTES,
            0,
            5000,
            len(PNG),
        ]
        assert rest["next"] is None


async def test_a_form_with_one_file_is_an_upload(place: Place) -> None:
    async with place.client() as client:
        made = checked(await client.post("/api/content", files={"file": ("a b.png", PNG, "image/png")}), 201)
        assert (made["filename"], made["media_type"], made["size_bytes"]) == ("a b.png", "image/png", len(PNG))
        assert (await client.get(made["url"])).content == PNG
        for wrong in ({"other": ("x", b"x")}, [("file", ("x", b"x")), ("file", ("y", b"y"))]):
            response = await client.post("/api/content", files=wrong)
            assert code_of(response, response.status_code) in ("invalid_input", "bad_request")
            assert response.status_code in (400, 422)


async def test_an_id_of_ones_own_stores_once(place: Place) -> None:
    """Ten at once too; other bytes are refused, and nothing is changed."""
    ident = str(uuid.uuid4())

    async def send(body: bytes) -> httpx.Response:
        return await client.post("/api/content", content=body, params={"id": ident})

    async with place.client() as client:
        sent = await asyncio.gather(*(send(PNG) for _ in range(10)))
        assert sorted(response.status_code for response in sent) == [200] * 9 + [201]
        assert {response.json()["content_id"] for response in sent} == {ident}
        assert code_of(await send(b"other"), 409) == "key_conflict"
        assert (await client.get(f"/api/content/{ident}")).content == PNG


@pytest.mark.parametrize(
    ("headers", "query", "said"),
    [
        ({"content-type": "png"}, {}, "must be like image/png"),
        ({}, {"id": "../../etc/passwd"}, "must be a UUID"),
        ({}, {"filename": "../x"}, "without slashes"),
        ({}, {"expires_s": 0}, "greater than 0"),
    ],
    ids=["type", "id", "name", "time"],
)
async def test_bad_uploads_are_refused_by_name(
    place: Place, headers: dict[str, str], query: dict[str, Any], said: str
) -> None:
    async with place.client() as client:
        response = await client.post("/api/content", content=b"x", headers=headers, params=query)
        assert code_of(response, 422) == "invalid_input"
        assert said in response.json()["detail"]


async def test_too_much_is_refused_and_nothing_is_stored(place: Place) -> None:
    """By the length that is told, and by what comes; only here: other requests have their own bound."""

    async def chunks() -> AsyncGenerator[bytes]:
        for _ in range(MAX_BYTES // 1000 + 200):
            yield b"x" * 1000

    async with place.client() as client:
        before = checked(await client.get("/api/content", params={"limit": 1}))["contents"]
        for body in (b"x" * (MAX_BYTES + 1), b"x" * (MAX_BYTES * 2), chunks()):
            response = await client.post("/api/content", content=body)
            assert code_of(response, 413) == "too_large"
            assert "PERDURE_MAX_CONTENT_BYTES" in response.json()["detail"]
        form = await client.post("/api/content", files={"file": ("x", b"x" * (MAX_BYTES + 1))})
        assert code_of(form, 413) == "too_large"
        assert checked(await client.get("/api/content", params={"limit": 1}))["contents"] == before
        other = await client.post("/api/sessions", content=b" " * 3000, headers={"content-type": "application/json"})
        assert code_of(other, 413) == "too_large"
        assert "PERDURE_MAX_REQUEST_BYTES" in other.json()["detail"]


async def test_ranges_and_tags(place: Place) -> None:
    """As players and browsers ask: 206 with the bytes, 416 behind the end, 304 for what they have, HEAD without a body."""
    async with place.client() as client:
        made = await put(client)
        url, tag = made["url"], f'"{made["sha256"]}"'
        whole = await client.get(url)
        assert (whole.headers["etag"], whole.headers["accept-ranges"]) == (tag, "bytes")
        for header, start, part in (
            ("bytes=0-3", 0, PNG[:4]),
            ("bytes=2000-", 2000, PNG[2000:]),
            ("bytes=-5", len(PNG) - 5, PNG[-5:]),
        ):
            given = await client.get(url, headers={"range": header})
            assert (given.status_code, given.content) == (206, part)
            assert given.headers["content-range"] == f"bytes {start}-{start + len(part) - 1}/{len(PNG)}"
            assert given.headers["content-length"] == str(len(part))
        beyond = await client.get(url, headers={"range": f"bytes={len(PNG)}-"})
        assert code_of(beyond, 416) == "range_not_satisfiable"
        assert beyond.headers["content-range"] == f"bytes */{len(PNG)}"
        changed = await client.get(url, headers={"range": "bytes=0-3", "if-range": '"other"'})
        assert (changed.status_code, changed.content) == (200, PNG)
        had = await client.get(url, headers={"if-none-match": f'"x", W/{tag}'})
        assert (had.status_code, had.content, had.headers["etag"]) == (304, b"", tag)
        head = await client.head(url)
        assert (head.status_code, head.content, head.headers["content-length"]) == (200, b"", str(len(PNG)))
        assert head.headers["content-type"] == "image/png"


@pytest.mark.parametrize(
    ("kind", "disposition"),
    [
        ("image/png", "inline"), ("audio/wav", "inline"), ("text/plain; charset=utf-8", "inline"),
        ("text/html", "attachment"), ("image/svg+xml", "attachment"), ("application/javascript", "attachment"),
    ],
)  # fmt: skip
async def test_active_media_is_never_run_here(place: Place, kind: str, disposition: str) -> None:
    """A page that somebody has uploaded must not act in this server's name."""
    async with place.client() as client:
        made = await put(client, b"<script>1</script>", kind, filename='a "q".x')
        shown = await client.get(made["url"])
        assert shown.headers["content-type"] == kind
        assert shown.headers["x-content-type-options"] == "nosniff"
        expected = f"{disposition}; filename=\"a _q_.x\"; filename*=UTF-8''a%20%22q%22.x"
        assert shown.headers["content-disposition"] == expected
        assert ("sandbox" in shown.headers.get("content-security-policy", "")) is (disposition == "attachment")


async def test_a_signed_address_shows_one_piece_to_strangers_for_a_while(place: Place) -> None:
    async with place.client() as client, place.client("") as stranger:
        made, other = await put(client), await put(client, b"other")
        signed = checked(await client.post(f"{made['url']}/url", params={"for_s": 60}))
        assert signed["url"].startswith(f"{made['url']}?")
        shown = await stranger.get(signed["url"], headers={"range": "bytes=0-3"})
        assert (shown.status_code, shown.content) == (206, PNG[:4])
        assert (await stranger.head(signed["url"])).headers["content-length"] == str(len(PNG))
        query = signed["url"].partition("?")[2]
        longer = query.replace("expires=", "expires=9")
        for path, given in ((other["url"], query), (made["url"], longer), (f"/api/content/{uuid.uuid4()}", query)):
            refused = await stranger.get(f"{path}?{given}")
            assert code_of(refused, 403) == "bad_signature"
        assert code_of(await stranger.get(made["url"]), 401) == "unauthenticated"
        assert code_of(await stranger.delete(signed["url"]), 401) == "unauthenticated"
        assert code_of(await client.get(f"{made['url']}?{urlencode({'signature': 'x'})}"), 403) == "bad_signature"
        short = checked(await client.post(f"{made['url']}/url", params={"for_s": 1}))

        async def over() -> bool:
            return (await stranger.get(short["url"])).status_code == 403

        await eventually(over, what="the end of the address")
        assert code_of(await client.post(f"{made['url']}/url", params={"for_s": 10**9}), 422) == "invalid_input"


async def test_another_tenant_finds_nothing(place: Place) -> None:
    """To the letter as of what is not there; and a reader neither stores nor deletes nor signs."""
    nobodys = str(uuid.uuid4())
    async with place.client() as client, place.client(place.theirs) as other, place.client(place.reader) as reader:
        made = await put(client)
        ident = made["content_id"]
        assert (await reader.get(made["url"])).content == PNG
        for method, path in (("GET", ""), ("HEAD", ""), ("DELETE", ""), ("POST", "/url")):
            refused = await other.request(method, f"/api/content/{ident}{path}")
            unknown = await other.request(method, f"/api/content/{nobodys}{path}")
            assert (refused.status_code, unknown.status_code) == (404, 404)
            assert refused.text.replace(ident, "?") == unknown.text.replace(nobodys, "?")
        assert checked(await other.get("/api/content"))["contents"] == []
        taken = await other.post("/api/content", content=PNG, params={"id": ident})
        assert code_of(taken, 409) == "key_conflict"
        for method, path in (("POST", "/api/content"), ("DELETE", made["url"]), ("POST", f"{made['url']}/url")):
            assert code_of(await reader.request(method, path), 403) == "forbidden"
        assert (await client.delete(made["url"])).status_code == 204
        assert code_of(await client.get(made["url"]), 404) == "unknown_content"
        assert code_of(await client.delete(made["url"]), 404) == "unknown_content"


async def test_media_is_sealed_and_goes_when_its_time_is_over(place: Place) -> None:
    """Neither the bytes nor the file's name can be read in the database; the sweep deletes what is over."""
    body = b"a sentence that nobody may read" * 10
    async with place.client() as client:
        lasting = await put(client, body, "text/plain", filename="secret-name.txt", expires_s=3600)
        assert lasting["expires_at"] is not None
        query = "select encode(bytes, 'escape'), filename #>> '{}' from perdure.contents where id = "
        ((stored, name),) = await access_stage.rows(place.database_url, f"{query}'{lasting['content_id']}'")
        assert "a sentence" not in stored
        assert "secret-name" not in name
        assert (await client.get(lasting["url"])).content == body
        gone = await put(client, body, "text/plain", expires_s=0.2)

        async def deleted() -> bool:
            counted = f"select 1 from perdure.contents where id = '{gone['content_id']}'"
            return await access_stage.rows(place.database_url, counted) == []

        await eventually(deleted, what="the deletion of what is over")
        assert code_of(await client.get(gone["url"]), 404) == "unknown_content"
        assert (await client.get(lasting["url"])).status_code == 200
