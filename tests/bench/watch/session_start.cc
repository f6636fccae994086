// bench_session_start [STARTS]: sessions on one running process, each with other
// counters. Measures the time from the request to the service's answer, to the
// submission of the first counted dispatch, and from the stop request until all is in
// the recording. On the simulated GPU and SDK; prints name=value pairs, in ns.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "tests/integration/collector/sdk_run.h"
#include "tests/integration/watch/harness.h"
#include "userspace/base/clock.h"
#include "userspace/control/service_connection.h"

namespace rocattach::testing_support {
namespace {

using Stub = ServiceConnection::Stub;

struct Times {
  std::vector<uint64_t> answered, first, stopped;
  std::map<uint64_t, uint64_t> asked;  // times of the requests, by session
};

[[noreturn]] void Fail(const std::string& why) {
  fprintf(stderr, "bench_session_start: %s\n", why.c_str());
  exit(1);
}

// Waits until the process can be counted.
void WaitForTarget(ServiceConnection* client, pid_t pid) {
  for (int i = 0; i < 1000; ++i, usleep(10'000)) {
    const auto status = client->Call(&Stub::AsyncGetStatus, {});
    if (!status.ok()) Fail(std::string(status.status().message()));
    for (const v1::AttachedProcess& process : status->processes()) {
      if (static_cast<pid_t>(process.pid()) == pid && process.can_count()) return;
    }
  }
  Fail("the process never became one that can be counted");
}

void RunSessions(ServiceConnection* client, pid_t pid, int count, Times* times) {
  const std::vector<std::string> names = KnownCounters(60);
  for (int i = 0; i < count; ++i) {
    v1::SessionRequest request;
    request.add_processes()->set_pid(static_cast<uint32_t>(pid));
    v1::Filter* filter = request.add_filters();
    filter->set_kind(v1::FILTER_KIND_COUNTERS);
    filter->add_counters()->add_names(names[static_cast<size_t>(i) % names.size()]);
    const uint64_t asked = BootNs();
    const auto started = client->Call(&Stub::AsyncStart, request);
    if (!started.ok()) Fail(std::string(started.status().message()));
    times->answered.push_back(BootNs() - asked);
    times->asked[started->session()] = asked;
    usleep(5000);
    const uint64_t stop = BootNs();
    v1::SessionNumber number;
    number.set_session(started->session());
    const absl::Status stopped = client->Call(&Stub::AsyncStop, number).status();
    if (!stopped.ok()) Fail(std::string(stopped.message()));
    times->stopped.push_back(BootNs() - stop);
  }
}

// Finds in the recording when each session's first counted dispatch was submitted.
void FindFirst(const RecordedProcess& process, Times* times) {
  std::map<uint64_t, uint64_t> submitted, first;
  for (const rocattach_dispatch& d : process.dispatches) {
    submitted[d.correlation_id] = d.enqueue_ns;
  }
  for (const CounterRecord& value : process.counters) {
    const uint64_t at = submitted.at(value.operation);
    auto [entry, is_new] = first.try_emplace(value.session, at);
    if (!is_new) entry->second = std::min(entry->second, at);
  }
  for (const auto& [session, asked] : times->asked) {
    const auto found = first.find(session);
    if (found == first.end()) continue;
    times->first.push_back(found->second - std::min(found->second, asked));
  }
}

void Print(const char* name, std::vector<uint64_t> values) {
  std::sort(values.begin(), values.end());
  if (values.empty()) Fail(std::string("no values of ") + name);
  printf("%s_median=%llu %s_p99=%llu %s_max=%llu ", name,
         static_cast<unsigned long long>(values[values.size() / 2]), name,
         static_cast<unsigned long long>(
             values[std::min(values.size() - 1, values.size() * 99 / 100)]),
         name, static_cast<unsigned long long>(values.back()));
}

int Main(int argc, char** argv) {
  const int count = argc > 1 ? atoi(argv[1]) : 200;
  ExecutableDirectory directory;
  const std::string socket = directory.path() + "/control.sock";
  const std::string gate = directory.path() + "/gate";
  std::filesystem::create_directories(directory.path() + "/nodes/1");
  std::ofstream(directory.path() + "/nodes/1/properties") << "simd_count 416\n";
  WatcherProcess watcher({"--auto", "--kfd-topology", directory.path(), "--backend",
                          "sdk", "--no-recording", "--socket", socket});
  if (!watcher.ready()) Fail("rocattach-watch did not start");
  Child target({SimrocmRunPath(), SIMROCM_WORKLOAD, "until:" + gate});
  const pid_t pid = target.pid();
  ServiceConnection client(socket);
  WaitForTarget(&client, pid);
  Times times;
  RunSessions(&client, pid, count, &times);
  close(open(gate.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  const Finished result = target.Wait();
  if (!result.exited_with(0)) Fail("the target failed: " + result.errors);
  if (!watcher.Stop().exited_with(0)) Fail("rocattach-watch failed");
  const RecordedProcess process = ReadRecording(watcher.recording()).Process(pid);
  FindFirst(process, &times);
  Print("answered", times.answered);
  Print("first", times.first);
  Print("stopped", times.stopped);
  printf("starts=%d without_dispatch=%zu dropped=%llu\n", count,
         times.asked.size() - times.first.size(),
         static_cast<unsigned long long>(process.dropped() +
                                         process.account.counted_dropped()));
  return 0;
}

}  // namespace
}  // namespace rocattach::testing_support

int main(int argc, char** argv) {
  return rocattach::testing_support::Main(argc, argv);
}
