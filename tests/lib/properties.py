"""Properties that hold for any input: settings for hypothesis, and the plugin's readers by ctypes.

Examples are the same each time. Their number is bounded, not their time: a busy machine tries no fewer, and fails none.
"""

from __future__ import annotations

import ctypes
import os
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, configuration, settings

from tests.lib.record_tools import BUILD

configuration.set_hypothesis_home_dir(Path(tempfile.gettempdir()) / f"hypothesis-{os.getuid()}")
PROPERTY = settings(derandomize=True, deadline=None, database=None, max_examples=200,
                    suppress_health_check=list(HealthCheck))
TEXT_MAX = 2048


class Readers:
    """The readers. Each returns 0 and the parsed value, or an error number and the reason."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL(str(BUILD / "tests/lib/doubles/libreaders.so"))

    def option(self, text: bytes) -> tuple[int, str]:
        answer = ctypes.create_string_buffer(TEXT_MAX)
        code = self.library.read_option(text, answer, ctypes.c_size_t(TEXT_MAX))
        return code, answer.value.decode("utf-8", "surrogateescape")

    def policy(self, text: bytes, name: str) -> tuple[int, str]:
        answer = ctypes.create_string_buffer(TEXT_MAX)
        code = self.library.read_policy(text, ctypes.c_size_t(len(text)), name.encode(), answer,
                                        ctypes.c_size_t(TEXT_MAX))
        return code, answer.value.decode("utf-8", "surrogateescape")
