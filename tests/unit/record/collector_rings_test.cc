// Busy rings are read in place.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "absl/base/config.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/unit/record/fake_collector.h"
#include "tests/unit/record/target_fixture.h"
#include "userspace/record/drain/collector_memory.h"

namespace rocattach {
namespace {

constexpr uint64_t kBusy = FakeCollector::kSlots / 2;
// Bytes that the mapping of one of the test's rings needs.
constexpr uint64_t kRingBytes = 4096;

// Number of this process's mappings of a collector's memory.
size_t MappingsOf(const FakeCollector& fake) {
  struct stat info = {};
  fstat(fake.fd(), &info);
  const std::string inode = absl::StrCat(" ", info.st_ino, " ");
  std::ifstream maps("/proc/self/maps");
  size_t count = 0;
  for (std::string line; std::getline(maps, line);) {
    if (absl::StrContains(line, inode) && absl::StrContains(line, "memfd:")) ++count;
  }
  return count;
}

// The process's only descriptor of userfaultfd; -1 if there is none.
int FindUserfaultfd() {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    const auto target = std::filesystem::read_symlink(entry.path(), error);
    if (target == "anon_inode:[userfaultfd]") {
      return atoi(entry.path().filename().c_str());
    }
  }
  return -1;
}

// While it exists, the kernel allows this process no further mapping.
class NoMoreMappings {
 public:
#if defined(ABSL_HAVE_THREAD_SANITIZER) || defined(ABSL_HAVE_ADDRESS_SANITIZER)
  static constexpr uint64_t kPages = 2;  // they end the program if they cannot map
#else
  static constexpr uint64_t kPages = 1 << 22;
#endif
  NoMoreMappings() {
    base_ =
        static_cast<uint8_t*>(mmap(nullptr, kPages * 4096, PROT_NONE,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    for (uint64_t i = 1; base_ != MAP_FAILED && i < kPages; i += 2) {
      exhausted_ = mprotect(base_ + i * 4096, 4096, PROT_READ) != 0;
      if (exhausted_) break;
    }
  }
  ~NoMoreMappings() {
    munmap(base_, kPages * 4096);
  }
  bool exhausted() const {
    return exhausted_;
  }

 private:
  uint8_t* base_;
  bool exhausted_ = false;
};

class CollectorRingsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!views_.available()) GTEST_SKIP() << "needs userfaultfd";
    auto memory = CollectorMemory::MapFd(fake_.fd(), FakeCollector::Config());
    ASSERT_TRUE(memory.ok()) << memory.status();
    memory_ = *std::move(memory);
    memory_->ViewWith(&views_);
  }
  void Publish(uint32_t ring, uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) {
      const rocattach_dispatch record = FakeCollector::Dispatch(published_[ring]++);
      fake_.Publish(ring, &record);
    }
  }
  // Reads everything that can be viewed; correlation IDs must be consecutive.
  size_t ReadRing(uint32_t ring, size_t most = SIZE_MAX) {
    size_t count = 0;
    for (;;) {
      const absl::Span<const RecordSlot> view = memory_->View(ring, most);
      if (view.empty()) return count;
      for (const RecordSlot& slot : view) {
        rocattach_dispatch record;
        memcpy(&record, slot.bytes, sizeof(record));
        EXPECT_EQ(record.correlation_id, read_[ring]++);
      }
      count += view.size();
      memory_->EndView();
      EXPECT_EQ(fake_.ring(ring)->tail, read_[ring]);
    }
  }

  FakeCollector fake_;
  RingViews views_{2 * kRingBytes};
  std::unique_ptr<CollectorMemory> memory_;
  uint64_t published_[2] = {}, read_[2] = {};
};

TEST_F(CollectorRingsTest, ABusyRingIsReadInPlace) {
  for (int round = 0; round < 10; ++round) {
    Publish(0, kBusy + 3);  // across the ring's end, too
    memory_->Snapshot();
    Publish(0, 1);  // after the snapshot
    EXPECT_GE(ReadRing(0, 5), kBusy);
    EXPECT_EQ(read_[0], published_[0] - 1);
  }
  EXPECT_EQ(memory_->Account().delivered, read_[0]);
  EXPECT_EQ(views_.left(), kRingBytes);
}

