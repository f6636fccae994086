// Stack use of calls of the runtime, with the collector and without it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/integration/watch/running_fixture.h"

namespace rocattach::testing_support {
namespace {

constexpr const char* kCalls[] = {
    "hsa_init",
    "hsa_queue_create",
    "hsa_signal_store_screlease",
    "hsa_amd_memory_async_copy",
    "hsa_memory_copy",
    "hsa_queue_destroy",
    "load_kernels",
    "hsa_executable_destroy",
    "hsa_shut_down",
};

// Bytes for a hook around a function of the runtime: a return address, and registers
// that the hook saves.
constexpr int64_t kFrame = 64;
// Bytes for a hook that holds a record, or that captures.
constexpr int64_t kRecord = 320;
// Bytes for the doorbell's hook; natively the call needs next to none, others as many.
constexpr int64_t kCapture = 1024;

int64_t Allowed(const std::string& call) {
  if (call == "hsa_signal_store_screlease") return kCapture;
  return call == "hsa_init" || call == "hsa_shut_down" ? kFrame : kRecord;
}

// Binds functions when a library is loaded: binding a function at its first call needs
// more stack than most calls.
const std::vector<std::string> kBindNow = {"LD_BIND_NOW=1"};

Finished RunStack(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "hsa_stack");
  return Child(OnSimgpu(arguments), {.environment = kBindNow}).Wait();
}

void ExpectAsNatively(const Finished& watched, const Finished& native) {
  ASSERT_TRUE(native.exited_with(0)) << native.output << native.errors;
  ASSERT_TRUE(watched.exited_with(0)) << watched.output << watched.errors;
  for (const char* call : kCalls) {
    const int64_t needs = Reported(native.output, call);
    const int64_t with_us = Reported(watched.output, call);
    EXPECT_LE(with_us, needs + Allowed(call)) << call << " needs " << needs;
  }
}

class StackTest : public AttachRunningTest {};

TEST_F(StackTest, FromTheStart) {
  const Finished native = RunStack({});
  WatcherProcess watcher({"--auto"});
  ASSERT_TRUE(watcher.ready());
  const Finished watched = RunStack({});
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  ExpectAsNatively(watched, native);
  const RecordedProcess process =
      ReadRecording(watcher.recording()).Process("hsa_stack");
  EXPECT_EQ(static_cast<int64_t>(process.dispatches.size()),
            Reported(watched.output, "dispatches"));
  EXPECT_EQ(static_cast<int64_t>(process.copies.size()),
            Reported(watched.output, "copies"));
}

// The calls of a running process, the first of which arms the collector.
TEST_F(StackTest, AtALateCall) {
  std::filesystem::remove(Path("go"));
  std::ofstream(Path("go")).put('\n');
  const Finished native = RunStack({"--until", Path("go")});
  auto child = StartProgram({"hsa_stack"}, kBindNow);
  Attacher attach(Path("t.rwa"), {child->pid()});
  ASSERT_TRUE(attach.Attached());
  Change();
  const Finished watched = child->Wait();
  EXPECT_TRUE(attach.child().Wait().exited_with(0));
  ExpectAsNatively(watched, native);
  const Recording recording = ReadRecording(Path("t.rwa"));
  ASSERT_EQ(recording.processes.size(), 1u);
  EXPECT_EQ(static_cast<int64_t>(recording.processes[0].dispatches.size()),
            Reported(watched.output, "dispatches"));
}

// A signal stack that is just large enough natively.
TEST_F(StackTest, ASignalStackThatIsJustLargeEnough) {
  const auto run = [](int64_t bytes) {
    return RunStack({"-r", "1", "-b", std::to_string(bytes)});
  };
  int64_t least = 2048;
  while (least < 65536 && !run(least).exited_with(0)) least += 256;
  const Finished native = run(least);
  ASSERT_TRUE(native.exited_with(0)) << native.errors;
  WatcherProcess watcher({"--auto"});
  ASSERT_TRUE(watcher.ready());
  const Finished watched = run(least + kFrame);
  EXPECT_TRUE(watched.exited_with(0)) << least << watched.output << watched.errors;
  EXPECT_TRUE(watcher.Stop().exited_with(0));
}

}  // namespace
}  // namespace rocattach::testing_support
