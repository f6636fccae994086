// Loads the BPF programs with as many of their features as the running kernel allows.
#ifndef ROCATTACH_USERSPACE_WATCH_WINDOWS_KERNEL_PROGRAMS_H_
#define ROCATTACH_USERSPACE_WATCH_WINDOWS_KERNEL_PROGRAMS_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

struct watch_bpf;

namespace rocattach {

// Features of the kernel that the programs use beyond the minimum. A kernel that lacks
// one loses only that one, except that layouts need the yielding hold mode, which needs
// atomics; one of the two hold modes suffices.
enum class KernelFeature : uint8_t {
  kYieldingHold = 0,
  kSignalHold = 1,
  kLayouts = 2,     // held processes describe their mappings
  kCookies = 3,     // a window event names its library copy
  kServiceEnd = 4,  // the programs notice the end of the service
  kCallStops = 5,   // a late attach stops a thread at its next call, without a hold
  kAtomics = 6,     // without it, the programs of the second object are used
};
// In the order in which they are tried.
inline constexpr std::array kKernelFeatures = {
    KernelFeature::kAtomics,  KernelFeature::kYieldingHold, KernelFeature::kSignalHold,
    KernelFeature::kLayouts,  KernelFeature::kCookies,      KernelFeature::kServiceEnd,
    KernelFeature::kCallStops};

struct KernelFeatureText {
  absl::string_view name;     // stable, lower case, words joined by '-'
  absl::string_view needs;    // the kernel facility that it uses
  absl::string_view without;  // a sentence: the cost of its absence
};
KernelFeatureText DescribeFeature(KernelFeature feature);

// A set of features.
class KernelFeatures {
 public:
  constexpr KernelFeatures() = default;
  static constexpr KernelFeatures All() {
    KernelFeatures all;
    for (KernelFeature feature : kKernelFeatures) all.Add(feature);
    return all;
  }
  constexpr bool Has(KernelFeature feature) const {
    return (bits_ & Bit(feature)) != 0;
  }
  constexpr void Add(KernelFeature feature) { bits_ |= Bit(feature); }
  constexpr void Remove(KernelFeature feature) { bits_ &= ~Bit(feature); }
  constexpr bool Overlaps(KernelFeatures other) const {
    return (bits_ & other.bits_) != 0;
  }

 private:
  static constexpr uint32_t Bit(KernelFeature feature) {
    return 1u << static_cast<uint32_t>(feature);
  }
  uint32_t bits_ = 0;
};

// A feature that was requested and is not active.
struct MissingFeature {
  KernelFeature feature = {};
  std::string reason;  // the kernel's error for it
};

struct DestroyPrograms {
  void operator()(watch_bpf* programs) const;
};
struct LoadedPrograms {
  std::unique_ptr<watch_bpf, DestroyPrograms> skeleton;
  KernelFeatures features;  // active
  std::vector<MissingFeature> missing;
  // True if the programs of hsa_init are for uprobes without perf events (Linux 6.6).
  // Removing perf events takes 100 ms for each, one after the other; these are removed
  // concurrently.
  bool multi_probes = false;
};
// BPF_TRACE_UPROBE_MULTI, which the headers of Linux 6.1 do not have.
inline constexpr uint32_t kUprobeMultiAttachType = 48;

// Loads the programs with those features of `wanted` that this kernel has; with the
// yielding hold mode, the signal mode is omitted. Fails if not even the minimum loads,
// or there is no hold mode; errors give the kernel's reason and a remedy. Programs that
// use one of `lacking` do not load, as on a kernel that lacks it: for tests.
absl::StatusOr<LoadedPrograms> LoadPrograms(KernelFeatures wanted,
                                            KernelFeatures lacking);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_WINDOWS_KERNEL_PROGRAMS_H_
