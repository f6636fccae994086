#include "userspace/watch/windows/window_policy.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <string.h>
#include <unistd.h>

#include "userspace/base/errno_status.h"

namespace rocattach {
namespace {

// A window of this process's first thread.
Window WindowInMode(uint32_t mode) {
  Window window;
  window.event.mode = mode;
  window.event.pid = window.event.tid = static_cast<uint32_t>(getpid());
  window.event.uid = getuid();
  strcpy(window.event.comm, "trainer");
  return window;
}

WindowPolicyOptions Attaching() {
  WindowPolicyOptions options;
  options.attach = true;
  return options;
}

// True if the policy skips the window; it is not expected to read the process.
bool Skips(const WindowPolicyOptions& options, Window* window) {
  return WindowPolicy(options).ShouldSkip(
      window, [] { FAIL() << "the event would have been enough"; });
}

TEST(WindowPolicy, AHeldWindowIsAttachedTo) {
  Window window = WindowInMode(ROCATTACH_WINDOW_HELD);
  EXPECT_FALSE(Skips(Attaching(), &window));
  EXPECT_EQ(window.verdict, Verdict::kOpen);
  EXPECT_TRUE(WindowPolicy(Attaching()).AcceptFromEvent(window.event).has_value());
}

TEST(WindowPolicy, ReportsOnlyWithoutAttachAndInADryRun) {
  WindowPolicyOptions options;
  Window window = WindowInMode(ROCATTACH_WINDOW_HELD);
  EXPECT_TRUE(Skips(options, &window));
  EXPECT_EQ(window.verdict, Verdict::kPassed);
  EXPECT_EQ(window.reason, "only watching; --auto attaches");
  options.attach = options.dry_run = true;
  window = WindowInMode(ROCATTACH_WINDOW_HELD);
  EXPECT_TRUE(Skips(options, &window));
  EXPECT_EQ(window.reason, "dry run: would attach");
  EXPECT_FALSE(WindowPolicy(options).attaches());
  EXPECT_FALSE(WindowPolicy(options).AcceptFromEvent(window.event).has_value());
}

TEST(WindowPolicy, TheModeDeterminesTheVerdict) {
  const struct {
    uint32_t mode;
    Verdict verdict;
  } kCases[] = {{ROCATTACH_WINDOW_DENIED, Verdict::kPassed},
                {ROCATTACH_WINDOW_UNRELATED, Verdict::kPassed},
                {ROCATTACH_WINDOW_PAUSED, Verdict::kPassed},
                {ROCATTACH_WINDOW_SHARED, Verdict::kRefused},
                {ROCATTACH_WINDOW_OVER_BUDGET, Verdict::kRefused},
                {ROCATTACH_WINDOW_UNSERVED, Verdict::kMissed},
                {ROCATTACH_WINDOW_REPORTED, Verdict::kMissed}};
  for (const auto& c : kCases) {
    Window window = WindowInMode(c.mode);
    EXPECT_TRUE(Skips(Attaching(), &window)) << c.mode;
    EXPECT_EQ(window.verdict, c.verdict) << c.mode;
    EXPECT_FALSE(window.reason.empty()) << c.mode;
  }
}

TEST(WindowPolicy, AFullServiceRefuses) {
  WindowPolicyOptions options = Attaching();
  options.full = [] { return std::string("no descriptors"); };
  Window window = WindowInMode(ROCATTACH_WINDOW_HELD);
  EXPECT_FALSE(WindowPolicy(options).AcceptFromEvent(window.event).has_value());
  EXPECT_TRUE(Skips(options, &window));
  EXPECT_EQ(window.verdict, Verdict::kRefused);
  EXPECT_EQ(window.outcome.reason, AttachReason::kOverBudget);
  EXPECT_EQ(window.reason, "no descriptors");
}

TEST(WindowPolicy, ReadsTheProcessOnlyIfARuleNeedsIt) {
  WindowPolicyOptions options = Attaching();
  options.rules.allow = {"trainer"};
  Window window = WindowInMode(ROCATTACH_WINDOW_HELD);
  EXPECT_FALSE(Skips(options, &window));
  // The event does not contain the command line of this process.
  options.rules.allow = {"no-such-program"};
  window = WindowInMode(ROCATTACH_WINDOW_HELD);
  bool read = false;
  EXPECT_TRUE(WindowPolicy(options).ShouldSkip(&window, [&] { read = true; }));
  EXPECT_TRUE(read);
  EXPECT_EQ(window.verdict, Verdict::kPassed);
  EXPECT_FALSE(WindowPolicy(options).Allows(getpid()));
}

TEST(WindowVerdict, OfAProcessThatCannotBeRead) {
  Window window;
  SetUnreadableVerdict(ErrnoStatus(ENOENT, "gone"), &window);
  EXPECT_EQ(window.verdict, Verdict::kMissed);
  EXPECT_FALSE(window.attach_tried);
  window = Window();
  SetUnreadableVerdict(ErrnoStatus(EMFILE, "open() failed"), &window);
  EXPECT_EQ(window.verdict, Verdict::kRefused);
  EXPECT_EQ(window.outcome.reason, AttachReason::kServiceResources);
}

TEST(WindowVerdict, OfAnAttach) {
  Window window;
  window.outcome.reason = AttachReason::kTargetExited;
  SetAttachVerdict(&window);
  EXPECT_EQ(window.verdict, Verdict::kOpen);
  window.outcome.reason = AttachReason::kStopTimeout;
  SetAttachVerdict(&window);
  EXPECT_EQ(window.verdict, Verdict::kMissed);
  window.outcome.reason = AttachReason::kSharedMemory;
  SetAttachVerdict(&window);
  EXPECT_EQ(window.verdict, Verdict::kRefused);
  EXPECT_FALSE(window.reason.empty());
}

}  // namespace
}  // namespace rocattach
