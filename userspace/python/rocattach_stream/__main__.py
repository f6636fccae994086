"""python3 -m rocattach_stream FILE…: what `rocattach dump --json FILE…` prints."""

import json
import sys

from .payload import MissingModuleError
from .reader import Reader, StreamError


def main(paths):
    if not paths:
        print("usage: python3 -m rocattach_stream FILE…", file=sys.stderr)
        return 2
    status = 0
    for path in paths:
        reader = Reader(sys.stdin.buffer if path == "-" else path)
        try:
            for record in reader:
                print(json.dumps(record, ensure_ascii=False, separators=(",", ":")))
        except (OSError, StreamError, MissingModuleError) as error:
            print(f"rocattach_stream: {path}: {error}", file=sys.stderr)
            status = 3
        if status == 0 and reader.stats.damaged:
            status = 1
    return status


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (BrokenPipeError, KeyboardInterrupt):
        sys.exit(1)
