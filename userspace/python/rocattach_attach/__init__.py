"""Attaches to running GPU processes and records them.

    import rocattach_attach

    rocattach_attach.main(pid=1234, duration=5000)

    # With steps of its own:
    with rocattach_attach.Attachment(1234):
        ...

    $ rocattach-attach -p 1234 -d 5000     (or python3 -m rocattach_attach)

What is recorded and where is read from the variables ROCPROF_… of the environment, which
rocattach.h lists; main() and attach() take what they are not given from
ROCPROF_ATTACH_PID, ROCPROF_ATTACH_DURATION, ROCPROF_ATTACH_TOOL_LIBRARY,
ROCPROF_ATTACH_CHILDREN, and the library itself from ROCPROF_ATTACH_LIBRARY.
"""

from .api import (
    ROCPROF_ATTACH_TOOL_LIBRARY,
    AttachError,
    Library,
    Status,
    find_library,
)
from .attachment import Attachment, attach, main

__all__ = [
    "ROCPROF_ATTACH_TOOL_LIBRARY",
    "AttachError",
    "Attachment",
    "Library",
    "Status",
    "attach",
    "find_library",
    "main",
]
