// hsa_code_objects: threads that keep loading a code object, launching one of its
// kernels, and unloading it. The kernel is increment until the change, and
// accumulate from then on.
#define _GNU_SOURCE
#include <getopt.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/targets/hsa_support.h"

#define MAX_THREADS 16

static const char help[] =
    "usage: hsa_code_objects [OPTIONS]\n"
    "  -m N          code objects of each thread after the change (default 50)\n"
    "  -t N          threads (default 2)\n"
    "  --until FILE  the change comes when there is such a file (default: at once)\n"
    "  --ready FILE  creates FILE when every thread has launched\n";

struct settings {
  uint64_t objects;
  unsigned threads;
  const char* until;
  const char* ready;
};

struct worker {
  hsa_queue_t* queue;
  uint64_t* counter;
  void* arguments;
  uint64_t before, after;
  pthread_t thread;
};

static struct settings settings = {50, 2, NULL, NULL};
static struct machine machine;
static atomic_uint warm_threads;

static void run_once(struct worker* worker, const char* name, hsa_signal_t done) {
  hsa_executable_t executable = load_kernels(&machine);
  const struct kernel kernel = find_kernel(&machine, executable, name);
  hsa_signal_store_relaxed(done, 1);
  dispatch(worker->queue, &kernel, worker->arguments, 64, done);
  wait_for_zero(done);
  check(hsa_executable_destroy(executable), "hsa_executable_destroy");
}

static void* run_worker(void* argument) {
  struct worker* worker = argument;
  hsa_signal_t done = create_signal(0);
  if (settings.until != NULL) {
    for (; worker->before == 0 || access(settings.until, F_OK) != 0; worker->before++) {
      run_once(worker, "increment", done);
      if (worker->before == 0) warm_threads++;
    }
  }
  for (; worker->after < settings.objects; worker->after++) {
    run_once(worker, "accumulate", done);
  }
  check(hsa_signal_destroy(done), "hsa_signal_destroy");
  return NULL;
}

static void parse(int argc, char** argv) {
  static const struct option options[] = {{"until", required_argument, NULL, 'u'},
                                          {"ready", required_argument, NULL, 'r'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
  int option;
  while ((option = getopt_long(argc, argv, "m:t:h", options, NULL)) != -1) {
    switch (option) {
      case 'm':
        settings.objects = parse_number("-m", optarg);
        break;
      case 't':
        settings.threads = (unsigned)parse_number("-t", optarg);
        break;
      case 'u':
        settings.until = optarg;
        break;
      case 'r':
        settings.ready = optarg;
        break;
      case 'h':
        fputs(help, stdout);
        exit(0);
      default:
        exit(2);
    }
  }
  if (settings.threads < 1 || settings.threads > MAX_THREADS) {
    die("-t: 1 to %d", MAX_THREADS);
  }
}

int main(int argc, char** argv) {
  parse(argc, argv);
  check(hsa_init(), "hsa_init");
  find_machine(&machine);
  static struct worker workers[MAX_THREADS];
  for (unsigned i = 0; i < settings.threads; i++) {
    struct worker* worker = &workers[i];
    worker->queue = create_queue(&machine, 64, false);
    worker->counter = allocate(&machine, machine.host, sizeof(uint64_t));
    *worker->counter = 0;
    worker->arguments = allocate(&machine, machine.kernarg, 256);
    ((uint64_t**)worker->arguments)[0] = worker->counter;
    ((uint64_t*)worker->arguments)[1] = 1;  // the amount that accumulate adds
    if (pthread_create(&worker->thread, NULL, run_worker, worker) != 0) {
      die("no thread");
    }
  }
  if (settings.ready != NULL && settings.until != NULL) {
    while (warm_threads < settings.threads) usleep(1000);
    create_file(settings.ready);
  }
  uint64_t before = 0, after = 0, counted = 0;
  for (unsigned i = 0; i < settings.threads; i++) {
    struct worker* worker = &workers[i];
    pthread_join(worker->thread, NULL);
    before += worker->before;
    after += worker->after;
    counted += *worker->counter;
    check(hsa_queue_destroy(worker->queue), "hsa_queue_destroy");
    check(hsa_amd_memory_pool_free(worker->arguments), "hsa_amd_memory_pool_free");
    check(hsa_amd_memory_pool_free(worker->counter), "hsa_amd_memory_pool_free");
  }
  const bool right = counted == before + after;
  printf("before=%lu after=%lu result=%s\n", before, after, right ? "ok" : "wrong");
  check(hsa_shut_down(), "hsa_shut_down");
  return right ? 0 : 1;
}
