// hsa_newer: uses functions of newer runtimes: queues from descriptors, with rings in
// device memory, or counted queues, batches of copies, packets of AMD's own formats.
// The functions are looked up, so that it can be linked with Debian's runtime.
//
// With --until it first dispatches `increment` until the file exists, and from then on
// `accumulate`.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <getopt.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/targets/hsa_support.h"

enum { QUEUE_PACKETS = 4096, BATCH = 4, COPY_BYTES = 4096 };

// hsa_ext_amd.h of interface 1.31.
struct queue_descriptor {
  uint16_t version, flags;
  uint8_t engine_type, reserved1[3];
  uint32_t queue_bytes, priority;
  void (*callback)(hsa_status_t, hsa_queue_t*, void*);
  void* data;
  hsa_queue_t* queue;
  const uint32_t* cu_mask;
  uint32_t type, private_segment_size, cu_mask_count;
  uint8_t reserved2[12];
  uint32_t traffic_class;
  uint8_t reserved3[20];
};
_Static_assert(sizeof(struct queue_descriptor) == 96, "as the runtime has it");

struct copy_op {
  uint16_t version, type, entries, traffic_class;
  hsa_signal_t completion;
  const void* src;
  hsa_agent_t src_agent;
  union {
    hsa_agent_t dst_agent;
    const hsa_agent_t* dst_agent_list;
  };
  union {
    void* dst;
    void* const* dst_list;
  };
  size_t size, second_size;
  uint8_t wait[32], signal[32];
};
_Static_assert(sizeof(struct copy_op) == 128, "as the runtime has it");

// Vendor-specific packets. A dispatch in clusters:
struct ext_dispatch {
  uint16_t header;
  uint8_t format, setup;
  uint16_t workgroup_size[3], reserved;
  uint32_t clusters_x;
  uint16_t clusters_y, clusters_z;
  uint8_t cluster_size[3], hint;
  uint32_t private_segment_size, group_segment_size;
  uint64_t kernel_object;
  uint64_t kernarg_address;
  hsa_signal_t dependency, completion;
};
// A packet that runs packets outside of the ring:
struct ib_jump {
  uint16_t header;
  uint8_t format, reserved1;
  uint32_t packets;
  const void* base;
  uint64_t reserved2[4];
  hsa_signal_t completion;
  uint64_t reserved3;
};
_Static_assert(sizeof(struct ext_dispatch) == 64 && sizeof(struct ib_jump) == 64,
               "as packet processors read them");
enum { FORMAT_EXT_DISPATCH = 3, FORMAT_JUMP = 7 };

typedef hsa_status_t queue_create_fn(hsa_agent_t, struct queue_descriptor*, uint32_t);
typedef hsa_status_t acquire_fn(hsa_agent_t, hsa_queue_type_t, uint32_t,
                                void (*)(hsa_status_t, hsa_queue_t*, void*), void*,
                                uint64_t, hsa_queue_t**);
typedef hsa_status_t release_fn(hsa_queue_t*);
typedef hsa_status_t batch_copy_fn(const struct copy_op*, uint32_t, uint32_t,
                                   const hsa_signal_t*);

static struct {
  uint64_t dispatches;  // per thread
  uint64_t batches;     // of copies, per thread
  uint64_t jumps;       // per thread, each to one dispatch
  uint64_t restores;    // of the runtime's tables
  unsigned threads;
  bool counted, in_device, broadcast, clusters, unseen, own_signals;
  const char* until;
  const char* ready;
} settings = {.dispatches = 1000, .threads = 1};

static struct machine machine;
static struct kernel increment, accumulate;
static batch_copy_fn* batch_copy;
static atomic_bool restored = true;

struct worker {
  hsa_queue_t* queue;
  uint64_t before, after;
  pthread_t thread;
};

static const char help[] =
    "usage: hsa_newer [OPTIONS]\n"
    "  -n N           dispatches of each thread (default 1000)\n"
    "  -t N           threads, each with a queue (default 1)\n"
    "  --batches N    batches of 4 copies of each thread (default 0)\n"
    "  --broadcast    with one more copy, to 2 places\n"
    "  --clusters     dispatches are packets of AMD's format for clusters\n"
    "  --jumps N      packets of each thread that run a dispatch outside of the ring\n"
    "  --restores N   meanwhile another thread restores the runtime's tables, as tools "
    "do\n"
    "  --unseen       and destroys a queue each time, before others notice that\n"
    "  --device-ring  queues have their rings in device memory\n"
    "  --counted      threads share a counted queue, each with a handle of its own\n"
    "  --ring-directly  ring by a store to the hardware's doorbell\n"
    "  --own-signals  fails if a packet has got a signal that is not the program's\n"
    "  --until FILE   first dispatch other kernels until there is such a file\n"
    "  --ready FILE   created when these have begun\n";

