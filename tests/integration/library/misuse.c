/* Uses the library in ways that it is not meant for: a C program, built like program.c,
 * which prints what each call returned.
 *
 *   misuse lost           a session for all processes; when its service is lost, starts
 *                         it again until that works, and waits for records
 *   misuse silent         a session; at SIGUSR1 makes every call and prints how long it
 *                         took; at the next SIGUSR1 starts a session again
 *   misuse forked PID     children that use the library; the parent continues
 *   misuse callbacks PID  callbacks that call the library
 *   misuse cycles PID N   N sessions with changing counters
 */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <rocattach/rocattach_sessions.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static atomic_uint records, callbacks;
static atomic_int losses, loss_status, loss_check;

static void fail(const char* call, int status) {
  fprintf(stderr, "%s: %d, %s\n", call, status, rocattach_session_error_detail());
  exit(1);
}
#define EXPECT(wanted, call)                       \
  do {                                             \
    rocattach_status_t status_ = (call);           \
    if (status_ != (wanted)) fail(#call, status_); \
  } while (0)
#define CHECK(call) EXPECT(ROCATTACH_STATUS_SUCCESS, call)

static void sleep_msec(long msec) {
  struct timespec pause = {msec / 1000, msec % 1000 * 1000000};
  nanosleep(&pause, NULL);
}
static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void on_buffer(const rocattach_record_header_t* begin,
                      const rocattach_record_header_t* end,
                      rocattach_session_id_t session, rocattach_buffer_id_t buffer) {
  while (begin != end) {
    ++records;
    CHECK(rocattach_next_record(begin, &begin, session, buffer));
  }
}
static void on_loss(rocattach_session_id_t session, rocattach_status_t status,
                    const char* detail) {
  printf("lost: %s\n", detail);
  fflush(stdout);
  loss_status = status;
  loss_check = rocattach_check_session(session);
  ++losses;
}

static rocattach_session_id_t counting(int32_t pid, const char** names, uint64_t count,
                                       rocattach_buffer_callback_t callback) {
  rocattach_session_id_t session;
  rocattach_filter_data_t data;
  rocattach_filter_property_t property;
  memset(&property, 0, sizeof(property));
  data.counters_names = names;
  CHECK(rocattach_create_ready_session(ROCATTACH_NONE_REPLAY_MODE,
                                       ROCATTACH_COUNTERS_COLLECTION, data, count,
                                       65536, callback, &session, property, NULL));
  for (int i = 0; pid != 0; ++i) {
    rocattach_status_t status = rocattach_add_session_process(session, pid);
    if (status == ROCATTACH_STATUS_SUCCESS) break;
    if (i == 500) fail("add_session_process", status);
    sleep_msec(20);
  }
  return session;
}
static const char* waves[] = {"SQ_WAVES"};

static void wait_for(atomic_uint* count, unsigned least) {
  for (int i = 0; i < 3000 && *count < least; ++i) sleep_msec(10);
}

static int lost(void) {
  rocattach_session_id_t session = counting(0, waves, 1, on_buffer);
  CHECK(rocattach_set_session_lost_callback(session, on_loss));
  CHECK(rocattach_start_session(session));
  CHECK(rocattach_check_session(session));
  printf("started\n");
  fflush(stdout);
  for (int i = 0; i < 6000 && losses == 0; ++i) sleep_msec(10);
  EXPECT(ROCATTACH_STATUS_ERROR, rocattach_check_session(session));
  /* No service can carry it out. */
  int refused = 0;
  rocattach_status_t status = rocattach_start_session(session);
  while (status == ROCATTACH_STATUS_ERROR && refused < 1200) {
    if (++refused == 1) {
      printf("refused: %s\n", rocattach_session_error_detail());
      fflush(stdout);
    }
    sleep_msec(50);
    status = rocattach_start_session(session);
  }
  CHECK(status);
  CHECK(rocattach_check_session(session));
  records = 0;
  printf("started again\n");
  fflush(stdout);
  wait_for(&records, 100);
  CHECK(rocattach_terminate_session(session));
  printf("losses=%d status=%d check=%d refused=%d records=%u\n", losses, loss_status,
         loss_check, refused > 0, records);
  return 0;
}

static double slowest;
static sigset_t requests;
static int timed(const char* name, rocattach_status_t status, double begin) {
  const double took = seconds() - begin;
  if (took > slowest) slowest = took;
  printf("%s=%d took=%.1f\n", name, (int)status, took);
  return status;
}
static void silent_device(void) {
  rocattach_session_id_t device = {0};
  rocattach_device_profile_metric_t sums[1];
  double begin = seconds();
  timed("device_create",
        rocattach_device_profiling_session_create(waves, 1, &device, 0, 0), begin);
  begin = seconds();
  timed("device_start", rocattach_device_profiling_session_start(device), begin);
  begin = seconds();
  timed("device_poll", rocattach_device_profiling_session_poll(device, sums), begin);
  begin = seconds();
  timed("device_stop", rocattach_device_profiling_session_stop(device), begin);
  begin = seconds();
  timed("device_destroy", rocattach_device_profiling_session_destroy(device), begin);
}
static int silent(void) {
  int number = 0;
  double begin;
  rocattach_buffer_id_t buffer = {0};
  rocattach_filter_id_t filter;
  rocattach_filter_data_t data;
  rocattach_filter_property_t property;
  rocattach_session_id_t session = counting(0, waves, 1, on_buffer), other;
  memset(&property, 0, sizeof(property));
  memset(&data, 0, sizeof(data));
  CHECK(rocattach_start_session(session));
  printf("started\n");
  fflush(stdout);
  sigwait(&requests, &number);
  CHECK(rocattach_create_session(ROCATTACH_NONE_REPLAY_MODE, &other));
  CHECK(rocattach_create_buffer(session, on_buffer, 65536, &buffer));
  begin = seconds();
  timed("check", rocattach_check_session(session), begin);
  begin = seconds();
  timed("flush", rocattach_flush_data(session, buffer), begin);
  begin = seconds();
  timed("filter",
        rocattach_create_filter(other, ROCATTACH_DISPATCH_TIMESTAMPS_COLLECTION, data,
                                0, &filter, property),
        begin);
  begin = seconds();
  timed("terminate", rocattach_terminate_session(session), begin);
  begin = seconds();
  timed("start", rocattach_start_session(session), begin);
  begin = seconds();
  timed("add_process", rocattach_add_session_process(other, getpid()), begin);
  silent_device();
  begin = seconds();
  timed("destroy", rocattach_destroy_session(session), begin);
  begin = seconds();
  timed("finalize", rocattach_finalize(), begin);
  printf("slowest=%.0f\n", slowest);
  fflush(stdout);
  sigwait(&requests, &number);
  CHECK(rocattach_initialize());
  session = counting(0, waves, 1, on_buffer);
  rocattach_status_t status = ROCATTACH_STATUS_ERROR;
  for (int i = 0; i < 200 && status != ROCATTACH_STATUS_SUCCESS; ++i) {
    status = rocattach_start_session(session);
    if (status != ROCATTACH_STATUS_SUCCESS) sleep_msec(50);
  }
  CHECK(status);
  CHECK(rocattach_check_session(session));
  CHECK(rocattach_terminate_session(session));
  printf("again=0\n");
  return 0;
}

/* Calls of a child process, in a program that ignores the library's limits. */
enum { CHILDREN = 12 };
static int child_of(rocattach_session_id_t session, rocattach_session_id_t device,
                    int how) {
  alarm(20);
  rocattach_session_id_t fresh;
  rocattach_device_profile_metric_t sums[1];
  const rocattach_status_t gone = ROCATTACH_STATUS_ERROR_NOT_INITIALIZED;
  if (how == 0) EXPECT(gone, rocattach_terminate_session(session));
  if (how == 1) EXPECT(gone, rocattach_destroy_session(session));
  if (how == 2) EXPECT(gone, rocattach_finalize());
  if (how == 3) EXPECT(ROCATTACH_STATUS_ERROR, rocattach_initialize());
  if (how == 4)
    EXPECT(gone, rocattach_create_session(ROCATTACH_NONE_REPLAY_MODE, &fresh));
  if (how == 5) {
    /* The child has a child of its own. */
    int status = -1;
    const pid_t child = fork();
    if (child == 0) exit(child_of(session, device, 0));
    return child < 0 || waitpid(child, &status, 0) != child || status != 0;
  }
  if (how == 6) EXPECT(gone, rocattach_add_session_process(session, getpid()));
  if (how == 7) EXPECT(gone, rocattach_check_session(session));
  if (how == 8) EXPECT(gone, rocattach_device_profiling_session_start(device));
  if (how == 9) EXPECT(gone, rocattach_device_profiling_session_poll(device, sums));
  if (how == 10) EXPECT(gone, rocattach_device_profiling_session_stop(device));
  if (how == 11) EXPECT(gone, rocattach_device_profiling_session_destroy(device));
  return strstr(rocattach_session_error_detail(), "forked") == NULL;
}
static int forked(int32_t pid) {
  rocattach_session_id_t session = counting(pid, waves, 1, on_buffer), device;
  CHECK(rocattach_device_profiling_session_create(waves, 1, &device, 0, 0));
  CHECK(rocattach_start_session(session));
  for (int how = 0; how < CHILDREN; ++how) {
    int status = -1;
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) exit(child_of(session, device, how));
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
      fprintf(stderr, "child %d: status %x\n", how, (unsigned)status);
      return 1;
    }
  }
  CHECK(rocattach_check_session(session));
  const unsigned before = records;
  wait_for(&records, before + 20);
  CHECK(rocattach_terminate_session(session));
  printf("more=%d\n", records > before);
  /* One child lives on when this program ends, and must not keep the session alive. */
  CHECK(rocattach_start_session(session));
  fflush(stdout);
  if (fork() == 0) {
    close(0);
    close(1);
    close(2);
    sleep(20);
    _exit(0);
  }
  _exit(0);
}

