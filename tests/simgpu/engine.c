#define _GNU_SOURCE
#include "tests/simgpu/engine.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>

#include "tests/simgpu/aql.h"
#include "tests/simgpu/clock.h"
#include "tests/simgpu/queue.h"
#include "tests/simgpu/sdma.h"

#define DOORBELL_BYTES 8192
#define MAX_QUEUES (DOORBELL_BYTES / 8)

static struct {
  // Held by the thread for as long as it works, by clients to change the list. The
  // mutex is not fair, so a client announces itself, and the thread then lets go.
  pthread_mutex_t lock;
  atomic_uint clients;
  struct simgpu_queue* queues;
  uint64_t* doorbells;  // MAX_QUEUES slots
  bool slot_taken[MAX_QUEUES];
  pthread_t thread;
  bool thread_exists;
  atomic_bool stop;
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
  enum simgpu_step step;      // the largest of all queues
  uint64_t next_deadline_ns;  // until the first running piece of work ends
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

// How long to sleep after having found nothing to do since `idle_ns`. Polling is what
// a doorbell in plain memory leaves; the longer nothing happens, the less of it.
static uint64_t pause_after(uint64_t idle_ns, bool blocked) {
  if (idle_ns < 50000) return 0;
  if (idle_ns < 1000000) return 20000;
  if (blocked || idle_ns < 20000000) return 100000;
  if (idle_ns < 1000000000) return 1000000;
  return 4000000;
}

// Sleeps through most of a long kernel, but looks at the other queues in between.
static uint64_t pause_until(uint64_t remaining_ns) {
  const uint64_t wake_up_ns = 80000;  // that late a sleep may end
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
  while (!engine.stop) {
    if (engine.clients > 0) {
      engine_unlock();
      while (engine.clients > 0 && !engine.stop) {
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
  engine_unlock();
  return NULL;
}

// Caller holds the lock.
static bool start_thread(void) {
  if (engine.thread_exists) return true;
  engine.stop = false;
  // The application's signals are for the application's threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  engine.thread_exists = pthread_create(&engine.thread, NULL, serve, NULL) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return engine.thread_exists;
}

// --- The clients ---

static bool ensure_doorbells(void) {
  if (engine.doorbells != NULL) return true;
  // Twice the size, to find an aligned page in: the runtime expects the alignment.
  uint8_t* area = mmap(NULL, 2 * DOORBELL_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (area == MAP_FAILED) return false;
  uintptr_t aligned = ((uintptr_t)area + DOORBELL_BYTES - 1) / DOORBELL_BYTES;
  engine.doorbells = (uint64_t*)(aligned * DOORBELL_BYTES);
  return true;
}

// Caller holds the lock. A slot is not reused at once: a late ring of the queue before
// should not reach the next one.
static int take_slot(void) {
  static unsigned next;
  for (unsigned tried = 0; tried < MAX_QUEUES; tried++) {
    unsigned slot = (next + tried) % MAX_QUEUES;
    if (engine.slot_taken[slot]) continue;
    engine.slot_taken[slot] = true;
    next = slot + 1;
    return (int)slot;
  }
  return -1;
}

static struct simgpu_queue* new_queue(uint32_t node, HSA_QUEUE_TYPE type, void* ring,
                                      uint64_t ring_bytes, HsaQueueResource* resource) {
  struct simgpu_queue* queue = calloc(1, sizeof(*queue));
  if (queue == NULL) return NULL;
  queue->node = node;
  queue->gpu = node - 1;
  queue->ring = ring;
  queue->ring_bytes = ring_bytes;
  if (type == HSA_QUEUE_COMPUTE_AQL) {
    queue->kind = SIMGPU_QUEUE_AQL;
    queue->amd_queue = (amd_queue_t*)((uint8_t*)resource->Queue_read_ptr_aql -
                                      offsetof(amd_queue_t, read_dispatch_id));
  } else {
    queue->kind = SIMGPU_QUEUE_SDMA;
    resource->Queue_write_ptr_aql = (HSAuint64*)&queue->write_word;
    resource->Queue_read_ptr_aql = (HSAuint64*)&queue->read_word;
  }
  return queue;
}

HSAKMT_STATUS simgpu_engine_create_queue(uint32_t node, HSA_QUEUE_TYPE type, void* ring,
                                         uint64_t ring_bytes, const HsaEvent* event,
                                         HsaQueueResource* resource) {
  if (ring == NULL || ring_bytes < 64) return HSAKMT_STATUS_INVALID_PARAMETER;
  struct simgpu_queue* queue = new_queue(node, type, ring, ring_bytes, resource);
  if (queue == NULL) return HSAKMT_STATUS_NO_MEMORY;
  if (event != NULL) {
    queue->error_reason = resource->ErrorReason;
    queue->error_event = event->EventId;
  }
  engine_lock();
  int slot = ensure_doorbells() ? take_slot() : -1;
  bool ready = slot >= 0 && start_thread();
  if (ready) {
    queue->id = (HSA_QUEUEID)slot + 1;
    queue->doorbell = &engine.doorbells[slot];
    *queue->doorbell = SIMGPU_DOORBELL_SILENT;
    queue->next = engine.queues;
    engine.queues = queue;
  } else if (slot >= 0) {
    engine.slot_taken[slot] = false;
  }
  engine_unlock();
  if (!ready) {
    free(queue);
    return HSAKMT_STATUS_NO_MEMORY;
  }
  resource->QueueId = queue->id;
  resource->Queue_DoorBell_aql = (HSAuint64*)queue->doorbell;
  return HSAKMT_STATUS_SUCCESS;
}

// Caller holds the lock.
static struct simgpu_queue** find_queue(HSA_QUEUEID id) {
  struct simgpu_queue** link = &engine.queues;
  while (*link != NULL && (*link)->id != id) link = &(*link)->next;
  return link;
}

HSAKMT_STATUS simgpu_engine_destroy_queue(HSA_QUEUEID id) {
  engine_lock();
  struct simgpu_queue** link = find_queue(id);
  struct simgpu_queue* queue = *link;
  if (queue != NULL) {
    *link = queue->next;
    engine.slot_taken[id - 1] = false;
  }
  engine_unlock();
  if (queue == NULL) return HSAKMT_STATUS_INVALID_HANDLE;
  free(queue);
  return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS simgpu_engine_suspend_queue(HSA_QUEUEID id, bool suspended) {
  engine_lock();
  struct simgpu_queue* queue = *find_queue(id);
  if (queue != NULL) queue->halted = suspended;
  engine_unlock();
  return queue != NULL ? HSAKMT_STATUS_SUCCESS : HSAKMT_STATUS_INVALID_HANDLE;
}

void simgpu_engine_stop(void) {
  engine_lock();
  bool join = engine.thread_exists;
  engine.thread_exists = false;
  engine.stop = true;
  engine_unlock();
  if (join) pthread_join(engine.thread, NULL);
  engine_lock();
  while (engine.queues != NULL) {
    struct simgpu_queue* queue = engine.queues;
    engine.queues = queue->next;
    engine.slot_taken[queue->id - 1] = false;
    free(queue);
  }
  engine_unlock();
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
  engine.doorbells = NULL;
  for (int i = 0; i < MAX_QUEUES; i++) engine.slot_taken[i] = false;
}
