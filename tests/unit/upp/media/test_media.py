"""Media by path, address and bytes, as blocks of messages."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from perdure.errors import InvalidInput
from perdure.upp.content import AudioBlock, DocumentBlock, ImageBlock, TextBlock, VideoBlock
from perdure.upp.errors import ErrorCode, UPPError
from perdure.upp.media import Audio, Document, Image, Media, Video
from perdure.upp.media_source import Base64Source, BytesSource, TextSource, UrlSource
from perdure.upp.messages import AssistantMessage, UserMessage

DATA = b"\x89PNG\x00\xff"
BASE64 = "iVBORwD/"
URL = "https://example.org/a/cat.webp?size=2#top"


def test_an_image_of_bytes_is_all_it_can_be() -> None:
    image = Image.from_bytes(DATA, "image/png")
    assert (image.to_bytes(), image.to_base64(), image.has_data) == (DATA, BASE64, True)
    assert image.to_data_url() == f"data:image/png;base64,{BASE64}"
    assert image.to_block() == ImageBlock(BytesSource(DATA), "image/png")


def test_an_image_of_base64_keeps_it() -> None:
    image = Image.from_base64(BASE64, "image/png")
    assert (image.source, image.to_bytes(), image.to_base64()) == (Base64Source(BASE64), DATA, BASE64)


def test_an_image_by_address_has_no_data() -> None:
    image = Image.from_url(URL)
    assert (image.to_url(), image.has_data, image.to_block()) == (URL, False, ImageBlock(UrlSource(URL), "image/webp"))


@pytest.mark.parametrize(
    ("url", "given", "kind"),
    [
        ("https://x.org/a.PNG", None, "image/png"),
        ("https://x.org/a%2Ejpg", None, "image/jpeg"),
        ("https://x.org/a.png", "image/gif", "image/gif"),
        ("https://x.org/image", None, "image/jpeg"),
        ("https://x.org/image.php", None, "image/jpeg"),
    ],
)
def test_an_address_says_the_kind(url: str, given: str | None, kind: str) -> None:
    assert Image.from_url(url, given).mime_type == kind


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "cat.png", "https://", "data:image/png;base64,AA==", "http://[::"]
)
def test_what_is_no_web_address_is_refused(url: str) -> None:
    for make in (Image.from_url, Document.from_url):
        with pytest.raises(InvalidInput, match="must be a URL"):
            make(url)


@pytest.mark.parametrize("ask", ["to_bytes", "to_base64", "to_data_url"])
@pytest.mark.parametrize("media", [Image.from_url(URL), Document.from_url(URL)], ids=["image", "document"])
def test_data_of_an_address_is_refused(media: Image | Document, ask: str) -> None:
    """Nothing is fetched."""
    with pytest.raises(UPPError, match="is a URL; fetch it and use from_bytes") as caught:
        getattr(media, ask)()
    assert caught.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    "media", [Image.from_bytes(DATA, "image/png"), Document.from_text("x")], ids=["image", "document"]
)
def test_the_address_of_data_is_refused(media: Image | Document) -> None:
    with pytest.raises(UPPError, match="no URL; use to_data_url"):
        media.to_url()


@pytest.mark.parametrize("data", ["iVBORwD", "not base64!", "AA==\n", "ÿ"])
@pytest.mark.parametrize("kind", [Image, Document, Audio, Video])
def test_base64_that_is_none_is_refused_when_made(kind: type[Image | Document | Audio | Video], data: str) -> None:
    with pytest.raises(UPPError, match="no base64") as caught:
        kind.from_base64(data, "image/png")
    assert caught.value.code is ErrorCode.INVALID_REQUEST


def test_a_document_of_bytes_is_a_pdf() -> None:
    document = Document.from_bytes(b"%PDF", title="Terms")
    assert (document.is_pdf, document.is_text, document.to_bytes()) == (True, False, b"%PDF")
    assert document.to_block() == DocumentBlock(Base64Source("JVBERg=="), "application/pdf", "Terms")
    with pytest.raises(UPPError, match=r"type application/pdf has no plain text"):
        document.to_text()


def test_a_document_of_text_keeps_it() -> None:
    document = Document.from_text("naïve")
    assert (document.to_text(), document.is_text, document.to_bytes()) == ("naïve", True, "naïve".encode())
    assert document.to_block() == DocumentBlock(TextSource("naïve"), "text/plain")
    assert document.to_data_url() == "data:text/plain;base64,bmHDr3Zl"


def test_a_text_with_half_a_character_has_bytes() -> None:
    assert Document.from_text("\ud83c").to_bytes() == "\ufffd".encode()


def test_base64_of_text_is_text() -> None:
    assert Document.from_base64("bmHDr3Zl", "text/plain").to_text() == "naïve"
    with pytest.raises(UPPError, match="no UTF-8"):
        Document.from_base64("/w==", "text/plain").to_text()


@pytest.mark.parametrize(
    ("media", "block"),
    [
        (Audio.from_bytes(b"ab", "audio/wav", 1.5), AudioBlock(b"ab", "audio/wav", 1.5)),
        (Audio.from_base64("YWI=", "audio/wav"), AudioBlock(b"ab", "audio/wav")),
        (Video.from_bytes(b"ab", "video/mp4"), VideoBlock(b"ab", "video/mp4")),
        (Video(b"ab", "video/mp4", 2.0, 3, 4), VideoBlock(b"ab", "video/mp4", 2.0, 3, 4)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_sound_and_film_have_their_data(media: Audio | Video, block: AudioBlock | VideoBlock) -> None:
    assert media.to_block() == block
    assert (media.size, media.to_bytes(), media.to_base64(), media.has_data) == (2, b"ab", "YWI=", True)
    assert media.to_data_url() == f"data:{media.mime_type};base64,YWI="


@pytest.mark.parametrize(
    ("kind", "block"),
    [
        (Image, ImageBlock(UrlSource("u"), "image/png", 1, 2)),
        (Document, DocumentBlock(TextSource("t"), "text/plain", "title")),
        (Audio, AudioBlock(b"a", "audio/wav", 1.0)),
        (Video, VideoBlock(b"a", "video/mp4", 1.0, 2, 3)),
    ],
    ids=["image", "document", "audio", "video"],
)
def test_a_block_comes_back_whole(kind: Any, block: Any) -> None:
    assert kind.from_block(block).to_block() == block


@pytest.mark.parametrize(
    ("kind", "name", "mime_type"),
    [
        (Image, "a.png", "image/png"),
        (Image, "a.JPG", "image/jpeg"),
        (Image, "a.webp", "image/webp"),
        (Image, "a.avif", "image/avif"),
        (Audio, "a.wav", "audio/wav"),
        (Audio, "a.mp3", "audio/mpeg"),
        (Audio, "a.flac", "audio/flac"),
        (Audio, "a.m4a", "audio/mp4"),
        (Audio, "a.ogg", "audio/ogg"),
        (Video, "a.mp4", "video/mp4"),
        (Video, "a.webm", "video/webm"),
    ],
)
async def test_a_file_is_of_its_extensions_kind(kind: Any, name: str, mime_type: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(DATA)
    media = await kind.from_path(tmp_path / name)
    assert (media.mime_type, media.to_bytes()) == (mime_type, DATA)


@pytest.mark.parametrize("kind", [Image, Audio, Video])
async def test_a_kind_that_is_given_goes_over_the_extension(kind: Any, tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(DATA)
    family = kind.__name__.lower()
    assert (await kind.from_path(str(tmp_path / "data"), f"{family}/x-own")).mime_type == f"{family}/x-own"


@pytest.mark.parametrize(
    ("kind", "name"), [(Image, "a.pdf"), (Audio, "a.mp4"), (Video, "a"), (Document, "a.unheard-of")]
)
async def test_a_file_of_another_kind_is_refused(kind: Any, name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(DATA)
    with pytest.raises(InvalidInput, match=rf"{name}' says no MIME type.*; give mime_type"):
        await kind.from_path(tmp_path / name)


@pytest.mark.parametrize("kind", [Image, Document, Audio, Video])
async def test_a_missing_file_is_named(kind: Any, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"nowhere\.bin' cannot be read: No such file"):
        await kind.from_path(tmp_path / "nowhere.bin", f"{kind.__name__.lower().replace('document', 'text')}/x")


async def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be read: Is a directory"):
        await Image.from_path(tmp_path, "image/png")


@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.csv", "a.html", "a.json"])
async def test_a_file_of_text_is_a_document_of_text(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("naïve", encoding="utf-8")
    assert await Document.from_path(tmp_path / name) == Document(TextSource("naïve"), "text/plain", name)


async def test_a_pdf_file_is_a_document_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(b"%PDF")
    assert await Document.from_path(tmp_path / "a.pdf") == Document(
        Base64Source("JVBERg=="), "application/pdf", "a.pdf"
    )
    assert (await Document.from_path(tmp_path / "a.pdf", title="Terms")).title == "Terms"


async def test_other_files_are_no_documents(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(DATA)
    with pytest.raises(InvalidInput, match="is of type image/png; documents are PDF or text"):
        await Document.from_path(tmp_path / "a.png")
    (tmp_path / "a.txt").write_bytes(b"\xff")
    with pytest.raises(InvalidInput, match=r"a\.txt' is no UTF-8 text"):
        await Document.from_path(tmp_path / "a.txt")


async def test_reading_a_file_does_not_block_others(tmp_path: Path) -> None:
    """The loop goes on while a slow disk, here a pipe nobody has written to yet, gives its bytes."""
    pipe = tmp_path / "slow.png"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(DATA))
    reading = asyncio.create_task(Image.from_path(pipe))
    await asyncio.sleep(0)
    assert not reading.done()
    writer.start()
    assert (await reading).to_bytes() == DATA
    writer.join()


@pytest.mark.parametrize(
    "media",
    [
        Image.from_bytes(b"secret", "image/png"),
        Document.from_text("secret"),
        Audio(b"secret", "a"),
        Video(b"secret", "v"),
    ],
    ids=lambda media: type(media).__name__,
)
def test_data_is_not_printed(media: Media) -> None:
    assert "secret" not in repr(media)
    assert "c2VjcmV0" not in repr(media)


@pytest.mark.parametrize("media", [Image.from_url(URL), Audio(b"", "audio/wav"), Video(b"", "video/mp4")], ids=str)
def test_messages_take_media_for_their_blocks(media: Image | Audio | Video) -> None:
    for message in (UserMessage([media, "what is it?"]), AssistantMessage([media, "what is it?"])):
        assert message.content == [media.to_block(), TextBlock("what is it?")]


def test_a_single_thing_needs_no_list() -> None:
    document = Document.from_text("x")
    assert UserMessage(document).content == [document.to_block()]
    assert UserMessage(TextBlock("x")).content == [TextBlock("x")]
    assert AssistantMessage(Image.from_url(URL)).images == [Image.from_url(URL).to_block()]
