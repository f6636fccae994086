/* A collector for the injector's tests: reports its call in a file and then changes as
 * much of the machine state as it can, to reveal whatever is not restored. With
 * ROCATTACH_TEST_LOAD_MSEC it sleeps while it is being loaded, with
 * ROCATTACH_TEST_SLEEP_MSEC in its start function; it reports the beginning of the
 * first sleep and the end of the start function. Like the real one it calls no function
 * of libc in which a thread can be cancelled. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "userspace/abi/shared_memory.h"

static void trash_machine_state(void) {
  const unsigned mxcsr = 0x9fc0; /* flush to zero, exceptions masked */
  const unsigned short control = 0x0c7f;
  __asm__ volatile(
      "pxor %%xmm0, %%xmm0; pcmpeqd %%xmm1, %%xmm1; pcmpeqd %%xmm6, %%xmm6;"
      "pcmpeqd %%xmm7, %%xmm7; pxor %%xmm8, %%xmm8; pxor %%xmm15, %%xmm15;"
      "fninit; fldpi; fldpi; fldpi; fldcw %1; ldmxcsr %0"
      :
      : "m"(mxcsr), "m"(control)
      : "xmm0", "xmm1", "xmm6", "xmm7", "xmm8", "xmm15");
  if (__builtin_cpu_supports("avx512bw")) {
    __asm__ volatile(
        ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,"
        "26,27,28,29,30,31\n vpternlogd $0xff, %%zmm\\n, %%zmm\\n, %%zmm\\n\n .endr\n"
        ".irp n,0,1,2,3,4,5,6,7\n kxnorq %%k\\n, %%k\\n, %%k\\n\n .endr"
        :
        :
        : "memory");
  }
}

static void report(const char* line) {
  const char* path = getenv("ROCATTACH_TEST_REPORT");
  if (path == NULL) return;
  const long fd =
      syscall(SYS_open, path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return;
  const long length = (long)strlen(line);
  if (syscall(SYS_write, fd, line, length) != length) _exit(99);
  syscall(SYS_close, fd);
}

static void sleep_msec(const char* text) {
  struct timespec nap = {0, atol(text) * 1000000};
  syscall(SYS_nanosleep, &nap, NULL);
}

__attribute__((constructor)) static void load(void) {
  const char* msec = getenv("ROCATTACH_TEST_LOAD_MSEC");
  if (msec == NULL) return;
  report("loading\n");
  sleep_msec(msec);
}

__attribute__((visibility("default"))) int rocattach_collector_start(
    const struct rocattach_collector_config* config) {
  char line[1024];
  Dl_info info = {0};
  dladdr((void*)&rocattach_collector_start, &info);
  struct timespec now;
  clock_gettime(CLOCK_BOOTTIME, &now);
  snprintf(line, sizeof(line),
           "started size=%u version=%u recording=%u window=%llu path=%s "
           "at=%lld name=%s\n",
           config->size, config->version, config->recording,
           (unsigned long long)config->window_id, config->collector_path,
           now.tv_sec * 1000000000ll + now.tv_nsec, info.dli_fname);
  report(line);
  const char* msec = getenv("ROCATTACH_TEST_SLEEP_MSEC");
  if (msec != NULL) sleep_msec(msec);
  if (msec != NULL || getenv("ROCATTACH_TEST_LOAD_MSEC") != NULL) report("ended\n");
  errno = EDOM;
  trash_machine_state();
  return 0;
}
