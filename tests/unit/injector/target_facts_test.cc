// Facts that are read about a target: its status, its libraries, its mappings.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <optional>
#include <set>
#include <tuple>

#include "injector/elf/library_facts.h"
#include "injector/elf/symbol_lookup.h"
#include "injector/outcome.h"
#include "injector/process/filesystem_view_cache.h"
#include "injector/process/mapped_collector.h"
#include "injector/process/target_checks.h"
#include "injector/process/target_memory.h"
#include "injector/process/thread_status.h"
#include "tests/places.h"
#include "userspace/abi/shared_memory.h"
#include "userspace/base/clock.h"
#include "userspace/base/process.h"
#include "userspace/base/unique_fd.h"

namespace rocattach {
namespace {

TEST(ThreadStatusTest, ParsesTheRelevantFields) {
  ThreadStatus status = ParseThreadStatus(
      "Name:\tState: Z (fake)\nState:\tt (tracing stop)\nPPid:\t12\nTracerPid:\t77\n"
      "Uid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t8\nGroups:\t10 20 30 \n"
      "SigPnd:\t0000000000000001\nShdPnd:\t0000000000004000\n"
      "SigBlk:\t8000000000000000\nCapEff:\t000001ffffffffff\nSeccomp:\t2\nSeccomp_"
      "filters:\t9\n");
  EXPECT_EQ(status.state, 't');
  EXPECT_EQ(status.parent, 12);
  EXPECT_EQ(status.tracer, 77);
  EXPECT_EQ(status.file_uid, 4u);
  EXPECT_EQ(status.file_gid, 8u);
  EXPECT_EQ(status.groups, (std::vector<gid_t>{10, 20, 30}));
  EXPECT_EQ(status.effective_capabilities, 0x1ffffffffffu);
  EXPECT_EQ(status.seccomp_mode, 2);
  EXPECT_EQ(status.pending, 0x4001u);
  EXPECT_EQ(status.blocked, 1ull << 63);
}

TEST(ThreadStatusTest, GarbageIsNoUser) {
  ThreadStatus status = ParseThreadStatus("Uid:\tx\n\n::\nState\nState:\nSeccomp: y\n");
  EXPECT_EQ(status.state, '?');
  EXPECT_EQ(status.file_uid, UINT32_MAX);
  EXPECT_EQ(status.seccomp_mode, 0);
}

class FilesystemViewCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    int fd = open(file_.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    ASSERT_GE(fd, 0);
    close(fd);
    ASSERT_EQ(chmod(file_.c_str(), 0644), 0);
  }
  // It must not be below a directory that only root may search.
  const testing_support::ExecutableDirectory directory_;
  const std::string file_ = directory_ / "collector.so";
};

TEST_F(FilesystemViewCacheTest, AcceptsOnlyFilesThatEverybodyMayLoad) {
  FilesystemViewCache cache;
  EXPECT_TRUE(cache.EverybodyMayLoad(getpid(), 1, file_, {}));
  ASSERT_EQ(chmod(file_.c_str(), 0640), 0);
  EXPECT_FALSE(cache.EverybodyMayLoad(getpid(), 2, file_, {}));
  ASSERT_EQ(chmod(file_.c_str(), 0644), 0);
  ASSERT_EQ(chmod(directory_.path().c_str(), 0700), 0);
  EXPECT_FALSE(cache.EverybodyMayLoad(getpid(), 3, file_, {}));
  EXPECT_FALSE(cache.EverybodyMayLoad(getpid(), 4, directory_ / "none.so", {}));
}

TEST_F(FilesystemViewCacheTest, AnotherFileAtThePathIsRejected) {
  struct stat info;
  ASSERT_EQ(stat(file_.c_str(), &info), 0);
  FileIdentity file = FileIdentity::Of(info);
  FilesystemViewCache cache;
  EXPECT_TRUE(cache.EverybodyMayLoad(getpid(), 1, file_, file));
  ++file.inode;
  EXPECT_FALSE(cache.EverybodyMayLoad(getpid(), 2, file_, file));
}

TEST_F(FilesystemViewCacheTest, AnswersForViewAndPathForAWhile) {
  FilesystemViewCache cache;
  EXPECT_TRUE(cache.EverybodyMayLoad(getpid(), 1, file_, {}));
  ASSERT_EQ(chmod(file_.c_str(), 0600), 0);
  EXPECT_TRUE(cache.EverybodyMayLoad(getpid(), 1, file_, {}))
      << "not older than a second";
  EXPECT_FALSE(cache.EverybodyMayLoad(getpid(), 2, file_, {})) << "another view";
  EXPECT_FALSE(cache.EverybodyMayLoad(getpid(), 1, file_ + "x", {})) << "another path";
  EXPECT_FALSE(cache.EverybodyMayLoad(getpid(), 1, file_, {}))
      << "the last path counts";
}

TEST(SymbolLookupTest, KnowsGlibcsNames) {
  EXPECT_TRUE(IsLibcName("libc.so.6"));
  EXPECT_TRUE(IsLibcName("libc-2.28.so"));
  EXPECT_FALSE(IsLibcName("libc.musl-x86_64.so.1"));
  EXPECT_FALSE(IsLibcName("libcap.so.2"));
  EXPECT_FALSE(IsLibcName("libc-client.so.2007e"));
}

TEST(SymbolLookupTest, FindsItsOwnLoader) {
  auto maps = Maps::Read(getpid());
  ASSERT_TRUE(maps.ok());
  LibraryCache cache;
  for (int round = 0; round < 2; ++round) {
    LoaderFunctions functions;
    StepResult result = FindLoaderFunctions(getpid(), *maps, &cache, &functions);
    ASSERT_TRUE(result.ok()) << result.failure().detail;
    EXPECT_FALSE(functions.dlopen.is_null() || functions.dlsym.is_null() ||
                 functions.dlerror.is_null() || functions.errno_location.is_null());
    using ErrnoLocation = int* (*)();
    EXPECT_EQ(reinterpret_cast<ErrnoLocation>(functions.errno_location.value())(),
              &errno);
    EXPECT_GE(cache.size(), 1u);
  }
}

TEST(SymbolLookupTest, TwoCLibrariesAreAmbiguous) {
  auto own = Maps::Read(getpid());
  ASSERT_TRUE(own.ok());
  std::string text;
  for (const Mapping& mapping : own->mappings()) {
    if (!mapping.executable || !IsLibcName(mapping.basename())) continue;
    char line[512];
    for (uint64_t shift : {uint64_t{0}, uint64_t{0x100000000}}) {
      snprintf(line, sizeof(line), "%lx-%lx r-xp %08lx %02x:%02x %lu %s\n",
               mapping.start.value() + shift, mapping.end.value() + shift,
               mapping.offset, mapping.device_major, mapping.device_minor,
               mapping.inode, std::string(mapping.path).c_str());
      text += line;
    }
  }
  ASSERT_FALSE(text.empty());
  auto maps = Maps::Parse(text);
  ASSERT_TRUE(maps.ok()) << maps.status();
  LoaderFunctions functions;
  StepResult result = FindLoaderFunctions(getpid(), *maps, nullptr, &functions);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.failure().reason, AttachReason::kNoDlopen);
  EXPECT_NE(result.failure().detail.find("twice"), std::string::npos);
}

