/* Prints counters of the kernels that a process runs during a second. */
#include <inttypes.h>
#include <rocattach/rocattach_sessions.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char* names[] = {"SQ_WAVES", "GRBM_COUNT"};

static void check(const char* what, rocattach_status_t status) {
  if (status == ROCATTACH_STATUS_SUCCESS) return;
  fprintf(stderr, "%s: %s\n", what, rocattach_session_error_detail());
  exit(1);
}

static void on_records(const rocattach_record_header_t* begin,
                       const rocattach_record_header_t* end,
                       rocattach_session_id_t session, rocattach_buffer_id_t buffer) {
  const rocattach_record_header_t* at = begin;
  while (at != end) {
    const rocattach_record_profiler_t* dispatch = (const void*)at;
    const rocattach_record_counter_t* values = (const void*)(dispatch + 1);
    const char* kernel = "?";
    (void)rocattach_query_kernel_name(session, dispatch->pid, dispatch->kernel_id,
                                      &kernel);
    printf("%s:", kernel);
    for (uint32_t i = 0; i < dispatch->counters_count; ++i) {
      printf(" %s=%.0f", names[values[i].counter], values[i].value);
    }
    printf("\n");
    check("next", rocattach_next_record(at, &at, session, buffer));
  }
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  rocattach_filter_data_t data = {.counters_names = names};
  rocattach_filter_property_t property = {0};
  rocattach_session_id_t session;
  check("initialize", rocattach_initialize());
  check("create", rocattach_create_ready_session(
                      ROCATTACH_NONE_REPLAY_MODE, ROCATTACH_COUNTERS_COLLECTION, data,
                      2, 1 << 20, on_records, &session, property, NULL));
  check("process", rocattach_add_session_process(session, atoi(argv[1])));
  check("start", rocattach_start_session(session));
  sleep(1);
  check("terminate", rocattach_terminate_session(session));
  check("destroy", rocattach_destroy_session(session));
  check("finalize", rocattach_finalize());
  return 0;
}
