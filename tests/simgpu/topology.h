// The simulated machine as the driver describes it below /sys: node 0 is the CPU, nodes 1
// to SIMGPU_COUNT are GPUs, all linked with each other.
#ifndef ROCATTACH_TESTS_SIMGPU_TOPOLOGY_H_
#define ROCATTACH_TESTS_SIMGPU_TOPOLOGY_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The driver's number of a GPU, and the reverse; false for a number that no GPU has.
uint32_t simgpu_gpu_id(unsigned gpu);
bool simgpu_gpu_of_id(uint32_t gpu_id, unsigned* gpu);

#define SIMGPU_FIRST_RENDER_MINOR 128
#define SIMGPU_FAMILY_AI 141  // amdgpu's number of gfx9

uint32_t simgpu_device_id(void);  // PCI
const char* simgpu_marketing_name(void);
unsigned simgpu_compute_units(void);
unsigned simgpu_copy_engines(void);
uint64_t simgpu_memory_bytes(void);

// The kind of object that the driver has at a path.
enum simgpu_path {
  SIMGPU_PATH_OTHER,   // nothing of the driver's: the machine decides
  SIMGPU_PATH_ABSENT,  // below one of the driver's folders, but there is no such file
  SIMGPU_PATH_FILE,
  SIMGPU_PATH_FOLDER
};

// `text`: the file's content, terminated by a zero, or the names in the folder, each
// terminated by a zero. Free it. NULL if not wanted. `text` is also set to NULL if
// memory is short. Reads the options first, if that has not been done.
enum simgpu_path simgpu_topology_at(const char* path, char** text, size_t* bytes);

// True if this may be one of the driver's paths. Fast: called for each file opened.
bool simgpu_topology_may_be(const char* path);

#endif  // ROCATTACH_TESTS_SIMGPU_TOPOLOGY_H_
