"""200 edits of a signed file, for `dpcov verify` and for the verifiers of the documentation.

The programs in R and JavaScript are the files that the page on signatures offers.
"""

from __future__ import annotations

import base64
import gzip
import json
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

import dpcov
from dpcov import signatures
from dpcov.core.envelope import RELEASE_TYPE, Envelope, opened
from dpcov.errors import DpcovError, SignatureError

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs" / "_ext"))
import pages  # noqa: E402 (the site's own code is no package)

GUIDES = ROOT / "docs" / "how-to"
EDITS = 200
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
ORDER = 2**252 + 27742317777372353535851937790883648493  # of the base point of Ed25519
EACH_R = """
for (file in list.files(pattern = "^edit")) {
  text <- tryCatch(verified(file, "lab.key.pub"), error = function(e) NULL)
  if (!is.null(text)) writeBin(charToRaw(text), paste0("r-", file))
}
"""
EACH_JS = """
import { readdirSync, writeFileSync } from "node:fs";

for (const file of readdirSync(".").filter((name) => name.startsWith("edit"))) {
  let text = null;
  try { text = verified(file, "lab.key.pub"); } catch {}
  if (text !== null) writeFileSync(`js-${file}`, text);
}
"""


@dataclass(frozen=True)
class Edit:
    """A file that differs from the signed one.

    `differs`: payload, type or signature is another one, or could be read as another one. None of a
    file that a verifier can refuse or accept, because only its encoding is unusual.
    """

    kind: str
    content: bytes
    differs: bool | None


@dataclass(frozen=True)
class Signed:
    """A signed file in parts, another file of the same key, and how the key signs."""

    payload: bytes
    other: bytes
    sign: Callable[[str, bytes], bytes]
    keyid: str

    def signature(self, payload: bytes, kind: str = RELEASE_TYPE) -> dict[str, str]:
        return {"keyid": self.keyid, "sig": b64(self.sign(kind, payload))}

    def document(self, **parts: Any) -> dict[str, Any]:
        own = {
            "payloadType": RELEASE_TYPE,
            "payload": b64(self.payload),
            "signatures": [self.signature(self.payload)],
        }
        return own | parts

    def text(self, **parts: Any) -> str:
        return json.dumps(self.document(**parts), indent=1) + "\n"


