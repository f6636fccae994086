// Stack use of the BPF programs, as the running kernel's verifier counts it.
#include <bpf/libbpf.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "bpf/watch.skel.h"
#include "tests/integration/watch/harness.h"
#include "userspace/watch/windows/kernel_probe.h"

namespace rocattach::testing_support {
namespace {

// Since Linux 6.13 a function with a frame of at least this size gets a stack of its
// own for each processor, which another process's run overwrites when a program sleeps.
constexpr int kPrivateStackBytes = 64;

int RoundedUp(int frame) {
  return (frame + 15) / 16 * 16;
}

// Frame sizes from "stack depth 48+16+0", each rounded up to 16 bytes. Newer kernels
// write "stack depth max 112", and "subprog 0 … stack 48" for each function.
std::vector<int> Frames(const std::string& log) {
  std::vector<int> frames;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    const std::string mark =
        line.rfind("subprog ", 0) == 0 ? " stack " : "stack depth ";
    const size_t at = line.rfind(mark);
    if (at == std::string::npos) continue;
    std::istringstream text(line.substr(at + mark.size()));
    for (int depth; text >> depth; text.get()) frames.push_back(RoundedUp(depth));
  }
  return frames;
}

TEST(BpfFrames, AreSmallEnoughForTheKernelStack) {
  SKIP_WITHOUT_PRIVILEGES();
  auto probe = KernelProbe::Load({});
  ASSERT_TRUE(probe.ok()) << probe.status();
  watch_bpf* skeleton = watch_bpf__open();
  ASSERT_NE(skeleton, nullptr);
  skeleton->rodata->read_layouts = (*probe)->describes_processes();
  std::vector<std::vector<char>> logs;
  bpf_program* program;
  bpf_object__for_each_program(program, skeleton->obj) {
    logs.emplace_back(1 << 16);
    constexpr unsigned kStatistics = 4;  // BPF_LOG_STATS
    ASSERT_EQ(bpf_program__set_log_level(program, kStatistics), 0);
    ASSERT_EQ(bpf_program__set_log_buf(program, logs.back().data(), logs.back().size()),
              0);
  }
  ASSERT_EQ(watch_bpf__load(skeleton), 0);
  size_t number = 0;
  bpf_object__for_each_program(program, skeleton->obj) {
    const std::string log = logs[number++].data();
    const std::vector<int> frames = Frames(log);
    ASSERT_FALSE(frames.empty()) << bpf_program__name(program) << ": " << log;
    for (int frame : frames) {
      EXPECT_LT(frame, kPrivateStackBytes) << bpf_program__name(program) << ": " << log;
    }
  }
  EXPECT_EQ(number, 9u);
  watch_bpf__destroy(skeleton);
}

}  // namespace
}  // namespace rocattach::testing_support
