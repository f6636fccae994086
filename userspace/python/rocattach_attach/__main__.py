"""python3 -m rocattach_attach -p PID: attaches, records and detaches.

Exit status: 0 after a recording, 1 if the process could not be attached to, 2 for a usage
error, 3 if the library cannot be loaded."""

import argparse
import sys

from . import AttachError, Library, attach
from .attachment import is_yes


def parse(words, name="rocattach_attach"):
    parser = argparse.ArgumentParser(
        prog=name,
        description="Records a running GPU process until Enter, Ctrl-C, or for a time.",
    )
    parser.add_argument(
        "-p",
        "--pid",
        "--attach",
        metavar="PID",
        help="the process (default: $ROCPROF_ATTACH_PID)",
    )
    parser.add_argument(
        "-d",
        "--attach-duration-msec",
        "--duration",
        dest="duration",
        metavar="MSEC",
        help="how long, in milliseconds (default: $ROCPROF_ATTACH_DURATION)",
    )
    parser.add_argument(
        "-t",
        "--attach-tool-library",
        metavar="PATH[:PATH…]",
        help="tool libraries (default: $ROCPROF_ATTACH_TOOL_LIBRARY)",
    )
    parser.add_argument(
        "--attach-children",
        metavar="BOOL",
        nargs="?",
        const=True,
        type=is_yes,
        help="its descendants as well (default: $ROCPROF_ATTACH_CHILDREN, else yes)",
    )
    parser.add_argument(
        "--attach-library",
        metavar="PATH",
        help="the library that attaches (default: $ROCPROF_ATTACH_LIBRARY)",
    )
    return parser.parse_args(words)


def run(words, name="rocattach_attach"):
    options = parse(words, name)
    try:
        attach(
            options.pid,
            options.attach_tool_library,
            options.duration,
            options.attach_children,
            Library(options.attach_library),
        )
    except AttachError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1
    except ValueError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 3
    except KeyboardInterrupt:
        # While it was being attached to; the recording ends with this process.
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