static rocattach_session_id_t nested;
static atomic_int nested_result = 1;
/* Flushes, stops, starts and destroys the session that it is called for. */
static void calls_back(const rocattach_record_header_t* begin,
                       const rocattach_record_header_t* end,
                       rocattach_session_id_t session, rocattach_buffer_id_t buffer) {
  (void)begin, (void)end;
  if (callbacks++ != 0) return;
  CHECK(rocattach_flush_data(session, buffer));
  EXPECT(ROCATTACH_STATUS_ERROR_HAS_ACTIVE_SESSION, rocattach_start_session(session));
  CHECK(rocattach_check_session(session));
  CHECK(rocattach_terminate_session(session));
  EXPECT(ROCATTACH_STATUS_ERROR_SESSION_NOT_ACTIVE,
         rocattach_terminate_session(session));
  CHECK(rocattach_start_session(session));
  CHECK(rocattach_destroy_session(session));
  EXPECT(ROCATTACH_STATUS_ERROR_SESSION_NOT_FOUND, rocattach_check_session(session));
  nested = counting(0, waves, 1, on_buffer);
  nested_result = 0;
}
static int calling_back(int32_t pid) {
  rocattach_session_id_t session = counting(pid, waves, 1, calls_back);
  CHECK(rocattach_start_session(session));
  for (int i = 0; i < 3000 && nested_result != 0; ++i) sleep_msec(10);
  if (nested_result != 0) return 1;
  EXPECT(ROCATTACH_STATUS_ERROR_SESSION_NOT_FOUND,
         rocattach_terminate_session(session));
  rocattach_status_t status = ROCATTACH_STATUS_ERROR_HAS_ACTIVE_SESSION;
  for (int i = 0; i < 200 && status == ROCATTACH_STATUS_ERROR_HAS_ACTIVE_SESSION; ++i) {
    status = rocattach_start_session(nested); /* the old one is ending */
    if (status != ROCATTACH_STATUS_SUCCESS) sleep_msec(50);
  }
  CHECK(status);
  records = 0;
  wait_for(&records, 20);
  CHECK(rocattach_terminate_session(nested));
  printf("nested=%d\n", records >= 20);
  return 0;
}

