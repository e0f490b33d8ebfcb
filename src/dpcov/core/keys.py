"""Ed25519 keys for signatures, in PEM files that other programs read.

A private key file is in the PKCS #8 format, and a public key file contains a SubjectPublicKeyInfo.
The fingerprint of a key is the SHA-256 hash of the public key in the DER format.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from dpcov.core.envelope import Envelope, Signature
from dpcov.core.files import read_text, reserved
from dpcov.core.printable import shown
from dpcov.errors import KeyFileError

if TYPE_CHECKING:
    import os

    Passphrase = str | Callable[[], str | None] | None

LARGEST_KEY = 2**16  # Bytes. An Ed25519 key file has less than 500.
MAX_PASSPHRASE = 1023  # Bytes that OpenSSL accepts.
PUBLIC_SUFFIX = ".pub"
PRIVATE_MODE = 0o600  # only the owner can read a private key
PUBLIC, PRIVATE, ENCRYPTED = "PUBLIC KEY", "PRIVATE KEY", "ENCRYPTED PRIVATE KEY"  # in PEM files
LABEL = re.compile(r"-----BEGIN ([A-Z0-9 ]{1,40})-----")
REMEDY = {
    PUBLIC: f"Ask the owner of the key for the file with the ending {PUBLIC_SUFFIX}.",
    PRIVATE: "Create a key with `dpcov key create`.",
}


@dataclass(frozen=True)
class PublicKey:
    """Public key, which checks signatures.

    Parameters
    ----------
    key : Ed25519PublicKey
        Key of the package `cryptography`.

    """

    key: Ed25519PublicKey

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> PublicKey:
        """Read a public key from a PEM file; raise `KeyFileError` if this fails."""
        text, label = _pem(path, "public key")
        if label in (PRIVATE, ENCRYPTED):
            raise KeyFileError(
                f"The file {shown(path)!r} contains a private key, but a check needs the public "
                f"key. Use the file with the ending {PUBLIC_SUFFIX}, and keep the private key "
                "secret."
            )
        _require_label(path, label, PUBLIC)
        try:
            key = load_pem_public_key(text.encode())
        except (ValueError, UnsupportedAlgorithm):
            raise _damaged(path, "public key") from None
        if not isinstance(key, Ed25519PublicKey):
            raise _other_type(path, key, PUBLIC)
        return cls(key)

    @property
    def fingerprint(self) -> str:
        """SHA-256 hash of the key in the DER format, as 64 hexadecimal digits."""
        return sha256(
            self.key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        ).hexdigest()

    def has_signed(self, envelope: Envelope) -> bool:
        """Return True if one of the signatures is a valid signature of this key.

        The function tries every signature, because anyone can edit a claimed fingerprint.
        """
        signed = envelope.signed_bytes
        return any(self._matches(one.signature, signed) for one in envelope.signatures)

    def _matches(self, signature: bytes, signed: bytes) -> bool:
        try:
            self.key.verify(signature, signed)
        except InvalidSignature:
            return False
        return True


@dataclass(frozen=True)
class PrivateKey:
    """Private key, which signs.

    Parameters
    ----------
    key : Ed25519PrivateKey
        Key of the package `cryptography`, whose text does not contain the secret.

    """

    key: Ed25519PrivateKey

    @classmethod
    def read(cls, path: str | os.PathLike[str], passphrase: Passphrase = None) -> PrivateKey:
        """Read a private key from a PEM file; raise `KeyFileError` if this fails.

        Parameters
        ----------
        path : str or PathLike
            Name of the file.

        passphrase : str, callable or None, default None
            Passphrase, or a function that asks for the passphrase of an encrypted key.

        Returns
        -------
        PrivateKey
            Key in the file.

        """
        text, label = _pem(path, "private key")
        if label == PUBLIC:
            raise KeyFileError(
                f"The file {shown(path)!r} contains a public key, but a signature needs the "
                f"private key. Use the file without the ending {PUBLIC_SUFFIX}."
            )
        secret = None
        if label != ENCRYPTED:
            _require_label(path, label, PRIVATE)
        else:
            secret = passphrase() if callable(passphrase) else passphrase
            if not secret:
                raise KeyFileError(
                    f"The private key {shown(path)!r} has a passphrase. Set "
                    "DPCOV_KEY_PASSPHRASE, use --passphrase-file (in Python, passphrase=), or "
                    "run the command in a terminal."
                )
        try:
            key = load_pem_private_key(text.encode(), None if secret is None else _bytes(secret))
        except (ValueError, TypeError, UnsupportedAlgorithm):
            if secret is None:
                raise _damaged(path, "private key") from None
            raise KeyFileError(
                f"The passphrase does not open the private key {shown(path)!r}, or the file is "
                "damaged. Check the passphrase."
            ) from None
        if not isinstance(key, Ed25519PrivateKey):
            raise _other_type(path, key, PRIVATE)
        return cls(key)

    @property
    def public(self) -> PublicKey:
        """Public key of this private key."""
        return PublicKey(self.key.public_key())

    def signed(self, envelope: Envelope) -> Envelope:
        """Return the envelope with a signature of this key.

        The new signature replaces a signature that claims the same key.
        """
        own = Signature(self.key.sign(envelope.signed_bytes), self.public.fingerprint)
        others = [one for one in envelope.signatures if one.claimed_key != own.claimed_key]
        return replace(envelope, signatures=(*others, own))


def create(path: Path, passphrase: str | None, *, force: bool) -> PublicKey:
    """Create a key pair and write both files.

    Parameters
    ----------
    path : Path
        File for the private key. The public key gets the same name with the ending ``.pub``.

    passphrase : str or None
        Passphrase that encrypts the private key. None and an empty text do not encrypt it.

    force : bool
        If True, existing files are replaced.

    Returns
    -------
    PublicKey
        Public key.

    """
    key = Ed25519PrivateKey.generate()
    protection: KeySerializationEncryption = NoEncryption()
    if passphrase:
        protection = BestAvailableEncryption(_bytes(passphrase))
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, protection)
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    with (
        reserved(path, force=force, space=len(private), mode=PRIVATE_MODE) as secret,
        reserved(public_path(path), force=force, space=len(public)) as known,
    ):
        secret.write(private)
        known.write(public)
    return PublicKey(key.public_key())


def public_path(path: Path) -> Path:
    """Return the name of the public key file for a private key file."""
    return path.with_name(path.name + PUBLIC_SUFFIX)


def _pem(path: str | os.PathLike[str], what: str) -> tuple[str, str]:
    """Read a PEM file; return its text, and the label of its first block or an empty text."""
    text = read_text(path, what, KeyFileError, most=LARGEST_KEY)
    found = LABEL.search(text)
    return text, "" if found is None else found[1]


def _require_label(path: str | os.PathLike[str], label: str, wanted: str) -> None:
    if not label:
        raise KeyFileError(
            f"The file {shown(path)!r} contains no {wanted.lower()} in PEM format. {REMEDY[wanted]}"
        )
    if label != wanted:
        raise KeyFileError(
            f"The file {shown(path)!r} contains the PEM block {label!r}, but dpcov needs the "
            f"block {wanted!r}. {REMEDY[wanted]}"
        )


def _other_type(path: str | os.PathLike[str], key: object, wanted: str) -> KeyFileError:
    kind = re.sub(r"^_|(Public|Private)Key$", "", type(key).__name__)
    return KeyFileError(
        f"The file {shown(path)!r} contains a key of type {kind}, but dpcov signs with Ed25519. "
        f"{REMEDY[wanted]}"
    )


def _damaged(path: str | os.PathLike[str], what: str) -> KeyFileError:
    return KeyFileError(f"The {what} {shown(path)!r} is damaged. Use a copy, or a new key.")


def _bytes(passphrase: str) -> bytes:
    """Encode a passphrase."""
    found = passphrase.encode("utf-8", "surrogateescape")
    if len(found) > MAX_PASSPHRASE:
        raise KeyFileError(
            f"The passphrase has {len(found)} bytes, but at most {MAX_PASSPHRASE} are possible. "
            "Choose a shorter passphrase."
        )
    return found
