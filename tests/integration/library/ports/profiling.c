/* A program for ROCProfiler v2, written from its documentation: counters of the kernels
 * of a process, with session modes, two starts and another filter for the second. The
 * test builds it for rocattach-sessions by replacing the prefixes and the header. */
#define _POSIX_C_SOURCE 200809L
#include <rocprofiler/v2/rocprofiler.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t records, values, wrong;

#define EXPECT(wanted, call)                               \
  do {                                                     \
    rocprofiler_status_t status_ = (call);                 \
    if (status_ != (wanted)) {                             \
      fprintf(stderr, "%s: %d, %s\n", #call, (int)status_, \
              rocprofiler_error_str(status_));             \
      exit(1);                                             \
    }                                                      \
  } while (0)
#define CHECK(call) EXPECT(ROCPROFILER_STATUS_SUCCESS, call)

static void sleep_msec(long msec) {
  struct timespec pause = {msec / 1000, msec % 1000 * 1000000};
  nanosleep(&pause, NULL);
}

static void on_buffer(const rocprofiler_record_header_t* begin,
                      const rocprofiler_record_header_t* end,
                      rocprofiler_session_id_t session,
                      rocprofiler_buffer_id_t buffer) {
  while (begin < end) {
    if (begin->kind != ROCPROFILER_PROFILER_RECORD) {
      ++wrong;
    } else {
      const rocprofiler_record_profiler_t* record =
          (const rocprofiler_record_profiler_t*)begin;
      ++records;
      values += record->counters_count;
      if (record->thread_id.value == 0 ||
          record->timestamps.end < record->timestamps.begin) {
        ++wrong;
      }
    }
    CHECK(rocprofiler_next_record(begin, &begin, session, buffer));
  }
}

static void wait_for_records(rocprofiler_session_id_t session,
                             rocprofiler_buffer_id_t buffer) {
  for (int i = 0; i < 1000 && records < 20; ++i) {
    sleep_msec(20);
    CHECK(rocprofiler_flush_data(session, buffer));
  }
}

int main(int argc, char** argv) {
  rocprofiler_session_id_t session;
  rocprofiler_filter_id_t filter;
  rocprofiler_buffer_id_t buffer;
  const char* first[] = {"SQ_WAVES"};
  const char* second[] = {"GRBM_COUNT", "SQ_WAVES"};
  const char* kernels[] = {".*"};
  rocprofiler_filter_data_t data;
  rocprofiler_filter_property_t property;
  if (argc != 2) return 2;
  memset(&property, 0, sizeof(property));
  memset(&buffer, 0, sizeof(buffer));
  EXPECT(ROCPROFILER_STATUS_ERROR_NOT_INITIALIZED,
         rocprofiler_create_session(ROCPROFILER_NONE_REPLAY_MODE, &session));
  CHECK(rocprofiler_initialize());
  CHECK(rocprofiler_create_session(ROCPROFILER_NONE_REPLAY_MODE, &session));
  CHECK(rocattach_add_session_process(session, atoi(argv[1])));
  EXPECT(ROCPROFILER_STATUS_ERROR_SESSION_MODE_NOT_ADDED,
         rocprofiler_start_session(session));
  CHECK(rocprofiler_add_session_mode(session, ROCPROFILER_SESSION_MODE_PROFILING));
  data.counters_names = first;
  CHECK(rocprofiler_create_filter(session, ROCPROFILER_COUNTERS_COLLECTION, data, 1,
                                  &filter, property));
  EXPECT(ROCPROFILER_STATUS_ERROR_MISSING_SESSION_CALLBACK,
         rocprofiler_start_session(session));
  CHECK(rocprofiler_create_buffer(session, on_buffer, 0x9999, &buffer));
  CHECK(rocprofiler_set_filter_buffer(session, filter, buffer));
  EXPECT(ROCPROFILER_STATUS_ERROR_SESSION_NOT_ACTIVE,
         rocprofiler_terminate_session(session));
  CHECK(rocprofiler_start_session(session));
  EXPECT(ROCPROFILER_STATUS_ERROR_HAS_ACTIVE_SESSION,
         rocprofiler_start_session(session));
  wait_for_records(session, buffer);
  CHECK(rocprofiler_terminate_session(session));
  CHECK(rocprofiler_flush_data(session, buffer)); /* also when it is deactivated */
  if (records == 0 || values != records) ++wrong;
  printf("first=%llu ", (unsigned long long)records);
  records = values = 0;
  data.counters_names = second;
  property.kind = ROCPROFILER_FILTER_KERNEL_NAMES;
  property.data_count = 1;
  property.name_regex = kernels;
  CHECK(rocprofiler_session_set_filter(session, ROCPROFILER_COUNTERS_COLLECTION, data,
                                       2, NULL, property));
  CHECK(rocprofiler_start_session(session));
  wait_for_records(session, buffer);
  CHECK(rocprofiler_terminate_session(session));
  if (records == 0 || values != 2 * records) ++wrong;
  CHECK(rocprofiler_destroy_session(session));
  EXPECT(ROCPROFILER_STATUS_ERROR_SESSION_NOT_FOUND,
         rocprofiler_start_session(session));
  CHECK(rocprofiler_finalize());
  printf("second=%llu wrong=%llu\n", (unsigned long long)records,
         (unsigned long long)wrong);
  return wrong != 0;
}