def b64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def random_edits(signed: Signed, generator: np.random.Generator, count: int) -> Iterator[Edit]:
    """Yield changes of one character or one bit in the payload or the signature, and cuts."""
    text = signed.text()
    sig = signed.document()["signatures"][0]["sig"]
    for _ in range(count):
        payload = list(b64(signed.payload))
        at = int(generator.integers(len(payload) - 4))  # the last four can have unused bits
        payload[at] = generator.choice([c for c in ALPHABET if c != payload[at]])
        yield Edit("character of the payload", signed.text(payload="".join(payload)).encode(), True)
        content = bytearray(text.encode())
        at = text.index(b64(signed.payload)) + at
        content[at] ^= 1 << int(generator.integers(8))
        yield Edit("bit of the payload", bytes(content), True)
    for _ in range(count // 2):
        own, at = list(sig), int(generator.integers(len(sig) - 4))
        own[at] = generator.choice([c for c in ALPHABET if c != own[at]])
        edited = [{"keyid": signed.keyid, "sig": "".join(own)}]
        yield Edit("character of the signature", signed.text(signatures=edited).encode(), True)
        cut = int(generator.integers(len(text) - 3))
        yield Edit("cut", text[:cut].encode(), True)


def edits_of_signatures(signed: Signed) -> Iterator[Edit]:
    true = base64.b64decode(signed.document()["signatures"][0]["sig"])
    other_s = int.from_bytes(true[32:], "little") + ORDER  # equal modulo the order
    false = [
        *(b"", bytes(64), b"\xff" * 64, true[:63], true + b"\0", true * 2, true[32:] + true[:32]),
        true[:32] + other_s.to_bytes(32, "little"),
        Ed25519PrivateKey.generate().sign(Envelope(signed.payload).signed_bytes),
        signed.sign(RELEASE_TYPE, signed.other),
        signed.sign("application/json", signed.payload),
    ]
    for one in false:
        edited = [{"keyid": signed.keyid, "sig": b64(one)}]
        yield Edit("false signature", signed.text(signatures=edited).encode(), True)
    own = signed.signature(signed.payload)
    for wrong in (
        [],
        {},
        None,
        "x",
        [None],
        [[]],
        [{}],
        [{"sig": None}],
        [{"keyid": own["keyid"]}],
    ):
        yield Edit("no signature", signed.text(signatures=wrong).encode(), True)
    for keyid in ("", "0" * 64, own["keyid"].upper(), "?", "a" * 10_000, own["keyid"][:-1] + "x"):
        edited = [own | {"keyid": keyid}]
        yield Edit("keyid", signed.text(signatures=edited).encode(), False)
    yield Edit("keyid", signed.text(signatures=[{"sig": own["sig"]}]).encode(), False)
    stranger = {"keyid": "f" * 64, "sig": b64(Ed25519PrivateKey.generate().sign(b""))}
    for added in ([own, stranger], [stranger, own], [stranger, own, stranger], [own, own]):
        yield Edit("added signature", signed.text(signatures=added).encode(), False)
    yield Edit("added signature", signed.text(signatures=[stranger, stranger]).encode(), True)


def edits_of_types(signed: Signed) -> Iterator[Edit]:
    wrong: list[Any] = ["application/json", "", RELEASE_TYPE.upper(), f"{RELEASE_TYPE} "]
    wrong += [f" {RELEASE_TYPE}", f"{RELEASE_TYPE}; v=1", f"{RELEASE_TYPE}\0", RELEASE_TYPE[:-1]]
    wrong += [
        RELEASE_TYPE.replace("a", "\N{CYRILLIC SMALL LETTER A}"),
        None,
        1,
        [RELEASE_TYPE],
        {"a": RELEASE_TYPE},
    ]
    for kind in wrong:
        yield Edit("type", signed.text(payloadType=kind).encode(), True)
    for kind in ("application/json", "application/vnd.in-toto+json"):  # signed for another use
        own = [signed.signature(signed.payload, kind)]
        yield Edit("type", signed.text(payloadType=kind, signatures=own).encode(), True)
        yield Edit("type", signed.text(signatures=own).encode(), True)
    for moved in (1, 30):  # the bytes of type and payload in a row are the same
        kind = f"{RELEASE_TYPE} {len(signed.payload)} {signed.payload[:moved].decode()}"
        rest = b64(signed.payload[moved:])
        yield Edit("type", signed.text(payloadType=kind, payload=rest).encode(), True)


def edits_of_payloads(signed: Signed) -> Iterator[Edit]:
    """Yield other payloads; most of them have the same meaning as JSON."""
    text = signed.payload.decode()
    content = json.loads(text)
    bolder = json.loads(text)
    bolder["guarantee"]["budget"]["epsilon"] = 0.01
    twice = text.replace(
        '"guarantee"', f'"guarantee": {json.dumps(bolder["guarantee"])}, "guarantee"'
    )
    again = [
        json.dumps(content),
        json.dumps(content, sort_keys=True),
        json.dumps(content, indent=2),
    ]
    again += [text + "\n", text[:-1], " " + text, "\ufeff" + text, text.replace("\n", "\r\n")]
    again += [text.replace("mechanism", "mech\\u0061nism"), twice, json.dumps(bolder), "", "{}"]
    again += [text.replace("1.0", "1.00", 1), text.replace("1.0", "1e0", 1)]
    for one in again:
        yield Edit("other payload", signed.text(payload=b64(one.encode())).encode(), True)
    yield Edit("other payload", signed.text(payload=b64(text.encode("utf-16"))).encode(), True)
    yield Edit("payload of another file", signed.text(payload=b64(signed.other)).encode(), True)
    parts = signed.document(payload=b64(signed.other), signatures=[signed.signature(signed.other)])
    swapped = signed.text(payload=parts["payload"]), signed.text(signatures=parts["signatures"])
    for one in swapped:
        yield Edit("swapped envelope", one.encode(), True)
    nested = signed.text().encode()
    yield Edit("swapped envelope", signed.text(payload=b64(nested)).encode(), True)
    for one in (None, 1, [], {}, [b64(signed.payload)], text, content):
        yield Edit("payload of another form", signed.text(payload=one).encode(), True)


def edits_of_encodings(signed: Signed) -> Iterator[Edit]:
    text, own = signed.text(), b64(signed.payload)
    for name in ("utf-16", "utf-16-le", "utf-32", "cp500", "utf-8-sig"):
        yield Edit("other encoding", text.encode(name), None)
    yield Edit("other encoding", gzip.compress(text.encode()), None)
    document = signed.document()
    spaced = [json.dumps(document), json.dumps(document, indent=4), text.replace("\n", "\r\n")]
    spaced += [text.replace(" ", "\t"), f"\n\n {text}\n\n", text[:-1]]
    spaced += [json.dumps(dict(reversed(document.items()))), signed.text(more={"a": [1]})]
    for one in spaced:
        yield Edit("whitespace and order", one.encode(), False)
    url = own.replace("+", "-").replace("/", "_")
    yield Edit("URL-safe base64", signed.text(payload=url).encode(), False)
    for one in (own.rstrip("="), f" {own}", f"{own}\n", f"{own[:40]}\n{own[40:]}", f"{own}====A"):
        yield Edit("unusual base64", signed.text(payload=one).encode(), None)
    yield Edit("unusual base64", text.replace(own, f"{own[:40]}\n{own[40:]}").encode(), None)
    escaped = text.replace(RELEASE_TYPE, RELEASE_TYPE.replace("/", "\\/"))
    yield Edit("escape", escaped.encode(), None)
    yield Edit("escape", text.replace('"payload"', '"p\\u0061yload"').encode(), None)
    for one in (f"{text}x", f"{text}{text}", f"[{text}]", f"{text}\0", "", "null", "[]", "{}", '"'):
        yield Edit("no envelope", one.encode(), True)


def edits_of_names(signed: Signed) -> Iterator[Edit]:
    """Yield names that occur twice: programs differ in which one counts."""
    text, other = signed.text(), b64(signed.other)
    for name, value in (("payload", other), ("payloadType", "application/json")):
        for spelt in (name, name.replace("a", "\\u0061", 1)):
            more = f'"{spelt}": "{value}"'
            yield Edit("name twice", text.replace("{", f"{{{more},", 1).encode(), True)
            yield Edit("name twice", f"{text.rstrip()[:-1]}, {more}}}".encode(), True)
    both = text.replace('"payload"', f'"payload": "{other}", "payload"')
    yield Edit("name twice", both.encode(), True)
    for name in ("payload", "payloadType", "signatures"):
        document = signed.document()
        del document[name]
        yield Edit("name missing", json.dumps(document).encode(), True)
        document[name.upper()] = signed.document()[name]
        yield Edit("name missing", json.dumps(document).encode(), True)


def edits(signed: Signed) -> list[Edit]:
    """Return exactly 200 different edits, the same in every run for the same file."""
    planned = [
        *edits_of_signatures(signed),
        *edits_of_types(signed),
        *edits_of_payloads(signed),
        *edits_of_encodings(signed),
        *edits_of_names(signed),
    ]
    found = {edit.content: edit for edit in planned}
    found.pop(signed.text().encode(), None)  # an edit can change nothing, if no "+" is in the file
    generator = np.random.default_rng(57)
    while len(found) < EDITS:
        for edit in random_edits(signed, generator, 30):
            found.setdefault(edit.content, edit)
    return list(found.values())[:EDITS]


def pae(kind: str, payload: bytes) -> bytes:
    return Envelope(payload, kind).signed_bytes


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("edits")


@pytest.fixture(scope="module")
def signed(folder) -> Signed:
    """Return a signed file as dpcov writes it, and the payload of another one."""
    for name in ("one", "other"):
        release = dpcov.release(np.eye(50), lower=0, upper=1, epsilon=1.0)
        release.save(folder / f"{name}.json")
    signatures.create_key(folder / "lab.key")
    payload, other = ((folder / f"{name}.json").read_bytes() for name in ("one", "other"))
    keyid = signatures.sign(folder / "one.json", folder / "lab.key")
    key = load_pem_private_key((folder / "lab.key").read_bytes(), None)
    found = Signed(payload, other, lambda kind, body: key.sign(pae(kind, body)), keyid)
    assert found.text() == (folder / "one.json").read_text()
    return found


@pytest.fixture(scope="module")
def files(signed, folder) -> dict[str, Edit]:
    """Write the edits as files, and the file without an edit."""
    made = {f"edit{at:03}": edit for at, edit in enumerate(edits(signed))}
    assert len({edit.content for edit in made.values()} - {signed.text().encode()}) == EDITS
    made["edit-none"] = Edit("none", signed.text().encode(), False)
    for name, edit in made.items():
        (folder / name).write_bytes(edit.content)
    return made


def by_dpcov(file: Path) -> bytes | None:
    """Return the payload of a file that dpcov verifies, or None if dpcov refuses the file."""
    try:
        release = signatures.verify(file, file.with_name("lab.key.pub"))
    except SignatureError:
        return None
    found = opened(file.read_text())
    assert found is not None
    assert release == dpcov.load(file)
    return found.payload


def run_r(folder: Path, code: str) -> None:
    words = ["Rscript", "--vanilla", "-e", "library(jsonlite); library(openssl)"]
    if not shutil.which("Rscript") or subprocess.run(words, capture_output=True).returncode:
        pytest.skip("R with jsonlite and openssl is not installed; .ci/services installs it")
    (folder / "page.R").write_text(code, encoding="utf-8")
    words = ["Rscript", "--vanilla", "page.R"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def run_js(folder: Path, code: str) -> str:
    if shutil.which("node") is None:
        pytest.skip("Node.js is not installed; .ci/services installs it")
    (folder / "page.mjs").write_text(code, encoding="utf-8")
    words = ["node", "page.mjs"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module", params=["dpcov", "r", "js"])
def verdicts(request, files, folder) -> dict[str, bytes | None]:
    """Return the payload that a verifier returns for each file, or None."""
    if request.param == "dpcov":
        return {name: by_dpcov(folder / name) for name in files}
    if request.param == "r":
        run_r(folder, (GUIDES / "verify.R").read_text(encoding="utf-8") + EACH_R)
    else:
        run_js(folder, (GUIDES / "verify.mjs").read_text(encoding="utf-8") + EACH_JS)
    found = {name: folder / f"{request.param}-{name}" for name in files}
    return {name: path.read_bytes() if path.exists() else None for name, path in found.items()}


def test_every_edit_of_payload_type_or_signature_is_refused(verdicts, files):
    wrong = {
        name: files[name].kind
        for name, payload in verdicts.items()
        if files[name].differs and payload is not None
    }
    assert wrong == {}
    assert sum(edit.differs is True for edit in files.values()) >= 160


def test_a_file_that_says_the_same_is_verified(verdicts, files):
    """The control: a verifier that refuses everything fails here."""
    wrong = {
        name: files[name].kind
        for name, payload in verdicts.items()
        if files[name].differs is False and payload is None
    }
    assert wrong == {}
    assert verdicts["edit-none"] is not None
    assert sum(edit.differs is False for edit in files.values()) >= 20


def test_whatever_is_verified_has_the_signed_payload(verdicts, signed):
    assert {payload for payload in verdicts.values() if payload is not None} == {signed.payload}


def test_the_edits_are_of_every_kind(files):
    kinds = Counter(edit.kind for edit in files.values())
    assert sum(kinds.values()) == EDITS + 1
    assert {"type", "keyid", "cut", "name twice", "swapped envelope", "added signature"} <= {*kinds}


def test_no_edit_makes_an_unexpected_error(files, folder):
    """Reading gives a release or one of our errors."""
    read = 0
    for name in files:
        with suppress(DpcovError):
            dpcov.load(folder / name)
            read += 1
    assert 30 < read < EDITS  # control: a file that nobody verifies can still be read


# Negative controls: what other verifiers accept


def accepted(signed: Signed, covered: Callable[[str, bytes], bytes], folder: Path) -> list[Edit]:
    """Return edits that a verifier accepts whose signature covers `covered(type, payload)`."""
    key = load_pem_private_key((folder / "lab.key").read_bytes(), None)

    def verified(content: bytes) -> bool:
        document = json.loads(content)
        payload = base64.b64decode(document["payload"], validate=True)
        signature = base64.b64decode(document["signatures"][0]["sig"], validate=True)
        key.public_key().verify(signature, covered(document["payloadType"], payload))
        return True

    own = Signed(
        signed.payload, signed.other, lambda kind, body: key.sign(covered(kind, body)), signed.keyid
    )
    found = []
    for edit in edits(own):
        try:
            verified(edit.content)
        except (InvalidSignature, ValueError, LookupError, TypeError, AttributeError):
            continue
        found.append(edit)
    return found


def serialised_again(kind: str, payload: bytes) -> bytes:
    """Return canonical JSON, as some standards sign it."""
    try:
        document = json.loads(payload)
    except ValueError:
        return pae(kind, payload)
    return pae(kind, json.dumps(document, sort_keys=True, separators=(",", ":")).encode())


def test_control_a_verifier_that_serialises_again_accepts_other_bytes(signed, folder):
    found = [edit for edit in accepted(signed, serialised_again, folder) if edit.differs]
    others = [edit for edit in found if edit.kind == "other payload"]
    assert len(others) >= 8
    bold = [
        edit
        for edit in others
        if b'"epsilon": 0.01' in base64.b64decode(json.loads(edit.content)["payload"])
    ]
    assert bold, "a payload with two guarantees"


def test_control_a_verifier_that_ignores_the_type_accepts_another_type(signed, folder):
    found = accepted(signed, lambda _, payload: payload, folder)
    assert sum(edit.kind == "type" for edit in found) >= 8


def test_control_a_script_that_does_not_count_names_reads_one_of_two_payloads(signed, folder):
    """JSON.parse takes the last one, other readers the first one."""
    code = (GUIDES / "verify.mjs").read_text(encoding="utf-8")
    counts = 'if (text.split(`"${name}"`).length !== 2)'
    assert counts in code
    two = signed.text().replace('"payload"', f'"payload": "{b64(signed.other)}", "payload"')
    (folder / "two.json").write_text(two)
    ask = 'try { verified("two.json", "lab.key.pub"); console.log("yes"); } catch {}'
    assert run_js(folder, code + ask) == ""
    assert run_js(folder, code.replace(counts, "if (false)") + ask) == "yes\n"


# The page as it stands


def test_the_programs_of_the_page_print_the_guarantee_of_the_verified_release(folder, signed):
    shutil.copy(folder / "one.json", folder / "study.json")
    words = f"{dpcov.load(folder / 'study.json').guarantee.budget.epsilon:g}"
    page = (GUIDES / "signatures.md").read_text(encoding="utf-8")
    r, js = (block.code for block in pages.blocks(page) if block.language in ("r", "js"))
    for name in ("verify.R", "verify.mjs"):
        shutil.copy(GUIDES / name, folder)
    run_r(folder, r.replace("cat(", 'cat(file = "said", '))
    assert (folder / "said").read_text() == words
    assert run_js(folder, js).strip() == words
