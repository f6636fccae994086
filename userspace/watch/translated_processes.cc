#include "userspace/watch/translated_processes.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "injector/maps.h"
#include "injector/target_memory.h"
#include "injector/translation.h"
#include "userspace/base/clock.h"
#include "userspace/base/errno_status.h"
#include "userspace/base/status_macros.h"
#include "userspace/base/steady_cond_var.h"
#include "userspace/base/user_threads.h"
#include "userspace/base/wake_event.h"
#include "userspace/watch/library_opens.h"
#include "userspace/watch/library_scanner.h"

namespace rocattach {
namespace {

// Processes that are looked at at the same time, one of each user other than root: one
// whose memory cannot be read costs others nothing until there are as many of them.
constexpr int kThreads = 16;
// Of each user: processes that wait for a look; those that are translated and live.
constexpr size_t kMostJobs = 1024;
constexpr size_t kMostKnown = 1024;
constexpr absl::Duration kStopPatience = absl::Seconds(1);

// A process that is translated is looked at so often at first, and for so long, until it
// has mapped what it has opened: it may need less than a millisecond from there to the
// library's functions.
constexpr uint64_t kPauseNs = 100'000;
constexpr uint64_t kPatienceNs = 500'000'000;

// The instruction that the kernel writes.
constexpr uint8_t kBreakpoint = 0xcc;

// The program runs towards hsa_init meanwhile.
void BecomeRealtime(const char* name) {
  sched_param param = {};
  param.sched_priority = 1;
  (void)pthread_setschedparam(pthread_self(), SCHED_FIFO | SCHED_RESET_ON_FORK, &param);
  (void)pthread_setname_np(pthread_self(), name);
}

// Kernels can forbid it (proc_mem.force_override), except to a tracer.
absl::Status TryForcedWrite() {
  const auto bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* page = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return ErrnoStatus(errno, "mmap() failed");
  absl::Status status;
  if (auto memory = TargetMemory::Open(getpid(), getpid()); memory.ok()) {
    const uint8_t byte = 1;
    status = memory->Write(RemoteAddress(reinterpret_cast<uint64_t>(page)), &byte, 1);
  } else {
    status = memory.status();
  }
  munmap(page, bytes);
  return status;
}

// A probe's place in the memory of a process.
struct Place {
  KnownLibraries::Entry entry;
  RemoteAddress address;
  // The file's data is mapped too: the loader has mapped all of it.
  bool loaded = false;
};

// True if the breakpoint was there and is not any more. One byte is written as a whole
// or not at all, so any other thread may read it meanwhile.
absl::StatusOr<bool> Restore(const TargetMemory& memory, const Place& place) {
  const LibraryCopy& copy = *place.entry.copy;
  uint8_t original = kBreakpoint, now = 0;
  if (pread(copy.file.fd(), &original, 1, static_cast<off_t>(copy.hsa_init_offset)) !=
          1 ||
      original == kBreakpoint || !memory.Read(place.address, &now, 1).ok() ||
      now != kBreakpoint) {
    return false;
  }
  RETURN_IF_ERROR(memory.Write(place.address, &original, 1));
  return true;
}

}  // namespace

struct TranslatedProcesses::State {
  struct Job {
    uid_t uid = 0;
    uint64_t noted_ns = 0;
    uint64_t due_ns = 0;
    bool mapped = false;  // it has code of a copy
    std::string how;      // it is known to be translated; empty: not yet
  };
  struct Known {
    uint64_t start_ticks = 0;
    uid_t uid = 0;
    std::set<uint64_t> reported;  // cookies
  };
  enum class Outcome { kSettled, kOpen };

  explicit State(Options given) : options(std::move(given)) {}

  void ReadOpens();
  void Work() ABSL_LOCKS_EXCLUDED(mutex);
  void Note(pid_t pid, bool mapped) ABSL_LOCKS_EXCLUDED(mutex);
  // The job of a process, which is added; null: its user has too many.
  Job* JobOf(pid_t pid, uid_t uid) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  Job TakeJob(pid_t pid) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // The job that is due, and whose user has none that is being done.
  std::optional<pid_t> NextJob() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  absl::Duration UntilNext() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Looks at a process, and writes the byte where that is right.
  Outcome LookAt(pid_t pid, Job* job) ABSL_LOCKS_EXCLUDED(mutex, calls);
  std::vector<Place> PlacesIn(const Maps& maps) ABSL_LOCKS_EXCLUDED(calls);
  void RememberIfTranslated(pid_t pid) ABSL_LOCKS_EXCLUDED(mutex);
  void Remember(const ProcessId& process, uid_t uid) ABSL_LOCKS_EXCLUDED(mutex);
  void Report(const TranslatedProcess& found) ABSL_LOCKS_EXCLUDED(mutex, calls);

