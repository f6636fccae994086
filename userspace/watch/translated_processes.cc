#include "userspace/watch/translated_processes.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
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
#include "injector/maps.h"
#include "injector/target_memory.h"
#include "injector/translation.h"
#include "userspace/base/clock.h"
#include "userspace/base/errno_status.h"
#include "userspace/base/status_macros.h"
#include "userspace/base/steady_cond_var.h"
#include "userspace/base/user_threads.h"
#include "userspace/base/wake_event.h"
#include "userspace/watch/known_translated.h"
#include "userspace/watch/library_scanner.h"
#include "userspace/watch/look_queue.h"
#include "userspace/watch/recent_users.h"

namespace rocattach {
namespace {

// Processes that are looked at at the same time, one of each user other than root: one
// whose memory cannot be read costs others nothing until there are as many of them.
constexpr int kThreads = 16;
constexpr absl::Duration kStopPatience = absl::Seconds(1);

// A process that is translated is looked at so often at first, and until it has run for so
// long, or has done nothing with what it has opened for kLongestNs: it may need less than
// a millisecond from the mapping to the library's functions. While it does not run, its
// mappings stay as they are.
constexpr uint64_t kPauseNs = LookQueue::kPauseNs;
constexpr uint64_t kPatienceNs = 500'000'000;
constexpr uint64_t kLongestNs = 10'000'000'000;

// Between looks at all processes. Doubled as long as notifications are lost again: whoever
// has them lost all the time must not have others read all the time.
constexpr uint64_t kLookPauseNs = 100'000'000, kMostLookPauseNs = 30'000'000'000;

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
  using Look = LookQueue::Look;
  enum class Outcome { kSettled, kOpen };

  explicit State(Options given)
      : options(std::move(given)),
        opens(options.opens != nullptr ? options.opens
                                       : std::make_shared<LibraryOpens>()),
        users(options.functions.user_of) {}

  void ReadOpens() ABSL_LOCKS_EXCLUDED(mutex);
  void NoteOpen(pid_t pid) ABSL_LOCKS_EXCLUDED(mutex);
  // After a loss of notifications.
  void NoteAll() ABSL_LOCKS_EXCLUDED(mutex);
  void Work() ABSL_LOCKS_EXCLUDED(mutex);
  void Note(pid_t pid, uid_t uid, LookQueue::Cause cause) ABSL_LOCKS_EXCLUDED(mutex);
  // Waits for a look that is due; none: this is stopping.
  std::optional<Look> NextLook() ABSL_LOCKS_EXCLUDED(mutex);
  absl::Duration UntilNext() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Looks at a process again if it has run since the last time.
  void LookAgain(Look look) ABSL_LOCKS_EXCLUDED(mutex, calls);
  // Looks at a process, and writes the byte where that is right.
  Outcome LookAt(Look* look) ABSL_LOCKS_EXCLUDED(mutex, calls);
  std::vector<Place> PlacesIn(const Maps& maps) ABSL_LOCKS_EXCLUDED(calls);
  void RememberIfTranslated(pid_t pid) ABSL_LOCKS_EXCLUDED(mutex);
  void Remember(const ProcessId& process, uid_t uid) ABSL_LOCKS_EXCLUDED(mutex);
  void Report(const TranslatedProcess& found) ABSL_LOCKS_EXCLUDED(mutex, calls);
  void NoteEnded() ABSL_LOCKS_EXCLUDED(mutex);
  bool IsStopping() ABSL_LOCKS_EXCLUDED(mutex);

  const Options options;
  const std::shared_ptr<LibraryOpens> opens;
  RecentUsers users;
  WakeEvent wake;
  std::atomic<uint64_t> opens_lost = 0;

  // Held while the libraries, which may be gone after Stop(), are used.
  absl::Mutex calls;
  bool closed ABSL_GUARDED_BY(calls) = false;

