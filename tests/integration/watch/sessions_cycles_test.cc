// A thousand sessions on one running process, over the control socket.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "tests/integration/collector/sdk_run.h"
#include "tests/integration/watch/session_truth.h"
#include "tests/integration/watch/sessions_fixture.h"
#include "userspace/base/clock.h"
#include "userspace/control/service_connection.h"

namespace rocattach::testing_support {
namespace {

constexpr int kCycles = 1000;
constexpr int kWarm = 200;  // cycles after which nothing may grow

struct Footprint {
  size_t anonymous_kb = 0, descriptors = 0, threads = 0;
};

size_t FieldOf(const std::string& status, const std::string& name) {
  const size_t at = status.find(name);
  return at == std::string::npos ? 0 : std::stoul(status.substr(at + name.size()));
}

Footprint MeasureOnce(pid_t pid) {
  const std::string folder = absl::StrCat("/proc/", pid);
  std::stringstream status;
  status << std::ifstream(folder + "/status").rdbuf();
  Footprint now;
  now.anonymous_kb = FieldOf(status.str(), "RssAnon:");
  now.threads = FieldOf(status.str(), "Threads:");
  for (const auto& entry : std::filesystem::directory_iterator(folder + "/fd")) {
    (void)entry;
    ++now.descriptors;
  }
  return now;
}

// The minimum over several measurements, because some files are open only briefly.
Footprint Measure(pid_t pid) {
  Footprint least = MeasureOnce(pid);
  for (int i = 0; i < 30; ++i) {
    usleep(3000);
    const Footprint now = MeasureOnce(pid);
    least.anonymous_kb = std::min(least.anonymous_kb, now.anonymous_kb);
    least.threads = std::min(least.threads, now.threads);
    least.descriptors = std::min(least.descriptors, now.descriptors);
  }
  return least;
}

// Follows the simulator's log.
class CountedDispatches {
 public:
  explicit CountedDispatches(const std::string& path) : path_(path) {}
  // Waits for a counted dispatch that began after that time: dispatches that were in
  // flight before may appear in the log at any time.
  bool WaitForOne(uint64_t since_ns) {
    for (int i = 0; i < 5000; ++i) {
      if (!file_.is_open()) file_.open(path_);
      file_.clear();
      for (std::string line; std::getline(file_, line);) {
        const std::optional<SimulatedDispatch> seen = ParseDispatch(line);
        if (seen.has_value() && seen->counted && seen->start_ns > since_ns) return true;
      }
      usleep(1000);
    }
    return false;
  }

 private:
  std::string path_;
  std::ifstream file_;
};

class SessionsCyclesTest : public SessionsTest {
 protected:
  std::string Gate() const { return directory_.path() + "/gate"; }
  std::string Log() const { return directory_.path() + "/dispatches"; }

