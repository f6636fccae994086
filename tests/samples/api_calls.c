/* Prints the calls of HIP and the markers of a process during a second, each when it
 * has ended. */
#include <inttypes.h>
#include <rocattach/rocattach_sessions.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void check(const char* what, rocattach_status_t status) {
  if (status == ROCATTACH_STATUS_SUCCESS) return;
  fprintf(stderr, "%s: %s\n", what, rocattach_session_error_detail());
  exit(1);
}

static void on_call(rocattach_record_tracer_t call, rocattach_session_id_t session) {
  const char* function = "?";
  (void)rocattach_query_operation_name(session, call.pid, call.domain,
                                       call.operation_id, &function);
  printf("%s %s: %" PRIu64 " ns\n", function, call.name == NULL ? "" : call.name,
         call.timestamps.end - call.timestamps.begin);
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const rocattach_tracer_activity_domain_t domains[] = {
      ROCATTACH_ACTIVITY_DOMAIN_HIP_API, ROCATTACH_ACTIVITY_DOMAIN_ROCTX};
  rocattach_filter_data_t data = {.trace_apis = domains};
  rocattach_filter_property_t property = {0};
  rocattach_session_id_t session;
  check("initialize", rocattach_initialize());
  check("create",
        rocattach_create_ready_session(ROCATTACH_NONE_REPLAY_MODE, ROCATTACH_API_TRACE,
                                       data, 2, 0, NULL, &session, property, on_call));
  check("process", rocattach_add_session_process(session, atoi(argv[1])));
  check("start", rocattach_start_session(session));
  sleep(1);
  check("terminate", rocattach_terminate_session(session));
  check("destroy", rocattach_destroy_session(session));
  check("finalize", rocattach_finalize());
  return 0;
}
