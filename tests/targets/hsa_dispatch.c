// hsa_dispatch: kernel dispatches and copies through the plain HSA runtime. Each
// dispatch adds to a counter in memory; the counters are checked at the end.
#define _GNU_SOURCE
#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/targets/hsa_support.h"

#define QUEUE_PACKETS 1024
#define SIGNALS_PER_THREAD 64
#define ACCUMULATED 1000

enum signalling { SIGNAL_EACH, SIGNAL_LAST, SIGNAL_NONE };

struct settings {
  uint64_t dispatches;  // of all threads, per round
  uint64_t rounds;
  unsigned queues, threads;
  enum signalling signalling;
  bool synchronous;
  uint64_t copies;
  uint64_t copy_bytes;
  uint64_t sleep_msec;
  uint64_t wait_msec;
  const char* wait_file;
  uint32_t work_items;
  bool direct;
  const char* exit_by;
};

struct program {
  struct settings settings;
  struct machine machine;
  struct kernel increment, accumulate;
  hsa_queue_t** queues;
};

struct worker {
  const struct program* program;
  hsa_queue_t* queue;
  uint64_t dispatches;
  uint64_t* counters;  // [0] by increment, [1] by accumulate
  void* increment_arguments;
  void* accumulate_arguments;
  uint64_t incremented, accumulated;  // dispatches of each kernel
  hsa_signal_t signals[SIGNALS_PER_THREAD];
  hsa_signal_t done;
  pthread_t thread;
};

static const char help[] =
    "usage: hsa_dispatch [OPTIONS]\n"
    "  -n N                 dispatches, shared by the threads (default 1000)\n"
    "  -q N                 queues (default 1)\n"
    "  -t N                 threads (default 1)\n"
    "  --rounds N           do it all N times (default 1)\n"
    "  --sleep-msec N       pause before every round (default 0)\n"
    "  --wait-msec N        pause before hsa_init (default 0)\n"
    "  --wait-file FILE     wait before hsa_init until there is such a file\n"
    "  --kernel-signal each|last|none\n"
    "                       which dispatches have a completion signal (default each);\n"
    "                       with none, a barrier packet at the end of a round has one\n"
    "  --sync               wait for every dispatch before the next; implies each\n"
    "  --copies N           copies, alternately to and from the device (default 0)\n"
    "  --copy-bytes N       size of each (default 65536)\n"
    "  --work-items N       grid size of each dispatch (default 4096)\n"
    "  --ring-directly      ring by a store to the hardware's doorbell\n"
    "  --exit shutdown|return|exit|atexit|_exit|sigkill|now|killed\n"
    "                       how the program ends (default shutdown: hsa_shut_down, "
    "return;\n"
    "                       atexit: hsa_shut_down in an exit handler; now and killed:\n"
    "                       _exit or SIGKILL as soon as all has been waited for)\n";

static enum signalling parse_signalling(const char* text) {
  if (strcmp(text, "each") == 0) return SIGNAL_EACH;
  if (strcmp(text, "last") == 0) return SIGNAL_LAST;
  if (strcmp(text, "none") == 0) return SIGNAL_NONE;
  die("--kernel-signal: %s is not each, last or none", text);
}

static const char* parse_exit(const char* text) {
  static const char* const ways[] = {"shutdown", "return",  "exit", "atexit",
                                     "_exit",    "sigkill", "now",  "killed"};
  for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
    if (strcmp(text, ways[i]) == 0) return ways[i];
  }
  die("--exit: %s is not shutdown, return, exit, atexit, _exit, sigkill, now or killed",
      text);
}

