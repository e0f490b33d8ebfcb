"""Signatures of release files: a recipient can check who published a file.

A signature states that the owner of a key signed exactly these bytes. The signature does not state
that the guarantee holds. Every function that reads a release file accepts a signed file too, but
only `verify` checks a signature.
"""

from __future__ import annotations

import stat
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from dpcov.core.envelope import MAX_SIGNATURES, Envelope, opened
from dpcov.core.files import read_text, require_readable, reserved
from dpcov.core.printable import shown
from dpcov.errors import ReleaseError, SignatureError
from dpcov.releases import MAX_FILE_BYTES
from dpcov.releases.advisories import VOID
from dpcov.releases.file import from_text

if TYPE_CHECKING:
    from dpcov.core.keys import PrivateKey, PublicKey
    from dpcov.releases import Release

__all__ = ["claimed_keys", "create_key", "sign", "verify"]


def create_key(path: str | Path, *, passphrase: str | None = None, force: bool = False) -> str:
    """Create a key pair and write two PEM files.

    The private key is at `path`, and only its owner can read the file. The public key is at `path`
    with the ending ``.pub``.

    Parameters
    ----------
    path : str or Path
        Name of the file for the private key.

    passphrase : str or None, default None
        Passphrase that encrypts the private key.

    force : bool, default False
        Replace existing files.

    Returns
    -------
    str
        Fingerprint of the key: the SHA-256 hash of the public key (DER), 64 hexadecimal digits.

    Raises
    ------
    OutputError
        A file exists and `force` is False, or dpcov cannot write a file.

    KeyFileError
        The passphrase is too long.

    See Also
    --------
    sign : Sign a release file.

    Examples
    --------
    >>> import tempfile
    >>> from dpcov import signatures
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     len(signatures.create_key(f"{folder}/lab.key"))
    64

    """
    from dpcov.core.keys import create

    return create(Path(path), passphrase, force=force).fingerprint


def sign(file: str | Path, key: str | Path, *, passphrase: str | None = None) -> str:
    """Add a signature to a release file.

    The signed file replaces the file. Its payload is the exact content of the unsigned file. Other
    signatures stay.

    Parameters
    ----------
    file : str or Path
        Release file, signed or unsigned.

    key : str or Path
        File with the private key.

    passphrase : str or None, default None
        Passphrase of the private key.

    Returns
    -------
    str
        Fingerprint of the key.

    Raises
    ------
    KeyFileError
        dpcov cannot read the private key, or the passphrase is wrong.

    ReleaseError
        The file is not a valid release file.

    OutputError
        dpcov cannot write the file.

    See Also
    --------
    verify : Check a signature.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import dpcov
    >>> release = dpcov.release(np.eye(50), lower=0, upper=1, epsilon=1.0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = dpcov.signatures.create_key(f"{folder}/lab.key")
    ...     release.save(f"{folder}/release.json")
    ...     _ = dpcov.signatures.sign(f"{folder}/release.json", f"{folder}/lab.key")
    ...     dpcov.signatures.verify(f"{folder}/release.json", f"{folder}/lab.key.pub") == release
    True

    """
    from dpcov.core.keys import PrivateKey

    signer = PrivateKey.read(key, passphrase)
    add_signature(Path(file), signer, inputs=[key])
    return signer.public.fingerprint


def verify(file: str | Path, key: str | Path) -> Release:
    """Check a signature of a release file, and return the release that the signature covers.

    Parameters
    ----------
    file : str or Path
        Signed release file.

    key : str or Path
        File with the public key. Get this file from its owner, and not together with the release.

    Returns
    -------
    Release
        Release in the file, from the same bytes that the signature covers.

    Raises
    ------
    SignatureError
        The file has no valid signature of this key.

    KeyFileError
        dpcov cannot read the public key.

    ReleaseError
        dpcov cannot read the file.

    Warns
    -----
    VoidReleaseWarning
        An old version made the file, and the guarantee may be void.

    ReplayWarning
        The map or the clipping radius does not follow from the earlier answers.

    See Also
    --------
    sign : Sign a release file.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import dpcov
    >>> release = dpcov.release(np.eye(50), lower=0, upper=1, epsilon=1.0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     release.save(f"{folder}/release.json")
    ...     _ = dpcov.signatures.create_key(f"{folder}/lab.key")
    ...     try:
    ...         dpcov.signatures.verify(f"{folder}/release.json", f"{folder}/lab.key.pub")
    ...     except dpcov.errors.SignatureError as error:
    ...         print(str(error).split(":")[0])
    Not verified

    """
    from dpcov.core.keys import PublicKey
    from dpcov.mechanisms.replay import warn_of_mismatches

    release, _ = verified(file, PublicKey.read(key), shown(key))
    warn_of_mismatches(release)
    return release


