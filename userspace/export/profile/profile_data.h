// The contents of a profile: totals by path, process -> queue -> kernel. Plain values,
// which the encoders of pprof and OTLP profiles turn into messages.
#ifndef ROCATTACH_USERSPACE_EXPORT_PROFILE_PROFILE_DATA_H_
#define ROCATTACH_USERSPACE_EXPORT_PROFILE_PROFILE_DATA_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace rocattach {

// A function of a stack, in the terms of profiles.
struct ProfileFrame {
  std::string name;         // human-readable
  std::string system_name;  // mangled; empty: the same
  bool operator==(const ProfileFrame&) const = default;
};

struct ProfileGpu {
  std::string label;         // "GPU 0", as the process counts them
  std::string architecture;  // "gfx90a"
  std::string product;
  std::string uuid;
};

struct ProfileProcess {
  uint32_t pid = 0;
  std::string name;
  std::string executable;
  std::string container;  // its id; empty if there is none
  // Attributes of the workload, see WorkloadAttributes(); without the container's id.
  std::vector<std::pair<std::string, std::string>> workload;
  std::string host;
  std::vector<ProfileGpu> gpus;
  // Realtime nanoseconds of its first and last operation; 0: not known.
  uint64_t begin_ns = 0, end_ns = 0;
};

// Numbers of the totals in ProfileSample.totals. Counters follow, in the order of
// ProfileData::counters.
enum ProfileTotal : uint32_t {
  kTotalKernelTime,
  kTotalDispatches,
  kTotalCopiedBytes,
  kFixedTotals,
};

struct ProfileSample {
  uint32_t process = 0;          // position in processes
  std::vector<uint32_t> frames;  // positions in frames, the leaf first
  int gpu = -1;                  // position in the process's gpus; -1: none
  // (number, total), sorted by number; zeros are omitted.
  std::vector<std::pair<uint32_t, int64_t>> totals;
};

struct ProfileData {
  std::vector<std::string> counters;
  std::vector<ProfileFrame> frames;
  std::vector<ProfileProcess> processes;
  std::vector<ProfileSample> samples;
  std::string recording_id;  // 16 bytes; empty: not known
  // In pprof, samples have labels that name their process and GPU.
  bool labels = true;

  // Number of sample types, counters included.
  size_t total_count() const { return kFixedTotals + counters.size(); }
  // The name and unit of a total.
  std::pair<std::string, std::string> TotalName(uint32_t total) const;
};

inline std::pair<std::string, std::string> ProfileData::TotalName(
    uint32_t total) const {
  switch (total) {
    case kTotalKernelTime:
      return {"gpu_kernel_time", "nanoseconds"};
    case kTotalDispatches:
      return {"dispatches", "count"};
    case kTotalCopiedBytes:
      return {"copied_bytes", "bytes"};
    default:
      return {counters[total - kFixedTotals], "count"};
  }
}

// Return the bytes of the file.
absl::StatusOr<std::string> EncodePprof(const ProfileData& data);
absl::StatusOr<std::string> EncodeOtlpProfile(const ProfileData& data);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_EXPORT_PROFILE_PROFILE_DATA_H_
