// What names in Kubernetes can be.
#ifndef ROCATTACH_USERSPACE_ATTRIBUTION_KUBE_NAMES_H_
#define ROCATTACH_USERSPACE_ATTRIBUTION_KUBE_NAMES_H_

#include <compare>
#include <string>

#include "absl/strings/string_view.h"

namespace rocattach {

// A container of a pod by its names.
struct PodName {
  std::string kube_namespace, pod;
  std::string container;  // empty: it is not known which one

  auto operator<=>(const PodName&) const = default;
};

// Lower-case letters, digits and dashes, at most 63, as names of namespaces and
// containers are.
bool IsKubeLabel(absl::string_view text);
// Such labels with dots between them, at most 253 characters, as names of pods are.
bool IsKubeName(absl::string_view text);
// What a pod's uid is made of: hexadecimal digits and dashes, at most 36.
bool IsPodUidText(absl::string_view text);
// 64 hexadecimal digits.
bool IsContainerIdText(absl::string_view text);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_ATTRIBUTION_KUBE_NAMES_H_
