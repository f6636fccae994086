// The notification that the kernel writes when a process opens a watched file.
#ifndef ROCATTACH_TESTS_UNIT_WATCH_OPEN_NOTIFICATION_H_
#define ROCATTACH_TESTS_UNIT_WATCH_OPEN_NOTIFICATION_H_

#include <sys/fanotify.h>
#include <sys/types.h>

#include <cstdint>

namespace rocattach {

inline fanotify_event_metadata OpenNotification(uint64_t mask, pid_t pid) {
  fanotify_event_metadata event = {};
  event.event_len = event.metadata_len = sizeof(event);
  event.vers = FANOTIFY_METADATA_VERSION;
  event.mask = mask;
  event.fd = FAN_NOFD;
  event.pid = pid;
  return event;
}

}  // namespace rocattach

#endif  // ROCATTACH_TESTS_UNIT_WATCH_OPEN_NOTIFICATION_H_
