"""The page of `dpcov app`: what it shows, what it writes, and attacks that must fail."""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
import stat
import subprocess
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("werkzeug", reason="the page needs the extra `app`")
pytest.importorskip("waitress", reason="the page needs the extra `app`")

from werkzeug.test import Client

from app_keyboard import served
from dpcov.app import commands, releasing, site
from dpcov.app.access import Access
from dpcov.app.commands import Ran
from dpcov.app.folder import Folder
from dpcov.app.forms import editing_form
from dpcov.app.number_formats import FORMATS, preferred
from dpcov.app.pages import MAX_BODY_BYTES, Pages
from dpcov.app.widths import Widths, half_width
from dpcov.errors import SchemaError, SourceError
from dpcov.rows.schema import Schema
from tables_for_tests import PLANTED, write_people

NAMES = ["age", "sex", "income", "note"]
QUERY = "file=people.csv&header=yes"
ANSWERS: dict[str, Any] = {
    "name": NAMES,
    "content-0": "age",
    "content-1": "categorical",
    "levels-1": "m\nf",
    "content-2": "number",
    "lower-2": "0",
    "upper-2": "200,000",
    "content-3": "ignored",
    "missing": "NA",
    "missing-numbers": "midpoint",
    "missing-categories": "zeros",
    "rows": "400",
    "epsilon": "1",
}
SCRIPT = "<script>document.body.dataset.harmed=1</script>"


@dataclass
class Person:
    """A person with an open page."""

    root: Path
    access: Access = field(default_factory=lambda: Access(5001))

    def __post_init__(self) -> None:
        self.pages = Pages(Folder(self.root), self.access)
        self.client = Client(self.pages)
        self.token = str(self.access._token)
        self.enter(self.token)

    def enter(self, token: str, **headers: str) -> Any:
        return self.client.post(
            "/enter", data={"token": token}, base_url=self.access.origin, headers=headers
        )

    def get(self, page: str = "", client: Client | None = None, **headers: str) -> Any:
        address = self.access.folder + page
        return (client or self.client).get(address, base_url=self.access.origin, headers=headers)

    def post(self, page: str, answers: dict[str, Any] | None = None, **headers: str) -> Any:
        own = {"Origin": self.access.origin} | headers
        return self.client.post(
            self.access.folder + page,
            data={"key": self.access.form_key} | (answers or {}),
            base_url=self.access.origin,
            headers=own,
        )


@pytest.fixture
def person(tmp_path: Path) -> Person:
    root = tmp_path / "study"
    root.mkdir()
    write_people(root)
    (root / "people.toml").unlink()
    return Person(root)


# What the page shows and writes


def test_names_of_a_header_appear_after_the_confirmation_only(person: Person) -> None:
    for page in ("", "table?file=people.csv", "columns?file=people.csv"):
        shown = person.get(page).text
        assert "income" not in shown
    assert person.get("columns?file=people.csv").status_code == 400
    confirmed = person.get(f"columns?{QUERY}")
    assert confirmed.status_code == 200
    assert all(f'value="{name}"' in confirmed.text for name in NAMES)
    without = person.get("columns?file=people.csv&header=no&columns=4").text
    assert 'value="x3"' in without
    assert "income" not in without


def test_the_command_of_a_schema_states_the_signs_of_numbers(person: Person) -> None:
    shown = person.get(f"columns?{QUERY}&decimal=,&thousands=.").text
    assert "--decimal , --thousands . --interactive" in shown


def test_no_cell_is_shown_and_no_row_is_counted(person: Person) -> None:
    shown = person.get(f"columns?{QUERY}").text + person.post(f"columns?{QUERY}", ANSWERS).text
    shown += person.get("budget?file=people.csv").text
    assert PLANTED not in shown
    assert "400" not in shown  # the number of rows of the table
    for name in ("people.csv", "people.csv.ledger", "../study/people.csv"):
        for page in ("read", "download"):
            answer = person.get(f"{page}?file=people.csv&name={name}")
            assert answer.status_code == 400
            assert PLANTED not in answer.text


