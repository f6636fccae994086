// A process that costs the service as much as an unprivileged one can.
//
//   hostile_load reopen COLLECTOR SECONDS   opens windows as fast as it can: tells
//                                           the collector that the runtime has been
//                                           shut down, calls hsa_init again, and
//                                           repeats that
//   hostile_load report COLLECTOR SECONDS   reports a collector's memory repeatedly
//   hostile_load exec ROUNDS                calls hsa_init, executes itself, repeats
//   hostile_load fork SECONDS               starts processes that call hsa_init
//   hostile_load idle PROCESSES             that many processes call hsa_init, and
//                                           stay until they are killed
//   hostile_load mappers PROCESSES FILE     that many processes map the file as a
//                                           program's code, and never call hsa_init;
//                                           prints their process ids
//   hostile_load arguments BYTES            has that many bytes of short arguments
//   hostile_load map FILE …                 maps these files until it is killed
//
// Prints counts of what it has done as NAME=NUMBER. It is linked with a runtime whose
// hsa_init does nothing, because a real one would need most of the time itself.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <string>
#include <vector>

extern "C" int hsa_init(void);

namespace {

[[noreturn]] void Fail(const char* what) {
  fprintf(stderr, "hostile_load: %s: %s\n", what, strerror(errno));
  _exit(2);
}

double Now() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

void Print(const char* name, uint64_t number) {
  printf("%s=%llu\n", name, static_cast<unsigned long long>(number));
  fflush(stdout);
}

[[noreturn]] void WaitForASignal() {
  for (;;) pause();
}

template <typename Function>
Function Collectors(const char* collector, const char* name) {
  // Already loaded if the service has attached.
  void* library = dlopen(collector, RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) library = dlopen(collector, RTLD_NOW);
  void* function = library == nullptr ? nullptr : dlsym(library, name);
  if (function == nullptr) {
    fprintf(stderr, "hostile_load: %s\n", dlerror());
    _exit(2);
  }
  return reinterpret_cast<Function>(function);
}

void Reopen(const char* collector, double seconds) {
  hsa_init();
  auto unloaded = Collectors<void (*)()>(collector, "rocattach_collector_unloaded");
  uint64_t windows = 1;
  for (const double end = Now() + seconds; Now() < end; ++windows) {
    unloaded();
    hsa_init();
  }
  Print("windows", windows);
}

void Report(const char* collector, double seconds) {
  hsa_init();
  auto ready = Collectors<void (*)(void*, uint64_t, uint64_t)>(
      collector, "rocattach_collector_ready");
  uint64_t reports = 0;
  for (const double end = Now() + seconds; Now() < end; ++reports) {
    ready(&reports, 4096, reports);
  }
  Print("reports", reports);
}

void Exec(int rounds, char* program) {
  hsa_init();
  if (rounds == 0) return Print("done", 1);
  std::string number = std::to_string(rounds - 1);
  execl("/proc/self/exe", program, "exec", number.c_str(), nullptr);
  Fail("execl");
}

void Fork(double seconds) {
  uint64_t processes = 0;
  for (const double end = Now() + seconds; Now() < end; ++processes) {
    const pid_t child = fork();
    if (child < 0) Fail("fork");
    if (child == 0) {
      hsa_init();
      _exit(0);
    }
    // Not too many at a time.
    while (waitpid(-1, nullptr, processes % 8 == 7 ? 0 : WNOHANG) > 0) {
    }
  }
  while (waitpid(-1, nullptr, 0) > 0) {
  }
  Print("processes", processes);
}

void Idle(int processes) {
  int ends[2];
  if (pipe(ends) != 0) Fail("pipe");
  for (int i = 0; i < processes; ++i) {
    const pid_t child = fork();
    if (child < 0) Fail("fork");
    if (child > 0) continue;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    hsa_init();
    if (write(ends[1], "x", 1) != 1) Fail("write");
    WaitForASignal();
  }
  char byte;
  for (int i = 0; i < processes; ++i) {
    if (read(ends[0], &byte, 1) != 1) Fail("read");
  }
  Print("idle", static_cast<uint64_t>(processes));
  WaitForASignal();
}

void Mappers(int processes, const char* path) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) Fail(path);
  for (int i = 0; i < processes; ++i) {
    const pid_t child = fork();
    if (child < 0) Fail("fork");
    if (child > 0) {
      Print("mapper", static_cast<uint64_t>(child));
      continue;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0) ==
        MAP_FAILED) {
      Fail("mmap");
    }
    WaitForASignal();
  }
  Print("mappers", static_cast<uint64_t>(processes));
  WaitForASignal();
}

void Arguments(uint64_t bytes, char* program) {
  rlimit stack = {};
  getrlimit(RLIMIT_STACK, &stack);
  stack.rlim_cur = stack.rlim_max;  // a quarter of it is for arguments, at most 6 MiB
  setrlimit(RLIMIT_STACK, &stack);
  char word[] = "arguments";
  char begin[] = "begin";
  char letter[] = "x";
  std::vector<char*> arguments = {program, word, begin};
  arguments.insert(arguments.end(), bytes / 2, letter);
  arguments.push_back(nullptr);
  execv("/proc/self/exe", arguments.data());
  Fail("execv");
}

void Map(int count, char** files) {
  for (int i = 0; i < count; ++i) {
    if (dlopen(files[i], RTLD_NOW | RTLD_LOCAL) == nullptr) Fail(files[i]);
  }
  Print("mapped", static_cast<uint64_t>(count));
  WaitForASignal();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const std::string mode = argv[1];
  if (mode == "reopen" && argc == 4) {
    Reopen(argv[2], atof(argv[3]));
  } else if (mode == "report" && argc == 4) {
    Report(argv[2], atof(argv[3]));
  } else if (mode == "exec") {
    Exec(atoi(argv[2]), argv[0]);
  } else if (mode == "fork") {
    Fork(atof(argv[2]));
  } else if (mode == "idle") {
    Idle(atoi(argv[2]));
  } else if (mode == "mappers" && argc == 4) {
    Mappers(atoi(argv[2]), argv[3]);
  } else if (mode == "arguments" && strcmp(argv[2], "begin") == 0) {
    hsa_init();
    Print("arguments", static_cast<uint64_t>(argc));
  } else if (mode == "arguments") {
    Arguments(strtoull(argv[2], nullptr, 10), argv[0]);
  } else if (mode == "map") {
    Map(argc - 2, argv + 2);
  } else {
    return 2;
  }
  return 0;
}
