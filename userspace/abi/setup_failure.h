/* The report of a collector that could not be set up. Plain C. */
#ifndef ROCATTACH_USERSPACE_ABI_SETUP_FAILURE_H_
#define ROCATTACH_USERSPACE_ABI_SETUP_FAILURE_H_

#include <stdint.h>

/* The call that failed where there is no memory to report in:
 * rocattach_collector_ready() gets it together with the errno value. */
enum rocattach_setup_call {
  ROCATTACH_SETUP_NONE = 0,
  ROCATTACH_SETUP_MMAP = 1,
  ROCATTACH_SETUP_MADVISE = 2,
  ROCATTACH_SETUP_MEMFD_CREATE = 3,
  ROCATTACH_SETUP_FILE_SIZE = 4, /* RLIMIT_FSIZE is too small, or cannot be read */
  ROCATTACH_SETUP_FTRUNCATE = 5,
  ROCATTACH_SETUP_FCNTL = 6,
  ROCATTACH_SETUP_MPROTECT = 7,
  ROCATTACH_SETUP_COMMIT = 8, /* the first pages of the shared memory */
  ROCATTACH_SETUP_KEY_CREATE = 9,
  ROCATTACH_SETUP_THREAD_CREATE = 10,
  ROCATTACH_SETUP_CALLS = 11,
};
#define ROCATTACH_SETUP_FAILURE(call, error) \
  ((uint64_t)(call) << 32 | (uint32_t)(error))

#endif /* ROCATTACH_USERSPACE_ABI_SETUP_FAILURE_H_ */
