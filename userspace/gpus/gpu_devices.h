// The GPUs of the machine.
#ifndef ROCATTACH_USERSPACE_GPUS_GPU_DEVICES_H_
#define ROCATTACH_USERSPACE_GPUS_GPU_DEVICES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "userspace/gpus/gpu_roots.h"

namespace rocattach {

// One GPU, or one partition of a GPU: an agent of the runtime. Facts that are not known
// are empty or unset.
struct GpuDevice {
  uint32_t node = 0;    // its number in KFD's topology
  uint32_t gpu_id = 0;  // its number in KFD's names of files
  // The position among all GPUs in the order of nodes, from 0 on, as counted by
  // ROCR_VISIBLE_DEVICES and schedulers.
  uint32_t index = 0;
  std::string key;           // the label `gpu`, see GpuKey()
  std::string uuid, pci;     // "GPU-…" with 16 digits, "0000:03:00.0"
  std::string architecture;  // "gfx942"
  std::string model;
  std::string serial;  // the board's, as the vendor prints it
  std::string driver;  // version, see ReadDriverVersion()
  // Number among the partitions of one PCI device; unset for a whole GPU.
  std::optional<uint32_t> partition;
  std::optional<uint32_t> render_minor;  // N in /dev/dri/renderDN
  std::optional<uint32_t> card;          // N in /dev/dri/cardN
  std::string device;                    // in sysfs: its PCI address, or amdgpu_xcp_N
  std::optional<uint64_t> vram_total_bytes;
  // Memory used by all processes and the kernel. Not known for a partition.
  std::optional<uint64_t> vram_used_bytes;
  // The current load of its engines, as reported by its firmware. Not known for a
  // partition.
  std::optional<uint32_t> busy_percent;
};

// The name of a GPU in all processes and outputs: its uuid, or its PCI address where it
// has none. Partitions after the first, whose number is in the highest four bits of
// `location_id` (amdkfd, kfd_topology.c), have "/NUMBER" after it.
std::string GpuKey(absl::string_view uuid, absl::string_view pci, uint64_t location_id);

inline constexpr size_t kMostGpus = 1024;

// The version of the kernel driver: that of its package, or the kernel's release where
// the driver is the kernel's own. Empty if it is not loaded.
std::string ReadDriverVersion(const GpuRoots& roots);

// GPUs in the order of their nodes, without the values of ReadChanging(). NOT_FOUND: no
// driver; another error if its files cannot be read, or are no topology.
absl::StatusOr<std::vector<GpuDevice>> ReadGpuDevices(const GpuRoots& roots);

// Fills in vram_used_bytes and busy_percent: they change all the time.
void ReadChanging(const GpuRoots& roots, std::vector<GpuDevice>* devices);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_GPUS_GPU_DEVICES_H_
