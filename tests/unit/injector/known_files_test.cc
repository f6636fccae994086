#include "injector/elf/known_files.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "injector/elf/symbol_lookup.h"

namespace rocattach {
namespace {

constexpr char kCollector[] = "/nowhere/librocattach-collector.so";

// A function of this program that stands in for hsa_init.
void Window() {}

uint32_t AccessOf(const Mapping& mapping) {
  return (mapping.readable ? 1u : 0u) | (mapping.writable ? 2u : 0u) |
         (mapping.executable ? 4u : 0u) | (mapping.is_private ? 0u : 8u);
}

using Kinds = std::map<std::pair<uint64_t, uint32_t>, rocattach_file_kind>;

rocattach_mapped_file Describe(const Mapping& mapping, const Kinds& kinds) {
  rocattach_mapped_file file = {};
  file.start = mapping.start.value();
  file.end = mapping.end.value();
  file.offset = mapping.offset;
  file.key = {mapping.inode, 7, mapping.device_major << 8 | mapping.device_minor, 0};
  file.access = AccessOf(mapping);
  auto kind = kinds.find({file.key.inode, file.key.device});
  file.kind = kind == kinds.end() ? ROCATTACH_FILE_UNKNOWN : kind->second;
  return file;
}

// This process as bpf/layout.h describes it, given the kinds of its files.
rocattach_layout Layout(const Maps& maps, const Kinds& kinds) {
  rocattach_layout layout = {};
  int on_stack = 0;
  layout.sp = reinterpret_cast<uint64_t>(&on_stack);
  layout.ip = reinterpret_cast<uint64_t>(&Window);
  for (const Mapping& mapping : maps.mappings()) {
    if (mapping.Contains(RemoteAddress(layout.sp))) {
      layout.stack_start = mapping.start.value();
      layout.stack_end = mapping.end.value();
      layout.stack_access = AccessOf(mapping) | 0x100;
    }
    if (!mapping.executable || !mapping.is_file()) continue;
    const rocattach_mapped_file file = Describe(mapping, kinds);
    const bool window = mapping.Contains(RemoteAddress(layout.ip));
    if (layout.count == ROCATTACH_LAYOUT_FILES) {
      layout.flags |= ROCATTACH_LAYOUT_FULL;
    } else if (file.kind != ROCATTACH_FILE_PLAIN || window) {
      if (file.kind == ROCATTACH_FILE_UNKNOWN) layout.flags |= ROCATTACH_LAYOUT_UNKNOWN;
      layout.files[layout.count++] = file;
    }
  }
  return layout;
}

class KnownFilesTest : public testing::Test {
 protected:
  void SetUp() override {
    auto maps = Maps::Read(getpid());
    ASSERT_TRUE(maps.ok()) << maps.status();
    maps_.emplace(*std::move(maps));
  }

  // Learns as if from one process after another, until no file is unknown.
  rocattach_layout LearnAll(KnownFiles* files, absl::string_view collector) {
    Kinds kinds;
    rocattach_layout layout = Layout(*maps_, kinds);
    for (int process = 0; process < 10 && layout.flags != 0; ++process) {
      for (const auto& [file, kind] :
           files->Learn(getpid(), layout, *maps_, collector, &cache_)) {
        kinds[{file.inode, file.device}] = kind;
      }
      layout = Layout(*maps_, kinds);
    }
    return layout;
  }
  rocattach_layout LearnAll() { return LearnAll(&files_, kCollector); }