static int cycles(int32_t pid, int count) {
  static const char* counters[] = {"SQ_WAVES",      "GRBM_COUNT",      "SQ_BUSY_CYCLES",
                                   "SQ_INSTS_VALU", "GRBM_GUI_ACTIVE", "SQ_INSTS_SALU"};
  for (int i = 0; i < count; ++i) {
    const char* two[] = {counters[i % 6], counters[(i + 1 + i / 6 % 5) % 6]};
    rocattach_session_id_t session = counting(pid, two, 2, on_buffer);
    CHECK(rocattach_start_session(session));
    CHECK(rocattach_terminate_session(session));
    CHECK(rocattach_destroy_session(session));
  }
  printf("cycles=%d\n", count);
  return 0;
}

int main(int argc, char** argv) {
  int result = 2;
  const int32_t pid = argc > 2 ? atoi(argv[2]) : 0;
  if (argc < 2) return result;
  /* Blocks the signal before the library has threads. */
  sigemptyset(&requests);
  sigaddset(&requests, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &requests, NULL);
  CHECK(rocattach_initialize());
  if (strcmp(argv[1], "lost") == 0) result = lost();
  if (strcmp(argv[1], "silent") == 0) result = silent();
  if (strcmp(argv[1], "forked") == 0) result = forked(pid);
  if (strcmp(argv[1], "callbacks") == 0) result = calling_back(pid);
  if (strcmp(argv[1], "cycles") == 0 && argc > 3) result = cycles(pid, atoi(argv[3]));
  CHECK(rocattach_finalize());
  return result;
}
