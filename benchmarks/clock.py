"""How long methods take, added up from outside."""

from __future__ import annotations

import time
from typing import Any


class Clock:
    """Adds up the wall time spent in methods of a class or object, calls inside calls once."""

    def __init__(self, owner: Any, names: tuple[str, ...]) -> None:
        self.seconds, self.calls = 0.0, 0
        self._depth = 0
        for name in names:
            setattr(owner, name, self._timed(getattr(owner, name)))

    def _timed(self, method: Any) -> Any:
        def timed(*args: Any, **kwargs: Any) -> Any:
            self._depth += 1
            start = time.perf_counter()
            try:
                return method(*args, **kwargs)
            finally:
                self._depth -= 1
                if not self._depth:
                    self.seconds += time.perf_counter() - start
                    self.calls += 1

        return timed
