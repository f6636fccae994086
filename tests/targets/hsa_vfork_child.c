// hsa_vfork_child: the child of a vfork calls hsa_init and shuts down again. Its
// parent, in whose memory it runs, counts its environment variables.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/targets/hsa_support.h"

extern char** environ;

int main(void) {
  const pid_t child = vfork();
  if (child == 0) {
    check(hsa_init(), "hsa_init");
    run_increments(10);
    check(hsa_shut_down(), "hsa_shut_down");
    _exit(0);
  }
  int status = -1;
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
    die("the child of vfork ended with %d", status);
  unsigned variables = 0;
  for (char** entry = environ; *entry != NULL; entry++, variables++) {
    if (strstr(*entry, "rocattach-collector") != NULL)
      printf("left behind: %s\n", *entry);
  }
  printf("variables=%u dispatches=10 copies=0 bytes=0 result=ok\n", variables);
  return 0;
}
