#define _GNU_SOURCE
#include "tests/simgpu/event.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct waiter;

// One waiter's interest in one event, on the waiter's stack or heap.
struct link {
  struct waiter* waiter;
  struct link* next;
  struct link* previous;
  struct event* event;  // NULL once unlinked
  uint64_t known_age;   // passed by the waiter; 0: not known
  bool activated;
};

struct waiter {
  pthread_cond_t wake;
  uint32_t activated;  // number of activated links
  bool destroyed;      // one of the events no longer exists
};

struct event {
  uint32_t id;
  bool has_age;
  bool manual_reset;
  bool signaled;     // manual-reset events only
  uint64_t set_age;  // auto-reset events: age of the last set, 0 if never
  uint64_t age;      // for callers that keep it: 1, and one more with each set
  struct link* waiters;
};

static struct {
  pthread_mutex_t lock;
  struct event* by_id[SIMGPU_EVENTS];  // index 0 is never used
  uint32_t next_id;
  uint64_t age;  // number of sets of all events so far
  pthread_key_t seen_key;
} events = {.lock = PTHREAD_MUTEX_INITIALIZER, .next_id = 1};

// For each event, by ID, the age up to which this thread has been notified of sets.
// NULL until the thread first waits; ages only grow, so an ID can be reused.
static __thread uint64_t* seen;

static void free_seen(void* table) {
  free(table);
  seen = NULL;
}

__attribute__((constructor)) static void create_seen_key(void) {
  pthread_key_create(&events.seen_key, free_seen);
}

static bool ensure_seen(void) {
  if (seen != NULL) return true;
  seen = calloc(SIMGPU_EVENTS, sizeof(*seen));
  if (seen != NULL) pthread_setspecific(events.seen_key, seen);
  return seen != NULL;
}

// True if a wait of the calling thread would end at once. Caller holds the lock.
static bool is_set(const struct event* event) {
  if (event->manual_reset) return event->signaled;
  return event->set_age > (seen != NULL ? seen[event->id] : 0);
}

// True if a wait for this event is over. Caller holds the lock.
static bool passes(const struct link* link) {
  const struct event* event = link->event;
  if (link->known_age == 0 || event->manual_reset) return is_set(event);
  return event->age != link->known_age;
}

// Caller holds the lock. Returns 0 if none is free.
static uint32_t take_id(void) {
  for (uint32_t tried = 1; tried < SIMGPU_EVENTS; tried++) {
    uint32_t id = events.next_id;
    events.next_id = id + 1 < SIMGPU_EVENTS ? id + 1 : 1;
    if (events.by_id[id] == NULL) return id;
  }
  return 0;
}

// Caller holds the lock.
static struct event* at_id(uint32_t id) {
  return id < SIMGPU_EVENTS ? events.by_id[id] : NULL;
}

uint32_t simgpu_event_create(enum simgpu_event_kind kind, bool auto_reset) {
  struct event* created = calloc(1, sizeof(*created));
  if (created == NULL) return 0;
  created->has_age = kind == SIMGPU_EVENT_SIGNAL;
  created->manual_reset = !auto_reset;
  created->age = 1;
  pthread_mutex_lock(&events.lock);
  uint32_t id = take_id();
  created->id = id;
  if (id != 0) events.by_id[id] = created;
  pthread_mutex_unlock(&events.lock);
  if (id == 0) free(created);
  return id;
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

bool simgpu_event_set(uint32_t id) {
  pthread_mutex_lock(&events.lock);
  struct event* event = at_id(id);
  if (event != NULL) {
    for (struct link* link = event->waiters; link != NULL; link = link->next) {
      activate(link);
    }
    event->signaled = true;
    event->set_age = ++events.age;
    event->age++;
  }
  pthread_mutex_unlock(&events.lock);
  return event != NULL;
}

void simgpu_event_fire(uint32_t id) {
  simgpu_event_set(id);
}

bool simgpu_event_reset(uint32_t id) {
  pthread_mutex_lock(&events.lock);
  struct event* event = at_id(id);
  if (event != NULL) {
    event->signaled = false;
    event->set_age = 0;
  }
  pthread_mutex_unlock(&events.lock);
  return event != NULL;
}

uint32_t simgpu_event_waiters(uint32_t id) {
  uint32_t count = 0;
  pthread_mutex_lock(&events.lock);
  const struct event* event = at_id(id);
  if (event != NULL) {
    for (struct link* link = event->waiters; link != NULL; link = link->next) count++;
  }
  pthread_mutex_unlock(&events.lock);
  return count;
}

bool simgpu_event_destroy(uint32_t id) {
  pthread_mutex_lock(&events.lock);
  struct event* dying = at_id(id);
  if (dying != NULL) {
    while (dying->waiters != NULL) {
      struct link* link = dying->waiters;
      link->waiter->destroyed = true;
      pthread_cond_signal(&link->waiter->wake);
      unlink_waiter(link);
    }
    events.by_id[id] = NULL;
  }
  pthread_mutex_unlock(&events.lock);
  free(dying);
  return dying != NULL;
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
  link->waiter = waiter;
  link->event = event;
  link->known_age = event->has_age ? known_age : 0;
  link->previous = NULL;
  link->next = event->waiters;
  if (link->next != NULL) link->next->previous = link;
  event->waiters = link;
  if (passes(link)) activate(link);
}

// Notes what a waiter has seen when its wait ends: after a success the caller checks
// everything that it waits for, so it has seen every set so far. Caller holds the lock.
static void tell(const struct link* link, uint64_t* age) {
  const struct event* event = link->event;
  if (event == NULL) return;
  seen[event->id] = event->set_age;
  if (link->known_age != 0 && link->activated) *age = event->age;
}

// Caller holds the lock. If an event does not exist, the waiter is not linked to the
// events after it.
static void link_all(struct link* links, struct waiter* waiter, const uint32_t* ids,
                     const uint64_t* ages, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    struct event* event = at_id(ids[i]);
    if (event == NULL) {
      waiter->destroyed = true;
      return;
    }
    link_waiter(&links[i], waiter, event, ages != NULL ? ages[i] : 0);
  }
}

enum simgpu_wait simgpu_event_wait(const uint32_t* ids, uint64_t* ages, uint32_t count,
                                   bool all, uint32_t milliseconds) {
  if (!ensure_seen()) return SIMGPU_WAIT_FAILED;
  struct link few[16];
  struct link* links = few;
  if (count > 16) links = malloc(count * sizeof(*links));
  if (links == NULL) return SIMGPU_WAIT_FAILED;
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
  link_all(links, &waiter, ids, ages, count);
  bool expired = milliseconds == 0;
  while (waiter.activated < wanted && !waiter.destroyed && !expired) {
    if (milliseconds == SIMGPU_WAIT_FOREVER) {
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
  if (satisfied) return SIMGPU_WAIT_DONE;
  return waiter.destroyed ? SIMGPU_WAIT_FAILED : SIMGPU_WAIT_TIMEOUT;
}

void simgpu_event_before_fork(void) {
  pthread_mutex_lock(&events.lock);
}

void simgpu_event_after_fork_parent(void) {
  pthread_mutex_unlock(&events.lock);
}

void simgpu_event_after_fork_child(void) {
  pthread_mutex_init(&events.lock, NULL);
  // The parent's events are not this process's, and their waiters were its threads.
  for (uint32_t id = 0; id < SIMGPU_EVENTS; id++) {
    free(events.by_id[id]);
    events.by_id[id] = NULL;
  }
  events.next_id = 1;
}
