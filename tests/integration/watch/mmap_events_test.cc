// The kernel's events of mappings, and its wake-ups if it can attach them.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/watch/harness.h"
#include "tests/temporary_directory.h"
#include "userspace/base/unique_fd.h"
#include "userspace/watch/discovery/mmap_events.h"

namespace rocattach::testing_support {
namespace {

using testing::Contains;
using testing::Not;

class MmapEventsKernelTest : public testing::Test {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_PRIVILEGES();
    auto events = MmapEvents::Open();
    ASSERT_TRUE(events.ok()) << events.status();
    events_ = *std::move(events);
  }

  // A child process maps a page of a file with this name, and ends; returns the path.
  std::string MapInAnotherProcess(const std::string& name, int protection) {
    std::string path = absl::StrCat(directory_.path(), "/", name);
    UniqueFd file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0700));
    EXPECT_EQ(ftruncate(file.get(), 4096), 0);
    const pid_t child = fork();
    if (child == 0) {
      const void* at = mmap(nullptr, 4096, protection, MAP_PRIVATE, file.get(), 0);
      _exit(at == MAP_FAILED ? 1 : 0);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    return path;
  }
  // True if records arrive within the timeout that require a wake-up.
  bool Wakes(int timeout_msec) {
    std::vector<pollfd> fds;
    for (int fd : events_->fds()) fds.push_back({fd, POLLIN, 0});
    return poll(fds.data(), fds.size(), timeout_msec) > 0;
  }
  std::vector<std::string> Read() {
    std::vector<std::string> paths;
    events_->Read([&](const MmapEvent& event) { paths.push_back(event.path); });
    return paths;
  }

  const TemporaryDirectory directory_;
  std::unique_ptr<MmapEvents> events_;
};

TEST_F(MmapEventsKernelTest, AMappingOfTheRuntimeWakes) {
  for (int i = 0; i < 100; ++i) {
    (void)Read();
    const std::string path = MapInAnotherProcess(
        absl::StrCat("libhsa-runtime64.so.1.", i), PROT_READ | PROT_EXEC);
    ASSERT_TRUE(Wakes(10'000)) << i;
    // Its record was complete before the wake-up.
    ASSERT_THAT(Read(), Contains(path));
  }
}

TEST_F(MmapEventsKernelTest, OtherMappingsAreReadWithTheNextWakeUp) {
  if (auto wakeups = MmapWakeups::Open(); !wakeups.ok()) {
    GTEST_SKIP() << "this kernel wakes for every mapping: " << wakeups.status();
  }
  // Other processes on the machine may map the runtime, but hardly in every round.
  bool quiet = false;
  std::string other;
  for (int i = 0; i < 20 && !quiet; ++i) {
    (void)Read();
    other = MapInAnotherProcess(absl::StrCat("libhsa-runtime6.so.", i),
                                PROT_READ | PROT_EXEC);
    quiet = !Wakes(0);
  }
  EXPECT_TRUE(quiet);
  // Not executable: no record, no wake-up.
  const std::string data = MapInAnotherProcess("libhsa-runtime64.so.data", PROT_READ);
  EXPECT_FALSE(Wakes(0));
  const std::string runtime =
      MapInAnotherProcess("libhsa-runtime64.so.1", PROT_READ | PROT_EXEC);
  EXPECT_TRUE(Wakes(10'000));
  const std::vector<std::string> read = Read();
  EXPECT_THAT(read, Contains(other));
  EXPECT_THAT(read, Contains(runtime));
  EXPECT_THAT(read, Not(Contains(data)));
  EXPECT_FALSE(Wakes(0));
}

}  // namespace
}  // namespace rocattach::testing_support