TEST_F(CollectorRingsTest, AQuietRingIsCopied) {
  Publish(0, kBusy - 1);
  memory_->Snapshot();
  EXPECT_TRUE(memory_->View(0, 100).empty());
  std::vector<RecordSlot> out(FakeCollector::kSlots);
  EXPECT_EQ(memory_->Drain(0, absl::MakeSpan(out)), kBusy - 1);
  EXPECT_EQ(views_.left(), 2 * kRingBytes);
}

TEST_F(CollectorRingsTest, AQuietRingLeavesItsBudgetToOthers) {
  RingViews one(kRingBytes);
  memory_->ViewWith(&one);
  Publish(0, kBusy);
  memory_->Snapshot();
  Publish(1, kBusy);
  memory_->Snapshot();
  EXPECT_EQ(ReadRing(0), kBusy);
  EXPECT_EQ(ReadRing(1), 0u) << "there was no room";
  // Ring 0 is quiet for a while.
  for (int i = 0; i < 100; ++i) memory_->Snapshot();
  EXPECT_EQ(ReadRing(1), kBusy);
  Publish(0, kBusy);
  memory_->Snapshot();
  std::vector<RecordSlot> out(FakeCollector::kSlots);
  EXPECT_EQ(ReadRing(0), 0u);
  EXPECT_EQ(memory_->Drain(0, absl::MakeSpan(out)), kBusy);
  memory_.reset();
  EXPECT_EQ(one.left(), kRingBytes);
}

TEST_F(CollectorRingsTest, ARingWithoutPositionsIsNotRead) {
  Publish(0, kBusy);
  memory_->Snapshot();
  EXPECT_FALSE(memory_->View(0, 1).empty());
  memory_->EndView();
  fake_.ring(0)->head -= 5;  // goes back
  memory_->Snapshot();
  EXPECT_TRUE(memory_->View(0, 1).empty());
}

// Taking records may run a program's code, which drains again.
TEST_F(CollectorRingsTest, RecordsMayBeDrainedDuringAView) {
  Publish(0, kBusy + 4);
  Publish(1, kBusy);
  memory_->Snapshot();
  const absl::Span<const RecordSlot> view = memory_->View(0, kBusy);
  ASSERT_EQ(view.size(), kBusy);
  EXPECT_TRUE(memory_->View(0, kBusy).empty());
  EXPECT_TRUE(memory_->View(1, kBusy).empty());
  std::vector<RecordSlot> out(FakeCollector::kSlots);
  EXPECT_EQ(memory_->Drain(0, absl::MakeSpan(out)), 4u);
  EXPECT_EQ(memory_->Drain(1, absl::MakeSpan(out)), kBusy);
  for (int i = 0; i < 100; ++i) memory_->Snapshot();  // the ring stays mapped
  rocattach_dispatch record;
  memcpy(&record, view.back().bytes, sizeof(record));
  EXPECT_EQ(record.correlation_id, kBusy - 1);
  EXPECT_EQ(fake_.ring(0)->tail, 0u) << "still in use";
  EXPECT_EQ(fake_.ring(1)->tail, kBusy);
  memory_->EndView();
  EXPECT_EQ(fake_.ring(0)->tail, kBusy + 4);
  EXPECT_EQ(memory_->Account().delivered, 2 * kBusy + 4);
}

// A hole is not filled at the service's expense; the target loses its records there.
TEST_F(CollectorRingsTest, AHoleStaysAHole) {
  Publish(0, FakeCollector::kSlots);
  memory_->Snapshot();
  const absl::Span<const RecordSlot> view = memory_->View(0, SIZE_MAX);
  ASSERT_EQ(view.size(), FakeCollector::kSlots);
  EXPECT_EQ(fallocate(fake_.fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                      static_cast<off_t>(fake_.control()->rings_offset + kRingBytes),
                      kRingBytes),
            0);
  struct stat before = {}, after = {};
  ASSERT_EQ(fstat(fake_.fd(), &before), 0);
  uint64_t sum = 0;
  for (const RecordSlot& slot : view) sum += slot.kind();
  EXPECT_LT(sum, FakeCollector::kSlots * ROCATTACH_RECORD_DISPATCH);
  ASSERT_EQ(fstat(fake_.fd(), &after), 0);
  EXPECT_EQ(after.st_blocks, before.st_blocks) << "the hole got a page";
  EXPECT_FALSE(memory_->intact());
}

