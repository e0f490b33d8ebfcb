"""Fetch the public tables that can't ship with the repository: `make data`.

A file counts only if its content has the sha256 in `data/files.toml`. One that can't be had is
named, and the others go on: benchmarks leave its table out.
"""

from __future__ import annotations

import gzip
import hashlib
import http.client
import sys
import tomllib
import urllib.request
import zlib
from pathlib import Path

from datasets import DATA, FETCHED

SECONDS = 60


def digest(path: str, content: bytes) -> str:
    """Return the SHA-256 of a file's unpacked content."""
    return hashlib.sha256(gzip.decompress(content) if path.endswith(".gz") else content).hexdigest()


def fetched(path: str, url: str, sha256: str, folder: Path) -> str | None:
    """Put a file into the folder; what was wrong, if it can't be had."""
    try:
        with urllib.request.urlopen(url, timeout=SECONDS) as answer:  # noqa: S310 (of files.toml)
            content = answer.read()
        if digest(path, content) != sha256:
            return "its content is another than the one that was measured"
    except (OSError, http.client.HTTPException, EOFError, zlib.error) as error:
        return str(error)
    place = folder / path
    place.parent.mkdir(parents=True, exist_ok=True)
    draft = place.with_name(f"{place.name}.draft")
    draft.write_bytes(content)
    draft.replace(place)
    return None


def main(listed: Path = DATA / "files.toml", folder: Path = FETCHED) -> int:
    missing = 0
    for path, file in tomllib.loads(listed.read_text(encoding="utf-8")).items():
        if "urls" not in file or (folder / path).is_file():
            continue
        for url in file["urls"]:
            wrong = fetched(path, url, file["sha256"], folder)
            print(f"{path}: {wrong or 'fetched'} ({url})", flush=True)
            if wrong is None:
                break
        else:
            missing += 1
    print(f"{missing} files could not be fetched; benchmarks leave their tables out")
    return int(missing > 0)


if __name__ == "__main__":
    sys.exit(main())
