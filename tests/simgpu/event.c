#define _GNU_SOURCE
#include "tests/simgpu/event.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

// The driver's limit of signal events per process; more make event creation fail, and
// the runtime then goes on with signals that are polled.
#define MAX_EVENTS 4096

struct waiter;

// One waiter's interest in one event, on the waiter's stack or heap.
struct link {
  struct waiter* waiter;
  struct link* next;
  struct link* previous;
  struct event* event;  // NULL once unlinked
  uint64_t known_age;   // that the waiter handed in; 0: it knows of none
  bool activated;
};

struct waiter {
  pthread_cond_t wake;
  uint32_t activated;  // number of activated links
  bool destroyed;      // one of the events is gone
};

struct event {
  HsaEvent shared;  // what the client holds; first, so that the pointers are the same
  bool manual_reset;
  bool signaled;     // manual-reset events only
  uint64_t set_age;  // auto-reset events: when it was last set, 0 if never
  uint64_t age;      // for callers that keep it: 1, and one more with each set
  struct link* waiters;
};

static struct {
  pthread_mutex_t lock;
  struct event* by_id[MAX_EVENTS];  // index 0 is never used
  uint32_t next_id;
  uint64_t age;         // number of sets of all events so far
  uint64_t* mailboxes;  // one 8-byte slot per event
  pthread_key_t seen_key;
} events = {.lock = PTHREAD_MUTEX_INITIALIZER, .next_id = 1};

// For each event, by id, the age up to which this thread has been notified of sets.
// NULL until the thread first waits; ages only grow, so an id can be used again.
static __thread uint64_t* seen;

static void free_seen(void* table) {
  free(table);
  seen = NULL;
}

__attribute__((constructor)) static void create_seen_key(void) {
  pthread_key_create(&events.seen_key, free_seen);
}

// Threads may end after this library was unloaded.
__attribute__((destructor)) static void delete_seen_key(void) {
  pthread_key_delete(events.seen_key);
}

static bool ensure_seen(void) {
  if (seen != NULL) return true;
  seen = calloc(MAX_EVENTS, sizeof(*seen));
  if (seen != NULL) pthread_setspecific(events.seen_key, seen);
  return seen != NULL;
}

// Whether the calling thread would pass a wait. Caller holds the lock.
static bool is_set(const struct event* event) {
  if (event->manual_reset) return event->signaled;
  return event->set_age > (seen != NULL ? seen[event->shared.EventId] : 0);
}

// Whether a wait for this event is over. Caller holds the lock.
static bool passes(const struct link* link) {
  const struct event* event = link->event;
  if (link->known_age == 0 || event->manual_reset) return is_set(event);
  return event->age != link->known_age;
}

// Caller holds the lock. Returns 0 if none is free.
static uint32_t take_id(void) {
  for (uint32_t tried = 1; tried < MAX_EVENTS; tried++) {
    uint32_t id = events.next_id;
    events.next_id = id + 1 < MAX_EVENTS ? id + 1 : 1;
    if (events.by_id[id] == NULL) return id;
  }
  return 0;
}