// Nor is a hole in place of a ring's positions.
TEST_F(CollectorRingsTest, AHoleInPlaceOfPositionsStaysAHole) {
  Publish(0, 1);
  memory_->Snapshot();
  ASSERT_TRUE(memory_->intact());
  fake_.PunchRing(0);
  struct stat before = {}, after = {};
  ASSERT_EQ(fstat(fake_.fd(), &before), 0);
  (void)memory_->HasNews(0);
  memory_->Snapshot();
  (void)memory_->Account();
  ASSERT_EQ(fstat(fake_.fd(), &after), 0);
  EXPECT_EQ(after.st_blocks, before.st_blocks) << "the hole got a page";
  EXPECT_FALSE(memory_->intact());
}

// The same when the service keeps no mapping of a ring after using it.
TEST_F(CollectorRingsTest, AHoleThatIsMappedForAMomentStaysAHole) {
  RingViews none(kRingBytes, 0);
  memory_->ViewWith(&none);
  memory_->Snapshot();
  FakeCollector other;
  auto others = CollectorMemory::MapFd(other.fd(), FakeCollector::Config());
  ASSERT_TRUE(others.ok());
  (*others)->ViewWith(&none);
  (*others)->Snapshot();  // unmaps the rings of memory_
  fake_.PunchRing(1);
  struct stat before = {}, after = {};
  ASSERT_EQ(fstat(fake_.fd(), &before), 0);
  (void)memory_->Account();
  ASSERT_EQ(fstat(fake_.fd(), &after), 0);
  EXPECT_EQ(after.st_blocks, before.st_blocks) << "the hole got a page";
  EXPECT_FALSE(memory_->intact());
  EXPECT_TRUE((*others)->intact());
  memory_.reset();
}

// Pages that KeepHoles() could not protect are not handed out, even if they cannot be
// unmapped at once.
TEST_F(CollectorRingsTest, CopiesARingIfItsHolesCannotBeProtected) {
  Publish(0, kBusy);
  memory_->Snapshot();
  const absl::Span<const RecordSlot> view = memory_->View(0, 1);
  ASSERT_FALSE(view.empty());
  const UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  ASSERT_GE(dup2(null.get(), FindUserfaultfd()), 0);  // registers nothing any more
  Publish(1, kBusy);
  memory_->Snapshot();
  memory_->EndView();
  EXPECT_TRUE(memory_->View(1, 1).empty());
  std::vector<RecordSlot> out(FakeCollector::kSlots);
  EXPECT_EQ(memory_->Drain(1, absl::MakeSpan(out)), kBusy);
  EXPECT_EQ(views_.left(), kRingBytes) << "of ring 0";
}

TEST_F(CollectorRingsTest, StopReadingLeavesTheBudgetToOthers) {
  const uint64_t pages = views_.pages_left();
  const size_t mappings = MappingsOf(fake_);
  Publish(0, kBusy);
  Publish(1, kBusy);
  memory_->Snapshot();
  EXPECT_EQ(views_.left(), 0u);
  EXPECT_EQ(views_.pages_left(), pages - 2);
  const absl::Span<const RecordSlot> view = memory_->View(0, kBusy);
  ASSERT_EQ(view.size(), kBusy);
  memory_->StopReading();
  EXPECT_EQ(view.back().kind(), ROCATTACH_RECORD_DISPATCH) << "until the view's end";
  memory_->EndView();
  EXPECT_EQ(views_.left(), 2 * kRingBytes);
  EXPECT_EQ(views_.pages_left(), pages);
  EXPECT_EQ(MappingsOf(fake_), mappings);
  // No ring is read any more, and no access faults.
  memory_->Snapshot();
  (void)memory_->HasNews(0);
  (void)memory_->Account();
  std::vector<RecordSlot> out(FakeCollector::kSlots);
  EXPECT_EQ(memory_->Drain(1, absl::MakeSpan(out)), 0u);
  EXPECT_TRUE(memory_->View(1, 1).empty());
}

