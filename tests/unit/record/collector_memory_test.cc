#include "userspace/record/drain/collector_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <memory>
#include <random>

#include "tests/unit/record/fake_collector.h"
#include "userspace/base/clock.h"
#include "userspace/base/unique_fd.h"
#include "userspace/record/drain/target_memfd.h"

namespace rocattach {
namespace {

uint64_t CorrelationOf(const RecordSlot& slot) {
  rocattach_dispatch record;
  memcpy(&record, slot.bytes, sizeof(record));
  return record.correlation_id;
}

TEST(CollectorMemory, DrainsInOrderAndFreesSlots) {
  FakeCollector fake;
  auto memory = CollectorMemory::MapFd(fake.fd(), FakeCollector::Config());
  ASSERT_TRUE(memory.ok()) << memory.status();
  std::vector<RecordSlot> out(64);
  uint64_t published = 0, drained = 0;
  for (int round = 0; round < 10; ++round) {
    for (uint32_t i = 0; i < FakeCollector::kSlots; ++i) {
      rocattach_dispatch record = FakeCollector::Dispatch(published++);
      fake.Publish(0, &record);
    }
    (*memory)->Snapshot();
    size_t count = (*memory)->Drain(0, absl::MakeSpan(out));
    ASSERT_EQ(count, FakeCollector::kSlots);
    for (size_t i = 0; i < count; ++i) EXPECT_EQ(CorrelationOf(out[i]), drained++);
    EXPECT_EQ(fake.ring(0)->tail, drained);
  }
  EXPECT_EQ((*memory)->Account().produced, published);
  EXPECT_EQ((*memory)->Account().delivered, drained);
}

TEST(CollectorMemory, DrainsNothingPublishedAfterTheSnapshot) {
  FakeCollector fake;
  auto memory = CollectorMemory::MapFd(fake.fd(), FakeCollector::Config());
  rocattach_dispatch record = FakeCollector::Dispatch(1);
  fake.Publish(1, &record);
  (*memory)->Snapshot();
  fake.Publish(1, &record);
  std::vector<RecordSlot> out(8);
  EXPECT_EQ((*memory)->Drain(1, absl::MakeSpan(out)), 1u);
  EXPECT_EQ((*memory)->Drain(1, absl::MakeSpan(out)), 0u);
}

TEST(CollectorMemory, RefusesUnsealedMemory) {
  FakeCollector fake(/*seal=*/false);
  EXPECT_EQ(CollectorMemory::MapFd(fake.fd(), FakeCollector::Config()).status().code(),
            absl::StatusCode::kPermissionDenied);
}

// There may be no huge page to fill a hole in them; touching it is then a SIGBUS.
TEST(CollectorMemory, RefusesHugePages) {
  constexpr uint64_t kBytes = 2 << 20;
  UniqueFd fd(memfd_create("huge", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB));
  if (!fd.valid()) GTEST_SKIP() << "memfd_create(MFD_HUGETLB): " << strerror(errno);
  ASSERT_EQ(ftruncate(fd.get(), kBytes), 0);
  EXPECT_EQ(CheckTargetMemfd(fd.get(), kBytes).code(),
            absl::StatusCode::kPermissionDenied);
  UniqueFd ordinary(memfd_create("ordinary", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(ordinary.get(), kBytes), 0);
  EXPECT_TRUE(CheckTargetMemfd(ordinary.get(), kBytes).ok());
  EXPECT_FALSE(CheckTargetMemfd(ordinary.get(), kBytes + 4096).ok());
}

// The owner changes the size after the check, and then seals the file.
TEST(CollectorMemory, TheSizeIsThatOfTheSealedFile) {
  constexpr uint64_t kBytes = 8 * 4096;
  UniqueFd fd(memfd_create("changes", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(fd.get(), kBytes), 0);
  ASSERT_TRUE(CheckTargetMemfd(fd.get(), kBytes).ok());
  EXPECT_EQ(CheckSealed(fd.get(), kBytes).code(), absl::StatusCode::kPermissionDenied);
  ASSERT_EQ(ftruncate(fd.get(), 4096), 0);
  ASSERT_EQ(fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
  EXPECT_EQ(CheckSealed(fd.get(), kBytes).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(CheckSealed(fd.get(), 4096).ok());
}

// The owner of a file lease makes everyone who opens the file wait for the lease's end.
TEST(CollectorMemory, ALeaseIsNotWaitedFor) {
  rocattach_collector_config config = FakeCollector::Config();
  collector::Geometry geometry;
  ASSERT_TRUE(collector::ComputeGeometry(config, &geometry));
  char name[] = "/tmp/rocattach-lease.XXXXXX";
  UniqueFd fd(mkstemp(name));
  unlink(name);
  ASSERT_EQ(ftruncate(fd.get(), static_cast<off_t>(geometry.total_bytes)), 0);
  void* mapped = mmap(nullptr, geometry.total_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                      fd.get(), 0);
  ASSERT_NE(mapped, MAP_FAILED);
  signal(SIGIO, SIG_IGN);
  if (fcntl(fd.get(), F_SETLEASE, F_WRLCK) != 0) {
    GTEST_SKIP() << "F_SETLEASE: " << strerror(errno);
  }
  const uint64_t begin = BootNs();
  EXPECT_FALSE(CollectorMemory::Map(getpid(), reinterpret_cast<uint64_t>(mapped),
                                    geometry.total_bytes, config)
                   .ok());
  // By default the kernel waits 45 s.
  EXPECT_LT(BootNs() - begin, 10'000'000'000u);
  munmap(mapped, geometry.total_bytes);
}

TEST(CollectorMemory, RefusesAFileThatIsNotAMemfd) {
  UniqueFd fd(open("/dev/null", O_RDWR | O_CLOEXEC));
  EXPECT_FALSE(CollectorMemory::MapFd(fd.get(), FakeCollector::Config()).ok());
}

TEST(CollectorMemory, RefusesImpossibleLayouts) {
  using Change = void (*)(rocattach_control*);
  Change changes[] = {
      [](rocattach_control* c) { c->magic = 0; },
      [](rocattach_control* c) { c->version = 99; },
      [](rocattach_control* c) { c->total_bytes += 4096; },
      [](rocattach_control* c) { c->ring_count = 0; },
      [](rocattach_control* c) { c->ring_count = 0xFFFFFFFF; },
      [](rocattach_control* c) { c->ring_slots = 15; },
      [](rocattach_control* c) { c->ring_slots = 1u << 31; },
      [](rocattach_control* c) { c->ring_stride = 64; },
      [](rocattach_control* c) { c->ring_stride = UINT64_MAX - 63; },
      [](rocattach_control* c) { c->rings_offset = 0; },
      [](rocattach_control* c) { c->rings_offset = UINT64_MAX - 63; },
      [](rocattach_control* c) { c->inflight_offset = c->total_bytes; },
      [](rocattach_control* c) { c->inflight_count = 1u << 22; },
      [](rocattach_control* c) { c->inflight_bytes = 1; },
      [](rocattach_control* c) { c->dictionary_bytes = UINT64_MAX; },
      [](rocattach_control* c) { c->dictionary_offset += 8; },
      [](rocattach_control* c) { c->plan_bytes -= 8; },
      [](rocattach_control* c) { c->plan_offset = 0; },
      [](rocattach_control* c) { c->plan_offset = c->total_bytes - 4096; },
  };
  int number = 0;
  for (Change change : changes) {
    FakeCollector fake;
    change(fake.control());
    EXPECT_FALSE(CollectorMemory::MapFd(fake.fd(), FakeCollector::Config()).ok())
        << "change " << number;
    ++number;
  }
}

TEST(CollectorMemory, WritesPlansAndReadsTheAnswer) {
  FakeCollector fake;
  auto memory = CollectorMemory::MapFd(fake.fd(), FakeCollector::Config());
  ASSERT_TRUE(memory.ok());
  auto image = std::make_unique<rocattach_plan>();
  image->magic = ROCATTACH_PLAN_MAGIC;
  image->session_id = 7;
  image->selections[1].kernels_decided = 99;
  const uint32_t command = fake.control()->command;
  EXPECT_EQ((*memory)->control().plan_answer().generation, 0u);
  EXPECT_EQ((*memory)->control().WritePlan(*image), 2u);
  EXPECT_EQ((*memory)->control().WritePlan(*image), 4u);
  EXPECT_EQ(fake.control()->command, command + 2);
  const rocattach_plan* plan = (*memory)->control().plan();
  EXPECT_EQ(plan->generation, 4u);
  EXPECT_EQ(plan->magic, ROCATTACH_PLAN_MAGIC);
  EXPECT_EQ(plan->session_id, 7u);
  EXPECT_NE(plan->start_ns, 0u);
  EXPECT_EQ(plan->selections[1].kernels_decided, 99u);
  // The next service continues from there, even after a plan that was left half
  // written.
  (*memory)->control().plan()->generation = 5;
  auto next = CollectorMemory::MapFd(fake.fd(), FakeCollector::Config());
  ASSERT_TRUE(next.ok());
  EXPECT_EQ((*next)->control().WritePlan(*image), 8u);

  rocattach_control* c = fake.control();
  c->plan_acked = 8;
  c->plan_error = ROCATTACH_PLAN_ERROR_HW_LIMIT;
  c->plan_error_counter = 77;
  memset(c->plan_error_text, 'x', sizeof(c->plan_error_text));
  c->plan_error_text[0] = '\n';
  c->backend = ROCATTACH_BACKEND_SDK;
  strcpy(c->backend_text, "why");
  PlanAnswer answer = (*next)->control().plan_answer();
  EXPECT_EQ(answer.generation, 8u);
  EXPECT_EQ(answer.error, static_cast<uint32_t>(ROCATTACH_PLAN_ERROR_HW_LIMIT));
  EXPECT_EQ(answer.counter, 77u);
  EXPECT_EQ(answer.text, "?" + std::string(sizeof(c->plan_error_text) - 1, 'x'));
  EXPECT_EQ((*next)->control().backend().text, "why");
  EXPECT_EQ((*next)->control().backend().backend,
            static_cast<uint32_t>(ROCATTACH_BACKEND_SDK));
}

// The geometry is read once: what the target writes there later changes nothing.
TEST(CollectorMemory, LaterChangesOfTheLayoutAreIgnored) {
  FakeCollector fake;
  auto memory = CollectorMemory::MapFd(fake.fd(), FakeCollector::Config());
  ASSERT_TRUE(memory.ok());
  rocattach_dispatch record = FakeCollector::Dispatch(5);
  fake.Publish(0, &record);
  rocattach_control* c = fake.control();
  c->ring_count = 0xFFFFFFFF;
  c->ring_slots = 3;
  c->rings_offset = UINT64_MAX;
  c->dictionary_bytes = UINT64_MAX;
  c->dictionary_used = UINT64_MAX;
  (*memory)->Snapshot();
  (void)(*memory)->NewEntries();
  std::vector<RecordSlot> out(8);
  ASSERT_EQ((*memory)->Drain(0, absl::MakeSpan(out)), 1u);
  EXPECT_EQ(CorrelationOf(out[0]), 5u);
}

TEST(CollectorMemory, ARingWithImpossiblePositionsIsAbandoned) {
  for (uint64_t head : {uint64_t{FakeCollector::kSlots + 1}, UINT64_MAX}) {
    FakeCollector fake;
    auto memory = CollectorMemory::MapFd(fake.fd(), FakeCollector::Config());
    fake.ring(0)->head = head;
    (*memory)->Snapshot();
    std::vector<RecordSlot> out(8);
    EXPECT_EQ((*memory)->Drain(0, absl::MakeSpan(out)), 0u);
    EXPECT_EQ((*memory)->Account().corrupt_rings, 1u);
    rocattach_dispatch record = FakeCollector::Dispatch(1);
    fake.Publish(1, &record);
    (*memory)->Snapshot();
    EXPECT_EQ((*memory)->Drain(1, absl::MakeSpan(out)), 1u) << "other rings go on";
  }
}

TEST(CollectorMemory, ReadsEntriesOnceAndStopsAtATornOne) {
  FakeCollector fake;
  auto memory = CollectorMemory::MapFd(fake.fd(), FakeCollector::Config());
  fake.AddKernel(1, "one");
  fake.AddKernel(2, "two");
  (*memory)->Snapshot();
  EXPECT_FALSE((*memory)->dictionary_read());
  EXPECT_EQ((*memory)->NewEntries().size(), 2u);
  EXPECT_TRUE((*memory)->dictionary_read());
  EXPECT_EQ((*memory)->NewEntries().size(), 0u);
  fake.AddKernel(3, "three");
  EXPECT_EQ((*memory)->NewEntries().size(), 0u) << "behind the snapshot";
  (*memory)->Snapshot();
  EXPECT_EQ((*memory)->NewEntries().size(), 1u);
  rocattach_entry torn = {};
  torn.bytes = 4;
  torn.kind = ROCATTACH_ENTRY_KERNEL;
  torn.id = 4;
  fake.AddEntry({reinterpret_cast<const uint8_t*>(&torn), sizeof(torn)});
  fake.AddKernel(5, "five");
  (*memory)->Snapshot();
  EXPECT_EQ((*memory)->NewEntries().size(), 0u);
  EXPECT_FALSE((*memory)->dictionary_ok());
}

TEST(CollectorMemory, HandsOutTheDictionaryInParts) {
  FakeCollector fake;
  auto memory = CollectorMemory::MapFd(fake.fd(), FakeCollector::Config());
  for (uint32_t id = 1; id <= 20; ++id) fake.AddKernel(id, "a kernel");
  (*memory)->Snapshot();
  size_t entries = 0;
  for (int part = 0; part < 20; ++part) {
    EXPECT_FALSE((*memory)->dictionary_read());
    const size_t some = (*memory)->NewEntries(/*most_bytes=*/1).size();
    EXPECT_EQ(some, 1u);
    entries += some;
  }
  EXPECT_EQ(entries, 20u);
  EXPECT_TRUE((*memory)->dictionary_read());
  EXPECT_TRUE((*memory)->dictionary_ok());
}

TEST(CollectorMemory, RefusesAnyOtherGeometryThanTheConfigured) {
  FakeCollector fake;
  using Change = void (*)(rocattach_collector_config*);
  Change changes[] = {
      [](rocattach_collector_config* c) { c->ring_count = 1; },
      [](rocattach_collector_config* c) { c->ring_slots = 32; },
      [](rocattach_collector_config* c) { c->inflight_count = 32; },
      [](rocattach_collector_config* c) { c->dictionary_bytes *= 2; },
      // The same number of pages: only the geometry itself differs.
      [](rocattach_collector_config* c) { c->inflight_count = 17; },
  };
  for (Change change : changes) {
    rocattach_collector_config config = FakeCollector::Config();
    change(&config);
    EXPECT_FALSE(CollectorMemory::MapFd(fake.fd(), config).ok());
  }
}

// The positions say that everything is full, but the memory was never written: the
// holes are read as zeros, and none of them is filled.
TEST(CollectorMemory, ReadingHolesFillsNone) {
  FakeCollector fake;
  auto memory = CollectorMemory::MapFd(fake.fd(), FakeCollector::Config());
  for (uint32_t i = 0; i < FakeCollector::kRings; ++i) {
    fake.ring(i)->head = FakeCollector::kSlots;
  }
  fake.control()->dictionary_used = FakeCollector::kDictionaryBytes;
  (*memory)->Snapshot();
  struct stat before, after;
  fstat(fake.fd(), &before);
  std::vector<RecordSlot> out(64);
  EXPECT_EQ((*memory)->Drain(1, absl::MakeSpan(out)), FakeCollector::kSlots);
  EXPECT_EQ((*memory)->NewEntries().size(), 0u);
  EXPECT_TRUE((*memory)->UnfinishedRecords(0, FakeCollector::kInflight).empty());
  fstat(fake.fd(), &after);
  EXPECT_EQ(after.st_blocks, before.st_blocks);
}

// Rings are marked as in use but were never written: neither their positions nor their
// accounts are read, which would allocate pages at the service's expense.
TEST(CollectorMemory, RingsWithoutPagesAreNotRead) {
  FakeCollector fake;
  const rocattach_dispatch record = FakeCollector::Dispatch(1);
  fake.Publish(0, &record);
  fake.PunchRing(1);
  auto memory = CollectorMemory::MapFd(fake.fd(), FakeCollector::Config());
  ASSERT_TRUE(memory.ok());
  struct stat before, after;
  fstat(fake.fd(), &before);
  for (int i = 0; i < 3; ++i) {
    (*memory)->Snapshot();
    (void)(*memory)->Account();
    (void)(*memory)->HasNews(0);
  }
  fstat(fake.fd(), &after);
  EXPECT_EQ(after.st_blocks, before.st_blocks);
  EXPECT_FALSE((*memory)->intact());
}

// A page that is no longer available, as after a memory error. The test replaces it
// with a mapping behind the end of a file.
TEST(CollectorMemory, AFaultCostsThisMemoryOnly) {
  FakeCollector broken, whole;
  auto memory = CollectorMemory::MapFd(broken.fd(), FakeCollector::Config());
  auto other = CollectorMemory::MapFd(whole.fd(), FakeCollector::Config());
  ASSERT_TRUE(memory.ok() && other.ok());
  rocattach_dispatch record = FakeCollector::Dispatch(1);
  broken.Publish(0, &record);
  whole.Publish(0, &record);
  EXPECT_TRUE((*memory)->intact());
  UniqueFd empty(memfd_create("empty", MFD_CLOEXEC));
  auto* plan = reinterpret_cast<uint8_t*>((*memory)->control().plan());
  ASSERT_EQ(
      mmap(plan, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, empty.get(), 0),
      plan);
  rocattach_plan image = {};
  (*memory)->control().WritePlan(image);
  EXPECT_FALSE((*memory)->intact());
  std::vector<RecordSlot> out(8);
  (*memory)->Snapshot();
  EXPECT_EQ((*memory)->Drain(0, absl::MakeSpan(out)), 0u);
  (void)(*memory)->Account();
  EXPECT_TRUE((*other)->intact());
  (*other)->Snapshot();
  EXPECT_EQ((*other)->Drain(0, absl::MakeSpan(out)), 1u);
}

TEST(CollectorMemoryDeathTest, AFaultElsewhereIsNotHidden) {
  FakeCollector fake;
  auto memory = CollectorMemory::MapFd(fake.fd(), FakeCollector::Config());
  UniqueFd empty(memfd_create("empty", MFD_CLOEXEC));
  auto* bytes = static_cast<volatile uint8_t*>(
      mmap(nullptr, 4096, PROT_READ, MAP_SHARED, empty.get(), 0));
  EXPECT_EXIT((void)bytes[0], ::testing::KilledBySignal(SIGBUS), "");
}

TEST(CollectorMemory, FindsUnfinishedDispatches) {
  FakeCollector fake;
  auto memory = CollectorMemory::MapFd(fake.fd(), FakeCollector::Config());
  fake.AddInflight(3, 77);
  fake.FillInflight(4, 78);  // free
  fake.AddInflight(5, 79);
  fake.inflight(5)->kind = 99;  // no such kind
  auto unfinished = (*memory)->UnfinishedRecords(0, FakeCollector::kInflight);
  ASSERT_EQ(unfinished.size(), 1u);
  EXPECT_EQ(CorrelationOf(unfinished[0]), 77u);
}

TEST(CollectorMemory, WritesCommandsForTheCollector) {
  FakeCollector fake;
  auto memory = CollectorMemory::MapFd(fake.fd(), FakeCollector::Config());
  (*memory)->control().AcknowledgeMapped();
  EXPECT_EQ(fake.control()->service_mapped, 1u);
  uint32_t before = fake.control()->command;
  (*memory)->control().SetRecording(true);
  EXPECT_EQ(fake.control()->recording, 1u);
  EXPECT_EQ(fake.control()->command, before + 1);
  (*memory)->Heartbeat(123);
  EXPECT_EQ(fake.control()->service_heartbeat_ns, 123u);
}

// A collector that has stopped by itself waits for a command before it goes on.
TEST(CollectorMemory, AServiceThatWasAwaySendsACommandOnItsReturn) {
  constexpr uint64_t kSecond = 1'000'000'000;
  FakeCollector fake;
  auto memory = CollectorMemory::MapFd(fake.fd(), FakeCollector::Config());
  ASSERT_TRUE(memory.ok());
  const uint32_t before = fake.control()->command;
  (*memory)->Heartbeat(100 * kSecond);
  (*memory)->Heartbeat(103 * kSecond);
  EXPECT_EQ(fake.control()->command, before);
  (*memory)->Heartbeat(108 * kSecond);
  EXPECT_EQ(fake.control()->command, before + 1);
  (*memory)->Heartbeat(109 * kSecond);
  EXPECT_EQ(fake.control()->command, before + 1);
}

// A target may overwrite everything but the sealed size: no crash, no endless loop, and
// no more slots than there are.
TEST(CollectorMemory, RandomScribblingIsSurvived) {
  std::mt19937_64 random(20260101);
  std::vector<RecordSlot> out(64);
  for (int round = 0; round < 300; ++round) {
    FakeCollector fake;
    auto memory = CollectorMemory::MapFd(fake.fd(), FakeCollector::Config());
    ASSERT_TRUE(memory.ok());
    auto* bytes = reinterpret_cast<uint8_t*>(fake.control());
    uint64_t total = fake.control()->total_bytes;
    for (int i = 0; i < 200; ++i)
      bytes[random() % total] = static_cast<uint8_t>(random());
    (*memory)->Snapshot();
    for (const auto& entry : (*memory)->NewEntries()) ASSERT_LE(entry.size(), total);
    for (uint32_t r = 0; r < (*memory)->ring_count(); ++r) {
      ASSERT_LE((*memory)->Drain(r, absl::MakeSpan(out)), FakeCollector::kSlots);
    }
    ASSERT_LE((*memory)->UnfinishedRecords(0, FakeCollector::kInflight).size(),
              FakeCollector::kInflight);
    (void)(*memory)->control().text();
    (void)(*memory)->Account();
  }
}

}  // namespace
}  // namespace rocattach
