// Events of processes that do not exist.
#ifndef ROCATTACH_TESTS_UNIT_RECORD_MADE_UP_EVENT_H_
#define ROCATTACH_TESTS_UNIT_RECORD_MADE_UP_EVENT_H_

#include <cstdint>

#include "bpf/watch_events.h"

namespace rocattach {

inline constexpr uint64_t kStartNs = 1'000'000'000;

// `number` distinguishes processes, whose process IDs are above the kernel's limit.
inline rocattach_event MadeUpEvent(uint32_t type, uint32_t number, uint64_t time_ns) {
  rocattach_event event = {};
  event.type = type;
  event.pid = 5'000'000 + number;
  event.tid = event.pid;
  event.start_ns = kStartNs;
  event.time_ns = time_ns;
  return event;
}

}  // namespace rocattach

#endif  // ROCATTACH_TESTS_UNIT_RECORD_MADE_UP_EVENT_H_
