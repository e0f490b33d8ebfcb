"""Commands that create keys, and sign and verify release files."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpcov.cli import options
from dpcov.cli.options import example, say, warn_if_seeded
from dpcov.cli.output import require_writable, written
from dpcov.core.printable import shown
from dpcov.core.show.plain import json_text

if TYPE_CHECKING:
    from dpcov.core.keys import PrivateKey

VARIABLE = "DPCOV_KEY_PASSPHRASE"
LARGEST_PASSPHRASE = 2**12  # bytes of a passphrase file

PassphraseFile = Annotated[
    Path | None,
    typer.Option(
        "--passphrase-file",
        help="File with the passphrase of the private key in its first line. Without this option, "
        f"dpcov uses the environment variable {VARIABLE}, or asks in a terminal.",
    ),
]
KeyPath = Annotated[
    Path, typer.Option("--key", metavar="KEY", help="Private key, from `dpcov key create`.")
]
PublicPath = Annotated[
    Path,
    typer.Option(
        "--key",
        metavar="PUBLIC",
        help="Public key (the file with the ending .pub). Get it from its owner, and not together "
        "with the release.",
    ),
]

app = typer.Typer()
key_app = typer.Typer(help="Create keys that sign release files.", no_args_is_help=True)


@key_app.command("create", epilog=example("key create lab.key"))
def create(
    file: Annotated[Path, typer.Argument(metavar="KEY", help="File for the private key.")],
    passphrase_file: PassphraseFile = None,
    force: options.Force = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Create a private key (KEY) and a public key (KEY.pub) for signatures.

    Only you can read the private key. Give the public key to the recipients of your releases.
    """
    from dpcov.core import keys
    from dpcov.core.files import check_writable

    require_writable(quiet and not as_json)
    public = keys.public_path(file)
    for place in (file, public):  # before the question
        check_writable(place, force=force)
    passphrase = _stated(passphrase_file)
    if passphrase is None and _is_terminal():
        passphrase = _asked("Passphrase (empty for none)", new=True)
    fingerprint = keys.create(file, passphrase, force=force).fingerprint
    with written(file, public):
        if as_json:
            facts = {"private": str(file), "public": str(public), "fingerprint": fingerprint}
            print(json_text(facts | {"has_passphrase": bool(passphrase)}))
            return
        safe = (
            "with a passphrase" if passphrase else "no passphrase: who can read the file can sign"
        )
        say(f"private key: {shown(file)} ({safe})", quiet)
        say(f"public key: {shown(public)}", quiet)
        say(f"fingerprint: {fingerprint}", quiet)
        say(f"next: dpcov sign RELEASE --key {shown(file)}", quiet)


@app.command(epilog=example("sign people.release.json --key lab.key"))
def sign(
    file: options.ReleasePath,
    key: KeyPath,
    passphrase_file: PassphraseFile = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Add a signature to a release file.

    The signed file replaces the file. All commands read a signed file as they read an unsigned one.
    """
    from dpcov.signatures import add_signature

    require_writable(quiet and not as_json)
    signer = private_key(key, passphrase_file)
    add_signature(file, signer, inputs=[key])
    fingerprint = signer.public.fingerprint
    with written(file):
        if as_json:
            print(json_text({"file": str(file), "fingerprint": fingerprint}))
            return
        say(f"{shown(file)} is signed with the key {shown(key)}", quiet)
        say(f"fingerprint: {fingerprint}", quiet)


@app.command(epilog=example("verify people.signed.json --key lab.key.pub"))
def verify(
    file: options.ReleasePath,
    key: PublicPath,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Check that the owner of a key signed a release file, and that nobody changed the file.

    Exit code 1 means that the file is not verified. A signature says nothing about the guarantee.
    """
    from dpcov.core.keys import PublicKey
    from dpcov.core.show.text import warn
    from dpcov.mechanisms.replay import warn_of_mismatches
    from dpcov.releases.advisories import advisories
    from dpcov.report.documents import document
    from dpcov.signatures import verified

    given = PublicKey.read(key)
    release, others = verified(file, given, shown(key))
    warn_of_mismatches(release, depth=0)
    if as_json:
        facts = {"verified": True, "key": str(key), "fingerprint": given.fingerprint}
        print(json_text(document(release, **facts, not_checked=others)))
        return
    warn_if_seeded(release, error=quiet)
    for sentence in advisories(release):
        warn(sentence, error=quiet)
    say(f"verified: {shown(file)} is signed with the key {shown(key)}", quiet)
    say(f"fingerprint: {given.fingerprint}", quiet)
    for one in others:
        say(f"not checked: a signature that names the key {one}", quiet)
    say(f"guarantee: {release.guarantee_in_words()}", quiet)


def private_key(path: Path, passphrase_file: Path | None) -> PrivateKey:
    """Read a private key, and ask for its passphrase if necessary."""
    from dpcov.core.keys import PrivateKey

    stated = _stated(passphrase_file)
    ask = partial(_asked, f"Passphrase of {shown(path)}") if _is_terminal() else None
    return PrivateKey.read(path, stated or ask)


def _stated(file: Path | None) -> str | None:
    """Return the passphrase from the file or the environment, or None if there is neither."""
    from dpcov.core.files import read_text
    from dpcov.errors import KeyFileError

    if file is None:
        return os.environ.get(VARIABLE)
    text = read_text(file, "passphrase file", KeyFileError, most=LARGEST_PASSPHRASE)
    found = text.partition("\n")[0].removesuffix("\r")
    if not found:
        raise KeyFileError(
            f"The passphrase file {shown(file)!r} is empty. Write the passphrase in its first line."
        )
    return found


def _asked(question: str, *, new: bool = False) -> str:
    """Ask for a passphrase without showing it; ask twice for a new passphrase."""
    again = "Repeat the passphrase" if new else False
    found: str = typer.prompt(
        question, "", hide_input=True, confirmation_prompt=again, show_default=False, err=True
    )
    return found


def _is_terminal() -> bool:
    """Return True if a person can answer a question."""
    return sys.stdin.isatty() and sys.stderr.isatty()
