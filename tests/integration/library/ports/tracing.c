/* A program for ROCProfiler v2, written from its documentation: calls of HIP and
 * markers of a process, with the synchronous callback and without a buffer. See
 * profiling.c. */
#define _POSIX_C_SOURCE 200809L
#include <rocprofiler/v2/rocprofiler.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static unsigned launches, pushes, texts, wrong;

#define CHECK(call)                                        \
  do {                                                     \
    rocprofiler_status_t status_ = (call);                 \
    if (status_ != ROCPROFILER_STATUS_SUCCESS) {           \
      fprintf(stderr, "%s: %d, %s\n", #call, (int)status_, \
              rocprofiler_error_str(status_));             \
      exit(1);                                             \
    }                                                      \
  } while (0)

static void on_call(rocprofiler_record_tracer_t record,
                    rocprofiler_session_id_t session) {
  const char* name = NULL;
  CHECK(rocprofiler_query_operation_name(session, record.pid, record.domain,
                                         record.operation_id, &name));
  if (record.header.kind != ROCPROFILER_TRACER_RECORD ||
      record.timestamps.end < record.timestamps.begin) {
    ++wrong;
  }
  if (record.domain == ROCPROFILER_ACTIVITY_DOMAIN_HIP_API) {
    launches += strcmp(name, "hipLaunchKernel") == 0;
  } else if (strcmp(name, "roctxRangePushA") == 0) {
    ++pushes;
    texts += record.name != NULL && strncmp(record.name, "step ", 5) == 0;
  }
}

int main(int argc, char** argv) {
  const rocprofiler_tracer_activity_domain_t domains[] = {
      ROCPROFILER_ACTIVITY_DOMAIN_HIP_API, ROCPROFILER_ACTIVITY_DOMAIN_ROCTX};
  struct timespec pause = {0, 10000000};
  rocprofiler_session_id_t session;
  rocprofiler_filter_data_t data;
  rocprofiler_filter_property_t property;
  if (argc != 2) return 2;
  memset(&property, 0, sizeof(property));
  data.trace_apis = domains;
  CHECK(rocprofiler_initialize());
  CHECK(rocprofiler_create_ready_session(ROCPROFILER_NONE_REPLAY_MODE,
                                         ROCPROFILER_API_TRACE, data, 2, 0x9999, NULL,
                                         &session, property, on_call));
  CHECK(rocprofiler_start_session(session));
  printf("started\n");
  fflush(stdout);
  /* The process is started meanwhile. */
  for (int i = 0; i < 6000 && pushes < (unsigned)atoi(argv[1]); ++i) {
    nanosleep(&pause, NULL);
  }
  CHECK(rocprofiler_terminate_session(session));
  CHECK(rocprofiler_destroy_session(session));
  CHECK(rocprofiler_finalize());
  printf("launches=%u pushes=%u texts=%u wrong=%u\n", launches, pushes, texts, wrong);
  return wrong != 0;
}
