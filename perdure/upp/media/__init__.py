"""Pictures, documents, sound and film by path, address or bytes, ready to stand in a message's content.

Only `from_path` reads anything, a file; nothing here ever fetches a URL, which is the provider's part.
Source: UPP-1.2, media helpers.
"""

from typing import TypeAlias

from perdure.upp.media.audio import Audio
from perdure.upp.media.document import Document
from perdure.upp.media.image import Image
from perdure.upp.media.video import Video

__all__ = ["Audio", "Document", "Image", "Media", "Video"]

Media: TypeAlias = Audio | Document | Image | Video
