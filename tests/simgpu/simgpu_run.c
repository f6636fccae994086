// simgpu-run: runs a command, and whatever it starts, on the simulated GPU.
#define _GNU_SOURCE
#include <getopt.h>
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
    "  --help                 this text\n"
    "\n"
    "The options set the environment variables SIMGPU_ARCH, SIMGPU_COUNT,\n"
    "SIMGPU_KERNEL_NS, SIMGPU_COPY_MBPS and SIMGPU_STATS, which can be set directly "
    "too.\n"
    "The exit status is the command's; 127 if it could not be started, 2 for bad "
    "options.\n";

// Puts the directory lib/ beside this program first in LD_LIBRARY_PATH.
static void prepend_library_path(void) {
  char self[PATH_MAX];
  launcher_directory(self);
  char path[PATH_MAX + 32];
  snprintf(path, sizeof(path), "%s/lib/libhsakmt.so.1", self);
  if (access(path, R_OK) != 0) launcher_fail("cannot read", path);
  *strrchr(path, '/') = '\0';
  launcher_prepend("LD_LIBRARY_PATH", path);
}

int main(int argc, char** argv) {
  static const struct option options[] = {{"arch", required_argument, NULL, 'a'},
                                          {"count", required_argument, NULL, 'c'},
                                          {"kernel-ns", required_argument, NULL, 'k'},
                                          {"copy-mbps", required_argument, NULL, 'm'},
                                          {"stats", required_argument, NULL, 's'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
  int option;
  // "+": the command's own options are not ours.
  while ((option = getopt_long(argc, argv, "+h", options, NULL)) != -1) {
    switch (option) {
      case 'a':
        setenv("SIMGPU_ARCH", optarg, 1);
        break;
      case 'c':
        setenv("SIMGPU_COUNT", optarg, 1);
        break;
      case 'k':
        setenv("SIMGPU_KERNEL_NS", optarg, 1);
        break;
      case 'm':
        setenv("SIMGPU_COPY_MBPS", optarg, 1);
        break;
      case 's':
        setenv("SIMGPU_STATS", optarg, 1);
        break;
      case 'h':
        fputs(help, stdout);
        return 0;
      default:
        fprintf(stderr, "simgpu-run: see simgpu-run --help\n");
        return 2;
    }
  }
  if (optind == argc) {
    fprintf(stderr, "simgpu-run: no command; see simgpu-run --help\n");
    return 2;
  }
  prepend_library_path();
  execvp(argv[optind], argv + optind);
  launcher_fail("cannot run", argv[optind]);
}
