// Replaces a library by another file just after a privileged process has looked at it,
// as a hostile user might.
//
//   hostile_library LIBRARY OTHER
//
// Maps LIBRARY, so that it is found, and waits until a process opens it. Then renames
// it to LIBRARY.aside and puts a symbolic link to OTHER in its place. Ends on SIGTERM.
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static void fail(const char* what) {
  perror(what);
  exit(2);
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const char* library = argv[1];
  int fd = open(library, O_RDONLY);
  struct stat info;
  if (fd < 0 || fstat(fd, &info) != 0) fail(library);
  if (mmap(NULL, (size_t)info.st_size, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) ==
      MAP_FAILED) {
    fail("mmap");
  }
  close(fd);
  int watch = inotify_init1(IN_CLOEXEC);
  if (watch < 0 || inotify_add_watch(watch, library, IN_OPEN | IN_CLOSE) < 0) {
    fail("inotify");
  }
  printf("mapped\n");
  fflush(stdout);
  // The first event is the open. The best moment for the swap is when the file is
  // closed after the check; if it stays open, a while later.
  char events[4096];
  if (read(watch, events, sizeof(events)) <= 0) fail("read");
  struct pollfd closed = {watch, POLLIN, 0};
  poll(&closed, 1, 20);
  char aside[4096];
  snprintf(aside, sizeof(aside), "%s.aside", library);
  if (rename(library, aside) != 0) fail("rename");
  if (symlink(argv[2], library) != 0) fail("symlink");
  printf("swapped\n");
  fflush(stdout);
  for (;;) pause();
}