  const Options options;
  LibraryOpens opens;
  WakeEvent wake;

  // Held while the libraries, which may be gone after Stop(), are used.
  absl::Mutex calls;
  bool closed ABSL_GUARDED_BY(calls) = false;

  absl::Mutex mutex;
  bool stopping ABSL_GUARDED_BY(mutex) = false;
  bool silent ABSL_GUARDED_BY(mutex) = false;
  int running ABSL_GUARDED_BY(mutex) = 0;
  int reporting ABSL_GUARDED_BY(mutex) = 0;  // threads inside of on_found
  std::map<pid_t, Job> jobs ABSL_GUARDED_BY(mutex);
  std::map<uid_t, size_t> jobs_of ABSL_GUARDED_BY(mutex);
  uint64_t notes ABSL_GUARDED_BY(mutex) = 0;  // changes of when a job is due
  std::set<uid_t> busy_users ABSL_GUARDED_BY(mutex);
  std::map<pid_t, Known> known ABSL_GUARDED_BY(mutex);
  SteadyCondVar changed;
};

void TranslatedProcesses::State::Note(pid_t pid, bool mapped) {
  if (pid == getpid()) return;
  const uid_t uid = UserOf(pid);
  absl::MutexLock lock(&mutex);
  Job* noted = JobOf(pid, uid);
  if (noted == nullptr) return;
  Job& job = *noted;
  job.noted_ns = job.due_ns = BootNs();
  // After an open, the mapping is yet to come.
  if (!mapped) job.due_ns += kPauseNs;
  job.mapped |= mapped;
  ++notes;
  changed.SignalAll();
}

TranslatedProcesses::State::Job* TranslatedProcesses::State::JobOf(pid_t pid,
                                                                   uid_t uid) {
  if (const auto job = jobs.find(pid); job != jobs.end()) return &job->second;
  size_t& count = jobs_of[uid];
  if (count >= kMostJobs) return nullptr;
  ++count;
  Job& job = jobs[pid];
  job.uid = uid;
  return &job;
}

TranslatedProcesses::State::Job TranslatedProcesses::State::TakeJob(pid_t pid) {
  Job job = jobs.extract(pid).mapped();
  const auto count = jobs_of.find(job.uid);
  if (--count->second == 0) jobs_of.erase(count);
  return job;
}

void TranslatedProcesses::State::ReadOpens() {
  BecomeRealtime("rwa-opens");
  for (;;) {
    pollfd fds[2] = {{opens.fd(), POLLIN, 0}, {wake.fd(), POLLIN, 0}};
    poll(fds, 2, -1);
    {
      absl::MutexLock lock(&mutex);
      if (stopping) break;
    }
    opens.Read([this](pid_t pid) { Note(pid, /*mapped=*/false); });
  }
  absl::MutexLock lock(&mutex);
  --running;
  changed.SignalAll();
}

std::optional<pid_t> TranslatedProcesses::State::NextJob() const {
  const uint64_t now = BootNs();
  for (const auto& [pid, job] : jobs) {
    if (job.due_ns <= now && (job.uid == 0 || busy_users.count(job.uid) == 0)) {
      return pid;
    }
  }
  return std::nullopt;
}

absl::Duration TranslatedProcesses::State::UntilNext() const {
  const uint64_t now = BootNs();
  uint64_t wait = 3'600'000'000'000;
  for (const auto& [pid, job] : jobs) {
    // One that waits for another of its user is woken by the end of that.
    if (job.due_ns > now) wait = std::min(wait, job.due_ns - now);
  }
  return absl::Nanoseconds(wait);
}

void TranslatedProcesses::State::Work() {
  BecomeRealtime("rwa-translated");
  for (;;) {
    pid_t pid = 0;
    Job job;
    {
      absl::MutexLock lock(&mutex);
      std::optional<pid_t> next;
      while (!stopping && !(next = NextJob()).has_value()) {
        changed.WaitFor(&mutex, UntilNext(),
                        [this, before = notes]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
                          return stopping || notes != before || NextJob().has_value();
                        });
      }
      if (stopping) {
        --running;
        changed.SignalAll();
        return;
      }
      pid = *next;
      job = TakeJob(pid);
      if (job.uid != 0) busy_users.insert(job.uid);
    }
    const Outcome outcome = LookAt(pid, &job);
    const uint64_t now = BootNs();
    absl::MutexLock lock(&mutex);
    busy_users.erase(job.uid);
    if (outcome == Outcome::kOpen && now - job.noted_ns < kPatienceNs) {
      job.due_ns = now + std::max(kPauseNs, (now - job.noted_ns) / 32);
      // Unless it was noted again.
      if (jobs.count(pid) == 0) {
        if (Job* again = JobOf(pid, job.uid); again != nullptr) *again = job;
      }
      ++notes;
    }
    changed.SignalAll();
  }
}

