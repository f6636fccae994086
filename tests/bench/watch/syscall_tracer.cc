// bench_syscall_tracer: looks for loads of the HSA runtime in the system calls of all
// processes, until standard input ends. Prints `ready=1`, and at the end how many calls
// it has found.
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <unistd.h>

#include "bpf/syscall_tracer.skel.h"

namespace {

// libbpf finds these tracepoints in tracefs, which may not be mounted. In that case,
// mounts it for this process alone.
bool HaveTracefs() {
  if (access("/sys/kernel/tracing/events", F_OK) == 0) return true;
  return unshare(CLONE_NEWNS) == 0 &&
         mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("tracefs", "/sys/kernel/tracing", "tracefs", 0, nullptr) == 0;
}

}  // namespace

int main() {
  if (!HaveTracefs()) {
    perror("bench_syscall_tracer: tracefs cannot be mounted");
    return 1;
  }
  syscall_tracer_bpf* skeleton = syscall_tracer_bpf__open_and_load();
  if (skeleton == nullptr || syscall_tracer_bpf__attach(skeleton) != 0) {
    perror("bench_syscall_tracer: the BPF programs cannot be loaded and attached");
    return 1;
  }
  printf("ready=1\n");
  fflush(stdout);
  char byte;
  while (read(STDIN_FILENO, &byte, 1) > 0) {
  }
  printf("opened=%llu mapped=%llu\n",
         static_cast<unsigned long long>(skeleton->bss->opened),
         static_cast<unsigned long long>(skeleton->bss->mapped));
  syscall_tracer_bpf__destroy(skeleton);
  return 0;
}
