#include "userspace/watch/discovery/translated_processes.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "injector/process/maps.h"
#include "injector/process/target_memory.h"
#include "injector/process/translation.h"
#include "userspace/base/clock.h"
#include "userspace/base/errno_status.h"
#include "userspace/base/status_macros.h"
#include "userspace/base/steady_cond_var.h"
#include "userspace/base/task_thread.h"
#include "userspace/base/user_threads.h"
#include "userspace/base/wake_event.h"
#include "userspace/watch/discovery/known_translated.h"
#include "userspace/watch/discovery/library_scanner.h"
#include "userspace/watch/discovery/look_queue.h"
#include "userspace/watch/discovery/recent_users.h"

namespace rocattach {
namespace {

// Number of processes that are looked at at the same time, one of each user but root:
// one whose memory cannot be read costs others nothing until there are as many of them.
constexpr int kThreads = 16;
constexpr absl::Duration kStopPatience = absl::Seconds(1);

// A translated process is looked at at this interval at first, and until it has run for
// kPatienceNs, or has done nothing with what it has opened for kLongestNs: it may need
// less than a millisecond from the mapping to the library's functions. While it does
// not run, its mappings stay as they are.
constexpr uint64_t kPauseNs = LookQueue::kPauseNs;
constexpr uint64_t kPatienceNs = 500'000'000;
constexpr uint64_t kLongestNs = 10'000'000'000;

// Minimum time between looks at all processes. Doubled as long as notifications are
// lost again: a user who causes such losses must not cause constant reading for others.
constexpr uint64_t kOpensPauseNs = 100'000'000, kMostOpensPauseNs = 30'000'000'000;

// The breakpoint instruction that the kernel writes.
constexpr uint8_t kBreakpoint = 0xcc;

// Real-time, because the program runs towards hsa_init meanwhile.
constexpr int kTranslationPriority = 1;

// Kernels can forbid such a write (proc_mem.force_override), except to a tracer.
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

// The place of a probe in the memory of a process.
struct Place {
  KnownLibraries::Entry entry;
  RemoteAddress address;
  // True if the file's data is mapped too: the loader has mapped all of it.
  bool loaded = false;
};

// True if the breakpoint was there and is not any more. The byte is written as a whole
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
  using Look = LookQueue::Look;
  enum class Outcome { kSettled, kOpen };

  explicit State(Options given)
      : options(std::move(given)),
        opens(options.opens != nullptr ? options.opens
                                       : std::make_shared<LibraryOpens>()),
        users(options.functions.user_of) {}

  void ReadOpens() ABSL_LOCKS_EXCLUDED(mutex);
  void OnOpen(pid_t pid) ABSL_LOCKS_EXCLUDED(mutex);
  // Looks at all processes, after a loss of notifications.
  void LookAtAll() ABSL_LOCKS_EXCLUDED(mutex);
  void Work() ABSL_LOCKS_EXCLUDED(mutex);
  void RequestLook(pid_t pid, uid_t uid, LookQueue::Cause cause)
      ABSL_LOCKS_EXCLUDED(mutex);
  // Waits for a look that is due; unset when stopping.
  std::optional<Look> NextLook() ABSL_LOCKS_EXCLUDED(mutex);
  absl::Duration UntilNext() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Looks at a process again if it has run since the last time.
  void LookAgain(Look look) ABSL_LOCKS_EXCLUDED(mutex, calls);
  // Looks at a process, and writes the byte if that is right.
  Outcome LookAt(Look* look) ABSL_LOCKS_EXCLUDED(mutex, calls);
  std::vector<Place> PlacesIn(const Maps& maps) ABSL_LOCKS_EXCLUDED(calls);
  void RememberIfTranslated(pid_t pid) ABSL_LOCKS_EXCLUDED(mutex);
  void Remember(const ProcessId& process, uid_t uid) ABSL_LOCKS_EXCLUDED(mutex);
  void Report(const TranslatedProcess& found) ABSL_LOCKS_EXCLUDED(mutex, calls);
  void OnThreadEnd() ABSL_LOCKS_EXCLUDED(mutex);
  bool IsStopping() ABSL_LOCKS_EXCLUDED(mutex);

  const Options options;
  const std::shared_ptr<LibraryOpens> opens;
  RecentUsers users;
  WakeEvent wake;
  std::atomic<uint64_t> opens_lost = 0;

  // Held while the libraries are used, which may be gone after Stop().
  absl::Mutex calls;
  bool closed ABSL_GUARDED_BY(calls) = false;

