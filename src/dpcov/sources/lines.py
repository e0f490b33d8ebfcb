"""The bytes of a text file as UTF-8, in whole lines."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable

CHUNK = 2**20  # bytes that are read at once
LONGEST_RECORD = 2**22  # bytes, its line ends among them
LINE_END = re.compile(rb"\r\n?|\n")  # what ends a line: CRLF, LF or CR
BYTE_ORDER_MARK = codecs.BOM_UTF8


class Lines:
    """Whole lines of a stream; `text` holds those that are ready.

    A byte-order mark is dropped at the very start. Of a line of more than `LONGEST_RECORD` bytes
    only so many are kept, and a line end: still too many.
    """

    def __init__(self, read: Callable[[int], bytes], close: Callable[[], object]) -> None:
        self.text = b""
        self.ended = False
        self.close = close
        self._read = read
        self._begun = False
        self._tail = b""  # the beginning of a line
        self._overlong = b""  # what is kept of the line that `tail` goes on with

    def more(self) -> None:
        """Read more lines, or find that the stream has ended.

        As much is read as waits already, so that what waits is looked at a few times only.
        """
        chunk = self._read(max(CHUNK, len(self.text)))
        whole = self._tail + chunk
        # A line feed may follow a carriage return that ends what was read.
        end = 1 + max(whole.rfind(b"\n"), whole.rfind(b"\r", 0, -1)) if chunk else len(whole)
        lines, self._tail = whole[:end], whole[end:]
        self.ended = not chunk
        if self._overlong and (lines or self.ended):
            found = LINE_END.search(lines)
            lines = self._overlong + (lines[found.start() :] if found else b"\n")
            self._overlong = b""
        if len(self._tail) > LONGEST_RECORD + 1:
            self._overlong = self._overlong or self._tail[:LONGEST_RECORD]
            self._tail = self._tail[-1:]  # it may be a carriage return
        elif self._overlong:
            self._tail = self._tail[-1:]
        self.text += lines
        if not self._begun and self.text:
            self._begun = True
            self.text = self.text.removeprefix(BYTE_ORDER_MARK)

    def next(self) -> bytes:
        """The next line with its end; empty at the end of the stream."""
        while not self.text and not self.ended:
            self.more()
        found = LINE_END.search(self.text)
        stop = found.end() if found else len(self.text)
        line, self.text = self.text[:stop], self.text[stop:]
        return line


def decoded(read: Callable[[int], bytes], encoding: str) -> Callable[[int], bytes]:
    """Read a stream in another encoding as UTF-8; what can't be decoded becomes U+FFFD.

    Each unit of the encoding (a byte, or two or four) is decoded on its own or with the other half
    of its character, so that a broken one spoils no other.
    """
    if encoding == "utf-8":
        return read
    decoder: codecs.IncrementalDecoder | None = None
    ended = False

    def read_decoded(size: int) -> bytes:
        nonlocal decoder, ended
        while not ended:
            raw = read(size)
            ended = not raw
            if decoder is None:
                decoder = codecs.getincrementaldecoder(_ordered(encoding, raw))("replace")
            if text := decoder.decode(raw, final=ended):
                return text.encode()
        return b""

    return read_decoded


def _ordered(encoding: str, start: bytes) -> str:
    """The encoding with its order of bytes, which a mark at the start may tell."""
    if encoding == "utf-16":
        return "utf-16-be" if start.startswith(codecs.BOM_UTF16_BE) else "utf-16-le"
    if encoding == "utf-32":
        return "utf-32-be" if start.startswith(codecs.BOM_UTF32_BE) else "utf-32-le"
    return encoding
