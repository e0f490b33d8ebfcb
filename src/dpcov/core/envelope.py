"""Envelopes of signed files, in the format of the Dead Simple Signing Envelope (DSSE) 1.0.

An envelope is a JSON object that contains a payload in base64, the type of the payload, and
signatures. A signature covers the exact bytes of the payload and its type. dpcov never writes the
payload again to check a signature, so two programs cannot disagree about the signed bytes.
"""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dpcov.core import faults

# Type of the payload of a signed release file.
RELEASE_TYPE = "application/vnd.dpcov.release+json"
# Names that only an envelope has at its top level.
NAMES = {"payload", "payloadType"}
# Each signature costs a pass over the payload, so that a file with many could occupy a verifier.
MAX_SIGNATURES = 100
# Fingerprint of a key: SHA-256 in hexadecimal digits.
FINGERPRINT = re.compile(r"[0-9a-f]{64}")
UNKNOWN_KEY = "(unknown)"


class SignatureDocument(BaseModel):
    """One signature over the payload and its type."""

    model_config = ConfigDict(strict=True)

    sig: str = Field(description="Ed25519 signature in base64.")
    keyid: str = Field(
        "", description="Claimed fingerprint of the key. It is not part of the signed bytes."
    )


class EnvelopeDocument(BaseModel):
    """A signed dpcov release: a DSSE 1.0 envelope. Unknown fields are ignored, as DSSE requires."""

    model_config = ConfigDict(strict=True)

    payloadType: str = Field(description=f"{RELEASE_TYPE} for a release.")  # noqa: N815 (of DSSE)
    payload: str = Field(description="Bytes of the unsigned release file, in base64.")
    signatures: list[SignatureDocument] = Field(min_length=1, max_length=MAX_SIGNATURES)


@dataclass(frozen=True)
class Signature:
    """One signature of an envelope.

    Parameters
    ----------
    signature : bytes
        Signature over `Envelope.signed_bytes`.

    claimed_key : str
        Fingerprint of the key, as the file states it. Anyone can edit this text.

    """

    signature: bytes
    claimed_key: str

    @property
    def shown_key(self) -> str:
        """Claimed fingerprint for a message, or "(unknown)" if the text is no fingerprint."""
        return self.claimed_key if FINGERPRINT.fullmatch(self.claimed_key) else UNKNOWN_KEY


@dataclass(frozen=True)
class Envelope:
    """Payload of a file, with its type and its signatures.

    Parameters
    ----------
    payload : bytes
        Content of the unsigned file.

    payload_type : str, default `RELEASE_TYPE`
        Media type of the payload.

    signatures : tuple of Signature, default ()
        Signatures, which nobody has checked.

    """

    payload: bytes
    payload_type: str = RELEASE_TYPE
    signatures: tuple[Signature, ...] = ()

    @property
    def signed_bytes(self) -> bytes:
        """Bytes that a signature covers: DSSE's pre-authentication encoding (PAE)."""
        kind = self.payload_type.encode()
        return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(self.payload), self.payload)

    @property
    def shown_keys(self) -> list[str]:
        """Claimed fingerprints of all signatures, for a message."""
        return [one.shown_key for one in self.signatures]

    def text(self) -> str:
        """Return the payload of a release file as text.

        Returns
        -------
        str
            Text of the unsigned release file.

        Raises
        ------
        ValueError
            If the type is not the type of a release file, or the payload is not UTF-8 text or is
            itself an envelope.

        """
        if self.payload_type != RELEASE_TYPE:
            raise ValueError(f"payloadType must be {RELEASE_TYPE!r}")
        try:
            text = self.payload.decode()
        except UnicodeDecodeError:
            raise ValueError("its payload is not UTF-8 text") from None
        if opened(text) is not None:
            raise ValueError("its payload is another envelope")
        return text

    def to_text(self) -> str:
        """Return the content of the signed file."""
        document = {
            "payloadType": self.payload_type,
            "payload": base64.b64encode(self.payload).decode(),
            "signatures": [
                {"keyid": one.claimed_key, "sig": base64.b64encode(one.signature).decode()}
                for one in self.signatures
            ],
        }
        return json.dumps(document, indent=1) + "\n"


def largest_signed(size: int) -> int:
    """Return the largest size of a file with one signature, for a payload of `size` bytes."""
    return 4 * (size // 3 + 1) + 2**10


class _Repeated(dict[str, Any]):
    """JSON object in which a name appears twice."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    return found if len(found) == len(pairs) else _Repeated(found)


def opened(text: str) -> Envelope | None:
    """Return the envelope that a text contains.

    Parameters
    ----------
    text : str
        Content of a file.

    Returns
    -------
    Envelope or None
        Envelope, or None if the text is not an envelope.

    Raises
    ------
    ValueError
        If the envelope is invalid. The message names the first fault.

    """
    if '"payload' not in text:  # a large unsigned file need not be parsed twice
        return None
    try:
        document = json.loads(text, object_pairs_hook=_object)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict) or not NAMES & document.keys():
        return None
    if isinstance(document, _Repeated):
        raise ValueError("a name appears twice in its envelope")
    try:
        read = EnvelopeDocument.model_validate(document)
    except ValidationError as error:
        fault = error.errors()[0]
        raise ValueError(f"{'.'.join(map(str, fault['loc']))}: {faults.reason(fault)}") from None
    signatures = tuple(Signature(_decoded(one.sig), one.keyid) for one in read.signatures)
    return Envelope(_decoded(read.payload), read.payloadType, signatures)


def unsigned(text: str) -> str:
    """Return the text of a release file without its envelope; an unsigned text is unchanged.

    This function checks no signature. `opened` explains the errors.
    """
    envelope = opened(text)
    return text if envelope is None else envelope.text()


def _decoded(text: str) -> bytes:
    """Decode standard or URL-safe base64, because DSSE allows both."""
    try:
        return base64.b64decode(text.replace("-", "+").replace("_", "/"), validate=True)
    except ValueError:
        raise ValueError("its envelope is not valid base64") from None
