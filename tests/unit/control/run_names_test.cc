#include "userspace/control/run_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace rocattach {
namespace {

class RunNamesTest : public testing::Test {
 protected:
  RunNamesTest() {
    names_->AddKernel(1, "first");
    names_->AddKernel(2, "second");
    names_->AddFunction(TraceDomain::kHipApi, 7, "hipMalloc");
    names_->SetGpus({{"gfx90a", "Instinct", "GPU-a", "0000:03:00.0", 104}});
    known_.Set(100, names_);
  }

  static DispatchRecord Dispatch(uint32_t kernel, pid_t pid = 100) {
    DispatchRecord record = {};
    record.header = {SessionRecordKind::kDispatch, sizeof(record), 1};
    record.pid = pid;
    record.kernel_id = kernel;
    return record;
  }
  // Sends the names that are due before these records. Returns the number of messages.
  size_t Send(const std::vector<DispatchRecord>& records) {
    const auto due = sent_.For(&records.data()->header,
                               &(records.data() + records.size())->header, &known_);
    for (const v1::RunNames& names : due) AddSentNames(names, &client_);
    return due.size();
  }

  const std::shared_ptr<TargetNames> names_ = std::make_shared<TargetNames>();
  SessionTargetNames known_, client_;
  RunNames sent_;
};

TEST_F(RunNamesTest, EachNameIsSentOnce) {
  EXPECT_EQ(Send({Dispatch(1), Dispatch(1), Dispatch(2)}), 2u);
  EXPECT_EQ(Send({Dispatch(1), Dispatch(2)}), 0u);
  const auto at_client = client_.Find(100);
  ASSERT_NE(at_client, nullptr);
  EXPECT_EQ(at_client->Kernel(1), "first");
  EXPECT_EQ(at_client->Kernel(2), "second");
  EXPECT_FALSE(at_client->Kernel(3).has_value());
  ASSERT_EQ(at_client->Gpus().size(), 1u);
  EXPECT_EQ(at_client->Gpus()[0].pci, "0000:03:00.0");
}

TEST_F(RunNamesTest, ANameThatIsNotKnownYetIsSentLater) {
  EXPECT_EQ(Send({Dispatch(3)}), 1u) << "the GPUs";
  EXPECT_EQ(Send({Dispatch(3)}), 0u);
  names_->AddKernel(3, "third");
  EXPECT_EQ(Send({Dispatch(3)}), 1u);
  EXPECT_EQ(client_.Find(100)->Kernel(3), "third");
  EXPECT_EQ(Send({Dispatch(1, 7)}), 0u) << "no such process";
}

TEST_F(RunNamesTest, AnotherProcessMayGetThePid) {
  EXPECT_EQ(Send({Dispatch(1)}), 1u);
  const auto next = std::make_shared<TargetNames>();
  next->AddKernel(1, "another");
  known_.Set(100, next);
  sent_.Ended(100);
  EXPECT_EQ(Send({Dispatch(1)}), 1u);
  EXPECT_EQ(client_.Find(100)->Kernel(1), "another");
}

TEST_F(RunNamesTest, NamesAreSentForFunctionsAndNotForDirections) {
  TraceRecord call = {};
  call.header = {SessionRecordKind::kTrace, sizeof(call), 1};
  call.pid = 100;
  call.domain = TraceDomain::kHipApi;
  call.operation_id = 7;
  TraceRecord copy = call;
  copy.domain = TraceDomain::kMemoryCopies;
  const std::vector<TraceRecord> records = {call, copy, call};
  const auto due = sent_.For(&records.data()->header,
                             &(records.data() + records.size())->header, &known_);
  ASSERT_EQ(due.size(), 1u);
  AddSentNames(due[0], &client_);
  EXPECT_EQ(client_.Find(100)->Function(TraceDomain::kHipApi, 7), "hipMalloc");
}

}  // namespace
}  // namespace rocattach