static const struct option long_options[] = {
    {"rounds", required_argument, NULL, 'r'},
    {"sleep-msec", required_argument, NULL, 's'},
    {"wait-msec", required_argument, NULL, 'W'},
    {"wait-file", required_argument, NULL, 'f'},
    {"kernel-signal", required_argument, NULL, 'k'},
    {"sync", no_argument, NULL, 'S'},
    {"copies", required_argument, NULL, 'c'},
    {"copy-bytes", required_argument, NULL, 'b'},
    {"work-items", required_argument, NULL, 'w'},
    {"ring-directly", no_argument, NULL, 'd'},
    {"exit", required_argument, NULL, 'e'},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0}};

static void take_option(struct settings* s, int option) {
  switch (option) {
    case 'n':
      s->dispatches = parse_number("-n", optarg);
      break;
    case 'q':
      s->queues = (unsigned)parse_number("-q", optarg);
      break;
    case 't':
      s->threads = (unsigned)parse_number("-t", optarg);
      break;
    case 'r':
      s->rounds = parse_number("--rounds", optarg);
      break;
    case 's':
      s->sleep_msec = parse_number("--sleep-msec", optarg);
      break;
    case 'k':
      s->signalling = parse_signalling(optarg);
      break;
    case 'S':
      s->synchronous = true;
      break;
    case 'c':
      s->copies = parse_number("--copies", optarg);
      break;
    case 'b':
      s->copy_bytes = parse_number("--copy-bytes", optarg);
      break;
    case 'w':
      s->work_items = (uint32_t)parse_number("--work-items", optarg);
      break;
    case 'W':
      s->wait_msec = parse_number("--wait-msec", optarg);
      break;
    case 'f':
      s->wait_file = optarg;
      break;
    case 'd':
      s->direct = true;
      break;
    case 'e':
      s->exit_by = parse_exit(optarg);
      break;
    case 'h':
      fputs(help, stdout);
      exit(0);
    default:
      exit(2);
  }
}

static struct settings parse(int argc, char** argv) {
  struct settings s = {.dispatches = 1000,
                       .rounds = 1,
                       .queues = 1,
                       .threads = 1,
                       .copy_bytes = 65536,
                       .work_items = 4096,
                       .exit_by = "shutdown"};
  int option;
  while ((option = getopt_long(argc, argv, "n:q:t:h", long_options, NULL)) != -1) {
    take_option(&s, option);
  }
  if (s.queues == 0 || s.threads == 0 || s.work_items == 0 || s.copy_bytes == 0) {
    die("-q, -t, --work-items and --copy-bytes must not be 0");
  }
  if (s.synchronous) s.signalling = SIGNAL_EACH;
  return s;
}

// Dispatch `i` of a worker: one in four accumulates, the others increment.
static void dispatch_one(struct worker* worker, uint64_t i, hsa_signal_t signal) {
  const struct program* program = worker->program;
  if (i % 4 == 3) {
    worker->accumulated++;
    dispatch(worker->queue, &program->accumulate, worker->accumulate_arguments,
             program->settings.work_items, signal);
  } else {
    worker->incremented++;
    dispatch(worker->queue, &program->increment, worker->increment_arguments,
             program->settings.work_items, signal);
  }
}

static void run_signalling_each(struct worker* worker) {
  bool synchronous = worker->program->settings.synchronous;
  for (uint64_t i = 0; i < worker->dispatches; i++) {
    hsa_signal_t signal = worker->signals[i % SIGNALS_PER_THREAD];
    wait_for_zero(signal);  // for its previous dispatch
    hsa_signal_store_relaxed(signal, 1);
    dispatch_one(worker, i, signal);
    if (synchronous) wait_for_zero(signal);
  }
  for (unsigned i = 0; i < SIGNALS_PER_THREAD; i++) wait_for_zero(worker->signals[i]);
}

static void run_signalling_end(struct worker* worker, bool by_barrier) {
  const hsa_signal_t no_signal = {0};
  hsa_signal_store_relaxed(worker->done, 1);
  for (uint64_t i = 0; i < worker->dispatches; i++) {
    bool last = i + 1 == worker->dispatches;
    dispatch_one(worker, i, last && !by_barrier ? worker->done : no_signal);
  }
  if (by_barrier || worker->dispatches == 0) barrier(worker->queue, worker->done);
  wait_for_zero(worker->done);
}

