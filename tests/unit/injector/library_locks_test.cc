#include "injector/process/blocked_thread.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <thread>

namespace rocattach {
namespace {

Maps Parsed(const char* text) {
  auto maps = Maps::Parse(text);
  EXPECT_TRUE(maps.ok()) << maps.status();
  return *std::move(maps);
}

TEST(LibraryLocks, DataOfTheCLibraryAndTheLoader) {
  const Maps maps = Parsed(
      "7f0000201000-7f0000202000 rw-p 00003000 fe:01 12 /usr/lib/libc.so.6\n"
      "7f0000202000-7f0000204000 rw-p 00000000 00:00 0 \n"
      "7f0000204000-7f0000205000 rw-p 00000000 00:00 0 \n"
      "7f0000206000-7f0000207000 rw-p 00000000 00:00 0 \n"
      "7f0000301000-7f0000302000 rw-p 00003000 fe:01 13 /usr/lib/libmine.so\n"
      "7f0000302000-7f0000303000 rw-p 00000000 00:00 0 \n"
      "7f0000401000-7f0000402000 rw-p 00003000 fe:01 14 /lib64/ld-linux-x86-64.so.2\n"
      "7f0000501000-7f0000502000 rw-p 00003000 fe:01 15 /lib/libpthread-2.31.so\n"
      "7ffc00001000-7ffc00021000 rw-p 00000000 00:00 0 [stack]\n");
  const auto is_lock = [&maps](uint64_t address) {
    return IsLibraryLock(maps, RemoteAddress(address));
  };
  EXPECT_TRUE(is_lock(0x7f0000201ff8));
  EXPECT_TRUE(is_lock(0x7f0000202100)) << "a variable without a value";
  EXPECT_TRUE(is_lock(0x7f0000204100));
  EXPECT_TRUE(is_lock(0x7f0000401100));
  EXPECT_TRUE(is_lock(0x7f0000501100));
  EXPECT_FALSE(is_lock(0x7f0000206100)) << "there is a gap";
  EXPECT_FALSE(is_lock(0x7f0000301100)) << "of another library";
  EXPECT_FALSE(is_lock(0x7f0000302100));
  EXPECT_FALSE(is_lock(0x7ffc00001100));
  EXPECT_FALSE(is_lock(0x7f0000601100)) << "no memory";
}

TEST(LibraryLocks, AnonymousMemoryAloneHasNoLock) {
  const Maps maps = Parsed("7f0000201000-7f0000202000 rw-p 00000000 00:00 0 \n");
  EXPECT_FALSE(IsLibraryLock(maps, RemoteAddress(0x7f0000201100)));
}

TEST(LibraryLocks, OfThisProcess) {
  auto maps = Maps::Read(getpid());
  ASSERT_TRUE(maps.ok()) << maps.status();
  const auto is_lock = [&maps](const void* address) {
    return IsLibraryLock(*maps, RemoteAddress(reinterpret_cast<uint64_t>(address)));
  };
  void* const libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(libc, nullptr);
  // A variable of libc, in the library's own data.
  EXPECT_TRUE(is_lock(dlsym(libc, "_IO_2_1_stdout_")));
  dlclose(libc);
  int on_stack = 0;
  static int here = 0;
  EXPECT_FALSE(is_lock(&on_stack));
  EXPECT_FALSE(is_lock(&here));
}

// The arena of another thread: its heap begins with the arena's address.
TEST(LibraryLocks, AnArena) {
  constexpr uintptr_t kHeapBytes = 64 << 20;
  uintptr_t arena = 0;
  std::thread([&arena] {
    void* const some = malloc(100);
    const uintptr_t heap = reinterpret_cast<uintptr_t>(some) & ~(kHeapBytes - 1);
    arena = *reinterpret_cast<uintptr_t*>(heap);
    free(some);
  }).join();
  auto maps = Maps::Read(getpid());
  ASSERT_TRUE(maps.ok()) << maps.status();
  EXPECT_TRUE(IsLibraryLock(*maps, RemoteAddress(arena)));
  EXPECT_FALSE(IsLibraryLock(*maps, RemoteAddress(arena + 512)));
}

}  // namespace
}  // namespace rocattach
