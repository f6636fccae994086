// The stream of one fictitious process in a recording, read back from its file.
#ifndef ROCATTACH_TESTS_UNIT_RECORD_PROCESS_STREAM_FIXTURE_H_
#define ROCATTACH_TESTS_UNIT_RECORD_PROCESS_STREAM_FIXTURE_H_

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <utility>

#include "tests/unit/record/fake_collector.h"
#include "tests/unit/record/recording_fixture.h"
#include "tests/unit/stream/stream_testing.h"
#include "userspace/record/drain/collector_memory.h"
#include "userspace/record/sessions/target_session.h"

namespace rocattach {

class ProcessStreamTest : public RecordingTest {
 protected:
  void SetUp() override {
    RecordingTest::SetUp();
    process_ = OpenProcess();
    auto memory = CollectorMemory::MapFd(fake_.fd(), FakeCollector::Config());
    ASSERT_TRUE(memory.ok()) << memory.status();
    memory_ = *std::move(memory);
    session_.emplace(ProcessId{100, 7}, memory_.get(), process_, &*output_);
  }

  // Completes the recording. Returns the stream of the process.
  KeepingVisitor::Stream Finish() {
    KeepingVisitor visitor;
    Read(&visitor);
    EXPECT_TRUE(visitor.damages.empty());
    EXPECT_EQ(visitor.streams.size(), 1u);
    return visitor.streams.begin()->second;
  }

  FakeCollector fake_;
  ProcessOutput process_;
  std::unique_ptr<CollectorMemory> memory_;
  std::optional<TargetSession> session_;
};

}  // namespace rocattach

#endif  // ROCATTACH_TESTS_UNIT_RECORD_PROCESS_STREAM_FIXTURE_H_
