"""Names that records refer to by number, and C++ names as people write them."""

import atexit
import functools
import struct
import subprocess
import sys

# Limit of the names that are kept; further ones are empty in records. So a hostile file
# cannot use up the memory.
_MAX_NAME_BYTES = 64 << 20
# The demangler takes exponential time and space for crafted names. It runs in a process
# of its own, with little memory, and little time for each name.
_SYMBOL_LIMIT = 8192
_TEXT_LIMIT = 64 << 10
_WORKER_BYTES = 256 << 20
_NAME_SECONDS = 1
# After this many names have killed a process, no further name is tried.
_MOST_FAILURES = 3

_WORKER = """
import ctypes, ctypes.util, resource, struct, sys
resource.setrlimit(resource.RLIMIT_AS, (%d, %d))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
library = ctypes.CDLL(ctypes.util.find_library("stdc++") or "libstdc++.so.6")
demangle = library.__cxa_demangle
free = ctypes.CDLL(None).free
demangle.restype = ctypes.c_void_p
demangle.argtypes = [ctypes.c_char_p] + [ctypes.c_void_p] * 3
free.argtypes = [ctypes.c_void_p]
hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
read, write = sys.stdin.buffer.read, sys.stdout.buffer.write
while True:
    size = read(4)
    if len(size) < 4:
        break
    raw = read(*struct.unpack("<I", size))
    used = resource.getrusage(resource.RUSAGE_SELF)
    limit = int(used.ru_utime + used.ru_stime) + 1 + %d
    resource.setrlimit(resource.RLIMIT_CPU, (limit, hard))
    status = ctypes.c_int(0)
    text = demangle(raw, None, None, ctypes.byref(status))
    name = ctypes.string_at(text) if text and status.value == 0 else raw
    free(text)
    if len(name) > %d:
        name = raw
    write(struct.pack("<I", len(name)) + name)
    sys.stdout.buffer.flush()
""" % (_WORKER_BYTES, _WORKER_BYTES, _NAME_SECONDS, _TEXT_LIMIT)


class _Demangler:
    """abi::__cxa_demangle, at a bounded cost."""

    def __init__(self):
        self._worker = None
        self._failures = 0

    def _start(self):
        if self._worker is None and sys.executable:
            self._worker = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _WORKER],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            atexit.register(self.close)
        return self._worker

    def close(self):
        worker, self._worker = self._worker, None
        if worker is None:
            return
        for pipe in (worker.stdin, worker.stdout):
            try:
                pipe.close()
            except OSError:
                pass
        worker.kill()
        worker.wait()
        atexit.unregister(self.close)

    def demangle(self, raw):
        """The demangled name; None if it cost too much or no process could be started."""
        if self._failures >= _MOST_FAILURES:
            return None
        try:
            worker = self._start()
            if worker is None:
                return None
            worker.stdin.write(struct.pack("<I", len(raw)) + raw)
            worker.stdin.flush()
            size = worker.stdout.read(4)
            if len(size) == 4:
                length = struct.unpack("<I", size)[0]
                name = worker.stdout.read(length)
                if len(name) == length:
                    return name
        except OSError:
            pass
        self._failures += 1
        self.close()
        return None


_demangler = _Demangler()


@functools.lru_cache(maxsize=4096)
def demangle(symbol):
    """"Scale(float*, float, int)" for its symbol; other names, and those that cannot be
    demangled here or would cost too much, are returned unchanged."""
    raw = symbol.encode()
    if not 3 <= len(raw) <= _SYMBOL_LIMIT or not raw.startswith(b"_Z") or b"\0" in raw:
        return symbol
    name = _demangler.demangle(raw)
    return symbol if name is None else name.decode(errors="replace")


class Names:
    """The names of one recording, by stream."""

    def __init__(self):
        self._kernels = {}
        self._counters = {}
        self._functions = {}
        self._bytes = 0

    def _has_room(self, size):
        if self._bytes + size > _MAX_NAME_BYTES:
            return False
        self._bytes += size + 64
        return True

    def add_kernel(self, stream, kernel, name):
        if self._has_room(len(name)):
            self._kernels[stream, kernel] = name

    def add_plan(self, stream, plan, counters):
        known = self._counters.get((stream, plan))
        if not known and self._has_room(sum(len(name) + 64 for name in counters)):
            self._counters[stream, plan] = list(counters)

    def add_function(self, stream, domain, function, name):
        if self._has_room(len(name)):
            self._functions[stream, domain, function] = name

    def kernel(self, stream, kernel):
        return self._kernels.get((stream, kernel), "")

    def counter(self, stream, plan, index):
        names = self._counters.get((stream, plan), ())
        return names[index] if index < len(names) else ""

    def function(self, stream, domain, function):
        return self._functions.get((stream, domain, function), "")
