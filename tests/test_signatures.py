"""Signed release files: what a signature covers, keys, and the commands."""

from __future__ import annotations

import base64
import errno
import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from cryptography.hazmat.primitives import serialization

import dpcov
from dpcov import signatures
from dpcov.api.ledger import Ledger
from dpcov.cli.json_schemas import texts
from dpcov.core import keys
from dpcov.core.envelope import MAX_SIGNATURES, RELEASE_TYPE, Envelope, Signature, opened, unsigned
from dpcov.core.privacy import PureDP
from dpcov.errors import DpcovError, KeyFileError, OutputError, ReleaseError, SignatureError
from dpcov.releases import SEEDED
from examples_of_commands import ANALYSES, fresh, write_all
from tables_for_tests import write_people
from terminals import DPCOV, terminal

SECRET = "correct horse"  # noqa: S105
FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a folder with an unsigned release, a signed one, and two keys."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DPCOV_KEY_PASSPHRASE", raising=False)
    release = dpcov.release(np.eye(50), lower=0, upper=1, epsilon=1.0)
    release.save("plain.json")
    release.save("signed.json")
    for name in ("lab", "other"):
        signatures.create_key(f"{name}.key")
    signatures.sign("signed.json", "lab.key")
    return tmp_path


def fingerprint(name):
    """Return the fingerprint of a key, computed without dpcov's code for keys."""
    key = serialization.load_pem_public_key(Path(name).read_bytes())
    kind = serialization.PublicFormat.SubjectPublicKeyInfo
    return hashlib.sha256(key.public_bytes(serialization.Encoding.DER, kind)).hexdigest()


def refused(call, *words, kind=DpcovError):
    """Check that a call is refused in two sentences with these words; return the message."""
    with pytest.raises(kind) as raised:
        call()
    message = str(raised.value)
    assert all(word in message for word in words), message
    assert message.count(". ") <= 1, message
    assert SECRET not in message
    return message


# The envelope


def test_the_signed_bytes_are_those_of_the_standard():
    """The example in the protocol of DSSE 1.0."""
    example = Envelope(b"hello world", "http://example.com/HelloWorld")
    assert example.signed_bytes == b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    assert Envelope(b"", "é").signed_bytes == "DSSEv1 2 é 0 ".encode()


def test_the_payload_is_the_unsigned_file_byte_for_byte(folder):
    document = json.loads(Path("signed.json").read_text())
    assert base64.b64decode(document["payload"]) == Path("plain.json").read_bytes()
    assert document["payloadType"] == RELEASE_TYPE
    assert [one["keyid"] for one in document["signatures"]] == [fingerprint("lab.key.pub")]
    jsonschema.validate(document, json.loads(texts()["signed-release.schema.json"]))


def test_an_unsigned_text_is_left_alone_even_if_it_has_the_names_of_an_envelope():
    for text in ("", "x", "[1]", '{"columns": {"payload": 1, "payloadType": 2}}', '["payload"]'):
        assert opened(text) is None
        assert unsigned(text) == text
    assert opened('{"payload": ' * 100_000) is None


def test_a_column_can_have_the_name_of_a_part_of_an_envelope(tmp_path):
    table = {"payload": np.zeros(50), "payloadType": np.ones(50)}
    schema = dpcov.Schema.from_bounds(0, 1, tuple(table))
    import pyarrow as pa

    release = dpcov.release(pa.table(table), schema=schema, epsilon=1.0)
    release.save(tmp_path / "a.json")
    assert dpcov.load(tmp_path / "a.json") == release


def test_url_safe_base64_is_read_as_the_standard_demands():
    text = Envelope(b"\xfb\xff\xfe", signatures=(Signature(b"\xff\xff\xff", "a"),)).to_text()
    found = opened(text.replace("+", "-").replace("/", "_").replace("vnd.dpcov", "x"))
    assert "+" in text
    assert found is not None
    assert found.payload == b"\xfb\xff\xfe"
    assert found.signatures[0].signature == b"\xff\xff\xff"


