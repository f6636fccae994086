"""The compile commands of a build, one for each source: a build compiles several sources
of a target at once, from a file that includes them (CMAKE_UNITY_BUILD).

  scripts/compile_commands.py BUILD   writes BUILD/sources/compile_commands.json, which
                                      clang-tidy and editors read
"""
import json
import pathlib
import re
import shlex
import sys

INCLUDE = re.compile(r'^#include "(/[^"]+)"', re.M)


def per_source(build):
    """Entries as in BUILD/compile_commands.json, with each source's own."""
    build = pathlib.Path(build).resolve()
    found = []
    for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        unit = pathlib.Path(entry["directory"], entry["file"])
        if unit.parent.name != "Unity":
            found.append(entry)
            continue
        # CMake quotes as a shell does.
        words = [word if word != str(unit) else None
                 for word in shlex.split(entry["command"])]
        for source in INCLUDE.findall(unit.read_text(encoding="utf-8")):
            command = shlex.join(source if word is None else word for word in words)
            found.append({**entry, "file": source, "command": command})
    return found


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    build = pathlib.Path(sys.argv[1])
    folder = build / "sources"
    folder.mkdir(exist_ok=True)
    (folder / "compile_commands.json").write_text(
        json.dumps(per_source(build), indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