  absl::Mutex mutex;
  bool stopping ABSL_GUARDED_BY(mutex) = false;
  bool silent ABSL_GUARDED_BY(mutex) = false;
  int running ABSL_GUARDED_BY(mutex) = 0;
  int reporting ABSL_GUARDED_BY(mutex) = 0;  // threads inside of on_found
  LookQueue queue ABSL_GUARDED_BY(mutex);
  uint64_t notes ABSL_GUARDED_BY(mutex) = 0;  // looks that are due sooner than others
  KnownTranslated known ABSL_GUARDED_BY(mutex);
  SteadyCondVar changed;
};

void TranslatedProcesses::State::Note(pid_t pid, uid_t uid, LookQueue::Cause cause) {
  if (pid == getpid()) return;
  absl::MutexLock lock(&mutex);
  const uint64_t before_ns = queue.NextDueNs();
  queue.Note(pid, uid, cause, BootNs());
  // Otherwise a process that is noted again and again would wake all threads each time.
  if (queue.NextDueNs() >= before_ns) return;
  ++notes;
  changed.SignalAll();
}

void TranslatedProcesses::State::NoteOpen(pid_t pid) {
  Note(pid, users.Of(pid, BootNs()), LookQueue::Cause::kOpened);
}

void TranslatedProcesses::State::NoteAll() {
  for (pid_t pid : options.functions.list()) {
    // A thread of the kernel has no program.
    if (!ReadExecutable(pid).ok()) continue;
    Note(pid, users.Of(pid, BootNs()), LookQueue::Cause::kOthers);
  }
}

bool TranslatedProcesses::State::IsStopping() {
  absl::MutexLock lock(&mutex);
  return stopping;
}

void TranslatedProcesses::State::NoteEnded() {
  absl::MutexLock lock(&mutex);
  --running;
  changed.SignalAll();
}

void TranslatedProcesses::State::ReadOpens() {
  BecomeRealtime("rwa-opens");
  bool look_at_all = false;
  uint64_t next_look_ns = 0, pause_ns = kLookPauseNs;
  for (;;) {
    pollfd fds[2] = {{opens->fd(), POLLIN, 0}, {wake.fd(), POLLIN, 0}};
    const uint64_t wait_ns = next_look_ns - std::min(next_look_ns, BootNs());
    poll(fds, 2, look_at_all ? static_cast<int>(wait_ns / 1'000'000) + 1 : -1);
    if (IsStopping()) break;
    if (!opens->Read([this](pid_t pid) { NoteOpen(pid); })) {
      ++opens_lost;
      look_at_all = true;
    }
    if (!look_at_all || BootNs() < next_look_ns) continue;
    look_at_all = false;
    const bool is_quiet = BootNs() - next_look_ns > pause_ns;
    pause_ns = is_quiet ? kLookPauseNs : std::min(2 * pause_ns, kMostLookPauseNs);
    NoteAll();
    next_look_ns = BootNs() + pause_ns;
  }
  NoteEnded();
}

absl::Duration TranslatedProcesses::State::UntilNext() const {
  constexpr uint64_t kMostNs = 3'600'000'000'000;
  // One that waits for another of its user is woken by the end of that.
  const uint64_t due_ns = queue.NextDueNs();
  return absl::Nanoseconds(std::min(kMostNs, due_ns - std::min(due_ns, BootNs())));
}

std::optional<LookQueue::Look> TranslatedProcesses::State::NextLook() {
  absl::MutexLock lock(&mutex);
  while (!stopping) {
    if (auto look = queue.Take(BootNs()); look.has_value()) return look;
    changed.WaitFor(&mutex, UntilNext(),
                    [this, before = notes]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
                      return stopping || notes != before;
                    });
  }
  return std::nullopt;
}

