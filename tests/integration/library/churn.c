/* A program that uses sessions all the time, while its service may stop, die and come
 * back: a C program, built like program.c. It checks every status against
 * rocattach_sessions.h, and ends at SIGUSR1.
 *
 *   churn cycle PID   sessions with changing counters, one after the other: prints
 *                     "good" after each one that brought records, "failed" after each
 *                     call that the service did not carry out
 *   churn hold PID    one session of dispatches, beside the counters of the other mode,
 *                     which have the GPU to themselves: prints "held" whenever it
 *                     brings records again, "lost" whenever its service has gone
 *
 * At the end: calls= slowest= (s) undocumented= told= wrong_told= ended= records=. */
#define _POSIX_C_SOURCE 200809L
#include <rocattach/rocattach_sessions.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static volatile sig_atomic_t finished;
static atomic_uint records, told, wrong_told;
static atomic_uint_fast64_t current; /* the session that may be lost */
static unsigned calls, undocumented, ended;
static double slowest;

static void on_signal(int number) {
  (void)number;
  finished = 1;
}
static void sleep_msec(long msec) {
  struct timespec pause = {msec / 1000, msec % 1000 * 1000000};
  nanosleep(&pause, NULL);
}
static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}
static void say(const char* word) {
  printf("%s\n", word);
  fflush(stdout);
}

#define MOST_DOCUMENTED 4
/* Notes a call's duration, and whether its status is one of `documented`. */
static int judge(const char* call, double begin, rocattach_status_t status,
                 const rocattach_status_t documented[MOST_DOCUMENTED]) {
  const double took = seconds() - begin;
  if (took > slowest) slowest = took;
  ++calls;
  if (status == ROCATTACH_STATUS_SUCCESS) return 1;
  printf("%.40s: %d, %s\nfailed\n", call, (int)status,
         rocattach_session_error_detail());
  fflush(stdout);
  for (int i = 0; i < MOST_DOCUMENTED; ++i) {
    if (documented[i] != ROCATTACH_STATUS_SUCCESS && status == documented[i]) return 0;
  }
  ++undocumented;
  fprintf(stderr, "%s: %d, %s\n", call, (int)status, rocattach_session_error_detail());
  return 0;
}
#define CALL(call, ...)           \
  judge(#call, seconds(), (call), \
        (const rocattach_status_t[MOST_DOCUMENTED]){__VA_ARGS__})

static void on_buffer(const rocattach_record_header_t* begin,
                      const rocattach_record_header_t* end,
                      rocattach_session_id_t session, rocattach_buffer_id_t buffer) {
  while (begin != end) {
    ++records;
    if (rocattach_next_record(begin, &begin, session, buffer) !=
        ROCATTACH_STATUS_SUCCESS) {
      break;
    }
  }
}
static void on_loss(rocattach_session_id_t session, rocattach_status_t status,
                    const char* detail) {
  if (session.handle != current || status != ROCATTACH_STATUS_ERROR ||
      *detail == '\0') {
    ++wrong_told;
  }
  ++told;
}

/* Creates a session and names the process: the service keeps nothing of that. */
static int create(int32_t pid, const char** counters, uint64_t count,
                  rocattach_session_id_t* session) {
  rocattach_filter_data_t data;
  rocattach_filter_property_t property;
  memset(&property, 0, sizeof(property));
  memset(&data, 0, sizeof(data));
  data.counters_names = counters;
  const rocattach_filter_kind_t kind = count > 0
                                           ? ROCATTACH_COUNTERS_COLLECTION
                                           : ROCATTACH_DISPATCH_TIMESTAMPS_COLLECTION;
  if (!CALL(
          rocattach_create_ready_session(ROCATTACH_NONE_REPLAY_MODE, kind, data, count,
                                         65536, on_buffer, session, property, NULL),
          ROCATTACH_STATUS_ERROR)) {
    return 0;
  }
  if (CALL(rocattach_set_session_lost_callback(*session, on_loss), 0) &&
      CALL(rocattach_add_session_process(*session, pid), ROCATTACH_STATUS_ERROR,
           ROCATTACH_STATUS_ERROR_INVALID_ARGUMENTS)) {
    return 1;
  }
  CALL(rocattach_destroy_session(*session), 0);
  return 0;
}

