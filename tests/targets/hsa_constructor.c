// hsa_constructor: a library's constructor starts a thread that calls hsa_init, and
// joins it; then dispatches and shuts down.
// hsa_constructor [-n DISPATCHES]
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/targets/hsa_support.h"

static void* initialise(void* unused) {
  check(hsa_init(), "hsa_init");
  return unused;
}

// constructor_library.c calls this.
void constructor_hook(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, initialise, NULL) != 0) die("pthread_create");
  pthread_join(thread, NULL);
}

int main(int argc, char** argv) {
  uint64_t dispatches = 100;
  int option;
  while ((option = getopt(argc, argv, "n:")) != -1) {
    if (option != 'n') return 2;
    dispatches = parse_number("-n", optarg);
  }
  if (dlopen(CONSTRUCTOR_LIBRARY, RTLD_NOW) == NULL) die("dlopen: %s\n", dlerror());
  run_increments(dispatches);
  check(hsa_shut_down(), "hsa_shut_down");
  printf("dispatches=%llu copies=0 bytes=0 result=ok\n",
         (unsigned long long)dispatches);
  return 0;
}
