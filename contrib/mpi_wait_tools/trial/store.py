"""The experiment in a file of the working directory: whole at every moment, and one writer's."""

from __future__ import annotations

import json
import os

from ..text.errors import Refusal
from ..text.units import safe
from .experiment import Experiment, as_json, from_json

NAME = "mpi-wait-try.json"
BYTES_MAX = 16 << 20


class Store:
    def __init__(self, path: str) -> None:
        self.path = path
        self._written: tuple[int, int] | None = None  # what stood there when we looked last

    def _stamp(self) -> tuple[int, int] | None:
        try:
            status = os.stat(self.path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Refusal(f"'{safe(self.path, 200)}' cannot be read: {error.strerror}") from None
        return status.st_ino, status.st_mtime_ns

    def load(self) -> Experiment | None:
        """None: there is none."""
        self._written = self._stamp()
        if self._written is None:
            return None
        try:
            with open(self.path, "rb") as file:
                data = file.read(BYTES_MAX + 1)
            body = json.loads(data.decode("utf-8")) if len(data) <= BYTES_MAX else None
        except OSError as error:
            raise Refusal(f"'{safe(self.path, 200)}' cannot be read: {error.strerror}") from None
        except (ValueError, RecursionError):
            body = None
        try:
            return from_json(body)
        except Refusal as refusal:
            raise Refusal(f"{refusal} ('{safe(self.path, 200)}'; --new begins anew)") from None

    def forget(self) -> None:
        """What stands there will be replaced."""
        self._written = self._stamp()

    def save(self, experiment: Experiment) -> None:
        if self._stamp() != self._written:
            raise Refusal(f"another mpi-wait try writes '{safe(self.path, 200)}': one at a time, or --state FILE")
        part = f"{self.path}.{os.getpid()}"
        try:
            with open(part, "w", encoding="utf-8") as file:
                json.dump(as_json(experiment), file, indent=1, allow_nan=False)
                file.write("\n")
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, self.path)
        except OSError as error:
            raise Refusal(f"'{safe(self.path, 200)}' cannot be written: {error.strerror}") from None
        self._written = self._stamp()
