/* Prints the sums of counters of GPU 0 every 100 ms for a second. No process is named:
 * the GPU is read through any that is attached and uses it. */
#define _POSIX_C_SOURCE 200809L
#include <rocattach/rocattach_sessions.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void check(const char* what, rocattach_status_t status) {
  if (status == ROCATTACH_STATUS_SUCCESS) return;
  fprintf(stderr, "%s: %s\n", what, rocattach_session_error_detail());
  exit(1);
}

int main(void) {
  const char* names[] = {"SQ_WAVES", "GRBM_COUNT"};
  rocattach_device_profile_metric_t sums[2];
  rocattach_session_id_t session;
  check("create", rocattach_device_profiling_session_create(names, 2, &session, 0, 0));
  check("start", rocattach_device_profiling_session_start(session));
  for (int i = 0; i < 10; ++i) {
    const struct timespec pause = {0, 100000000};
    nanosleep(&pause, NULL);
    check("poll", rocattach_device_profiling_session_poll(session, sums));
    printf("%s=%.0f %s=%.0f\n", sums[0].metric_name, sums[0].value.value,
           sums[1].metric_name, sums[1].value.value);
  }
  check("stop", rocattach_device_profiling_session_stop(session));
  check("destroy", rocattach_device_profiling_session_destroy(session));
  return 0;
}
