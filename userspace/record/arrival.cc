#include "userspace/record/arrival.h"

#include <errno.h>
#include <string.h>

#include <iterator>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "injector/process/thread_status.h"
#include "userspace/abi/setup_failure.h"
#include "userspace/base/clock.h"
#include "userspace/record/end_verdict.h"

namespace rocattach {
namespace {

// The name of the call that failed, with a colon; empty if it is not known.
std::string FailedCall(uint64_t failure) {
  static constexpr absl::string_view kCalls[ROCATTACH_SETUP_CALLS] = {
      "",
      "mmap: ",
      "madvise: ",
      "memfd_create: ",
      "limit of file sizes: ",
      "ftruncate: ",
      "fcntl: ",
      "mprotect: ",
      "memory that is shared with the service: ",
      "pthread_key_create: ",
      "pthread_create: ",
  };
  const uint64_t call = failure >> 32;
  return std::string(call < std::size(kCalls) ? kCalls[call] : "");
}

// A collector that could not be set up reports a ROCATTACH_SETUP_FAILURE.
AttachFailure StartFailure(uint64_t failure) {
  const int error = static_cast<int>(static_cast<uint32_t>(failure));
  const bool is_limit = error == EFBIG || error == EMFILE || error == ENFILE ||
                        error == ENOMEM || error == EAGAIN;
  const char* name = strerrorname_np(error);
  const char* text = strerrordesc_np(error);
  return {is_limit ? AttachReason::kResourceLimit : AttachReason::kCollectorRefused,
          error,
          absl::StrCat("the collector could not be set up in the process (",
                       FailedCall(failure),
                       name != nullptr ? name : absl::StrCat("errno ", error), ", ",
                       text != nullptr ? text : "", "), and has changed nothing")};
}

// Fails if the memory is another process's: a forked child has mapped its parent's.
absl::Status CheckIsOwnMemory(pid_t pid, const CollectorMemory& memory) {
  auto status = ReadThreadStatus(pid, pid);
  if (status.ok() && status->inner_tid == memory.owner()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the collector in process ", pid, " belongs to process ", memory.owner(),
      " (as that calls itself), from which it was forked"));
}

}  // namespace

Arrival MapArrival(const rocattach_event& event,
                   const rocattach_collector_config& config, bool hold) {
  Arrival arrival;
  arrival.event = event;
  if (event.ready.memory == 0) {
    arrival.failure = StartFailure(event.ready.bytes_or_errno);
    return arrival;
  }
  // By thread ID: the process's first thread may have exited.
  auto memory = CollectorMemory::Map(static_cast<pid_t>(event.tid), event.ready.memory,
                                     event.ready.bytes_or_errno, config);
  if (!memory.ok() && event.tid != event.pid) {
    memory = CollectorMemory::Map(static_cast<pid_t>(event.pid), event.ready.memory,
                                  event.ready.bytes_or_errno, config);
  }
  if (!memory.ok()) {
    arrival.failure = UnusableMemory(memory.status());
    return arrival;
  }
  arrival.memory = *std::move(memory);
  if (event.mode == ROCATTACH_READY_TAKEN_OVER) {
    absl::Status status =
        CheckIsOwnMemory(static_cast<pid_t>(event.pid), *arrival.memory);
    if (status.ok()) status = arrival.memory->TakeOver(BootNs());
    if (!status.ok()) {
      arrival.memory.reset();
      arrival.failure = AttachFailure{AttachReason::kAlreadyAttached, 0,
                                      std::string(status.message())};
      return arrival;
    }
  }
  arrival.acknowledged = !hold;
  if (!hold) arrival.memory->control().AcknowledgeMapped();
  return arrival;
}

}  // namespace rocattach
