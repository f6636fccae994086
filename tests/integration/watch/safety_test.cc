// Processes that are out of the ordinary. Each is compared with a run without a
// service: it prints the same and ends in the same way, and if it could not be attached
// to, its verdict says why.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "injector/elf/function_offset.h"
#include "injector/elf/probe_instruction.h"
#include "tests/integration/watch/harness.h"
#include "userspace/base/file.h"
#include "userspace/watch/windows/kernel_probe.h"

namespace rocattach::testing_support {
namespace {

constexpr char kRuntime[] = "/usr/lib/x86_64-linux-gnu/libhsa-runtime64.so.1";

class SafetyTest : public testing::Test {
 protected:
  void SetUp() override { SKIP_WITHOUT_PRIVILEGES(); }
};

Finished RunToEnd(const std::vector<std::string>& command) {
  return Child(command).Wait();
}

// The output without the rate, the only word that differs from run to run.
std::string WithoutRate(std::string output) {
  for (size_t at = output.find("rate="); at != std::string::npos;
       at = output.find("rate=", at)) {
    output.erase(at, output.find(' ', at) - at);
  }
  return output;
}

void ExpectSame(const Finished& watched, const Finished& native) {
  EXPECT_EQ(watched.status, native.status) << watched.output << watched.errors;
  EXPECT_EQ(WithoutRate(watched.output), WithoutRate(native.output));
  EXPECT_EQ(watched.errors, native.errors);
}

std::vector<std::string> WithLimit(const std::string& limit,
                                   std::vector<std::string> target) {
  // One arena only: the number of arenas that malloc(3) reserves, each with 64 MiB of
  // address space, depends on which threads happen to allocate at the same time. So
  // even natively the program sometimes fails (2 of 40 runs on a busy machine) with a
  // limit that was sufficient in an earlier run.
  std::vector<std::string> words = {"env", "MALLOC_ARENA_MAX=1", "prlimit", limit};
  for (std::string& word : OnSimgpu(std::move(target)))
    words.push_back(std::move(word));
  return words;
}

struct LimitCase {
  const char* name;
  const char* option;  // of prlimit(1)
  // Tried in this order; the first with which the program succeeds natively is used.
  std::vector<uint64_t> values;
  bool always_refused;
};

class LimitTest : public SafetyTest, public testing::WithParamInterface<LimitCase> {};

// A limit that does not affect the program, but would affect the collector.
TEST_P(LimitTest, IsCheckedBeforeItStrikes) {
  if (IsSkipped() || HasFatalFailure()) return;
  const LimitCase& test = GetParam();
  const std::vector<std::string> target = {"hsa_dispatch", "-n", "10"};
  std::vector<std::string> command;
  Finished native;
  for (uint64_t value : test.values) {
    const std::string text = std::to_string(value);
    command = WithLimit(std::string(test.option) + "=" + text + ":" + text, target);
    native = RunToEnd(command);
    if (native.exited_with(0)) break;
  }
  ASSERT_TRUE(native.exited_with(0)) << native.output << native.errors;
  WatcherProcess watcher({"--auto"});
  ASSERT_TRUE(watcher.ready());
  const Finished watched = RunToEnd(command);
  ExpectSame(watched, native);
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  const RecordedProcess process =
      ReadRecording(watcher.recording()).Process("hsa_dispatch");
  if (test.always_refused || process.verdict.state() != v1::WINDOW_STATE_ATTACHED) {
    EXPECT_EQ(process.verdict.state(), v1::WINDOW_STATE_REFUSED);
    EXPECT_EQ(process.verdict.reason(), v1::ATTACH_REASON_RESOURCE_LIMIT)
        << process.verdict.detail();
    EXPECT_FALSE(process.verdict.target_modified());
  } else {
    EXPECT_EQ(process.dispatches.size(), 10u);
  }
}

std::vector<uint64_t> Range(uint64_t first, uint64_t step, int count) {
  std::vector<uint64_t> values;
  for (int i = 0; i < count; ++i)
    values.push_back(first + step * static_cast<uint64_t>(i));
  return values;
}

INSTANTIATE_TEST_SUITE_P(
    Limits, LimitTest,
    // libhsakmt itself writes small files.
    testing::Values(LimitCase{"FileSize64K", "--fsize", {64 << 10}, true},
                    LimitCase{"FileSize100M", "--fsize", {100 << 20}, true},
                    LimitCase{"FileSize1G", "--fsize", {1 << 30}, false},
                    LimitCase{"AddressSpace", "--as",
                              Range(uint64_t{4} << 30, uint64_t{64} << 20, 128), false},
                    LimitCase{"Data", "--data",
                              Range(uint64_t{4} << 30, uint64_t{64} << 20, 128), false},
                    LimitCase{"OpenFiles", "--nofile", Range(3, 1, 64), false},
                    LimitCase{"LockedMemory", "--memlock", {0}, false},
                    LimitCase{"PendingSignals", "--sigpending", {0}, false},
                    LimitCase{"Stack", "--stack", {8 << 20}, false}),
    [](const auto& test) { return std::string(test.param.name); });

// Runs a program with one process natively and with the service, expects the same
// result, and returns the recorded process.
RecordedProcess RecordOne(const char* hold, const std::vector<std::string>& command) {
  const Finished native = RunToEnd(command);
  EXPECT_TRUE(native.exited_with(0)) << native.output << native.errors;
  WatcherProcess watcher({"--auto", "--hold", hold});
  EXPECT_TRUE(watcher.ready());
  ExpectSame(RunToEnd(command), native);
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  const Recording recording = ReadRecording(watcher.recording());
  EXPECT_EQ(recording.processes.size(), 1u);
  return recording.processes.empty() ? RecordedProcess() : recording.processes[0];
}

// Under the ID of such a process, /proc no longer shows anything of its memory.
TEST_F(SafetyTest, RecordsAProcessAfterItsFirstThreadHasExited) {
  const std::vector<std::string> command = OnSimgpu({"hsa_leader_exits"});
  for (const char* hold : {"yielding", "signal"}) {
    const RecordedProcess process = RecordOne(hold, command);
    // In hold mode `signal`, the process may be too fast to be seized.
    if (process.verdict.state() == v1::WINDOW_STATE_MISSED) {
      EXPECT_STREQ(hold, "signal") << process.verdict.detail();
      continue;
    }
    EXPECT_EQ(process.verdict.state(), v1::WINDOW_STATE_ATTACHED)
        << process.verdict.detail();
    EXPECT_EQ(process.dispatches.size(), 10u);
    EXPECT_NE(process.process.executable(), "");
  }
}

struct ShareCase {
  const char* name;
  const char* step_msec;
};

class SharedMemoryTest : public SafetyTest,
                         public testing::WithParamInterface<ShareCase> {};

// One of the processes is attached to, the others are refused, and all run on.
TEST_P(SharedMemoryTest, OneProcessIsAttached) {
  if (IsSkipped() || HasFatalFailure()) return;
  const std::vector<std::string> command =
      OnSimgpu({"hsa_shared_memory", "-p", "3", "-s", GetParam().step_msec});
  const Finished native = RunToEnd(command);
  ASSERT_TRUE(native.exited_with(0)) << native.output << native.errors;
  const char* scale = getenv("ROCATTACH_STRESS");
  const int rounds = std::max(1, static_cast<int>(scale ? 10 * atof(scale) : 10));
  WatcherProcess watcher({"--auto"});
  ASSERT_TRUE(watcher.ready());
  for (int i = 0; i < rounds; ++i) {
    ExpectSame(RunToEnd(command), native);
    if (HasFailure()) break;
  }
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  const Recording recording = ReadRecording(watcher.recording());
  int attached = 0, refused = 0;
  for (const RecordedProcess& process : recording.processes) {
    if (process.verdict.state() == v1::WINDOW_STATE_ATTACHED) {
      ++attached;
      continue;
    }
    EXPECT_EQ(process.verdict.state(), v1::WINDOW_STATE_REFUSED)
        << process.verdict.detail();
    // A process made by a bare clone() is not a thread of the C library, either.
    EXPECT_THAT(process.verdict.reason(),
                testing::AnyOf(v1::ATTACH_REASON_SHARED_MEMORY,
                               v1::ATTACH_REASON_FOREIGN_THREAD))
        << process.verdict.detail();
    EXPECT_FALSE(process.verdict.target_modified());
    ++refused;
  }
  EXPECT_EQ(attached + refused, 3 * rounds);
  if (std::string(GetParam().step_msec) == "0") {
    // If a process made by a bare clone() comes first, none can be attached to.
    EXPECT_LE(attached, rounds);
  } else {
    EXPECT_EQ(attached, rounds);
  }
}

INSTANTIATE_TEST_SUITE_P(Starts, SharedMemoryTest,
                         testing::Values(ShareCase{"AtTheSameInstant", "0"},
                                         ShareCase{"AfterEachOther", "30"}),
                         [](const auto& test) { return std::string(test.param.name); });

// The child runs in its parent's memory, where any change would remain.
TEST_F(SafetyTest, TheChildOfAVforkIsLeftAlone) {
  const std::vector<std::string> command = OnSimgpu({"hsa_vfork_child"});
  for (const char* hold : {"yielding", "signal"}) {
    const v1::WindowEvent verdict = RecordOne(hold, command).verdict;
    EXPECT_EQ(verdict.state(), v1::WINDOW_STATE_REFUSED);
    EXPECT_EQ(verdict.reason(), v1::ATTACH_REASON_SHARED_MEMORY) << verdict.detail();
    EXPECT_NE(verdict.detail().find("vfork"), std::string::npos) << verdict.detail();
    EXPECT_FALSE(verdict.target_modified());
  }
}

// A copy of the runtime whose hsa_init begins with these bytes.
class CraftedRuntime {
 public:
  explicit CraftedRuntime(const std::vector<uint8_t>& code)
      : path_(directory_.path() + "/libhsa-runtime64.so.1") {
    std::filesystem::copy_file(std::filesystem::canonical(kRuntime), path_);
    std::filesystem::permissions(path_, std::filesystem::perms::owner_all);
    auto fd = OpenFile(path_, O_RDWR);
    if (!fd.ok()) return;
    auto offset = FindFunctionFileOffset(fd->get(), "hsa_init");
    if (!offset.ok()) return;
    offset_ = *offset;
    ok_ = pwrite(fd->get(), code.data(), code.size(), static_cast<off_t>(offset_)) ==
          static_cast<ssize_t>(code.size());
  }
  bool ok() const { return ok_; }
  const std::string& path() const { return path_; }
  uint64_t offset() const { return offset_; }

