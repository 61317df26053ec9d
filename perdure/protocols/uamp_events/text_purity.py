"""No URL of stored content in text: media is told by content items. Source: UAMP 1.0, section 8.5.4 (text purity).

A URL becomes `content:` and the id, a Markdown image of it or link to it becomes its label. Text comes in pieces, so what
may be the beginning of either is held back until it is known.
"""

from __future__ import annotations

import re

from perdure.uap.content_refs import PATH, UUID

_LONGEST_HOST = 256
_LONGEST_QUERY = 512
_LONGEST_LABEL = 300
_LONGEST_TITLE = 200
_INSIDE = r"[^\s()<>\[\]\"'`]"
_HEX = "[0-9a-fA-F]"


def _begun(*pieces: str) -> str:
    """A pattern of whatever some text may have begun with that would match all the pieces, one after the other."""
    made = ""
    for piece in reversed(pieces):
        made = f"(?:{piece}{made})?" if made else f"(?:{piece})?"
    return made


def _each(text: str) -> list[str]:
    return [re.escape(character) for character in text]


_HOST = rf"https?://{_INSIDE}{{0,{_LONGEST_HOST}}}?"
_QUERY = rf"[?#][\w%&=~+;@-]{{0,{_LONGEST_QUERY}}}"
_AFTER = rf"(?!{_HEX}|-)(?:{_QUERY})?"
_WHOLE_URL = rf"(?:{_HOST})?{PATH}{UUID}{_AFTER}"
_TITLE = rf"(?:\s{{1,4}}\"[^\"\n]{{0,{_LONGEST_TITLE}}}\")?"
_LINK = rf"!?\[(?P<label>[^\[\]\n]{{0,{_LONGEST_LABEL}}})\]\(<?(?:{_HOST})?{PATH}(?P<linked>{UUID}){_AFTER}>?{_TITLE}\)"
_FOUND = re.compile(rf"{_LINK}|(?:{_HOST})?{PATH}(?P<bare>{UUID}){_AFTER}")

_ID_BEGUN = [_HEX] * 8 + ["-", *[_HEX] * 4] * 3 + ["-", *[_HEX] * 12]
_PATH_BEGUN = _begun(*_each(PATH), *_ID_BEGUN, rf"(?:{_QUERY})?")
_HOST_BEGUN = rf"{_begun(*_each('http'), 's?', *_each('://'))}(?:(?<=://){_INSIDE}{{0,{_LONGEST_HOST}}})?"
_URL_BEGUN = rf"(?:(?:{_HOST})?{_PATH_BEGUN}|{_HOST_BEGUN})"
_TITLE_BEGUN = rf"(?:\s{{1,4}}(?:\"[^\"\n]{{0,{_LONGEST_TITLE}}}\"?)?)?"
_LINK_BEGUN = rf"!?(?:\[[^\[\]\n]{{0,{_LONGEST_LABEL}}}(?:\](?:\(<?(?:{_URL_BEGUN}|{_WHOLE_URL}>?{_TITLE_BEGUN}))?)?)?"
_MAY_BEGIN = re.compile(rf"(?:(?=[![]){_LINK_BEGUN}|(?=[h/]){_URL_BEGUN})\Z")


class TextPurity:
    """The text of one message, piece by piece."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._held = ""

    def take(self, text: str) -> str:
        """What may be shown now that this piece has come."""
        whole = self._held + text
        cut = _open_end(whole)
        self._held = whole[cut:]
        return pure(whole[:cut])

    def rest(self) -> str:
        """What was held back, at the end of the text."""
        held, self._held = self._held, ""
        return pure(held)


def pure(text: str) -> str:
    """A whole text without URLs of stored content."""
    return _FOUND.sub(_instead, text) if PATH in text else text


def _instead(found: re.Match[str]) -> str:
    if found["bare"] is not None:
        return f"content:{found['bare'].lower()}"
    label = found["label"].strip()
    return label if label and PATH not in label else f"content:{found['linked'].lower()}"


def _open_end(text: str) -> int:
    """From where on a text may still become what is replaced; never within what is replaced for certain."""
    certain = [match.span() for match in _FOUND.finditer(text)] if PATH in text else []
    place = 0
    while found := _MAY_BEGIN.search(text, place):
        start = found.start()
        around = next((end for begin, end in certain if begin < start < end), None)
        if around is None:
            return start
        place = around
    return len(text)
