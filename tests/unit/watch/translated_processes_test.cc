// Processes of several users, reported to the class as translated.
#include "userspace/watch/discovery/translated_processes.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/await.h"
#include "tests/unit/watch/open_notification.h"
#include "userspace/base/unique_fd.h"

namespace rocattach {
namespace {

constexpr absl::Duration kLong = absl::Hours(1);
constexpr uid_t kTranslatedKeeper = 1000, kTranslatedOther = 2000;
const dev_t kTranslatorDevice = makedev(8, 1);
constexpr ino_t kInode = 7;

// A process that does nothing.
class Child {
 public:
  Child() : pid_(fork()) {
    if (pid_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) pause();
  }
  ~Child() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  pid_t pid() const { return pid_; }

 private:
  const pid_t pid_;
};

LibraryCopy Copy() {
  LibraryCopy copy;
  copy.path = "/usr/lib/libhsa-runtime64.so.1";
  copy.device = kTranslatorDevice;
  copy.inode = kInode;
  copy.hsa_init_offset = 0x1234;
  return copy;
}

Maps MapsWithCopy() {
  Mapping mapping;
  mapping.start = RemoteAddress(0x7f0000000000);
  mapping.end = RemoteAddress(0x7f0000010000);
  mapping.executable = true;
  mapping.is_private = true;
  mapping.device_major = major(kTranslatorDevice);
  mapping.device_minor = minor(kTranslatorDevice);
  mapping.inode = kInode;
  mapping.path = "/usr/lib/libhsa-runtime64.so.1";
  return Maps::Of({mapping});
}

std::vector<LibraryCopy> OneCopy() {
  std::vector<LibraryCopy> copies;
  copies.push_back(Copy());
  return copies;
}

// State that the threads and the test share; it may outlive the test.
struct Shared {
  const KnownLibraries libraries{OneCopy()};
  // Called for each process that is read, and for each one found. May be null.
  std::function<void(pid_t)> on_read, on_found;
  std::function<void()> on_list;  // called for each look at all processes
  std::map<pid_t, uid_t> users;
  std::atomic<bool> is_mapped = true;  // the opened copy
  std::atomic<uint64_t> cpu_ns = 0;    // used by each process
  std::atomic<uint64_t> start_ticks = 7;
  std::atomic<int> judged = 0;  // how often it was asked if one is translated

  absl::Mutex mutex;
  std::map<pid_t, int> found ABSL_GUARDED_BY(mutex);
};

class TranslatedProcessesTest : public testing::Test {
 protected:
  void SetUp() override {
    int fds[2];
    ASSERT_EQ(pipe2(fds, O_CLOEXEC | O_NONBLOCK), 0);
    opens_ = std::make_shared<LibraryOpens>(UniqueFd(fds[0]));
    kernel_.reset(fds[1]);
    shared_->users = {{keeper_.pid(), kTranslatedKeeper},
                      {other_.pid(), kTranslatedOther}};
  }
  void TearDown() override {
    if (processes_ != nullptr) processes_->Stop();
  }

  void Start() {
    TranslatedProcesses::Options options;
    options.libraries = &shared_->libraries;
    options.opens = opens_;
    options.functions.list = [shared = shared_] {
      if (shared->on_list != nullptr) shared->on_list();
      std::vector<pid_t> pids;
      for (const auto& [pid, uid] : shared->users) pids.push_back(pid);
      return pids;
    };
    options.functions.user_of = [shared = shared_](pid_t pid) {
      return shared->users.at(pid);
    };
    options.functions.read_maps = [shared =
                                       shared_](pid_t pid) -> absl::StatusOr<Maps> {
      if (shared->on_read != nullptr) shared->on_read(pid);
      return shared->is_mapped ? MapsWithCopy() : Maps::Of({});
    };
    options.functions.cpu_ns = [shared = shared_](pid_t) {
      return shared->cpu_ns.load();
    };
    options.functions.read_start_ticks = [shared = shared_](pid_t) {
      return shared->start_ticks.load();
    };
    options.functions.how_translated = [shared = shared_](pid_t, const Maps&) {
      ++shared->judged;
      return "by this test";
    };
    options.on_found = [shared = shared_](const TranslatedProcess& process) {
      EXPECT_EQ(process.how, "by this test");
      EXPECT_EQ(process.cookie, 1u);
      {
        absl::MutexLock lock(&shared->mutex);
        ++shared->found[process.id.pid];
      }
      if (shared->on_found != nullptr) shared->on_found(process.id.pid);
    };
    auto processes = TranslatedProcesses::Start(std::move(options));
    ASSERT_TRUE(processes.ok()) << processes.status();
    processes_ = *std::move(processes);
  }
  void Notify(uint64_t mask, pid_t pid) {
    const fanotify_event_metadata event = OpenNotification(mask, pid);
    ASSERT_EQ(write(kernel_.get(), &event, sizeof(event)), ssize_t{sizeof(event)});
  }
  // The process opens the library copy.
  void Open(const Child& child) { Notify(FAN_OPEN, child.pid()); }
  int Found(const Child& child) {
    absl::MutexLock lock(&shared_->mutex);
    const auto found = shared_->found.find(child.pid());
    return found == shared_->found.end() ? 0 : found->second;
  }