 private:
  ExecutableDirectory directory_;
  std::string path_;
  uint64_t offset_ = 0;
  bool ok_ = false;
};

TEST_F(SafetyTest, AnInstructionThatCannotCarryAProbeIsNamed) {
  if (access(kRuntime, R_OK) != 0) GTEST_SKIP() << "needs " << kRuntime;
  CraftedRuntime syscall({0x0f, 0x05}), lock({0xf0, 0x83, 0x00, 0x01});
  ASSERT_TRUE(syscall.ok() && lock.ok());
  ExecutableDirectory output;
  const Finished result =
      RunToEnd({WatcherPath(), "--library", syscall.path(), "--library", lock.path(),
                "-d", output.path(), "--duration-msec", "50"});
  EXPECT_TRUE(result.exited_with(0)) << result.errors;
  for (const auto& [path, name] : {std::pair(syscall.path(), "syscall"),
                                   std::pair(lock.path(), "a lock prefix")}) {
    const size_t at = result.errors.find("skipped " + path);
    ASSERT_NE(at, std::string::npos) << result.errors;
    const std::string line =
        result.errors.substr(at, result.errors.find('\n', at) - at);
    EXPECT_NE(line.find(name), std::string::npos) << line;
  }
}

// Which instructions the kernel refuses is known in advance. It checks an instruction
// only if a process has it mapped, as this one does. Of those that begin with 0x0f,
// newer kernels accept more than can be executed out of place with the same effect.
TEST_F(SafetyTest, TheKernelAgreesAboutInstructions) {
  if (access(kRuntime, R_OK) != 0) GTEST_SKIP() << "needs " << kRuntime;
  const std::vector<uint8_t> codes[] = {
      {0x55},
      {0xf3, 0x0f, 0x1e, 0xfa},
      {0x48, 0x83, 0xec, 0x18},
      {0x0f, 0x1f, 0x44, 0, 0},
      {0x8e, 0xd8},
      {0x0f, 0x05},
      {0x0f, 0x0b},
      {0x0f, 0x34},
      {0xf0, 0x83, 0x00, 0x01},
      {0x66, 0xf0, 0xff, 0x00},
      {0x2e, 0x55},
      {0x3e, 0xff, 0xe0},
      {0xcc},
      {0xcd, 0x80},
      {0xf4},
      {0xfa},
      {0xec},
      {0x6c},
      {0x8e, 0xd0},
      {0x66, 0xe8, 1, 2},
      {0x06},
      {0xd6},
      {0xcf},
  };
  auto probe = KernelProbe::Load({});
  ASSERT_TRUE(probe.ok()) << probe.status();
  for (const std::vector<uint8_t>& code : codes) {
    std::vector<uint8_t> whole = code;
    whole.resize(16, 0x90);
    CraftedRuntime runtime(whole);
    ASSERT_TRUE(runtime.ok());
    auto fd = OpenFile(runtime.path(), O_RDONLY);
    ASSERT_TRUE(fd.ok());
    const uint64_t page = runtime.offset() & ~uint64_t{4095};
    void* mapped = mmap(nullptr, 8192, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd->get(),
                        static_cast<off_t>(page));
    ASSERT_NE(mapped, MAP_FAILED);
    const absl::Status added =
        (*probe)->AddLibrary(runtime.path(), runtime.offset(), 1);
    const std::string refused = RefusedByUprobes(whole);
    const bool two_bytes = code[0] == 0x0f;
    EXPECT_TRUE(added.ok() == refused.empty() || (two_bytes && !refused.empty()))
        << added << ", and we say: " << refused << " of " << std::hex << int{code[0]};
    munmap(mapped, 8192);
  }
}

}  // namespace
}  // namespace rocattach::testing_support
