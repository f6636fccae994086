"""Names that records refer to by number, and C++ names as people write them."""

import ctypes
import ctypes.util
import functools

# Text that is kept; names beyond are empty in records. A hostile file gets no further.
_MAX_NAME_BYTES = 64 << 20
# The demangler takes exponential time and space for names made on purpose.
_DEMANGLE_LIMIT = 4096


@functools.lru_cache(maxsize=None)
def _demangler():
    """__cxa_demangle and free; None where there is no C++ library."""
    try:
        demangle = ctypes.CDLL(
            ctypes.util.find_library("stdc++") or "libstdc++.so.6"
        ).__cxa_demangle
        free = ctypes.CDLL(None).free
    except (OSError, AttributeError):
        return None
    demangle.restype = ctypes.c_void_p
    demangle.argtypes = [ctypes.c_char_p] + [ctypes.c_void_p] * 3
    free.argtypes = [ctypes.c_void_p]
    return demangle, free


def demangle(symbol):
    """"Scale(float*, float, int)" for its symbol; other names, and those that cannot be
    demangled here, stay as they are."""
    raw = symbol.encode()
    if not 3 <= len(raw) <= _DEMANGLE_LIMIT or not raw.startswith(b"_Z"):
        return symbol
    functions = _demangler()
    if functions is None or b"\0" in raw:
        return symbol
    status = ctypes.c_int(0)
    text = functions[0](raw, None, None, ctypes.byref(status))
    if not text:
        return symbol
    try:
        name = ctypes.string_at(text)
    finally:
        functions[1](text)
    return name.decode(errors="replace") if status.value == 0 else symbol


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