  // Connects, and waits until the process can be counted.
  std::unique_ptr<ServiceConnection> Connect(pid_t pid) {
    auto client = std::make_unique<ServiceConnection>(Socket());
    for (int i = 0; i < 1000; ++i) {
      const auto status = client->Call(&ServiceConnection::Stub::AsyncGetStatus, {});
      EXPECT_TRUE(status.ok()) << status.status();
      if (!status.ok()) return nullptr;
      for (const v1::AttachedProcess& process : status->processes()) {
        if (static_cast<pid_t>(process.pid()) == pid && process.can_count()) {
          return client;
        }
      }
      usleep(10'000);
    }
    ADD_FAILURE() << "the process never became one that can be counted";
    return nullptr;
  }

  // Starts and stops the sessions, each with other counters, and measures meanwhile.
  void RunCycles(ServiceConnection* client, pid_t target, pid_t service) {
    const std::vector<std::string> names = KnownCounters(60);
    CountedDispatches counted(Log());
    for (int cycle = 0; cycle < kCycles; ++cycle) {
      v1::SessionRequest request;
      request.add_processes()->set_pid(static_cast<uint32_t>(target));
      v1::Filter* filter = request.add_filters();
      filter->set_kind(v1::FILTER_KIND_COUNTERS);
      v1::CounterGroup* group = filter->add_counters();
      std::set<std::string> some;
      for (int i = 0; i < 1 + cycle % 7; ++i) {
        const std::string& name = names[static_cast<size_t>(cycle * 5 + i * 7) % 60];
        group->add_names(name);
        some.insert(name);
      }
      const auto started = client->Call(&ServiceConnection::Stub::AsyncStart, request);
      ASSERT_TRUE(started.ok()) << cycle << ": " << started.status();
      EXPECT_THAT(started->status().pids(), testing::ElementsAre(target));
      wanted_[started->session()] = some;
      ASSERT_TRUE(counted.WaitForOne(BootNs())) << cycle;
      v1::SessionNumber number;
      number.set_session(started->session());
      const absl::Status stopped =
          client->Call(&ServiceConnection::Stub::AsyncStop, number).status();
      ASSERT_TRUE(stopped.ok()) << cycle << ": " << stopped;
      if (cycle == kWarm) early_ = {Measure(target), Measure(service)};
    }
    late_ = {Measure(target), Measure(service)};
  }

  void ExpectNobodyHasGrown() const {
    RecordProperty("target_kb", absl::StrCat(early_.target.anonymous_kb, " to ",
                                             late_.target.anonymous_kb));
    RecordProperty("service_kb", absl::StrCat(early_.service.anonymous_kb, " to ",
                                              late_.service.anonymous_kb));
    ASSERT_GT(early_.service.anonymous_kb, 0u);
    EXPECT_EQ(late_.target.descriptors, early_.target.descriptors);
    EXPECT_EQ(late_.service.descriptors, early_.service.descriptors);
    EXPECT_LE(late_.service.threads, early_.service.threads + 2)
        << "gRPC's come and go";
    EXPECT_LE(late_.target.anonymous_kb, early_.target.anonymous_kb + 1024);
    // 800 sessions, all of which the service still lists, take some 2,500 kB; the size
    // of the heap differs from run to run.
    EXPECT_LE(late_.service.anonymous_kb, early_.service.anonymous_kb + 8192);
  }

  // Each session has its own counters, and no others.
  void ExpectOwnCounters(const RecordedProcess& process) {
    std::map<uint64_t, std::set<std::string>> got;
    for (const CounterRecord& value : process.counters) {
      got[value.session].insert(
          process.plans.at(value.plan).counters(static_cast<int>(value.counter)));
    }
    EXPECT_EQ(got.size(), wanted_.size());
    for (const auto& [session, some] : got) {
      ASSERT_TRUE(wanted_.contains(session)) << session;
      const std::set<std::string>& all = wanted_[session];
      EXPECT_TRUE(std::includes(all.begin(), all.end(), some.begin(), some.end()));
    }
  }

  struct Both {
    Footprint target, service;
  };
  Both early_, late_;
  std::map<uint64_t, std::set<std::string>> wanted_;  // by session
};

TEST_F(SessionsCyclesTest, AThousandSessionsLeaveNothingBehindAndMissNothing) {
  WatcherProcess watcher(Watch({"--backend", "sdk", "--socket", Socket()}));
  ASSERT_TRUE(watcher.ready());
  Child target(OnSimrocm({"--dispatch-log", Log()},
                         {SIMROCM_WORKLOAD, "-t", "2", "until:" + Gate()}));
  const pid_t pid = target.pid();
  const std::unique_ptr<ServiceConnection> client = Connect(pid);
  ASSERT_NE(client, nullptr);
  RunCycles(client.get(), pid, watcher.pid());
  close(open(Gate().c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  const Finished result = target.Wait();
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  ASSERT_FALSE(HasFailure());
  ExpectNobodyHasGrown();
  // The target was not affected.
  EXPECT_TRUE(result.exited_with(0));
  EXPECT_EQ(result.errors, "");
  EXPECT_THAT(result.output, testing::HasSubstr("result=ok"));

  const RecordedProcess process = ReadRecording(watcher.recording()).Process(pid);
  EXPECT_EQ(process.dropped(), 0u);
  EXPECT_EQ(process.account.counted_dropped(), 0u);
  EXPECT_EQ(process.sessions.size(), size_t{2 * kCycles});
  // Nothing is missing, inside or outside of sessions.
  const auto made = static_cast<size_t>(Reported(result.output, "dispatches"));
  EXPECT_EQ(process.dispatches.size(), made);
  const std::vector<SimulatedDispatch> log = ReadDispatchLog(Log());
  EXPECT_EQ(log.size(), made);
  const Compared compared = ExpectTruth(process, log, /*all=*/true);
  EXPECT_LT(compared.counted.size(), made);
  ExpectOwnCounters(process);
}

}  // namespace
}  // namespace rocattach::testing_support
