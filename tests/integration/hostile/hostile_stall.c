/* A process that makes its readers and tracers wait. It calls hsa_init while
 *
 *   hostile_stall punch    the thread-local storage above its stack lies in a memfd in which
 *                          another thread is punching a hole: a page fault there waits
 *                          until that is done, and cannot be interrupted. That takes
 *                          seconds, because the punching thread runs only while its
 *                          processor has nothing else to do
 *   hostile_stall userfault, hostile_stall fuse
 *                          the same with memory that is registered with userfaultfd, or
 *                          mapped from a file system in user space, and never delivered:
 *                          a page fault there waits until the process ends
 *   hostile_stall protect  another thread changes the protection of many gigabytes, and
 *                          the lock of the process's mappings is held meanwhile
 *   hostile_stall exec     another thread executes a file of such a file system: a
 *                          tracer that attaches to any thread of the process waits
 *                          until that is done, which it never is.
 *                          Two threads call hsa_init
 *
 * In the first three modes the arguments are in such memory, too.
 *
 * Each attempt is a process of its own, since only the first hsa_init of a process opens a
 * window. If the wait does not end, several attempts run at a time, and last until
 * they are killed; a single one ends when hsa_init has returned.
 *
 *   hostile_stall MODE ATTEMPTS
 *
 * Prints "begun", and "attempts=N" at the end; or "lacking: " and what the machine does
 * not have. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/integration/hostile/silent_files.h"

int hsa_init(void);

enum { STACK_BYTES = 1 << 20, TOP_BYTES = 64 << 10, HOGS = 2 };
/* Higher than the limit on the service's threads that one user may keep waiting. */
enum { KEPT_ATTEMPTS = 40 };
/* Size of the argument: one of its pages is in such memory, the others are not. */
enum { PADDING_BYTES = 12 << 10, PAGE_BYTES = 4096 };
static const size_t kFileBytes = (size_t)96 << 20;
static const size_t kProtectBytes = (size_t)48 << 30;

static char mode[16];
static int attempts;
static char* memory;
static char* padding; /* one page of it */
static int file = -1, ended[2];
static atomic_int ready_to_call, may_call, returned, working, punching, done,
    toucher_tid, worker_tid;

static void fail(const char* what) {
  fprintf(stderr, "hostile_stall: %s: %s\n", what, strerror(errno));
  _exit(2);
}

static void on_last_processor(void) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET((int)sysconf(_SC_NPROCESSORS_ONLN) - 1, &set);
  sched_setaffinity(0, sizeof(set), &set);
}

/* Resolved in advance: at the first call the loader would use the thread's storage. */
static long (*const volatile system_call)(long, ...) = syscall;

/* True if the memory, or the file, is never delivered. */
static int is_silent(void) {
  return mode[0] == 'u' || mode[0] == 'f' || mode[0] == 'e';
}

/* The hole's contents are gone, among them the thread's storage: ends the process. */
static void end(int number) {
  (void)number;
  _exit(0);
}

/* Calls the function without using the thread's storage, in which the hole is. */
__attribute__((noinline, optimize("no-stack-protector"))) static void call_below(
    int (*function)(void)) {
  volatile char gap[2 * TOP_BYTES];
  gap[0] = 1;
  atomic_store(&ready_to_call, 1);
  while (!atomic_load(&may_call)) {
  }
  function();
  atomic_store(&returned, 1);
  /* The thread's storage must not be used if it is never delivered. */
  while (is_silent()) system_call(SYS_pause);
  (void)gap[1];
}

static void* call(void* unused) {
  static char own_stack[64 << 10];
  static int unused_tid;
  const stack_t stack = {.ss_sp = own_stack, .ss_size = sizeof(own_stack)};
  const struct sigaction ends = {.sa_handler = end, .sa_flags = SA_ONSTACK};
  int (*volatile function)(void) = hsa_init;
  (void)unused;
  sigaltstack(&stack, NULL);
  sigaction(SIGSEGV, &ends, NULL);
  sigaction(SIGBUS, &ends, NULL);
  sigaction(SIGILL, &ends, NULL);
  if (is_silent()) {
    /* Otherwise the end of the thread, which is never joined, would wait as well. */
    syscall(SYS_set_robust_list, NULL, sizeof(struct robust_list_head));
    syscall(SYS_set_tid_address, &unused_tid);
  }
  call_below(function);
  return NULL;
}

static void* work(void* unused) {
  (void)unused;
  if (!strcmp(mode, "punch")) {
    on_last_processor();
    atomic_store(&worker_tid, gettid());
    while (!atomic_load(&toucher_tid)) usleep(100);
    fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)kFileBytes);
  } else {
    atomic_store(&working, 1);
    for (int i = 0; i < 8; ++i) {
      mprotect(memory, kProtectBytes, i % 2 ? PROT_READ | PROT_WRITE : PROT_READ);
    }
  }
  atomic_store(&done, 1);
  return NULL;
}

/* Reads the page, and so waits as soon as the hole is being punched. */
static void* touch(void* page) {
  atomic_store(&toucher_tid, gettid());
  while (!atomic_load(&punching)) (void)*(volatile char*)page;
  return NULL;
}

