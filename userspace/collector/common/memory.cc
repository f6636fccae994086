#include "userspace/collector/common/memory.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "userspace/abi/atomics.h"

// Not in the headers of glibc 2.17; its libc lacks the calls as well.
#ifndef MFD_CLOEXEC
#define MFD_CLOEXEC 1u
#define MFD_ALLOW_SEALING 2u
#endif
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u
#endif
#ifndef F_ADD_SEALS
#define F_ADD_SEALS 1033
#define F_SEAL_SEAL 1
#define F_SEAL_SHRINK 2
#define F_SEAL_GROW 4
#endif

namespace rocattach::collector {
namespace {

uint32_t g_failed_call = ROCATTACH_SETUP_NONE;

int OpenMemfd() {
  // If vm.memfd_noexec is 2, only the first form is allowed; before Linux 6.3
  // only the second one is known.
  long fd = syscall(SYS_memfd_create, ROCATTACH_SHM_NAME,
                    MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
  if (fd < 0 && errno == EINVAL) {
    fd = syscall(SYS_memfd_create, ROCATTACH_SHM_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  }
  return static_cast<int>(fd);
}

// Unlike close(), not a cancellation point: if the thread has been cancelled, it would
// end there while holding the locks of the start.
void Close(int fd) {
  (void)syscall(SYS_close, fd);
}

// In a process that locks all its mappings (mlockall with MCL_FUTURE), a plain mmap
// would populate every page, some 150 MB that are nearly unused. Inaccessible pages are
// not populated. Where munlock is denied (the filter of systemd-nspawn), the pages in
// use stay locked in such a process; other processes do not need munlock.
int MapUnlocked(int fd, size_t bytes, void** mapped) {
  void* base = mmap(nullptr, bytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (base == MAP_FAILED) return Failed(ROCATTACH_SETUP_MMAP, errno);
  (void)munlock(base, bytes);
  if (mprotect(base, bytes, PROT_READ | PROT_WRITE) != 0) {
    const int error = errno;
    munmap(base, bytes);
    return Failed(ROCATTACH_SETUP_MPROTECT, error);
  }
  *mapped = base;
  return 0;
}

int MapSealed(int fd, size_t bytes, void** mapped) {
  if (ftruncate(fd, static_cast<off_t>(bytes)) != 0) {
    return Failed(ROCATTACH_SETUP_FTRUNCATE, errno);
  }
  if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return Failed(ROCATTACH_SETUP_FCNTL, errno);
  }
  return MapUnlocked(fd, bytes, mapped);
}

void FillControl(const rocattach_collector_config& config, const Geometry& g,
                 rocattach_control* c) {
  c->magic = ROCATTACH_SHM_MAGIC;
  c->version = ROCATTACH_SHM_VERSION;
  c->control_bytes = sizeof(*c);
  c->total_bytes = g.total_bytes;
  c->rings_offset = g.rings_offset;
  c->ring_stride = g.ring_stride;
  c->ring_count = g.ring_count;
  c->ring_slots = g.ring_slots;
  c->inflight_offset = g.inflight_offset;
  c->inflight_count = g.inflight_count;
  c->inflight_bytes = sizeof(rocattach_inflight);
  c->dictionary_offset = g.dictionary_offset;
  c->dictionary_bytes = g.dictionary_bytes;
  c->plan_offset = g.plan_offset;
  c->plan_bytes = sizeof(rocattach_plan);
  c->window_id = config.window_id;
  c->pid = getpid();
  c->start_ns = BootNs();
  c->recording = config.recording != 0;
  c->recording_flags = config.recording_flags;
}

}  // namespace

// Lets the kernel add 0 to a word of each page: a fault that cannot be served is then
// an error of the call, not a signal. No thread waits on those words.
bool Commit(void* begin, size_t bytes) {
  constexpr uintptr_t kPage = 4096;
  constexpr unsigned kAddNothing = FUTEX_OP(FUTEX_OP_ADD, 0, FUTEX_OP_CMP_EQ, 0);
  ErrnoKeeper keep_errno;
  const uintptr_t end = reinterpret_cast<uintptr_t>(begin) + bytes;
  uintptr_t page = reinterpret_cast<uintptr_t>(begin) & ~(kPage - 1);
  for (; page < end; page += kPage) {
    const long result = syscall(SYS_futex, page, FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG, 0,
                                nullptr, page, kAddNothing);
    if (result < 0 && (errno == EFAULT || errno == ENOMEM)) return false;
  }
  return true;
}

int Memory::Create(const rocattach_collector_config& config) {
  Geometry geometry;
  if (!ComputeGeometry(config, &geometry)) return EINVAL;
  int fd = OpenMemfd();
  if (fd < 0) return Failed(ROCATTACH_SETUP_MEMFD_CREATE, errno);
  // Beyond the limit, ftruncate not only fails: SIGXFSZ kills the process.
  rlimit limit;
  const int unknown = getrlimit(RLIMIT_FSIZE, &limit) != 0 ? errno : 0;
  if (unknown != 0 || limit.rlim_cur < geometry.total_bytes) {
    Close(fd);
    return Failed(ROCATTACH_SETUP_FILE_SIZE, unknown != 0 ? unknown : EFBIG);
  }
  void* base = nullptr;
  int error = MapSealed(fd, geometry.total_bytes, &base);
  Close(fd);
  if (error != 0) return error;
  geometry_ = geometry;
  base_ = static_cast<uint8_t*>(base);
  // These parts are read and written at any time.
  if (!Commit(control(), sizeof(*control())) || !Commit(plan(), 1)) {
    Discard();
    return Failed(ROCATTACH_SETUP_COMMIT, ENOMEM);
  }
  FillControl(config, geometry_, control());
  SetState(ROCATTACH_STATE_LOADED);
  return 0;
}

int Failed(rocattach_setup_call call, int error) {
  StoreRelaxed(&g_failed_call, static_cast<uint32_t>(call));
  return error;
}

rocattach_setup_call FailedCall() {
  return static_cast<rocattach_setup_call>(LoadRelaxed(&g_failed_call));
}

void Memory::Discard() {
  if (base_ != nullptr) munmap(base_, geometry_.total_bytes);
  base_ = nullptr;
}

bool Memory::CommitInflight(uint32_t index) {
  constexpr uint32_t kEntries = kCommitBytes / sizeof(rocattach_inflight);
  if (index % kEntries != 0) return true;
  const uint32_t left = geometry_.inflight_count - index;
  return Commit(inflight(index),
                (left < kEntries ? left : kEntries) * sizeof(rocattach_inflight));
}

void Memory::SetState(rocattach_collector_state state) {
  StoreRelease(&control()->state, static_cast<uint32_t>(state));
}

void Memory::Refuse(rocattach_collector_reason reason, const char* text) {
  rocattach_control* c = control();
  size_t bytes = strnlen(text, sizeof(c->text) - 1);
  memcpy(c->text, text, bytes);
  c->text[bytes] = '\0';
  StoreRelaxed(&c->reason, static_cast<uint32_t>(reason));
  SetState(ROCATTACH_STATE_REFUSED);
}

void* AllocatePrivate(size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

}  // namespace rocattach::collector
