#!/usr/bin/env python3
"""late_python.py: a program in another language that loads the HSA runtime late.

Does some work of its own, then opens libhsa-runtime64.so.1 with ctypes, loads the code
object that lies beside it (or in the directory given with --kernels), dispatches, and
checks that the dispatches ran to their end.

usage: late_python.py [-n DISPATCHES] [--sleep-msec N] [--kernels DIRECTORY] [--shutdown]
                      [--worker]
"""

import argparse
import ctypes
import mmap
import multiprocessing
import os
import struct
import sys
import time
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint16, c_uint32
from ctypes import c_uint64, c_void_p

INFO_BREAK = 1
AGENT_INFO_NAME = 0
AGENT_INFO_DEVICE = 17
DEVICE_TYPE_GPU = 1
QUEUE_TYPE_SINGLE = 1
PROFILE_FULL = 1
SYMBOL_INFO_KERNEL_OBJECT = 22
SIGNAL_CONDITION_LT = 2
WAIT_STATE_BLOCKED = 0
PACKET_KERNEL_DISPATCH = 2
PACKET_BARRIER_AND = 3
# Barrier bit, and acquire and release fences at system scope.
HEADER_FLAGS = 1 << 8 | 2 << 9 | 2 << 11


class Queue(ctypes.Structure):
    """hsa_queue_t."""

    _fields_ = [
        ("type", c_uint32),
        ("features", c_uint32),
        ("base_address", c_void_p),
        ("doorbell_signal", c_uint64),
        ("size", c_uint32),
        ("reserved1", c_uint32),
        ("id", c_uint64),
    ]


AgentCallback = ctypes.CFUNCTYPE(c_int, c_uint64, c_void_p)

# Handles are structs of one 64-bit member, which the ABI passes as that integer.
SIGNATURES = {
    "hsa_init": [],
    "hsa_shut_down": [],
    "hsa_iterate_agents": [AgentCallback, c_void_p],
    "hsa_agent_get_info": [c_uint64, c_int, c_void_p],
    "hsa_queue_create": [c_uint64, c_uint32, c_uint32, c_void_p, c_void_p, c_uint32,
                         c_uint32, POINTER(POINTER(Queue))],
    "hsa_queue_destroy": [POINTER(Queue)],
    "hsa_signal_create": [ctypes.c_int64, c_uint32, c_void_p, POINTER(c_uint64)],
    "hsa_signal_destroy": [c_uint64],
    "hsa_code_object_reader_create_from_memory": [c_char_p, c_size_t, POINTER(c_uint64)],
    "hsa_executable_create_alt": [c_int, c_int, c_char_p, POINTER(c_uint64)],
    "hsa_executable_load_agent_code_object": [c_uint64, c_uint64, c_uint64, c_char_p,
                                              c_void_p],
    "hsa_executable_freeze": [c_uint64, c_char_p],
    "hsa_executable_get_symbol_by_name": [c_uint64, c_char_p, POINTER(c_uint64),
                                          POINTER(c_uint64)],
    "hsa_executable_symbol_get_info": [c_uint64, c_int, c_void_p],
    "hsa_amd_memory_lock": [c_void_p, c_size_t, POINTER(c_uint64), c_int,
                            POINTER(c_uint64)],
    "hsa_amd_memory_unlock": [c_void_p],
}


