// exec_chain: uses the GPU, prints its line, and replaces itself with another program
// without shutting HSA down. exec_chain [-n DISPATCHES] [COMMAND…] (default
// hsa_dispatch)
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/targets/hsa_support.h"

int main(int argc, char** argv) {
  uint64_t dispatches = 100;
  int option;
  while ((option = getopt(argc, argv, "+n:")) != -1) {
    if (option != 'n') return 2;
    dispatches = parse_number("-n", optarg);
  }
  check(hsa_init(), "hsa_init");
  run_increments(dispatches);
  printf("dispatches=%llu copies=0 bytes=0 result=ok\n",
         (unsigned long long)dispatches);
  fflush(stdout);
  if (optind < argc) {
    execvp(argv[optind], argv + optind);
    die("exec %s: %s", argv[optind], strerror(errno));
  }
  char path[PATH_MAX];
  path_beside_program("hsa_dispatch", path, sizeof(path));
  execl(path, path, (char*)NULL);
  die("exec %s: %s", path, strerror(errno));
}
