"""Adds what pyproject.toml cannot say: the version, and the schemas as descriptors."""

import os
import re
import shutil
import subprocess
import sys

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
SCHEMAS = "schemas.binpb"


def version():
    with open(os.path.join(TOP, "CMakeLists.txt"), encoding="utf-8") as file:
        return re.search(r"^project\(.*?VERSION ([\d.]+)", file.read(), re.M | re.S).group(1)


def compiler():
    """The command of protoc: the one of the system, or that of grpcio-tools."""
    if shutil.which("protoc"):
        return ["protoc"]
    try:
        import grpc_tools  # noqa: F401
    except ImportError:
        raise SystemExit(
            "rocattach-stream: protoc is missing, which compiles the schemas: install "
            "protobuf-compiler (Debian), or grpcio-tools with pip and use "
            "--no-build-isolation"
        ) from None
    return [sys.executable, "-m", "grpc_tools.protoc"]


class BuildWithSchemas(build_py):
    def run(self):
        super().run()
        folder = os.path.abspath(os.path.join(self.build_lib, "rocattach_stream"))
        target = os.path.join(folder, SCHEMAS)
        self.mkpath(folder)
        subprocess.run(
            [*compiler(), "--include_imports", f"--descriptor_set_out={target}",
             "-I", TOP, "schemas/stream.proto"],
            cwd=TOP, check=True)  # fmt: skip


setup(version=version(), cmdclass={"build_py": BuildWithSchemas})
