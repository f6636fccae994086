// The functions of libc through which a process reaches the driver. Calls for the
// driver are handled here; all others go on to the kernel or to libc. The library is
// preloaded, so these functions precede libc's for every library of the process.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/simgpu/device_file.h"
#include "tests/simgpu/driver.h"
#include "tests/simgpu/topology.h"

// Some of these functions have other names in libc's headers.
#pragma GCC diagnostic ignored "-Wmissing-declarations"

#define EXPORT __attribute__((visibility("default")))

// libc's own function with this name.
#define NEXT(name)                                              \
  ({                                                            \
    static __typeof__(name)* _Atomic next_##name;               \
    if (next_##name == NULL) {                                  \
      next_##name = (__typeof__(name)*)dlsym(RTLD_NEXT, #name); \
    }                                                           \
    next_##name;                                                \
  })

static int fail(int error) {
  errno = error;
  return -1;
}

// --- What is at a path ---

static bool is_kfd(const char* path) {
  return strcmp(path, "/dev/kfd") == 0;
}

static bool is_render(const char* path, unsigned* gpu) {
  static const char folder[] = "/dev/dri/renderD";
  if (strncmp(path, folder, sizeof(folder) - 1) != 0) return false;
  char* end;
  const unsigned long minor = strtoul(path + sizeof(folder) - 1, &end, 10);
  if (*end != '\0' || minor < SIMGPU_FIRST_RENDER_MINOR) return false;
  *gpu = (unsigned)(minor - SIMGPU_FIRST_RENDER_MINOR);
  return true;
}

// True if the path is the driver's; `*fd` is then the result, with errno.
static bool open_here(const char* path, int flags, int* fd) {
  if (path == NULL) return false;
  unsigned gpu;
  if (is_kfd(path)) {
    *fd = simgpu_driver_open(flags);
    return true;
  }
  if (is_render(path, &gpu)) {
    *fd = simgpu_driver_open_render(gpu, flags);
    return true;
  }
  if (!simgpu_topology_may_be(path)) return false;
  char* text = NULL;
  size_t bytes = 0;
  const enum simgpu_path found = simgpu_topology_at(path, &text, &bytes);
  if (found == SIMGPU_PATH_FILE) {
    *fd = (flags & O_ACCMODE) != O_RDONLY ? fail(EACCES)
          : text == NULL                  ? fail(ENOMEM)
                         : simgpu_file_create(0, text, bytes, (flags & O_CLOEXEC) != 0);
  } else if (found != SIMGPU_PATH_OTHER) {
    // Folders must be opened with opendir().
    *fd = fail(found == SIMGPU_PATH_FOLDER ? EISDIR : ENOENT);
  }
  free(text);
  return found != SIMGPU_PATH_OTHER;
}

// --- Opening ---

static int open_at(int folder, const char* path, int flags, mode_t mode) {
  int fd;
  if (open_here(path, flags, &fd)) return fd;
  return (int)syscall(SYS_openat, folder, path, flags, mode);
}

#define OPEN(name, type, extra, folder)                     \
  EXPORT int name(extra const char* path, int flags, ...) { \
    mode_t mode = 0;                                        \
    if (flags & (O_CREAT | __O_TMPFILE)) {                  \
      va_list arguments;                                    \
      va_start(arguments, flags);                           \
      mode = va_arg(arguments, mode_t);                     \
      va_end(arguments);                                    \
    }                                                       \
    return open_at(folder, path, flags, mode);              \
  }
#define FOLDER int folder,
OPEN(open, int, , AT_FDCWD)
OPEN(open64, int, , AT_FDCWD)
OPEN(openat, int, FOLDER, folder)
OPEN(openat64, int, FOLDER, folder)

