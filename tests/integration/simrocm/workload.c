// A plain HSA program that does what its arguments say, one after the other, on every
// GPU at once:
//   dispatch:N      N dispatches of changing sizes by each thread on each GPU
//   copy:N          N copies, alternately to and from the first GPU
//   attach:TOOL     rocprofiler_register_attach, on a thread of its own as an attacher
//                   would do it; "attach:" passes no tool
//   detach          rocprofiler_register_detach
//   load            unload and load the kernels again
//   fork            a child that ends at once
//   begin           one dispatch by each thread on each GPU, without waiting for it
//   rccl:N          N calls of ncclAllReduce
//   sleep:MSEC
//   wait:FILE       waits until FILE is there
//   until:FILE      dispatches, some at a time, until FILE is there
//   pipeline:FILE   each thread dispatches without waiting, and one more copies, until
//                   FILE is there
//   environment     prints the variables about profiling that a child would see
//   collector       loads the collector late (tests/integration/collector/preload.c)
// Options: -t N threads per GPU, --exit shutdown|return|exit|_exit. Prints the numbers
// of operations that it has made.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/targets/hsa_support.h"

#define MAX_GPUS 8
#define MAX_THREADS 16
#define COPY_BYTES 65536

struct gpu {
  struct machine machine;
  hsa_executable_t executable;
  struct kernel kernel;
};

struct worker {
  struct gpu* gpu;
  hsa_queue_t* queue;
  uint64_t* counter;
  void* arguments;
  uint64_t count, made;
  pthread_t thread;
};

static struct machine machine;
static struct gpu gpus[MAX_GPUS];
static struct worker workers[MAX_GPUS * MAX_THREADS];
static unsigned gpu_count, thread_count = 1;
static uint64_t copies;
static uint64_t dispatch_ns;  // spent in dispatch_all
static char statuses[256];

static hsa_status_t add_gpu(hsa_agent_t agent, void* data) {
  (void)data;
  hsa_device_type_t type;
  check(hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type), "hsa_agent_get_info");
  if (type != HSA_DEVICE_TYPE_GPU || gpu_count == MAX_GPUS) return HSA_STATUS_SUCCESS;
  gpus[gpu_count].machine = machine;
  gpus[gpu_count++].machine.gpu = agent;
  return HSA_STATUS_SUCCESS;
}

static void load_all(void) {
  for (unsigned i = 0; i < gpu_count; i++) {
    gpus[i].executable = load_kernels(&gpus[i].machine);
    gpus[i].kernel = find_kernel(&gpus[i].machine, gpus[i].executable, "increment");
  }
}

static void unload_all(void) {
  for (unsigned i = 0; i < gpu_count; i++) {
    check(hsa_executable_destroy(gpus[i].executable), "hsa_executable_destroy");
  }
}

static void set_up(void) {
  check(hsa_init(), "hsa_init");
  find_machine(&machine);
  check(hsa_iterate_agents(add_gpu, NULL), "hsa_iterate_agents");
  load_all();
  for (unsigned i = 0; i < gpu_count * thread_count; i++) {
    struct worker* worker = &workers[i];
    worker->gpu = &gpus[i % gpu_count];
    worker->queue = create_queue(&worker->gpu->machine, 256, true);
    worker->counter = allocate(&worker->gpu->machine, machine.host, sizeof(uint64_t));
    *worker->counter = 0;
    worker->arguments = allocate(&worker->gpu->machine, machine.kernarg, 256);
    memset(worker->arguments, 0, 256);
    *(uint64_t**)worker->arguments = worker->counter;
  }
}

// Number of work-items: whole and partial work-groups, different in each dispatch.
static uint32_t next_items(const struct worker* worker) {
  return 64 * (1 + (uint32_t)(worker->made % 17)) + (worker->made % 3 == 0 ? 5 : 0);
}

static void* run_worker(void* argument) {
  struct worker* worker = argument;
  hsa_signal_t done = create_signal(0);
  for (uint64_t i = 0; i < worker->count; i++) {
    uint32_t items = next_items(worker);
    // Two in three have a completion signal.
    hsa_signal_t signal = {0};
    if (i % 3 != 1 || i + 1 == worker->count) {
      wait_for_zero(done);
      hsa_signal_store_relaxed(done, 1);
      signal = done;
    }
    dispatch(worker->queue, &worker->gpu->kernel, worker->arguments, items, signal);
    worker->made++;
  }
  wait_for_zero(done);
  check(hsa_signal_destroy(done), "hsa_signal_destroy");
  return NULL;
}

static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void dispatch_all(uint64_t count) {
  unsigned total = gpu_count * thread_count;
  uint64_t begin = now_ns();
  for (unsigned i = 0; i < total; i++) {
    workers[i].count = count;
    if (pthread_create(&workers[i].thread, NULL, run_worker, &workers[i]) != 0) {
      die("cannot start a thread");
    }
  }
  for (unsigned i = 0; i < total; i++) pthread_join(workers[i].thread, NULL);
  dispatch_ns += now_ns() - begin;
}

