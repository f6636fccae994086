#include "userspace/collector/hsa/reentry.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <charconv>

namespace rocattach::collector {
namespace {

// Long enough for a thread to get a CPU and to start looking for tools.
constexpr uint64_t kGraceNs = 50'000'000;
constexpr uint32_t kExpiryTickMsec = 10;

// Number of threads of the process; 0 if unknown.
uint32_t CountThreads() {
  char text[512];
  int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  ssize_t bytes = read(fd, text, sizeof(text) - 1);
  close(fd);
  if (bytes <= 0) return 0;
  text[bytes] = '\0';
  // The name, in parentheses, is the second of its fields, num_threads the 20th.
  const char* at = strrchr(text, ')');
  for (int field = 2; at != nullptr && field < 20; ++field) at = strchr(at + 1, ' ');
  uint32_t threads = 0;
  if (at != nullptr) std::from_chars(at + 1, text + bytes, threads);
  return threads;
}

}  // namespace

int Reentry::Install() {
  TinyLockHolder hold(lock_);
  until_ns_ = 0;
  return g_process.InstallVariables();
}

void Reentry::BeginInit() {
  TinyLockHolder hold(lock_);
  ++inits_under_way_;
  if (LoadAcquire(&g_process.phase) == kPhaseUnloaded) g_process.InstallVariables();
}

void Reentry::EndInit() {
  TinyLockHolder hold(lock_);
  --inits_under_way_;
  // The runtime may have been shut down again already, and other threads may need the
  // variables.
  if (LoadAcquire(&g_process.phase) != kPhaseUnloaded) g_process.environment.Restore();
}

// 1. The threads wait for the runtime's lock, which the caller of OnUnload holds.
// 2. When it is free, one of them starts the runtime again, without our hook, and looks
//    for tools in the environment.
// Whether there are such threads is unknown. In a process without threads other than
// the caller and our worker there are none.
void Reentry::InstallForWaitingThreads() {
  if (CountThreads() == 2) return;
  TinyLockHolder hold(lock_);
  if (g_process.InstallVariables() != 0) return;
  until_ns_ = BootNs() + kGraceNs;
}

uint32_t Reentry::Expire() {
  TinyLockHolder hold(lock_);
  if (until_ns_ == 0) return 0;
  const bool waiting = LoadAcquire(&g_process.phase) == kPhaseUnloaded;
  if (waiting && (BootNs() < until_ns_ || inits_under_way_ != 0)) {
    return kExpiryTickMsec;
  }
  until_ns_ = 0;
  if (waiting) g_process.environment.Restore();
  return 0;
}

}  // namespace rocattach::collector
