#include "tests/integration/hostile/hostile_harness.h"

#include <dirent.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "tests/places.h"
#include "userspace/base/clock.h"

namespace rocattach::testing_support {
namespace {

int CountEntries(const std::string& directory) {
  DIR* open = opendir(directory.c_str());
  if (open == nullptr) return 0;
  int count = 0;
  while (const dirent* entry = readdir(open)) count += entry->d_name[0] != '.';
  closedir(open);
  return count;
}

std::vector<std::string> NeighbourCommand(uint64_t dispatches,
                                          std::vector<std::string> extra) {
  std::vector<std::string> words = {"hsa_dispatch", "-n", std::to_string(dispatches)};
  words.insert(words.end(), extra.begin(), extra.end());
  return OnSimgpu(std::move(words));
}

std::vector<std::string> AdversaryCommand(const std::string& program,
                                          std::vector<std::string> arguments) {
  std::vector<std::string> words = {HostileProgram(program)};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return OnSimgpu(std::move(words));
}

}  // namespace

ProcessUse MeasureProcess(pid_t pid) {
  const std::string directory = "/proc/" + std::to_string(pid);
  ProcessUse use;
  std::ifstream status(directory + "/status");
  for (std::string line; std::getline(status, line);) {
    std::istringstream fields(line);
    std::string name;
    uint64_t value = 0;
    fields >> name >> value;
    if (name == "VmRSS:") use.rss_bytes = value << 10;
    if (name == "VmHWM:") use.peak_rss_bytes = value << 10;
    if (name == "Threads:") use.threads = static_cast<int>(value);
  }
  std::ifstream stat(directory + "/stat");
  std::string text;
  std::getline(stat, text);
  // The name, in parentheses, is the second field; utime and stime are the 14th and
  // 15th.
  std::istringstream fields(text.substr(text.rfind(')') + 1));
  std::string field;
  uint64_t ticks = 0;
  for (int i = 3; i <= 15 && fields >> field; ++i) {
    if (i >= 14) ticks += std::strtoull(field.c_str(), nullptr, 10);
  }
  use.cpu_ns = ticks * ClockTickNs();
  use.descriptors = CountEntries(directory + "/fd");
  return use;
}

std::string HostileProgram(const std::string& name) {
  return std::string(ROCATTACH_TEST_HOSTILE_PROGRAMS) + "/" + name;
}

std::string EmptyRuntime() {
  return ReachableByEverybody({ROCATTACH_TEST_EMPTY_RUNTIME}, ROCATTACH_TEST_BUILD,
                              {"tests/integration/hostile/lib"})
      .front();
}

LiveService::LiveService(std::vector<std::string> arguments)
    : watcher_(std::make_unique<WatcherProcess>(std::move(arguments))),
      at_start_(MeasureProcess(watcher_->pid())) {}

bool LiveService::alive() const {
  // A zombie has no memory.
  return use().rss_bytes > 0;
}

void LiveService::ExpectHealthy(int spare_descriptors) const {
  const ProcessUse now = use();
  ASSERT_GT(now.rss_bytes, 0u) << "the service has ended";
  EXPECT_LE(now.peak_rss_bytes, kMaxServiceRss)
      << "at the start it had " << at_start_.rss_bytes << ", now " << now.rss_bytes;
  EXPECT_LE(now.descriptors, at_start_.descriptors + spare_descriptors);
}

Recording LiveService::Stop() {
  const Finished finished = watcher_->Stop();
  EXPECT_TRUE(finished.exited_with(0)) << "status " << finished.status << "\n"
                                       << finished.errors;
  return ReadRecording(watcher_->recording());
}

Neighbour::Neighbour(uint64_t dispatches, std::vector<std::string> extra,
                     std::vector<std::string> environment)
    : dispatches_(dispatches),
      child_(NeighbourCommand(dispatches, std::move(extra)),
             {.environment = std::move(environment), .uid = kHonestUid}) {}

void Neighbour::Finish() {
  const Finished finished = child_.Wait();
  EXPECT_TRUE(finished.exited_with(0)) << "status " << finished.status << "\n"
                                       << finished.errors;
  EXPECT_EQ(finished.errors, "");
  EXPECT_EQ(Reported(finished.output, "dispatches"), static_cast<int64_t>(dispatches_));
  EXPECT_NE(finished.output.find("result=ok"), std::string::npos) << finished.output;
}

void Neighbour::ExpectComplete(const Recording& recording) const {
  const RecordedProcess process = recording.Process(child_.pid());
  EXPECT_EQ(process.verdict.state(), v1::WINDOW_STATE_ATTACHED)
      << process.verdict.detail();
  EXPECT_EQ(process.dispatches.size(), dispatches_);
  EXPECT_EQ(process.account.dispatches_seen(), dispatches_);
  EXPECT_EQ(process.dropped(), 0u) << process.account.DebugString();
}

Adversary::Adversary(const std::string& program, std::vector<std::string> arguments,
                     std::vector<std::string> environment)
    : child_(AdversaryCommand(program, std::move(arguments)),
             {.environment = std::move(environment), .uid = kAdversaryUid}) {}

bool Adversary::Says(const std::string& word) {
  return Eventually(
      [&] { return child_.PollOutput().find(word) != std::string::npos; });
}

}  // namespace rocattach::testing_support
