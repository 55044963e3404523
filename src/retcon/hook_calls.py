"""Calls to hooks: a command that gets the document on its standard input, or an address to which it is posted."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from retcon.core.hooks import WatermarkHook
from retcon.fault_points import FaultPoint
from retcon.values import dataclass

_CALLED = FaultPoint("hook called")


class _NoRedirects(HTTPRedirectHandler):
    """Another address would get the headers, and with them what is secret."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


@dataclass(frozen=True, kw_only=True)
class HookCalls:
    """Calls hooks from the project's folder."""

    folder: str
    environ: Mapping[str, str]
    fill_in: Callable[[str], str]
    """Variables in the text of a header."""

    def __call__(self, hook: WatermarkHook, document: Mapping[str, Any]) -> str | None:
        """None where it was taken, else why not: without anything that a header, or an answer, holds."""
        body = json.dumps(document).encode()
        with _CALLED:
            return self._posted(hook, hook.url, body) if hook.url is not None else self._run(hook, body)

    def _run(self, hook: WatermarkHook, body: bytes) -> str | None:
        try:
            done = subprocess.run(
                hook.command,
                input=body,
                stdout=subprocess.DEVNULL,  # stdout is the command's own report; its stderr is shown
                cwd=self.folder,
                env=dict(self.environ),
                timeout=hook.timeout,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"took longer than {hook.timeout} seconds"
        except OSError as error:
            return f"{hook.command[0]} can't be run: {error.strerror}"
        return f"ended with exit code {done.returncode}" if done.returncode else None

    def _posted(self, hook: WatermarkHook, url: str, body: bytes) -> str | None:
        try:
            headers = {name: self.fill_in(text) for name, text in hook.headers.items()}
        except ValueError as error:
            return f"a header {error}"
        try:
            request = Request(url, data=body, headers={"Content-Type": "application/json", **headers}, method="POST")
            with build_opener(_NoRedirects()).open(request, timeout=hook.timeout) as answer:
                answer.read(1)
        except HTTPError as error:
            with error:
                return f"HTTP {error.code}"
        except TimeoutError:
            return f"took longer than {hook.timeout} seconds"
        except URLError as error:
            if isinstance(error.reason, TimeoutError):
                return f"took longer than {hook.timeout} seconds"
            return f"can't be reached: {getattr(error.reason, 'strerror', None) or type(error.reason).__name__}"
        except (HTTPException, OSError) as error:
            return f"broke off: {type(error).__name__}"
        except ValueError:
            return "a header can't be sent"
        return None
