#include "tests/integration/watch/harness.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "tests/integration/watch/hang_report.h"
#include "tests/integration/watch/isolation.h"
#include "tests/places.h"
#include "userspace/base/file.h"
#include "userspace/stream/decoder.h"
#include "userspace/stream/reader.h"

namespace rocattach::testing_support {

namespace {

// CapEff in /proc/self/status of this process.
uint64_t EffectiveCapabilities() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("CapEff:", 0) == 0) {
      return strtoull(line.c_str() + strlen("CapEff:"), nullptr, 16);
    }
  }
  return 0;
}

}  // namespace

// Each test case is a process of its own, so this must be cheap: loading the real BPF
// programs takes as long as some tests. If they do not load after all, the tests fail.
std::string MissingPrivileges() {
  if (geteuid() != 0) return "needs root (eBPF and ptrace)";
  const uint64_t effective = EffectiveCapabilities();
  if ((effective >> CAP_SYS_ADMIN & 1) == 0) return "needs CAP_SYS_ADMIN (eBPF)";
  if ((effective >> CAP_SYS_PTRACE & 1) == 0) return "needs CAP_SYS_PTRACE";
  if (access("/sys/kernel/btf/vmlinux", R_OK) != 0) return "needs a kernel with BTF";
  if (access("/sys/bus/event_source/devices/uprobe/type", R_OK) != 0) {
    return "needs a kernel with uprobes";
  }
  // Loads a program of two instructions.
  if (libbpf_probe_bpf_prog_type(BPF_PROG_TYPE_KPROBE, nullptr) != 1) {
    return "BPF programs cannot be loaded";
  }
  Isolation::Enter();
  return "";
}

std::string WatcherPath() {
  return ROCATTACH_TEST_WATCHER;
}
std::string CollectorPath() {
  return ReachableByEverybody({ROCATTACH_TEST_COLLECTOR}, ROCATTACH_TEST_BUILD, {})
      .front();
}
std::string SimgpuRunPath() {
  return ROCATTACH_TEST_SIMGPU_RUN;
}
std::string ClientPath() {
  return ROCATTACH_TEST_CLIENT;
}
std::string SimrocmRunPath() {
  return ROCATTACH_TEST_SIMROCM_RUN;
}
std::string TargetPath(const std::string& name) {
  return std::string(ROCATTACH_TEST_TARGETS) + "/" + name;
}

bool Finished::exited_with(int code) const {
  return WIFEXITED(status) && WEXITSTATUS(status) == code;
}

Child::Child(const std::vector<std::string>& given, Options options) {
  const std::vector<std::string> argv =
      options.uid == 0 ? given
                       : ReachableByEverybody(given, ROCATTACH_TEST_BUILD,
                                              {"tests/simgpu/lib", "tests/targets",
                                               "tests/integration/hostile/lib"});
  int output[2], errors[2];
  if (pipe2(output, O_CLOEXEC) != 0 || pipe2(errors, O_CLOEXEC) != 0) abort();
  std::vector<char*> words;
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  pid_ = fork();
  if (pid_ == 0) {
    if (options.new_session) setsid();
    if (options.dies_with_us) prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(output[1], 1);
    dup2(errors[1], 2);
    for (const std::string& entry : options.environment) {
      putenv(const_cast<char*>(entry.c_str()));
    }
    if (options.uid != 0 && (setgroups(0, nullptr) != 0 || setgid(options.uid) != 0 ||
                             setuid(options.uid) != 0)) {
      _exit(126);
    }
    execvp(words[0], words.data());
    _exit(127);
  }
  output_fd_.reset(output[0]);
  errors_fd_.reset(errors[0]);
  close(output[1]);
  close(errors[1]);
}

