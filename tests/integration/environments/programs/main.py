"""make_dispatches in workers of Python's multiprocessing.

usage: main.py LIBRARY fork|spawn|forkserver
"""

import ctypes
import multiprocessing
import sys


def work(library):
    return ctypes.CDLL(library).make_dispatches()


if __name__ == "__main__":
    multiprocessing.set_start_method(sys.argv[2])
    with multiprocessing.Pool(2) as pool:
        statuses = pool.map(work, [sys.argv[1]] * 2, chunksize=1)
    sys.exit(max(statuses))