/* HAS_ACTIVE_SESSION: the service may still be ending a session that an earlier call
 * gave up. FILTER_NOT_SUPPORTED: a service that just started cannot count yet. */
static int start(rocattach_session_id_t session) {
  current = session.handle;
  return CALL(rocattach_start_session(session), ROCATTACH_STATUS_ERROR,
              ROCATTACH_STATUS_ERROR_HAS_ACTIVE_SESSION,
              ROCATTACH_STATUS_ERROR_FILTER_NOT_SUPPORTED);
}

/* Waits until records have come or the session is lost, for `msec` at most. */
static void wait_for_records(unsigned losses, int msec) {
  const unsigned before = records;
  for (int i = 0; i < msec && records == before && told == losses && !finished; ++i) {
    sleep_msec(1);
  }
}

static void cycle(int32_t pid) {
  static const char* names[] = {"SQ_WAVES",      "GRBM_COUNT",      "SQ_BUSY_CYCLES",
                                "SQ_INSTS_VALU", "GRBM_GUI_ACTIVE", "SQ_INSTS_SALU"};
  for (int i = 0; !finished; ++i) {
    const char* two[] = {names[i % 6], names[(i + 1 + i / 6 % 5) % 6]};
    rocattach_session_id_t session;
    const unsigned losses = told, before = records;
    int good = 0;
    if (!create(pid, two, 2, &session)) {
      sleep_msec(10);
      continue;
    }
    if (start(session)) {
      wait_for_records(losses, i % 8 * 5);
      const int was_lost = told != losses;
      const int there = CALL(rocattach_check_session(session), ROCATTACH_STATUS_ERROR);
      const int stopped =
          CALL(rocattach_terminate_session(session), ROCATTACH_STATUS_ERROR);
      good = there && stopped && records > before;
      /* No call succeeds on a lost session, and a stop does not report a loss. */
      if (was_lost && (there || stopped)) ++undocumented;
      if (!was_lost && stopped && told != losses) ++undocumented;
      if (!stopped) ++ended;
      if (CALL(rocattach_terminate_session(session),
               ROCATTACH_STATUS_ERROR_SESSION_NOT_ACTIVE)) {
        ++undocumented; /* it was over in any case */
      }
    } else {
      sleep_msec(10);
    }
    CALL(rocattach_destroy_session(session), 0);
    if (good) say("good");
  }
}

static void hold(int32_t pid) {
  rocattach_session_id_t session;
  while (!create(pid, NULL, 0, &session)) {
    if (finished) return;
    sleep_msec(10);
  }
  int active = 0;
  while (!finished) {
    const unsigned losses = told;
    active = start(session);
    if (!active) {
      sleep_msec(10);
      continue;
    }
    const unsigned before = records;
    while (told == losses && !finished && records == before) {
      wait_for_records(losses, 100);
    }
    if (told == losses && !finished) say("held");
    while (told == losses && !finished) sleep_msec(1);
    if (told == losses) break;
    active = 0;
    say("lost");
    if (CALL(rocattach_check_session(session), ROCATTACH_STATUS_ERROR)) ++undocumented;
  }
  if (active) CALL(rocattach_terminate_session(session), ROCATTACH_STATUS_ERROR);
  CALL(rocattach_destroy_session(session), 0);
}

int main(int argc, char** argv) {
  struct sigaction action;
  memset(&action, 0, sizeof(action));
  action.sa_handler = on_signal;
  sigaction(SIGUSR1, &action, NULL);
  if (argc != 3) return 2;
  const int32_t pid = atoi(argv[2]);
  if (!CALL(rocattach_initialize(), 0)) return 1;
  if (strcmp(argv[1], "cycle") == 0) cycle(pid);
  if (strcmp(argv[1], "hold") == 0) hold(pid);
  CALL(rocattach_finalize(), 0);
  printf(
      "calls=%u slowest=%.0f undocumented=%u told=%u wrong_told=%u ended=%u "
      "records=%u\n",
      calls, slowest, undocumented, told, wrong_told, ended, records);
  return undocumented != 0 || wrong_told != 0;
}
