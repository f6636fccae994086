// A recording that is split into files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/unit/stream/stream_testing.h"
#include "userspace/stream/writer.h"

namespace rocattach {
namespace {

using Key = KeepingVisitor::Key;

uint64_t Accounted(const v1::LossAccount& a) {
  return a.dispatches_delivered() + a.copies_delivered() + a.dropped_ring_full() +
         a.dropped_collector() + a.dropped_invalid() + a.dropped_inflight() +
         a.dropped_writer() + a.sampled_out();
}

class RotationTest : public testing::Test {
 protected:
  void SetUp() override {
    auto writer = StreamWriter::Create(NextSink(), {});
    ASSERT_TRUE(writer.ok());
    writer_ = *std::move(writer);
    v1::Process process;
    process.set_pid(11);
    process.set_comm("app");
    stream_ = writer_->OpenProcess(process);
    v1::Kernel kernel;
    kernel.set_id(5);
    kernel.set_name("kernel_5");
    ASSERT_TRUE(writer_->AddKernel(stream_, kernel).ok());
    v1::WindowEvent window;
    window.set_state(v1::WINDOW_STATE_ATTACHED);
    ASSERT_TRUE(writer_->AddWindowEvent(stream_, window).ok());
  }

  std::unique_ptr<Sink> NextSink() {
    files_.push_back(std::make_unique<std::string>());
    return std::make_unique<MemorySink>(files_.back().get());
  }
  void Dispatch(size_t count) {
    ASSERT_TRUE(writer_->Append<DispatchKind>(stream_, RegularDispatches(count)).ok());
  }
  WriterStats Rotate() {
    WriterStats former;
    EXPECT_TRUE(writer_->Rotate(NextSink(), &former).ok());
    return former;
  }
  // Sets the account, counted from the attach on, as collectors count.
  void Account(uint64_t seen, uint64_t lost, bool final = false) {
    v1::LossAccount account;
    account.set_dispatches_seen(seen);
    account.set_dropped_ring_full(lost);
    account.set_final(final);
    ASSERT_TRUE(writer_->SetAccount(stream_, account).ok());
  }
  KeepingVisitor Read(size_t file) {
    KeepingVisitor visitor;
    const ReadStats stats = ReadBytes(*files_[file], &visitor);
    EXPECT_FALSE(stats.damaged());
    EXPECT_TRUE(visitor.damages.empty());
    EXPECT_EQ(stats.recordings_ended, 1u);
    return visitor;
  }