def test_unknown_entries_are_ignored_and_a_missing_keyid_is_empty(folder):
    document = json.loads(Path("signed.json").read_text()) | {"extra": {"payload": 1}}
    del document["signatures"][0]["keyid"]
    document["signatures"][0]["more"] = []
    Path("signed.json").write_text(json.dumps(document))
    assert signatures.claimed_keys("signed.json") == ["(unknown)"]
    assert signatures.verify("signed.json", "lab.key.pub") == dpcov.load("plain.json")


# Everything reads a signed file


@pytest.mark.slow
def test_every_analysis_gives_the_same_for_a_signed_file(run):
    write_all(Path(), seed=1)
    for name in ANALYSES:
        line = fresh(name) + " --seed 1" * (name == "sample")
        outputs = []
        for file in ("people.release.json", "people.signed.json"):
            found = run(f"{line.replace('people.release.json', file)} --json")
            assert found.code == 0, line
            outputs.append(found.out)
        assert outputs[0] == outputs[1]
        assert "people.release.json" in line


def test_show_names_the_key_and_says_that_nothing_is_checked(folder, run):
    shown = run(f"show {folder / 'signed.json'}")
    words = " ".join(shown.out.split())
    assert f"signed, according to the file, with the key {fingerprint('lab.key.pub')}." in words
    assert f"Only `dpcov verify {folder / 'signed.json'} --key PUBLIC` checks a signature" in words
    assert json.loads(run(f"show {folder / 'signed.json'} --json").out)["signatures"] == [
        fingerprint("lab.key.pub")
    ]
    assert "signed" not in run(f"show {folder / 'plain.json'}").out  # control
    assert json.loads(run(f"show {folder / 'plain.json'} --json").out)["signatures"] == []


def test_a_name_in_the_file_is_never_printed(folder, run, capsys):
    text = Path("signed.json").read_text()
    for name in ("Statistics\\u001b[2J Office", "Office", "A" * 64, ""):
        Path("signed.json").write_text(text.replace(fingerprint("lab.key.pub"), name))
        assert signatures.claimed_keys("signed.json") == ["(unknown)"]
        for line in ("show signed.json", "verify signed.json --key other.key.pub"):
            found = run(line)
            assert "(unknown)" in " ".join((found.out + found.err).split())
            assert "Office" not in found.out + found.err


# Verification


def test_a_file_is_verified_with_the_key_of_its_signer_only(folder, run):
    found = run("verify signed.json --key lab.key.pub")
    assert (found.code, found.err) == (0, "")
    assert "verified: signed.json is signed with the key lab.key.pub" in found.out
    assert fingerprint("lab.key.pub") in found.out
    wrong = run("verify signed.json --key other.key.pub")
    assert (wrong.code, wrong.out) == (1, "")
    assert f"fingerprint {fingerprint('other.key.pub')}" in wrong.err
    assert f"the unknown key {fingerprint('lab.key.pub')}" in wrong.err
    assert run("verify signed.json --key lab.key.pub -q").out == ""
    told = json.loads(run("verify signed.json --key lab.key.pub --json").out)
    assert told["verified"] is True
    assert told["fingerprint"] == fingerprint("lab.key.pub")
    assert told["not_checked"] == []


def test_several_people_sign_a_file_and_each_is_verified_alone(folder, run):
    assert run("sign signed.json --key other.key").code == 0
    assert len(signatures.claimed_keys("signed.json")) == 2
    for own, other in (("lab", "other"), ("other", "lab")):
        found = run(f"verify signed.json --key {own}.key.pub")
        assert found.code == 0
        named = f"not checked: a signature that names the key {fingerprint(f'{other}.key.pub')}"
        assert named in found.out
    assert opened(Path("signed.json").read_text()).payload == Path("plain.json").read_bytes()


