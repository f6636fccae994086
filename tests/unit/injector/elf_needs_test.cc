#include "injector/elf/elf_needs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "injector/elf/byte_source.h"

namespace rocattach {
namespace {

using testing::Contains;
using testing::StartsWith;

std::string FileText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

TEST(ReadElfNeeds, ReadsALibrary) {
  auto needs = ReadElfNeeds(ROCATTACH_TEST_FAKE_RUNTIME);
  ASSERT_TRUE(needs.ok()) << needs.status();
  EXPECT_EQ(needs->soname, "libhsa-runtime64.so.1");
  EXPECT_THAT(needs->needed, Contains("librocprofiler-register.so.0"));
}

TEST(ReadElfNeeds, ReadsVersionsOfThisProgram) {
  auto needs = ReadElfNeeds("/proc/self/exe");
  ASSERT_TRUE(needs.ok()) << needs.status();
  EXPECT_EQ(needs->soname, "");
  EXPECT_THAT(needs->needed, Contains("libc.so.6"));
  EXPECT_THAT(needs->versions, Contains(StartsWith("GLIBCXX_")));
  EXPECT_THAT(HighestGlibcVersion(*needs), StartsWith("GLIBC_2."));
}

TEST(ReadElfNeeds, RejectsFilesThatAreNotElf) {
  EXPECT_FALSE(ReadElfNeeds(BufferSource("")).ok());
  EXPECT_FALSE(ReadElfNeeds(BufferSource("#!/bin/sh\n")).ok());
  EXPECT_FALSE(ReadElfNeeds("/nonexistent").ok());
  EXPECT_FALSE(ReadElfNeeds("/proc").ok());
}

// A file that is cut off before the end of its strings is an error, or read as a whole.
TEST(ReadElfNeeds, SurvivesTruncation) {
  const std::string whole = FileText(ROCATTACH_TEST_FAKE_RUNTIME);
  auto expected = ReadElfNeeds(BufferSource(whole));
  ASSERT_TRUE(expected.ok());
  int errors = 0;
  for (size_t bytes = 0; bytes < whole.size(); bytes += 7) {
    auto needs = ReadElfNeeds(BufferSource(absl::string_view(whole).substr(0, bytes)));
    if (!needs.ok()) {
      ++errors;
      continue;
    }
    EXPECT_EQ(needs->soname, expected->soname) << bytes;
    EXPECT_EQ(needs->needed, expected->needed) << bytes;
  }
  EXPECT_GT(errors, 0);
}

// Every byte is changed in turn: no crash, no loop, no string of unbounded length.
TEST(ReadElfNeeds, SurvivesDamage) {
  std::string text = FileText(ROCATTACH_TEST_FAKE_RUNTIME);
  int accepted = 0, refused = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    for (unsigned char mask : {0x01, 0x80, 0xff}) {
      text[at] = static_cast<char>(text[at] ^ mask);
      auto needs = ReadElfNeeds(BufferSource(text));
      text[at] = static_cast<char>(text[at] ^ mask);
      if (!needs.ok()) {
        ++refused;
        continue;
      }
      ++accepted;
      ASSERT_LE(needs->needed.size(), 1024u);
      ASSERT_LE(needs->versions.size(), 4096u);
      for (const std::string& name : needs->needed) ASSERT_LT(name.size(), 1024u);
    }
  }
  EXPECT_GT(accepted, 0);
  EXPECT_GT(refused, 0);
}

TEST(GlibcVersions, AreComparedAsNumbers) {
  EXPECT_TRUE(NewerGlibcVersion("GLIBC_2.34", "GLIBC_2.17"));
  EXPECT_TRUE(NewerGlibcVersion("GLIBC_2.17", "GLIBC_2.4"));
  EXPECT_TRUE(NewerGlibcVersion("GLIBC_2.2.5", "GLIBC_2.2"));
  EXPECT_FALSE(NewerGlibcVersion("GLIBC_2.17", "GLIBC_2.17"));
  EXPECT_FALSE(NewerGlibcVersion("GLIBC_2.2.5", "GLIBC_2.17"));
  EXPECT_FALSE(NewerGlibcVersion("GLIBC_PRIVATE", "GLIBC_2.17"));
  ElfNeeds needs;
  EXPECT_EQ(HighestGlibcVersion(needs), "");
  needs.versions = {"GLIBC_2.4", "GLIBCXX_3.4.30", "GLIBC_2.14", "GLIBC_PRIVATE",
                    "GLIBC_2.2.5"};
  EXPECT_EQ(HighestGlibcVersion(needs), "GLIBC_2.14");
}

}  // namespace
}  // namespace rocattach
