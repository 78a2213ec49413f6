"""A double of slurmstepd's part in a lease: answers the requests of a segment's words on a board, as it is told.

The layout repeats preload/contract/lease.h on purpose.
"""

from __future__ import annotations

import mmap
import os
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.lib.doubles.support import segment_tool

MAGIC, CPUS = 0x324C574D, 4096
HEAD = struct.Struct("=4I48x")  # magic, bell, CPUs, over; the first reserved word counts the checks for requests
LOW, RESTORE = 1, 2
DONE, NOT_YOURS, NOT_NOW, BUSY, OVER = range(5)

Answer = Callable[[], "tuple[int, int] | None"]  # answer and number of changes; None: no answer


class Board:
    def __init__(self, answer: Answer, close_after: int = 0) -> None:
        self.fd = os.memfd_create("board")
        os.ftruncate(self.fd, HEAD.size + 8 * CPUS)
        self._page = mmap.mmap(self.fd, HEAD.size + 8 * CPUS)
        self._page[: HEAD.size] = HEAD.pack(MAGIC, 0, CPUS, 0)
        self._words: mmap.mmap | None = None
        self._answer, self._close_after = answer, close_after
        self._seen = bytes(8 * CPUS)
        self._changes = [0] * CPUS
        self._enough = False
        self.asked: list[int] = []
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def hear(self, segment: int) -> None:
        """From now on takes requests from that segment."""
        offset = segment_tool.WORDS_OFFSET
        self._words = mmap.mmap(segment, offset + 8 * CPUS)
        self._offset = offset

    def _obey(self, cpu: int, word: int) -> None:
        serial, tid, verb = word & 0xFFFFFFFF, word >> 32 & 0x3FFFFF, word >> 54
        assert verb in (LOW, RESTORE) and tid > 1
        self.asked.append(verb)
        answer = self._answer()
        if answer:
            self._changes[cpu] += answer[1]
            reply = (self._changes[cpu] & 0xFFFFFF) << 40 | answer[0] << 32 | serial
            self._page[HEAD.size + 8 * cpu : HEAD.size + 8 * cpu + 8] = struct.pack("=Q", reply)
        if self._close_after and len(self.asked) >= self._close_after:
            self._page[12:16] = struct.pack("=I", 1)
            self._enough = True

    def _look(self) -> None:
        words = self._words[self._offset : self._offset + 8 * CPUS] if self._words and not self._enough else self._seen
        if words != self._seen:
            for cpu, (word, before) in enumerate(zip(struct.iter_unpack("=Q", words),
                                                     struct.iter_unpack("=Q", self._seen))):
                if word != before:
                    self._obey(cpu, word[0])
            self._seen = words

    def _serve(self) -> None:
        looks = 0
        while not getattr(self, "_ends", False):
            self._look()
            looks += 1
            self._page[16:20] = struct.pack("=I", looks & 0xFFFFFFFF)
            time.sleep(2e-5)
        self._look()  # requests since the last check

    def end(self) -> None:
        self._ends = True
        self._thread.join()
        self._page.close()
        if self._words:
            self._words.close()
        os.close(self.fd)


@contextmanager
def board(answer: Answer, close_after: int = 0) -> Iterator[Board]:
    made = Board(answer, close_after)
    try:
        yield made
    finally:
        made.end()
