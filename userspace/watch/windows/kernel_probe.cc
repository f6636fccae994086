#include "userspace/watch/windows/kernel_probe.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <bitset>
#include <cstddef>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "bpf/watch.skel.h"
#include "userspace/base/errno_status.h"
#include "userspace/base/status_macros.h"
#include "userspace/watch/late/awaited_call.h"
#include "userspace/watch/windows/probe_links.h"

namespace rocattach {
namespace {

// The key of a process's claim contains its exact start time, which only the kernel
// knows.
std::optional<rocattach_process_key> FindClaim(const bpf_map* claims,
                                               const ProcessId& process) {
  rocattach_process_key key = {}, next = {};
  const void* previous = nullptr;
  while (bpf_map__get_next_key(claims, previous, &next, sizeof(next)) == 0) {
    key = next;
    previous = &key;
    const auto pid = static_cast<pid_t>(key.pid);
    if (ProcessId::StartedAt(pid, key.start_ns) == process) return key;
  }
  return std::nullopt;
}

std::optional<rocattach_claim> ReadClaim(const bpf_map* claims,
                                         const rocattach_process_key& key) {
  rocattach_claim claim = {};
  if (bpf_map__lookup_elem(claims, &key, sizeof(key), &claim, sizeof(claim), 0) != 0) {
    return std::nullopt;
  }
  return claim;
}

}  // namespace

struct KernelProbe::State {
  LoadedPrograms loaded;
  watch_bpf* skeleton = nullptr;  // owned by `loaded`
  ring_buffer* ring = nullptr;
  std::optional<ProbeLinks> links;
  std::optional<FollowedProcesses> followed;
  const std::function<void(const rocattach_event&)>* visit = nullptr;
  std::atomic<uint64_t> malformed = 0;
  std::atomic<uint64_t> urgent_consumed = 0;
  const rocattach_layout* layouts = nullptr;  // ROCATTACH_LAYOUTS; null: none
  // Slots in the array of calls.
  absl::Mutex mutex;
  std::bitset<ROCATTACH_CALLS> taken_calls ABSL_GUARDED_BY(mutex);
  size_t next_call ABSL_GUARDED_BY(mutex) = 0;

  ~State() {
    if (layouts != nullptr) {
      munmap(const_cast<rocattach_layout*>(layouts),
             sizeof(*layouts) * ROCATTACH_LAYOUTS);
    }
    links.reset();
    if (ring != nullptr) ring_buffer__free(ring);
  }

  const bpf_program* HsaInitProgram(HoldMode mode) const {
    return mode == HoldMode::kYielding ? skeleton->progs.hsa_init_yield
                                       : skeleton->progs.hsa_init_signal;
  }

