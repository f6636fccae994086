"""Attaching for a while."""

import contextlib
import os
import select
import sys
import time

from .api import AttachError, Library

# A year, as for the command.
_LONGEST_MSEC = 31_536_000_000

# "No" in a variable.
_NO = ("", "0", "n", "no", "f", "false", "off")


def _number(name, value):
    """A whole number that is not negative; None stays None, and so does an empty text."""
    if value is None or value == "":
        return None
    try:
        number = int(value)
    except (TypeError, ValueError):
        number = -1
    if number < 0:
        raise ValueError(f"{name} must be a whole number, not {value!r}")
    return number


def is_yes(text):
    """Whether a variable or an option says yes."""
    return text.lower() not in _NO


class Attachment:
    """A context: attached inside, detached behind. If a descendant cannot be attached to,
    the process alone is; `children` says then that it is without them."""

    def __init__(self, pid, children=False, library=None):
        self.pid = pid
        self.children = children
        self.api = library or Library()

    def __enter__(self):
        if self.children:
            self._attach_tree()
        if not self.children:
            self.api.attach(self.pid)
        return self

    def _attach_tree(self):
        try:
            self.api.attach_tree(self.pid)
        except AttachError as error:
            try:
                self.api.detach_tree(self.pid)
            except AttachError:
                raise error from None  # the process itself was not attached to
            print(
                f"rocattach: {error}; attaching without the descendants",
                file=sys.stderr,
            )
            self.children = False

    def __exit__(self, *unused):
        if self.children:
            self.api.detach_tree(self.pid)
        else:
            self.api.detach(self.pid)


def _wait(pid, duration_msec):
    """Until duration_msec has elapsed, Enter, Ctrl-C, or the end of the process."""
    end = None if duration_msec is None else time.monotonic() + duration_msec / 1000
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    sources = [process]
    if end is None and sys.stdin is not None:
        sources.append(sys.stdin)
    try:
        while True:
            left = None if end is None else max(0.0, end - time.monotonic())
            # In hours: select() takes no time of many years.
            ready = select.select(sources, [], [], left and min(left, 3600.0))[0]
            if not ready and left > 3600.0:
                continue
            if not ready or process in ready or sys.stdin.readline():
                return
            sources = [process]  # the input has ended: only Ctrl-C is left
    except KeyboardInterrupt:
        pass
    finally:
        os.close(process)


@contextlib.contextmanager
def _set_variables(variables):
    """For the library, which reads the environment of this process."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def attach(
    pid=None,
    attach_tool_library=None,
    attach_duration_msec=None,
    attach_children=None,
    library=None,
):
    """Attaches to a process, waits and detaches.

    pid -- the process; default: ROCPROF_ATTACH_PID
    attach_tool_library -- tool libraries, separated by colons; default:
        ROCPROF_ATTACH_TOOL_LIBRARY, and without that this project's collector
    attach_duration_msec -- how long, in milliseconds; 0 detaches at once; default:
        ROCPROF_ATTACH_DURATION, and without that until Enter or Ctrl-C
    attach_children -- the descendants as well; default: ROCPROF_ATTACH_CHILDREN, and
        without that True
    library -- the Library to use; default: the one that find_library() finds

    In all cases it ends with the process. Raises ValueError for values that make no
    sense and AttachError if the process cannot be attached to.
    """
    environment = os.environ
    number = _number("pid", environment.get("ROCPROF_ATTACH_PID") if pid is None else pid)
    if number is None:
        raise ValueError("no process was given; pass a pid or set ROCPROF_ATTACH_PID")
    if attach_duration_msec is None:
        attach_duration_msec = environment.get("ROCPROF_ATTACH_DURATION")
    duration = _number("the duration", attach_duration_msec)
    if duration is not None and duration > _LONGEST_MSEC:
        raise ValueError(
            f"the duration must be at most {_LONGEST_MSEC} ms (a year), not {duration}"
        )
    if attach_children is None:
        attach_children = is_yes(environment.get("ROCPROF_ATTACH_CHILDREN", "1"))
    variables = {}
    if attach_tool_library is not None:
        variables["ROCPROF_ATTACH_TOOL_LIBRARY"] = attach_tool_library
    if duration:
        # The recording ends on time by itself, also where the attach still waits for a
        # process that does not answer.
        variables["ROCATTACH_DURATION_MSEC"] = str(duration)
    with _set_variables(variables), Attachment(number, attach_children, library):
        if duration is None and sys.stdin is not None and sys.stdin.isatty():
            print("rocattach: press Enter or Ctrl-C to detach", file=sys.stderr)
        _wait(number, duration)


def main(pid=None, attach_library=None, duration=None):
    """attach() under the names of ROCm's rocprof-attach. `attach_library` lists tool
    libraries; ROCPROF_ATTACH_TOOL_LIBRARY of this module, this library's own path and
    ROCm's default there, means none."""
    attach(pid, attach_library, duration)