// The kernel's limit of mappings has been reached, by this target's rings or by others:
// they are read as soon as they can be mapped.
TEST_F(CollectorRingsTest, ARingThatCannotBeMappedIsReadLater) {
  Publish(0, 3);
  memory_->Snapshot();
  std::vector<RecordSlot> out(FakeCollector::kSlots);
  FakeCollector other;
  auto others = CollectorMemory::MapFd(other.fd(), FakeCollector::Config());
  ASSERT_TRUE(others.ok());
  (*others)->ViewWith(&views_);
  const rocattach_dispatch record = FakeCollector::Dispatch(7);
  other.Publish(1, &record);
  bool intact = false, all_read = true;
  size_t of_mapped = 0, of_other = 0;
  {
    const NoMoreMappings none;
    if (!none.exhausted())
      GTEST_SKIP() << "vm.max_map_count is too large, or there is a sanitizer";
    (*others)->Snapshot();
    of_other = (*others)->Drain(1, absl::MakeSpan(out));
    (void)(*others)->Account();
    intact = (*others)->intact();
    all_read = (*others)->all_rings_read();
    memory_->Snapshot();
    of_mapped = memory_->Drain(0, absl::MakeSpan(out));
  }
  EXPECT_TRUE(intact);
  EXPECT_FALSE(all_read);
  EXPECT_EQ(of_other, 0u);
  EXPECT_EQ(of_mapped, 3u);
  (*others)->Snapshot();
  EXPECT_EQ((*others)->Drain(1, absl::MakeSpan(out)), 1u);
  EXPECT_EQ((*others)->Account().dispatches_seen, 1u);
  EXPECT_TRUE((*others)->all_rings_read());
  EXPECT_EQ(other.ring(1)->tail, 1u);
}

// Slots that were read, but could not be freed at that moment, are freed later.
TEST_F(CollectorRingsTest, SlotsThatCannotBeFreedAreFreedLater) {
  RingViews none(0, 0);
  memory_->ViewWith(&none);
  Publish(0, FakeCollector::kSlots);
  memory_->Snapshot();
  FakeCollector other;
  auto others = CollectorMemory::MapFd(other.fd(), FakeCollector::Config());
  ASSERT_TRUE(others.ok());
  (*others)->ViewWith(&none);
  (*others)->Snapshot();  // unmaps the rings of memory_
  others->reset();
  std::vector<RecordSlot> out(FakeCollector::kSlots);
  size_t count = 0;
  CollectorAccount account;
  bool all_read = true;
  {
    const NoMoreMappings no_more;
    if (!no_more.exhausted())
      GTEST_SKIP() << "vm.max_map_count is too large, or there is a sanitizer";
    count = memory_->Drain(0, absl::MakeSpan(out));
    account = memory_->Account();
    all_read = memory_->all_rings_read();
  }
  EXPECT_EQ(count, FakeCollector::kSlots);
  EXPECT_FALSE(all_read);
  EXPECT_EQ(account.dispatches_seen, 0u) << "the last one that could be read";
  EXPECT_EQ(fake_.ring(0)->tail, 0u);
  memory_->Snapshot();
  EXPECT_EQ(fake_.ring(0)->tail, FakeCollector::kSlots);
  EXPECT_EQ(memory_->Account().dispatches_seen, FakeCollector::kSlots);
  memory_.reset();
}

