// hsa_graph: submits graphs as newer HIP runtimes do: the packets of all nodes, then
// one ring of the doorbell for all of them; the last node has a completion signal. The
// kernel is increment until the change, and accumulate from then on.
#define _GNU_SOURCE
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/targets/hsa_support.h"

#define MAX_NODES 8192
#define QUEUE_PACKETS (2 * MAX_NODES)
#define MAX_TIMES 100000

static const char help[] =
    "usage: hsa_graph [OPTIONS]\n"
    "  --nodes N     kernels of a graph, 1 to 8192 (default 64)\n"
    "  -n N          graphs after the change (default 20)\n"
    "  --until FILE  the change comes when there is such a file (default: at once)\n"
    "  --ready FILE  creates FILE when the first graph is over\n";

struct settings {
  uint64_t nodes, graphs;
  const char* until;
  const char* ready;
};

static struct settings settings = {64, 20, NULL, NULL};

struct submitter {
  hsa_queue_t* queue;
  hsa_signal_t done;
  void* arguments;
  uint64_t launched;  // kernels
};

static uint64_t now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

// Returns the time until the last kernel had ended.
static uint64_t launch_graph(struct submitter* s, const struct kernel* kernel) {
  const uint64_t begin = now_ns();
  hsa_signal_store_relaxed(s->done, 1);
  const uint64_t first =
      hsa_queue_add_write_index_scacq_screl(s->queue, settings.nodes);
  const hsa_signal_t none = {0};
  for (uint64_t i = 0; i < settings.nodes; i++) {
    write_dispatch(s->queue, first + i, kernel, s->arguments, 64,
                   i + 1 == settings.nodes ? s->done : none);
  }
  hsa_signal_store_screlease(s->queue->doorbell_signal,
                             (hsa_signal_value_t)(first + settings.nodes - 1));
  wait_for_zero(s->done);
  s->launched += settings.nodes;
  return now_ns() - begin;
}

static int compare(const void* a, const void* b) {
  const uint64_t x = *(const uint64_t*)a, y = *(const uint64_t*)b;
  return x < y ? -1 : x > y;
}

static void parse(int argc, char** argv) {
  static const struct option options[] = {{"nodes", required_argument, NULL, 'N'},
                                          {"until", required_argument, NULL, 'u'},
                                          {"ready", required_argument, NULL, 'r'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
  int option;
  while ((option = getopt_long(argc, argv, "n:h", options, NULL)) != -1) {
    switch (option) {
      case 'N':
        settings.nodes = parse_number("--nodes", optarg);
        break;
      case 'n':
        settings.graphs = parse_number("-n", optarg);
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
  if (settings.nodes < 1 || settings.nodes > MAX_NODES) {
    die("--nodes: 1 to %d", MAX_NODES);
  }
  if (settings.graphs < 1 || settings.graphs > MAX_TIMES) {
    die("-n: 1 to %d", MAX_TIMES);
  }
}

int main(int argc, char** argv) {
  parse(argc, argv);
  struct machine machine;
  check(hsa_init(), "hsa_init");
  find_machine(&machine);
  hsa_executable_t executable = load_kernels(&machine);
  const struct kernel before = find_kernel(&machine, executable, "increment");
  const struct kernel after = find_kernel(&machine, executable, "accumulate");
  struct submitter s = {create_queue(&machine, QUEUE_PACKETS, true), create_signal(0),
                        allocate(&machine, machine.kernarg, 256), 0};
  uint64_t* counter = allocate(&machine, machine.host, sizeof(uint64_t));
  *counter = 0;
  ((uint64_t**)s.arguments)[0] = counter;
  ((uint64_t*)s.arguments)[1] = 1;  // the amount that accumulate adds

  if (settings.until != NULL) {
    launch_graph(&s, &before);
    if (settings.ready != NULL) create_file(settings.ready);
    while (access(settings.until, F_OK) != 0) launch_graph(&s, &before);
  }
  const uint64_t launched_before = s.launched;
  uint64_t* times = malloc(settings.graphs * sizeof(*times));
  if (times == NULL) die("no memory");
  for (uint64_t i = 0; i < settings.graphs; i++) times[i] = launch_graph(&s, &after);
  qsort(times, settings.graphs, sizeof(*times), compare);

  const bool right = *counter == s.launched;
  printf(
      "before=%lu after=%lu dispatches=%lu median_ns=%lu least_ns=%lu "
      "result=%s\n",
      launched_before, s.launched - launched_before, s.launched,
      times[settings.graphs / 2], times[0], right ? "ok" : "wrong");
  free(times);
  check(hsa_signal_destroy(s.done), "hsa_signal_destroy");
  check(hsa_queue_destroy(s.queue), "hsa_queue_destroy");
  check(hsa_amd_memory_pool_free(s.arguments), "hsa_amd_memory_pool_free");
  check(hsa_amd_memory_pool_free(counter), "hsa_amd_memory_pool_free");
  check(hsa_executable_destroy(executable), "hsa_executable_destroy");
  check(hsa_shut_down(), "hsa_shut_down");
  return right ? 0 : 1;
}