  std::optional<Maps> maps_;
  KnownFiles files_;
  LibraryCache cache_;
};

TEST_F(KnownFilesTest, KnowsNothingAtFirst) {
  rocattach_layout unjudged = Layout(*maps_, {});
  EXPECT_NE(unjudged.flags, 0u);
  EXPECT_FALSE(files_.MapsOf(unjudged).has_value());
  unjudged.flags = 0;
  EXPECT_FALSE(files_.MapsOf(unjudged).has_value());
}

TEST_F(KnownFilesTest, FindsTheLoaderWithoutReadingProc) {
  const rocattach_layout later = LearnAll();
  EXPECT_EQ(later.flags, 0u);
  EXPECT_LT(later.count, Layout(*maps_, {}).count);
  std::optional<Maps> maps = files_.MapsOf(later);
  ASSERT_TRUE(maps.has_value());
  EXPECT_FALSE(maps->whole());
  LoaderFunctions functions;
  // There is no such process: any read of /proc would fail.
  StepResult result = FindLoaderFunctions(-1, *maps, nullptr, &functions);
  ASSERT_TRUE(result.ok()) << result.failure().detail;
  // libc's own function, even if a sanitizer's comes before it.
  void* const libc = ::dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(libc, nullptr);
  EXPECT_EQ(functions.dlopen.value(),
            reinterpret_cast<uint64_t>(dlsym(libc, "dlopen")));
  dlclose(libc);
  EXPECT_NE(maps->Find(RemoteAddress(later.ip)), nullptr);
  const Mapping* stack = maps->Find(RemoteAddress(later.sp));
  ASSERT_NE(stack, nullptr);
  EXPECT_EQ(stack->path, "[stack]");
  EXPECT_TRUE(stack->writable);
}

TEST_F(KnownFilesTest, CodeInMemoryIsComparedWithTheFile) {
  std::optional<Maps> maps = files_.MapsOf(LearnAll());
  ASSERT_TRUE(maps.has_value());
  LoaderFunctions functions;
  ASSERT_TRUE(FindLoaderFunctions(-1, *maps, nullptr, &functions).ok());
  auto memory = TargetMemory::Open(getpid(), gettid());
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_TRUE(HaveTheirCode(functions, *maps, *memory));
  LoaderFunctions elsewhere = functions;
  elsewhere.dlsym = elsewhere.dlsym + 16;
  EXPECT_FALSE(HaveTheirCode(elsewhere, *maps, *memory));
  // No code has been remembered for these mappings.
  EXPECT_FALSE(HaveTheirCode(functions, *maps_, *memory));
}

TEST_F(KnownFilesTest, TheMapsOutliveTheKnownFiles) {
  auto files = std::make_unique<KnownFiles>();
  const rocattach_layout later = LearnAll(files.get(), kCollector);
  std::optional<Maps> maps = files->MapsOf(later);
  ASSERT_TRUE(maps.has_value());
  files.reset();
  bool libc = false;
  for (const Mapping& mapping : maps->mappings()) {
    libc = libc || IsLibcName(mapping.basename());
  }
  EXPECT_TRUE(libc);
}

TEST_F(KnownFilesTest, ChangedContentsAreAnotherFile) {
  rocattach_layout later = LearnAll();
  ++later.files[0].key.version;
  EXPECT_FALSE(files_.MapsOf(later).has_value());
}

TEST_F(KnownFilesTest, AnIncompleteLayoutIsNotUsed) {
  const rocattach_layout later = LearnAll();
  for (uint32_t flag :
       {ROCATTACH_LAYOUT_UNKNOWN, ROCATTACH_LAYOUT_FULL, ROCATTACH_LAYOUT_COLLECTOR}) {
    rocattach_layout flagged = later;
    flagged.flags = flag;
    EXPECT_FALSE(files_.MapsOf(flagged).has_value()) << flag;
  }
  rocattach_layout without_stack = later;
  without_stack.stack_start = without_stack.stack_end = 0;
  EXPECT_FALSE(files_.MapsOf(without_stack).has_value());
}

TEST_F(KnownFilesTest, NonsenseIsRefused) {
  const rocattach_layout later = LearnAll();
  rocattach_layout too_many = later;
  too_many.count = ROCATTACH_LAYOUT_FILES + 1;
  EXPECT_FALSE(files_.MapsOf(too_many).has_value());
  rocattach_layout empty = later;
  empty.files[0].end = empty.files[0].start;
  EXPECT_FALSE(files_.MapsOf(empty).has_value());
  ASSERT_GE(later.count, 2u);
  rocattach_layout overlapping = later;
  overlapping.files[1].start = overlapping.files[0].start;
  EXPECT_FALSE(files_.MapsOf(overlapping).has_value());
}

TEST_F(KnownFilesTest, AMappedCollectorIsInspectedEachTime) {
  const auto window = RemoteAddress(reinterpret_cast<uint64_t>(&Window));
  std::string collector;
  for (const Mapping& mapping : maps_->mappings()) {
    if (mapping.executable && mapping.is_file() && !mapping.Contains(window) &&
        !IsGlibcLibrary(mapping.basename())) {
      collector = std::string(mapping.path);
    }
  }
  ASSERT_FALSE(collector.empty());
  const rocattach_layout later = LearnAll(&files_, collector);
  EXPECT_EQ(later.flags, 0u);
  EXPECT_FALSE(files_.MapsOf(later).has_value());
}

}  // namespace
}  // namespace rocattach
