/* A program for ROCProfiler v2, written from its documentation: counters of a whole
 * GPU, polled. See profiling.c. */
#define _POSIX_C_SOURCE 200809L
#include <rocprofiler/v2/rocprofiler.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CHECK(call)                                        \
  do {                                                     \
    rocprofiler_status_t status_ = (call);                 \
    if (status_ != ROCPROFILER_STATUS_SUCCESS) {           \
      fprintf(stderr, "%s: %d, %s\n", #call, (int)status_, \
              rocprofiler_error_str(status_));             \
      exit(1);                                             \
    }                                                      \
  } while (0)

int main(void) {
  const char* counters[] = {"GRBM_COUNT", "SQ_WAVES"};
  rocprofiler_device_profile_metric_t data[2];
  rocprofiler_session_id_t session;
  double last = -1;
  unsigned wrong = 0;
  /* The process that the GPU is read through may still be starting. */
  struct timespec pause = {0, 50000000};
  rocprofiler_status_t created = ROCPROFILER_STATUS_ERROR;
  for (int i = 0; i < 400 && created != ROCPROFILER_STATUS_SUCCESS; ++i) {
    nanosleep(&pause, NULL);
    created = rocprofiler_device_profiling_session_create(counters, 2, &session, 0, 0);
  }
  CHECK(created);
  CHECK(rocprofiler_device_profiling_session_start(session));
  for (int i = 0; i < 5; ++i) {
    nanosleep(&pause, NULL);
    CHECK(rocprofiler_device_profiling_session_poll(session, data));
    if (strcmp(data[0].metric_name, "GRBM_COUNT") != 0 ||
        strcmp(data[1].metric_name, "SQ_WAVES") != 0 || data[1].value.value < last) {
      ++wrong;
    }
    last = data[1].value.value;
  }
  CHECK(rocprofiler_device_profiling_session_stop(session));
  CHECK(rocprofiler_device_profiling_session_destroy(session));
  printf("waves=%.0f wrong=%u\n", last, wrong);
  return wrong != 0 || last <= 0;
}
