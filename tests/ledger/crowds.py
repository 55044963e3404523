"""Acts that happen at the same moment."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence


def at_once(acts: Sequence[Callable[[], object]]) -> list[object]:
    """Every act in a thread of its own, begun together; what each returned or raised."""
    barrier = threading.Barrier(len(acts))
    results: list[object] = [None] * len(acts)

    def do(at: int) -> None:
        barrier.wait()
        try:
            results[at] = acts[at]()
        except Exception as raised:
            results[at] = raised

    threads = [threading.Thread(target=do, args=(at,)) for at in range(len(acts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results