/* Takes the processor from the thread that punches. */
static void* hog(void* unused) {
  (void)unused;
  on_last_processor();
  while (!atomic_load(&punching)) usleep(100);
  while (!atomic_load(&done)) {
  }
  return NULL;
}

/* Returns the state of a thread, as in proc(5); '?' if it is gone. */
static char state_of(int tid) {
  char path[64], line[256], *state = NULL;
  snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
  FILE* stat = fopen(path, "re");
  if (!stat) return '?';
  if (fgets(line, sizeof(line), stat)) state = strrchr(line, ')');
  fclose(stat);
  return state ? state[2] : '?';
}

static void start(pthread_t* thread, const pthread_attr_t* attributes,
                  void* (*function)(void*), void* argument) {
  errno = pthread_create(thread, attributes, function, argument);
  if (errno) fail("pthread_create");
}

/* Maps the memory of a thread whose storage is in the file. */
static void map_stack(pthread_attr_t* attributes) {
  file = memfd_create("stack", MFD_CLOEXEC);
  if (file < 0 || fallocate(file, 0, 0, (off_t)kFileBytes)) fail("fallocate");
  if (mmap(memory + STACK_BYTES - TOP_BYTES, TOP_BYTES, PROT_READ | PROT_WRITE,
           MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED) {
    fail("mmap");
  }
  if (mmap(padding, PAGE_BYTES, PROT_READ, MAP_SHARED | MAP_FIXED, file, 0) ==
      MAP_FAILED) {
    fail("mmap");
  }
  pthread_attr_setstack(attributes, memory, STACK_BYTES);
}

static void punch_slowly(pthread_t* toucher, pthread_t* hogs) {
  const struct sched_param none = {0};
  void* page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, file, 0);
  if (page == MAP_FAILED) fail("mmap");
  for (int i = 0; i < HOGS; ++i) start(&hogs[i], NULL, hog, NULL);
  start(toucher, NULL, touch, page);
  while (!atomic_load(&done) && state_of(atomic_load(&toucher_tid)) != 'D') {
  }
  sched_setscheduler(atomic_load(&worker_tid), SCHED_IDLE, &none);
  atomic_store(&punching, 1);
}

static int open_userfaultfd(void) {
  const int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
  const char* device = getenv("HOSTILE_STALL_USERFAULTFD");
  if (fd >= 0 || device == NULL) return fd;
  return ioctl(atoi(device), USERFAULTFD_IOC_NEW, O_CLOEXEC);
}

static void silence(void* at, size_t bytes) {
  struct uffdio_register range = {.range = {.start = (uintptr_t)at, .len = bytes},
                                  .mode = UFFDIO_REGISTER_MODE_MISSING};
  if (mode[0] == 'u') {
    if (madvise(at, bytes, MADV_DONTNEED) != 0) fail("madvise");
    if (ioctl(file, UFFDIO_REGISTER, &range) != 0) fail("UFFDIO_REGISTER");
  } else if (mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, file,
                  0) == MAP_FAILED) {
    fail("mmap");
  }
}

/* Calls hsa_init with memory that is never delivered. */
static void attempt_silently(void) {
  struct uffdio_api api = {.api = UFFD_API};
  pthread_attr_t attributes;
  pthread_t caller;
  if (mode[0] == 'u' &&
      ((file = open_userfaultfd()) < 0 || ioctl(file, UFFDIO_API, &api) != 0)) {
    fail("userfaultfd");
  }
  pthread_attr_init(&attributes);
  pthread_attr_setstack(&attributes, memory, STACK_BYTES);
  start(&caller, &attributes, call, NULL);
  while (!atomic_load(&ready_to_call)) usleep(100);
  silence(memory + STACK_BYTES - TOP_BYTES, TOP_BYTES);
  silence(padding, PAGE_BYTES);
  atomic_store(&may_call, 1);
  while (attempts > 1 || !atomic_load(&returned)) usleep(1000);
  _exit(0);
}

static void* execute(void* unused) {
  char path[4096];
  (void)unused;
  snprintf(path, sizeof(path), "%s/file", getenv("HOSTILE_STALL_FOLDER"));
  /* Otherwise no other thread could start a thread during the exec. */
  if (unshare(CLONE_FS) != 0) fail("unshare");
  atomic_store(&worker_tid, gettid());
  execl(path, path, NULL);
  return NULL; /* when the file system ends */
}

static void* call_plainly(void* unused) {
  (void)unused;
  hsa_init();
  atomic_fetch_add(&returned, 1);
  return NULL;
}

/* True if the thread stays blocked for longer than the look-up of its path takes. */
static int is_blocked(int tid) {
  for (int i = 0; i < 20; ++i) {
    const char state = state_of(tid);
    if (state != 'S' && state != 'D') return 0;
    usleep(1000);
  }
  return 1;
}

