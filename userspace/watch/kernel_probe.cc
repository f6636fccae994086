#include "userspace/watch/kernel_probe.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <errno.h>
#include <linux/btf.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdarg>
#include <cstddef>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "bpf/watch.skel.h"
#include "userspace/base/status_macros.h"

namespace rocattach {
namespace {

static_assert(sizeof(rocattach_event) == 128, "shared with the BPF programs");
static_assert(sizeof(rocattach_settings) == 40, "shared with the BPF programs");
static_assert(sizeof(rocattach_layout) == 64 + ROCATTACH_LAYOUT_FILES * 56,
              "shared with the BPF programs");

// The keys of the BPF maps, as bpf/watch.bpf.c declares them.
struct ClaimKey {
  uint32_t tgid;
  uint32_t pad;
  uint64_t start_ns;
};
struct Claim {
  uint32_t state;
  uint32_t tid;
  uint64_t opened_ns;
};
constexpr uint32_t kClaimOpen = 0;
constexpr uint32_t kClaimReleased = 1;

// libbpf speaks through a callback without a context; the verifier's log is only of use
// when a load fails, so it is kept and shown then.
thread_local std::string* captured_log = nullptr;

int CaptureLog(libbpf_print_level, const char* format, va_list args) {
  if (captured_log == nullptr) return 0;
  char line[1024];
  int n = vsnprintf(line, sizeof(line), format, args);
  if (n > 0 && captured_log->size() < 64 * 1024) captured_log->append(line);
  return 0;
}

std::string LastLines(const std::string& log, int lines) {
  size_t at = log.size();
  while (at > 0 && lines > 0) {
    at = log.rfind('\n', at - 1);
    if (at == std::string::npos) return log;
    --lines;
  }
  return log.substr(at);
}

std::string LoadHelp(int error) {
  if (error == EPERM || error == EACCES) {
    return "loading BPF programs needs root, or CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN";
  }
  return "run 'rocattach doctor' to see what this kernel lacks";
}

}  // namespace

KernelTypes LookAtKernelTypes() {
  btf* types = btf__load_vmlinux_btf();
  if (types == nullptr) return {};
  KernelTypes found;
  found.present = true;
  found.lists_mappings =
      btf__find_by_name_kind(types, "bpf_iter_task_vma_new", BTF_KIND_FUNC) > 0;
  btf__free(types);
  return found;
}

absl::string_view HoldRungName(HoldRung rung) {
  switch (rung) {
    case HoldRung::kYielding:
      return "yielding";
    case HoldRung::kSignal:
      return "signal";
    case HoldRung::kNone:
      return "none";
  }
  return "unknown";
}

absl::string_view HoldRungHelp(HoldRung rung) {
  switch (rung) {
    case HoldRung::kYielding:
      return "the thread waits inside a sleepable uprobe; no signal, nothing that a "
             "parent or a shell can see";
    case HoldRung::kSignal:
      return "processes are seized when they map the library, and a private stop holds "
             "the thread; while seized they cannot be debugged";
    case HoldRung::kNone:
      return "windows are reported, not held";
  }
  return "";
}

struct KernelProbe::State {
  watch_bpf* skeleton = nullptr;
  ring_buffer* ring = nullptr;
  std::vector<bpf_link*> links;
  const std::function<void(const rocattach_event&)>* visit = nullptr;
  std::atomic<uint64_t> malformed = 0;
  std::atomic<uint64_t> urgent_consumed = 0;
  const rocattach_layout* layouts = nullptr;  // ROCATTACH_LAYOUTS; null: none

  ~State() {
    if (layouts != nullptr) {
      munmap(const_cast<rocattach_layout*>(layouts),
             sizeof(*layouts) * ROCATTACH_LAYOUTS);
    }
    for (bpf_link* link : links) bpf_link__destroy(link);
    if (ring != nullptr) ring_buffer__free(ring);
    if (skeleton != nullptr) watch_bpf__destroy(skeleton);
  }

  // 0, or a negative errno, with what libbpf and the verifier said in `log`.
  int Load(HoldRung rung, bool lists_mappings, std::string* log);

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
    return -EINTR;  // one record a call: ends the loop, the record counts as consumed
  }
};

KernelProbe::KernelProbe(std::unique_ptr<State> state) : state_(std::move(state)) {}
KernelProbe::~KernelProbe() = default;

int KernelProbe::State::Load(HoldRung rung, bool lists_mappings, std::string* log) {
  captured_log = log;
  skeleton = watch_bpf__open();
  int rc = skeleton == nullptr ? -errno : 0;
  if (rc == 0) {
    auto& programs = skeleton->progs;
    bpf_program__set_autoload(programs.hsa_init_yield, rung == HoldRung::kYielding);
    bpf_program__set_autoload(programs.hsa_init_signal, rung == HoldRung::kSignal);
    skeleton->rodata->read_layouts = lists_mappings ? 1 : 0;
    rc = watch_bpf__load(skeleton);
  }
  captured_log = nullptr;
  return rc;
}

