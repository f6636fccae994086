#define _GNU_SOURCE
#include "tests/simgpu/device_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FILE_BYTES (1ull << 45)
// Lowest number of the file's first descriptor, out of the way of programs that expect
// theirs to be numbered from 3 on, or that close descriptors they did not open.
#define LOW_DESCRIPTORS 200

struct identity {
  dev_t device;
  ino_t inode;
};

static struct {
  pthread_mutex_t lock;
  int fd;  // -1: not created yet
  struct identity self;
  struct identity parents;  // the parent's file, after a fork
} file = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

static bool identify(int fd, struct identity* identity) {
  struct stat status;
  if (fstat(fd, &status) != 0) return false;
  *identity = (struct identity){status.st_dev, status.st_ino};
  return true;
}

static bool same(struct identity a, struct identity b) {
  return a.inode != 0 && a.inode == b.inode && a.device == b.device;
}

// A program may have closed this descriptor without knowing it, and opened another file
// under its number. Caller holds the lock.
static bool still_there(void) {
  struct identity now;
  return file.fd >= 0 && identify(file.fd, &now) && same(now, file.self);
}

static int new_file(bool close_on_exec) {
  const char* memfd = getenv("SIMGPU_MEMFD");
  if (memfd == NULL || strcmp(memfd, "0") != 0) {
    return memfd_create("simgpu", close_on_exec ? MFD_CLOEXEC : 0);
  }
  const int flags = O_TMPFILE | O_RDWR | O_EXCL | (close_on_exec ? O_CLOEXEC : 0);
  return (int)syscall(SYS_openat, AT_FDCWD, "/dev/shm", flags, 0600);
}

static bool allowed(uint64_t size) {
  struct rlimit limit;
  return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur >= size;
}

// A limit of file sizes does not apply to shared memory, which nevertheless is a file.
// Opening that file takes privileges.
static int file_of_shared_memory(uint64_t size) {
  char* mapped = mmap(NULL, size, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return -1;
  char path[80];
  snprintf(path, sizeof(path), "/proc/self/map_files/%lx-%lx",
           (unsigned long)(uintptr_t)mapped, (unsigned long)(uintptr_t)(mapped + size));
  int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC);
  const int error = errno;
  munmap(mapped, size);
  errno = error;
  return fd;
}

static int pipe_of(const void* content, size_t bytes, bool close_on_exec) {
  int ends[2];
  if (pipe2(ends, close_on_exec ? O_CLOEXEC : 0) != 0) return -1;
  // The content fits into a pipe.
  const bool ok = write(ends[1], content, bytes) == (ssize_t)bytes;
  syscall(SYS_close, ends[1]);
  if (ok) return ends[0];
  syscall(SYS_close, ends[0]);
  return -1;
}

int simgpu_file_create(uint64_t size, const void* content, uint64_t content_bytes,
                       bool close_on_exec) {
  if (!allowed(size > content_bytes ? size : content_bytes)) {
    return size > 0 ? file_of_shared_memory(size)
                    : pipe_of(content, content_bytes, close_on_exec);
  }
  int fd = new_file(close_on_exec);
  if (fd < 0) return -1;
  if ((size == 0 || ftruncate(fd, (off_t)size) == 0) &&
      (content_bytes == 0 ||
       (write(fd, content, content_bytes) == (ssize_t)content_bytes &&
        lseek(fd, 0, SEEK_SET) == 0))) {
    return fd;
  }
  const int error = errno;
  syscall(SYS_close, fd);
  errno = error;
  return -1;
}

// Caller holds the lock.
static int make(void) {
  if (still_there()) return 0;
  int low = simgpu_file_create(FILE_BYTES, NULL, 0, true);
  if (low < 0) return errno;
  int fd = fcntl(low, F_DUPFD_CLOEXEC, LOW_DESCRIPTORS);
  if (fd >= 0) {
    syscall(SYS_close, low);
  } else {
    fd = low;  // the limit of descriptors is lower
  }
  if (!identify(fd, &file.self)) {
    int error = errno;
    syscall(SYS_close, fd);
    return error;
  }
  file.fd = fd;
  return 0;
}

int simgpu_file_open(bool close_on_exec) {
  pthread_mutex_lock(&file.lock);
  int error = make();
  int fd = -1;
  if (error == 0) {
    fd = fcntl(file.fd, close_on_exec ? F_DUPFD_CLOEXEC : F_DUPFD, 0);
    error = errno;
  }
  pthread_mutex_unlock(&file.lock);
  if (fd < 0) errno = error;
  return fd;
}

bool simgpu_file_is(int fd) {
  struct identity identity;
  return file.self.inode != 0 && identify(fd, &identity) && same(identity, file.self);
}

bool simgpu_file_is_inherited(int fd) {
  struct identity identity;
  return file.parents.inode != 0 && identify(fd, &identity) &&
         same(identity, file.parents);
}

static void* map(void* at, uint64_t offset, uint64_t bytes, int flags) {
  pthread_mutex_lock(&file.lock);
  void* mapped = MAP_FAILED;
  if (make() == 0) {
    mapped = mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | flags,
                  file.fd, (off_t)offset);
  }
  pthread_mutex_unlock(&file.lock);
  return mapped != MAP_FAILED ? mapped : NULL;
}

void* simgpu_file_map(uint64_t offset, uint64_t bytes) {
  return map(NULL, offset, bytes, 0);
}

bool simgpu_file_map_at(uint64_t address, uint64_t offset, uint64_t bytes) {
  return map((void*)(uintptr_t)address, offset, bytes, MAP_FIXED) != NULL;
}

void simgpu_file_discard(uint64_t offset, uint64_t bytes) {
  pthread_mutex_lock(&file.lock);
  if (still_there()) {
    fallocate(file.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset,
              (off_t)bytes);
  }
  pthread_mutex_unlock(&file.lock);
}

void simgpu_file_after_fork_child(void) {
  pthread_mutex_init(&file.lock, NULL);
  if (file.self.inode != 0) file.parents = file.self;
  if (still_there()) syscall(SYS_close, file.fd);
  file.fd = -1;
  file.self = (struct identity){0, 0};
}
