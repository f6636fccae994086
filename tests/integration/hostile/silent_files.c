#define _GNU_SOURCE
#include "tests/integration/hostile/silent_files.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { FOLDER = FUSE_ROOT_ID, FILE_ID = 2, REQUEST_BYTES = FUSE_MIN_READ_BUFFER };
static const uint64_t kSilentFileBytes = 1 << 30;
static const uint64_t kValidSeconds = 100000;

static void answer(int device, uint64_t request, int error, const void* body,
                   size_t bytes) {
  struct fuse_out_header head = {
      .len = (uint32_t)(sizeof(head) + bytes), .error = -error, .unique = request};
  const struct iovec parts[] = {{&head, sizeof(head)}, {(void*)body, bytes}};
  /* The request may have been withdrawn. */
  (void)!writev(device, parts, 2);
}

static struct fuse_attr attributes(uint64_t node) {
  const struct fuse_attr attr = {
      .ino = node,
      .size = node == FOLDER ? 0 : kSilentFileBytes,
      .mode = node == FOLDER ? S_IFDIR | 0755 : S_IFREG | 0755,
      .nlink = 1};
  return attr;
}

static void serve_one(int device, const struct fuse_in_header* request) {
  const struct fuse_init_out init = {.major = FUSE_KERNEL_VERSION,
                                     .minor = FUSE_KERNEL_MINOR_VERSION,
                                     .max_write = 4096};
  const struct fuse_entry_out entry = {.nodeid = FILE_ID,
                                       .entry_valid = kValidSeconds,
                                       .attr_valid = kValidSeconds,
                                       .attr = attributes(FILE_ID)};
  const struct fuse_attr_out attr = {.attr_valid = kValidSeconds,
                                     .attr = attributes(request->nodeid)};
  const struct fuse_open_out open_out = {.fh = 1};
  switch (request->opcode) {
    case FUSE_INIT:
      return answer(device, request->unique, 0, &init, sizeof(init));
    case FUSE_LOOKUP:
      return answer(device, request->unique, 0, &entry, sizeof(entry));
    case FUSE_GETATTR:
      return answer(device, request->unique, 0, &attr, sizeof(attr));
    case FUSE_OPEN:
      return answer(device, request->unique, 0, &open_out, sizeof(open_out));
    case FUSE_READ: /* never answered */
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
    case FUSE_INTERRUPT:
      return;
    default:
      return answer(device, request->unique, ENOSYS, NULL, 0);
  }
}

/* Runs until the process that has started it ends: then all waits end, because no
 * process has the device open any more. */
static void serve(int device, pid_t parent) {
  static char request[REQUEST_BYTES];
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(0);
  for (;;) {
    const ssize_t bytes = read(device, request, sizeof(request));
    if (bytes >= (ssize_t)sizeof(struct fuse_in_header)) {
      serve_one(device, (const struct fuse_in_header*)request);
    } else if (bytes < 0 && errno != EINTR && errno != ENOENT) {
      _exit(0);
    }
  }
}

int open_silent_file(int device, const char* folder) {
  char path[4096];
  const pid_t self = getpid();
  const pid_t server = fork();
  if (server < 0) return -1;
  if (server == 0) serve(device, self);
  close(device);
  snprintf(path, sizeof(path), "%s/file", folder);
  return open(path, O_RDONLY | O_CLOEXEC);
}