Child::~Child() {
  if (waited_ || pid_ < 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void Child::Signal(int number) const {
  kill(pid_, number);
}

namespace {

// Appends what can be read to `to`; false at the end of the file.
bool ReadSome(int fd, std::string* to) {
  char chunk[65536];
  ssize_t n = read(fd, chunk, sizeof(chunk));
  if (n > 0) to->append(chunk, static_cast<size_t>(n));
  return n > 0 || (n < 0 && errno == EINTR);
}

}  // namespace

const std::string& Child::PollOutput() {
  pollfd fds[2] = {{output_fd_.get(), POLLIN, 0}, {errors_fd_.get(), POLLIN, 0}};
  while (poll(fds, 2, 0) > 0) {
    bool more = false;
    if (fds[0].revents & POLLIN) more |= ReadSome(output_fd_.get(), &finished_.output);
    if (fds[1].revents & POLLIN) more |= ReadSome(errors_fd_.get(), &finished_.errors);
    if (!more) break;
  }
  return finished_.output;
}

Finished Child::Wait() {
  pollfd fds[2] = {{output_fd_.get(), POLLIN, 0}, {errors_fd_.get(), POLLIN, 0}};
  std::string* texts[2] = {&finished_.output, &finished_.errors};
  bool reported = false;
  while (fds[0].fd >= 0 || fds[1].fd >= 0) {
    if (poll(fds, 2, reported ? -1 : kHangMsec) == 0) {
      reported = true;
      ReportHang();
    }
    for (int i = 0; i < 2; ++i) {
      if (fds[i].fd >= 0 && fds[i].revents != 0 && !ReadSome(fds[i].fd, texts[i])) {
        fds[i].fd = -1;
      }
    }
  }
  AwaitEnd(pid_, &reported);
  waitpid(pid_, &finished_.status, 0);
  waited_ = true;
  return finished_;
}

std::vector<std::string> OnSimgpu(std::vector<std::string> words) {
  if (words[0].find('/') == std::string::npos &&
      access(TargetPath(words[0]).c_str(), X_OK) == 0) {
    words[0] = TargetPath(words[0]);
  }
  words.insert(words.begin(), SimgpuRunPath());
  return words;
}

Finished RunTarget(std::vector<std::string> words) {
  return Child(OnSimgpu(std::move(words))).Wait();
}

bool Eventually(const std::function<bool()>& is_true) {
  // Two minutes: one second here can be half a minute on an emulated machine.
  for (int i = 0; i < 12'000; ++i) {
    if (is_true()) return true;
    usleep(10'000);
  }
  return false;
}

bool EventuallyHeld(pid_t pid) {
  // In the kernel without interruption: a program that is starting runs its own code in
  // between, even on an emulated machine, where that takes half a second.
  const unsigned long long enough =
      static_cast<unsigned long long>(sysconf(_SC_CLK_TCK)) / 5;
  unsigned long long last_user = 0, system_before = 0;
  return Eventually([&] {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string text;
    std::getline(file, text);
    // The name, in parentheses, is the second field, utime the 14th, stime the 15th.
    std::istringstream fields(text.substr(text.rfind(')') + 1));
    std::string field;
    for (int i = 3; i < 14; ++i) fields >> field;
    unsigned long long user = 0, system = 0;
    if (!(fields >> user >> system)) return false;
    if (user != last_user) {
      last_user = user;
      system_before = system;
    }
    return system >= system_before + enough;
  });
}

WatcherProcess::WatcherProcess(std::vector<std::string> arguments,
                               std::vector<std::string> launcher) {
  std::vector<std::string> words = std::move(launcher);
  words.insert(words.end(),
               {WatcherPath(), "--json", "-d", directory_.path(), "-o", "run"});
  if (std::find(arguments.begin(), arguments.end(), "--collector") == arguments.end()) {
    words.insert(words.end(), {"--collector", CollectorPath()});
  }
  // The machine may be busy, and few tests are about the duration of a hold.
  if (std::find(arguments.begin(), arguments.end(), "--hold-timeout-msec") ==
      arguments.end()) {
    words.insert(words.end(), {"--hold-timeout-msec", "10000"});
  }
  words.insert(words.end(), arguments.begin(), arguments.end());
  Child::Options options;
  options.dies_with_us = true;
  child_ = std::make_unique<Child>(words, options);
  // A minute: on a busy emulated machine it has taken more than 10 seconds.
  for (int i = 0; i < 12'000 && !ready_; ++i) {
    output_ = child_->PollOutput();
    const size_t begin = output_.find("{\"event\":\"ready\"");
    const size_t end = output_.find('\n', begin);
    ready_ = begin != std::string::npos && end != std::string::npos;
    if (ready_) {
      const std::string line = output_.substr(begin, end - begin);
      service_ = nlohmann::json::parse(line).value("pid", -1);
    } else {
      usleep(5000);
    }
  }
}

WatcherProcess::~WatcherProcess() = default;

Finished WatcherProcess::Stop() {
  child_->Signal(SIGINT);
  Finished finished = child_->Wait();
  output_ = finished.output;
  return finished;
}

void WatcherProcess::Kill() {
  child_->Signal(SIGKILL);
  output_ = child_->Wait().output;
}

std::vector<nlohmann::json> WatcherProcess::Events() {
  std::vector<nlohmann::json> events;
  std::istringstream lines(output_);
  for (std::string line; std::getline(lines, line);) {
    auto event = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    EXPECT_FALSE(event.is_discarded()) << "not JSON: " << line;
    if (!event.is_discarded()) events.push_back(std::move(event));
  }
  return events;
}

std::vector<nlohmann::json> WatcherProcess::Events(const std::string& name) {
  std::vector<nlohmann::json> chosen;
  for (auto& event : Events()) {
    if (event["event"] == name) chosen.push_back(event);
  }
  return chosen;
}

HungService::HungService(pid_t service) : service_(service) {
  const std::string tasks = "/proc/" + std::to_string(service) + "/task";
  for (const auto& task : std::filesystem::directory_iterator(tasks)) {
    const pid_t tid = std::stoi(task.path().filename().string());
    if (ptrace(PTRACE_SEIZE, tid, nullptr, nullptr) != 0) continue;
    threads_.push_back(tid);
    EXPECT_EQ(ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr), 0) << strerror(errno);
  }
  for (pid_t tid : threads_) EXPECT_EQ(waitpid(tid, nullptr, __WALL), tid);
}

void HungService::Release() {
  for (pid_t tid : threads_) ptrace(PTRACE_DETACH, tid, nullptr, nullptr);
  threads_.clear();
}

void HungService::Kill() {
  kill(service_, SIGKILL);
  for (pid_t tid : threads_) {
    // The end of the first thread is for the service's parent to collect.
    if (tid != service_) waitpid(tid, nullptr, __WALL);
  }
  threads_.clear();
}

size_t WatcherProcess::PollEvents(const std::string& name) {
  const std::string& output = child_->PollOutput();
  // Lines that have arrived completely.
  output_ = output.substr(0, output.rfind('\n') + 1);
  const std::string key = "{\"event\":\"" + name + "\"";
  size_t count = 0;
  for (size_t at = output.find(key); at != std::string::npos;
       at = output.find(key, at + 1)) {
    ++count;
  }
  return count;
}

uint64_t RecordedProcess::dropped() const {
  return account.dropped_ring_full() + account.dropped_collector() +
         account.dropped_invalid() + account.dropped_inflight() +
         account.dropped_writer();
}

std::string RecordedProcess::Explain() const {
  std::string text = absl::StrCat(process.comm(), " ", process.pid(), "\n");
  for (const v1::WindowEvent& window : windows) {
    absl::StrAppend(&text, "  window: ", window.ShortDebugString(), "\n");
  }
  absl::StrAppend(&text, "  account: ", account.ShortDebugString(), "\n  packets:");
  for (const rocattach_dispatch& dispatch : dispatches) {
    absl::StrAppend(&text, " ", dispatch.packet_index);
  }
  return text;
}

namespace {

class Collect : public StreamVisitor {
 public:
  explicit Collect(Recording* recording) : recording_(recording) {}
  // True if the recording has its end, and no frame was dropped.
  bool is_whole() const { return is_whole_; }
  RecordedProcess& At(const FrameContext& context) {
    auto [slot, made] =
        index_.try_emplace(context.stream, recording_->processes.size());
    if (made) recording_->processes.emplace_back();
    return recording_->processes[slot->second];
  }
  void OnProcess(const FrameContext& c, const v1::Process& p) override {
    At(c).process = p;
  }
  void OnAgent(const FrameContext& c, const v1::Agent& agent) override {
    At(c).agents[agent.id()] = agent;
  }
  void OnKernel(const FrameContext& c, const v1::Kernel& k) override {
    At(c).kernels[k.id()] = k;
  }
  void OnSampling(const FrameContext& c, const v1::SamplingEvent& event) override {
    if (!c.repeated) At(c).sampling.push_back(event);
  }
  void OnDispatches(const FrameContext& c,
                    absl::Span<const rocattach_dispatch> records) override {
    auto& all = At(c).dispatches;
    all.insert(all.end(), records.begin(), records.end());
  }
  void OnCopies(const FrameContext& c,
                absl::Span<const rocattach_copy> records) override {
    auto& all = At(c).copies;
    all.insert(all.end(), records.begin(), records.end());
  }
  void OnSessionPlan(const FrameContext& c, const v1::SessionPlan& plan) override {
    At(c).plans[plan.id()] = plan;
  }
  void OnCounters(const FrameContext& c,
                  absl::Span<const CounterRecord> records) override {
    auto& all = At(c).counters;
    all.insert(all.end(), records.begin(), records.end());
  }
  void OnSamples(const FrameContext& c,
                 absl::Span<const CounterRecord> records) override {
    auto& all = At(c).samples;
    all.insert(all.end(), records.begin(), records.end());
  }
  void OnApiFunction(const FrameContext& c, const v1::ApiFunction& f) override {
    At(c).functions[{f.domain(), f.function()}] = f.name();
  }
  void OnThread(const FrameContext& c, const v1::Thread& thread) override {
    At(c).threads[thread.tid()] = thread.name();
  }
  void OnApiCalls(const FrameContext& c,
                  absl::Span<const ApiCallRecord> records) override {
    auto& all = At(c).api_calls;
    all.insert(all.end(), records.begin(), records.end());
  }
  void OnMemory(const FrameContext& c,
                absl::Span<const MemoryRecord> records) override {
    auto& all = At(c).memory;
    all.insert(all.end(), records.begin(), records.end());
  }
  void OnSession(const FrameContext& c, const v1::SessionEvent& event) override {
    At(c).sessions.push_back(event);
  }
  void OnWindow(const FrameContext& c, const v1::WindowEvent& e) override {
    At(c).verdict = e;
    if (!c.repeated) At(c).windows.push_back(e);
  }
  void OnAccount(const FrameContext& c, const v1::LossAccount& a) override {
    At(c).account = a;
  }
  void OnProcessEnd(const FrameContext& c, const v1::ProcessEnd& e) override {
    At(c).end = e;
    At(c).ended = true;
  }
  void OnSummary(const FrameContext&, const v1::WatcherSummary& s) override {
    recording_->summary = s;
  }
  void OnStreamEnd(const FrameContext&, const v1::StreamEnd& end) override {
    recording_->ended = true;
    is_whole_ = end.frames_dropped() == 0;
  }
  void OnDamage(const Damage& damage) override {
    recording_->damage.push_back(damage.what);
  }

 private:
  Recording* recording_;
  bool is_whole_ = false;
  std::map<uint32_t, size_t> index_;
};

}  // namespace

namespace {

// Expectations for a process whose end is not in the recording, because the recording
// was cut off or the process was not attached: its account is not final, and claims no
// more records than there are.
void ExpectOpenAccount(const RecordedProcess& process, const std::string& name) {
  const v1::LossAccount& account = process.account;
  EXPECT_FALSE(account.final()) << name;
  EXPECT_LE(account.dispatches_delivered(), process.dispatches.size()) << name;
  EXPECT_LE(account.copies_delivered(), process.copies.size()) << name;
  EXPECT_GE(account.dispatches_seen() + account.copies_seen(),
            account.dispatches_delivered() + account.copies_delivered())
      << name;
}

// What every recording guarantees: each operation of a process was delivered or is
// counted as dropped, and what counts as delivered is in the recording.
void ExpectAccountsAddUp(const Recording& recording, bool is_whole) {
  for (const RecordedProcess& process : recording.processes) {
    const v1::LossAccount& account = process.account;
    const std::string name =
        process.process.comm() + " " + std::to_string(process.process.pid());
    if (!process.ended) {
      ExpectOpenAccount(process, name);
      // A service that ends cleanly closes the accounts of all attached processes.
      if (is_whole) {
        EXPECT_NE(process.verdict.state(), v1::WINDOW_STATE_ATTACHED) << name;
      }
      continue;
    }
    EXPECT_TRUE(account.final()) << name;
    EXPECT_EQ(account.dispatches_seen() + account.copies_seen(),
              account.dispatches_delivered() + account.copies_delivered() +
                  process.dropped() + account.sampled_out())
        << name;
    EXPECT_EQ(account.dispatches_delivered(), process.dispatches.size()) << name;
    EXPECT_EQ(account.copies_delivered(), process.copies.size()) << name;
  }
}

}  // namespace

Recording ReadRecording(const std::string& path) {
  Recording recording;
  Collect collect(&recording);
  StreamDecoder decoder(&collect);
  absl::Status status = ReadStream(path, {}, &decoder);
  EXPECT_TRUE(status.ok()) << status;
  ExpectAccountsAddUp(recording, collect.is_whole());
  return recording;
}

Recording ReadRecordingSoFar(const std::string& path) {
  Recording recording;
  Collect collect(&recording);
  StreamDecoder decoder(&collect);
  (void)ReadStream(path, {}, &decoder);  // it may end in the middle of a frame
  return recording;
}

RecordedProcess Recording::Process(pid_t pid) const {
  static const RecordedProcess nothing;
  const RecordedProcess* found = nullptr;
  int count = 0;
  for (const RecordedProcess& process : processes) {
    if (static_cast<pid_t>(process.process.pid()) != pid) continue;
    found = &process;
    ++count;
  }
  EXPECT_EQ(count, 1) << "recorded processes with pid " << pid;
  return found == nullptr ? nothing : *found;
}

RecordedProcess Recording::Process(const std::string& comm) const {
  static const RecordedProcess nothing;
  const RecordedProcess* found = nullptr;
  int count = 0;
  for (const RecordedProcess& process : processes) {
    if (process.process.comm() != comm) continue;
    found = &process;
    ++count;
  }
  EXPECT_EQ(count, 1) << "recorded processes with name " << comm;
  return found == nullptr ? nothing : *found;
}

int64_t Reported(const std::string& output, const std::string& name) {
  int64_t sum = -1;
  std::string key = name + "=";
  for (size_t at = output.find(key); at != std::string::npos;
       at = output.find(key, at + 1)) {
    bool whole_word = at == 0 || output[at - 1] == ' ' || output[at - 1] == '\n';
    if (!whole_word) continue;
    sum = std::max<int64_t>(sum, 0) +
          strtoll(output.c_str() + at + key.size(), nullptr, 10);
  }
  return sum;
}

}  // namespace rocattach::testing_support