// The functions that programs built with _FORTIFY_SOURCE call.
EXPORT int __open_2(const char* path, int flags) {
  return open_at(AT_FDCWD, path, flags, 0);
}
EXPORT int __open64_2(const char* path, int flags) {
  return open_at(AT_FDCWD, path, flags, 0);
}
EXPORT int __openat_2(int folder, const char* path, int flags) {
  return open_at(folder, path, flags, 0);
}
EXPORT int __openat64_2(int folder, const char* path, int flags) {
  return open_at(folder, path, flags, 0);
}

// True if the path is the driver's; `*file` is then the result.
static bool fopen_here(const char* path, const char* mode, FILE** file) {
  int fd;
  const int flags = mode[0] == 'r' && strchr(mode, '+') == NULL ? O_RDONLY : O_RDWR;
  const int close_on_exec = strchr(mode, 'e') != NULL ? O_CLOEXEC : 0;
  if (!open_here(path, flags | close_on_exec, &fd)) return false;
  *file = fd >= 0 ? fdopen(fd, mode) : NULL;
  return true;
}

EXPORT FILE* fopen(const char* path, const char* mode) {
  FILE* file;
  return fopen_here(path, mode, &file) ? file : NEXT(fopen)(path, mode);
}
EXPORT FILE* fopen64(const char* path, const char* mode) {
  FILE* file;
  return fopen_here(path, mode, &file) ? file : NEXT(fopen64)(path, mode);
}

// --- Controlling ---

EXPORT int ioctl(int fd, unsigned long request, ...) {
  va_list arguments;
  va_start(arguments, request);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  // Terminals use the same ioctl numbers.
  if (simgpu_driver_may_be(request)) {
    if (simgpu_file_is(fd)) {
      const int error = simgpu_driver_ioctl(request, argument);
      return error != 0 ? fail(error) : 0;
    }
    // A child cannot use a file that its parent has opened.
    if (simgpu_file_is_inherited(fd)) return fail(EBADF);
  }
  return (int)syscall(SYS_ioctl, fd, request, argument);
}

// --- Asking about files ---

// True if the path is the driver's; `*error` is then 0 or an errno.
static bool check_here(const char* path, int* error, mode_t* mode) {
  if (path == NULL) return false;
  unsigned gpu;
  *error = 0;
  *mode = S_IFCHR | 0666;
  if (is_kfd(path) || is_render(path, &gpu)) return true;
  if (!simgpu_topology_may_be(path)) return false;
  const enum simgpu_path found = simgpu_topology_at(path, NULL, NULL);
  *mode = found == SIMGPU_PATH_FOLDER ? S_IFDIR | 0755 : S_IFREG | 0444;
  if (found == SIMGPU_PATH_ABSENT) *error = ENOENT;
  return found != SIMGPU_PATH_OTHER;
}

EXPORT int access(const char* path, int wanted) {
  int error;
  mode_t mode;
  if (check_here(path, &error, &mode)) {
    if (error == 0 && wanted & W_OK && !S_ISCHR(mode)) error = EACCES;
    return error != 0 ? fail(error) : 0;
  }
  return (int)syscall(SYS_access, path, wanted);
}

static bool stat_here(const char* path, struct stat* status, int* result) {
  int error;
  mode_t mode;
  if (!check_here(path, &error, &mode)) return false;
  if (error == 0) {
    memset(status, 0, sizeof(*status));
    status->st_mode = mode;
    status->st_nlink = 1;
    status->st_ino = 1;
    status->st_blksize = 4096;
  }
  *result = error != 0 ? fail(error) : 0;
  return true;
}

#define STAT(name, at_flags)                                               \
  EXPORT int name(const char* path, struct stat* status) {                 \
    int result;                                                            \
    if (stat_here(path, status, &result)) return result;                   \
    return (int)syscall(SYS_newfstatat, AT_FDCWD, path, status, at_flags); \
  }