static void* function(const char* name) {
  void* found = dlsym(RTLD_DEFAULT, name);
  if (found == NULL) die("the runtime has no %s", name);
  return found;
}

static hsa_queue_t* make_queue(void) {
  if (settings.counted) {
    hsa_queue_t* queue;
    acquire_fn* acquire = (acquire_fn*)function("hsa_amd_counted_queue_acquire");
    check(acquire(machine.gpu, HSA_QUEUE_TYPE_MULTI, 0, NULL, NULL, 0, &queue),
          "hsa_amd_counted_queue_acquire");
    return queue;
  }
  struct queue_descriptor descriptor = {.flags = settings.in_device ? 1 : 0,
                                        .queue_bytes = QUEUE_PACKETS * 64,
                                        .type = HSA_QUEUE_TYPE_MULTI,
                                        .private_segment_size = UINT32_MAX};
  queue_create_fn* create = (queue_create_fn*)function("hsa_amd_queue_create");
  check(create(machine.gpu, &descriptor, 1), "hsa_amd_queue_create");
  return descriptor.queue;
}

static void free_queue(hsa_queue_t* queue) {
  if (settings.counted) {
    check(((release_fn*)function("hsa_amd_counted_queue_release"))(queue),
          "hsa_amd_counted_queue_release");
  } else {
    check(hsa_queue_destroy(queue), "hsa_queue_destroy");
  }
}

static void dispatch_in_clusters(hsa_queue_t* queue, const struct kernel* kernel,
                                 void* kernarg, uint32_t work_items,
                                 hsa_signal_t done) {
  const struct ext_dispatch packet = {
      .header = packet_header(HSA_PACKET_TYPE_VENDOR_SPECIFIC),
      .format = FORMAT_EXT_DISPATCH,
      .setup = 1,
      .workgroup_size = {32, 1, 1},
      .clusters_x = work_items / 64,
      .clusters_y = 1,
      .clusters_z = 1,
      .cluster_size = {2, 1, 1},
      .private_segment_size = kernel->private_bytes,
      .group_segment_size = kernel->group_bytes,
      .kernel_object = kernel->object,
      .kernarg_address = (uintptr_t)kernarg,
      .completion = done};
  submit(queue, &packet);
}

static void dispatch_one(hsa_queue_t* queue, const struct kernel* kernel, void* kernarg,
                         hsa_signal_t done) {
  if (settings.clusters) {
    dispatch_in_clusters(queue, kernel, kernarg, 64, done);
  } else {
    dispatch(queue, kernel, kernarg, 64, done);
  }
}

// Runs a dispatch packet that is in other memory, and waits for it.
static void jump(hsa_queue_t* queue, const struct kernel* kernel, void* kernarg) {
  hsa_kernel_dispatch_packet_t* target = allocate(&machine, machine.kernarg, 64);
  *target = (hsa_kernel_dispatch_packet_t){
      .header = packet_header(HSA_PACKET_TYPE_KERNEL_DISPATCH),
      .setup = 1,
      .workgroup_size_x = 64,
      .workgroup_size_y = 1,
      .workgroup_size_z = 1,
      .grid_size_x = 64,
      .grid_size_y = 1,
      .grid_size_z = 1,
      .kernel_object = kernel->object,
      .kernarg_address = kernarg};
  const hsa_signal_t done = create_signal(1);
  const struct ib_jump packet = {
      .header = packet_header(HSA_PACKET_TYPE_VENDOR_SPECIFIC),
      .format = FORMAT_JUMP,
      .packets = 1,
      .base = target,
      .completion = done};
  submit(queue, &packet);
  wait_for_zero(done);
  check(hsa_signal_destroy(done), "hsa_signal_destroy");
  check(hsa_amd_memory_pool_free(target), "hsa_amd_memory_pool_free");
}