TEST(LibraryFactsTest, BiasComesFromTheSegmentThatIsMapped) {
  LibraryFacts facts;
  facts.segments = {{0x0, 0x800, 0x0, 0x800, false},
                    {0x201234, 0x1000, 0x1234, 0x1000, true}};
  Mapping mapping;
  mapping.start = RemoteAddress(0x7f0000201000);
  mapping.end = RemoteAddress(0x7f0000203000);
  mapping.offset = 0x1000;
  auto bias = LoadBias(facts, mapping);
  ASSERT_TRUE(bias.ok()) << bias.status();
  EXPECT_EQ(*bias, 0x7f0000000000u);
  // The second half of the segment, after mprotect has split it.
  mapping.start = RemoteAddress(0x7f0000202000);
  mapping.offset = 0x2000;
  bias = LoadBias(facts, mapping);
  ASSERT_TRUE(bias.ok()) << bias.status();
  EXPECT_EQ(*bias, 0x7f0000000000u);
  mapping.offset = 0x5000;
  EXPECT_FALSE(LoadBias(facts, mapping).ok());
}

TEST(LibraryFactsTest, TheCacheKeepsChangedFilesApart) {
  LibraryCache cache;
  LibraryKey key{1, 2, 3, 4, 5};
  cache.Store(key, std::make_shared<LibraryFacts>());
  EXPECT_NE(cache.Find(key), nullptr);
  for (LibraryKey other :
       {LibraryKey{9, 2, 3, 4, 5}, LibraryKey{1, 9, 3, 4, 5}, LibraryKey{1, 2, 9, 4, 5},
        LibraryKey{1, 2, 3, 9, 5}, LibraryKey{1, 2, 3, 4, 9}}) {
    EXPECT_EQ(cache.Find(other), nullptr);
  }
  for (uint64_t i = 0; i < LibraryCache::kMaxEntries + 10; ++i) {
    cache.Store(LibraryKey{i, 0, 0, 0, 0}, std::make_shared<LibraryFacts>());
    ASSERT_LE(cache.size(), LibraryCache::kMaxEntries);
  }
}

