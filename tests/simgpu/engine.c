#define _GNU_SOURCE
#include "tests/simgpu/engine.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>

#include "tests/simgpu/aql.h"
#include "tests/simgpu/clock.h"
#include "tests/simgpu/device_file.h"
#include "tests/simgpu/options.h"
#include "tests/simgpu/queue.h"
#include "tests/simgpu/sdma.h"

// Per GPU.
#define MAX_QUEUES (SIMGPU_DOORBELL_BYTES / 8)

static struct {
  // Held by the thread while it works, and by clients to change the list. The mutex is
  // not fair, so a client announces itself, and the thread then releases the lock.
  pthread_mutex_t lock;
  atomic_uint clients;
  struct simgpu_queue* queues;
  unsigned queue_count;
  uint32_t last_id;
  uint64_t* doorbells[SIMGPU_MAX_GPUS];  // MAX_QUEUES slots
  bool slot_taken[SIMGPU_MAX_GPUS][MAX_QUEUES];
  bool thread_exists;
} engine = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void engine_lock(void) {
  atomic_fetch_add(&engine.clients, 1);
  pthread_mutex_lock(&engine.lock);
  atomic_fetch_sub(&engine.clients, 1);
}

static void engine_unlock(void) {
  pthread_mutex_unlock(&engine.lock);
}

uint64_t simgpu_queue_deadline(const struct simgpu_queue* queue) {
  if (queue->kind == SIMGPU_QUEUE_SDMA) return queue->busy_until_ticks;
  return queue->running ? queue->end_ticks : 0;
}

// --- The thread ---

struct visit {
  enum simgpu_step step;      // the largest one of all queues
  uint64_t next_deadline_ns;  // until the first work in progress ends
};

static struct visit visit_queues(void) {
  struct visit visit = {SIMGPU_IDLE, UINT64_MAX};
  for (struct simgpu_queue* queue = engine.queues; queue != NULL; queue = queue->next) {
    enum simgpu_step step = queue->kind == SIMGPU_QUEUE_AQL ? simgpu_aql_step(queue)
                                                            : simgpu_sdma_step(queue);
    if (step > visit.step) visit.step = step;
    if (step != SIMGPU_RUNNING) continue;
    uint64_t deadline = simgpu_queue_deadline(queue);
    uint64_t now = simgpu_gpu_ticks(queue->gpu);
    uint64_t remaining = deadline > now ? simgpu_ticks_to_ns(deadline - now) : 0;
    if (remaining < visit.next_deadline_ns) visit.next_deadline_ns = remaining;
  }
  return visit;
}

static void release_and_sleep(uint64_t ns) {
  engine_unlock();
  struct timespec pause = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
  nanosleep(&pause, NULL);
  pthread_mutex_lock(&engine.lock);
}

// Time to sleep after nothing was found to do since `idle_ns`. A doorbell in plain
// memory must be polled; the longer nothing happens, the less often.
static uint64_t pause_after(uint64_t idle_ns, bool blocked) {
  if (idle_ns < 50000) return 0;
  if (idle_ns < 1000000) return 20000;
  if (blocked || idle_ns < 20000000) return 100000;
  if (idle_ns < 1000000000) return 1000000;
  return 4000000;
}

// Sleeps through most of a long kernel, but checks the other queues in between.
static uint64_t pause_until(uint64_t remaining_ns) {
  const uint64_t wake_up_ns = 80000;  // maximum delay of a wake-up
  if (remaining_ns < 2 * wake_up_ns) return 0;
  uint64_t pause = remaining_ns - wake_up_ns;
  return pause < 200000 ? pause : 200000;
}

static void* serve(void* unused) {
  (void)unused;
  pthread_setname_np(pthread_self(), "simgpu");
  prctl(PR_SET_TIMERSLACK, 1000);
  uint64_t idle_since = simgpu_system_ns();
  pthread_mutex_lock(&engine.lock);
  while (engine.queue_count > 0) {
    if (engine.clients > 0) {
      engine_unlock();
      while (engine.clients > 0) {
        struct timespec moment = {0, 1000};
        nanosleep(&moment, NULL);
      }
      pthread_mutex_lock(&engine.lock);
      continue;
    }
    struct visit visit = visit_queues();
    if (visit.step == SIMGPU_PROGRESS) {
      idle_since = 0;
      continue;
    }
    uint64_t now = simgpu_system_ns();
    if (idle_since == 0) idle_since = now;
    uint64_t pause = visit.step == SIMGPU_RUNNING
                         ? pause_until(visit.next_deadline_ns)
                         : pause_after(now - idle_since, visit.step == SIMGPU_BLOCKED);
    if (pause > 0) {
      release_and_sleep(pause);
    } else {
      __builtin_ia32_pause();
    }
  }
  engine.thread_exists = false;
  engine_unlock();
  return NULL;
}

// Caller holds the lock.
static bool start_thread(void) {
  if (engine.thread_exists) return true;
  // The application's signals are for the application's threads, except those that
  // report a fault in a stand-in.
  sigset_t all, before;
  sigfillset(&all);
  sigdelset(&all, SIGSEGV);
  sigdelset(&all, SIGBUS);
  sigdelset(&all, SIGFPE);
  sigdelset(&all, SIGILL);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  engine.thread_exists = pthread_create(&thread, NULL, serve, NULL) == 0;
  if (engine.thread_exists) pthread_detach(thread);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return engine.thread_exists;
}

