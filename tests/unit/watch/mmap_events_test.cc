#include "userspace/watch/discovery/mmap_events.h"

#include <errno.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "userspace/base/unique_fd.h"

namespace rocattach {
namespace {

using testing::ElementsAre;

void Append(const void* from, size_t bytes, std::vector<uint8_t>* to) {
  const auto* begin = static_cast<const uint8_t*>(from);
  to->insert(to->end(), begin, begin + bytes);
}

// A record in the format of perf_event_open(2).
std::vector<uint8_t> MmapRecord(uint32_t pid, const std::string& path,
                                uint16_t misc = PERF_RECORD_MISC_USER) {
  std::vector<uint8_t> record(sizeof(perf_event_header));
  const uint32_t ids[] = {pid, pid + 1};
  const uint64_t place[] = {0x7f0000001000, 0x2000, 0x3000};
  const uint32_t device[] = {8, 1};
  const uint64_t inode[] = {77, 5};
  const uint32_t flags[] = {5, 2};
  Append(ids, sizeof(ids), &record);
  Append(place, sizeof(place), &record);
  Append(device, sizeof(device), &record);
  Append(inode, sizeof(inode), &record);
  Append(flags, sizeof(flags), &record);
  Append(path.c_str(), path.size() + 1, &record);
  record.resize((record.size() + 7) / 8 * 8);
  const perf_event_header header = {PERF_RECORD_MMAP2, misc,
                                    static_cast<uint16_t>(record.size())};
  memcpy(record.data(), &header, sizeof(header));
  return record;
}

std::vector<uint8_t> LostRecord(uint64_t lost) {
  std::vector<uint8_t> record(sizeof(perf_event_header));
  const uint64_t fields[] = {1, lost};
  Append(fields, sizeof(fields), &record);
  const perf_event_header header = {PERF_RECORD_LOST, 0,
                                    static_cast<uint16_t>(record.size())};
  memcpy(record.data(), &header, sizeof(header));
  return record;
}

TEST(ParseMmapRecordTest, ReadsEveryField) {
  MmapEvent event;
  ASSERT_TRUE(ParseMmapRecord(MmapRecord(12, "/lib/libhsa-runtime64.so.1"), &event));
  EXPECT_EQ(event.pid, 12);
  EXPECT_EQ(event.tid, 13);
  EXPECT_EQ(event.address, 0x7f0000001000u);
  EXPECT_EQ(event.bytes, 0x2000u);
  EXPECT_EQ(event.file_offset, 0x3000u);
  EXPECT_EQ(event.device_major, 8u);
  EXPECT_EQ(event.device_minor, 1u);
  EXPECT_EQ(event.inode, 77u);
  EXPECT_EQ(event.path, "/lib/libhsa-runtime64.so.1");
}

TEST(ParseMmapRecordTest, RefusesOtherRecords) {
  MmapEvent event;
  const std::vector<uint8_t> record = MmapRecord(12, "/a");
  for (size_t bytes = 0; bytes < record.size(); ++bytes) {
    EXPECT_FALSE(ParseMmapRecord({record.data(), bytes}, &event)) << bytes;
  }
  EXPECT_FALSE(ParseMmapRecord(LostRecord(1), &event));
  // This one has a build ID in place of device and inode.
  EXPECT_FALSE(
      ParseMmapRecord(MmapRecord(12, "/a", PERF_RECORD_MISC_MMAP_BUILD_ID), &event));
}

// A record that the kernel has cut off has a name without a terminating zero.
TEST(ParseMmapRecordTest, ANameWithoutAnEndEndsWithItsRecord) {
  std::vector<uint8_t> record = MmapRecord(12, "/1234567890");
  record.back() = 'x';
  while (record[record.size() - 2] == 0) record[record.size() - 2] = 'x';
  for (size_t i = record.size(); i-- > 0 && record[i] == 0;) record[i] = 'x';
  MmapEvent event;
  ASSERT_TRUE(ParseMmapRecord(record, &event));
  EXPECT_LE(event.path.size(), record.size());
  EXPECT_EQ(event.path.substr(0, 11), "/1234567890");
}

class ReadMmapRecordsTest : public testing::Test {
 protected:
  static constexpr size_t kBytes = 512;