static void* run_worker(void* argument) {
  struct worker* worker = argument;
  switch (worker->program->settings.signalling) {
    case SIGNAL_EACH:
      run_signalling_each(worker);
      break;
    case SIGNAL_LAST:
      run_signalling_end(worker, false);
      break;
    case SIGNAL_NONE:
      run_signalling_end(worker, true);
      break;
  }
  return NULL;
}

static void set_up_worker(struct worker* worker, const struct program* program,
                          unsigned index) {
  const struct settings* s = &program->settings;
  const struct machine* machine = &program->machine;
  worker->program = program;
  worker->queue = program->queues[index % s->queues];
  worker->dispatches =
      s->dispatches / s->threads + (index < s->dispatches % s->threads ? 1 : 0);
  worker->counters = allocate(machine, machine->host, 2 * sizeof(uint64_t));
  worker->counters[0] = worker->counters[1] = 0;
  // One allocation for the arguments of both kernels, which are 256 bytes apart.
  char* arguments = allocate(machine, machine->kernarg, 512);
  memset(arguments, 0, 512);
  worker->increment_arguments = arguments;
  *(uint64_t**)arguments = &worker->counters[0];
  worker->accumulate_arguments = arguments + 256;
  ((uint64_t**)(arguments + 256))[0] = &worker->counters[1];
  ((uint64_t*)(arguments + 256))[1] = ACCUMULATED;
  for (unsigned i = 0; i < SIGNALS_PER_THREAD; i++)
    worker->signals[i] = create_signal(0);
  worker->done = create_signal(0);
}

// Returns true if the counters are right.
static bool tear_down_worker(struct worker* worker) {
  bool right = worker->counters[0] == worker->incremented &&
               worker->counters[1] == worker->accumulated * ACCUMULATED;
  for (unsigned i = 0; i < SIGNALS_PER_THREAD; i++) {
    check(hsa_signal_destroy(worker->signals[i]), "hsa_signal_destroy");
  }
  check(hsa_signal_destroy(worker->done), "hsa_signal_destroy");
  check(hsa_amd_memory_pool_free(worker->increment_arguments),
        "hsa_amd_memory_pool_free");
  check(hsa_amd_memory_pool_free(worker->counters), "hsa_amd_memory_pool_free");
  return right;
}

static void copy(void* to, hsa_agent_t to_agent, const void* from,
                 hsa_agent_t from_agent, size_t bytes, hsa_signal_t signal) {
  hsa_signal_store_relaxed(signal, 1);
  check(
      hsa_amd_memory_async_copy(to, to_agent, from, from_agent, bytes, 0, NULL, signal),
      "hsa_amd_memory_async_copy");
  wait_for_zero(signal);
}

// Copies to the device and back; returns true if all data came back unchanged.
static bool run_copies(const struct program* program) {
  const struct settings* s = &program->settings;
  const struct machine* m = &program->machine;
  if (s->copies == 0) return true;
  unsigned char* source = allocate(m, m->host, s->copy_bytes);
  unsigned char* result = allocate(m, m->host, s->copy_bytes);
  unsigned char* device = allocate(m, m->device, s->copy_bytes);
  hsa_signal_t signal = create_signal(0);
  bool right = true;
  for (uint64_t i = 0; i < s->copies; i++) {
    if (i % 2 == 0) {
      for (uint64_t j = 0; j < s->copy_bytes; j++)
        source[j] = (unsigned char)(i + j * 7);
      copy(device, m->gpu, source, m->cpu, s->copy_bytes, signal);
    } else {
      memset(result, 0, s->copy_bytes);
      copy(result, m->cpu, device, m->gpu, s->copy_bytes, signal);
      right = right && memcmp(source, result, s->copy_bytes) == 0;
    }
  }
  check(hsa_signal_destroy(signal), "hsa_signal_destroy");
  check(hsa_amd_memory_pool_free(device), "hsa_amd_memory_pool_free");
  check(hsa_amd_memory_pool_free(result), "hsa_amd_memory_pool_free");
  check(hsa_amd_memory_pool_free(source), "hsa_amd_memory_pool_free");
  return right;
}

