// hsa_busy: keeps queues of the plain HSA runtime busy from several threads while
// another one copies, at a given rate and for as long as requested. Each dispatch adds
// to a counter, each copy back returns the data that was copied to the device, each
// completion signal is waited for and becomes 0: all of this is checked.
#define _GNU_SOURCE
#include <getopt.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/targets/hsa_support.h"

#define QUEUE_PACKETS 1024
#define SIGNALS 16
#define COPY_BYTES 4096
#define MAX_THREADS 64

static const char help[] =
    "usage: hsa_busy [OPTIONS]\n"
    "  -n N          dispatches of each thread at least (default 1000)\n"
    "  -t N          threads (default 2)\n"
    "  -q N          queues, shared by the threads in turn (default: one each)\n"
    "  --copies N    copies there and back at least, by one thread more (default 0)\n"
    "  --rate N      dispatches per second and thread (default 0: as many as can be)\n"
    "  --until FILE  goes on until there is such a file\n"
    "  --plain       no completion signals but the last (default: two of three have "
    "one)\n"
    "  --exit shutdown|return|exit\n"
    "                how to end (default shutdown)\n";

struct settings {
  uint64_t dispatches, copies, rate;
  unsigned threads, queues;
  const char* until;
  bool plain;
  const char* exit_by;
};

struct worker {
  hsa_queue_t* queue;
  uint64_t* counter;
  void* arguments;
  uint64_t made;
  double seconds;
  pthread_t thread;
};

static struct settings settings = {1000, 0, 0, 2, 0, NULL, false, "shutdown"};
static struct machine machine;
static struct kernel increment;
static atomic_bool copies_wrong;
static uint64_t copies_made;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

// Checks for the file only every 64 operations, because that takes a system call.
static bool is_over(uint64_t made, uint64_t at_least) {
  if (made < at_least) return false;
  if (settings.until == NULL) return true;
  return made % 64 == 0 && access(settings.until, F_OK) == 0;
}

static void keep_pace(uint64_t made, double begin) {
  if (settings.rate == 0) return;
  double ahead = begin + (double)made / (double)settings.rate - now();
  if (ahead > 0) usleep((useconds_t)(ahead * 1e6));
}

static void* run_worker(void* argument) {
  struct worker* worker = argument;
  hsa_signal_t signals[SIGNALS];
  for (unsigned i = 0; i < SIGNALS; i++) signals[i] = create_signal(0);
  const hsa_signal_t none = {0};
  double begin = now();
  while (!is_over(worker->made, settings.dispatches)) {
    hsa_signal_t signal = none;
    if (!settings.plain && worker->made % 3 != 1) {
      signal = signals[worker->made % SIGNALS];
      wait_for_zero(signal);
      hsa_signal_store_relaxed(signal, 1);
    }
    dispatch(worker->queue, &increment, worker->arguments, 256, signal);
    worker->made++;
    keep_pace(worker->made, begin);
  }
  for (unsigned i = 0; i < SIGNALS; i++) wait_for_zero(signals[i]);
  // Dispatches without a signal have ended when this one has, which is behind them.
  hsa_signal_store_relaxed(signals[0], 1);
  dispatch(worker->queue, &increment, worker->arguments, 256, signals[0]);
  worker->made++;
  wait_for_zero(signals[0]);
  worker->seconds = now() - begin;
  for (unsigned i = 0; i < SIGNALS; i++) {
    check(hsa_signal_destroy(signals[i]), "hsa_signal_destroy");
  }
  return NULL;
}

static void copy(void* to, hsa_agent_t to_agent, const void* from,
                 hsa_agent_t from_agent, hsa_signal_t done) {
  hsa_signal_store_relaxed(done, 1);
  check(hsa_amd_memory_async_copy(to, to_agent, from, from_agent, COPY_BYTES, 0, NULL,
                                  done),
        "hsa_amd_memory_async_copy");
  wait_for_zero(done);
  copies_made++;
}

static void* run_copies(void* argument) {
  (void)argument;
  unsigned char* source = allocate(&machine, machine.host, COPY_BYTES);
  unsigned char* result = allocate(&machine, machine.host, COPY_BYTES);
  unsigned char* device = allocate(&machine, machine.device, COPY_BYTES);
  hsa_signal_t done = create_signal(0);
  while (!is_over(copies_made, settings.copies)) {
    memset(source, (int)(copies_made / 2), COPY_BYTES);
    memset(result, 0xa5, COPY_BYTES);
    copy(device, machine.gpu, source, machine.cpu, done);
    copy(result, machine.cpu, device, machine.gpu, done);
    if (memcmp(source, result, COPY_BYTES) != 0) copies_wrong = true;
    if (settings.rate != 0) usleep(1000);
  }
  check(hsa_signal_destroy(done), "hsa_signal_destroy");
  check(hsa_amd_memory_pool_free(device), "hsa_amd_memory_pool_free");
  check(hsa_amd_memory_pool_free(result), "hsa_amd_memory_pool_free");
  check(hsa_amd_memory_pool_free(source), "hsa_amd_memory_pool_free");
  return NULL;
}