static void copy_batch(char* host, char* device, char* back) {
  struct copy_op ops[BATCH + 1] = {0};
  hsa_signal_t signals[BATCH + 1];
  void* const places[2] = {device, device + COPY_BYTES};
  const hsa_agent_t owners[2] = {machine.gpu, machine.gpu};
  const uint32_t count = BATCH + (settings.broadcast ? 1 : 0);
  for (uint32_t i = 0; i < count; i++) {
    signals[i] = create_signal(1);
    ops[i].completion = signals[i];
    ops[i].src = host;
    ops[i].src_agent = machine.cpu;
    ops[i].dst_agent = machine.gpu;
    ops[i].dst = device + (size_t)i * COPY_BYTES;
    ops[i].size = COPY_BYTES;
  }
  if (settings.broadcast) {
    ops[BATCH].type = 1;
    ops[BATCH].entries = 2;
    ops[BATCH].dst_list = places;
    ops[BATCH].dst_agent_list = owners;
  }
  check(batch_copy(ops, count, 0, NULL), "hsa_amd_memory_async_batch_copy");
  for (uint32_t i = 0; i < count; i++) {
    wait_for_zero(signals[i]);
    check(hsa_signal_destroy(signals[i]), "hsa_signal_destroy");
  }
  check(hsa_memory_copy(back, device, COPY_BYTES), "hsa_memory_copy");
  if (memcmp(back, host, COPY_BYTES) != 0) die("a copy is wrong");
}

static void use_queue(hsa_queue_t* queue, uint64_t** arguments) {
  hsa_signal_t done = create_signal(1);
  dispatch_one(queue, &increment, arguments, done);
  wait_for_zero(done);
  check(hsa_signal_destroy(done), "hsa_signal_destroy");
}

// Fails if a packet that had no signal has got one; the packets are still in the ring.
static void check_signals(const struct worker* worker) {
  const struct ext_dispatch* packets = worker->queue->base_address;
  if (worker->before + worker->after > QUEUE_PACKETS)
    die("too many packets to look at");
  for (uint64_t i = worker->before; i < worker->before + worker->after; i++) {
    if (packets[i].completion.handle != 0) {
      die("packet %llu has a signal", (unsigned long long)i);
    }
  }
}

// Restores the runtime's tables, at random times relative to other stores to them.
static void* restore(void* unused) {
  (void)unused;
  uint64_t* counter = allocate(&machine, machine.host, 4096);
  uint64_t** arguments = allocate(&machine, machine.kernarg, 512);
  arguments[0] = counter;
  hsa_queue_t* queue = settings.unseen ? make_queue() : NULL;
  void (*restore_tables)(void) =
      (void (*)(void))function("simrocm_runtime_restore_tables");
  unsigned seed = 1;
  while (settings.until != NULL && access(settings.until, F_OK) != 0) usleep(1000);
  for (uint64_t i = 0; i < settings.restores; i++) {
    if (queue != NULL) use_queue(queue, arguments);
    restore_tables();
    if (queue != NULL) {
      free_queue(queue);
      queue = make_queue();
    }
    usleep((unsigned)rand_r(&seed) % (queue != NULL ? 20000 : 5000));
  }
  if (queue != NULL) free_queue(queue);
  restored = true;
  return NULL;
}

static void* work(void* argument) {
  struct worker* worker = argument;
  uint64_t* counters = allocate(&machine, machine.host, 4096);
  uint64_t** arguments = allocate(&machine, machine.kernarg, 512);
  struct {
    uint64_t* counter;
    uint64_t more;
  }* more = (void*)(arguments + 32);
  counters[0] = counters[1] = 0;
  arguments[0] = &counters[0];
  more->counter = &counters[1];
  more->more = 1;
  while (settings.until != NULL && access(settings.until, F_OK) != 0) {
    hsa_signal_t done = create_signal(1);
    dispatch_one(worker->queue, &increment, arguments, done);
    wait_for_zero(done);
    check(hsa_signal_destroy(done), "hsa_signal_destroy");
    if (++worker->before == 10 && settings.ready != NULL) create_file(settings.ready);
  }
  const hsa_signal_t none = {0};
  for (uint64_t i = 0; i < settings.dispatches || !restored; i++) {
    dispatch_one(worker->queue, &accumulate, more, none);
    worker->after++;
  }
  for (uint64_t i = 0; i < settings.jumps; i++) {
    jump(worker->queue, &accumulate, more);
  }
  hsa_signal_t done = create_signal(1);
  barrier(worker->queue, done);
  wait_for_zero(done);
  check(hsa_signal_destroy(done), "hsa_signal_destroy");
  if (settings.own_signals) check_signals(worker);
  char* host = allocate(&machine, machine.host, COPY_BYTES);
  char* device = allocate(&machine, machine.device, (BATCH + 1) * COPY_BYTES);
  char back[COPY_BYTES];
  memset(host, 'x', COPY_BYTES);
  for (uint64_t i = 0; i < settings.batches; i++) copy_batch(host, device, back);
  if (counters[0] != worker->before || counters[1] != worker->after + settings.jumps) {
    die("%llu and %llu dispatches counted to %llu and %llu",
        (unsigned long long)worker->before, (unsigned long long)worker->after,
        (unsigned long long)counters[0], (unsigned long long)counters[1]);
  }
  return NULL;
}

