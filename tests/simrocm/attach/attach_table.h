/* Shared by the simulated attach library, register and SDK. The real library's table is
 * private and depends on the release; this one has only what the simulators need. */
#ifndef ROCATTACH_TESTS_SIMROCM_ATTACH_ATTACH_TABLE_H_
#define ROCATTACH_TESTS_SIMROCM_ATTACH_ATTACH_TABLE_H_

#include <hsa/hsa_api_trace.h>
#include <stdint.h>

#include "userspace/collector/sdk/register_abi.h"

#define SIMROCM_ATTACH_INITIALIZE "rocprofiler_attach_initialize"
#define SIMROCM_ATTACH_SET_API_TABLE "rocprofiler_attach_set_api_table"

typedef int (*simrocm_attach_initialize_fn)(rocattach_register_library_api_table_fn);
typedef int (*simrocm_attach_set_api_table_fn)(const char* name, uint64_t lib_version,
                                               uint64_t lib_instance, void** tables,
                                               uint64_t table_count,
                                               rocattach_register_library_api_table_fn);

/* Gets every packet that is written to a queue, and passes on those for the GPU. */
typedef void (*simrocm_write_interceptor)(const hsa_queue_t* queue, hsa_agent_t agent,
                                          const void* packets, uint64_t count,
                                          hsa_amd_queue_intercept_packet_writer writer,
                                          void* data);

struct simrocm_attach_table {
  uint64_t size;
  /* For all queues created since the library was loaded, and all later ones. */
  void (*set_write_interceptor)(simrocm_write_interceptor interceptor, void* data);
  /* Called before a queue is destroyed. */
  void (*set_queue_destroyed)(void (*callback)(const hsa_queue_t* queue));
  /* Calls `callback` for executables that are frozen and not destroyed. */
  void (*iterate_executables)(void (*callback)(hsa_executable_t executable, void* data),
                              void* data);
};

#endif /* ROCATTACH_TESTS_SIMROCM_ATTACH_ATTACH_TABLE_H_ */