STAT(stat, 0)
STAT(lstat, AT_SYMLINK_NOFOLLOW)
_Static_assert(sizeof(struct stat) == sizeof(struct stat64), "one layout on x86-64");
EXPORT int stat64(const char* path, struct stat64* status) {
  return stat(path, (struct stat*)status);
}
EXPORT int lstat64(const char* path, struct stat64* status) {
  return lstat(path, (struct stat*)status);
}
EXPORT int fstatat(int folder, const char* path, struct stat* status, int flags) {
  int result;
  if (stat_here(path, status, &result)) return result;
  return (int)syscall(SYS_newfstatat, folder, path, status, flags);
}
EXPORT int fstatat64(int folder, const char* path, struct stat64* status, int flags) {
  return fstatat(folder, path, (struct stat*)status, flags);
}

// --- Folders ---

// A folder of the driver's that is being read. The caller uses it as its DIR.
struct folder {
  struct folder* next;
  char* names;  // each terminated by a zero
  size_t bytes;
  size_t at;
  struct dirent entry;
};

static struct {
  pthread_mutex_t lock;
  struct folder* first;
  atomic_uint count;
} folders = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct folder* folder_of(DIR* stream) {
  if (folders.count == 0) return NULL;
  pthread_mutex_lock(&folders.lock);
  struct folder* found = folders.first;
  while (found != NULL && (void*)found != (void*)stream) found = found->next;
  pthread_mutex_unlock(&folders.lock);
  return found;
}

EXPORT DIR* opendir(const char* path) {
  char* names = NULL;
  size_t bytes = 0;
  const enum simgpu_path found = simgpu_topology_at(path, &names, &bytes);
  if (found == SIMGPU_PATH_OTHER) {
    free(names);
    return NEXT(opendir)(path);
  }
  struct folder* folder = NULL;
  if (found == SIMGPU_PATH_FOLDER && names != NULL) folder = calloc(1, sizeof(*folder));
  if (folder == NULL) {
    free(names);
    errno = found == SIMGPU_PATH_FILE     ? ENOTDIR
            : found == SIMGPU_PATH_ABSENT ? ENOENT
                                          : ENOMEM;
    return NULL;
  }
  folder->names = names;
  folder->bytes = bytes;
  pthread_mutex_lock(&folders.lock);
  folder->next = folders.first;
  folders.first = folder;
  folders.count++;
  pthread_mutex_unlock(&folders.lock);
  return (DIR*)folder;
}

static struct dirent* next_entry(struct folder* folder) {
  if (folder->at >= folder->bytes) return NULL;
  const char* name = folder->names + folder->at;
  folder->at += strlen(name) + 1;
  memset(&folder->entry, 0, sizeof(folder->entry));
  folder->entry.d_ino = 1;
  folder->entry.d_reclen = sizeof(folder->entry);
  // Files and folders are not distinguished here, as on many file systems.
  folder->entry.d_type = DT_UNKNOWN;
  strncpy(folder->entry.d_name, name, sizeof(folder->entry.d_name) - 1);
  return &folder->entry;
}

EXPORT struct dirent* readdir(DIR* stream) {
  struct folder* folder = folder_of(stream);
  return folder != NULL ? next_entry(folder) : NEXT(readdir)(stream);
}
_Static_assert(sizeof(struct dirent) == sizeof(struct dirent64), "one layout");
EXPORT struct dirent64* readdir64(DIR* stream) {
  struct folder* folder = folder_of(stream);
  return folder != NULL ? (struct dirent64*)next_entry(folder)
                        : NEXT(readdir64)(stream);
}

EXPORT int closedir(DIR* stream) {
  struct folder* folder = folder_of(stream);
  if (folder == NULL) return NEXT(closedir)(stream);
  pthread_mutex_lock(&folders.lock);
  struct folder** link = &folders.first;
  while (*link != folder) link = &(*link)->next;
  *link = folder->next;
  folders.count--;
  pthread_mutex_unlock(&folders.lock);
  free(folder->names);
  free(folder);
  return 0;
}
