// A recording in a folder of the test.
#ifndef ROCATTACH_TESTS_UNIT_RECORD_RECORDING_FIXTURE_H_
#define ROCATTACH_TESTS_UNIT_RECORD_RECORDING_FIXTURE_H_

#include <gtest/gtest.h>

#include <optional>
#include <utility>

#include "tests/temporary_directory.h"
#include "userspace/record/output/output_set.h"
#include "userspace/stream/decoder.h"
#include "userspace/stream/reader.h"
#include "userspace/stream/visitor.h"

namespace rocattach {

class RecordingTest : public testing::Test {
 protected:
  void SetUp() override {
    auto output = OutputSet::Open({directory_.path(), "run", {}});
    ASSERT_TRUE(output.ok()) << output.status();
    output_.emplace(*std::move(output));
  }

  ProcessOutput OpenProcess() {
    const auto process = output_->OpenProcess({}, {});
    EXPECT_TRUE(process.ok()) << process.status();
    return process.ok() ? *process : ProcessOutput();
  }
  // Completes the recording, and reads it.
  void Read(StreamVisitor* visitor) {
    EXPECT_TRUE(output_->Close({}).ok());
    StreamDecoder decoder(visitor);
    EXPECT_TRUE(ReadStream(directory_ / "run.rwa", {}, &decoder).ok());
  }

  const testing_support::TemporaryDirectory directory_;
  std::optional<OutputSet> output_;
};

}  // namespace rocattach

#endif  // ROCATTACH_TESTS_UNIT_RECORD_RECORDING_FIXTURE_H_
