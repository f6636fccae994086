#include "userspace/watch/windows/kernel_programs.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/btf.h>
#include <string.h>

#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "bpf/watch.skel.h"
#include "bpf/watch_older.skel.h"
#include "userspace/base/errno_status.h"

namespace rocattach {
namespace {

// libbpf logs through a callback without a context; the verifier's log is of use only
// when a load fails, so it is kept and shown then.
thread_local std::string* captured_log = nullptr;

int CaptureLog(libbpf_print_level, const char* format, va_list args) {
  if (captured_log == nullptr) return 0;
  va_list again;
  va_copy(again, args);
  const int size = vsnprintf(nullptr, 0, format, again);
  va_end(again);
  if (size <= 0) return 0;
  std::string text(static_cast<size_t>(size) + 1, '\0');
  vsnprintf(text.data(), text.size(), format, args);
  text.pop_back();
  // A verifier's log comes in one piece; its end states what was wrong.
  constexpr size_t kMost = 64 * 1024;
  captured_log->append(text, text.size() > kMost ? text.size() - kMost : 0);
  return 0;
}

// Resets the log's destination when the load ends, by any path.
class LogCapture {
 public:
  explicit LogCapture(std::string* log) { captured_log = log; }
  ~LogCapture() { captured_log = nullptr; }
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;
};

std::string LastLines(const std::string& log, int lines) {
  size_t at = log.size();
  while (at > 0 && lines > 0) {
    at = log.rfind('\n', at - 1);
    if (at == std::string::npos) return log;
    --lines;
  }
  return log.substr(at);
}

// The verifier's last message on a program, which precedes its statistics; without one,
// the error's name.
std::string Cause(const std::string& log, int error) {
  absl::string_view last;
  for (absl::string_view line : absl::StrSplit(log, '\n')) {
    if (absl::StartsWith(line, "processed ") && !last.empty()) {
      return absl::StrCat("the verifier says '", last, "'");
    }
    line = absl::StripAsciiWhitespace(line);
    if (!line.empty() && !absl::StartsWith(line, "libbpf:")) last = line;
  }
  return strerror(error);
}

std::string LoadHelp(int error) {
  if (error == EPERM || error == EACCES) {
    return "loading BPF programs needs root, or CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN";
  }
  return "run 'rocattach doctor' to see what this kernel lacks";
}

absl::Status LoadFailure(absl::string_view what, int error, const std::string& log) {
  std::string text = absl::StrCat("loading ", what, " failed: ", LoadHelp(error));
  if (!log.empty()) absl::StrAppend(&text, "\n", LastLines(log, 12));
  return ErrnoStatus(error, text);
}

// The second object has the same programs, maps and variables, so that one skeleton
// serves both. (The compiler may order variables freely, but does the same in both.)
#define ROCATTACH_SAME_PLACE(section, field)                        \
  static_assert(offsetof(watch_bpf::watch_bpf__##section, field) == \
                offsetof(watch_older_bpf::watch_older_bpf__##section, field))
static_assert(sizeof(watch_bpf::watch_bpf__bss) ==
              sizeof(watch_older_bpf::watch_older_bpf__bss));
static_assert(sizeof(watch_bpf::watch_bpf__rodata) ==
              sizeof(watch_older_bpf::watch_older_bpf__rodata));
ROCATTACH_SAME_PLACE(bss, settings);
ROCATTACH_SAME_PLACE(bss, service);
ROCATTACH_SAME_PLACE(bss, urgent_events);
ROCATTACH_SAME_PLACE(bss, calls);
ROCATTACH_SAME_PLACE(rodata, read_layouts);
ROCATTACH_SAME_PLACE(rodata, use_cookies);
ROCATTACH_SAME_PLACE(rodata, stop_at_calls);
#undef ROCATTACH_SAME_PLACE

// Returns null and sets errno if that fails.
watch_bpf* OpenPrograms(bool with_atomics) {
  if (with_atomics) return watch_bpf__open();
  auto* programs = static_cast<watch_bpf*>(calloc(1, sizeof(watch_bpf)));
  if (programs == nullptr) return nullptr;
  int rc = watch_bpf__create_skeleton(programs);
  if (rc == 0) {
    size_t size = 0;
    programs->skeleton->data = watch_older_bpf__elf_bytes(&size);
    programs->skeleton->data_sz = size;
    rc = bpf_object__open_skeleton(programs->skeleton, nullptr);
  }
  if (rc != 0) {
    watch_bpf__destroy(programs);
    errno = -rc;
    return nullptr;
  }
  return programs;
}

// Tries once to load exactly these features: returns 0, or a negative errno with the
// messages of libbpf and the verifier in `log`.
int TryLoad(KernelFeatures features, KernelFeatures lacking, LoadedPrograms* loaded,
            std::string* log) {
  log->clear();
  if (features.Overlaps(lacking)) return -EINVAL;
  LogCapture capture(log);
  loaded->skeleton.reset(OpenPrograms(features.Has(KernelFeature::kAtomics)));
  if (loaded->skeleton == nullptr) return -errno;
  auto& programs = loaded->skeleton->progs;
  bpf_program__set_autoload(programs.hsa_init_yield,
                            features.Has(KernelFeature::kYieldingHold));
  bpf_program__set_autoload(programs.hsa_init_signal,
                            features.Has(KernelFeature::kSignalHold));
  bpf_program__set_autoload(programs.runtime_call_signal,
                            features.Has(KernelFeature::kSignalHold));
  bpf_program__set_autoload(programs.note_service,
                            features.Has(KernelFeature::kServiceEnd));
  loaded->skeleton->rodata->read_layouts = features.Has(KernelFeature::kLayouts);
  loaded->skeleton->rodata->use_cookies = features.Has(KernelFeature::kCookies);
  loaded->skeleton->rodata->stop_at_calls = features.Has(KernelFeature::kCallStops);
  if (loaded->multi_probes) {
    for (bpf_program* program : {programs.hsa_init_yield, programs.hsa_init_signal,
                                 programs.runtime_call_signal}) {
      bpf_program__set_expected_attach_type(
          program, static_cast<bpf_attach_type>(kUprobeMultiAttachType));
    }
  }
  loaded->features = features;
  const int rc = watch_bpf__load(loaded->skeleton.get());
  if (rc != 0) loaded->skeleton.reset();
  return rc;
}

// True if the features that `feature` depends on are present.
bool IsUsable(KernelFeature feature, KernelFeatures features) {
  if (feature == KernelFeature::kYieldingHold) {
    return features.Has(KernelFeature::kAtomics);
  }
  return feature != KernelFeature::kLayouts ||
         features.Has(KernelFeature::kYieldingHold);
}

// Finds the features that load, by adding one after the other to those that do.
KernelFeatures FindLoadable(KernelFeatures wanted, KernelFeatures lacking,
                            std::vector<MissingFeature>* missing) {
  KernelFeatures features;
  std::string log;
  LoadedPrograms trial;
  for (KernelFeature feature : kKernelFeatures) {
    if (wanted.Has(feature) && feature == KernelFeature::kYieldingHold &&
        !IsUsable(feature, features)) {
      missing->push_back(
          {feature, absl::StrCat("it needs '",
                                 DescribeFeature(KernelFeature::kAtomics).name, "'")});
      continue;
    }
    if (!wanted.Has(feature) || !IsUsable(feature, features) ||
        (feature == KernelFeature::kSignalHold &&
         features.Has(KernelFeature::kYieldingHold))) {
      continue;
    }
    KernelFeatures more = features;
    more.Add(feature);
    const int rc = TryLoad(more, lacking, &trial, &log);
    if (rc == 0) {
      features = more;
    } else {
      missing->push_back({feature, Cause(log, -rc)});
    }
  }
  return features;
}

}  // namespace

KernelFeatureText DescribeFeature(KernelFeature feature) {
  switch (feature) {
    case KernelFeature::kYieldingHold:
      return {"yielding-hold",
              "sleepable uprobes with bpf_loop and bpf_copy_from_user_task (Linux 6.0)",
              "Processes are held by a private stop (hold mode 'signal')."};
    case KernelFeature::kSignalHold:
      return {"signal-hold", "bpf_send_signal_thread", "There is no signal hold mode."};
    case KernelFeature::kLayouts:
      return {"layouts", "bpf_iter_task_vma (Linux 6.7)",
              "An attach reads /proc/PID/maps, and holds the thread some 100 us longer "
              "for it."};
    case KernelFeature::kCookies:
      return {"cookies", "bpf_get_attach_cookie",
              "A recording does not say which copy of the HSA runtime a process uses."};
    case KernelFeature::kAtomics:
      return {
          "atomics",
          "atomic operations that return a value and typed pointers to the current "
          "task (Linux 5.12)",
          "A second set of programs is used: if several threads of a process call the "
          "runtime in the same moment, a late attach may wait for one more call."};
    case KernelFeature::kServiceEnd:
      return {"service-end", "BPF_PROG_TEST_RUN for raw tracepoints",
              "If the service is killed, processes that it holds at that moment "
              "wait until the deadline of the hold."};
    case KernelFeature::kCallStops:
      return {"call-stops", "bpf_send_signal_thread in programs of uprobes",
              "A thread of a running process is held for the whole attach, some 200 us "
              "longer; in hold mode 'signal' only blocked threads can be entered."};
  }
  return {};
}

void DestroyPrograms::operator()(watch_bpf* programs) const {
  watch_bpf__destroy(programs);
}

absl::StatusOr<LoadedPrograms> LoadPrograms(KernelFeatures wanted,
                                            KernelFeatures lacking) {
  libbpf_set_print(CaptureLog);
  btf* types = btf__load_vmlinux_btf();
  if (types == nullptr) {
    return absl::FailedPreconditionError(
        "this kernel does not describe its types (no BTF in /sys/kernel/btf/vmlinux), "
        "which the probes need to access its data: run a kernel that is built with "
        "CONFIG_DEBUG_INFO_BTF=y, such as those of Debian 12");
  }
  std::vector<MissingFeature> missing;
  if (!wanted.Has(KernelFeature::kYieldingHold)) wanted.Remove(KernelFeature::kLayouts);
  if (wanted.Has(KernelFeature::kLayouts) &&
      btf__find_by_name_kind(types, "bpf_iter_task_vma_new", BTF_KIND_FUNC) <= 0) {
    wanted.Remove(KernelFeature::kLayouts);
    missing.push_back({KernelFeature::kLayouts, "this kernel does not have it"});
  }
  LoadedPrograms loaded;
  loaded.multi_probes =
      btf__find_by_name_kind(types, "bpf_uprobe_multi_link", BTF_KIND_STRUCT) > 0;
  btf__free(types);

  std::string log;
  // Most kernels accept everything at once.
  KernelFeatures features = wanted;
  if (features.Has(KernelFeature::kYieldingHold)) {
    features.Remove(KernelFeature::kSignalHold);
  }
  int rc = TryLoad(features, lacking, &loaded, &log);
  if (rc == 0) {
    loaded.missing = std::move(missing);
    return loaded;
  }
  const absl::Status failure = LoadFailure("the BPF programs", -rc, log);
  if (rc == -EPERM)
    return failure;  // no feature needs fewer privileges than the others
  rc = TryLoad({}, lacking, &loaded, &log);
  if (rc != 0) return LoadFailure("the BPF programs", -rc, log);
  features = FindLoadable(wanted, lacking, &missing);
  if (!features.Has(KernelFeature::kYieldingHold) &&
      !features.Has(KernelFeature::kSignalHold)) {
    return failure;
  }
  rc = TryLoad(features, lacking, &loaded, &log);
  if (rc != 0) return LoadFailure("the BPF programs", -rc, log);
  loaded.missing = std::move(missing);
  return loaded;
}

}  // namespace rocattach
