"""librocattach through ctypes."""

import ctypes
import enum
import os
import pathlib

_NAMES = ("librocattach.so.0", "librocattach.so")


class Status(enum.IntEnum):
    """rocattach_status_t."""

    SUCCESS = 0
    ERROR = 1
    ERROR_INVALID_ARGUMENT = 2
    ERROR_NOT_SUPPORTED = 3
    ERROR_PTRACE_ERROR = 4
    ERROR_PTRACE_OPERATION_NOT_PERMITTED = 5
    ERROR_PTRACE_PROCESS_NOT_FOUND = 6


class AttachError(Exception):
    """A call of the library failed; `status` says how."""

    def __init__(self, call, pid, status, text):
        super().__init__(f"{call}({pid}) failed: {text}")
        self.status = status


def find_library():
    """The library to load: ROCPROF_ATTACH_LIBRARY, else the one installed with this
    module, else the one that the loader finds."""
    given = os.environ.get("ROCPROF_ATTACH_LIBRARY")
    if given:
        return given
    here = pathlib.Path(__file__).resolve()
    for folder in here.parents[:7]:
        for pattern in ("", "lib", "lib64", "lib/*-linux-gnu", "userspace/library"):
            for name in _NAMES:
                for path in folder.glob(f"{pattern}/{name}" if pattern else name):
                    return str(path)
    return _NAMES[0]


def _default_tool_library():
    found = find_library()
    return os.path.abspath(found) if "/" in found else found


# ROCm's default for tool libraries: the library that attaches, by its absolute path,
# which means that no tool is named.
ROCPROF_ATTACH_TOOL_LIBRARY = _default_tool_library()


class Library:
    """The functions of rocattach.h. Failures are AttachError, with two exceptions: those
    that return no status cannot fail."""

    def __init__(self, path=None):
        self.path = path or find_library()
        self._library = ctypes.CDLL(self.path)
        for name in ("attach", "attach_tree", "detach", "detach_tree"):
            function = self._function(name)
            function.argtypes = [ctypes.c_int]
            function.restype = ctypes.c_int
        for name in ("get_status_name", "get_status_string"):
            function = self._function(name)
            function.argtypes = [ctypes.c_int]
            function.restype = ctypes.c_char_p
        version = self._function("get_version")
        version.argtypes = [ctypes.POINTER(ctypes.c_uint32)] * 3
        version.restype = ctypes.c_int

    def _function(self, name):
        return getattr(self._library, "rocattach_" + name)

    def _call(self, name, pid):
        status = self._function(name)(pid)
        if status != Status.SUCCESS:
            raise AttachError(name, pid, status, self.status_string(status))

    def attach(self, pid):
        self._call("attach", pid)

    def attach_tree(self, pid):
        self._call("attach_tree", pid)

    def detach(self, pid):
        self._call("detach", pid)

    def detach_tree(self, pid):
        self._call("detach_tree", pid)

    def version(self):
        numbers = [ctypes.c_uint32() for _ in range(3)]
        self._function("get_version")(*(ctypes.byref(number) for number in numbers))
        return tuple(number.value for number in numbers)

    def status_name(self, status):
        """The name of a status; None for a number that is none."""
        name = self._function("get_status_name")(status)
        return name and name.decode()

    def status_string(self, status):
        text = self._function("get_status_string")(status)
        return text and text.decode()
