#include "userspace/attribution/cgroup_workload.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "userspace/attribution/kube_names.h"

namespace rocattach {
namespace {

constexpr size_t kMostNumberDigits = 20;
constexpr size_t kMostNameBytes = 64;

bool IsHex(absl::string_view text, size_t digits) {
  return text.size() == digits && std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isdigit(static_cast<unsigned char>(c)) ||
                  (c >= 'a' && c <= 'f');
         });
}

bool IsNumber(absl::string_view text) {
  return !text.empty() && text.size() <= kMostNumberDigits &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isdigit(static_cast<unsigned char>(c));
         });
}

// The uid of a static pod is a hash without dashes.
bool IsPodUid(absl::string_view text) {
  if (IsHex(text, 32)) return true;
  const std::vector<absl::string_view> parts = absl::StrSplit(text, '-');
  constexpr size_t kDigits[] = {8, 4, 4, 4, 12};
  return parts.size() == 5 && std::equal(parts.begin(), parts.end(), kDigits, IsHex);
}

// "pod123-…", or "kubepods-burstable-pod123_….slice"; empty if it is not a pod's group.
std::string PodUid(absl::string_view name) {
  if (absl::ConsumeSuffix(&name, ".slice")) {
    const size_t begin = name.rfind("-pod");
    if (begin == absl::string_view::npos || !absl::StrContains(name, "kubepods")) {
      return "";
    }
    name.remove_prefix(begin + 1);
  }
  if (!absl::ConsumePrefix(&name, "pod")) return "";
  std::string uid = absl::StrReplaceAll(name, {{"_", "-"}});
  return IsPodUid(uid) ? uid : "";
}

// "ID", or "RUNTIME-ID.scope"; empty if it is not a container's group. The group of a
// container's monitor (crio-conmon-ID.scope, libpod-conmon-ID.scope) is not one. Podman
// with --cgroups=split, as in systemd units of quadlets, uses libpod-payload-ID.
std::string ContainerId(absl::string_view name) {
  absl::ConsumeSuffix(&name, ".scope");
  if (const size_t dash = name.rfind('-'); dash != absl::string_view::npos) {
    const absl::string_view runtime = name.substr(0, dash);
    constexpr absl::string_view kRuntimes[] = {"docker", "cri-containerd", "crio",
                                               "libpod", "libpod-payload", "nerdctl"};
    if (std::find(std::begin(kRuntimes), std::end(kRuntimes), runtime) ==
        std::end(kRuntimes)) {
      return "";
    }
    name.remove_prefix(dash + 1);
  }
  return IsContainerIdText(name) ? std::string(name) : "";
}

// Returns the name if it is valid for systemd-nspawn and LXC, else an empty string.
std::string MachineName(absl::string_view name) {
  const bool valid = !name.empty() && name.size() <= kMostNameBytes &&
                     std::all_of(name.begin(), name.end(), [](char c) {
                       return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
                              c == '-' || c == '_' || c == '.';
                     });
  return valid ? std::string(name) : "";
}

// The machine that has this group, if there is a group "payload" below it:
// "machine-NAME.scope", or "systemd-nspawn@NAME.service". A virtual machine has none.
std::string NspawnName(absl::string_view name) {
  if (!(absl::ConsumePrefix(&name, "machine-") &&
        absl::ConsumeSuffix(&name, ".scope")) &&
      !(absl::ConsumePrefix(&name, "systemd-nspawn@") &&
        absl::ConsumeSuffix(&name, ".service"))) {
    return "";
  }
  return MachineName(absl::StrReplaceAll(name, {{"\\x2d", "-"}}));
}

// The container that this group belongs to; empty if there is none.
std::string LxcName(absl::string_view name) {
  return absl::ConsumePrefix(&name, "lxc.payload.") ? MachineName(name) : "";
}

bool IsSlurm(absl::string_view name) {
  // "slurm", "slurm_NODE", "slurmstepd.scope", "NODE_slurmstepd.scope".
  return name == "slurm" || absl::StartsWith(name, "slurm_") ||
         absl::EndsWith(name, "slurmstepd.scope");
}

bool IsStep(absl::string_view name) {
  return IsNumber(name) || name == "batch" || name == "extern" || name == "interactive";
}

// Reads the groups of a path, from the outermost one inwards.
class PathReader {
 public:
  explicit PathReader(WorkloadIdentity* found) : found_(found) {}

  void Read(absl::string_view name) {
    if (name == "user.slice") of_user_ = true;
    if (!of_user_) {
      ReadPod(name);
      ReadJob(name);
    }
    std::string id = name == "payload" ? machine_ : ContainerId(name);
    if (id.empty()) id = LxcName(name);
    if (found_->container_id.empty()) found_->container_id = std::move(id);
    machine_ = NspawnName(name);
  }

 private:
  void ReadPod(absl::string_view name) {
    if (absl::StrContains(name, "kubepods")) in_kubepods_ = true;
    if (!in_kubepods_ || !found_->pod_uid.empty()) return;
    found_->pod_uid = PodUid(name);
    // A container outside of the pod is a node that itself runs in a container.
    if (!found_->pod_uid.empty()) found_->container_id.clear();
  }

  void ReadJob(absl::string_view name) {
    if (IsSlurm(name)) in_slurm_ = true;
    if (!in_slurm_) return;
    if (found_->slurm_job.empty()) {
      if (absl::ConsumePrefix(&name, "job_") && IsNumber(name)) {
        found_->slurm_job = std::string(name);
      }
    } else if (found_->slurm_step.empty()) {
      if (absl::ConsumePrefix(&name, "step_") && IsStep(name)) {
        found_->slurm_step = std::string(name);
      }
    }
  }

  WorkloadIdentity* found_;
  bool of_user_ = false, in_kubepods_ = false, in_slurm_ = false;
  std::string machine_;  // from the group above
};

void Complete(const std::string& from, std::string* to) {
  if (to->empty()) *to = from;
}

void FillFromPath(absl::string_view path, WorkloadIdentity* workload) {
  WorkloadIdentity found;
  PathReader reader(&found);
  for (absl::string_view group : absl::StrSplit(path, '/', absl::SkipEmpty())) {
    // containerd, systemd driver only in the kubelet: "SLICE:cri-containerd:ID".
    for (absl::string_view name : absl::StrSplit(group, ':')) reader.Read(name);
  }
  // A pod and a container from different hierarchies need not belong together.
  if (workload->pod_uid.empty() && workload->container_id.empty()) {
    workload->pod_uid = found.pod_uid;
    workload->container_id = found.container_id;
  }
  if (workload->slurm_job.empty()) {
    workload->slurm_job = found.slurm_job;
    workload->slurm_step = found.slurm_step;
  } else if (workload->slurm_job == found.slurm_job) {
    Complete(found.slurm_step, &workload->slurm_step);
  }
}

}  // namespace

void FillFromCgroups(absl::string_view text, WorkloadIdentity* workload) {
  std::vector<absl::string_view> older;
  for (absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    if (absl::ConsumePrefix(&line, "0::")) {
      FillFromPath(line, workload);
      continue;
    }
    // "NUMBER:CONTROLLERS:PATH".
    const std::vector<absl::string_view> parts =
        absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() == 3) older.push_back(parts[2]);
  }
  for (absl::string_view path : older) FillFromPath(path, workload);
}

}  // namespace rocattach