def claimed_keys(file: str | Path) -> list[str]:
    """Return the fingerprints of the keys that a file names. Nothing is checked.

    Anyone can write any fingerprint into a file. Use `verify` to check a signature.

    Parameters
    ----------
    file : str or Path
        Release file, signed or unsigned.

    Returns
    -------
    list of str
        One fingerprint for each signature, or "(unknown)" if a signature names no fingerprint. The
        list of an unsigned file is empty.

    Raises
    ------
    ReleaseError
        The file is not a valid release file.

    See Also
    --------
    verify : Check a signature.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import dpcov
    >>> release = dpcov.release(np.eye(50), lower=0, upper=1, epsilon=1.0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     release.save(f"{folder}/release.json")
    ...     dpcov.signatures.claimed_keys(f"{folder}/release.json")
    []

    """
    envelope = _envelope(_content(file), file)
    return envelope.shown_keys


def signed_text(text: str, key: PrivateKey) -> str:
    """Return the content of a signed file.

    Parameters
    ----------
    text : str
        Content of the unsigned release file.

    key : PrivateKey
        Key that signs.

    Returns
    -------
    str
        Text of the envelope.

    """
    return key.signed(Envelope(text.encode())).to_text()


def add_signature(file: Path, key: PrivateKey, inputs: list[str | Path]) -> None:
    """Add a signature to a release file. `sign` explains the errors; `inputs` stay unchanged."""
    require_readable(file, ReleaseError)
    mode = stat.S_IMODE(file.stat().st_mode)
    with reserved(file, force=True, inputs=inputs, mode=mode) as output:
        envelope = _envelope(_content(file), file)
        from_text(_text(envelope, file), shown(file))
        signed = key.signed(envelope)
        if len(signed.signatures) > MAX_SIGNATURES:
            raise ReleaseError(
                f"The file {shown(file)!r} already has {MAX_SIGNATURES} signatures, which is the "
                "largest number. Sign a copy of the unsigned file."
            )
        output.write(signed.to_text())


def verified(file: str | Path, key: PublicKey, name: str) -> tuple[Release, list[str]]:
    """Return the release of a file with a valid signature, and the other claimed fingerprints.

    Parameters
    ----------
    file : str or Path
        Signed release file.

    key : PublicKey
        Key that must have signed the file.

    name : str
        Name of the key in messages.

    Returns
    -------
    release : Release
        Release in the file.

    others : list of str
        Claimed fingerprints of further signatures, which nobody checked.

    Raises
    ------
    SignatureError
        The file has no valid signature of this key.

    ReleaseError
        dpcov cannot read the file.

    """
    require_readable(file, ReleaseError)
    try:
        envelope = _envelope(_content(file), file)
        if not key.has_signed(envelope):
            raise SignatureError(_reason(envelope, key, shown(file), name))
        release = from_text(_text(envelope, file), shown(file))
    except ReleaseError as error:
        if not Path(file).is_file():
            raise
        raise SignatureError(f"Not verified. {error}") from None
    if release.may_be_void:
        from dpcov.releases import VoidReleaseWarning

        warnings.warn(VOID, VoidReleaseWarning, stacklevel=3)
    return release, [one for one in envelope.shown_keys if one != key.fingerprint]


def _reason(envelope: Envelope, key: PublicKey, file: str, name: str) -> str:
    """Return the message for an envelope without a valid signature of this key."""
    if not envelope.signatures:
        return (
            f"Not verified: the file {file!r} is unsigned or damaged. Ask the publisher for the "
            "signed file."
        )
    if key.fingerprint in envelope.shown_keys:
        return (
            f"Not verified: the signature of the key {name!r} does not match the content of "
            f"{file!r}, so the file or the signature is false. Ask the publisher for a new copy."
        )
    claimed = ", ".join(dict.fromkeys(envelope.shown_keys))
    return (
        f"Not verified: the key {name!r} (fingerprint {key.fingerprint}) did not sign {file!r}; "
        f"the file names the unknown key {claimed}. Ask the publisher which key is right."
    )


def _content(file: str | Path) -> str:
    return read_text(file, "release", ReleaseError, most=MAX_FILE_BYTES)


def _envelope(content: str, file: str | Path) -> Envelope:
    """Return the envelope of a file; the envelope of an unsigned file has no signatures."""
    try:
        return opened(content) or Envelope(content.encode())
    except ValueError as error:
        raise _invalid(file, error) from None


def _text(envelope: Envelope, file: str | Path) -> str:
    try:
        return envelope.text()
    except ValueError as error:
        raise _invalid(file, error) from None


def _invalid(file: str | Path, error: ValueError) -> ReleaseError:
    return ReleaseError(f"{shown(file)!r} is not a valid release file: {error}.")
