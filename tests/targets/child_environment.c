// child_environment: initialises HSA, uses the GPU, then starts env_print in four ways
// and prints its output. Shows what a tool left behind in the environment.
// child_environment [-w MSEC]: waits MSEC before it starts env_print
#define _GNU_SOURCE
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/targets/hsa_support.h"

extern char** environ;

enum way { BY_POPEN, BY_SPAWN, BY_FORK_EXEC, BY_VFORK_EXEC, WAYS };

// Starts `path` with its output going to a pipe; returns the reading end.
static FILE* start(enum way way, char* path, pid_t* child) {
  *child = 0;
  if (way == BY_POPEN) {
    char command[PATH_MAX + 2];  // for a shell, which would split it at blanks
    snprintf(command, sizeof(command), "'%s'", path);
    return popen(command, "r");
  }
  int ends[2];
  if (pipe(ends) != 0) die("pipe failed");
  char* const arguments[] = {path, NULL};
  if (way == BY_SPAWN) {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    if (posix_spawn(child, path, &actions, NULL, arguments, environ) != 0) {
      die("posix_spawn failed");
    }
    posix_spawn_file_actions_destroy(&actions);
  } else {
    *child = way == BY_VFORK_EXEC ? vfork() : fork();
    if (*child < 0) die("fork failed");
    if (*child == 0) {
      dup2(ends[1], STDOUT_FILENO);
      execve(path, arguments, environ);
      _exit(99);
    }
  }
  close(ends[1]);
  return fdopen(ends[0], "r");
}

static bool finish(FILE* output, pid_t child) {
  if (child == 0) return pclose(output) == 0;
  fclose(output);
  int status;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) &&
         WEXITSTATUS(status) == 0;
}

int main(int argc, char** argv) {
  uint64_t wait_msec = 0;
  for (int option; (option = getopt(argc, argv, "w:")) != -1;) {
    if (option != 'w') return 2;
    wait_msec = parse_number("-w", optarg);
  }
  static const char* const names[WAYS] = {"popen", "posix_spawn", "fork", "vfork"};
  check(hsa_init(), "hsa_init");
  run_increments(10);
  pause_msec(wait_msec);
  char path[PATH_MAX];
  path_beside_program("env_print", path, sizeof(path));
  bool right = true, clean = true;
  for (enum way way = BY_POPEN; way < WAYS; way++) {
    pid_t child;
    FILE* output = start(way, path, &child);
    if (output == NULL) die("%s failed", names[way]);
    char line[4096];
    int lines = 0;
    for (; fgets(line, sizeof(line), output) != NULL; lines++) {
      clean = clean && strstr(line, " unset\n") != NULL;
      printf("%s: %s", names[way], line);
    }
    right = finish(output, child) && lines > 0 && right;
  }
  check(hsa_shut_down(), "hsa_shut_down");
  printf("dispatches=10 copies=0 bytes=0 tool_variables=%s result=%s\n",
         clean ? "unset" : "set", right ? "ok" : "wrong");
  return right ? 0 : 1;
}
