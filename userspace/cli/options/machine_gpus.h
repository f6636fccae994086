// The GPUs of a machine, as its kernel driver reports them.
#ifndef ROCATTACH_USERSPACE_CLI_OPTIONS_MACHINE_GPUS_H_
#define ROCATTACH_USERSPACE_CLI_OPTIONS_MACHINE_GPUS_H_

#include <string>
#include <vector>

namespace rocattach {

inline constexpr char kKfdTopology[] = "/sys/class/kfd/kfd/topology";

// Architectures of the GPUs in a topology directory, each once, in alphabetical order.
// Empty if there is no driver, no GPU, or no permission to read the directory.
std::vector<std::string> TopologyArchitectures(const std::string& topology);

// The model of the first GPU in a topology directory as ROCm's compute profiler names
// it, such as MI300X_A1, or its architecture if the profiler has no name for it. Empty
// if there is no GPU.
std::string TopologyModel(const std::string& topology);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CLI_OPTIONS_MACHINE_GPUS_H_