TEST(TargetChecksTest, MappingsTellAnEarlierAttachAndAnEmulator) {
  auto reason = [](const std::string& text) {
    auto maps = Maps::Parse(text);
    EXPECT_TRUE(maps.ok()) << maps.status();
    StepResult result = CheckMappings(*maps, "/opt/collector.so", false);
    return result.ok() ? AttachReason::kNone : result.failure().reason;
  };
  EXPECT_EQ(reason("1000-2000 r-xp 0 0:1 5 /opt/other.so\n"), AttachReason::kNone);
  EXPECT_EQ(reason("1000-2000 r-xp 0 0:1 5 /opt/collector.so\n"),
            AttachReason::kAlreadyAttached);
  EXPECT_EQ(reason("1000-2000 rw-s 0 0:1 5 /memfd:rocattach (deleted)\n"),
            AttachReason::kAlreadyAttached);
  EXPECT_EQ(reason("1000-2000 r-xp 0 0:1 5 /usr/bin/qemu-x86_64\n"),
            AttachReason::kTranslated);
}

// Mappings as in /proc/PID/maps on x86-64 (GCC 12, LLVM 14).
TEST(TargetChecksTest, MappingsTellASanitizer) {
  auto accepts = [](const std::string& text) {
    auto maps = Maps::Parse(text);
    EXPECT_TRUE(maps.ok()) << maps.status();
    StepResult result = CheckSanitizers(*maps);
    return result.ok() || result.failure().reason != AttachReason::kSanitizer;
  };
  // ThreadSanitizer, AddressSanitizer, MemorySanitizer.
  EXPECT_FALSE(accepts("300000000000-340000000000 rw-p 0 00:00 0\n"));
  EXPECT_FALSE(accepts("2008fff7000-10007fff8000 rw-p 0 00:00 0\n"));
  EXPECT_FALSE(accepts("10000000000-100000000000 rw-p 0 00:00 0\n"));
  // Reserved and not used; a large heap; a file.
  EXPECT_TRUE(accepts("340000000000-550000000000 ---p 0 00:00 0\n"));
  EXPECT_TRUE(accepts("10000000000-18000000000 rw-p 0 00:00 0\n"));
  EXPECT_TRUE(accepts("300000000000-340000000000 rw-p 0 00:01 7 /srv/file\n"));
}

// This process, as a target that has mapped a control block.
class MappedCollectorTest : public testing::Test {
 protected:
  void SetUp() override {
    fd_.reset(memfd_create(ROCATTACH_SHM_NAME, MFD_CLOEXEC));
    ASSERT_TRUE(fd_.valid());
    ASSERT_EQ(ftruncate(fd_.get(), kBytes), 0);
    void* base =
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
    ASSERT_NE(base, MAP_FAILED);
    control_ = static_cast<rocattach_control*>(base);
    auto ticks = ReadStartTicks(getpid());
    ASSERT_TRUE(ticks.ok());
    process_ = {getpid(), *ticks};
    control_->magic = ROCATTACH_SHM_MAGIC;
    control_->version = ROCATTACH_SHM_VERSION;
    control_->pid = getpid();
    control_->window_id = BootNs();
    control_->state_address = reinterpret_cast<uint64_t>(&state_);
  }
  void TearDown() override {
    if (control_ != nullptr) munmap(control_, kBytes);
  }
  std::optional<MappedCollector> Find() const {
    auto maps = Maps::Read(getpid());
    auto memory = TargetMemory::Open(getpid(), getpid());
    EXPECT_TRUE(maps.ok() && memory.ok());
    return FindMappedCollector(*maps, *memory, process_, getpid());
  }

