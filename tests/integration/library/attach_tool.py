#!/usr/bin/env python3
"""The same tool in Python, through ctypes.

usage: attach_tool.py LIBRARY PID MSEC
"""

import ctypes
import os
import sys
import time


def main():
    library, pid, msec = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    os.environ.setdefault("ROCPROF_HIP_RUNTIME_API_TRACE", "1")
    os.environ.setdefault("ROCPROF_KERNEL_TRACE", "1")
    os.environ.setdefault("ROCPROF_MEMORY_COPY_TRACE", "1")
    os.environ.setdefault("ROCPROF_OUTPUT_PATH", "./attachment-output")
    os.environ.setdefault("ROCPROF_OUTPUT_FILE_NAME", "attached_profile")
    functions = ctypes.CDLL(library)
    functions.attach.argtypes = [ctypes.c_uint32]
    functions.attach.restype = None
    functions.detach.argtypes = []
    functions.detach.restype = None
    os.kill(pid, 0)
    functions.attach(pid)
    print("attached", flush=True)
    time.sleep(msec / 1000)
    functions.detach()
    print("detached", flush=True)


if __name__ == "__main__":
    main()