absl::StatusOr<std::unique_ptr<KernelProbe>> KernelProbe::Load(
    const KernelProbeOptions& options) {
  libbpf_set_print(CaptureLog);
  const KernelTypes types = LookAtKernelTypes();
  if (!types.present) {
    return absl::FailedPreconditionError(
        "this kernel does not describe its types (no BTF in /sys/kernel/btf/vmlinux), "
        "which the probes need to find their way in it: run a kernel that is built "
        "with CONFIG_DEBUG_INFO_BTF=y, as those of Debian 12, Ubuntu 22.04 and RHEL 9 "
        "are");
  }
  std::string reason;
  absl::Status failure;
  for (HoldRung rung : {HoldRung::kYielding, HoldRung::kSignal}) {
    if (rung < options.best_rung) {
      absl::StrAppend(&reason, reason.empty() ? "" : "; ", HoldRungName(rung),
                      " is switched off");
      continue;
    }
    std::string log;
    auto state = std::make_unique<State>();
    const int rc = state->Load(rung, types.lists_mappings, &log);
    if (rc == 0) {
      auto probe = std::unique_ptr<KernelProbe>(new KernelProbe(std::move(state)));
      probe->rung_ = rung;
      probe->rung_reason_ = reason;
      RETURN_IF_ERROR(probe->Start(options));
      return probe;
    }
    failure = absl::ErrnoToStatus(
        -rc, absl::StrCat("loading the BPF programs (", HoldRungName(rung),
                          " hold) failed: ", LoadHelp(-rc)));
    absl::StrAppend(&reason, HoldRungName(rung), " does not load (", strerror(-rc),
                    "); ");
    if (rc == -EPERM) break;  // the lower rungs need the same capabilities
    if (!log.empty()) {
      failure = absl::Status(failure.code(),
                             absl::StrCat(failure.message(), "\n", LastLines(log, 12)));
    }
  }
  return failure;
}

absl::Status KernelProbe::Start(const KernelProbeOptions& options) {
  state_->ring = ring_buffer__new(bpf_map__fd(state_->skeleton->maps.events),
                                  State::OnEvent, state_.get(), nullptr);
  if (state_->ring == nullptr) {
    return absl::ErrnoToStatus(errno, "ring_buffer__new(events) failed");
  }
  RETURN_IF_ERROR(MapLayouts());
  settings_.hold = options.hold ? 1 : 0;
  // A kernel that cannot run it takes our own word for who we are; holds that are under
  // way when the service dies then last until their deadline.
  LIBBPF_OPTS(bpf_test_run_opts, run);
  (void)bpf_prog_test_run_opts(bpf_program__fd(state_->skeleton->progs.note_service),
                               &run);
  const uint32_t tgid = state_->skeleton->bss->service.tgid;
  settings_.service_tgid = tgid != 0 ? tgid : static_cast<uint32_t>(getpid());
  settings_.rung = static_cast<uint32_t>(rung_);
  settings_.limit_ns = options.hold_deadline_ns;
  settings_.only_below = static_cast<uint32_t>(options.only_below);
  RETURN_IF_ERROR(WriteSettings());
  for (bpf_program* program :
       {state_->skeleton->progs.process_exit, state_->skeleton->progs.process_exec}) {
    bpf_link* link = bpf_program__attach(program);
    if (link == nullptr) {
      return absl::ErrnoToStatus(errno,
                                 absl::StrCat("attaching ", bpf_program__name(program),
                                              " to its raw tracepoint failed"));
    }
    state_->links.push_back(link);
  }
  return absl::OkStatus();
}

absl::Status KernelProbe::MapLayouts() {
  if (state_->skeleton->rodata->read_layouts == 0) return absl::OkStatus();
  void* memory = mmap(nullptr, sizeof(rocattach_layout) * ROCATTACH_LAYOUTS, PROT_READ,
                      MAP_SHARED, bpf_map__fd(state_->skeleton->maps.layouts), 0);
  if (memory == MAP_FAILED) return absl::ErrnoToStatus(errno, "mmap(layouts) failed");
  state_->layouts = static_cast<const rocattach_layout*>(memory);
  return absl::OkStatus();
}

absl::Status KernelProbe::WriteSettings() {
  uint32_t zero = 0;
  if (bpf_map__update_elem(state_->skeleton->maps.settings, &zero, sizeof(zero),
                           &settings_, sizeof(settings_), BPF_ANY) != 0) {
    return absl::ErrnoToStatus(errno, "bpf_map_update_elem(settings) failed");
  }
  return absl::OkStatus();
}

