// simrocm-run: runs a command on the simulated GPU with the simulated parts of a newer
// ROCm: rocprofiler-register, rocprofiler-sdk and their bridge to the HSA runtime.
#define _GNU_SOURCE
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

static char directory[PATH_MAX];  // that of this program

// The folder contains nothing else: if its path has blanks it becomes one of
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
  char path[2 * PATH_MAX];
  snprintf(path, sizeof(path), "%s/%s", directory, folder);
  launcher_prepend("LD_LIBRARY_PATH", path);
  snprintf(path, sizeof(path), "%s/../simgpu/lib", directory);
  launcher_preload_driver(path);
  preload("libsimrocm-bridge.so");
  preload("libsimrocm-hip.so");
}

int main(int argc, char** argv) {
  static const char* libraries = "lib";
  static const char* preloaded = NULL;
  static const struct launcher_option options[] = {
      {.name = "arch", .variable = "SIMGPU_ARCH"},
      {.name = "count", .variable = "SIMGPU_COUNT"},
      {.name = "kernel-ns", .variable = "SIMGPU_KERNEL_NS"},
      {.name = "tool", .variable = "ROCP_TOOL_LIBRARIES"},
      {.name = "preload", .value = &preloaded},
      {.name = "interposition",
       .flag = true,
       .variable = "SIMROCM_QUEUE_INTERPOSITION"},
      {.name = "restartable", .flag = true, .variable = "SIMROCM_RESTARTABLE"},
      {.name = "attachable", .flag = true, .variable = "ROCP_TOOL_ATTACH"},
      {.name = "old-register",
       .flag = true,
       .value = &libraries,
       .flag_value = "lib/old-register"},
      {.name = "old-attach",
       .flag = true,
       .variable = "SIMROCM_OLD_ATTACH",
       .value = &libraries,
       .flag_value = "lib/old-attach"},
      {.name = "log", .variable = "SIMROCM_LOG"},
      {.name = "dispatch-log", .variable = "SIMROCM_DISPATCH_LOG"},
      {.name = "without-sdk",
       .flag = true,
       .value = &libraries,
       .flag_value = "lib/register-only"},
      {.name = NULL}};
  const int command = launcher_parse(argc, argv, options, help);
  launcher_directory(directory);
  if (preloaded != NULL) launcher_preload(preloaded);
  set_libraries(libraries);
  launcher_run(argv + command);
}