def test_signing_again_changes_nothing_and_mends_a_false_signature(folder):
    text = Path("signed.json").read_text()
    signatures.sign("signed.json", "lab.key")
    assert Path("signed.json").read_text() == text
    envelope = opened(text)
    false = Envelope(envelope.payload, signatures=(Signature(b"", fingerprint("lab.key.pub")),))
    Path("signed.json").write_text(false.to_text())
    refused(lambda: signatures.verify("signed.json", "lab.key.pub"), "does not match the content")
    signatures.sign("signed.json", "lab.key")
    assert Path("signed.json").read_text() == text


def test_the_number_of_signatures_has_a_limit(folder):
    envelope = opened(Path("signed.json").read_text())
    for count, accepted in ((MAX_SIGNATURES, True), (MAX_SIGNATURES + 1, False)):
        others = tuple(Signature(b"", f"{at:064x}") for at in range(count - 1))
        many = Envelope(envelope.payload, signatures=others + envelope.signatures)
        Path("many.json").write_text(many.to_text())
        if accepted:
            assert signatures.verify("many.json", "lab.key.pub") == dpcov.load("plain.json")
            call = lambda: signatures.sign("many.json", "other.key")  # noqa: E731
            refused(call, "already has 100 signatures", kind=ReleaseError)
        else:
            refused(lambda: dpcov.load("many.json"), "signatures", kind=ReleaseError)


def test_a_payload_that_is_no_release_is_not_signed_and_not_verified(folder):
    lab = keys.PrivateKey.read("lab.key")
    Path("bad.json").write_text("{}")
    refused(lambda: signatures.sign("bad.json", "lab.key"), "bad.json", kind=ReleaseError)
    assert Path("bad.json").read_text() == "{}"
    for payload in (b"{}", b"\xff", Path("signed.json").read_bytes()):
        Path("bad.json").write_text(lab.signed(Envelope(payload)).to_text())
        call = lambda: signatures.verify("bad.json", "lab.key.pub")  # noqa: E731
        refused(call, "Not verified. 'bad.json' is not a valid release", kind=SignatureError)


def test_a_warning_about_a_seed_stays_with_a_verified_file(folder, run):
    release = dpcov.release(np.eye(50), lower=0, upper=1, epsilon=1.0, seed=1)
    release.save("seeded.json")
    signatures.sign("seeded.json", "lab.key")
    assert SEEDED in " ".join(run("verify seeded.json --key lab.key.pub").out.split())


def test_openssl_reads_the_keys_and_verifies_the_signature(folder):
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    signatures.create_key("safe.key", passphrase=SECRET)
    for name in ("lab", "safe"):
        words = ["openssl", "pkey", "-in", f"{name}.key", "-pubout", "-passin", f"pass:{SECRET}"]
        done = subprocess.run(words, capture_output=True, check=True)
        assert done.stdout == Path(f"{name}.key.pub").read_bytes()
    envelope = opened(Path("signed.json").read_text())
    Path("bytes").write_bytes(envelope.signed_bytes)
    Path("sig").write_bytes(envelope.signatures[0].signature)
    check = ["openssl", "pkeyutl", "-verify", "-rawin", "-in", "bytes", "-sigfile", "sig"]
    for name, code in (("lab", 0), ("other", 1)):
        words = [*check, "-pubin", "-inkey", f"{name}.key.pub"]
        assert subprocess.run(words, capture_output=True, check=False).returncode == code
    command = "openssl pkey -pubin -in lab.key.pub -outform DER | sha256sum"
    page = Path(__file__).parents[1] / "docs" / "how-to" / "signatures.md"
    assert command in page.read_text()
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert done.stdout.split()[0] == fingerprint("lab.key.pub")


# Keys


