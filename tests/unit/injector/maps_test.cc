#include "injector/process/maps.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "injector/stub/remote_address.h"

namespace rocattach {
namespace {

TEST(MapsTest, ReadsAllFields) {
  auto maps = Maps::Parse(
      "7f0000001000-7f0000002000 r-xp 00003000 fe:01 1234 "
      "                  /usr/lib/libc.so.6\n"
      "7f0000002000-7f0000003000 -w-s 00000000 00:00 0 \n"
      "7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0                          "
      "[stack]\n");
  ASSERT_TRUE(maps.ok()) << maps.status();
  ASSERT_EQ(maps->mappings().size(), 3u);
  const Mapping& code = maps->mappings()[0];
  EXPECT_EQ(code.start.value(), 0x7f0000001000u);
  EXPECT_EQ(code.end.value(), 0x7f0000002000u);
  EXPECT_TRUE(code.readable && code.executable && code.is_private);
  EXPECT_FALSE(code.writable || code.deleted);
  EXPECT_EQ(code.offset, 0x3000u);
  EXPECT_EQ(code.device_major, 0xfeu);
  EXPECT_EQ(code.device_minor, 1u);
  EXPECT_EQ(code.inode, 1234u);
  EXPECT_EQ(code.path, "/usr/lib/libc.so.6");
  EXPECT_EQ(code.basename(), "libc.so.6");
  EXPECT_TRUE(code.is_file());
  const Mapping& anonymous = maps->mappings()[1];
  EXPECT_TRUE(anonymous.writable);
  EXPECT_FALSE(anonymous.readable || anonymous.executable || anonymous.is_private);
  EXPECT_EQ(anonymous.path, "");
  EXPECT_FALSE(anonymous.is_file());
  EXPECT_EQ(maps->mappings()[2].path, "[stack]");
  EXPECT_FALSE(maps->mappings()[2].is_file());
}

TEST(MapsTest, PathsMayContainBlanksAndEscapedNewlines) {
  auto maps = Maps::Parse(
      "1000-2000 r--p 00000000 00:1f 7 /a dir/lib  with blanks.so (deleted)\n"
      "2000-3000 r--p 00000000 00:1f 8 /line\\012break (deleted) not\n"
      "3000-4000 r--p 00000000 00:1f 9 /memfd:rocattach (deleted)\n"
      "4000-5000 r--p 00000000 00:1f 10 /trailing ");
  ASSERT_TRUE(maps.ok()) << maps.status();
  ASSERT_EQ(maps->mappings().size(), 4u);
  EXPECT_EQ(maps->mappings()[0].path, "/a dir/lib  with blanks.so");
  EXPECT_TRUE(maps->mappings()[0].deleted);
  EXPECT_EQ(maps->mappings()[0].basename(), "lib  with blanks.so");
  EXPECT_EQ(maps->mappings()[1].path, "/line\\012break (deleted) not");
  EXPECT_FALSE(maps->mappings()[1].deleted);
  EXPECT_EQ(DecodeMapsPath(maps->mappings()[1].path), "/line\nbreak (deleted) not");
  EXPECT_EQ(maps->mappings()[2].path, "/memfd:rocattach");
  EXPECT_EQ(maps->mappings()[3].path, "/trailing ");
}

TEST(MapsTest, FindsTheMappingAroundAnAddress) {
  auto maps = Maps::Parse(
      "1000-2000 r--p 0 0:0 0\n3000-4000 r--p 0 0:0 0\n4000-5000 r--p 0 0:0 0\n");
  ASSERT_TRUE(maps.ok()) << maps.status();
  EXPECT_EQ(maps->Find(RemoteAddress(0xfff)), nullptr);
  EXPECT_EQ(maps->Find(RemoteAddress(0x1000)), &maps->mappings()[0]);
  EXPECT_EQ(maps->Find(RemoteAddress(0x1fff)), &maps->mappings()[0]);
  EXPECT_EQ(maps->Find(RemoteAddress(0x2000)), nullptr);
  EXPECT_EQ(maps->Find(RemoteAddress(0x4000)), &maps->mappings()[2]);
  EXPECT_EQ(maps->Find(RemoteAddress(0x5000)), nullptr);
  EXPECT_EQ(maps->Find(RemoteAddress(UINT64_MAX)), nullptr);
}

TEST(MapsTest, RejectsMalformedText) {
  for (const char* text :
       {"x", "\n", "1000-2000", "1000-2000 r--p", "1000 2000 r--p 0 0:0 0",
        "2000-1000 r--p 0 0:0 0", "1000-1000 r--p 0 0:0 0", "1000-2000 r-xq 0 0:0 0",
        "1000-2000 x--p 0 0:0 0", "1000-2000 r--p 0 00 0", "1000-2000 r--p 0 0:0 -1",
        "1000-2000 r--p 0 0:0 99999999999999999999999",
        "11111111111111111-2 r--p 0 0:0 0", "1000-2000 r--p 0 123456789:0 0",
        "1000-2000 r--p 0 0:0 0/path", "1000-2000 R--p 0 0:0 0",
        "1000-2000 r--p 0 0:0 0\ngarbage\n"}) {
    EXPECT_FALSE(Maps::Parse(text).ok()) << text;
  }
  EXPECT_TRUE(
      absl::IsOutOfRange(Maps::Parse(std::string(Maps::kMaxText + 1, 'x')).status()));
}

TEST(MapsTest, OverlapsFromARaceAreSkipped) {
  auto maps = Maps::Parse("1000-3000 r--p 0 0:0 0\n2000-3000 r--p 0 0:0 0\n");
  ASSERT_TRUE(maps.ok());
  EXPECT_EQ(maps->mappings().size(), 1u);
}

TEST(MapsTest, ReadsItsOwnProcess) {
  void* block = mmap(nullptr, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(block, MAP_FAILED);
  auto maps = Maps::Read(getpid());
  ASSERT_TRUE(maps.ok()) << maps.status();
  const Mapping* found = maps->Find(RemoteAddress(reinterpret_cast<uint64_t>(block)));
  ASSERT_NE(found, nullptr);
  EXPECT_TRUE(found->readable && found->is_private);
  EXPECT_FALSE(found->writable);
  munmap(block, 8192);
  EXPECT_TRUE(absl::IsNotFound(Maps::Read(999999999).status()));
}

// Both ways to query the kernel give the same answer.
TEST(MapsTest, QueriesAgreeWithTheText) {
  void* block =
      mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(block, MAP_FAILED);
  auto text = Maps::Read(getpid());
  auto files = Maps::ReadFiles(getpid());
  ASSERT_TRUE(text.ok() && files.ok());
  EXPECT_TRUE(text->whole());
  size_t matched = 0;
  for (const Mapping& expected : text->mappings()) {
    const bool wanted =
        expected.is_file() && (expected.executable || !expected.is_private);
    const Mapping* found = files->Find(expected.start);
    if (found == nullptr) {
      EXPECT_FALSE(wanted) << expected.path;
      continue;
    }
    ++matched;
    EXPECT_EQ(found->start, expected.start);
    EXPECT_EQ(found->end, expected.end);
    EXPECT_EQ(found->path, expected.path);
    EXPECT_EQ(found->offset, expected.offset);
    EXPECT_TRUE(found->SameFile(expected));
    EXPECT_EQ(found->readable, expected.readable);
    EXPECT_EQ(found->writable, expected.writable);
    EXPECT_EQ(found->executable, expected.executable);
    EXPECT_EQ(found->is_private, expected.is_private);
    EXPECT_EQ(found->deleted, expected.deleted);
  }
  EXPECT_EQ(matched, files->mappings().size());
  EXPECT_GE(matched, 3u);
  EXPECT_EQ(files->Find(RemoteAddress(reinterpret_cast<uint64_t>(block))) != nullptr,
            true);
  auto around =
      Maps::ReadFiles(getpid(), RemoteAddress(reinterpret_cast<uint64_t>(&block)));
  ASSERT_TRUE(around.ok()) << around.status();
  const Mapping* stack =
      around->Find(RemoteAddress(reinterpret_cast<uint64_t>(&block)));
  ASSERT_NE(stack, nullptr);
  EXPECT_EQ(stack->path, "[stack]");
  EXPECT_EQ(around->mappings().size(), files->mappings().size() + 1);
  munmap(block, 8192);
}

TEST(MapsTest, ManyReadsOfABigAddressSpaceAreWhole) {
  // Enough mappings for several pages of text.
  constexpr size_t kPages = 2000;
  char* block = static_cast<char*>(
      mmap(nullptr, kPages * 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(block, MAP_FAILED);
  for (size_t i = 0; i < kPages; i += 2) mprotect(block + i * 4096, 4096, PROT_NONE);
  auto maps = Maps::Read(getpid());
  ASSERT_TRUE(maps.ok()) << maps.status();
  for (size_t i = 0; i < kPages; ++i) {
    const Mapping* found =
        maps->Find(RemoteAddress(reinterpret_cast<uint64_t>(block + i * 4096)));
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->readable, i % 2 == 1) << i;
  }
  munmap(block, kPages * 4096);
}

}  // namespace
}  // namespace rocattach
