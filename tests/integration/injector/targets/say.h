/* A target's output for its test: the address of its window, and lines of text. */
#ifndef ROCATTACH_TESTS_INTEGRATION_INJECTOR_TARGETS_SAY_H_
#define ROCATTACH_TESTS_INTEGRATION_INJECTOR_TARGETS_SAY_H_

#include <stdarg.h>
#include <stdio.h>
#include <sys/types.h>
#include <unistd.h>

/* window_library.S */
void* window_address(void);
void* window_flag_address(void);

/* Does not allocate. */
static inline void say(const char* format, ...) {
  char line[256];
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(line, sizeof(line), format, arguments);
  va_end(arguments);
  if (write(STDOUT_FILENO, line, (size_t)length) != length) _exit(98);
}

/* Tells the test that it may attach; `tid` is the thread that calls the window. */
static inline void say_ready(pid_t tid) {
  say("ready window=%lx flag=%lx tid=%d\n", (unsigned long)window_address(),
      (unsigned long)window_flag_address(), (int)tid);
}

#endif