static void start(pthread_t* thread, void* (*function)(void*), void* argument) {
  if (pthread_create(thread, NULL, function, argument) != 0) die("no thread");
}

static void parse(int argc, char** argv) {
  static const struct option options[] = {{"copies", required_argument, NULL, 'c'},
                                          {"rate", required_argument, NULL, 'r'},
                                          {"until", required_argument, NULL, 'u'},
                                          {"plain", no_argument, NULL, 'p'},
                                          {"exit", required_argument, NULL, 'e'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
  int option;
  while ((option = getopt_long(argc, argv, "n:t:q:h", options, NULL)) != -1) {
    switch (option) {
      case 'n':
        settings.dispatches = parse_number("-n", optarg);
        break;
      case 't':
        settings.threads = (unsigned)parse_number("-t", optarg);
        break;
      case 'q':
        settings.queues = (unsigned)parse_number("-q", optarg);
        break;
      case 'c':
        settings.copies = parse_number("--copies", optarg);
        break;
      case 'r':
        settings.rate = parse_number("--rate", optarg);
        break;
      case 'u':
        settings.until = optarg;
        break;
      case 'p':
        settings.plain = true;
        break;
      case 'e':
        settings.exit_by = optarg;
        break;
      case 'h':
        fputs(help, stdout);
        exit(0);
      default:
        exit(2);
    }
  }
  if (settings.queues == 0) settings.queues = settings.threads;
  if (settings.threads == 0 || settings.threads > MAX_THREADS ||
      settings.queues > settings.threads) {
    die("-t: 1 to %d, -q: not more than threads", MAX_THREADS);
  }
}

int main(int argc, char** argv) {
  parse(argc, argv);
  check(hsa_init(), "hsa_init");
  find_machine(&machine);
  hsa_executable_t executable = load_kernels(&machine);
  increment = find_kernel(&machine, executable, "increment");
  hsa_queue_t* queues[MAX_THREADS];
  static struct worker workers[MAX_THREADS];
  for (unsigned i = 0; i < settings.queues; i++) {
    queues[i] = create_queue(&machine, QUEUE_PACKETS, true);
  }
  for (unsigned i = 0; i < settings.threads; i++) {
    workers[i].queue = queues[settings.queues > 1 ? i % settings.queues : 0];
    workers[i].counter = allocate(&machine, machine.host, sizeof(uint64_t));
    *workers[i].counter = 0;
    workers[i].arguments = allocate(&machine, machine.kernarg, 256);
    *(uint64_t**)workers[i].arguments = workers[i].counter;
  }
  pthread_t copier;
  for (unsigned i = 0; i < settings.threads; i++) {
    start(&workers[i].thread, run_worker, &workers[i]);
  }
  if (settings.copies != 0) start(&copier, run_copies, NULL);
  uint64_t made = 0, counted = 0;
  double seconds = 0;
  for (unsigned i = 0; i < settings.threads; i++) {
    pthread_join(workers[i].thread, NULL);
    made += workers[i].made;
    if (workers[i].seconds > seconds) seconds = workers[i].seconds;
  }
  if (settings.copies != 0) pthread_join(copier, NULL);
  for (unsigned i = 0; i < settings.threads; i++) {
    counted += *workers[i].counter;
    check(hsa_amd_memory_pool_free(workers[i].arguments), "hsa_amd_memory_pool_free");
    check(hsa_amd_memory_pool_free(workers[i].counter), "hsa_amd_memory_pool_free");
  }
  for (unsigned i = 0; i < settings.queues; i++) {
    check(hsa_queue_destroy(queues[i]), "hsa_queue_destroy");
  }
  check(hsa_executable_destroy(executable), "hsa_executable_destroy");
  bool right = made == counted && !copies_wrong;
  printf("dispatches=%lu copies=%lu bytes=%lu rate=%.0f result=%s\n", made, copies_made,
         copies_made * COPY_BYTES, (double)made / seconds, right ? "ok" : "wrong");
  fflush(stdout);
  int status = right ? 0 : 1;
  if (strcmp(settings.exit_by, "exit") == 0) exit(status);
  if (strcmp(settings.exit_by, "shutdown") == 0)
    check(hsa_shut_down(), "hsa_shut_down");
  return status;
}
