// Names of pods and containers, from the names of their log files.
#ifndef ROCATTACH_USERSPACE_ATTRIBUTION_POD_LOGS_H_
#define ROCATTACH_USERSPACE_ATTRIBUTION_POD_LOGS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "userspace/attribution/kube_names.h"

namespace rocattach {

// Counts of what could not be used so far.
struct PodLogFailures {
  uint64_t unreadable = 0;  // folders, summed over rounds
  uint64_t malformed = 0;   // names that are not the kubelet's, summed over rounds
  uint64_t crowded = 0;     // rounds with more names than are read
};

// The kubelet names the folder of a pod's logs by namespace, pod and uid
// (pods/NAMESPACE_NAME_UID/CONTAINER), and links to them by the container's id
// (containers/POD_NAMESPACE_CONTAINER-ID.log). So the names of every pod of the node
// are known, even if it has not requested a GPU. Only names are read, no file is opened
// and no link is followed. Thread-safe; Find() reads nothing.
class PodLogs {
 public:
  static constexpr size_t kMostPods = 4096;
  static constexpr size_t kMostContainers = 16384;
  static constexpr size_t kMostContainersOfPod = 64;

  // `folder` contains pods and containers: /var/log.
  explicit PodLogs(std::string folder) : folder_(std::move(folder)) {}

  // Reads the names again. Those known already are kept: uids and ids are not reused.
  // An error if neither folder can be read; NOT_FOUND if neither exists.
  absl::Status Refresh() ABSL_LOCKS_EXCLUDED(mutex_);

  // The names of a container of the pod with this uid, as of the last Refresh(). Only
  // the container's name may be unknown.
  std::optional<PodName> Find(const std::string& pod_uid,
                              const std::string& container_id) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  // True if a pod of this name is known, and none of its uids is `pod_uid`.
  bool IsAnother(const PodName& pod, const std::string& pod_uid) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  PodLogFailures failures() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Pod {
    std::string kube_namespace, name;
    std::set<std::string> containers;
  };
  struct Names {
    std::map<std::string, Pod> pods;            // by uid
    std::map<std::string, PodName> containers;  // by id
  };

  absl::Status ReadPods(Names* names, PodLogFailures* failures) const;
  absl::Status ReadContainers(Names* names, PodLogFailures* failures) const;

  const std::string folder_;
  mutable absl::Mutex mutex_;
  Names names_ ABSL_GUARDED_BY(mutex_);
  PodLogFailures failures_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_ATTRIBUTION_POD_LOGS_H_
