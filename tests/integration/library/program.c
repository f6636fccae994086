/* A program as a user would write it: plain C, the installed header and library. It
 * measures a process with sessions, compares every value with what the simulated GPU
 * must have counted, and says what it saw.
 *
 *   program counters PID   two starts of one session, with next_record and flush
 *   program device PID     counters of a whole GPU
 *   program sampler PID    counters of a whole GPU as records, after a delay
 *   program errors PID     the documented statuses of calls that must fail
 *   program forever PID    an active session until SIGTERM
 *   program leave PID      exit() with an active session, and nothing else
 *   program forks PID      children that exit() meanwhile; the parent goes on
 *
 * Exit status: 0 if everything was right.
 */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <rocattach/rocattach_sessions.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char* counter_names[] = {"SQ_WAVES", "GRBM_COUNT"};
static uint64_t records, wrong, last_id;
static sigset_t terminations;

static void fail(const char* call, rocattach_session_status_t status) {
  fprintf(stderr, "%s: %d, %s: %s\n", call, (int)status, rocattach_error_str(status),
          rocattach_session_error_detail());
  exit(1);
}

#define CHECK(call)                                                 \
  do {                                                              \
    rocattach_session_status_t status_ = (call);                    \
    if (status_ != ROCATTACH_SESSION_SUCCESS) fail(#call, status_); \
  } while (0)

#define EXPECT(wanted, call)                             \
  do {                                                   \
    rocattach_session_status_t status_ = (call);         \
    if (status_ != (wanted)) {                           \
      fprintf(stderr, "instead of %d: ", (int)(wanted)); \
      fail(#call, status_);                              \
    }                                                    \
  } while (0)

static void sleep_msec(long msec) {
  struct timespec pause = {msec / 1000, msec % 1000 * 1000000};
  nanosleep(&pause, NULL);
}

/* Number of wavefronts of 64 work-items in a dispatch with one dimension. */
static uint64_t waves_of(const rocattach_record_profiler_t* record) {
  uint64_t items = record->grid_size[0], group = record->workgroup_size[0];
  return items / group * ((group + 63) / 64) + (items % group + 63) / 64;
}

static int is_right(const rocattach_record_profiler_t* record, int32_t pid) {
  const rocattach_record_counter_t* values =
      (const rocattach_record_counter_t*)(record + 1);
  const double truth[] = {(double)waves_of(record),
                          1000 + 10 * (double)waves_of(record)};
  if (record->header.kind != ROCATTACH_PROFILER_RECORD || record->pid != pid ||
      record->counters_count != 2 || record->grid_size[1] > 1 ||
      record->selected_by != ROCATTACH_SELECTED_BY_COUNTERS ||
      record->timestamps.end < record->timestamps.begin) {
    return 0;
  }
  for (uint32_t i = 0; i < 2; ++i) {
    if (values[i].counter > 1 || values[i].value != truth[values[i].counter]) return 0;
  }
  return 1;
}

static int32_t watched;

static void on_buffer(const rocattach_record_header_t* begin,
                      const rocattach_record_header_t* end,
                      rocattach_session_id_t session, rocattach_buffer_id_t buffer) {
  const rocattach_record_header_t* record = begin;
  while (record != end) {
    ++records;
    if (record->id != ++last_id ||
        !is_right((const rocattach_record_profiler_t*)record, watched)) {
      ++wrong;
    }
    CHECK(rocattach_next_record(record, &record, session, buffer));
  }
}

/* Adds the process to the session, as soon as it has been attached. */
static void add_process(rocattach_session_id_t session, int32_t pid) {
  rocattach_session_status_t status = ROCATTACH_SESSION_ERROR;
  for (int attempt = 0; attempt < 500; ++attempt) {
    status = rocattach_add_session_process(session, pid);
    if (status != ROCATTACH_SESSION_ERROR_INVALID_ARGUMENTS) break;
    sleep_msec(20);
  }
  if (status != ROCATTACH_SESSION_SUCCESS) fail("add_session_process", status);
  watched = pid;
}

static rocattach_session_id_t counting_session(int32_t pid,
                                               rocattach_buffer_id_t* buffer) {
  rocattach_session_id_t session;
  rocattach_filter_id_t filter;
  rocattach_filter_data_t data;
  rocattach_filter_property_t property;
  memset(&property, 0, sizeof(property));
  data.counters_names = counter_names;
  buffer->value = 0;
  CHECK(rocattach_create_session(ROCATTACH_NONE_REPLAY_MODE, &session));
  add_process(session, pid);
  CHECK(rocattach_create_filter(session, ROCATTACH_COUNTERS_COLLECTION, data, 2,
                                &filter, property));
  CHECK(rocattach_create_buffer(session, on_buffer, 16384, buffer));
  CHECK(rocattach_set_filter_buffer(session, filter, *buffer));
  return session;
}

/* Flushes until records have come, for a minute at most. */
static void flush_until_more(rocattach_session_id_t session,
                             rocattach_buffer_id_t buffer, uint64_t before) {
  for (int i = 0; i < 3000; ++i) {
    CHECK(rocattach_flush_data(session, buffer));
    if (records != before) return;
    sleep_msec(20);
  }
}

static int counters(int32_t pid) {
  rocattach_buffer_id_t buffer;
  rocattach_session_id_t session = counting_session(pid, &buffer);
  for (int start = 0; start < 2; ++start) {
    uint64_t before = records;
    CHECK(rocattach_start_session(session));
    sleep_msec(200); /* the time to record */
    flush_until_more(session, buffer, before);
    uint64_t flushed = records;
    sleep_msec(200); /* the time for more, which the end delivers */
    CHECK(rocattach_terminate_session(session));
    uint64_t terminated = records;
    sleep_msec(100);
    uint64_t dropped = 1;
    CHECK(rocattach_get_dropped_records(session, &dropped));
    printf("flushed=%d more=%d late=%d dropped=%d\n", flushed > before,
           terminated > flushed, records != terminated, (int)dropped);
    if (flushed == before || terminated == flushed || records != terminated ||
        dropped != 0) {
      return 1;
    }
  }
  CHECK(rocattach_destroy_session(session));
  EXPECT(ROCATTACH_SESSION_ERROR_SESSION_NOT_FOUND, rocattach_start_session(session));
  printf("records=%llu wrong=%llu\n", (unsigned long long)records,
         (unsigned long long)wrong);
  return wrong != 0;
}

/* All dispatches of the process have 4096 work-items, 64 wavefronts, so that one sum
 * follows from the other: GRBM_COUNT is 1000 per dispatch + 10 per wavefront. */
static int agree(double waves, double count) {
  const double dispatches = waves / 64;
  return dispatches > 0 && dispatches == floor(dispatches) &&
         count == dispatches * 1000 + 10 * waves;
}

static int device(int32_t pid) {
  rocattach_session_id_t session, second;
  rocattach_device_profile_metric_t first[2], later[2];
  rocattach_buffer_id_t buffer;
  rocattach_session_id_t process = counting_session(pid, &buffer);
  CHECK(rocattach_device_profiling_session_create(counter_names, 2, &session, 0, 0));
  EXPECT(ROCATTACH_SESSION_ERROR_AGENT_NOT_FOUND,
         rocattach_device_profiling_session_create(counter_names, 2, &second, 0, 99));
  EXPECT(ROCATTACH_SESSION_ERROR_SESSION_NOT_ACTIVE,
         rocattach_device_profiling_session_poll(session, first));
  CHECK(rocattach_device_profiling_session_start(session));
  EXPECT(ROCATTACH_SESSION_ERROR_HAS_ACTIVE_SESSION, rocattach_start_session(process));
  CHECK(rocattach_device_profiling_session_create(counter_names, 2, &second, 0, 0));
  EXPECT(ROCATTACH_SESSION_ERROR_HAS_ACTIVE_SESSION,
         rocattach_device_profiling_session_start(second));
  sleep_msec(100);
  CHECK(rocattach_device_profiling_session_poll(session, first));
  sleep_msec(100);
  CHECK(rocattach_device_profiling_session_poll(session, later));
  CHECK(rocattach_device_profiling_session_stop(session));
  CHECK(rocattach_start_session(process));
  CHECK(rocattach_terminate_session(process));
  CHECK(rocattach_device_profiling_session_destroy(session));
  CHECK(rocattach_device_profiling_session_destroy(second));
  for (int i = 0; i < 2; ++i) {
    const rocattach_device_profile_metric_t* metrics = i == 0 ? first : later;
    printf("%s=%.0f %s=%.0f\n", metrics[0].metric_name, metrics[0].value.value,
           metrics[1].metric_name, metrics[1].value.value);
    if (!agree(metrics[0].value.value, metrics[1].value.value)) return 1;
  }
  return !(later[0].value.value > first[0].value.value);
}

static uint64_t samples;

static void on_samples(const rocattach_record_header_t* begin,
                       const rocattach_record_header_t* end,
                       rocattach_session_id_t session, rocattach_buffer_id_t buffer) {
  const rocattach_record_header_t* record = begin;
  while (record != end) {
    const rocattach_record_counters_sampler_t* sample =
        (const rocattach_record_counters_sampler_t*)record;
    const rocattach_record_counter_t* values =
        (const rocattach_record_counter_t*)(sample + 1);
    const uint64_t span = sample->timestamps.end - sample->timestamps.begin;
    ++samples;
    printf("span=%llu\n", (unsigned long long)span);
    if (sample->header.kind != ROCATTACH_COUNTERS_SAMPLER_RECORD ||
        sample->num_counters != 2 || !agree(values[0].value, values[1].value) ||
        values[0].counter != 0 || span < 100000000 || span > 800000000) {
      ++wrong;
    }
    CHECK(rocattach_next_record(record, &record, session, buffer));
  }
}

/* One interval is longer than the session: all values come at its end, and none of them
 * belong to the delay. */
static int sampler(int32_t pid) {
  rocattach_session_id_t session;
  rocattach_filter_id_t filter;
  rocattach_buffer_id_t buffer = {0};
  rocattach_filter_data_t data;
  rocattach_filter_property_t property;
  rocattach_counters_sampler_parameters_t parameters = {counter_names, 2, 60000, 0,
                                                        1000,          0};
  memset(&property, 0, sizeof(property));
  data.counters_sampler_parameters = &parameters;
  CHECK(rocattach_create_session(ROCATTACH_NONE_REPLAY_MODE, &session));
  add_process(session, pid);
  CHECK(rocattach_create_filter(session, ROCATTACH_COUNTERS_SAMPLER, data, 1, &filter,
                                property));
  CHECK(rocattach_create_buffer(session, on_samples, 16384, &buffer));
  CHECK(rocattach_set_filter_buffer(session, filter, buffer));
  CHECK(rocattach_start_session(session));
  sleep_msec(1300);
  CHECK(rocattach_terminate_session(session));
  printf("samples=%llu wrong=%llu\n", (unsigned long long)samples,
         (unsigned long long)wrong);
  return samples != 1 || wrong != 0;
}

static int errors(int32_t pid) {
  rocattach_session_id_t session, second;
  rocattach_filter_id_t filter;
  rocattach_buffer_id_t buffer;
  rocattach_filter_data_t data;
  rocattach_filter_property_t property;
  const char* unknown[] = {"SQ_WAVE"};
  const char* functions[] = {"hsa_nonsense"};
  const rocattach_tracer_activity_domain_t domain = ROCATTACH_ACTIVITY_DOMAIN_HSA_API;
  memset(&property, 0, sizeof(property));
  EXPECT(ROCATTACH_SESSION_ERROR_ALREADY_INITIALIZED, rocattach_initialize());
  session = counting_session(pid, &buffer);
  EXPECT(ROCATTACH_SESSION_ERROR_INVALID_ARGUMENTS,
         rocattach_add_session_process(session, 1));
  CHECK(rocattach_create_session(ROCATTACH_NONE_REPLAY_MODE, &second));
  data.counters_names = unknown;
  EXPECT(ROCATTACH_SESSION_ERROR_COUNTER_NOT_FOUND,
         rocattach_create_filter(second, ROCATTACH_COUNTERS_COLLECTION, data, 1,
                                 &filter, property));
  if (strstr(rocattach_session_error_detail(), "SQ_WAVES") == NULL) {
    fail("the nearest name is missing", ROCATTACH_SESSION_ERROR_COUNTER_NOT_FOUND);
  }
  EXPECT(ROCATTACH_SESSION_ERROR_FILTER_NOT_SUPPORTED,
         rocattach_create_filter(second, ROCATTACH_SPM_COLLECTION, data, 0, &filter,
                                 property));
  data.trace_apis = &domain;
  property.kind = ROCATTACH_FILTER_HSA_TRACER_API_FUNCTIONS;
  property.data.names = functions;
  property.data_count = 1;
  EXPECT(
      ROCATTACH_SESSION_ERROR_INVALID_OPERATION_ID,
      rocattach_create_filter(second, ROCATTACH_API_TRACE, data, 1, &filter, property));
  EXPECT(ROCATTACH_SESSION_ERROR_SESSION_MISSING_FILTER,
         rocattach_start_session(second));
  CHECK(rocattach_start_session(session));
  EXPECT(ROCATTACH_SESSION_ERROR_HAS_ACTIVE_SESSION, rocattach_start_session(session));
  second = counting_session(pid, &buffer);
  EXPECT(ROCATTACH_SESSION_ERROR_HAS_ACTIVE_SESSION, rocattach_start_session(second));
  if (strstr(rocattach_session_error_detail(), "belongs to session") == NULL) {
    fail("the owner is missing", ROCATTACH_SESSION_ERROR_HAS_ACTIVE_SESSION);
  }
  CHECK(rocattach_terminate_session(session));
  EXPECT(ROCATTACH_SESSION_ERROR_SESSION_NOT_ACTIVE,
         rocattach_terminate_session(session));
  CHECK(rocattach_start_session(second));
  CHECK(rocattach_destroy_session(second)); /* terminates it */
  CHECK(rocattach_start_session(session));
  return 0; /* finalize terminates it */
}

static int forever(int32_t pid) {
  rocattach_buffer_id_t buffer;
  rocattach_session_id_t session = counting_session(pid, &buffer);
  CHECK(rocattach_start_session(session));
  printf("started\n");
  fflush(stdout);
  int number = 0;
  sigwait(&terminations, &number);
  rocattach_session_status_t status = rocattach_terminate_session(session);
  printf("terminate=%d %s\n", (int)status, rocattach_session_error_detail());
  return 0;
}

/* Neither stops the session nor finalizes: exit handlers find everything running. */
static void leave(int32_t pid) {
  rocattach_buffer_id_t buffer;
  rocattach_session_id_t session = counting_session(pid, &buffer);
  CHECK(rocattach_start_session(session));
  flush_until_more(session, buffer, 0);
  printf("records=%llu wrong=%llu\n", (unsigned long long)records,
         (unsigned long long)wrong);
  exit(records == 0 || wrong != 0);
}

/* Children have the library's memory and none of its threads. A child that exits still
 * runs the exit handlers, which must neither hang nor end the parent's session. */
static int forks(int32_t pid) {
  rocattach_buffer_id_t buffer;
  rocattach_session_id_t session = counting_session(pid, &buffer);
  CHECK(rocattach_start_session(session));
  for (int i = 0; i < 5; ++i) {
    int status = -1;
    sleep_msec(20);
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
      fprintf(stderr, "child %d: status %d\n", (int)child, status);
      return 1;
    }
  }
  const uint64_t before = records;
  sleep_msec(100); /* the time for more */
  flush_until_more(session, buffer, before);
  const int goes_on = records > before;
  CHECK(rocattach_terminate_session(session));
  printf("records=%llu wrong=%llu more=%d\n", (unsigned long long)records,
         (unsigned long long)wrong, goes_on);
  return wrong != 0 || !goes_on;
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  /* Blocks the signal before the library has threads. */
  sigemptyset(&terminations);
  sigaddset(&terminations, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &terminations, NULL);
  const int32_t pid = atoi(argv[2]);
  int result = 2;
  EXPECT(ROCATTACH_SESSION_ERROR_NOT_INITIALIZED, rocattach_finalize());
  CHECK(rocattach_initialize());
  if (strcmp(argv[1], "counters") == 0) result = counters(pid);
  if (strcmp(argv[1], "device") == 0) result = device(pid);
  if (strcmp(argv[1], "sampler") == 0) result = sampler(pid);
  if (strcmp(argv[1], "errors") == 0) result = errors(pid);
  if (strcmp(argv[1], "forever") == 0) result = forever(pid);
  if (strcmp(argv[1], "leave") == 0) leave(pid);
  if (strcmp(argv[1], "forks") == 0) result = forks(pid);
  CHECK(rocattach_finalize());
  return result;
}
