// hsa_exit_early: calls hsa_init and exits.
// hsa_exit_early [return|exit|_exit|sigkill|abort|shutdown]
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "tests/targets/hsa_support.h"

int main(int argc, char** argv) {
  const char* how = argc > 1 ? argv[1] : "exit";
  check(hsa_init(), "hsa_init");
  printf("dispatches=0 copies=0 bytes=0 result=ok\n");
  fflush(stdout);
  if (strcmp(how, "exit") == 0) exit(0);
  if (strcmp(how, "_exit") == 0) _exit(0);
  if (strcmp(how, "sigkill") == 0) raise(SIGKILL);
  if (strcmp(how, "abort") == 0) {
    prctl(PR_SET_DUMPABLE, 0);  // no core file
    abort();
  }
  if (strcmp(how, "shutdown") == 0) check(hsa_shut_down(), "hsa_shut_down");
  return 0;
}