  std::vector<std::unique_ptr<std::string>> files_;
  std::unique_ptr<StreamWriter> writer_;
  StreamId stream_ = 0;
};

// Dispatches that are sampled out because of a budget are in the account of each file,
// and each file says how its dispatches were sampled.
TEST_F(RotationTest, EachFileSaysHowItWasSampled) {
  v1::SamplingEvent event;
  event.set_time_ns(1000);
  event.set_level(v1::SamplingEvent::SAMPLED);
  event.set_divisor(8);
  event.set_reason("processor 12.0% of 5%");
  ASSERT_TRUE(writer_->AddSamplingEvent(stream_, event).ok());
  v1::LossAccount account;
  account.set_dispatches_seen(80);
  account.set_sampled_out(60);
  Dispatch(20);
  ASSERT_TRUE(writer_->SetAccount(stream_, account).ok());
  Rotate();
  Dispatch(10);
  account.set_dispatches_seen(180);
  account.set_sampled_out(150);
  account.set_final(true);
  ASSERT_TRUE(writer_->SetAccount(stream_, account).ok());
  ASSERT_TRUE(writer_->EndProcess(stream_, {}).ok());
  ASSERT_TRUE(writer_->Close().ok());
  const uint64_t sampled_out[] = {60, 90}, seen[] = {80, 100};
  for (size_t i = 0; i < 2; ++i) {
    KeepingVisitor visitor = Read(i);
    KeepingVisitor::Stream& app = visitor.streams[Key(0, stream_)];
    ASSERT_FALSE(app.sampling.empty());
    EXPECT_EQ(app.sampling.back().SerializeAsString(), event.SerializeAsString());
    const v1::LossAccount& part = app.accounts.back();
    EXPECT_TRUE(part.final());
    EXPECT_EQ(part.sampled_out(), sampled_out[i]);
    EXPECT_EQ(part.dispatches_seen(), seen[i]);
    EXPECT_EQ(Accounted(part), part.dispatches_seen() + part.copies_seen());
  }
}

TEST_F(RotationTest, EachFileIsCompleteAndNothingIsLost) {
  std::set<std::string> ids;
  for (size_t count : {40, 7, 0}) {
    Dispatch(count);
    Account(/*seen=*/100, /*lost=*/0);
    const WriterStats former = Rotate();
    EXPECT_EQ(former.records[RecordKind::kDispatch], count);
    EXPECT_EQ(former.streams, 1u);
    EXPECT_EQ(former.bytes, files_[files_.size() - 2]->size());
  }
  Dispatch(53);
  Account(100, 0, /*final=*/true);
  ASSERT_TRUE(writer_->account(stream_) != nullptr);
  EXPECT_EQ(writer_->account(stream_)->dispatches_delivered(), 100u);
  v1::ProcessEnd end;
  end.set_how(v1::ProcessEnd::EXITED);
  ASSERT_TRUE(writer_->EndProcess(stream_, end).ok());
  ASSERT_TRUE(writer_->Close().ok());

  const size_t counts[] = {40, 7, 0, 53};
  ASSERT_EQ(files_.size(), 4u);
  for (size_t i = 0; i < files_.size(); ++i) {
    KeepingVisitor seen = Read(i);
    ASSERT_EQ(seen.headers.size(), 1u);
    ids.insert(seen.headers[0].recording_id());
    KeepingVisitor::Stream& app = seen.streams[Key(0, stream_)];
    ASSERT_FALSE(app.processes.empty());
    EXPECT_EQ(app.processes[0].comm(), "app");
    EXPECT_EQ(app.kernels.at(5).name(), "kernel_5");
    ASSERT_FALSE(app.windows.empty());
    EXPECT_EQ(app.windows.back().state(), v1::WINDOW_STATE_ATTACHED);
    EXPECT_EQ(app.dispatches.size(), counts[i]);
    ASSERT_EQ(app.ends.size(), 1u);
    EXPECT_EQ(app.ends[0].how(),
              i < 3 ? v1::ProcessEnd::CONTINUED : v1::ProcessEnd::EXITED);
    ASSERT_FALSE(app.accounts.empty());
    const v1::LossAccount& account = app.accounts.back();
    EXPECT_TRUE(account.final());
    EXPECT_EQ(account.dispatches_delivered(), counts[i]);
    EXPECT_EQ(account.dispatches_seen(), counts[i]);
  }
  EXPECT_EQ(ids.size(), 4u);
}

// Operations in flight or lost when the file changes belong to one of the files.
TEST_F(RotationTest, AccountsOfAllFilesAddUpToTheWhole) {
  Dispatch(10);
  Account(/*seen=*/30, /*lost=*/5);  // 15 are in flight
  Rotate();
  Dispatch(12);
  Account(/*seen=*/40, /*lost=*/5);
  Rotate();
  Dispatch(8);
  Account(/*seen=*/42, /*lost=*/12, /*final=*/true);
  ASSERT_TRUE(writer_->EndProcess(stream_, {}).ok());
  ASSERT_TRUE(writer_->Close().ok());
  uint64_t seen = 0, delivered = 0, lost = 0;
  for (size_t i = 0; i < files_.size(); ++i) {
    const v1::LossAccount account = Read(i).streams[Key(0, stream_)].accounts.back();
    EXPECT_EQ(account.dispatches_seen() + account.copies_seen(), Accounted(account))
        << i;
    seen += account.dispatches_seen();
    delivered += account.dispatches_delivered();
    lost += account.dropped_ring_full();
  }
  EXPECT_EQ(seen, 42u);
  EXPECT_EQ(delivered, 30u);
  EXPECT_EQ(lost, 12u);
}

// Recorders set an account when something is lost, and at the end.
TEST_F(RotationTest, FilesHaveAccountsThoughNoneWasGiven) {
  for (size_t count : {40, 7}) {
    Dispatch(count);
    Rotate();
  }
  Dispatch(53);
  Account(/*seen=*/100, /*lost=*/0, /*final=*/true);
  ASSERT_TRUE(writer_->EndProcess(stream_, {}).ok());
  ASSERT_TRUE(writer_->Close().ok());
  const size_t counts[] = {40, 7, 53};
  for (size_t i = 0; i < files_.size(); ++i) {
    const KeepingVisitor seen = Read(i);
    const auto& accounts = seen.streams.at(Key(0, stream_)).accounts;
    ASSERT_FALSE(accounts.empty()) << i;
    EXPECT_TRUE(accounts.back().final());
    EXPECT_EQ(accounts.back().dispatches_seen(), counts[i]);
    EXPECT_EQ(accounts.back().dispatches_delivered(), counts[i]);
  }
}

// A process that was not attached to has no account in any file.
TEST_F(RotationTest, AProcessWithoutRecordsHasNoAccount) {
  Rotate();
  ASSERT_TRUE(writer_->Close().ok());
  const KeepingVisitor seen = Read(0);
  EXPECT_TRUE(seen.streams.at(Key(0, stream_)).accounts.empty());
}

TEST_F(RotationTest, LostCopiesDoNotMakeLaterFilesWrong) {
  Dispatch(1);
  v1::LossAccount account;
  account.set_dispatches_seen(1);
  account.set_copies_seen(20);
  account.set_dropped_ring_full(20);
  ASSERT_TRUE(writer_->SetAccount(stream_, account).ok());
  Rotate();
  std::mt19937_64 random(1);
  ASSERT_TRUE(writer_->Append<CopyKind>(stream_, RandomCopies(4, &random)).ok());
  account.set_copies_seen(24);
  account.set_final(true);
  ASSERT_TRUE(writer_->SetAccount(stream_, account).ok());
  ASSERT_TRUE(writer_->EndProcess(stream_, {}).ok());
  ASSERT_TRUE(writer_->Close().ok());
  for (size_t i = 0; i < files_.size(); ++i) {
    const v1::LossAccount part = Read(i).streams[Key(0, stream_)].accounts.back();
    EXPECT_EQ(part.dispatches_seen() + part.copies_seen(), Accounted(part)) << i;
  }
}

TEST_F(RotationTest, ProcessesThatEndedBeforeAreNotInLaterFiles) {
  v1::Process other;
  other.set_pid(12);
  const StreamId gone = writer_->OpenProcess(other);
  ASSERT_TRUE(writer_->EndProcess(gone, {}).ok());
  EXPECT_EQ(Rotate().streams, 2u);
  ASSERT_TRUE(writer_->Close().ok());
  KeepingVisitor later = Read(1);
  EXPECT_EQ(later.streams.count(Key(0, gone)), 0u);
  EXPECT_EQ(later.stream_ends.at(0).streams(), 1u);
}

}  // namespace
}  // namespace rocattach