// Rings beyond the budget of mappings share one mapping, which is used by one process
// at a time. They are read completely nevertheless.
TEST_F(CollectorRingsTest, RingsBeyondTheBudgetAreReadCompletely) {
  constexpr int kOthers = 6;
  constexpr uint64_t kPages = 3;
  RingViews few(2 * kRingBytes, kPages);
  FakeCollector fakes[kOthers];
  std::vector<std::unique_ptr<CollectorMemory>> memories;
  size_t before = 0;
  for (FakeCollector& fake : fakes) {
    memories.push_back(*CollectorMemory::MapFd(fake.fd(), FakeCollector::Config()));
    memories.back()->ViewWith(&few);
    before += MappingsOf(fake);
  }
  std::vector<RecordSlot> out(FakeCollector::kSlots);
  uint64_t published = 0;
  for (int round = 0; round < 20; ++round) {
    for (FakeCollector& fake : fakes) {
      for (uint64_t i = 0; i < kBusy + 3; ++i) {
        const rocattach_dispatch record = FakeCollector::Dispatch(published + i);
        for (uint32_t ring = 0; ring < 2; ++ring) fake.Publish(ring, &record);
      }
    }
    published += kBusy + 3;
    for (int m = 0; m < kOthers; ++m) {
      CollectorMemory& memory = *memories[static_cast<size_t>(m)];
      EXPECT_TRUE(memory.HasNews(0));
      memory.Snapshot();
      for (uint32_t ring = 0; ring < 2; ++ring) {
        size_t count = 0;
        while (true) {
          const absl::Span<const RecordSlot> view = memory.View(ring, SIZE_MAX);
          if (view.empty()) break;
          count += view.size();
          memory.EndView();
        }
        count += memory.Drain(ring, absl::MakeSpan(out));
        EXPECT_EQ(count, kBusy + 3);
        EXPECT_EQ(fakes[m].ring(ring)->tail, published);
      }
      EXPECT_EQ(memory.Account().dispatches_seen, 2 * published);
      EXPECT_EQ(memory.Account().delivered, 2 * published);
      EXPECT_TRUE(memory.all_rings_read());
      EXPECT_FALSE(memory.HasNews(0));
    }
  }
  EXPECT_EQ(few.pages_left(), 0u);
  size_t now = 0;
  for (FakeCollector& fake : fakes) now += MappingsOf(fake);
  // One mapping for each page that stays mapped, with its ring, and a temporary one.
  EXPECT_LE(now, before + kPages + 1);
  // The budget of the first ones is available to the remaining ones.
  memories.erase(memories.begin(), memories.begin() + 2);
  EXPECT_EQ(few.pages_left(), kPages);
  memories.back()->Snapshot();
  EXPECT_EQ(few.pages_left(), kPages - 2);
  memories.clear();
  EXPECT_EQ(few.pages_left(), kPages);
  EXPECT_EQ(few.left(), 2 * kRingBytes);
}

// End to end, through a Target.
using ViewedTargetTest = TargetTest;
TEST_F(ViewedTargetTest, EveryRecordIsDrainedOnce) {
  RingViews views(2 * kRingBytes);
  if (!views.available()) GTEST_SKIP() << "needs userfaultfd";
  FakeCollector fake;
  fake.AddKernel(1, "gemm");
  const std::unique_ptr<Target> target = NewTarget(Attached());
  auto memory = CollectorMemory::MapFd(fake.fd(), FakeCollector::Config());
  ASSERT_TRUE(memory.ok()) << memory.status();
  (*memory)->ViewWith(&views);
  target->SetMemory(*std::move(memory), true, true);
  uint64_t published = 0;
  for (int round = 0; round < 40; ++round) {
    const uint64_t count = round % 3 == 0 ? 5 : kBusy + 7;
    for (uint64_t i = 0; i < count; ++i) {
      const rocattach_dispatch record = FakeCollector::Dispatch(++published);
      fake.Publish(0, &record);
    }
    target->Drain(9'000'000'000);
  }
  EXPECT_EQ(views.left(), kRingBytes);
  EXPECT_EQ(target->counts().dispatches, published);
  EXPECT_EQ(fake.ring(0)->tail, published);
}

// It does not keep its share of the budget from others until its end.
TEST_F(ViewedTargetTest, ATargetThatIsNotBelievedHasNothingMapped) {
  RingViews views(2 * kRingBytes);
  if (!views.available()) GTEST_SKIP() << "needs userfaultfd";
  const uint64_t pages = views.pages_left();
  FakeCollector fake;
  fake.AddKernel(1, "gemm");
  const std::unique_ptr<Target> target = NewTarget(Attached());
  auto memory = CollectorMemory::MapFd(fake.fd(), FakeCollector::Config());
  ASSERT_TRUE(memory.ok()) << memory.status();
  (*memory)->ViewWith(&views);
  target->SetMemory(*std::move(memory), true, true);
  for (uint64_t i = 1; i <= kBusy; ++i) {
    const rocattach_dispatch record = FakeCollector::Dispatch(i);
    fake.Publish(0, &record);
  }
  target->Drain(9'000'000'000);
  EXPECT_EQ(views.left(), kRingBytes);
  EXPECT_LT(views.pages_left(), pages);
  fake.ring(0)->head = 1;
  target->Drain(9'000'000'000);
  EXPECT_NE(target->not_believable(), "");
  EXPECT_EQ(views.left(), 2 * kRingBytes);
  EXPECT_EQ(views.pages_left(), pages);
}

}  // namespace
}  // namespace rocattach