static const struct option options[] = {
    {"batches", required_argument, NULL, 'b'},  {"broadcast", no_argument, NULL, 'B'},
    {"clusters", no_argument, NULL, 'x'},       {"jumps", required_argument, NULL, 'j'},
    {"restores", required_argument, NULL, 'R'}, {"unseen", no_argument, NULL, 'U'},
    {"device-ring", no_argument, NULL, 'd'},    {"counted", no_argument, NULL, 'c'},
    {"ring-directly", no_argument, NULL, 'D'},  {"own-signals", no_argument, NULL, 's'},
    {"until", required_argument, NULL, 'u'},    {"ready", required_argument, NULL, 'r'},
    {"help", no_argument, NULL, 'h'},           {NULL, 0, NULL, 0}};

static void parse(int argc, char** argv) {
  int option;
  while ((option = getopt_long(argc, argv, "n:t:h", options, NULL)) != -1) {
    if (option == 'n') settings.dispatches = parse_number("-n", optarg);
    if (option == 't') settings.threads = (unsigned)parse_number("-t", optarg);
    if (option == 'b') settings.batches = parse_number("--batches", optarg);
    if (option == 'B') settings.broadcast = true;
    if (option == 'R') {
      settings.restores = parse_number("--restores", optarg);
      restored = false;
    }
    if (option == 'U') settings.unseen = true;
    if (option == 'x') settings.clusters = true;
    if (option == 'j') settings.jumps = parse_number("--jumps", optarg);
    if (option == 'd') settings.in_device = true;
    if (option == 's') settings.own_signals = true;
    if (option == 'c') settings.counted = true;
    if (option == 'D') ring_directly(true);
    if (option == 'u') settings.until = optarg;
    if (option == 'r') settings.ready = optarg;
    if (option == 'h') {
      fputs(help, stdout);
      exit(0);
    }
    if (option == '?') exit(2);
  }
}

int main(int argc, char** argv) {
  parse(argc, argv);
  check(hsa_init(), "hsa_init");
  find_machine(&machine);
  if (settings.batches != 0) {
    batch_copy = (batch_copy_fn*)function("hsa_amd_memory_async_batch_copy");
  }
  hsa_executable_t executable = load_kernels(&machine);
  increment = find_kernel(&machine, executable, "increment");
  accumulate = find_kernel(&machine, executable, "accumulate");
  struct worker* workers = calloc(settings.threads, sizeof(*workers));
  for (unsigned i = 0; i < settings.threads; i++) {
    workers[i].queue = make_queue();
    if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0) {
      die("pthread_create");
    }
  }
  pthread_t restorer;
  if (!restored && pthread_create(&restorer, NULL, restore, NULL) != 0) {
    die("pthread_create");
  }
  unsigned long long before = 0, after = 0;
  for (unsigned i = 0; i < settings.threads; i++) {
    pthread_join(workers[i].thread, NULL);
    free_queue(workers[i].queue);
    before += workers[i].before;
    after += workers[i].after;
  }
  if (settings.restores != 0) pthread_join(restorer, NULL);
  // A batch, and the copy that is read back.
  const unsigned long long each = BATCH + (settings.broadcast ? 2 : 0) + 1;
  printf("dispatches=%llu before=%llu after=%llu copies=%llu result=ok\n",
         before + after, before, after, settings.threads * settings.batches * each);
  free(workers);
  check(hsa_executable_destroy(executable), "hsa_executable_destroy");
  check(hsa_shut_down(), "hsa_shut_down");
  return 0;
}
