// Syntax of names and IDs in Kubernetes.
#ifndef ROCATTACH_USERSPACE_ATTRIBUTION_KUBE_NAMES_H_
#define ROCATTACH_USERSPACE_ATTRIBUTION_KUBE_NAMES_H_

#include <compare>
#include <string>

#include "absl/strings/string_view.h"

namespace rocattach {

// A container of a pod, by its names.
struct PodName {
  std::string kube_namespace, pod;
  std::string container;  // empty: unknown

  auto operator<=>(const PodName&) const = default;
};

// True for a name such as namespaces and containers have: lower-case letters, digits
// and dashes, at most 63.
bool IsKubeLabel(absl::string_view text);
// The same characters with dots between parts, at most 253, as in names of pods.
bool IsKubeName(absl::string_view text);
// The characters of a pod's uid: hexadecimal digits and dashes, at most 36.
bool IsPodUidText(absl::string_view text);
// 64 hexadecimal digits.
bool IsContainerIdText(absl::string_view text);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_ATTRIBUTION_KUBE_NAMES_H_