  const Child keeper_, other_;
  const std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
  std::shared_ptr<LibraryOpens> opens_;
  UniqueFd kernel_;  // the end for the kernel's notifications
  std::unique_ptr<TranslatedProcesses> processes_;
};

// Steps that the functions in Shared wait for; they may outlive the test.
struct Steps {
  absl::Notification kept, other, go_on;
};

void NotifyOnce(absl::Notification* step) {
  if (!step->HasBeenNotified()) step->Notify();
}

// The receiver of a report reads the process, which can make the receiver wait.
TEST_F(TranslatedProcessesTest, AProcessThatBlocksTheReceiverDoesNotDelayOthers) {
  const auto steps = std::make_shared<Steps>();
  shared_->on_found = [steps, keeper = keeper_.pid()](pid_t pid) {
    if (pid == keeper) {
      steps->kept.Notify();
      // If a lock were held here, the other process would never be found.
      testing_support::Await(steps->other, "the other process to be found");
    } else {
      steps->other.Notify();
    }
  };
  Start();
  Open(keeper_);
  testing_support::Await(steps->kept, "the first process to be looked at");
  Open(other_);
  testing_support::Await(steps->other, "the other process to be found");
  EXPECT_TRUE(processes_->StopReporting(kLong));
  EXPECT_EQ(Found(keeper_), 1);
  EXPECT_EQ(Found(other_), 1);
}

TEST_F(TranslatedProcessesTest, AProcessThatBlocksItsReaderDoesNotDelayOthers) {
  const auto steps = std::make_shared<Steps>();
  shared_->on_read = [steps, keeper = keeper_.pid()](pid_t pid) {
    if (pid != keeper) return;
    NotifyOnce(&steps->kept);
    testing_support::Await(steps->other, "the other process to be found");
  };
  shared_->on_found = [steps, other = other_.pid()](pid_t pid) {
    if (pid == other) steps->other.Notify();
  };
  Start();
  Open(keeper_);
  testing_support::Await(steps->kept, "the first process to be looked at");
  // None of these calls waits for the thread that reads the process.
  processes_->OnMapped(keeper_.pid(), kTranslatedKeeper);
  processes_->AfterProbe(CheckedFile(), /*mapped_by=*/0);
  EXPECT_EQ(processes_->counts().left_out, 0u);
  Open(other_);
  testing_support::Await(steps->other, "the other process to be found");
  EXPECT_EQ(Found(other_), 1);
}

TEST_F(TranslatedProcessesTest, NothingIsReportedAfterStopReporting) {
  const auto steps = std::make_shared<Steps>();
  shared_->on_found = [steps, keeper = keeper_.pid()](pid_t pid) {
    if (pid != keeper) return;
    steps->kept.Notify();
    steps->go_on.WaitForNotification();
  };
  // A look reads a translated process twice: at the third read, the first look is over.
  const auto reads = std::make_shared<std::atomic<int>>(0);
  shared_->on_read = [steps, reads, other = other_.pid()](pid_t pid) {
    if (pid == other && ++*reads == 3) steps->other.Notify();
  };
  Start();
  Open(keeper_);
  testing_support::Await(steps->kept, "the first process to be looked at");
  EXPECT_FALSE(processes_->StopReporting(absl::ZeroDuration())) << "one goes on";
  steps->go_on.Notify();
  EXPECT_TRUE(processes_->StopReporting(kLong));
  const auto looked = [&] {
    if (steps->other.HasBeenNotified()) return true;
    Open(other_);
    return false;
  };
  testing_support::Await(looked, "a whole look at the other process");
  EXPECT_EQ(Found(keeper_), 1);
  EXPECT_EQ(Found(other_), 0);
}

// Between open and mmap the program may wait for a slow file system or for a processor.
// Only its progress counts, not the time.
TEST_F(TranslatedProcessesTest, AProcessThatMapsLateIsFound) {
  const auto steps = std::make_shared<Steps>();
  const auto reads = std::make_shared<std::atomic<int>>(0);
  shared_->is_mapped = false;
  shared_->on_read = [reads](pid_t) { ++*reads; };
  shared_->on_found = [steps](pid_t) { NotifyOnce(&steps->other); };
  Start();
  Open(other_);
  testing_support::Await([&] { return *reads >= 2; }, "two looks at the process");
  absl::SleepFor(absl::Seconds(1));  // meanwhile nothing happens
  EXPECT_EQ(*reads, 2) << "nothing has changed";
  EXPECT_EQ(Found(other_), 0);
  shared_->is_mapped = true;
  shared_->cpu_ns = 1000;
  EXPECT_TRUE(steps->other.WaitForNotificationWithTimeout(absl::Seconds(20)));
}

// What is known of a process must not change the memory of a later one.
TEST_F(TranslatedProcessesTest, ALaterProcessWithTheIdIsJudgedAnew) {
  const auto reads = std::make_shared<std::atomic<int>>(0);
  shared_->is_mapped = false;
  shared_->on_read = [reads](pid_t) { ++*reads; };
  Start();
  Open(other_);
  testing_support::Await([&] { return *reads >= 2; }, "a look at the process");
  EXPECT_EQ(shared_->judged, 1);
  shared_->start_ticks = 8;
  shared_->cpu_ns = 1000;
  testing_support::Await([&] { return shared_->judged >= 2; }, "another judgement");
}

// A process that runs and maps nothing is not looked at for ever.
TEST_F(TranslatedProcessesTest, AProcessThatMapsNothingIsLeftAlone) {
  const auto reads = std::make_shared<std::atomic<int>>(0);
  shared_->is_mapped = false;
  shared_->on_read = [reads, shared = shared_.get()](pid_t) {
    ++*reads;
    shared->cpu_ns += 10'000'000'000;
  };
  Start();
  Open(other_);
  int before = -1;
  const auto left_alone = [&] {
    before = *reads;
    absl::SleepFor(absl::Milliseconds(300));  // nothing happens for a while
    return before >= 2 && before == *reads;
  };
  testing_support::Await(left_alone, "the last look at the process");
  EXPECT_EQ(Found(other_), 0);
}

TEST(ProcessCpuTest, IsKnownOnlyForAnExistingProcess) {
  const auto before = ProcessCpuNs(getpid());
  ASSERT_TRUE(before.has_value());
  const absl::Time begin = absl::Now();
  while (absl::Now() - begin < absl::Milliseconds(2)) {
  }
  const auto after = ProcessCpuNs(getpid());
  ASSERT_TRUE(after.has_value());
  EXPECT_GT(*after, *before);
  pid_t pid;
  {
    const Child child;
    pid = child.pid();
    EXPECT_TRUE(ProcessCpuNs(pid).has_value());
  }
  EXPECT_FALSE(ProcessCpuNs(pid).has_value());
}

TEST_F(TranslatedProcessesTest, LostOpensAreCountedAndAllProcessesLookedAt) {
  struct Both {
    absl::Notification keeper, other;
  };
  const auto both = std::make_shared<Both>();
  shared_->on_found = [both, keeper = keeper_.pid()](pid_t pid) {
    (pid == keeper ? both->keeper : both->other).Notify();
  };
  Start();
  Notify(FAN_Q_OVERFLOW, 0);
  testing_support::Await(both->keeper, "the first process to be found");
  testing_support::Await(both->other, "the other process to be found");
  EXPECT_EQ(processes_->counts().opens_lost, 1u);
  EXPECT_EQ(processes_->counts().left_out, 0u);
}

// Also a loss right after a look at all processes, when the next look has to wait.
TEST_F(TranslatedProcessesTest, EachLossIsAnswered) {
  struct Looks {
    absl::Notification first, second;
    std::atomic<int> count = 0;
  };
  const auto looks = std::make_shared<Looks>();
  shared_->on_list = [looks] {
    const int count = ++looks->count;
    if (count <= 2) (count == 1 ? looks->first : looks->second).Notify();
  };
  Start();
  Notify(FAN_Q_OVERFLOW, 0);
  testing_support::Await(looks->first, "the first look at all processes");
  Notify(FAN_Q_OVERFLOW, 0);
  testing_support::Await(looks->second, "the second look at all processes");
  EXPECT_EQ(processes_->counts().opens_lost, 2u);
}

}  // namespace
}  // namespace rocattach
