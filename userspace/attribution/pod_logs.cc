#include "userspace/attribution/pod_logs.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "userspace/attribution/safe_folder.h"
#include "userspace/base/status_macros.h"

namespace rocattach {
namespace {

// Splits "A_B_C"; names in Kubernetes have no underscores.
bool Split(absl::string_view name, absl::string_view* a, absl::string_view* b,
           absl::string_view* c) {
  const std::vector<absl::string_view> parts = absl::StrSplit(name, '_');
  if (parts.size() != 3) return false;
  *a = parts[0];
  *b = parts[1];
  *c = parts[2];
  return true;
}

// Parses "POD_NAMESPACE_CONTAINER-ID.log". Unset if the name has another form.
std::optional<std::pair<std::string, PodName>> ParseLink(absl::string_view name) {
  absl::string_view pod, kube_namespace, last;
  if (!absl::ConsumeSuffix(&name, ".log") ||
      !Split(name, &pod, &kube_namespace, &last)) {
    return std::nullopt;
  }
  const size_t dash = last.rfind('-');
  if (dash == absl::string_view::npos) return std::nullopt;
  const absl::string_view container = last.substr(0, dash), id = last.substr(dash + 1);
  if (!IsKubeName(pod) || !IsKubeLabel(kube_namespace) || !IsKubeLabel(container) ||
      !IsContainerIdText(id)) {
    return std::nullopt;
  }
  return std::make_pair(
      std::string(id),
      PodName{std::string(kube_namespace), std::string(pod), std::string(container)});
}

// Keeps what is known already, unless there would be too many entries.
template <typename Map>
void Merge(Map now, size_t most, Map* known) {
  if (known->size() + now.size() > 2 * most) known->clear();
  for (auto& [key, value] : now) known->insert_or_assign(key, std::move(value));
}

}  // namespace

absl::Status PodLogs::ReadPods(Names* names, PodLogFailures* failures) const {
  ASSIGN_OR_RETURN(const SafeFolder folder,
                   SafeFolder::Open(absl::StrCat(folder_, "/pods")));
  ASSIGN_OR_RETURN(const FolderListing listing, folder.List(kMostPods));
  if (listing.cut) ++failures->crowded;
  std::set<std::string> contradictory;
  for (const std::string& name : listing.names) {
    absl::string_view kube_namespace, pod, uid;
    if (!Split(name, &kube_namespace, &pod, &uid) || !IsKubeLabel(kube_namespace) ||
        !IsKubeName(pod) || !IsPodUidText(uid)) {
      ++failures->malformed;
      continue;
    }
    auto [found, is_new] = names->pods.try_emplace(std::string(uid));
    if (!is_new) {
      contradictory.insert(found->first);
      continue;
    }
    found->second.kube_namespace = std::string(kube_namespace);
    found->second.name = std::string(pod);
    // The pod may have ended meanwhile.
    const auto own = folder.OpenFolder(name);
    if (!own.ok()) continue;
    const auto containers = own->List(kMostContainersOfPod);
    if (!containers.ok()) continue;
    for (const std::string& container : containers->names) {
      if (IsKubeLabel(container)) found->second.containers.insert(container);
    }
  }
  // If two pods have the same uid, neither is used.
  for (const std::string& uid : contradictory) {
    names->pods.erase(uid);
    ++failures->malformed;
  }
  return absl::OkStatus();
}

absl::Status PodLogs::ReadContainers(Names* names, PodLogFailures* failures) const {
  ASSIGN_OR_RETURN(const SafeFolder folder,
                   SafeFolder::Open(absl::StrCat(folder_, "/containers")));
  ASSIGN_OR_RETURN(const FolderListing listing, folder.List(kMostContainers));
  if (listing.cut) ++failures->crowded;
  for (const std::string& name : listing.names) {
    auto link = ParseLink(name);
    if (link.has_value()) {
      names->containers.insert_or_assign(link->first, std::move(link->second));
    } else {
      ++failures->malformed;
    }
  }
  return absl::OkStatus();
}

absl::Status PodLogs::Refresh() {
  Names names;
  PodLogFailures failures;
  const absl::Status pods = ReadPods(&names, &failures);
  const absl::Status containers = ReadContainers(&names, &failures);
  for (const absl::Status& status : {pods, containers}) {
    if (!status.ok() && !absl::IsNotFound(status)) ++failures.unreadable;
  }
  absl::MutexLock lock(&mutex_);
  failures_.unreadable += failures.unreadable;
  failures_.malformed += failures.malformed;
  failures_.crowded += failures.crowded;
  Merge(std::move(names.pods), kMostPods, &names_.pods);
  Merge(std::move(names.containers), kMostContainers, &names_.containers);
  if (pods.ok() || containers.ok()) return absl::OkStatus();
  return absl::IsNotFound(pods) ? containers : pods;
}

std::optional<PodName> PodLogs::Find(const std::string& pod_uid,
                                     const std::string& container_id) const {
  if (pod_uid.empty()) return std::nullopt;
  absl::MutexLock lock(&mutex_);
  const auto pod = names_.pods.find(pod_uid);
  const auto container = names_.containers.find(container_id);
  const bool has_container = container != names_.containers.end();
  if (pod == names_.pods.end()) {
    return has_container ? std::make_optional(container->second) : std::nullopt;
  }
  PodName found = {pod->second.kube_namespace, pod->second.name, ""};
  if (has_container) {
    // A container of another pod cannot belong to this one.
    if (container->second.kube_namespace == found.kube_namespace &&
        container->second.pod == found.pod) {
      found.container = container->second.container;
    }
  } else if (pod->second.containers.size() == 1) {
    found.container = *pod->second.containers.begin();
  }
  return found;
}

bool PodLogs::IsAnother(const PodName& pod, const std::string& pod_uid) const {
  absl::MutexLock lock(&mutex_);
  bool named = false;
  for (const auto& [uid, known] : names_.pods) {
    if (known.name != pod.pod || known.kube_namespace != pod.kube_namespace) continue;
    if (uid == pod_uid) return false;
    named = true;
  }
  return named;
}

PodLogFailures PodLogs::failures() const {
  absl::MutexLock lock(&mutex_);
  return failures_;
}

}  // namespace rocattach
