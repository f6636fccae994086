#include "userspace/watch/windows/window.h"

#include <gtest/gtest.h>
#include <string.h>
#include <unistd.h>

#include "userspace/base/clock.h"

namespace rocattach {
namespace {

// An event of this process as the kernel side writes it.
rocattach_event Event() {
  rocattach_event event = {};
  event.pid = event.tid = static_cast<uint32_t>(getpid());
  event.start_ns = ReadStartTicks(getpid()).value_or(0) * ClockTickNs() + 1;
  event.uid = 4321;
  strcpy(event.comm, "trainer");
  return event;
}

TEST(ProcessOf, ALivingProcessIsDescribedByProc) {
  const ProcessInfo info = ProcessOf(Event());
  EXPECT_EQ(info.id, ProcessIdOf(Event()));
  EXPECT_EQ(info.comm, "watch_test");
  EXPECT_EQ(info.uid, geteuid());
  EXPECT_NE(info.executable, "");
}

// Data of the process that now has the number must not be reported as the earlier's.
TEST(ProcessOf, IgnoresALaterProcessWithTheSamePid) {
  rocattach_event event = Event();
  event.start_ns -= 10 * ClockTickNs();
  const ProcessInfo info = ProcessOf(event);
  EXPECT_EQ(info.id, ProcessIdOf(event));
  EXPECT_EQ(info.comm, "trainer");
  EXPECT_EQ(info.uid, 4321u);
  EXPECT_EQ(info.executable, "");
}

TEST(ProcessOf, AProcessThatHasEndedIsDescribedByTheEvent) {
  rocattach_event event = Event();
  event.pid = 1 << 22;  // one more than the highest possible process ID
  const ProcessInfo info = ProcessOf(event);
  EXPECT_EQ(info.id, ProcessIdOf(event));
  EXPECT_EQ(info.comm, "trainer");
  EXPECT_EQ(info.uid, 4321u);
}

// A name of 16 characters has no terminating zero.
TEST(CommOf, ANameMayFillItsField) {
  rocattach_event event = {};
  memset(event.comm, 'x', sizeof(event.comm));
  EXPECT_EQ(CommOf(event), std::string(sizeof(event.comm), 'x'));
}

}  // namespace
}  // namespace rocattach