def test_answers_become_the_schema_and_the_schema_becomes_answers(person: Person) -> None:
    assert person.post(f"columns?{QUERY}", ANSWERS).status_code == 303
    place = person.root / "people.csv.toml"
    made = Schema.load(place)
    assert [column.kind for column in made.columns.values()] == [
        *("number", "categorical", "number", "ignored")
    ]
    assert (made.columns["age"].upper, made.columns["income"].upper) == (120, 200_000)
    assert made.columns["sex"].levels == ("m", "f")
    assert made.missing == ("", "NA")
    for numbers in FORMATS.values():
        assert editing_form(made, numbers) is not None
    form = person.get("columns?file=people.csv&edit=yes").text
    assert 'value="200,000"' in form
    again = person.post("columns?file=people.csv&edit=yes", ANSWERS)
    assert "Confirm that dpcov can replace it" in again.text
    other = ANSWERS | {"content-0": "count", "upper-0": "99", "replace": "yes", "unit": "3"}
    other |= {"unit_type": "text", "max_rows": "2", "missing-2": "pairwise"}
    assert person.post("columns?file=people.csv&edit=yes", other).status_code == 303
    made = Schema.load(place)
    assert (made.columns["age"].kind, made.columns["income"].missing) == ("count", "pairwise")
    assert made.unit is not None
    assert (made.unit.column, made.unit.max_rows) == ("note", 2)


def test_a_code_book_gives_answers_that_the_user_checks(person: Person) -> None:
    age = {"name": "age", "type": "integer", "constraints": {"minimum": 18, "maximum": 99}}
    sex = {"name": "sex", "type": "string", "constraints": {"enum": ["m", "f"]}}
    resource = {"name": "people", "path": "people.csv", "schema": {"fields": [age, sex]}}
    (person.root / "book.json").write_text(json.dumps({"resources": [resource]}))
    assert "book.json" in person.get("table?file=people.csv").text
    form = person.get(f"columns?{QUERY}&book=book.json").text
    assert re.search(r'name="upper-0" value="99"', form)
    assert "m\nf</textarea>" in form
    assert "--metadata book.json" in form
    assert person.get(f"columns?{QUERY}&book=../book.json").status_code == 400


def test_a_schema_that_the_form_cannot_state_is_not_edited(person: Person) -> None:
    text = 'version = 3\n[columns.age]\nkind = "number"\nlower = 0\nupper = 9\nmissing = "level"\n'
    place = person.root / "people.csv.toml"
    for more in ('[derived]\nage2 = { square = "age" }\n', '[weight]\ncolumn = "w"\nmaximum = 1\n'):
        place.write_text(text + more)
        assert "Edit this file" in person.get("columns?file=people.csv&edit=yes").text
    place.write_text(text + 'missing_codes = ["-9"]\n')
    assert "Edit this file" in person.get("columns?file=people.csv&edit=yes").text
    place.write_text("intercept = 0.5\n" + text)
    assert "Edit this file" in person.get("columns?file=people.csv&edit=yes").text
    place.write_text(text)
    assert person.get("columns?file=people.csv&edit=yes").status_code == 200


def test_missing_answers_are_named_beside_their_fields(person: Person) -> None:
    wrong = ANSWERS | {
        "upper-2": "many",
        "levels-1": "m\nm",
        "missing-numbers": "",
        "content-3": "",
    }
    answer = person.post(f"columns?{QUERY}", wrong)
    assert answer.status_code == 400
    for name in ("upper-2", "levels-1", "missing-numbers", "content-3"):
        assert f'<a href="#{name}">' in answer.text
        assert re.search(rf'id="{name}"[^>]*aria-invalid', answer.text)
    assert not (person.root / "people.csv.toml").exists()