  // Writes at `head_`, and continues at the beginning of the ring.
  void Write(const std::vector<uint8_t>& record) {
    for (uint8_t byte : record) ring_[head_++ % kBytes] = byte;
  }
  std::vector<pid_t> Read() {
    std::vector<pid_t> pids;
    ReadMmapRecords(
        ring_, tail_, head_, [&](const MmapEvent& event) { pids.push_back(event.pid); },
        &lost_);
    tail_ = head_;
    return pids;
  }

  std::vector<uint8_t> ring_ = std::vector<uint8_t>(kBytes);
  uint64_t tail_ = 0, head_ = 0, lost_ = 0;
};

TEST_F(ReadMmapRecordsTest, AroundTheEndOfTheRing) {
  for (uint32_t pid = 1; pid < 100; ++pid) {
    Write(MmapRecord(pid, std::string(pid % 50, 'x')));
    if (pid % 10 == 0) Write(LostRecord(pid));
    EXPECT_THAT(Read(), ElementsAre(static_cast<pid_t>(pid)));
  }
  EXPECT_EQ(lost_, 450u);
}

TEST_F(ReadMmapRecordsTest, ReadingEndsAtAnInvalidRecord) {
  for (uint16_t size : {0, 7, 12, 0xfff8}) {
    Write(MmapRecord(1, "/a"));
    const perf_event_header bad = {PERF_RECORD_MMAP2, 0, size};
    std::vector<uint8_t> record(16);
    memcpy(record.data(), &bad, sizeof(bad));
    Write(record);
    Write(MmapRecord(2, "/b"));
    EXPECT_THAT(Read(), ElementsAre(1)) << size;
  }
}

TEST(ParseCpuListTest, KnowsTheKernelsLists) {
  EXPECT_THAT(*ParseCpuList("0\n"), ElementsAre(0));
  EXPECT_THAT(*ParseCpuList("0-3,8,10-11\n"), ElementsAre(0, 1, 2, 3, 8, 10, 11));
  for (const char* text : {"", "\n", "a", "0-", "-1", "3-1", "0,0", "2,1", "0-99999",
                           "0,,1", "0-1-2", "99999999999"}) {
    EXPECT_FALSE(ParseCpuList(text).has_value()) << text;
  }
  EXPECT_FALSE(ReadOnlineCpus().empty());
}

// Uses memory files in place of the kernel's rings.
class ProcessorsTest : public testing::Test {
 protected:
  MmapEvents::Functions Functions() {
    return {.open =
                [this](int cpu, uint32_t bytes) {
                  ++opened_[cpu];
                  watermark_ = bytes;
                  if (cpu == broken_) {
                    errno = EMFILE;
                    return -1;
                  }
                  UniqueFd fd(memfd_create("ring", MFD_CLOEXEC));
                  EXPECT_EQ(ftruncate(fd.get(), 4096 + MmapEvents::kDataBytes), 0);
                  rings_[cpu].reset(dup(fd.get()));
                  return fd.release();
                },
            .online = [this] { return online_; }};
  }
  // Writes the record of a mapping on this processor.
  void Map(int cpu, uint32_t pid) {
    const std::vector<uint8_t> record = MmapRecord(pid, "/a");
    const int fd = rings_.at(cpu).get();
    ASSERT_EQ(pwrite(fd, record.data(), record.size(), 4096),
              static_cast<ssize_t>(record.size()));
    const uint64_t head = record.size();
    ASSERT_EQ(
        pwrite(fd, &head, sizeof(head), offsetof(perf_event_mmap_page, data_head)),
        static_cast<ssize_t>(sizeof(head)));
  }
  static std::vector<pid_t> Read(MmapEvents* events) {
    std::vector<pid_t> pids;
    events->Read([&](const MmapEvent& event) { pids.push_back(event.pid); });
    return pids;
  }