def test_only_the_owner_reads_a_private_key_whatever_the_mask(tmp_path, run):
    before = os.umask(0)
    try:
        assert run("key create new.key").code == 0
        assert run("key create new.key --force").code == 0
    finally:
        os.umask(before)
    assert stat.S_IMODE(Path("new.key").stat().st_mode) == 0o600
    assert stat.S_IMODE(Path("new.key.pub").stat().st_mode) == 0o666  # control
    assert Path("new.key").read_text().startswith("-----BEGIN PRIVATE KEY-----")


@pytest.mark.parametrize("there", ["lab.key", "lab.key.pub"])
def test_nothing_overwrites_a_key_without_force(there, folder, run):
    gone = ({"lab.key", "lab.key.pub"} - {there}).pop()
    Path(gone).unlink()
    before = Path(there).read_bytes()
    found = run("key create lab.key")
    assert (found.code, found.out) == (2, "")
    assert f"'{there}' already exists" in found.err
    assert Path(there).read_bytes() == before
    assert not Path(gone).exists()
    assert run("key create lab.key --force").code == 0
    assert Path(there).read_bytes() != before
    assert keys.PrivateKey.read("lab.key").public.fingerprint == fingerprint("lab.key.pub")


def test_no_output_replaces_the_key(folder, run):
    found = run("sign lab.key --key lab.key")
    assert (found.code, found.err) == (
        2, "dpcov: The file 'lab.key' is an input of this command. Choose another name.\n"
    )  # fmt: skip
    write_people(folder)
    line = "release people.csv --schema people.toml --epsilon 1 --sign lab.key --force --out"
    assert run(f"{line} lab.key").code == 2
    keys.PrivateKey.read("lab.key")


def test_the_passphrase_comes_from_the_environment_or_a_file(folder, run, monkeypatch):
    Path("pass").write_text(f"{SECRET}\nsecond line\n")
    assert "with a passphrase" in run("key create a.key --passphrase-file pass").out
    monkeypatch.setenv("DPCOV_KEY_PASSPHRASE", SECRET)
    assert "with a passphrase" in run("key create b.key").out
    monkeypatch.delenv("DPCOV_KEY_PASSPHRASE")
    assert "no passphrase" in run("key create c.key").out  # control
    for name in ("a", "b"):
        assert "ENCRYPTED" in Path(f"{name}.key").read_text()
        assert run(f"sign plain.json --key {name}.key").code == 2
        assert run(f"sign plain.json --key {name}.key --passphrase-file pass").code == 0
        assert run(f"verify plain.json --key {name}.key.pub").code == 0
    monkeypatch.setenv("DPCOV_KEY_PASSPHRASE", SECRET)
    assert run("sign plain.json --key b.key").code == 0
    assert run("sign plain.json --key lab.key").code == 0  # a key without one does not mind


def test_a_terminal_asks_for_the_passphrase_and_does_not_show_it(folder):
    with terminal([*DPCOV, "key", "create", "t.key"], folder, {}) as person:
        for question in ("Passphrase (empty for none): ", "Repeat the passphrase: "):
            person.expect(question)
            person.type(f"{SECRET}\r")
        assert person.ended() == 0
        assert SECRET not in person.seen
    assert "ENCRYPTED" in Path("t.key").read_text()
    for answer, code in ((SECRET, 0), ("wrong", 2), ("", 2)):
        with terminal([*DPCOV, "sign", "plain.json", "--key", "t.key"], folder, {}) as person:
            person.expect("Passphrase of t.key: ")
            person.type(f"{answer}\r")
            assert person.ended() == code
    signatures.verify("plain.json", "t.key.pub")