  absl::Mutex mutex;
  bool stopping ABSL_GUARDED_BY(mutex) = false;
  bool silent ABSL_GUARDED_BY(mutex) = false;
  int running ABSL_GUARDED_BY(mutex) = 0;
  int reporting ABSL_GUARDED_BY(mutex) = 0;  // threads inside of on_found
  LookQueue queue ABSL_GUARDED_BY(mutex);
  // Changes when a look may be due sooner.
  uint64_t queue_version ABSL_GUARDED_BY(mutex) = 0;
  KnownTranslated known ABSL_GUARDED_BY(mutex);
  SteadyCondVar changed;
};

void TranslatedProcesses::State::RequestLook(pid_t pid, uid_t uid,
                                             LookQueue::Cause cause) {
  if (pid == getpid()) return;
  absl::MutexLock lock(&mutex);
  const uint64_t before_ns = queue.NextDueNs();
  queue.RequestLook(pid, uid, cause, BootNs());
  // Otherwise a process that is requested repeatedly would wake all threads each time.
  if (queue.NextDueNs() >= before_ns) return;
  ++queue_version;
  changed.SignalAll();
}

void TranslatedProcesses::State::OnOpen(pid_t pid) {
  RequestLook(pid, users.Of(pid, BootNs()), LookQueue::Cause::kOpened);
}

void TranslatedProcesses::State::LookAtAll() {
  for (pid_t pid : options.functions.list()) {
    // A kernel thread has no program.
    if (!ReadExecutable(pid).ok()) continue;
    RequestLook(pid, users.Of(pid, BootNs()), LookQueue::Cause::kOthers);
  }
}

bool TranslatedProcesses::State::IsStopping() {
  absl::MutexLock lock(&mutex);
  return stopping;
}

void TranslatedProcesses::State::OnThreadEnd() {
  absl::MutexLock lock(&mutex);
  --running;
  changed.SignalAll();
}

void TranslatedProcesses::State::ReadOpens() {
  (void)BecomeRealtime(kTranslationPriority, "rwa-opens");
  bool look_at_all = false;
  uint64_t next_look_ns = 0, pause_ns = kOpensPauseNs;
  for (;;) {
    pollfd fds[2] = {{opens->fd(), POLLIN, 0}, {wake.fd(), POLLIN, 0}};
    const uint64_t wait_ns = next_look_ns - std::min(next_look_ns, BootNs());
    poll(fds, 2, look_at_all ? static_cast<int>(wait_ns / 1'000'000) + 1 : -1);
    if (IsStopping()) break;
    if (!opens->Read([this](pid_t pid) { OnOpen(pid); })) {
      ++opens_lost;
      look_at_all = true;
    }
    if (!look_at_all || BootNs() < next_look_ns) continue;
    look_at_all = false;
    const bool is_quiet = BootNs() - next_look_ns > pause_ns;
    pause_ns = is_quiet ? kOpensPauseNs : std::min(2 * pause_ns, kMostOpensPauseNs);
    LookAtAll();
    next_look_ns = BootNs() + pause_ns;
  }
  OnThreadEnd();
}

absl::Duration TranslatedProcesses::State::UntilNext() const {
  constexpr uint64_t kMostNs = 3'600'000'000'000;
  // A look that waits for another one of its user is woken by the end of that one.
  const uint64_t due_ns = queue.NextDueNs();
  return absl::Nanoseconds(std::min(kMostNs, due_ns - std::min(due_ns, BootNs())));
}

std::optional<LookQueue::Look> TranslatedProcesses::State::NextLook() {
  absl::MutexLock lock(&mutex);
  while (!stopping) {
    if (auto look = queue.Take(BootNs()); look.has_value()) return look;
    changed.WaitFor(&mutex, UntilNext(),
                    [this, before = queue_version]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(
                        mutex) { return stopping || queue_version != before; });
  }
  return std::nullopt;
}

void TranslatedProcesses::State::LookAgain(Look look) {
  const uint64_t requested_ns = look.requested_ns;
  // Read before its mappings: what the process does meanwhile is seen the next time.
  const std::optional<uint64_t> cpu_ns = options.functions.cpu_ns(look.pid);
  const bool is_first = std::exchange(look.seen_ns, requested_ns) != requested_ns;
  if (is_first) look.first_cpu_ns = cpu_ns;
  const bool has_run = std::exchange(look.cpu_ns, cpu_ns) != cpu_ns;
  const bool may_differ = is_first || has_run || !cpu_ns.has_value();
  const Outcome outcome = may_differ ? LookAt(&look) : Outcome::kOpen;
  const uint64_t now = BootNs(), waited_ns = now - requested_ns;
  uint64_t ran_ns = waited_ns;
  if (cpu_ns.has_value() && look.first_cpu_ns.has_value()) {
    ran_ns = std::min(ran_ns, *cpu_ns - *look.first_cpu_ns);
  }
  const bool again =
      outcome == Outcome::kOpen && ran_ns < kPatienceNs && waited_ns < kLongestNs;
  // Grows even if it has not run: each look wakes all threads of this class.
  const uint64_t pause_ns = std::max(kPauseNs, std::min(waited_ns, kPatienceNs) / 32);
  absl::MutexLock lock(&mutex);
  queue.Done(std::move(look), again ? now + pause_ns : 0, now);
  ++queue_version;
  changed.SignalAll();
}

void TranslatedProcesses::State::Work() {
  (void)BecomeRealtime(kTranslationPriority, "rwa-translated");
  while (std::optional<Look> look = NextLook()) LookAgain(*std::move(look));
  OnThreadEnd();
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
// even if the ID is reused. A mapping that is seen has its breakpoint already, since
// reading the memory waits for the lock under which the kernel has made both.
TranslatedProcesses::State::Outcome TranslatedProcesses::State::LookAt(Look* look) {
  const Functions& functions = options.functions;
  const pid_t pid = look->pid;
  if (look->mapped && look->how.empty() && !LacksLoader(pid)) return Outcome::kSettled;
  auto memory = TargetMemory::Open(pid, pid);
  auto ticks = functions.read_start_ticks(pid);
  auto maps = functions.read_maps(pid);
  if (!memory.ok() || !ticks.ok() || !maps.ok()) return Outcome::kSettled;
  if (std::exchange(look->start_ticks, *ticks) != *ticks) look->how.clear();
  if (look->how.empty()) {
    look->how = functions.how_translated(pid, *maps);
    if (look->how.empty()) return Outcome::kSettled;
    Remember({pid, *ticks}, look->uid);
    maps = functions.read_maps(pid);  // after that became known
    if (!maps.ok()) return Outcome::kSettled;
  }
  const std::vector<Place> places = PlacesIn(*maps);
  if (places.empty()) return Outcome::kOpen;
  TranslatedProcess found;
  found.id = {pid, *ticks};
  found.how = look->how;
  bool is_settled = true;
  for (const Place& place : places) {
    const absl::StatusOr<bool> restored = Restore(*memory, place);
    found.restored.Update(restored.status());
    is_settled &= place.loaded && restored.value_or(true);
    found.cookie = place.entry.cookie;
  }
  Report(found);
  // Code that a loader maps again has the breakpoint again, and a file without a probe
  // may be about to get one.
  return is_settled ? Outcome::kSettled : Outcome::kOpen;
}

void TranslatedProcesses::State::Remember(const ProcessId& process, uid_t uid) {
  std::vector<ProcessId> ended;
  {
    absl::MutexLock lock(&mutex);
    if (known.Add(process, uid)) return;
    ended = known.Of(uid);
  }
  // Without the lock, because there are many.
  std::erase_if(ended, [this](const ProcessId& other) {
    const auto ticks = options.functions.read_start_ticks(other.pid);
    return ticks.ok() && *ticks == other.start_ticks;
  });
  absl::MutexLock lock(&mutex);
  known.Trim(uid, ended);
}

void TranslatedProcesses::State::Report(const TranslatedProcess& found) {
  {
    absl::MutexLock lock(&mutex);
    if (silent || !known.Report(found.id, found.cookie)) return;
    ++reporting;
  }
  // Without a lock: the function may read the process, which can block it.
  options.on_found(found);
  absl::MutexLock lock(&mutex);
  --reporting;
  changed.SignalAll();
}

std::optional<uint64_t> ProcessCpuNs(pid_t pid) {
  clockid_t clock;
  timespec used;
  if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &used) != 0) {
    return std::nullopt;
  }
  return static_cast<uint64_t>(used.tv_sec) * 1'000'000'000 +
         static_cast<uint64_t>(used.tv_nsec);
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
  auto ticks = options.functions.read_start_ticks(pid);
  auto maps = options.functions.read_maps(pid);
  if (!ticks.ok() || !maps.ok()) return;
  const auto& mappings = maps->mappings();
  const bool has_runtime =
      std::any_of(mappings.begin(), mappings.end(),
                  [](const Mapping& m) { return LooksLikeHsaRuntime(m.path); });
  if (!has_runtime || options.functions.how_translated(pid, *maps).empty()) return;
  Remember({pid, *ticks}, users.Of(pid, BootNs()));
}