void TranslatedProcesses::State::LookAgain(Look look) {
  const uint64_t noted_ns = look.noted_ns;
  // Before its mappings are read: what it does meanwhile is seen the next time.
  const std::optional<uint64_t> cpu_ns = options.functions.cpu_ns(look.pid);
  const bool is_first = std::exchange(look.seen_ns, noted_ns) != noted_ns;
  if (is_first) look.first_cpu_ns = cpu_ns;
  const bool has_run = std::exchange(look.cpu_ns, cpu_ns) != cpu_ns;
  const bool may_differ = is_first || has_run || !cpu_ns.has_value();
  const Outcome outcome = may_differ ? LookAt(&look) : Outcome::kOpen;
  const uint64_t now = BootNs(), waited_ns = now - noted_ns;
  uint64_t ran_ns = waited_ns;
  if (cpu_ns.has_value() && look.first_cpu_ns.has_value()) {
    ran_ns = std::min(ran_ns, *cpu_ns - *look.first_cpu_ns);
  }
  const bool again =
      outcome == Outcome::kOpen && ran_ns < kPatienceNs && waited_ns < kLongestNs;
  // Also if it has not run: each look wakes all threads of this class.
  const uint64_t pause_ns = std::max(kPauseNs, std::min(waited_ns, kPatienceNs) / 32);
  absl::MutexLock lock(&mutex);
  queue.Done(std::move(look), again ? now + pause_ns : 0, now);
  ++notes;
  changed.SignalAll();
}

void TranslatedProcesses::State::Work() {
  BecomeRealtime("rwa-translated");
  while (std::optional<Look> look = NextLook()) LookAgain(*std::move(look));
  NoteEnded();
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
TranslatedProcesses::State::Outcome TranslatedProcesses::State::LookAt(Look* look) {
  const Functions& functions = options.functions;
  const pid_t pid = look->pid;
  if (look->mapped && look->how.empty() && !LacksLoader(pid)) return Outcome::kSettled;
  auto memory = TargetMemory::Open(pid, pid);
  auto ticks = ReadStartTicks(pid);
  auto maps = functions.read_maps(pid);
  if (!memory.ok() || !ticks.ok() || !maps.ok()) return Outcome::kSettled;
  if (look->how.empty()) {
    look->how = functions.how_translated(pid, *maps);
    if (look->how.empty()) return Outcome::kSettled;
    Remember({pid, *ticks}, look->uid);
    maps = functions.read_maps(pid);  // after that was known
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
  // What a loader maps again has the breakpoint again, and a file without it may be about
  // to get its probe.
  return is_settled ? Outcome::kSettled : Outcome::kOpen;
}

void TranslatedProcesses::State::Remember(const ProcessId& process, uid_t uid) {
  std::vector<ProcessId> ended;
  {
    absl::MutexLock lock(&mutex);
    if (known.Add(process, uid)) return;
    ended = known.Of(uid);
  }
  // Without the lock: there are many.
  std::erase_if(ended, [](const ProcessId& other) {
    const auto ticks = ReadStartTicks(other.pid);
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
  // Without a lock: whoever is told may read the process, which can keep it waiting.
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
  auto ticks = ReadStartTicks(pid);
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
  // One that is not read by then is looked at when it opens or maps a copy.
  (void)threads.Finish(kPatience);
}

void TranslatedProcesses::AfterProbe(const CheckedFile& file, pid_t mapped_by) {
  // Where a file system has no such notifications, only Valgrind and its like are seen.
  (void)state_->opens->Add(file);
  std::map<pid_t, uid_t> users;
  {
    absl::MutexLock lock(&state_->mutex);
    for (const auto& [pid, uid] : state_->known.All()) users[pid] = uid;
  }
  if (mapped_by != 0) users[mapped_by] = state_->users.Of(mapped_by, BootNs());
  // Not here: a process can keep whoever reads it waiting.
  for (const auto& [pid, uid] : users) {
    state_->Note(
        pid, uid,
        pid == mapped_by ? LookQueue::Cause::kMapped : LookQueue::Cause::kOthers);
  }
}

void TranslatedProcesses::NoteMapped(pid_t pid, uid_t uid) {
  state_->Note(pid, uid, LookQueue::Cause::kMapped);
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
