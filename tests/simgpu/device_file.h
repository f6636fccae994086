// The file behind /dev/kfd and the render nodes: an anonymous file of this process that
// holds the doorbells and all memory that the driver allocates, each at an offset of its
// own. What the runtime maps of a device is a part of it, so mmap() needs no help.
#ifndef ROCATTACH_TESTS_SIMGPU_DEVICE_FILE_H_
#define ROCATTACH_TESTS_SIMGPU_DEVICE_FILE_H_

#include <stdbool.h>
#include <stdint.h>

// The layout of the file: for each GPU its registers, the events' mailboxes, buffers,
// and for each GPU its doorbells, with a distance between them: of the offset of one, a
// runtime takes the low bits for the place within the mapping, and not just those that
// are needed for it.
#define SIMGPU_DOORBELL_BYTES 8192u
#define SIMGPU_FILE_DOORBELLS(gpu) ((1ull << 44) + ((uint64_t)(gpu) << 40))
#define SIMGPU_FILE_REGISTERS(gpu) ((1ull << 20) + (uint64_t)(gpu)*4096)
#define SIMGPU_FILE_EVENTS (2ull << 20)
#define SIMGPU_FILE_BUFFERS (1ull << 30)

// A new file without a name, of this size or with this content, at its start; -1 with
// errno if there can be none. A driver's files are not subject to the process's limit of
// file sizes, and neither are these; a content is then that of a pipe. With SIMGPU_MEMFD=0 memfd_create() is
// not called.
int simgpu_file_create(uint64_t size, const void* content, uint64_t content_bytes,
                       bool close_on_exec);

// A new descriptor of the file; -1 with errno if there can be none.
int simgpu_file_open(bool close_on_exec);

// Whether a descriptor is one of this process's file, and whether it is one of the file
// of the process that this one was forked from.
bool simgpu_file_is(int fd);
bool simgpu_file_is_inherited(int fd);

// Maps a part of the file; NULL if that fails.
void* simgpu_file_map(uint64_t offset, uint64_t bytes);
// The same in place of whatever lies at an address.
bool simgpu_file_map_at(uint64_t address, uint64_t offset, uint64_t bytes);

// Empties a part of the file.
void simgpu_file_discard(uint64_t offset, uint64_t bytes);

// In a forked child: the next use makes a new file.
void simgpu_file_after_fork_child(void);

#endif  // ROCATTACH_TESTS_SIMGPU_DEVICE_FILE_H_