static double seconds_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void shut_down(void) {
  check(hsa_shut_down(), "hsa_shut_down");
}

static int end(const char* how, int status) {
  fflush(NULL);
  if (strcmp(how, "sigkill") == 0) raise(SIGKILL);
  if (strcmp(how, "_exit") == 0) _exit(status);
  if (strcmp(how, "exit") == 0) exit(status);
  if (strcmp(how, "shutdown") == 0) shut_down();
  return status;
}

int main(int argc, char** argv) {
  struct program program = {.settings = parse(argc, argv)};
  const struct settings* s = &program.settings;
  // Registered before all other handlers, it runs after all of them: those of tools and
  // of libraries that are loaded later have run by then.
  if (strcmp(s->exit_by, "atexit") == 0) atexit(shut_down);
  ring_directly(s->direct);
  pause_msec(s->wait_msec);
  while (s->wait_file != NULL && access(s->wait_file, F_OK) != 0) pause_msec(10);
  check(hsa_init(), "hsa_init");
  find_machine(&program.machine);
  hsa_executable_t executable = load_kernels(&program.machine);
  program.increment = find_kernel(&program.machine, executable, "increment");
  program.accumulate = find_kernel(&program.machine, executable, "accumulate");
  program.queues = calloc(s->queues, sizeof(hsa_queue_t*));
  struct worker* workers = calloc(s->threads, sizeof(*workers));
  if (program.queues == NULL || workers == NULL) die("out of memory");
  for (unsigned i = 0; i < s->queues; i++) {
    program.queues[i] =
        create_queue(&program.machine, QUEUE_PACKETS, s->threads > s->queues);
  }
  for (unsigned i = 0; i < s->threads; i++) set_up_worker(&workers[i], &program, i);

  double seconds = 0;
  for (uint64_t round = 0; round < s->rounds; round++) {
    pause_msec(s->sleep_msec);
    double start = seconds_now();
    for (unsigned i = 0; i < s->threads; i++) {
      if (pthread_create(&workers[i].thread, NULL, run_worker, &workers[i]) != 0) {
        die("pthread_create failed");
      }
    }
    for (unsigned i = 0; i < s->threads; i++) pthread_join(workers[i].thread, NULL);
    seconds += seconds_now() - start;
  }
  bool right = run_copies(&program);
  if (strcmp(s->exit_by, "now") == 0) _exit(right ? 0 : 1);
  if (strcmp(s->exit_by, "killed") == 0) raise(SIGKILL);

  uint64_t incremented = 0, accumulated = 0;
  for (unsigned i = 0; i < s->threads; i++) {
    incremented += workers[i].incremented;
    accumulated += workers[i].accumulated;
    right = tear_down_worker(&workers[i]) && right;
  }
  for (unsigned i = 0; i < s->queues; i++) {
    check(hsa_queue_destroy(program.queues[i]), "hsa_queue_destroy");
  }
  check(hsa_executable_destroy(executable), "hsa_executable_destroy");
  uint64_t dispatches = incremented + accumulated;
  printf(
      "dispatches=%llu copies=%llu bytes=%llu increment=%llu accumulate=%llu "
      "rate=%.0f result=%s\n",
      (unsigned long long)dispatches, (unsigned long long)s->copies,
      (unsigned long long)(s->copies * s->copy_bytes), (unsigned long long)incremented,
      (unsigned long long)accumulated, seconds > 0 ? (double)dispatches / seconds : 0,
      right ? "ok" : "wrong");
  free(workers);
  free(program.queues);
  return end(s->exit_by, right ? 0 : 1);
}