  static constexpr size_t kBytes = 8192;
  UniqueFd fd_;
  rocattach_control* control_ = nullptr;
  ProcessId process_;
  uint32_t state_ = ROCATTACH_STATE_ARMED;
};

TEST_F(MappedCollectorTest, OwnInheritedAndNone) {
  auto own = Find();
  ASSERT_TRUE(own.has_value());
  EXPECT_FALSE(own->inherited);
  EXPECT_EQ(own->memory.value(), reinterpret_cast<uint64_t>(control_));
  EXPECT_EQ(own->bytes, kBytes);
  EXPECT_EQ(own->owner, getpid());

  control_->pid = getpid() + 1;
  for (const auto& [state, entry, open] :
       {std::tuple(ROCATTACH_STATE_ARMED, ROCATTACH_ENTRY_PATH_LIVE_TABLE, true),
        {ROCATTACH_STATE_UNLOADED, ROCATTACH_ENTRY_PATH_LIVE_TABLE, false},
        {ROCATTACH_STATE_LOADED, ROCATTACH_ENTRY_PATH_LIVE_TABLE, false},
        // It is armed by its next call, which has not come yet.
        {ROCATTACH_STATE_LOADED, ROCATTACH_ENTRY_PATH_LATE, true}}) {
    state_ = state;
    control_->entry = entry;
    const auto inherited = Find();
    ASSERT_TRUE(inherited.has_value());
    EXPECT_TRUE(inherited->inherited);
    EXPECT_EQ(inherited->runtime_was_open, open) << state;
    EXPECT_EQ(inherited->owner, getpid() + 1);
  }
  // An address that is not mapped.
  state_ = ROCATTACH_STATE_ARMED;
  control_->state_address = 8;
  EXPECT_FALSE(Find()->runtime_was_open);

  // A child in a PID namespace of its own may have the same process ID as its parent.
  control_->pid = getpid();
  control_->window_id = 1;
  EXPECT_TRUE(Find()->inherited);

  // Memory that another version has written counts as the process's own.
  control_->version = ROCATTACH_SHM_VERSION - 1;
  EXPECT_FALSE(Find()->inherited);
  munmap(control_, kBytes);
  control_ = nullptr;
  EXPECT_FALSE(Find().has_value());
}

TEST(TargetChecksTest, StackRoomIsMeasured) {
  auto maps = Maps::Parse("10000-90000 rw-p 0 0:0 0\n90000-a0000 r--p 0 0:0 0\n");
  ASSERT_TRUE(maps.ok());
  EXPECT_TRUE(CheckStack(getpid(), *maps, RemoteAddress(0x90000), 0x80000).ok());
  EXPECT_FALSE(CheckStack(getpid(), *maps, RemoteAddress(0x90000), 0x80001).ok());
  EXPECT_FALSE(CheckStack(getpid(), *maps, RemoteAddress(0x98000), 16).ok());
  EXPECT_FALSE(CheckStack(getpid(), *maps, RemoteAddress(0xff0000), 16).ok());
  EXPECT_FALSE(CheckStack(getpid(), *maps, RemoteAddress(0), 16).ok());
}

TEST(OutcomeTest, EachStageHasANameOfItsOwn) {
  std::set<std::string> names;
  for (int i = 0; i <= static_cast<int>(AttachStage::kDone); ++i) {
    auto stage = static_cast<AttachStage>(i);
    EXPECT_NE(AttachStageName(stage), "unknown");
    EXPECT_TRUE(names.insert(std::string(AttachStageName(stage))).second);
  }
}

}  // namespace
}  // namespace rocattach