std::vector<Place> TranslatedProcesses::State::PlacesIn(const Maps& maps) {
  using File = std::tuple<uint64_t, uint64_t, uint64_t>;
  const auto file_of = [](const Mapping& m) {
    return File(m.device_major, m.device_minor, m.inode);
  };
  std::set<File> with_data;
  for (const Mapping& mapping : maps.mappings()) {
    if (mapping.writable && mapping.offset != 0) with_data.insert(file_of(mapping));
  }
  std::vector<Place> places;
  for (const Mapping& mapping : maps.mappings()) {
    if (!mapping.is_file() || !mapping.is_private) continue;
    KnownLibraries::Entry library;
    {
      absl::MutexLock using_options(&calls);
      if (closed) return {};
      library = options.libraries->Find(mapping);
    }
    if (library.copy == nullptr) continue;
    const uint64_t offset = library.copy->hsa_init_offset - mapping.offset;
    places.push_back({std::move(library), mapping.start + offset,
                      with_data.contains(file_of(mapping))});
  }
  return places;
}

// The memory is opened first: what is read and written is the memory of that moment,
// whoever has the number later. A mapping that is seen has its breakpoint already, since
// reading the memory waits for the lock under which the kernel has made both.
TranslatedProcesses::State::Outcome TranslatedProcesses::State::LookAt(pid_t pid,
                                                                       Job* job) {
  if (job->mapped && job->how.empty() && !LacksLoader(pid)) return Outcome::kSettled;
  auto memory = TargetMemory::Open(pid, pid);
  auto ticks = ReadStartTicks(pid);
  auto maps = Maps::Read(pid);
  if (!memory.ok() || !ticks.ok() || !maps.ok()) return Outcome::kSettled;
  if (job->how.empty()) {
    job->how = HowTranslated(pid, *maps);
    if (job->how.empty()) return Outcome::kSettled;
    Remember({pid, *ticks}, job->uid);
    maps = Maps::Read(pid);  // after that was known
    if (!maps.ok()) return Outcome::kSettled;
  }
  const std::vector<Place> places = PlacesIn(*maps);
  if (places.empty()) return Outcome::kOpen;
  TranslatedProcess found;
  found.id = {pid, *ticks};
  found.how = job->how;
  bool is_settled = true;
  for (const Place& place : places) {
    const absl::StatusOr<bool> restored = Restore(*memory, place);
    found.restored.Update(restored.status());
    is_settled &= place.loaded && restored.value_or(true);
    found.cookie = place.entry.cookie;
  }
  Report(found);
  // What a loader maps again has the breakpoint again, and a file without it may be about
  // to get its probe.
  return is_settled ? Outcome::kSettled : Outcome::kOpen;
}

void TranslatedProcesses::State::Remember(const ProcessId& process, uid_t uid) {
  absl::MutexLock lock(&mutex);
  Known& entry = known[process.pid];
  if (entry.start_ticks != process.start_ticks) entry = {process.start_ticks, uid, {}};
  const auto is_users = [uid](const auto& other) { return other.second.uid == uid; };
  if (static_cast<size_t>(std::ranges::count_if(known, is_users)) <= kMostKnown) return;
  std::erase_if(known, [&](const auto& other) {
    const auto ticks = ReadStartTicks(other.first);
    return other.first != process.pid &&
           (!ticks.ok() || *ticks != other.second.start_ticks);
  });
  if (static_cast<size_t>(std::ranges::count_if(known, is_users)) <= kMostKnown) return;
  known.erase(std::ranges::find_if(known, [&](const auto& other) {
    return other.first != process.pid && is_users(other);
  }));
}

void TranslatedProcesses::State::Report(const TranslatedProcess& found) {
  {
    absl::MutexLock lock(&mutex);
    auto entry = known.find(found.id.pid);
    if (silent || entry == known.end() ||
        !entry->second.reported.insert(found.cookie).second) {
      return;
    }
    ++reporting;
  }
  // Without a lock: whoever is told may read the process, which can keep it waiting.
  options.on_found(found);
  absl::MutexLock lock(&mutex);
  --reporting;
  changed.SignalAll();
}