  static int OnEvent(void* context, void* data, size_t size) {
    auto* state = static_cast<State*>(context);
    rocattach_event event;
    if (size < sizeof(event)) {
      ++state->malformed;
      return -EINTR;
    }
    memcpy(&event, data, sizeof(event));
    if (event.version != ROCATTACH_EVENT_VERSION || event.size != sizeof(event)) {
      ++state->malformed;
      return -EINTR;
    }
    if (ROCATTACH_IS_URGENT(event.type)) {
      state->urgent_consumed.fetch_add(1, std::memory_order_relaxed);
    }
    (*state->visit)(event);
    return -EINTR;  // one record per call: ends the loop; the record is consumed
  }
};

KernelProbe::KernelProbe(std::unique_ptr<State> state) : state_(std::move(state)) {}
KernelProbe::~KernelProbe() = default;

absl::StatusOr<std::unique_ptr<KernelProbe>> KernelProbe::Load(
    const KernelProbeOptions& options) {
  KernelFeatures wanted = KernelFeatures::All();
  std::string reason;
  if (options.best_hold_mode > HoldMode::kYielding) {
    wanted.Remove(KernelFeature::kYieldingHold);
    reason = "yielding is switched off";
  }
  auto state = std::make_unique<State>();
  ASSIGN_OR_RETURN(state->loaded, LoadPrograms(wanted, options.lacking));
  state->skeleton = state->loaded.skeleton.get();
  state->links.emplace(state->loaded.multi_probes,
                       state->loaded.features.Has(KernelFeature::kCookies));
  state->followed.emplace(state->skeleton->maps.followed);
  for (const MissingFeature& missing : state->loaded.missing) {
    if (missing.feature == KernelFeature::kYieldingHold) {
      reason = absl::StrCat("yielding does not load: ", missing.reason);
    }
  }
  auto probe = std::unique_ptr<KernelProbe>(new KernelProbe(std::move(state)));
  probe->hold_mode_ = probe->features().Has(KernelFeature::kYieldingHold)
                          ? HoldMode::kYielding
                          : HoldMode::kSignal;
  probe->hold_mode_reason_ = reason;
  RETURN_IF_ERROR(probe->Start(options));
  return probe;
}

KernelFeatures KernelProbe::features() const {
  return state_->loaded.features;
}

const std::vector<MissingFeature>& KernelProbe::missing_features() const {
  return state_->loaded.missing;
}

absl::Status KernelProbe::Start(const KernelProbeOptions& options) {
  state_->ring = ring_buffer__new(bpf_map__fd(state_->skeleton->maps.events),
                                  State::OnEvent, state_.get(), nullptr);
  if (state_->ring == nullptr) {
    return ErrnoStatus(errno, "ring_buffer__new(events) failed");
  }
  RETURN_IF_ERROR(MapLayouts());
  rocattach_settings& settings = state_->skeleton->bss->settings;
  settings.hold = options.hold ? 1 : 0;
  // On a kernel that cannot run it, this process's own ID is used, and holds that are
  // in progress when the service dies last until their deadline.
  if (features().Has(KernelFeature::kServiceEnd)) {
    LIBBPF_OPTS(bpf_test_run_opts, run);
    const int rc = bpf_prog_test_run_opts(
        bpf_program__fd(state_->skeleton->progs.note_service), &run);
    if (rc != 0) {
      state_->loaded.features.Remove(KernelFeature::kServiceEnd);
      state_->loaded.missing.push_back({KernelFeature::kServiceEnd, strerror(errno)});
    }
  }
  const uint32_t tgid = state_->skeleton->bss->service.tgid;
  settings.service_tgid = tgid != 0 ? tgid : static_cast<uint32_t>(getpid());
  settings.limit_ns = options.hold_deadline_ns;
  settings.only_below = static_cast<uint32_t>(options.only_below);
  settings.only_cgroup = options.only_cgroup;
  settings.only_followed = options.only_followed ? 1 : 0;
  const BudgetLimits& budget = options.budget;
  settings.user_processes = budget.processes_per_user;
  if (budget.windows_per_second > 0) {
    settings.window_interval_ns = 1'000'000'000 / budget.windows_per_second;
    settings.window_burst_ns = uint64_t{BudgetLimits::kBurstSeconds} * 1'000'000'000;
  }
  const uint32_t others = ROCATTACH_OTHER_USERS;
  const rocattach_account empty = {};
  if (bpf_map__update_elem(state_->skeleton->maps.accounts, &others, sizeof(others),
                           &empty, sizeof(empty), BPF_ANY) != 0) {
    return ErrnoStatus(errno, "bpf_map_update_elem(accounts) failed");
  }
  const auto& programs = state_->skeleton->progs;
  std::vector<bpf_program*> tracepoints = {programs.process_exit,
                                           programs.process_exec};
  if (options.only_followed) tracepoints.push_back(programs.process_fork);
  for (bpf_program* program : tracepoints) {
    RETURN_IF_ERROR(state_->links->AddTracepoint(program));
  }
  return absl::OkStatus();
}

absl::Status KernelProbe::MapLayouts() {
  void* memory = mmap(nullptr, sizeof(rocattach_layout) * ROCATTACH_LAYOUTS, PROT_READ,
                      MAP_SHARED, bpf_map__fd(state_->skeleton->maps.layouts), 0);
  if (memory == MAP_FAILED) return ErrnoStatus(errno, "mmap(layouts) failed");
  state_->layouts = static_cast<const rocattach_layout*>(memory);
  return absl::OkStatus();
}

void KernelProbe::ForgetSettledWindow(const ProcessId& process) {
  const bpf_map* claims = state_->skeleton->maps.claims;
  const std::optional<rocattach_process_key> key = FindClaim(claims, process);
  if (!key.has_value()) return;
  std::optional<rocattach_claim> claim = ReadClaim(claims, *key);
  if (!claim.has_value() || claim->state != ROCATTACH_CLAIM_RELEASED) return;
  claim->state = ROCATTACH_CLAIM_FORGOTTEN;
  (void)bpf_map__update_elem(claims, &*key, sizeof(*key), &*claim, sizeof(*claim),
                             BPF_EXIST);
}

bool KernelProbe::HasWindow(const ProcessId& process) const {
  return FindClaim(state_->skeleton->maps.claims, process).has_value();
}

void KernelProbe::CloseWindow(const ProcessId& process) {
  const bpf_map* claims = state_->skeleton->maps.claims;
  const std::optional<rocattach_process_key> key = FindClaim(claims, process);
  if (!key.has_value()) return;
  std::optional<rocattach_claim> claim = ReadClaim(claims, *key);
  if (!claim.has_value() || claim->state != ROCATTACH_CLAIM_OPEN) return;
  claim->state = ROCATTACH_CLAIM_RELEASED;
  (void)bpf_map__update_elem(claims, &*key, sizeof(*key), &*claim, sizeof(*claim),
                             BPF_EXIST);
}

bool KernelProbe::IsServed(const ProcessId& process) const {
  const bpf_map* claims = state_->skeleton->maps.claims;
  const std::optional<rocattach_process_key> key = FindClaim(claims, process);
  if (!key.has_value()) return false;
  const std::optional<rocattach_claim> claim = ReadClaim(claims, *key);
  return claim.has_value() && (claim->state == ROCATTACH_CLAIM_OPEN ||
                               claim->state == ROCATTACH_CLAIM_READY);
}

absl::Status KernelProbe::ExpectReport(const ProcessId& process, uint64_t window_id) {
  const auto key = static_cast<uint32_t>(process.pid);
  if (bpf_map__update_elem(state_->skeleton->maps.late_windows, &key, sizeof(key),
                           &window_id, sizeof(window_id), BPF_ANY) != 0) {
    return ErrnoStatus(errno, absl::StrCat("bpf_map_update_elem(late_windows, ",
                                           process.pid, ") failed"));
  }
  return absl::OkStatus();
}

void KernelProbe::ForgetReport(const ProcessId& process) {
  const auto key = static_cast<uint32_t>(process.pid);
  (void)bpf_map__delete_elem(state_->skeleton->maps.late_windows, &key, sizeof(key), 0);
}

absl::Status KernelProbe::AddLibrary(const std::string& path, uint64_t file_offset,
                                     uint64_t cookie) {
  return state_->links->AddLibrary(state_->HsaInitProgram(hold_mode_), path,
                                   file_offset, cookie);
}

void KernelProbe::RemoveLibraries(const std::vector<uint64_t>& cookies) {
  state_->links->RemoveLibraries(cookies);
}

absl::Status KernelProbe::AddLateProbes(const ProcessId& process,
                                        const std::string& path,
                                        const std::vector<uint64_t>& file_offsets,
                                        uint64_t cookie) {
  if (file_offsets.empty()) return absl::NotFoundError("no function to probe");
  if (hold_mode_ == HoldMode::kSignal) {
    RETURN_IF_ERROR(state_->links->AddLate(state_->skeleton->progs.runtime_call_signal,
                                           process, path, file_offsets, /*cookie=*/0));
  } else if (features().Has(KernelFeature::kCookies)) {
    RETURN_IF_ERROR(state_->links->AddLate(state_->HsaInitProgram(hold_mode_), process,
                                           path, file_offsets,
                                           cookie | ROCATTACH_COOKIE_LATE));
  } else {
    return absl::UnimplementedError(
        "this kernel cannot tell late probes from others (cookies, Linux 5.15)");
  }
  // The kernel takes a process ID, which may have become another process's.
  if (Lives(process)) return absl::OkStatus();
  state_->links->RemoveLate({process});
  return absl::NotFoundError(absl::StrCat("process ", process.pid, " has ended"));
}

// A slot is not reused right after its end: the kernel side may still be reading it.
std::unique_ptr<AwaitedCall> KernelProbe::AwaitCall(const ProcessId& process) {
  if (!features().Has(KernelFeature::kCallStops)) return nullptr;
  State& state = *state_;
  absl::MutexLock lock(&state.mutex);
  if (state.taken_calls.all()) return nullptr;
  while (state.taken_calls[state.next_call]) {
    state.next_call = (state.next_call + 1) % ROCATTACH_CALLS;
  }
  const auto place = static_cast<uint32_t>(state.next_call);
  const auto key = static_cast<uint32_t>(process.pid);
  const bpf_map* places = state.skeleton->maps.call_of;
  if (bpf_map__update_elem(places, &key, sizeof(key), &place, sizeof(place), BPF_ANY) !=
      0) {
    return nullptr;
  }
  state.taken_calls[place] = true;
  state.next_call = (state.next_call + 1) % ROCATTACH_CALLS;
  return std::make_unique<AwaitedCall>(
      &state.skeleton->bss->calls[place], [&state, places, place, key] {
        (void)bpf_map__delete_elem(places, &key, sizeof(key), 0);
        absl::MutexLock back(&state.mutex);
        state.taken_calls[place] = false;
      });
}

void KernelProbe::RemoveLateProbes(const std::vector<ProcessId>& processes) {
  state_->links->RemoveLate(processes);
}

FollowedProcesses& KernelProbe::followed() {
  return *state_->followed;
}

absl::Status KernelProbe::AddCollector(const std::string& path, uint64_t ready_offset,
                                       uint64_t unloaded_offset) {
  auto& programs = state_->skeleton->progs;
  for (auto [program, offset] :
       {std::pair(programs.collector_ready, ready_offset),
        std::pair(programs.collector_unloaded, unloaded_offset)}) {
    RETURN_IF_ERROR(state_->links->AddUprobe(program, path, offset));
  }
  return absl::OkStatus();
}

void KernelProbe::SetPaused(bool paused) {
  __atomic_store_n(&state_->skeleton->bss->settings.paused, paused ? 1u : 0u,
                   __ATOMIC_RELEASE);
}

absl::Status KernelProbe::DenyComm(absl::string_view comm) {
  char key[ROCATTACH_COMM_BYTES] = {};
  // The kernel keeps 15 characters of a command's name.
  memcpy(key, comm.data(), std::min(comm.size(), sizeof(key) - 1));
  uint8_t one = 1;
  if (bpf_map__update_elem(state_->skeleton->maps.deny_comm, key, sizeof(key), &one,
                           sizeof(one), BPF_ANY) != 0) {
    return ErrnoStatus(
        errno, absl::StrCat("bpf_map_update_elem(deny_comm, ", comm, ") failed"));
  }
  return absl::OkStatus();
}

void KernelProbe::OnlyUid(uint32_t uid) {
  rocattach_settings& settings = state_->skeleton->bss->settings;
  settings.only_uid = uid;
  __atomic_store_n(&settings.only_uid_set, 1u, __ATOMIC_RELEASE);
}

void KernelProbe::Release(const rocattach_event& window) {
  rocattach_process_key key = {window.pid, 0, window.start_ns};
  rocattach_claim claim = {};
  if (bpf_map__lookup_elem(state_->skeleton->maps.claims, &key, sizeof(key), &claim,
                           sizeof(claim), 0) != 0) {
    return;
  }
  // Skip a later window's claim, and one that is settled.
  if (claim.opened_ns != window.time_ns || claim.state != ROCATTACH_CLAIM_OPEN) return;
  claim.state = ROCATTACH_CLAIM_RELEASED;
  // BPF_EXIST: a claim that was removed with its process must not be recreated.
  (void)bpf_map__update_elem(state_->skeleton->maps.claims, &key, sizeof(key), &claim,
                             sizeof(claim), BPF_EXIST);
}

bool KernelProbe::IsOpen(const rocattach_event& event) const {
  rocattach_process_key key = {event.pid, 0, event.start_ns};
  if (event.type == ROCATTACH_EVENT_FOLLOW) {
    // The window may belong to another process, with which this one shares its memory.
    key = event.follow;
  }
  rocattach_claim claim = {};
  return bpf_map__lookup_elem(state_->skeleton->maps.claims, &key, sizeof(key), &claim,
                              sizeof(claim), 0) == 0 &&
         claim.state == ROCATTACH_CLAIM_OPEN;
}

const rocattach_layout* KernelProbe::LayoutOf(const rocattach_event& window) const {
  if (state_->layouts == nullptr || window.layout == 0 ||
      window.layout > ROCATTACH_LAYOUTS) {
    return nullptr;
  }
  return &state_->layouts[window.layout - 1];
}

bool KernelProbe::describes_processes() const {
  return features().Has(KernelFeature::kLayouts);
}

bool KernelProbe::IsHeld(const rocattach_event& window) const {
  const rocattach_layout* layout = LayoutOf(window);
  return layout != nullptr &&
         __atomic_load_n(&layout->held_ns, __ATOMIC_ACQUIRE) == window.time_ns &&
         __atomic_load_n(&layout->tid, __ATOMIC_ACQUIRE) == window.tid;
}

bool KernelProbe::ReadLayout(const rocattach_event& window,
                             rocattach_layout* copy) const {
  const rocattach_layout* layout = LayoutOf(window);
  if (layout == nullptr) return false;
  // The entry may be reused for another window meanwhile, which clears the time first.
  auto is_whole = [layout, &window] {
    return __atomic_load_n(&layout->window_ns, __ATOMIC_ACQUIRE) == window.time_ns;
  };
  if (!is_whole()) return false;
  // Copies no more than needed: each line that the held thread's CPU has written has to
  // come from that CPU's cache.
  memcpy(copy, layout, offsetof(rocattach_layout, files));
  if (copy->count > ROCATTACH_LAYOUT_FILES) return false;
  memcpy(copy->files, layout->files, copy->count * sizeof(copy->files[0]));
  std::atomic_thread_fence(std::memory_order_acquire);
  return is_whole() && copy->tid == window.tid;
}

void KernelProbe::SetFileKind(const rocattach_file_key& file,
                              rocattach_file_kind kind) const {
  const auto value = static_cast<uint8_t>(kind);
  // If this fails, the file is inspected again.
  (void)bpf_map__update_elem(state_->skeleton->maps.file_kinds, &file, sizeof(file),
                             &value, sizeof(value), BPF_ANY);
}

int KernelProbe::events_fd() const {
  // Uses the ring itself: waking up through an epoll descriptor takes longer.
  return bpf_map__fd(state_->skeleton->maps.events);
}

bool KernelProbe::HasUrgentEvents() const {
  return __atomic_load_n(&state_->skeleton->bss->urgent_events, __ATOMIC_RELAXED) !=
         state_->urgent_consumed.load(std::memory_order_relaxed);
}

bool KernelProbe::ConsumeOne(const std::function<void(const rocattach_event&)>& visit) {
  state_->visit = &visit;
  int rc = ring_buffer__consume(state_->ring);
  state_->visit = nullptr;
  return rc == -EINTR;
}

KernelStats KernelProbe::ReadStats() const {
  KernelStats sum = {};
  int cpus = libbpf_num_possible_cpus();
  if (cpus <= 0) return sum;
  std::vector<KernelStats> each(static_cast<size_t>(cpus));
  uint32_t zero = 0;
  if (bpf_map__lookup_elem(state_->skeleton->maps.stats, &zero, sizeof(zero),
                           each.data(), each.size() * sizeof(KernelStats), 0) != 0) {
    return sum;
  }
  for (const KernelStats& one : each) {
    sum.hits += one.hits;
    sum.windows += one.windows;
    sum.lost += one.lost;
    sum.claims_full += one.claims_full;
    sum.held += one.held;
    sum.deadlines += one.deadlines;
    sum.over_budget += one.over_budget;
  }
  // Malformed events are lost, like those that found no room.
  sum.lost += state_->malformed;
  return sum;
}

std::vector<UserRefusals> KernelProbe::ReadRefusals() const {
  std::vector<UserRefusals> refusals;
  const bpf_map* map = state_->skeleton->maps.accounts;
  uint32_t user = 0, next = 0;
  const uint32_t* before = nullptr;
  while (bpf_map__get_next_key(map, before, &next, sizeof(next)) == 0) {
    user = next;
    before = &user;
    rocattach_account account = {};
    if (bpf_map__lookup_elem(map, &user, sizeof(user), &account, sizeof(account), 0) ==
            0 &&
        account.refused > 0) {
      refusals.push_back({user, account.refused});
    }
  }
  return refusals;
}

}  // namespace rocattach