absl::Status KernelProbe::AddLibrary(const std::string& path, uint64_t file_offset,
                                     uint64_t cookie) {
  DECLARE_LIBBPF_OPTS(bpf_uprobe_opts, options);
  options.bpf_cookie = cookie;
  bpf_program* program = rung_ == HoldRung::kYielding
                             ? state_->skeleton->progs.hsa_init_yield
                             : state_->skeleton->progs.hsa_init_signal;
  bpf_link* link = bpf_program__attach_uprobe_opts(program, /*pid=*/-1, path.c_str(),
                                                   file_offset, &options);
  if (link == nullptr) {
    return absl::ErrnoToStatus(errno, absl::StrCat("uprobe on ", path, "+0x",
                                                   absl::Hex(file_offset), " failed"));
  }
  state_->links.push_back(link);
  return absl::OkStatus();
}

absl::Status KernelProbe::AddCollector(const std::string& path, uint64_t ready_offset,
                                       uint64_t unloaded_offset) {
  auto& programs = state_->skeleton->progs;
  for (auto [program, offset] :
       {std::pair(programs.collector_ready, ready_offset),
        std::pair(programs.collector_unloaded, unloaded_offset)}) {
    bpf_link* link = bpf_program__attach_uprobe(program, /*retprobe=*/false, /*pid=*/-1,
                                                path.c_str(), offset);
    if (link == nullptr) {
      return absl::ErrnoToStatus(
          errno, absl::StrCat("uprobe on ", path, "+0x", absl::Hex(offset), " failed"));
    }
    state_->links.push_back(link);
  }
  return absl::OkStatus();
}

absl::Status KernelProbe::SetPaused(bool paused) {
  settings_.paused = paused ? 1 : 0;
  return WriteSettings();
}

absl::Status KernelProbe::DenyComm(absl::string_view comm) {
  char key[ROCATTACH_COMM_BYTES] = {};
  // The kernel keeps 15 characters of a command's name.
  memcpy(key, comm.data(), std::min(comm.size(), sizeof(key) - 1));
  uint8_t one = 1;
  if (bpf_map__update_elem(state_->skeleton->maps.deny_comm, key, sizeof(key), &one,
                           sizeof(one), BPF_ANY) != 0) {
    return absl::ErrnoToStatus(
        errno, absl::StrCat("bpf_map_update_elem(deny_comm, ", comm, ") failed"));
  }
  return absl::OkStatus();
}

absl::Status KernelProbe::OnlyUid(uint32_t uid) {
  settings_.only_uid_set = 1;
  settings_.only_uid = uid;
  return WriteSettings();
}

void KernelProbe::Release(const rocattach_event& window) {
  ClaimKey key = {window.pid, 0, window.start_ns};
  Claim claim = {kClaimReleased, window.tid, window.time_ns};
  // BPF_EXIST: a claim that has gone with its process must not come back.
  (void)bpf_map__update_elem(state_->skeleton->maps.claims, &key, sizeof(key), &claim,
                             sizeof(claim), BPF_EXIST);
}

bool KernelProbe::IsOpen(const rocattach_event& event) const {
  ClaimKey key = {event.pid, 0, event.start_ns};
  Claim claim = {};
  return bpf_map__lookup_elem(state_->skeleton->maps.claims, &key, sizeof(key), &claim,
                              sizeof(claim), 0) == 0 &&
         claim.state == kClaimOpen;
}

const rocattach_layout* KernelProbe::LayoutOf(const rocattach_event& window) const {
  if (state_->layouts == nullptr || window.layout == 0 ||
      window.layout > ROCATTACH_LAYOUTS) {
    return nullptr;
  }
  return &state_->layouts[window.layout - 1];
}

bool KernelProbe::describes_processes() const {
  return state_->layouts != nullptr;
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
  // It may be given to another window meanwhile: that one clears the time first.
  auto is_whole = [layout, &window] {
    return __atomic_load_n(&layout->window_ns, __ATOMIC_ACQUIRE) == window.time_ns;
  };
  if (!is_whole()) return false;
  // No more than there is: what the held thread's processor has written comes line by
  // line from its cache.
  memcpy(copy, layout, offsetof(rocattach_layout, files));
  if (copy->count > ROCATTACH_LAYOUT_FILES) return false;
  memcpy(copy->files, layout->files, copy->count * sizeof(copy->files[0]));
  std::atomic_thread_fence(std::memory_order_acquire);
  return is_whole() && copy->tid == window.tid;
}

void KernelProbe::SetFileKind(const rocattach_file_key& file,
                              rocattach_file_kind kind) const {
  const auto value = static_cast<uint8_t>(kind);
  // One that does not arrive is asked about again.
  (void)bpf_map__update_elem(state_->skeleton->maps.file_kinds, &file, sizeof(file),
                             &value, sizeof(value), BPF_ANY);
}

int KernelProbe::events_fd() const {
  // The ring itself: waking up through an epoll descriptor around it takes longer.
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
  }
  // Whatever they told of is as lost as what found no room.
  sum.lost += state_->malformed;
  return sum;
}

}  // namespace rocattach