TranslatedProcesses::TranslatedProcesses(std::shared_ptr<State> state)
    : state_(std::move(state)) {}

absl::StatusOr<std::unique_ptr<TranslatedProcesses>> TranslatedProcesses::Start(
    Options options) {
  auto state = std::make_shared<State>(std::move(options));
  RETURN_IF_ERROR(state->wake.status());
  auto processes = std::unique_ptr<TranslatedProcesses>(new TranslatedProcesses(state));
  {
    absl::MutexLock lock(&state->mutex);
    state->running = kThreads + 1;
  }
  processes->threads_.emplace_back([state] { state->ReadOpens(); });
  for (int i = 0; i < kThreads; ++i) {
    processes->threads_.emplace_back([state] { state->Work(); });
  }
  return processes;
}

TranslatedProcesses::~TranslatedProcesses() {
  Stop();
}

std::string TranslatedProcesses::WhatIsLacking() {
  if (const absl::Status status = TryForcedWrite(); !status.ok()) {
    return absl::StrCat(
        "Programs under Valgrind, qemu-user and other translators die with SIGTRAP at "
        "hsa_init while the service runs, because the kernel does not let it write to "
        "their code (",
        status.message(), ").");
  }
  if (const absl::Status status = LibraryOpens().status(); !status.ok()) {
    return absl::StrCat(
        "Programs under qemu-user and other emulators die with SIGTRAP at hsa_init "
        "while the service runs, because the kernel does not say who opens a library (",
        status.message(), ").");
  }
  return "";
}

bool TranslatedProcesses::StopReporting(absl::Duration patience) {
  State& state = *state_;
  absl::MutexLock lock(&state.mutex);
  state.silent = true;
  return state.changed.WaitFor(&state.mutex, patience,
                               [&state]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mutex) {
                                 return state.reporting == 0;
                               });
}

void TranslatedProcesses::State::RememberIfTranslated(pid_t pid) {
  auto ticks = ReadStartTicks(pid);
  auto maps = Maps::Read(pid);
  if (!ticks.ok() || !maps.ok()) return;
  const auto& mappings = maps->mappings();
  const bool has_runtime =
      std::any_of(mappings.begin(), mappings.end(),
                  [](const Mapping& m) { return LooksLikeHsaRuntime(m.path); });
  if (!has_runtime || HowTranslated(pid, *maps).empty()) return;
  Remember({pid, *ticks}, UserOf(pid));
}

void TranslatedProcesses::FindRunning() {
  constexpr absl::Duration kPatience = absl::Seconds(2);
  UserThreads threads("rwa-translated", /*most_per_user=*/2);
  for (pid_t pid : ListProcesses()) {
    (void)threads.Run(UserOf(pid),
                      [state = state_, pid] { state->RememberIfTranslated(pid); });
  }
  // One that is not read by then is looked at when it opens or maps a copy.
  (void)threads.Finish(kPatience);
}

void TranslatedProcesses::AfterProbe(const CheckedFile& file, pid_t mapped_by) {
  // Where a file system has no such notifications, only Valgrind and its like are seen.
  (void)state_->opens.Add(file);
  std::set<pid_t> pids;
  {
    absl::MutexLock lock(&state_->mutex);
    for (const auto& [pid, known] : state_->known) pids.insert(pid);
  }
  if (mapped_by != 0) pids.insert(mapped_by);
  // Not here: a process can keep whoever reads it waiting.
  for (pid_t pid : pids) state_->Note(pid, /*mapped=*/pid == mapped_by);
}

void TranslatedProcesses::NoteMapped(pid_t pid) {
  state_->Note(pid, /*mapped=*/true);
}

void TranslatedProcesses::Stop() {
  (void)StopReporting(absl::ZeroDuration());
  {
    absl::MutexLock calling(&state_->calls);
    state_->closed = true;
  }
  State& state = *state_;
  bool ended;
  {
    absl::MutexLock lock(&state.mutex);
    state.stopping = true;
    state.changed.SignalAll();
    state.wake.Signal();
    ended = state.changed.WaitFor(&state.mutex, kStopPatience,
                                  [&state]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(
                                      state.mutex) { return state.running == 0; });
  }
  for (std::thread& thread : threads_) {
    if (!thread.joinable()) continue;
    if (ended) {
      thread.join();
    } else {
      thread.detach();
    }
  }
}

}  // namespace rocattach
