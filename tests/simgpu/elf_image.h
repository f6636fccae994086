// Symbol look-ups in ELF images in memory: the device's code objects and the host's own
// libraries.
#ifndef ROCATTACH_TESTS_SIMGPU_ELF_IMAGE_H_
#define ROCATTACH_TESTS_SIMGPU_ELF_IMAGE_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Finds the code object in the allocation [start, start + size) that contains `object`,
// and copies the name of the symbol at that address.
bool simgpu_elf_kernel_name(uintptr_t start, uint64_t size, uint64_t object, char* name,
                            size_t name_size);

// The address of a symbol that some library in this process exports, or NULL. Works
// like dlsym(), but without the dynamic loader's main lock: a thread may hold that
// lock, inside dlopen(), while it waits for the very kernel that is looked up.
void* simgpu_elf_host_symbol(const char* name);

#endif  // ROCATTACH_TESTS_SIMGPU_ELF_IMAGE_H_
