// The context in which a thread was stopped, checked on this process itself.
#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <link.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <thread>

#include "injector/elf/symbol_lookup.h"
#include "injector/elf/unwind_table.h"
#include "injector/process/allocator_frames.h"
#include "injector/process/call_context.h"
#include "injector/process/loader_lock.h"
#include "userspace/base/clock.h"

namespace rocattach {
namespace {

struct Own {
  std::optional<Maps> maps;
  std::optional<TargetMemory> memory;
  LoaderFunctions functions;
  LibcState libc;

  Own() {
    auto read = Maps::Read(getpid());
    auto opened = TargetMemory::Open(getpid(), gettid());
    EXPECT_TRUE(read.ok() && opened.ok());
    maps.emplace(*std::move(read));
    memory.emplace(*std::move(opened));
    EXPECT_TRUE(FindLoaderFunctions(getpid(), *maps, nullptr, &functions, &libc).ok());
  }
  RemoteAddress LoaderState() const {
    uint64_t state = 0;
    EXPECT_TRUE(memory->Read(libc.loader_state_slot, &state, sizeof(state)).ok());
    return RemoteAddress(state);
  }
};

TEST(LibcStateTest, IsThatOfThisProcess) {
  Own own;
  EXPECT_EQ(own.LoaderState().value(),
            reinterpret_cast<uint64_t>(dlsym(RTLD_DEFAULT, "_rtld_global")));
  EXPECT_FALSE(own.libc.malloc_slot.is_null());
  ASSERT_FALSE(own.libc.signal_returns.empty());
  for (RemoteAddress address : own.libc.signal_returns) {
    const unsigned char code[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
    EXPECT_EQ(memcmp(reinterpret_cast<void*>(address.value()), code, sizeof(code)), 0);
  }
  EXPECT_EQ(own.functions.mutex_trylock.value(),
            reinterpret_cast<uint64_t>(dlsym(RTLD_DEFAULT, "pthread_mutex_trylock")));
}

struct Held {
  const Own* own;
  LoaderLocks locks;
  StepResult of_other, of_holder;
};

int WhileHeld(dl_phdr_info*, size_t, void* data) {
  Held* held = static_cast<Held*>(data);
  LoaderLocks locks = held->locks;
  locks.seen_free = false;
  const pid_t holder = gettid();
  std::thread([&] {
    held->of_other = WaitForLoaderLocks(getpid(), gettid(), *held->own->memory, locks,
                                        BootNs() + 5'000'000);
  }).join();
  held->of_holder =
      WaitForLoaderLocks(getpid(), holder, *held->own->memory, locks, BootNs());
  return 1;
}

TEST(LoaderLockTest, ErrorNamesTheThreadThatHoldsTheLock) {
  Own own;
  for (const LibraryFacts* facts : {static_cast<const LibraryFacts*>(nullptr),
                                    own.libc.facts.get(), own.libc.facts.get()}) {
    Held held = {&own, FindLoaderLocks(*own.memory, own.LoaderState(), facts), {}, {}};
    ASSERT_TRUE(held.locks.known());
    EXPECT_TRUE(held.locks.seen_free);
    EXPECT_TRUE(
        WaitForLoaderLocks(getpid(), gettid(), *own.memory, held.locks, 0).ok());
    dl_iterate_phdr(WhileHeld, &held);
    ASSERT_FALSE(held.of_other.ok());
    EXPECT_EQ(held.of_other.failure().reason, AttachReason::kLoaderBusy);
    EXPECT_NE(held.of_other.failure().detail.find(std::to_string(gettid())),
              std::string::npos)
        << held.of_other.failure().detail;
    EXPECT_TRUE(held.of_holder.ok()) << "its own thread may take it again";
  }
  EXPECT_NE(own.libc.facts->loader_locks_offset, 0u);
}

// The relevant part of `_rtld_global`, behind `before` bytes.
std::string State(size_t before, uint64_t namespaces, int kind) {
  std::string state(before, '\0');
  state.append(reinterpret_cast<const char*>(&namespaces), sizeof(namespaces));
  for (int i = 0; i < 2; ++i) {
    std::string mutex(40, '\0');
    std::memcpy(mutex.data() + 16, &kind, sizeof(kind));
    state += mutex;
  }
  return state + std::string(64, '\0');
}

TEST(LoaderLockTest, AcceptsOnlyAnUnmistakableState) {
  const RemoteAddress base(0x10000);
  const LoaderLocks locks = FindLoaderLocksIn(State(80, 1, 1), base);
  EXPECT_EQ(locks.load.value(), 0x10000u + 88);
  EXPECT_EQ(locks.list.value(), 0x10000u + 128);
  EXPECT_TRUE(FindLoaderLocksIn(State(80, 16, 1), base).known());
  EXPECT_FALSE(FindLoaderLocksIn(State(80, 17, 1), base).known());
  EXPECT_FALSE(FindLoaderLocksIn(State(80, 0, 1), base).known());
  EXPECT_FALSE(FindLoaderLocksIn(State(80, 1, 0), base).known()) << "not recursive";
  EXPECT_FALSE(FindLoaderLocksIn(State(0, 1, 1) + State(0, 1, 1), base).known());
  EXPECT_FALSE(FindLoaderLocksIn(State(80, 1, 1).substr(0, 150), base).known());
  EXPECT_FALSE(FindLoaderLocksIn("", base).known());
}

user_regs_struct RegistersOf(const ucontext_t& context) {
  const auto& from = context.uc_mcontext.gregs;
  user_regs_struct to = {};
  to.rbx = static_cast<unsigned long long>(from[REG_RBX]);
  to.rbp = static_cast<unsigned long long>(from[REG_RBP]);
  to.rsp = static_cast<unsigned long long>(from[REG_RSP]);
  to.r12 = static_cast<unsigned long long>(from[REG_R12]);
  to.r13 = static_cast<unsigned long long>(from[REG_R13]);
  to.r14 = static_cast<unsigned long long>(from[REG_R14]);
  to.r15 = static_cast<unsigned long long>(from[REG_R15]);
  to.rip = static_cast<unsigned long long>(from[REG_RIP]);
  return to;
}

// Looks for callers in the library of `allocator`, which is taken for an allocator.
__attribute__((noinline)) std::optional<std::string> CallsFromHere(
    const Own& own, const void* allocator) {
  AllocatorFrames frames(getpid(), *own.maps, *own.memory);
  frames.SetMalloc(RemoteAddress(reinterpret_cast<uint64_t>(allocator)));
  ucontext_t context;
  getcontext(&context);
  auto found = frames.FindCall(RegistersOf(context));
  __asm__ volatile("");
  return found;
}

struct Sorted {
  const Own* own;
  const void* allocator;
  std::optional<std::string> found;
};

int Compare(const void* left, const void* right, void* data) {
  Sorted* sorted = static_cast<Sorted*>(data);
  sorted->found = CallsFromHere(*sorted->own, sorted->allocator);
  return *static_cast<const int*>(left) - *static_cast<const int*>(right);
}

TEST(AllocatorFramesTest, FindsALibraryAmongItsCallers) {
  Own own;
  // qsort_r, which is in libc, calls back.
  void* const libc_function = dlsym(RTLD_DEFAULT, "qsort_r");
  int numbers[] = {2, 1};
  Sorted sorted = {&own, libc_function, {}};
  qsort_r(numbers, 2, sizeof(int), Compare, &sorted);
  EXPECT_TRUE(sorted.found.has_value());
  void* const libm = ::dlopen("libm.so.6", RTLD_NOW);
  ASSERT_NE(libm, nullptr);
  Own later;
  const auto none = CallsFromHere(later, dlsym(libm, "sinh"));
  EXPECT_FALSE(none.has_value()) << *none;
}

// glibc since 2.42 keeps the guard of each thread's stack in one mapping with the
// stack, and the kernel shows two adjacent stacks as one mapping. Here, memory beyond
// the end of a file cannot be read.
TEST(CallContextTest, AStackMayEndBeforeItsMapping) {
  const long page = sysconf(_SC_PAGESIZE);
  const int file = memfd_create("stack", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(file, page), 0);
  void* stack = mmap(nullptr, static_cast<size_t>(2 * page), PROT_READ | PROT_WRITE,
                     MAP_SHARED, file, 0);
  ASSERT_NE(stack, MAP_FAILED);
  Own own;
  CallContext context;
  context.pid = getpid();
  context.maps = &*own.maps;
  context.memory = &*own.memory;
  context.libc = &own.libc;
  for (const long offset : {page / 2, page - 8}) {
    context.registers.rsp =
        reinterpret_cast<uint64_t>(stack) + static_cast<uint64_t>(offset);
    RemoteAddress state;
    const StepResult result = CheckCallContext(context, &state);
    EXPECT_TRUE(result.ok()) << offset;
    EXPECT_EQ(state.value(), own.LoaderState().value());
  }
  // Nothing of the stack can be read.
  context.registers.rsp =
      reinterpret_cast<uint64_t>(stack) + static_cast<uint64_t>(page);
  RemoteAddress state;
  EXPECT_FALSE(CheckCallContext(context, &state).ok());
  munmap(stack, static_cast<size_t>(2 * page));
  close(file);
}

TEST(UnwindTableTest, RejectsGarbageAndUnknownAddresses) {
  UnwindRegisters frame;
  auto read = [](uint64_t) { return std::optional<uint64_t>(); };
  const std::string garbage(4096, '\x41');
  BufferSource bytes(garbage);
  EXPECT_FALSE(ElfImage::Parse(bytes, ElfImage::Form::kFile).ok());
  // A real image, an address that belongs to no function, and empty registers.
  UniqueFd fd(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  FileSource file(fd.get());
  auto image = ElfImage::Parse(file, ElfImage::Form::kFile);
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_FALSE(UnwindFrame(*image, 1, frame, read).ok());
  for (const ElfSegment& segment : image->segments()) {
    if (!segment.executable) continue;
    for (uint64_t at = 0; at < segment.filesz; at += 64) {
      EXPECT_FALSE(UnwindFrame(*image, segment.vaddr + at, frame, read).ok());
    }
  }
}

}  // namespace
}  // namespace rocattach
