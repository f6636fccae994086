#include "tests/simrocm/call_log.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>

namespace simrocm {

void Log(const char* format, ...) {
  const char* path = getenv("SIMROCM_LOG");
  if (path == nullptr || *path == '\0') return;
  char line[1024];
  va_list arguments;
  va_start(arguments, format);
  // Room is kept for the trailer.
  int length = vsnprintf(line, sizeof(line) - 64, format, arguments);
  va_end(arguments);
  if (length < 0) return;
  if (length >= static_cast<int>(sizeof(line)) - 64) length = sizeof(line) - 65;
  length += snprintf(line + length, sizeof(line) - length, " pid=%d tid=%ld\n",
                     static_cast<int>(getpid()), syscall(SYS_gettid));
  // Opened each time: no descriptor is left in the program, and a forked child's lines
  // are its own. One write with O_APPEND keeps lines whole.
  int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return;
  if (write(fd, line, static_cast<size_t>(length)) < 0) { /* a test will miss it */
  }
  close(fd);
}

void Fatal(const char* format, ...) {
  char line[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line, sizeof(line), format, arguments);
  va_end(arguments);
  Log("fatal text=\"%s\"", line);
  fprintf(stderr, "simrocm: fatal: %s\n", line);
  abort();
}

}  // namespace simrocm
