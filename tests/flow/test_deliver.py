"""Other systems are told of every movement, in order, until they take it."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from retcon.core.watermarks import Advance, Mark
from retcon.errors import ProjectInvalid
from retcon.flow.deliver import HookStanding
from retcon.wiring import Workspace
from tests.flow.workshops import NOW, Workshop

SECRET = "s3cr3t-t0ken"


class Receiver(BaseHTTPRequestHandler):
    """Answers as it is told to, and keeps what it got."""

    answers: ClassVar[list[int]] = []
    got: ClassVar[list[tuple[dict[str, str], Any]]] = []

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.got.append((dict(self.headers), body))
        status = self.answers.pop(0) if self.answers else 204
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "http://localhost:9/elsewhere")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def address() -> Iterator[str]:
    Receiver.answers, Receiver.got = [], []
    server = HTTPServer(("127.0.0.1", 0), Receiver)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/marks"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path).shop()


def hook(workshop: Workshop, keys: str) -> None:
    workshop.settings(f"watermark_hooks: {{board: {keys}}}")


def move(workshop: Workshop, why: str = "a reset", *, is_set: bool = True) -> Mark:
    facts = workshop.workspace.tables.facts("raw.s")
    assert facts is not None
    mark = Mark(model="mart.a", input="raw.s", table="raw.s", uuid=facts.uuid, snapshot_id=facts.snapshot_id)
    step = Advance(mark=mark, after=workshop.ledger.movements().get(("mart.a", "raw.s"), 0))
    workshop.ledger.move_watermarks([step], is_set=is_set, why=why, at=NOW, who="ada")
    return mark


def deliver(workshop: Workshop, **environ: str) -> tuple[list[HookStanding], list[float]]:
    pauses: list[float] = []
    # As in a later process.
    later = Workspace(workshop.root, environ, clock=lambda: NOW, who="ada")
    return later.deliverer.deliver(pauses.append), pauses


def test_a_webhook_gets_the_document_and_its_headers_from_the_environment(workshop: Workshop, address: str) -> None:
    hook(workshop, f'{{models: [mart.a], url: "{address}", headers: {{Authorization: "Bearer ${{TOKEN}}"}}}}')
    mark = move(workshop, "the source was restored")
    [told], pauses = deliver(workshop, TOKEN=SECRET)
    assert (told.told, told.waiting, pauses) == (1, (), [])
    [(headers, document)] = Receiver.got
    assert headers["Authorization"] == f"Bearer {SECRET}"
    assert headers["Content-Type"] == "application/json"
    assert {key: document[key] for key in ("version", "hook", "project", "cause", "model", "input", "why", "run")} == {
        "version": 1,
        "hook": "board",
        "project": "shop",
        "cause": "reset",
        "model": "mart.a",
        "input": "raw.s",
        "why": "the source was restored",
        "run": None,
    }
    assert document["watermark"]["snapshot"] == str(mark.snapshot_id)
    facts = workshop.workspace.tables.facts("raw.s")
    assert facts is not None
    assert document["watermark"]["committed"] == facts.history[-1][0].isoformat()
    assert deliver(workshop, TOKEN=SECRET) == ([], [])
    assert SECRET not in (workshop.root / ".retcon" / "lake.db").read_bytes().decode("latin-1")


def test_one_that_isnt_taken_is_tried_again_and_later_ones_wait_behind_it(workshop: Workshop, address: str) -> None:
    hook(workshop, f'{{url: "{address}"}}')
    move(workshop)
    move(workshop, is_set=False)
    Receiver.answers = [500, 503, 302]
    [standing], pauses = deliver(workshop)
    assert (standing.told, len(standing.waiting), standing.error) == (0, 2, "HTTP 302")
    assert pauses == [1.0, 3.0]
    assert len({document["id"] for _, document in Receiver.got}) == 1
    assert workshop.ledger.undelivered()[0].tries == 3
    [standing], _ = deliver(workshop)
    assert (standing.told, standing.waiting) == (2, ())
    first, second = (document for _, document in Receiver.got[-2:])
    assert first["movement"] < second["movement"]
    assert second["watermark"] is None
    assert first["id"] != second["id"]


def test_a_command_gets_the_document_on_its_standard_input(workshop: Workshop) -> None:
    (workshop.root / "set_mark.py").write_text("import sys; open('got.json', 'w').write(sys.stdin.read())")
    hook(workshop, f'{{command: ["{sys.executable}", "set_mark.py"]}}')
    move(workshop)
    [told], _ = deliver(workshop)
    assert told.told == 1
    assert json.loads((workshop.root / "got.json").read_text())["model"] == "mart.a"


@pytest.mark.parametrize(
    ("keys", "error"),
    [
        ('{command: ["PYTHON", "-c", "raise SystemExit(7)"]}', "ended with exit code 7"),
        ('{command: ["PYTHON", "-c", "import time; time.sleep(60)"], timeout: 1}', "took longer than 1 seconds"),
        ('{command: ["./nowhere"]}', "./nowhere can't be run: No such file or directory"),
        ('{url: "http://127.0.0.1:9/marks"}', "can't be reached: Connection refused"),
        (
            '{url: "http://127.0.0.1:9/marks", headers: {A: "${NOT_THERE}"}}',
            "a header needs the environment variable NOT_THERE, which isn't set",
        ),
        ('{url: "http://127.0.0.1:9/marks", headers: {A: "${BROKEN}"}}', "a header can't be sent"),
    ],
)
def test_what_went_wrong_is_told_without_what_is_secret(workshop: Workshop, keys: str, error: str) -> None:
    hook(workshop, keys.replace("PYTHON", sys.executable))
    move(workshop)
    [standing], _ = deliver(workshop, BROKEN=f"{SECRET}\nX: y")
    assert (standing.told, standing.error) == (0, error)


def test_a_hook_that_is_gone_is_not_called_and_holds_nobody_up(workshop: Workshop, address: str) -> None:
    hook(workshop, f'{{url: "{address}"}}')
    move(workshop)
    workshop.settings()
    assert deliver(workshop) == ([], [])
    assert Receiver.got == []


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("{}", "`watermark_hooks.board` needs either a `command` or a `url`"),
        ('{command: [a], url: "https://x"}', "`watermark_hooks.board` needs either a `command` or a `url`"),
        ("{comand: [a]}", "unknown key `watermark_hooks.board.comand` — did you mean command?"),
        ("{command: []}", "`watermark_hooks.board.command` can't be empty"),
        ("{command: [a], headers: {A: b}}", "`watermark_hooks.board` has `headers`, but no `url`"),
        ('{url: "https://ada:pw@host/x"}', "`watermark_hooks.board` has a `url` that isn't an address"),
        ('{url: "https://host/${TOKEN}"}', "`watermark_hooks.board.url` holds `${`, which isn't filled in here"),
        ("{command: [a], models: [mart.aa]}", "`watermark_hooks.board.models` names `mart.aa`, which is no model"),
        ("{command: [a], timeout: 0}", "`watermark_hooks.board.timeout` must be at least 1"),
    ],
)
def test_a_wrong_hook_is_told_in_words(workshop: Workshop, keys: str, message: str) -> None:
    hook(workshop, keys)
    with pytest.raises(ProjectInvalid) as refused:
        _ = workshop.workspace.outline
    assert refused.value.problems[0].message.startswith(message)