static bool ensure_mailboxes(void) {
  if (events.mailboxes != NULL) return true;
  void* page = mmap(NULL, MAX_EVENTS * sizeof(uint64_t), PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return false;
  events.mailboxes = page;
  return true;
}

HSAKMT_STATUS simgpu_event_create(const HsaEventDescriptor* descriptor,
                                  bool manual_reset, bool signaled, HsaEvent** event) {
  struct event* created = calloc(1, sizeof(*created));
  if (created == NULL) return HSAKMT_STATUS_NO_MEMORY;
  created->manual_reset = manual_reset;
  created->signaled = signaled;
  created->age = 1;
  pthread_mutex_lock(&events.lock);
  if (signaled) created->set_age = ++events.age;
  uint32_t id = ensure_mailboxes() ? take_id() : 0;
  if (id != 0) {
    HsaEvent* shared = &created->shared;
    shared->EventId = id;
    shared->EventData.EventType = descriptor->EventType;
    shared->EventData.EventData.SyncVar = descriptor->SyncVar;
    shared->EventData.HWData1 = id;
    shared->EventData.HWData2 = (HSAuint64)&events.mailboxes[id];
    shared->EventData.HWData3 = id;
    events.by_id[id] = created;
  }
  pthread_mutex_unlock(&events.lock);
  if (id == 0) {
    free(created);
    return HSAKMT_STATUS_NO_MEMORY;
  }
  *event = &created->shared;
  return HSAKMT_STATUS_SUCCESS;
}

static void unlink_waiter(struct link* link) {
  if (link->event == NULL) return;
  if (link->previous != NULL) {
    link->previous->next = link->next;
  } else {
    link->event->waiters = link->next;
  }
  if (link->next != NULL) link->next->previous = link->previous;
  link->event = NULL;
}

static void activate(struct link* link) {
  if (link->activated) return;
  link->activated = true;
  link->waiter->activated++;
  pthread_cond_signal(&link->waiter->wake);
}

// Caller holds the lock.
static void set_locked(struct event* event) {
  for (struct link* link = event->waiters; link != NULL; link = link->next) {
    activate(link);
  }
  event->signaled = true;
  event->set_age = ++events.age;
  event->age++;
}

HSAKMT_STATUS simgpu_event_set(HsaEvent* event) {
  pthread_mutex_lock(&events.lock);
  set_locked((struct event*)event);
  pthread_mutex_unlock(&events.lock);
  return HSAKMT_STATUS_SUCCESS;
}

void simgpu_event_fire(uint32_t id) {
  if (id == 0 || id >= MAX_EVENTS) return;
  pthread_mutex_lock(&events.lock);
  struct event* event = events.by_id[id];
  if (event != NULL) set_locked(event);
  pthread_mutex_unlock(&events.lock);
}

HSAKMT_STATUS simgpu_event_reset(HsaEvent* event) {
  pthread_mutex_lock(&events.lock);
  ((struct event*)event)->signaled = false;
  ((struct event*)event)->set_age = 0;
  pthread_mutex_unlock(&events.lock);
  return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS simgpu_event_query(HsaEvent* event) {
  pthread_mutex_lock(&events.lock);
  bool set = is_set((struct event*)event);
  pthread_mutex_unlock(&events.lock);
  return set ? HSAKMT_STATUS_SUCCESS : HSAKMT_STATUS_WAIT_TIMEOUT;
}

uint32_t simgpu_event_waiters(HsaEvent* event) {
  uint32_t count = 0;
  pthread_mutex_lock(&events.lock);
  for (struct link* link = ((struct event*)event)->waiters; link; link = link->next) {
    count++;
  }
  pthread_mutex_unlock(&events.lock);
  return count;
}

HSAKMT_STATUS simgpu_event_destroy(HsaEvent* event) {
  struct event* dying = (struct event*)event;
  pthread_mutex_lock(&events.lock);
  while (dying->waiters != NULL) {
    struct link* link = dying->waiters;
    link->waiter->destroyed = true;
    pthread_cond_signal(&link->waiter->wake);
    unlink_waiter(link);
  }
  if (events.by_id[event->EventId] == dying) events.by_id[event->EventId] = NULL;
  pthread_mutex_unlock(&events.lock);
  free(dying);
  return HSAKMT_STATUS_SUCCESS;
}

static struct timespec deadline_after(uint32_t milliseconds) {
  struct timespec deadline;
  clock_gettime(CLOCK_MONOTONIC, &deadline);
  deadline.tv_sec += milliseconds / 1000;
  deadline.tv_nsec += (long)(milliseconds % 1000) * 1000000;
  if (deadline.tv_nsec >= 1000000000) {
    deadline.tv_nsec -= 1000000000;
    deadline.tv_sec++;
  }
  return deadline;
}

// Caller holds the lock.
static void link_waiter(struct link* link, struct waiter* waiter, struct event* event,
                        uint64_t known_age) {
  const bool has_age = event->shared.EventData.EventType == HSA_EVENTTYPE_SIGNAL;
  link->waiter = waiter;
  link->event = event;
  link->known_age = has_age ? known_age : 0;
  link->previous = NULL;
  link->next = event->waiters;
  if (link->next != NULL) link->next->previous = link;
  event->waiters = link;
  if (passes(link)) activate(link);
}

// What a waiter is told at the end: after a success the caller looks at all that it
// waits for, so every set up to now is told. Caller holds the lock.
static void tell(const struct link* link, uint64_t* age) {
  const struct event* event = link->event;
  if (event == NULL) return;
  seen[event->shared.EventId] = event->set_age;
  if (link->known_age != 0 && link->activated) *age = event->age;
}

HSAKMT_STATUS simgpu_event_wait(HsaEvent* list[], uint32_t count, bool all,
                                uint32_t milliseconds) {
  return simgpu_event_wait_ages(list, count, all, milliseconds, NULL);
}

HSAKMT_STATUS simgpu_event_wait_ages(HsaEvent* list[], uint32_t count, bool all,
                                     uint32_t milliseconds, uint64_t* ages) {
  if (count == 0) return HSAKMT_STATUS_INVALID_PARAMETER;
  if (!ensure_seen()) return HSAKMT_STATUS_NO_MEMORY;
  struct link few[16];
  struct link* links = few;
  if (count > 16) links = malloc(count * sizeof(*links));
  if (links == NULL) return HSAKMT_STATUS_NO_MEMORY;
  memset(links, 0, count * sizeof(*links));

  struct waiter waiter = {.activated = 0};
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&waiter.wake, &attributes);
  pthread_condattr_destroy(&attributes);
  const struct timespec deadline = deadline_after(milliseconds);
  const uint32_t wanted = all ? count : 1;

  pthread_mutex_lock(&events.lock);
  for (uint32_t i = 0; i < count; i++) {
    link_waiter(&links[i], &waiter, (struct event*)list[i], ages != NULL ? ages[i] : 0);
  }
  bool expired = milliseconds == HSA_EVENTTIMEOUT_IMMEDIATE;
  while (waiter.activated < wanted && !waiter.destroyed && !expired) {
    if (milliseconds == HSA_EVENTTIMEOUT_INFINITE) {
      pthread_cond_wait(&waiter.wake, &events.lock);
    } else {
      expired = pthread_cond_timedwait(&waiter.wake, &events.lock, &deadline) != 0;
    }
  }
  bool satisfied = waiter.activated >= wanted;
  for (uint32_t i = 0; i < count; i++) {
    if (satisfied) tell(&links[i], ages != NULL ? &ages[i] : NULL);
    unlink_waiter(&links[i]);
  }
  pthread_mutex_unlock(&events.lock);

  pthread_cond_destroy(&waiter.wake);
  if (links != few) free(links);
  if (satisfied) return HSAKMT_STATUS_SUCCESS;
  return waiter.destroyed ? HSAKMT_STATUS_WAIT_FAILURE : HSAKMT_STATUS_WAIT_TIMEOUT;
}

void simgpu_event_before_fork(void) {
  pthread_mutex_lock(&events.lock);
}

void simgpu_event_after_fork_parent(void) {
  pthread_mutex_unlock(&events.lock);
}

void simgpu_event_after_fork_child(void) {
  pthread_mutex_init(&events.lock, NULL);
  // The waiters were threads of the parent. Their links are on stacks that no longer
  // run: drop them, so that nobody follows a pointer there.
  for (uint32_t id = 0; id < MAX_EVENTS; id++) {
    if (events.by_id[id] != NULL) events.by_id[id]->waiters = NULL;
  }
}