static void reduce(uint64_t count) {
  void* library = dlopen("librccl.so.1", RTLD_NOW);
  int (*all_reduce)(const void*, void*, size_t, int, int, void*, void*) = NULL;
  if (library != NULL) *(void**)&all_reduce = dlsym(library, "ncclAllReduce");
  if (all_reduce == NULL) {
    fprintf(stderr, "no ncclAllReduce: %s\n", dlerror());
    exit(1);
  }
  for (uint64_t i = 0; i < count; ++i)
    all_reduce(NULL, NULL, 100 + i, 7, 0, NULL, NULL);
}

static void copy_some(uint64_t count) {
  const struct machine* m = &gpus[0].machine;
  char* host = allocate(m, m->host, COPY_BYTES);
  char* device = allocate(m, m->device, COPY_BYTES);
  hsa_signal_t done = create_signal(0);
  for (uint64_t i = 0; i < count; i++) {
    bool there = i % 2 == 0;
    hsa_signal_store_relaxed(done, 1);
    check(hsa_amd_memory_async_copy(there ? device : host, there ? m->gpu : m->cpu,
                                    there ? host : device, there ? m->cpu : m->gpu,
                                    COPY_BYTES, 0, NULL, done),
          "hsa_amd_memory_async_copy");
    wait_for_zero(done);
    copies++;
  }
  check(hsa_signal_destroy(done), "hsa_signal_destroy");
  check(hsa_amd_memory_pool_free(host), "hsa_amd_memory_pool_free");
  check(hsa_amd_memory_pool_free(device), "hsa_amd_memory_pool_free");
}

static void begin_all(void) {
  for (unsigned i = 0; i < gpu_count * thread_count; i++) {
    dispatch(workers[i].queue, &workers[i].gpu->kernel, workers[i].arguments,
             next_items(&workers[i]), (hsa_signal_t){0});
    workers[i].made++;
  }
}

static int pipeline_ends;

// Every 32nd dispatch has a signal, and is waited for when the second next one is due.
static void* run_pipeline(void* argument) {
  struct worker* worker = argument;
  hsa_signal_t signals[2] = {create_signal(0), create_signal(0)};
  for (uint64_t i = 1; !__atomic_load_n(&pipeline_ends, __ATOMIC_ACQUIRE); i++) {
    hsa_signal_t signal = {0};
    if (i % 32 == 0) {
      signal = signals[i / 32 % 2];
      wait_for_zero(signal);
      hsa_signal_store_relaxed(signal, 1);
    }
    dispatch(worker->queue, &worker->gpu->kernel, worker->arguments, next_items(worker),
             signal);
    worker->made++;
  }
  wait_for_zero(signals[0]);
  hsa_signal_store_relaxed(signals[0], 1);
  barrier(worker->queue, signals[0]);
  for (int i = 0; i < 2; i++) {
    wait_for_zero(signals[i]);
    check(hsa_signal_destroy(signals[i]), "hsa_signal_destroy");
  }
  return NULL;
}

static void* copy_beside(void* argument) {
  (void)argument;
  while (!__atomic_load_n(&pipeline_ends, __ATOMIC_ACQUIRE)) copy_some(20);
  return NULL;
}

static void start_thread(pthread_t* thread, void* (*run)(void*), void* argument) {
  if (pthread_create(thread, NULL, run, argument) != 0) die("cannot start a thread");
}

static void pipeline(const char* file) {
  unsigned total = gpu_count * thread_count;
  pthread_t copier;
  for (unsigned i = 0; i < total; i++) {
    start_thread(&workers[i].thread, run_pipeline, &workers[i]);
  }
  start_thread(&copier, copy_beside, NULL);
  while (access(file, F_OK) != 0) usleep(1000);
  __atomic_store_n(&pipeline_ends, 1, __ATOMIC_RELEASE);
  for (unsigned i = 0; i < total; i++) pthread_join(workers[i].thread, NULL);
  pthread_join(copier, NULL);
}

struct attach_call {
  const char* tool;  // NULL: detach
  bool no_tool;
  int status;
};

// Finds a function as rocprofiler-register's clients do: among the loaded libraries.
static void* find_register(const char* name) {
  void* library = dlopen("librocprofiler-register.so.0", RTLD_LAZY | RTLD_NOLOAD);
  void* function = library != NULL ? dlsym(library, name) : NULL;
  if (function == NULL) die("no %s", name);
  return function;
}

static void* run_attach(void* argument) {
  struct attach_call* call = argument;
  // One variable that stays set: count, name, value.
  static const char environment[] = "\1\0\0\0SIMROCM_TEST_ATTACHED\0yes";
  if (call->tool != NULL) {
    int (*attach)(const char*, const char*) =
        (int (*)(const char*, const char*))find_register("rocprofiler_register_attach");
    call->status = attach(environment, call->no_tool ? NULL : call->tool);
  } else {
    int (*detach)(void) = (int (*)(void))find_register("rocprofiler_register_detach");
    call->status = detach();
  }
  return NULL;
}

