/* bench_copy_time LIBRARY: how long it takes a program to load this copy of the HSA
 * runtime and to call its hsa_init at once. Prints one line of name=value pairs. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int main(int argc, char** argv) {
  if (argc != 2) {
    fputs("usage: bench_copy_time LIBRARY\n", stderr);
    return 2;
  }
  const uint64_t begin = now_ns();
  void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  const uint64_t loaded = now_ns();
  if (library == NULL) {
    fprintf(stderr, "bench_copy_time: %s\n", dlerror());
    return 1;
  }
  unsigned (*init)(void);
  *(void**)&init = dlsym(library, "hsa_init");
  const uint64_t found = now_ns();
  const unsigned status = init == NULL ? ~0u : init();
  const uint64_t end = now_ns();
  if (status != 0) {
    fprintf(stderr, "bench_copy_time: hsa_init failed: %#x\n", status);
    return 1;
  }
  printf("load_ns=%llu init_ns=%llu both_ns=%llu\n",
         (unsigned long long)(loaded - begin), (unsigned long long)(end - found),
         (unsigned long long)(end - begin));
  return 0;
}
