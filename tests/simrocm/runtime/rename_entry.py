#!/usr/bin/env python3
"""rename_entry.py FROM TO: copies an HSA runtime without its hsa_init and hsa_shut_down.

They are called xsa_init and xsa_shut_down in the copy, which can be loaded beside
another library that has these functions, and is no HSA runtime to those who look for one.
"""

import sys


def main() -> None:
    with open(sys.argv[1], "rb") as file:
        image = bytearray(file.read())
    for name in (b"hsa_init", b"hsa_shut_down"):
        at = image.find(b"\0" + name + b"\0")
        if at < 0 or image.find(b"\0" + name + b"\0", at + 1) >= 0:
            sys.exit(f"{sys.argv[1]}: {name.decode()} is not named once")
        image[at + 1 : at + 2] = b"x"
    with open(sys.argv[2], "wb") as file:
        file.write(image)


if __name__ == "__main__":
    main()