static void call_register(const char* tool) {
  struct attach_call call = {tool, tool != NULL && *tool == '\0', -1};
  pthread_t thread;
  if (pthread_create(&thread, NULL, run_attach, &call) != 0)
    die("cannot start a thread");
  pthread_join(thread, NULL);
  size_t used = strlen(statuses);
  snprintf(statuses + used, sizeof(statuses) - used, "%s%d", used > 0 ? "," : "",
           call.status);
}

static void print_environment(void) {
  fflush(stdout);
  if (system("env | grep -E '^(ROCP|HSA_TOOLS)' | sort | sed 's/^/child: /'") < 0) {
    die("cannot start a shell");
  }
}

static void load_collector(void) {
  void (*load)(void);
  *(void**)&load = dlsym(RTLD_DEFAULT, "collector_test_load");
  if (load == NULL) die("no collector is preloaded");
  load();
}

static void run_step(const char* step) {
  const char* colon = strchr(step, ':');
  const char* value = colon != NULL ? colon + 1 : "";
  if (strncmp(step, "dispatch:", 9) == 0) {
    dispatch_all(parse_number("dispatch", value));
  } else if (strncmp(step, "copy:", 5) == 0) {
    copy_some(parse_number("copy", value));
  } else if (strncmp(step, "rccl:", 5) == 0) {
    reduce(parse_number("rccl", value));
  } else if (strncmp(step, "sleep:", 6) == 0) {
    usleep((useconds_t)parse_number("sleep", value) * 1000);
  } else if (strncmp(step, "wait:", 5) == 0) {
    while (access(value, F_OK) != 0) usleep(1000);
  } else if (strncmp(step, "attach:", 7) == 0) {
    call_register(value);
  } else if (strncmp(step, "until:", 6) == 0) {
    while (access(value, F_OK) != 0) dispatch_all(20);
  } else if (strncmp(step, "pipeline:", 9) == 0) {
    pipeline(value);
  } else if (strcmp(step, "begin") == 0) {
    begin_all();
  } else if (strcmp(step, "environment") == 0) {
    print_environment();
  } else if (strcmp(step, "collector") == 0) {
    load_collector();
  } else if (strcmp(step, "detach") == 0) {
    call_register(NULL);
  } else if (strcmp(step, "load") == 0) {
    unload_all();
    load_all();
  } else if (strcmp(step, "fork") == 0) {
    pid_t child = fork();
    if (child == 0) exit(0);
    int status = -1;
    pid_t ended = 0;
    for (int msec = 0; ended == 0 && msec < 5000; msec++) {
      ended = waitpid(child, &status, WNOHANG);
      if (ended == 0) usleep(1000);
    }
    if (ended == 0) kill(child, SIGKILL);
    if (ended == 0) die("the child does not end");
    if (ended != child || status != 0) die("the child failed");
  } else {
    die("unknown step %s", step);
  }
}

static void finish(const char* way) {
  fflush(stdout);
  if (strcmp(way, "_exit") == 0) _exit(0);
  if (strcmp(way, "exit") == 0) exit(0);
  if (strcmp(way, "return") == 0) return;
  for (unsigned i = 0; i < gpu_count * thread_count; i++) {
    check(hsa_queue_destroy(workers[i].queue), "hsa_queue_destroy");
  }
  unload_all();
  check(hsa_shut_down(), "hsa_shut_down");
}

int main(int argc, char** argv) {
  const char* way = "shutdown";
  int first = 1;
  for (; first + 1 < argc && argv[first][0] == '-'; first += 2) {
    if (strcmp(argv[first], "-t") == 0) {
      thread_count = (unsigned)parse_number("-t", argv[first + 1]);
    } else if (strcmp(argv[first], "--exit") == 0) {
      way = argv[first + 1];
    } else {
      die("unknown option %s", argv[first]);
    }
  }
  if (thread_count == 0 || thread_count > MAX_THREADS) die("-t: 1 to 16");
  set_up();
  for (int i = first; i < argc; i++) run_step(argv[i]);
  uint64_t made = 0, counted = 0;
  for (unsigned i = 0; i < gpu_count * thread_count; i++) {
    made += workers[i].made;
    counted += *workers[i].counter;
  }
  const char* attached = getenv("SIMROCM_TEST_ATTACHED");
  printf(
      "gpus=%u dispatches=%lu copies=%lu attach=%s environment=%s dispatch_ns=%lu "
      "result=%s\n",
      gpu_count, made, copies, *statuses != '\0' ? statuses : "none",
      attached != NULL ? attached : "unset", dispatch_ns,
      made == counted ? "ok" : "wrong");
  finish(way);
  return made == counted ? 0 : 1;
}