def unusable(folder):
    """Write files that are no key, or not the wanted key."""
    made = [
        ("rsa", "genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:1024"),
        ("ec", "genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256"),
        ("ed448", "genpkey -algorithm ED448"),
    ]
    for name, words in made:
        for line in (f"{words} -out {name}", f"pkey -in {name} -pubout -out {name}.pub"):
            subprocess.run(["openssl", *line.split()], capture_output=True, check=True)
    old = ["openssl", "rsa", "-in", "rsa", "-traditional", "-out", "old"]
    subprocess.run(old, capture_output=True, check=True)
    shutil.copy("old", "old.pub")
    for name in ("empty", "ssh", "cut", "binary", "huge"):
        for ending, own in (("", "lab.key"), (".pub", "lab.key.pub")):
            content = {
                "empty": b"",
                "ssh": b"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ lab",
                "cut": Path(own).read_bytes()[:60],
                "binary": os.urandom(50) + b"\xff",
                "huge": b"A" * (keys.LARGEST_KEY + 1),
            }[name]
            Path(name + ending).write_bytes(content)
    Path("folder").mkdir()
    Path("folder.pub").mkdir()
    return {
        **{name: "of type" for name, _ in made},
        "old": "'RSA PRIVATE KEY'",
        "empty": "in PEM format",
        "ssh": "in PEM format",
        "cut": "is damaged",
        "binary": "it is not UTF-8 text",
        "huge": "larger than",
        "folder": "Is a directory",
        "absent": "No such file",
    }


def test_each_file_that_is_no_key_has_one_clear_message(folder, run):
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    for name, words in unusable(folder).items():
        private = refused(lambda name=name: keys.PrivateKey.read(name), words, kind=KeyFileError)
        public = refused(
            lambda name=name: keys.PublicKey.read(f"{name}.pub"), words, kind=KeyFileError
        )
        assert (name in private) > (f"{name}.pub" in private)
        assert f"{name}.pub" in public
        before = Path("plain.json").read_bytes()
        for line in (f"sign plain.json --key {name}", f"verify plain.json --key {name}.pub"):
            found = run(line)
            assert (found.code, found.out, found.err.count("\n")) == (2, "", 1)
        assert Path("plain.json").read_bytes() == before
    call = lambda: keys.PrivateKey.read("lab.key.pub")  # noqa: E731
    refused(call, "contains a public key", "without the ending .pub", kind=KeyFileError)
    call = lambda: keys.PublicKey.read("lab.key")  # noqa: E731
    refused(call, "contains a private key", "ending .pub", kind=KeyFileError)


def test_a_passphrase_that_does_not_fit_has_one_clear_message(folder):
    signatures.create_key("safe.key", passphrase=SECRET)
    sign = signatures.sign
    refused(lambda: sign("plain.json", "safe.key"), "has a passphrase", kind=KeyFileError)
    wrong = lambda: sign("plain.json", "safe.key", passphrase="wrong")  # noqa: E731, S106
    refused(wrong, "does not open the private key 'safe.key'", kind=KeyFileError)
    sign("plain.json", "safe.key", passphrase=SECRET)
    too_long = lambda: signatures.create_key("b.key", passphrase="ü" * 600)  # noqa: E731
    refused(too_long, "1200 bytes", kind=KeyFileError)
    assert not Path("b.key").exists()


def test_an_empty_passphrase_file_is_refused(folder, run):
    Path("pass").write_text("\nsecond\n")
    found = run("key create new.key --passphrase-file pass")
    assert (found.code, Path("new.key").exists()) == (2, False)
    assert "'pass' is empty" in found.err


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff\xfe", b'{"payloadType": 1, "payload": ""}'])
def test_a_file_that_is_no_release_is_refused_by_both_commands(content, folder, run):
    Path("bad.json").write_bytes(content)
    for line, code in (
        ("sign bad.json --key lab.key", 2),
        ("verify bad.json --key lab.key.pub", 1),
    ):
        found = run(line)
        assert (found.out, found.err.count("\n")) == ("", 1)
        assert found.code == code
        assert "bad.json" in found.err
    assert Path("bad.json").read_bytes() == content


def test_what_cannot_be_read_is_an_error_and_no_verdict(folder, run):
    Path("folder").mkdir()
    for name in ("folder", "absent.json"):
        for line in (f"verify {name} --key lab.key.pub", f"sign {name} --key lab.key"):
            found = run(line)
            assert (found.code, found.out, found.err.count("\n")) == (2, "", 1)
            assert f"'{name}'" in found.err
    assert not Path("absent.json").exists()