static void attempt_executing(void) {
  pthread_t executor, callers[2];
  start(&executor, NULL, execute, NULL);
  while (!atomic_load(&worker_tid) || !is_blocked(atomic_load(&worker_tid))) {
    usleep(1000);
  }
  for (int i = 0; i < 2; ++i) start(&callers[i], NULL, call_plainly, NULL);
  while (attempts > 1 || atomic_load(&returned) < 2) usleep(1000);
  /* The end of this process also waits for the file, so it is reported here. */
  (void)!write(ended[1], "", 1);
  _exit(0);
}

static int has_tracer(void) {
  char line[256];
  int tracer = 0;
  FILE* status = fopen("/proc/self/status", "re");
  while (status && fgets(line, sizeof(line), status)) {
    if (sscanf(line, "TracerPid: %d", &tracer) == 1) break;
  }
  if (status) fclose(status);
  return tracer != 0;
}

/* Hold mode `signal` seizes processes that map the runtime, and a forked process has
 * not. In other modes the process is not seized, and goes on after a while. */
static void map_runtime(void) {
  enum { MOST_MSEC = 500 };
  Dl_info runtime;
  if (!dladdr(dlsym(RTLD_DEFAULT, "hsa_init"), &runtime)) fail("dladdr");
  const int fd = open(runtime.dli_fname, O_RDONLY | O_CLOEXEC);
  if (fd < 0 ||
      mmap(NULL, PAGE_BYTES, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED) {
    fail("mmap");
  }
  close(fd);
  for (int i = 0; i < MOST_MSEC && !has_tracer(); ++i) usleep(1000);
}

static void attempt(void) {
  const int punches = !strcmp(mode, "punch");
  const size_t bytes = punches || is_silent() ? STACK_BYTES : kProtectBytes;
  pthread_attr_t attributes;
  pthread_t caller, worker, toucher, hogs[HOGS];
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (attempts > 1) map_runtime();
  if (mode[0] == 'e') attempt_executing();
  pthread_attr_init(&attributes);
  memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) fail("mmap");
  if (is_silent()) attempt_silently();
  if (punches) map_stack(&attributes);
  /* Allocates a page table for each 2 MiB. */
  for (size_t at = 0; !punches && at < bytes; at += 2 << 20) memory[at] = 1;
  start(&caller, &attributes, call, NULL);
  while (!atomic_load(&ready_to_call)) usleep(100);
  start(&worker, NULL, work, NULL);
  if (punches) punch_slowly(&toucher, hogs);
  while (!punches && !atomic_load(&working)) {
  }
  atomic_store(&may_call, 1);
  pthread_join(worker, NULL);
  pthread_join(caller, NULL);
  if (punches) pthread_join(toucher, NULL);
  for (int i = 0; punches && i < HOGS; ++i) pthread_join(hogs[i], NULL);
  _exit(0);
}

/* Executes the program again with an argument of several pages. */
static void execute_again(char** argv) {
  static char pages[PADDING_BYTES + 1];
  char* arguments[] = {argv[0], argv[1], argv[2], pages, NULL};
  memset(pages, 'x', PADDING_BYTES);
  /* Otherwise the kernel would write to the thread's storage each time it has run. */
  setenv("GLIBC_TUNABLES", "glibc.pthread.rseq=0", 1);
  execv(argv[0], arguments);
  fail("execv");
}

/* Returns what the machine lacks for the attack; null if nothing. */
static const char* prepare(void) {
  const char* device = getenv("HOSTILE_STALL_FUSE");
  if (mode[0] == 'f' || mode[0] == 'e') {
    if (device == NULL) return "FUSE";
    file = open_silent_file(atoi(device), getenv("HOSTILE_STALL_FOLDER"));
    return file < 0 ? "FUSE" : NULL;
  }
  if (mode[0] == 'u') {
    const int fd = open_userfaultfd();
    if (fd < 0) return "userfaultfd";
    close(fd);
  }
  return NULL;
}

static void wait_for(pid_t child) {
  while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {
  }
}

int main(int argc, char** argv) {
  const char* lacking;
  if (argc == 3) execute_again(argv);
  if (argc != 4) return 2;
  snprintf(mode, sizeof(mode), "%s", argv[1]);
  attempts = atoi(argv[2]);
  padding =
      (char*)(((uintptr_t)argv[3] + PAGE_BYTES - 1) & ~(uintptr_t)(PAGE_BYTES - 1));
  lacking = prepare();
  if (lacking != NULL) {
    printf("lacking: %s: %s\n", lacking, strerror(errno));
    return 0;
  }
  if (is_silent() && attempts > KEPT_ATTEMPTS) attempts = KEPT_ATTEMPTS;
  if (pipe2(ended, O_CLOEXEC) != 0) fail("pipe2");
  printf("begun\n");
  fflush(stdout);
  for (int i = 0; i < attempts; ++i) {
    const pid_t child = fork();
    if (child < 0) fail("fork");
    if (child == 0) attempt();
    if (!is_silent()) wait_for(child);
  }
  if (mode[0] == 'e') {
    char byte;
    for (int i = 0; i < attempts && read(ended[0], &byte, 1) == 1; ++i) {
    }
  } else {
    for (int i = 0; is_silent() && i < attempts; ++i) wait_for(-1);
  }
  printf("attempts=%d\n", attempts);
  return 0;
}
