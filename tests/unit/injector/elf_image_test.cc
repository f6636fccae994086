#include "injector/elf/elf_image.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <link.h>
#include <unistd.h>

#include <cstring>
#include <random>

#include "injector/elf/function_offset.h"
#include "injector/process/target_memory.h"
#include "tests/unit/injector/elf_builder.h"
#include "userspace/base/unique_fd.h"

namespace rocattach {
namespace {

using testing::HasSubstr;
using Hash = ElfBuilder::Hash;

absl::StatusOr<ElfFunction> Find(const std::string& image, absl::string_view name) {
  BufferSource source(image);
  auto parsed = ElfImage::Parse(source, ElfImage::Form::kFile);
  if (!parsed.ok()) return parsed.status();
  return parsed->FindFunction(name);
}

std::string Message(const absl::Status& status) {
  return std::string(status.message());
}

class ElfImageHashTest : public testing::TestWithParam<Hash> {};

TEST_P(ElfImageHashTest, FindsEachOfManyAndNothingElse) {
  ElfBuilder builder;
  builder.hash = GetParam();
  for (uint64_t i = 0; i < 40; ++i) {
    builder.symbols.push_back({"function_" + std::to_string(i), 0x2000 + i});
  }
  const std::string image = builder.Build();
  for (uint64_t i = 0; i < 40; ++i) {
    auto found = Find(image, "function_" + std::to_string(i));
    ASSERT_TRUE(found.ok()) << i << ": " << found.status();
    EXPECT_EQ(found->vaddr, 0x2000 + i);
    EXPECT_EQ(found->size, 8u);
  }
  for (const char* name : {"function_40", "function", "function_1x", "unction_1"}) {
    EXPECT_TRUE(absl::IsNotFound(Find(image, name).status())) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Hashes, ElfImageHashTest,
                         testing::Values(Hash::kGnu, Hash::kSysv));

TEST(ElfImageTest, PrefersTheDefaultSymbolVersion) {
  ElfBuilder builder;
  // As dlopen in glibc 2.34 and later: the old version comes first.
  builder.symbols = {{"dlopen", 0x2010, STT_FUNC, STB_GLOBAL, true, 0x8002},
                     {"dlopen", 0x2020, STT_FUNC, STB_GLOBAL, true, 3}};
  auto found = Find(builder.Build(), "dlopen");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->vaddr, 0x2020u);
}

TEST(ElfImageTest, AHiddenOldVersionAloneIsNotFound) {
  ElfBuilder builder;
  builder.symbols = {{"dlopen", 0x2010, STT_FUNC, STB_GLOBAL, true, 0x8002}};
  absl::Status status = Find(builder.Build(), "dlopen").status();
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_THAT(Message(status), HasSubstr("hidden old version"));
}

TEST(ElfImageTest, WithoutVersionsEverySymbolCounts) {
  ElfBuilder builder;
  builder.versions = false;
  builder.symbols = {{"dlopen", 0x2010, STT_FUNC, STB_WEAK, true, 0x8002}};
  EXPECT_TRUE(Find(builder.Build(), "dlopen").ok());
}

TEST(ElfImageTest, IfuncIsRefused) {
  ElfBuilder builder;
  builder.symbols = {{"memcpy", 0x2010, STT_GNU_IFUNC}};
  absl::Status status = Find(builder.Build(), "memcpy").status();
  EXPECT_TRUE(absl::IsUnimplemented(status));
  EXPECT_THAT(Message(status), HasSubstr("IFUNC"));
}

TEST(ElfImageTest, UndefinedLocalAndDataSymbolsAreNotFunctions) {
  ElfBuilder builder;
  builder.symbols = {{"imported", 0, STT_FUNC, STB_GLOBAL, false},
                     {"local", 0x2010, STT_FUNC, STB_LOCAL},
                     {"local_version", 0x2010, STT_FUNC, STB_GLOBAL, true, 0},
                     {"data", 0x10, STT_OBJECT}};
  const std::string image = builder.Build();
  for (const char* name : {"imported", "local", "local_version", "data"}) {
    EXPECT_TRUE(absl::IsNotFound(Find(image, name).status())) << name;
  }
}

TEST(ElfImageTest, AFunctionOutsideOfCodeIsAnError) {
  ElfBuilder builder;
  builder.symbols = {{"elsewhere", 0x10}};
  EXPECT_TRUE(absl::IsInvalidArgument(Find(builder.Build(), "elsewhere").status()));
}

TEST(ElfImageTest, ErrorNamesTheUnsupportedElfProperty) {
  ElfBuilder builder;
  builder.symbols = {{"f"}};
  const std::string good = builder.Build();
  struct Case {
    size_t offset;
    uint8_t value;
    const char* text;
  };
  for (const Case& c :
       {Case{0, 'X', "no ELF magic"}, Case{EI_CLASS, ELFCLASS32, "ELF class"},
        Case{EI_DATA, ELFDATA2MSB, "byte order"},
        Case{offsetof(Elf64_Ehdr, e_machine), EM_AARCH64 & 0xff, "machine"},
        Case{offsetof(Elf64_Ehdr, e_type), ET_REL, "ELF type"}}) {
    std::string image = good;
    Patch(&image, c.offset, c.value);
    absl::Status status = Find(image, "f").status();
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(Message(status), HasSubstr(c.text));
  }
}

TEST(ElfImageTest, NoHashTableSaysSo) {
  ElfBuilder builder;
  builder.hash = Hash::kNone;
  builder.symbols = {{"f"}};
  EXPECT_TRUE(absl::IsUnimplemented(Find(builder.Build(), "f").status()));
}

TEST(ElfImageTest, EveryTruncationIsAnErrorAndNothingWorse) {
  ElfBuilder builder;
  builder.symbols = {{"f"}, {"g"}};
  const std::string image = builder.Build();
  const uint64_t needed = builder.dynamic_offset;
  for (size_t length = 0; length < image.size(); ++length) {
    absl::Status status = Find(image.substr(0, length), "f").status();
    EXPECT_TRUE(length >= needed || !status.ok()) << length;
  }
}

TEST(ElfImageTest, HostileNumbersEndInErrors) {
  ElfBuilder builder;
  builder.symbols = {{"f"}};
  const std::string good = builder.Build();
  ASSERT_TRUE(Find(good, "f").ok());
  auto expect_error = [](const std::string& image, const char* what) {
    EXPECT_FALSE(Find(image, "f").ok()) << what;
  };
  std::string image = good;
  Patch<uint16_t>(&image, offsetof(Elf64_Ehdr, e_phnum), 0xffff);
  expect_error(image, "e_phnum");
  image = good;
  Patch<uint64_t>(&image, offsetof(Elf64_Ehdr, e_phoff), UINT64_MAX - 8);
  expect_error(image, "e_phoff");
  image = good;
  Patch<uint64_t>(&image, ElfBuilder::kProgramHeaders + offsetof(Elf64_Phdr, p_filesz),
                  UINT64_MAX);
  expect_error(image, "p_filesz");
  image = good;
  Patch<uint64_t>(&image,
                  ElfBuilder::kProgramHeaders + 2 * sizeof(Elf64_Phdr) +
                      offsetof(Elf64_Phdr, p_memsz),
                  UINT64_MAX);
  expect_error(image, "size of the dynamic section");
  for (int entry = 0; entry < 2; ++entry) {
    image = good;
    Patch<uint64_t>(&image, builder.dynamic_offset + 16 * entry + 8, UINT64_MAX - 3);
    expect_error(image, "address of the symbols or strings");
  }
  for (uint32_t word : {0u, 2u, 3u}) {  // buckets, filter words, shift
    for (uint32_t value : {0xffffffffu, 0x7fffffffu}) {
      image = good;
      Patch<uint32_t>(&image, builder.hash_offset + 4 * word, value);
      expect_error(image, "hash header");
    }
  }
  image = good;
  Patch<uint32_t>(&image, builder.hash_offset, 0);
  expect_error(image, "no buckets");
}

TEST(ElfImageTest, AChainWithoutEndIsAbandoned) {
  ElfBuilder builder;
  builder.hash = Hash::kSysv;
  builder.symbols = {{"f"}};
  std::string image = builder.Build();
  // Gives "f" another name and makes its chain a cycle.
  Patch<char>(&image, builder.strings_offset + 1, 'e');
  Patch<uint32_t>(&image, builder.hash_offset + 4 * (2 + 3 + 1), 1);
  EXPECT_TRUE(absl::IsOutOfRange(Find(image, "f").status()));
}

TEST(ElfImageTest, RandomDamageNeverLeavesTheImage) {
  ElfBuilder builder;
  for (int i = 0; i < 8; ++i) builder.symbols.push_back({"f" + std::to_string(i)});
  const std::string good = builder.Build();
  std::mt19937_64 random(7);
  int found = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string image = good;
    for (int i = 0; i < 3; ++i) {
      image[random() % (builder.dynamic_offset + 112)] = static_cast<char>(random());
    }
    auto function = Find(image, "f3");
    if (!function.ok()) continue;
    ++found;
    EXPECT_GT(function->vaddr, 0u);
  }
  EXPECT_GT(found, 0);
}

TEST(ElfImageTest, FileOffsetFollowsTheSegment) {
  ElfBuilder builder;
  builder.symbols = {{"hsa_init", 0x2030}};
  const std::string built = builder.Build();
  BufferSource source(built);
  auto image = ElfImage::Parse(source, ElfImage::Form::kFile);
  ASSERT_TRUE(image.ok());
  EXPECT_EQ(image->segments().size(), 2u);
  EXPECT_EQ(*image->FileOffset(0x2030), 0x1030u);
  EXPECT_EQ(*image->FileOffset(0x10), 0x10u);
  EXPECT_TRUE(absl::IsNotFound(image->FileOffset(0x2100).status()));
}

// In the C library that this test runs with, the parser finds what ld.so has found.
TEST(ElfImageTest, AgreesWithTheLoaderAboutLibc) {
  void* address = dlsym(RTLD_DEFAULT, "dlopen");
  Dl_info info;
  link_map* map = nullptr;
  ASSERT_NE(dladdr1(address, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP),
            0);
  UniqueFd fd(open(info.dli_fname, O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(fd.valid());
  FileSource file(fd.get());
  auto image = ElfImage::Parse(file, ElfImage::Form::kFile);
  ASSERT_TRUE(image.ok()) << image.status();
  auto memory = TargetMemory::Open(getpid(), gettid());
  ASSERT_TRUE(memory.ok()) << memory.status();
  MemorySource loaded(&*memory, RemoteAddress(map->l_addr));
  auto loaded_image = ElfImage::Parse(loaded, ElfImage::Form::kMemory, map->l_addr);
  ASSERT_TRUE(loaded_image.ok()) << loaded_image.status();
  for (const char* name :
       {"dlopen", "dlsym", "dlerror", "__errno_location", "getpid"}) {
    // A sanitizer's own version of the function is not in libc.
    Dl_info where;
    void* expected = dlsym(RTLD_DEFAULT, name);
    ASSERT_NE(dladdr(expected, &where), 0);
    if (std::strcmp(where.dli_fname, info.dli_fname) != 0) continue;
    auto found = image->FindFunction(name);
    ASSERT_TRUE(found.ok()) << name << ": " << found.status();
    EXPECT_EQ(map->l_addr + found->vaddr, reinterpret_cast<uint64_t>(expected)) << name;
    auto in_memory = loaded_image->FindFunction(name);
    ASSERT_TRUE(in_memory.ok()) << name << ": " << in_memory.status();
    EXPECT_EQ(in_memory->vaddr, found->vaddr);
  }
  EXPECT_TRUE(absl::IsUnimplemented(image->FindFunction("memcpy").status()) ||
              image->FindFunction("memcpy").ok());
}

TEST(FunctionOffsetTest, ReadsFilesAndReportsErrors) {
  char path[] = "/tmp/rocattach-elf-XXXXXX";
  UniqueFd fd(mkostemp(path, O_CLOEXEC));
  ASSERT_TRUE(fd.valid());
  unlink(path);
  ElfBuilder builder;
  builder.symbols = {{"hsa_init", 0x2040}};
  const std::string image = builder.Build();
  ASSERT_EQ(write(fd.get(), image.data(), image.size()),
            static_cast<ssize_t>(image.size()));
  auto offset = FindFunctionFileOffset(fd.get(), "hsa_init");
  ASSERT_TRUE(offset.ok()) << offset.status();
  EXPECT_EQ(*offset, 0x1040u);
  EXPECT_TRUE(
      absl::IsNotFound(FindFunctionFileOffset(fd.get(), "hsa_shut_down").status()));
  ASSERT_EQ(ftruncate(fd.get(), 200), 0);
  EXPECT_TRUE(
      absl::IsOutOfRange(FindFunctionFileOffset(fd.get(), "hsa_init").status()));
  ASSERT_EQ(ftruncate(fd.get(), 0), 0);
  ASSERT_EQ(pwrite(fd.get(), std::string(4096, '#').data(), 4096, 0), 4096);
  absl::Status status = FindFunctionFileOffset(fd.get(), "hsa_init").status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(Message(status), HasSubstr("not an ELF image"));
  UniqueFd directory(open("/", O_RDONLY | O_CLOEXEC));
  EXPECT_TRUE(absl::IsInvalidArgument(
      FindFunctionFileOffset(directory.get(), "hsa_init").status()));
  EXPECT_FALSE(FindFunctionFileOffset(-1, "hsa_init").ok());
}

}  // namespace
}  // namespace rocattach