class Runtime:
    """libhsa-runtime64 with every status checked."""

    def __init__(self):
        self.library = ctypes.CDLL("libhsa-runtime64.so.1")
        for name, arguments in SIGNATURES.items():
            function = getattr(self.library, name)
            function.argtypes = arguments
            function.restype = c_int
        self.library.hsa_signal_store_screlease.argtypes = [c_uint64, ctypes.c_int64]
        self.library.hsa_signal_store_screlease.restype = None
        self.library.hsa_signal_wait_scacquire.argtypes = [
            c_uint64, c_int, ctypes.c_int64, c_uint64, c_int]
        self.library.hsa_signal_wait_scacquire.restype = ctypes.c_int64
        self.library.hsa_queue_add_write_index_screlease.argtypes = [
            POINTER(Queue), c_uint64]
        self.library.hsa_queue_add_write_index_screlease.restype = c_uint64
        self.library.hsa_queue_load_read_index_scacquire.argtypes = [POINTER(Queue)]
        self.library.hsa_queue_load_read_index_scacquire.restype = c_uint64

    def call(self, name, *arguments):
        status = getattr(self.library, name)(*arguments)
        if status not in (0, INFO_BREAK):
            sys.exit(f"{name}: status {status:#x}")

    def find_gpu(self):
        found = []

        def visit(agent, _):
            device = c_uint32()
            self.call("hsa_agent_get_info", agent, AGENT_INFO_DEVICE, byref(device))
            if device.value == DEVICE_TYPE_GPU:
                found.append(agent)
            return 0

        self.call("hsa_iterate_agents", AgentCallback(visit), None)
        if not found:
            sys.exit("no GPU")
        name = ctypes.create_string_buffer(64)
        self.call("hsa_agent_get_info", found[0], AGENT_INFO_NAME, name)
        return found[0], name.value.decode()

    def load_kernel(self, gpu, path, name):
        with open(path, "rb") as file:
            image = file.read()
        reader, executable, symbol = c_uint64(), c_uint64(), c_uint64()
        kernel_object = c_uint64()
        self.call("hsa_code_object_reader_create_from_memory", image, len(image),
                  byref(reader))
        self.call("hsa_executable_create_alt", PROFILE_FULL, 0, None, byref(executable))
        self.call("hsa_executable_load_agent_code_object", executable, gpu, reader, None,
                  None)
        self.call("hsa_executable_freeze", executable, None)
        self.call("hsa_executable_get_symbol_by_name", executable, name.encode() + b".kd",
                  byref(c_uint64(gpu)), byref(symbol))
        self.call("hsa_executable_symbol_get_info", symbol, SYMBOL_INFO_KERNEL_OBJECT,
                  byref(kernel_object))
        return kernel_object.value

    def submit(self, queue, kind, body):
        """Writes the 64-byte packet `body`, whose header is set last, and rings."""
        index = self.library.hsa_queue_add_write_index_screlease(queue, 1)
        size = queue.contents.size
        while index - self.library.hsa_queue_load_read_index_scacquire(queue) >= size:
            pass
        slot = queue.contents.base_address + index % size * 64
        ctypes.memmove(slot + 2, body[2:], 62)
        c_uint16.from_address(slot).value = kind | HEADER_FLAGS
        self.library.hsa_signal_store_screlease(queue.contents.doorbell_signal, index)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-n", type=int, default=100, help="dispatches")
    parser.add_argument("--sleep-msec", type=int, default=0, help="before loading HSA")
    parser.add_argument("--kernels", default=os.path.dirname(os.path.abspath(__file__)))
    parser.add_argument("--shutdown", action="store_true", help="call hsa_shut_down")
    parser.add_argument("--worker", action="store_true",
                        help="do it in a process of multiprocessing, which ends with "
                             "os._exit")
    options = parser.parse_args()
    if options.worker:
        worker = multiprocessing.get_context("fork").Process(
            target=work_and_end, args=(options,))
        worker.start()
        worker.join()
        return worker.exitcode
    return work(options)


def work_and_end(options):
    status = work(options)
    sys.stdout.flush()
    os._exit(status)


def work(options):
    time.sleep(options.sleep_msec / 1000)
    # The kernels' host stand-ins, for the simulated GPU; kept alive by the reference.
    standins = os.path.join(options.kernels, "libtarget_standins.so")
    loaded = ctypes.CDLL(standins) if os.path.exists(standins) else None
    hsa = Runtime()
    hsa.call("hsa_init")
    gpu, isa = hsa.find_gpu()
    kernel = hsa.load_kernel(
        gpu, os.path.join(options.kernels, f"kernels-{isa}.hsaco"), "increment")
    queue, signal = POINTER(Queue)(), c_uint64()
    hsa.call("hsa_queue_create", gpu, 256, QUEUE_TYPE_SINGLE, None, None, 0xFFFFFFFF,
             0xFFFFFFFF, byref(queue))
    # One for each dispatch and one for the barrier.
    waited_for = 1 if options.worker else options.n + 1
    hsa.call("hsa_signal_create", waited_for, 0, None, byref(signal))
    # A page that the GPU can see: the counter, then the kernel's arguments.
    memory = mmap.mmap(-1, mmap.PAGESIZE)
    words = (c_uint64 * 64).from_buffer(memory)
    on_gpu = c_uint64()
    hsa.call("hsa_amd_memory_lock", words, mmap.PAGESIZE, byref(c_uint64(gpu)), 1,
             byref(on_gpu))
    words[32] = on_gpu.value
    # A worker has waited for each only by the barrier behind them.
    each = 0 if options.worker else signal.value
    for _ in range(options.n):
        # header, dimensions, work-group and grid sizes, private and group segment,
        # kernel object, arguments, reserved, completion signal
        hsa.submit(queue, PACKET_KERNEL_DISPATCH, struct.pack(
            "<HHHHHHIIIIIQQQQ", 0, 1, 64, 1, 1, 0, 256, 1, 1, 0, 0, kernel,
            on_gpu.value + 32 * 8, 0, each))
    hsa.submit(queue, PACKET_BARRIER_AND, struct.pack("<56xQ", signal.value))
    left = hsa.library.hsa_signal_wait_scacquire(signal, SIGNAL_CONDITION_LT, 1,
                                                 20_000_000_000, WAIT_STATE_BLOCKED)
    right = left == 0 and words[0] == options.n
    if options.worker:
        print(f"dispatches={options.n} result={'ok' if right else 'wrong'}")
        return 0 if right else 1
    hsa.call("hsa_amd_memory_unlock", words)
    hsa.call("hsa_signal_destroy", signal)
    hsa.call("hsa_queue_destroy", queue)
    del loaded
    if options.shutdown:
        hsa.call("hsa_shut_down")
    print(f"dispatches={options.n} copies=0 bytes=0 result={'ok' if right else 'wrong'}")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
