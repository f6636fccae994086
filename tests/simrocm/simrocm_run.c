// simrocm-run: runs a command on the simulated GPU with the simulated parts of a newer
// ROCm: rocprofiler-register, rocprofiler-sdk and their bridge to the HSA runtime.
#define _GNU_SOURCE
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/simgpu/launcher.h"

static const char help[] =
    "usage: simrocm-run [OPTIONS] COMMAND [ARGUMENTS...]\n"
    "Runs COMMAND, and every process that it starts, on a simulated AMD GPU whose HSA\n"
    "runtime registers with a simulated rocprofiler-register and rocprofiler-sdk.\n"
    "\n"
    "  --arch gfx90a|gfx906   architecture (default gfx90a)\n"
    "  --count N              number of GPUs, 1 to 8 (default 1)\n"
    "  --kernel-ns N          time that every kernel takes (default 5000)\n"
    "  --tool LIBRARY         a tool of rocprofiler-sdk (ROCP_TOOL_LIBRARIES)\n"
    "  --preload LIBRARY      load it into COMMAND first (LD_PRELOAD); with one that "
    "has\n"
    "                         rocprofiler_configure, as ROCm builds of PyTorch have, "
    "the\n"
    "                         SDK is loaded\n"
    "  --interposition        an SDK of 2026: dispatches that are only traced are seen "
    "by\n"
    "                         inline queue interposition "
    "(SIMROCM_QUEUE_INTERPOSITION=1)\n"
    "                         unless ROCPROFILER_QUEUE_INTERPOSITION=0\n"
    "  --restartable          an SDK that outlives a runtime that shuts down and "
    "starts\n"
    "                         again (SIMROCM_RESTARTABLE=1)\n"
    "  --attachable           start the attach library (ROCP_TOOL_ATTACH=1)\n"
    "  --old-register         register cannot attach tools, and there is no SDK\n"
    "  --old-attach           attaching is that of ROCm 7.2 (SIMROCM_OLD_ATTACH=1)\n"
    "  --log FILE             append what the simulators are asked to (SIMROCM_LOG)\n"
    "  --dispatch-log FILE    append each dispatch that is traced or counted\n"
    "                         (SIMROCM_DISPATCH_LOG)\n"
    "  --without-sdk          leave rocprofiler-sdk out: only register is found\n"
    "  --help                 this text\n"
    "\n"
    "The exit status is the command's; 127 if it could not be started, 2 for bad "
    "options.\n";

static char directory[PATH_MAX];  // of this program

// The folder holds nothing else: in a path with blanks it becomes one of
// LD_LIBRARY_PATH, and no SDK may be found there.
static void preload(const char* name) {
  char* path = NULL;
  if (asprintf(&path, "%s/lib/preload/%s", directory, name) < 0) {
    launcher_fail("cannot set", "LD_PRELOAD");
  }
  if (access(path, R_OK) != 0) launcher_fail("cannot read", path);
  launcher_preload(path);
  free(path);
}

static void set_libraries(const char* folder) {
  char* path = NULL;
  if (asprintf(&path, "%s/%s:%s/../simgpu/lib", directory, folder, directory) < 0) {
    launcher_fail("cannot set", "LD_LIBRARY_PATH");
  }
  launcher_prepend("LD_LIBRARY_PATH", path);
  free(path);
  preload("libsimrocm-bridge.so");
  preload("libsimrocm-hip.so");
}

int main(int argc, char** argv) {
  static const struct option options[] = {
      {"arch", required_argument, NULL, 'a'},
      {"count", required_argument, NULL, 'c'},
      {"kernel-ns", required_argument, NULL, 'k'},
      {"tool", required_argument, NULL, 't'},
      {"preload", required_argument, NULL, 'p'},
      {"interposition", no_argument, NULL, 'i'},
      {"restartable", no_argument, NULL, 'r'},
      {"attachable", no_argument, NULL, 'A'},
      {"old-register", no_argument, NULL, 'R'},
      {"old-attach", no_argument, NULL, 'o'},
      {"log", required_argument, NULL, 'l'},
      {"dispatch-log", required_argument, NULL, 'd'},
      {"without-sdk", no_argument, NULL, 'w'},
      {"help", no_argument, NULL, 'h'},
      {NULL, 0, NULL, 0}};
  const char* libraries = "lib";
  const char* preloaded = NULL;
  int option;
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
      case 't':
        setenv("ROCP_TOOL_LIBRARIES", optarg, 1);
        break;
      case 'p':
        preloaded = optarg;
        break;
      case 'i':
        setenv("SIMROCM_QUEUE_INTERPOSITION", "1", 1);
        break;
      case 'r':
        setenv("SIMROCM_RESTARTABLE", "1", 1);
        break;
      case 'A':
        setenv("ROCP_TOOL_ATTACH", "1", 1);
        break;
      case 'R':
        libraries = "lib/old-register";
        break;
      case 'o':
        setenv("SIMROCM_OLD_ATTACH", "1", 1);
        libraries = "lib/old-attach";
        break;
      case 'l':
        setenv("SIMROCM_LOG", optarg, 1);
        break;
      case 'd':
        setenv("SIMROCM_DISPATCH_LOG", optarg, 1);
        break;
      case 'w':
        libraries = "lib/register-only";
        break;
      case 'h':
        fputs(help, stdout);
        return 0;
      default:
        fputs("Try simrocm-run --help.\n", stderr);
        return 2;
    }
  }
  if (optind >= argc) {
    fputs("simrocm-run: no command\nTry simrocm-run --help.\n", stderr);
    return 2;
  }
  launcher_directory(directory);
  if (preloaded != NULL) launcher_preload(preloaded);
  set_libraries(libraries);
  execvp(argv[optind], argv + optind);
  launcher_fail("cannot run", argv[optind]);
}
