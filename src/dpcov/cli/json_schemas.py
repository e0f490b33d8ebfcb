"""Write the JSON Schemas of dpcov's file formats: ``python -m dpcov.cli.json_schemas FOLDER``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pydantic import BaseModel

from dpcov.core.envelope import EnvelopeDocument
from dpcov.releases.file import ReleaseDocument
from dpcov.report.passport import Passport
from dpcov.rows.schema import Schema

DIALECT = "https://json-schema.org/draft/2020-12/schema"
DOCUMENT_MODELS: dict[str, type[BaseModel]] = {
    "schema": Schema,
    "release": ReleaseDocument,
    "signed-release": EnvelopeDocument,
    "passport": Passport,
}


def texts() -> dict[str, str]:
    """Return the text of each JSON Schema, by file name."""
    return {
        f"{name}.schema.json": json.dumps(
            {"$schema": DIALECT, **model.model_json_schema(by_alias=True)}, indent=2
        )
        + "\n"
        for name, model in DOCUMENT_MODELS.items()
    }


def write(folder: Path) -> None:
    """Write all JSON Schemas to `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