def test_a_release_runs_the_commands_of_the_terminal_in_their_order(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[list[str]] = []

    def record(arguments: Any, folder: Path) -> Ran:
        assert folder == person.root
        ran.append(list(arguments))
        return Ran("", 0, "", "")

    monkeypatch.setattr(commands, "run", record)
    person.post(f"columns?{QUERY}", ANSWERS)
    asked = {"file": "people.csv", "release": "people.csv.release.json"}
    asked |= {"ledger": "people.csv.ledger", "epsilon": "0.5", "total": "1,000", "purpose": "a b"}
    assert person.post("release", asked).status_code == 303
    shown = person.get("budget?file=people.csv").text
    create = ["ledger", "create", "people.csv.ledger", "--epsilon", "1000"]
    release = "release people.csv --schema people.csv.toml --epsilon 0.5 --ledger people.csv.ledger"
    ends = ["--purpose=a b", "--out", "people.csv.release.json"]
    assert ran == [create, [*release.split(), *ends]]
    assert "dpcov ledger create people.csv.ledger --epsilon TOTAL" in shown
    for bad in ("../x.release.json", "people.csv.toml", "people.csv-x.release.json", "/a"):
        assert person.post("release", asked | {"release": bad}).status_code == 400
    assert person.post("release", asked | {"ledger": "other.ledger"}).status_code == 400
    assert len(ran) == 2


def test_a_long_release_runs_once_while_its_page_waits(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_end, ran = threading.Event(), []

    def wait(arguments: Any, _: Path) -> Ran:
        ran.append(arguments[0])
        if arguments[0] == "release":
            may_end.wait(20)
        return Ran("", 2 * (arguments[0] == "release"), "", "dpcov: Not enough budget.")

    monkeypatch.setattr(commands, "run", wait)
    monkeypatch.setattr(releasing, "PATIENCE_SECONDS", 0.05)
    person.post(f"columns?{QUERY}", ANSWERS)
    asked = {"file": "people.csv", "release": "people.csv.release.json", "epsilon": "1"}
    asked |= {"ledger": "people.csv.ledger", "total": "2"}
    for _ in range(2):
        assert "The release runs." in person.post("release", asked).text
    state = "running?file=people.csv&release=people.csv.release.json"
    assert person.get(f"{state}&only=state").json == {"running": True}
    may_end.set()
    monkeypatch.setattr(releasing, "PATIENCE_SECONDS", 20)
    assert "Not enough budget" in person.get(state).text
    assert ran == ["ledger", "release"]
    assert person.get(f"{state}&only=state").json == {"running": False}


def test_a_release_that_exists_is_not_made_again(person: Person, monkeypatch: Any) -> None:
    monkeypatch.setattr(commands, "run", lambda *_: pytest.fail("a command ran"))
    person.post(f"columns?{QUERY}", ANSWERS)
    (person.root / "people.csv.release.json").write_text("{}")
    asked = {"file": "people.csv", "release": "people.csv.release.json", "epsilon": "1"}
    answer = person.post("release", asked | {"ledger": "people.csv.ledger", "total": "2"})
    assert "Nothing was spent" in answer.text
    assert 'value="people.csv-2.release.json"' in person.get("budget?file=people.csv").text


@pytest.mark.parametrize(
    ("language", "text", "number"),
    [
        ("en", "1,234.5", 1234.5),
        ("en", ".5", 0.5),
        ("en", "-2e3", -2000),
        ("de", "1.234,5", 1234.5),
        ("de", "0,05", 0.05),
        ("fr", "1\u202f234,5", 1234.5),
        ("fr", "1 234,5", 1234.5),
        ("fr", "\u22122,5", -2.5),
    ],
)
def test_a_number_is_read_and_shown_in_the_format_of_a_language(language, text, number) -> None:
    form = FORMATS[language]
    assert form.read(text) == number
    assert form.read(form.shown(number)) == number


@pytest.mark.parametrize(
    ("language", "text"),
    [("en", "1,5"), ("de", "1.5"), ("de", "1.23,4"), ("fr", "1.5"), ("en", "nan"), ("en", "1e999")],
)
def test_a_number_of_another_format_is_refused_and_not_misread(language, text) -> None:
    with pytest.raises(SchemaError, match="no number in the format"):
        FORMATS[language].read(text)


def test_the_browser_s_language_and_then_the_user_choose_the_format(person: Person) -> None:
    assert [preferred(one) for one in ("de-CH,en", "es,fr;q=0.8", "", "ja")] == [
        "de",
        "fr",
        "en",
        "en",
    ]
    fresh = Person(person.root)
    page = fresh.get(**{"Accept-Language": "de-DE"}).text
    assert '<option value="de" selected>' in page
    fresh.post("format", {"format": "fr"})
    assert '<option value="fr" selected>' in fresh.get().text
    german = FORMATS["de"]
    assert (german.shown(1234567.25), german.shown(-0.5)) == ("1.234.567,25", "-0,5")
    assert german.read_date("31.12.1990 23:59") == "1990-12-31 23:59"


def test_half_widths_come_in_the_user_s_numbers_and_only_with_rows_that_the_user_typed(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def planned(schema: Schema, rows: int, *amounts: float | None) -> Widths:
        asked.append((list(schema.columns), rows, amounts))
        return Widths(0.0512, 0.03, 0.2, 0.0412)

    monkeypatch.setattr(site, "widths", planned)
    person.post("format", {"format": "de"})
    answers = ANSWERS | {"upper-2": "200.000", "rows": "2.000", "epsilon": "0,5"}
    found = person.post(f"widths?{QUERY}", answers).json["sentences"]
    assert found[0].endswith("correlation: 0,051.")
    assert asked == [(NAMES, 2000, (0.5, None))]
    for missing in ({"rows": ""}, {"epsilon": "x"}, {"content-0": ""}):
        (sentence,) = person.post(f"widths?{QUERY}", answers | missing).json["sentences"]
        assert re.search("State|missing", sentence)
    assert len(asked) == 1
    assert (
        Widths(0.0512, 0.03, 0.2, 0.0412).without < half_width(0.02, 0.021) < 1 == half_width(9, 9)
    )


def test_the_command_refuses_what_is_no_folder_and_a_port_that_is_taken(run, tmp_path) -> None:
    assert "is not a folder" in run("app nowhere").err
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        refused = run(f"app {tmp_path} --no-browser --port {taken.getsockname()[1]}")
    assert refused.code == 2
    assert "Choose another port" in refused.err
    assert refused.out == ""


# Ten attacks. Each has a control: the person's own request passes.


def entered(answer: Any) -> bool:
    return answer.status_code < 400


def test_attack_another_origin(person: Person) -> None:
    for origin in ("http://evil.example", "null", "http://127.0.0.1:5002", "http://localhost:5001"):
        assert person.get(Origin=origin).status_code == 403
        assert person.post("format", {"format": "de"}, Origin=origin).status_code == 403
    for other in ("cross-site", "same-site"):
        assert person.get(**{"Sec-Fetch-Site": other}).status_code == 403
    assert "Access-Control-Allow-Origin" not in person.get().headers
    policy = person.get().headers["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in policy
    assert "script-src 'self';" in policy
    assert entered(person.get(**{"Sec-Fetch-Site": "same-origin"}))
    assert entered(person.post("format", {"format": "de"}))


def test_attack_another_user(tmp_path: Path) -> None:
    root = tmp_path / "study"
    root.mkdir()
    write_people(root)
    with served(root) as opening:
        text = opening.read_text()
        token = re.search(r'value="([^"]+)"', text)[1]
        port = int(re.search(r"127\.0\.0\.1:(\d+)", text)[1])
        assert stat.S_IMODE(opening.stat().st_mode) == 0o600
        assert stat.S_IMODE(opening.parent.stat().st_mode) == 0o700
        if Path("/proc/self/cmdline").exists():
            lines = [
                path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if readable(path)
            ]
            assert not any(token.encode() in line for line in lines)
        if hasattr(os, "geteuid") and os.geteuid() == 0:  # a process of another user
            cat = ["/bin/cat", str(opening)]
            tried = subprocess.run(cat, user=65534, group=65534, capture_output=True)
            assert (tried.returncode, tried.stdout) == (1, b"")
        for path in ("/", "/enter", "/app.css", "/people.csv", "/favicon.ico"):
            status, body = asked(port, "GET", path)
            assert status == 403
            assert b"people" not in body
        for address in ("::1", other_address()):  # only the loopback interface answers
            if address is not None:
                with socket.socket(family_of(address)) as one:
                    one.settimeout(2)
                    assert one.connect_ex((address, port)) != 0
        own = {"Host": f"127.0.0.1:{port}", "Content-Type": "application/x-www-form-urlencoded"}
        assert asked(port, "POST", "/enter", f"token={token}", own)[0] == 200
        assert not opening.exists()


def readable(path: Path) -> bool:
    try:
        path.read_bytes()
    except OSError:
        return False
    return True


def family_of(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def other_address() -> str | None:
    """Return an address of this computer that is not on the loopback interface."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        try:
            one.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            return None
        found = str(one.getsockname()[0])
    return None if found.startswith("127.") else found


def asked(port: int, method: str, path: str, body: str = "", headers: Any = None) -> Any:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request(method, path, body or None, headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_attack_dns_rebinding(person: Person) -> None:
    for host in ("evil.example:5001", "localhost:5001", "127.0.0.1", "127.0.0.1:5002", ""):
        assert person.get(Host=host).status_code == 403
        late = Person(person.root)
        late.access._token = late.token
        assert late.enter(late.token, Host=host).status_code == 403
    assert entered(person.get(Host="127.0.0.1:5001"))


def test_attack_a_stolen_url(person: Person) -> None:
    page = person.get()
    thief = Client(person.pages)
    for client in (thief, Client(person.pages, use_cookies=False)):
        assert person.get(f"columns?{QUERY}", client=client).status_code == 403
    guessed = person.access.folder[:-2] + "/"
    assert person.client.get(guessed, base_url=person.access.origin).status_code == 403
    cookie = person.client.get_cookie("dpcov", "127.0.0.1", person.access.folder)
    assert (cookie.http_only, cookie.same_site) == (True, "Strict")
    assert cookie.path == person.access.folder  # the server on another port never gets it
    assert cookie.value not in page.text
    assert page.headers["Referrer-Policy"] == "same-origin"
    assert page.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize(
    "name",
    [
        "../secret.csv",
        "sub/../../secret.csv",
        "/etc/passwd.csv",
        "..\\secret.csv",
        "%2e%2e/secret.csv",
        "C:secret.csv",
        "people.csv\0.csv",
        "postgresql://host/t.csv",
        "",
    ],
)
def test_attack_a_path_outside_the_folder(person: Person, name: str) -> None:
    (person.root.parent / "secret.csv").write_text(f"{PLANTED}\n1\n")
    with pytest.raises(SourceError, match="no such file"):
        person.pages.site.folder.table(name)
    for page in ("table", "columns", "budget", "results", "read", "download"):
        address = f"{person.access.folder}{page}"
        query = {"file": name, "header": "yes", "name": name}
        answer = person.client.get(address, query_string=query, base_url=person.access.origin)
        assert answer.status_code == 400
        assert PLANTED not in answer.text
    assert entered(person.get("table?file=people.csv"))


def test_attack_a_link_out_of_the_folder(person: Person) -> None:
    outside = person.root.parent / "secret.csv"
    outside.write_text(f"{PLANTED}\n1\n")
    (person.root / "link.csv").symlink_to(outside)
    (person.root / "sub").symlink_to(person.root.parent, target_is_directory=True)
    (person.root / "people.csv.report.html").symlink_to(outside)
    (person.root / "people.csv.toml").symlink_to(outside)
    assert "link.csv" not in person.get().text
    assert "secret.csv" not in person.get().text
    for name in ("link.csv", "sub/secret.csv"):
        assert person.get(f"columns?file={name}&header=yes").status_code == 400
    read = person.get("read?file=people.csv&name=people.csv.report.html")
    assert (read.status_code, PLANTED in read.text) == (400, False)
    saved = person.post(f"columns?{QUERY}", ANSWERS | {"replace": "yes"})
    assert saved.status_code == 400
    assert outside.read_text() == f"{PLANTED}\n1\n"


def test_attack_a_huge_request_body(person: Person) -> None:
    import waitress

    server = waitress.create_server(
        person.pages, host="127.0.0.1", port=0, max_request_body_size=MAX_BODY_BYTES
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        port = int(server.effective_port)
        huge = {"Content-Length": str(10**12), "Content-Type": "application/x-www-form-urlencoded"}
        assert asked(port, "POST", "/enter", "", huge)[0] == 413
        with socket.create_connection(("127.0.0.1", port), timeout=20) as one:
            one.sendall(b"POST /enter HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
            part = b"100000\r\n" + b"a" * 2**20 + b"\r\n"
            answer = b""
            try:
                for _ in range(8):
                    one.sendall(part)
                one.sendall(b"0\r\n\r\n")
                answer = one.recv(4096)
            except OSError:
                pass  # the server has closed the connection
        assert not answer.startswith(b"HTTP/1.1 2")
    finally:
        server.close()
        thread.join(10)
    form = ANSWERS | {"levels-1": "a" * (MAX_BODY_BYTES + 1)}
    assert person.post(f"columns?{QUERY}", form).status_code == 413


def test_attack_a_script_in_a_column_name(person: Person) -> None:
    names = [SCRIPT, '"><img src=x onerror=alert(1)>', "{{ 7 * 7 }}", "' onfocus='x"]
    frame = pd.DataFrame(np.ones((5, 4)), columns=names)
    frame.to_csv(person.root / "evil.csv", index=False)
    query = "file=evil.csv&header=yes"
    answers = {"name": names, "missing-numbers": "none"}
    answers |= {f"content-{at}": "percentage" for at in range(4)}
    shown = person.get(f"columns?{query}").text
    wrong = person.post(f"columns?{query}", answers | {"content-0": "count"}).text
    assert person.post(f"columns?{query}", answers).status_code == 303
    assert list(Schema.load(person.root / "evil.csv.toml").columns) == names
    shown += wrong + person.get("budget?file=evil.csv").text
    assert "&lt;script&gt;" in shown
    assert "{{ 7 * 7 }}" in shown
    for part in (SCRIPT, "<img", "' onfocus='"):
        assert part not in shown


def test_attack_a_token_replayed(person: Person) -> None:
    for _ in range(2):
        again = Client(person.pages)
        answer = again.post("/enter", data={"token": person.token}, base_url=person.access.origin)
        assert answer.status_code == 403
        assert "Set-Cookie" not in answer.headers
    fresh = Access(5001)
    assert [fresh.use_token(one) for one in ("", "x", person.token)] == [None] * 3
    assert fresh.use_token(str(fresh._token)) is not None


def test_attack_a_cross_site_form(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "run", lambda *_: pytest.fail("a command ran"))
    person.post(f"columns?{QUERY}", ANSWERS)
    asked = {"file": "people.csv", "release": "people.csv.release.json", "epsilon": "1"}
    asked |= {"ledger": "people.csv.ledger", "total": "2"}
    # The browser sends no cookie with such a form. Each of the other checks refuses it as well.
    assert person.post("release", asked, **{"Sec-Fetch-Site": "cross-site"}).status_code == 403
    assert person.post("release", asked | {"key": "guess"}).status_code == 403
    without = person.client.post(
        person.access.folder + "release",
        data=asked | {"key": person.access.form_key},
        base_url=person.access.origin,
    )
    assert without.status_code == 403  # no header Origin
    monkeypatch.setattr(commands, "run", lambda *_: Ran("", 0, "", ""))
    assert entered(person.post("release", asked))