// --- The clients ---

static bool ensure_doorbells(unsigned gpu) {
  if (engine.doorbells[gpu] == NULL) {
    engine.doorbells[gpu] =
        simgpu_file_map(SIMGPU_FILE_DOORBELLS(gpu), SIMGPU_DOORBELL_BYTES);
  }
  return engine.doorbells[gpu] != NULL;
}

// Caller holds the lock. A slot is not reused at once: a late ring of the previous
// queue should not reach the next one.
static int take_slot(unsigned gpu) {
  static unsigned next;
  for (unsigned tried = 0; tried < MAX_QUEUES; tried++) {
    unsigned slot = (next + tried) % MAX_QUEUES;
    if (engine.slot_taken[gpu][slot]) continue;
    engine.slot_taken[gpu][slot] = true;
    next = slot + 1;
    return (int)slot;
  }
  return -1;
}

static struct simgpu_queue* new_queue(const struct simgpu_queue_request* request) {
  struct simgpu_queue* queue = calloc(1, sizeof(*queue));
  if (queue == NULL) return NULL;
  queue->kind = request->kind;
  queue->node = request->gpu + 1;
  queue->gpu = request->gpu;
  queue->ring = request->ring;
  queue->ring_bytes = request->ring_bytes;
  queue->error_reason = request->error_reason;
  queue->error_event = request->error_event;
  if (queue->kind == SIMGPU_QUEUE_AQL) {
    queue->amd_queue = (amd_queue_t*)((uint8_t*)request->read_index -
                                      offsetof(amd_queue_t, read_dispatch_id));
  } else {
    queue->read_word = request->read_index;
  }
  return queue;
}

int simgpu_engine_create_queue(const struct simgpu_queue_request* request, uint32_t* id,
                               unsigned* doorbell) {
  if (request->ring == NULL || request->ring_bytes < 64 ||
      request->read_index == NULL) {
    return EINVAL;
  }
  struct simgpu_queue* queue = new_queue(request);
  if (queue == NULL) return ENOMEM;
  engine_lock();
  int slot = ensure_doorbells(request->gpu) ? take_slot(request->gpu) : -1;
  // The thread reads the list once this function releases the lock.
  bool ready = slot >= 0 && start_thread();
  if (ready) {
    queue->id = ++engine.last_id;
    queue->doorbell_slot = (unsigned)slot;
    queue->doorbell = &engine.doorbells[request->gpu][slot];
    *queue->doorbell = SIMGPU_DOORBELL_SILENT;
    queue->next = engine.queues;
    engine.queues = queue;
    engine.queue_count++;
    *id = queue->id;
    *doorbell = queue->doorbell_slot;
  } else if (slot >= 0) {
    engine.slot_taken[request->gpu][slot] = false;
  }
  engine_unlock();
  if (ready) return 0;
  free(queue);
  return ENOMEM;
}

// Caller holds the lock.
static struct simgpu_queue** find_queue(uint32_t id) {
  struct simgpu_queue** link = &engine.queues;
  while (*link != NULL && (*link)->id != id) link = &(*link)->next;
  return link;
}

// Caller holds the lock.
static void remove_queue(struct simgpu_queue** link) {
  struct simgpu_queue* queue = *link;
  *link = queue->next;
  engine.slot_taken[queue->gpu][queue->doorbell_slot] = false;
  engine.queue_count--;
  free(queue);
}

int simgpu_engine_destroy_queue(uint32_t id) {
  engine_lock();
  struct simgpu_queue** link = find_queue(id);
  const bool found = *link != NULL;
  if (found) remove_queue(link);
  engine_unlock();
  return found ? 0 : EINVAL;
}

int simgpu_engine_suspend_queue(uint32_t id, bool suspended) {
  engine_lock();
  struct simgpu_queue* queue = *find_queue(id);
  if (queue != NULL) queue->halted = suspended;
  engine_unlock();
  return queue != NULL ? 0 : EINVAL;
}

unsigned simgpu_engine_queues(void) {
  engine_lock();
  unsigned count = engine.queue_count;
  engine_unlock();
  return count;
}

void simgpu_engine_halt(void) {
  engine_lock();
}

void simgpu_engine_before_fork(void) {
  engine_lock();
}

void simgpu_engine_after_fork_parent(void) {
  engine_unlock();
}

void simgpu_engine_after_fork_child(void) {
  // Threads are not inherited, and the queues were the parent's. Their structures are
  // not freed: the client may still read an index in them.
  pthread_mutex_init(&engine.lock, NULL);
  engine.clients = 0;
  engine.thread_exists = false;
  engine.queues = NULL;
  engine.queue_count = 0;
  for (unsigned gpu = 0; gpu < SIMGPU_MAX_GPUS; gpu++) {
    if (engine.doorbells[gpu] == NULL) continue;
    munmap(engine.doorbells[gpu], SIMGPU_DOORBELL_BYTES);
    engine.doorbells[gpu] = NULL;
  }
  memset(engine.slot_taken, 0, sizeof(engine.slot_taken));
}