void TranslatedProcesses::FindRunning() {
  constexpr absl::Duration kPatience = absl::Seconds(2);
  UserThreads threads("rwa-translated", /*most_per_user=*/2);
  for (pid_t pid : state_->options.functions.list()) {
    (void)threads.Run(state_->users.Of(pid, BootNs()),
                      [state = state_, pid] { state->RememberIfTranslated(pid); });
  }
  // A process that has not been read by then is looked at when it opens or maps a copy.
  (void)threads.Finish(kPatience);
}

void TranslatedProcesses::AfterProbe(const CheckedFile& file, pid_t mapped_by) {
  // If a file system has no such notifications, only Valgrind and its like are seen.
  (void)state_->opens->Add(file);
  std::map<pid_t, uid_t> users;
  {
    absl::MutexLock lock(&state_->mutex);
    for (const auto& [pid, uid] : state_->known.All()) users[pid] = uid;
  }
  if (mapped_by != 0) users[mapped_by] = state_->users.Of(mapped_by, BootNs());
  // Not here, because a process can block its reader.
  for (const auto& [pid, uid] : users) {
    state_->RequestLook(
        pid, uid,
        pid == mapped_by ? LookQueue::Cause::kMapped : LookQueue::Cause::kOthers);
  }
}

void TranslatedProcesses::OnMapped(pid_t pid, uid_t uid) {
  state_->RequestLook(pid, uid, LookQueue::Cause::kMapped);
}

TranslationCounts TranslatedProcesses::counts() const {
  absl::MutexLock lock(&state_->mutex);
  return {.opens_lost = state_->opens_lost, .left_out = state_->queue.left_out()};
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
