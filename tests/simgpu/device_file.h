// The file behind /dev/kfd and the render nodes: an anonymous file of this process that
// holds the doorbells and all memory that the driver allocates, each at an offset of
// its own. The runtime's mappings of a device are parts of it, so mmap() needs no help.
#ifndef ROCATTACH_TESTS_SIMGPU_DEVICE_FILE_H_
#define ROCATTACH_TESTS_SIMGPU_DEVICE_FILE_H_

#include <stdbool.h>
#include <stdint.h>

// The layout of the file: registers of each GPU, mailboxes of the events, buffers, and
// doorbells of each GPU, at a distance from each other: a runtime takes more low bits
// of a doorbell's offset for the place within the mapping than the size of the mapping
// requires.
#define SIMGPU_DOORBELL_BYTES 8192u
#define SIMGPU_FILE_DOORBELLS(gpu) ((1ull << 44) + ((uint64_t)(gpu) << 40))
#define SIMGPU_FILE_REGISTERS(gpu) ((1ull << 20) + (uint64_t)(gpu)*4096)
#define SIMGPU_FILE_EVENTS (2ull << 20)
#define SIMGPU_FILE_BUFFERS (1ull << 30)

// Creates a file without a name, of this size or with this content, positioned at its
// start. Returns -1 with errno on failure. Like a driver's files, it is not subject to
// the process's limit of file sizes; if that is too low, a pipe has the content. With
// SIMGPU_MEMFD=0, memfd_create() is not called.
int simgpu_file_create(uint64_t size, const void* content, uint64_t content_bytes,
                       bool close_on_exec);

// Opens a new descriptor of the file; -1 with errno on failure.
int simgpu_file_open(bool close_on_exec);

// True if a descriptor refers to this process's file, or to the file of the process
// that this one was forked from.
bool simgpu_file_is(int fd);
bool simgpu_file_is_inherited(int fd);

// Maps a part of the file; NULL if that fails.
void* simgpu_file_map(uint64_t offset, uint64_t bytes);
// The same in place of any mapping at an address.
bool simgpu_file_map_at(uint64_t address, uint64_t offset, uint64_t bytes);

// Empties a part of the file.
void simgpu_file_discard(uint64_t offset, uint64_t bytes);

// In a forked child: the next use makes a new file.
void simgpu_file_after_fork_child(void);

#endif  // ROCATTACH_TESTS_SIMGPU_DEVICE_FILE_H_
