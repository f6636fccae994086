// simgpu-run: runs a command, and all processes that it starts, on the simulated GPU.
#define _GNU_SOURCE
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/simgpu/launcher.h"

static const char help[] =
    "usage: simgpu-run [OPTIONS] COMMAND [ARGUMENTS…]\n"
    "Runs COMMAND, and every process that it starts, on a simulated AMD GPU: any "
    "program\n"
    "that uses the HSA runtime or HIP.\n"
    "\n"
    "  --arch gfx90a|gfx906   architecture (default gfx90a)\n"
    "  --count N              number of GPUs, 1 to 8 (default 1)\n"
    "  --kernel-ns N          time that every kernel takes (default 5000)\n"
    "  --copy-mbps N          rate of the copy engines, 10^6 bytes/s (default 16000)\n"
    "  --stats FILE           append what each process ran to FILE when it ends\n"
    "  --root FOLDER          run COMMAND in this root, on the libraries there\n"
    "  --help                 this text\n"
    "\n"
    "The options set the environment variables SIMGPU_ARCH, SIMGPU_COUNT,\n"
    "SIMGPU_KERNEL_NS, SIMGPU_COPY_MBPS, SIMGPU_STATS and SIMGPU_ROOT, which can be "
    "set\n"
    "directly too.\n"
    "The exit status is the command's; 127 if it could not be started, 2 for bad "
    "options.\n";

// Preloads the driver from the directory lib/ beside this program.
static void preload_driver(void) {
  char self[PATH_MAX];
  launcher_directory(self);
  char folder[PATH_MAX + 8];
  snprintf(folder, sizeof(folder), "%s/lib", self);
  launcher_preload_driver(folder);
}

int main(int argc, char** argv) {
  static const struct launcher_option options[] = {
      {.name = "arch", .variable = "SIMGPU_ARCH"},
      {.name = "count", .variable = "SIMGPU_COUNT"},
      {.name = "kernel-ns", .variable = "SIMGPU_KERNEL_NS"},
      {.name = "copy-mbps", .variable = "SIMGPU_COPY_MBPS"},
      {.name = "stats", .variable = "SIMGPU_STATS"},
      {.name = "root", .variable = "SIMGPU_ROOT"},
      {.name = NULL}};
  const int command = launcher_parse(argc, argv, options, help);
  preload_driver();
  launcher_run(argv + command);
}
