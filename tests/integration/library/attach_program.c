/* A program as a user would write it: plain C, the installed header and library. It
 * attaches to running processes and prints the status of each step.
 *
 *   attach_program STEP…
 *
 * Steps:
 *   attach=PID  tree=PID  detach=PID  detach-tree=PID   calls of the library
 *   sleep=MSEC
 *   close              closes every descriptor above 2
 *   ignore-children    ignores SIGCHLD from here on
 *   count-children     counts SIGCHLD in a handler; prints the count at the end
 *   wait               wait() must find no child
 *   interrupt          sends SIGINT to the process group, like Ctrl-C; ignores it here
 *   fork               starts a child that lives until the end of its standard input
 *   abort              kills the program
 *   threads=PID,PID    attaches to and detaches from each in a thread of its own
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <rocattach/rocattach.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t children = -1;

static void count_child(int number) {
  (void)number;
  ++children;
}

static void sleep_msec(long msec) {
  struct timespec pause = {msec / 1000, msec % 1000 * 1000000};
  while (nanosleep(&pause, &pause) != 0 && errno == EINTR) {
  }
}

static void say(const char* step, int pid, rocattach_status_t status) {
  const char* name = rocattach_get_status_name(status);
  printf("%s %d: %d %s\n", step, pid, (int)status, name == NULL ? "(null)" : name);
  fflush(stdout);
}

static void* attach_and_detach(void* data) {
  int pid = atoi(data);
  say("attach", pid, rocattach_attach(pid));
  sleep_msec(200);
  say("detach", pid, rocattach_detach(pid));
  return NULL;
}

static void run_threads(char* pids) {
  pthread_t threads[16];
  int count = 0;
  for (char* pid = strtok(pids, ","); pid != NULL && count < 16;
       pid = strtok(NULL, ",")) {
    if (pthread_create(&threads[count], NULL, attach_and_detach, pid) == 0) ++count;
  }
  for (int i = 0; i < count; ++i) pthread_join(threads[i], NULL);
}

static void fork_one(void) {
  if (fork() != 0) return;
  char ignored;
  say("child-detach", 0, rocattach_detach(0));
  while (read(0, &ignored, 1) > 0) {
  }
  _exit(0);
}

static int run(char* step) {
  char* value = strchr(step, '=');
  if (value != NULL) *value++ = '\0';
  const int number = value == NULL ? 0 : atoi(value);
  if (strcmp(step, "attach") == 0) {
    say(step, number, rocattach_attach(number));
  } else if (strcmp(step, "tree") == 0) {
    say(step, number, rocattach_attach_tree(number));
  } else if (strcmp(step, "detach") == 0) {
    say(step, number, rocattach_detach(number));
  } else if (strcmp(step, "detach-tree") == 0) {
    say(step, number, rocattach_detach_tree(number));
  } else if (strcmp(step, "sleep") == 0) {
    sleep_msec(number);
  } else if (strcmp(step, "close") == 0) {
    closefrom(3);
  } else if (strcmp(step, "ignore-children") == 0) {
    signal(SIGCHLD, SIG_IGN);
  } else if (strcmp(step, "count-children") == 0) {
    children = 0;
    signal(SIGCHLD, count_child);
  } else if (strcmp(step, "wait") == 0) {
    const pid_t child = waitpid(-1, NULL, WNOHANG);
    printf("wait: %s\n", child < 0 && errno == ECHILD ? "no child" : "a child");
  } else if (strcmp(step, "interrupt") == 0) {
    signal(SIGINT, SIG_IGN);
    kill(0, SIGINT);
  } else if (strcmp(step, "fork") == 0) {
    fork_one();
  } else if (strcmp(step, "abort") == 0) {
    kill(getpid(), SIGKILL);
  } else if (strcmp(step, "threads") == 0) {
    run_threads(value);
  } else {
    fprintf(stderr, "unknown step %s\n", step);
    return 2;
  }
  return 0;
}

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (run(argv[i]) != 0) return 2;
  }
  if (children >= 0) printf("children: %d\n", (int)children);
  return 0;
}