def test_a_full_disk_leaves_no_key_and_the_file_as_it_was(folder, monkeypatch):
    def full(*_):
        raise FULL

    before = Path("plain.json").read_bytes()
    monkeypatch.setattr(os, "posix_fallocate", full)
    refused(lambda: signatures.create_key("new.key"), "No space left", kind=OutputError)
    monkeypatch.undo()
    os.chdir(folder)
    monkeypatch.setattr(os, "fsync", full)
    refused(lambda: signatures.create_key("new.key"), "No space left", kind=OutputError)
    refused(lambda: signatures.sign("plain.json", "lab.key"), "No space left", kind=OutputError)
    assert not [path.name for path in folder.iterdir() if path.name.startswith(("new", "."))]
    assert Path("plain.json").read_bytes() == before


def test_signing_keeps_the_permissions_of_the_file(folder):
    Path("plain.json").chmod(0o640)
    signatures.sign("plain.json", "lab.key")
    assert stat.S_IMODE(Path("plain.json").stat().st_mode) == 0o640


# The command release


LINE = "release people.csv --schema people.toml --epsilon 1 --ledger new.ledger --out new.json"


def test_a_release_is_signed_as_it_is_made(folder, run):
    write_people(folder)
    Ledger.create("new.ledger", PureDP(2.0))
    found = run(f"{LINE} --sign lab.key")
    assert found.code == 0, found.err
    assert "signed with the key lab.key" in found.out
    assert run("verify new.json --key lab.key.pub").code == 0
    told = run(f"{LINE.replace('new.json', 'b.json')} --sign lab.key --json").out
    assert json.loads(told)["signatures"] == [fingerprint("lab.key.pub")]


def test_each_release_of_a_group_is_signed(folder, run):
    write_people(folder)
    line = LINE.replace("--ledger new.ledger ", "").replace("--epsilon 1", "--epsilon 20")
    found = run(f"{line} --sign lab.key --by sex")
    assert found.code == 0, found.err
    files = sorted(folder.glob("new*.json"))
    assert len(files) > 1
    for file in files:
        signatures.verify(file, "lab.key.pub")


def test_a_key_that_cannot_sign_is_found_before_the_budget_is_spent(folder, run, monkeypatch):
    write_people(folder)
    ledger = Ledger.create("new.ledger", PureDP(2.0))
    signatures.create_key("safe.key", passphrase=SECRET)
    monkeypatch.setenv("DPCOV_KEY_PASSPHRASE", "wrong")
    for key in ("safe.key", "lab.key.pub", "absent"):
        found = run(f"{LINE} --sign {key}")
        assert (found.code, found.out) == (2, "")
        assert found.err.endswith(" Nothing was spent.\n")
        assert ledger.account().left == {"epsilon": 2.0}
        assert not Path("new.json").exists()
    monkeypatch.setenv("DPCOV_KEY_PASSPHRASE", SECRET)
    assert run(f"{LINE} --sign safe.key").code == 0
    assert ledger.account().left == {"epsilon": 1.0}


def test_a_signed_release_that_cannot_be_written_is_printed_signed(folder, run, monkeypatch):
    write_people(folder)
    Ledger.create("new.ledger", PureDP(2.0))

    def full(*_):
        raise FULL

    fsync = os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda file: full() if Path("new.json").exists() else fsync(file)
    )
    found = run(f"{LINE} --sign lab.key --quiet")
    assert found.code == 2
    monkeypatch.undo()
    os.chdir(folder)
    Path("saved.json").write_text(found.out)
    signatures.verify("saved.json", "lab.key.pub")


def test_reading_a_release_loads_no_key_code(folder):
    code = "import sys, dpcov; dpcov.load('signed.json'); print('dpcov.core.keys' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
