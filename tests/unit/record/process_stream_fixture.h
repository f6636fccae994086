// One process in a recording, read back from its file. There is no process.
#ifndef ROCATTACH_TESTS_UNIT_RECORD_PROCESS_STREAM_FIXTURE_H_
#define ROCATTACH_TESTS_UNIT_RECORD_PROCESS_STREAM_FIXTURE_H_

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <utility>

#include "tests/temporary_directory.h"
#include "tests/unit/record/fake_collector.h"
#include "tests/unit/stream/stream_testing.h"
#include "userspace/record/collector_memory.h"
#include "userspace/record/output_set.h"
#include "userspace/record/target_session.h"
#include "userspace/stream/reader.h"

namespace rocattach {

class ProcessStreamTest : public testing::Test {
 protected:
  void SetUp() override {
    auto output = OutputSet::Open({directory_.path(), "run", {}});
    ASSERT_TRUE(output.ok()) << output.status();
    output_.emplace(*std::move(output));
    const auto process = output_->OpenProcess({}, {});
    ASSERT_TRUE(process.ok()) << process.status();
    process_ = *process;
    auto memory = CollectorMemory::MapFd(fake_.fd(), FakeCollector::Config());
    ASSERT_TRUE(memory.ok()) << memory.status();
    memory_ = *std::move(memory);
    session_.emplace(ProcessId{100, 7}, memory_.get(), process_, &*output_);
  }

  // What the recording says of the process. It is complete now.
  KeepingVisitor::Stream Finish() {
    EXPECT_TRUE(output_->Close({}).ok());
    KeepingVisitor visitor;
    StreamDecoder decoder(&visitor);
    EXPECT_TRUE(ReadStream(directory_ / "run.rwa", {}, &decoder).ok());
    EXPECT_TRUE(visitor.damages.empty());
    EXPECT_EQ(visitor.streams.size(), 1u);
    return visitor.streams.begin()->second;
  }

  const testing_support::TemporaryDirectory directory_;
  FakeCollector fake_;
  std::optional<OutputSet> output_;
  ProcessOutput process_;
  std::unique_ptr<CollectorMemory> memory_;
  std::optional<TargetSession> session_;
};

}  // namespace rocattach

#endif  // ROCATTACH_TESTS_UNIT_RECORD_PROCESS_STREAM_FIXTURE_H_
