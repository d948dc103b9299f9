"""A file's bytes, piece by piece, decompressed where its name says that it is compressed."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from distributary.codecs.containers.base import Damaged, is_of_the_place

_PIECE = 1 << 20

# Of what is damaged so much at a time: behind the damage nothing is had of a piece.
_SMALL_PIECE = 1 << 14

# What zlib takes for a gzip member.
_GZIP = 31


def pieces_of(path: str, file: Any) -> Iterator[bytes]:
    """The bytes of an open file. Raises Damaged behind what can be decompressed."""
    suffix = path.rpartition(".")[2].lower()
    return _SUFFIXES.get(suffix, _plain)(file)


def _plain(file: Any) -> Iterator[bytes]:
    while piece := file.read(_PIECE):
        yield bytes(piece)


def _gzip(file: Any) -> Iterator[bytes]:
    """Members of gzip, one behind the other: https://www.rfc-editor.org/rfc/rfc1952"""
    member, is_behind = None, False
    for piece in _small(file):
        rest = piece
        while rest:
            # Behind the last member there may be zeros, as where files are written in blocks. A file of nothing else is none of gzip's.
            if member is None and is_behind and not (rest := rest.lstrip(b"\0")):
                break
            member = member or zlib.decompressobj(_GZIP)
            try:
                yield member.decompress(rest)
            except zlib.error:
                raise Damaged("gzip cannot decompress what comes here: it is damaged") from None
            rest, is_behind = member.unused_data, True
            member = None if member.eof else member
    if member is not None:
        raise Damaged("it ends within what gzip compressed: it was cut off")


def _small(file: Any) -> Iterator[bytes]:
    for piece in _plain(file):
        yield from (piece[at : at + _SMALL_PIECE] for at in range(0, len(piece), _SMALL_PIECE))


def _zstd(file: Any) -> Iterator[bytes]:
    stream = pa.CompressedInputStream(file, "zstd")
    while True:
        try:
            piece = stream.read(_SMALL_PIECE)
        except OSError as error:
            if is_of_the_place(error):
                raise
            raise Damaged("it is damaged or cut off: zstd cannot decompress what comes here") from None
        if not piece:
            return
        yield piece


_SUFFIXES: Mapping[str, Callable[[Any], Iterator[bytes]]] = {"gz": _gzip, "zst": _zstd}
