/* A library with the name and the two functions of rocprofiler-register. They write
 * their calls to the test's report, change every register that a function may, and do
 * what the tool's path says: "return=N", "slow" (50 ms), "hang" (until the file of the
 * report is empty), "deep" (64 KiB of stack), "die". */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

static void report(const char* text) {
  const char* path = getenv("ROCATTACH_TEST_REPORT");
  int fd = path != NULL ? open(path, O_WRONLY | O_APPEND | O_CLOEXEC) : -1;
  if (fd < 0) return;
  if (write(fd, text, strlen(text)) < 0) _exit(95);
  close(fd);
}

static void ruin(void) {
  unsigned mxcsr = 0x1f80;
  __asm__ volatile(
      "fninit\n\tldmxcsr %0\n\t"
      "pcmpeqd %%xmm0, %%xmm0\n\tpcmpeqd %%xmm1, %%xmm1\n\tpcmpeqd %%xmm5, %%xmm5\n\t"
      "pcmpeqd %%xmm8, %%xmm8\n\tpcmpeqd %%xmm15, %%xmm15\n\t"
      "mov $-1, %%rax\n\tmov $-1, %%rcx\n\tmov $-1, %%rdx\n\tmov $-1, %%rsi\n\t"
      "mov $-1, %%rdi\n\tmov $-1, %%r8\n\tmov $-1, %%r9\n\tmov $-1, %%r10\n\t"
      "mov $-1, %%r11" ::"m"(mxcsr)
      : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "xmm0", "xmm1",
        "xmm5", "xmm8", "xmm15");
  errno = ENOTTY;
}

static void use_stack(void) {
  volatile char bytes[64 * 1024];
  for (size_t i = 0; i < sizeof(bytes); i += 512) bytes[i] = 1;
}

EXPORT int rocprofiler_register_attach(const char* environment, const char* tool) {
  char line[512];
  uint32_t count = 0;
  if (environment != NULL) memcpy(&count, environment, sizeof(count));
  /* The last byte shows that all of a long buffer has come. */
  const char* at = environment != NULL ? environment + sizeof(count) : "";
  size_t bytes = 0;
  for (uint32_t i = 0; i < 2 * count; ++i) bytes += strlen(at + bytes) + 1;
  snprintf(line, sizeof(line), "attach %u %zu %s aligned=%d\n", count, bytes,
           tool != NULL ? tool : "(null)",
           (uintptr_t)__builtin_frame_address(0) % 16 == 0);
  report(line);
  int result = 0;
  if (tool != NULL && sscanf(tool, "return=%d", &result) == 1) {
    ruin();
    return result;
  }
  if (tool != NULL && strcmp(tool, "slow") == 0) usleep(50000);
  if (tool != NULL && strcmp(tool, "deep") == 0) use_stack();
  if (tool != NULL && strcmp(tool, "die") == 0) _exit(3);
  if (tool != NULL && strcmp(tool, "hang") == 0) {
    const char* path = getenv("ROCATTACH_TEST_REPORT");
    struct stat info = {0};
    do {
      usleep(1000);
      if (path != NULL) stat(path, &info);
    } while (info.st_size != 0);
  }
  report("done\n");
  ruin();
  return 0;
}

EXPORT int rocprofiler_register_detach(void) {
  report("detach\n");
  ruin();
  return 0;
}