  std::vector<int> online_ = {0, 1};
  int broken_ = -1;
  std::map<int, int> opened_;
  uint32_t watermark_ = 0;  // of the last ring opened
  std::map<int, UniqueFd> rings_;
};

TEST_F(ProcessorsTest, AProcessorThatComesLaterGetsARing) {
  auto events = MmapEvents::OpenWith(Functions());
  ASSERT_TRUE(events.ok()) << events.status();
  EXPECT_EQ((*events)->fds().size(), 2u);
  EXPECT_FALSE(*(*events)->FollowProcessors());
  online_ = {0, 1, 5};
  EXPECT_TRUE(*(*events)->FollowProcessors());
  EXPECT_EQ((*events)->fds().size(), 3u);
  Map(5, 77);
  EXPECT_THAT(Read(events->get()), ElementsAre(77));
  EXPECT_THAT(Read(events->get()), ElementsAre());
  EXPECT_EQ(opened_[0], 1);
}

// The kernel does not restore the events of a processor that was offline.
TEST_F(ProcessorsTest, AProcessorThatWasOfflineGetsANewRing) {
  auto events = MmapEvents::OpenWith(Functions());
  ASSERT_TRUE(events.ok()) << events.status();
  online_ = {0};
  EXPECT_TRUE(*(*events)->FollowProcessors());
  EXPECT_EQ((*events)->fds().size(), 1u);
  online_ = {0, 1};
  EXPECT_TRUE(*(*events)->FollowProcessors());
  EXPECT_EQ(opened_[1], 2);
  Map(1, 9);
  EXPECT_THAT(Read(events->get()), ElementsAre(9));
}

TEST_F(ProcessorsTest, AProcessorThatCannotHaveARingDoesNotAffectOthers) {
  auto events = MmapEvents::OpenWith(Functions());
  ASSERT_TRUE(events.ok()) << events.status();
  online_ = {0, 1, 2, 3};
  broken_ = 2;
  const auto followed = (*events)->FollowProcessors();
  EXPECT_FALSE(followed.ok());
  EXPECT_NE(followed.status().message().find("cpu 2"), std::string::npos);
  EXPECT_EQ((*events)->fds().size(), 3u);
  broken_ = -1;
  EXPECT_TRUE(*(*events)->FollowProcessors());
  EXPECT_EQ((*events)->fds().size(), 4u);
}

TEST_F(ProcessorsTest, EachMappingWakesIfThereIsNoBpfProgram) {
  auto events = MmapEvents::OpenWith(Functions());
  ASSERT_TRUE(events.ok()) << events.status();
  EXPECT_EQ(watermark_, 1u);
}

// Uses an eventfd in place of the BPF program.
class MadeUpWakeups : public MmapWakeups {
 public:
  explicit MadeUpWakeups(std::function<void()> on_clear)
      : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), on_clear_(std::move(on_clear)) {}
  int fd() const override { return fd_.get(); }
  void Clear() override { on_clear_(); }

 private:
  UniqueFd fd_;
  std::function<void()> on_clear_;
};

TEST_F(ProcessorsTest, WithABpfProgramOnlyWakeUpsAndHalfFullRingsWake) {
  // A mapping during the clearing of the wake-up causes another wake-up, or is read.
  auto wakeups = std::make_unique<MadeUpWakeups>([this] { Map(1, 12); });
  const int fd = wakeups->fd();
  auto events = MmapEvents::OpenWith(Functions(), std::move(wakeups));
  ASSERT_TRUE(events.ok()) << events.status();
  EXPECT_EQ(watermark_, MmapEvents::kDataBytes / 2);
  const std::vector<int> fds = (*events)->fds();
  EXPECT_EQ(fds.size(), 3u);
  EXPECT_NE(std::find(fds.begin(), fds.end(), fd), fds.end());
  EXPECT_THAT(Read(events->get()), ElementsAre(12));
}

}  // namespace
}  // namespace rocattach
