// The memory that a target shares with the service, and all uses of it by the service:
// the input is a sequence of commands (commands.h), some of the target, which writes
// anything it wants, some of the service, which must keep its guarantees. There is no
// real process.
#include <google/protobuf/stubs/logging.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tests/fuzz/record/commands.h"
#include "tests/fuzz/record/fuzz_input.h"
#include "tests/fuzz/record/hostile_collector.h"
#include "tests/fuzz/record/session_checks.h"
#include "tests/fuzz/stream/wrapped_frames.h"
#include "tests/temporary_directory.h"
#include "tests/unit/record/made_up_event.h"
#include "userspace/base/clock.h"
#include "userspace/record/drain/ring_views.h"
#include "userspace/record/target.h"
#include "userspace/report/report.h"
#include "userspace/stream/decoder.h"
#include "userspace/stream/reader.h"

namespace rocattach {
namespace {

constexpr int kMostCommands = 128;
constexpr uint64_t kSlotsOfAll =
    uint64_t{FakeCollector::kRings} * FakeCollector::kSlots;
// Each call at the end takes one record at least, in a few sweeps.
constexpr uint64_t kMostRounds = 8 * (kSlotsOfAll + FakeCollector::kInflight);
// A ring without its first page.
constexpr uint64_t kViewBytes = 4096;
constexpr uint64_t kWindowNs = 5'000'000'000;
constexpr uint64_t kMsec = 1'000'000;

// Memory, if there is a file system for it: each run writes a file.
const char* ParentFolder() {
  return access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
}

Window AttachedWindow() {
  Window window;
  window.event = MadeUpEvent(ROCATTACH_EVENT_WINDOW, 0, kWindowNs);
  window.event.mode = ROCATTACH_WINDOW_HELD;
  window.attach_tried = true;
  window.outcome.stage = AttachStage::kDone;
  return window;
}

class Run {
 public:
  explicit Run(absl::Span<const uint8_t> bytes)
      : input_(bytes),
        settings_(input_.Read<uint8_t>()),
        views_(settings_ & kFuzzOneView ? kViewBytes : 2 * kViewBytes),
        views_before_(views_.left()) {
    auto output = OutputSet::Open({directory_.path(), "run", {}});
    Require(output.ok());
    output_.emplace(*std::move(output));
  }

  void Execute() {
    Attach();
    for (int i = 0; i < kMostCommands && !input_.empty(); ++i) Step();
    End();
    Require(output_->Close({}).ok());
    CheckRecording();
  }

 private:
  uint64_t Now() const { return BootNs() + later_ns_; }

  void Attach() {
    const auto stream = output_->OpenProcess({}, {});
    Require(stream.ok());
    target_.emplace(AttachedWindow(), *stream, v1::Process(), &*output_);
    Require(target_->Drain(Now()) == 0 && !target_->Rests(Now()));
    auto memory =
        CollectorMemory::MapFd(collector_.memory()->fd(), FakeCollector::Config());
    Require(memory.ok());
    if (settings_ & kFuzzTakeOver) Require((*memory)->TakeOver(Now()).ok());
    (*memory)->ViewWith(&views_);
    target_->SetMemory(*std::move(memory), true, true);
    target_->SetMeter(meter_);
  }

  void Step() {
    const auto command = static_cast<FuzzCommand>(
        input_.Read<uint8_t>() % static_cast<uint8_t>(FuzzCommand::kCount));
    switch (command) {
      case FuzzCommand::kWrite:
        return collector_.Write(&input_);
      case FuzzCommand::kSetField:
        return collector_.SetField(&input_);
      case FuzzCommand::kAddToField:
        return collector_.AddToField(&input_);
      case FuzzCommand::kPublish:
        return collector_.Publish(&input_);
      case FuzzCommand::kAddEntry:
        return collector_.AddEntry(&input_);
      case FuzzCommand::kAddInflight:
        return collector_.AddInflight(&input_);
      case FuzzCommand::kPunchHole:
        return collector_.PunchHole(&input_);
      case FuzzCommand::kAnswer:
        return collector_.Answer(&input_);
      case FuzzCommand::kDrain: {
        const uint64_t budget = input_.Read<uint16_t>();
        return WithoutFillingHoles([&] { Drain(budget == 0 ? UINT64_MAX : budget); });
      }
      case FuzzCommand::kLook:
        return WithoutFillingHoles([this] { Look(); });
      case FuzzCommand::kSampling:
        return target_->SetSampling(SamplingLevel::OneIn(input_.Read<uint16_t>()), "");
      case FuzzCommand::kDuringCall:
        return PrepareCall();
      default:
        return SessionStep(command);
    }
  }

  void SessionStep(FuzzCommand command) {
    TargetSession* const session = target_->session();
    switch (command) {
      case FuzzCommand::kStart:
        return Start(input_.Read<uint8_t>());
      case FuzzCommand::kStop:
        return session->Stop();
      case FuzzCommand::kSettle:
        return input_.Read<uint8_t>() % 2 == 0 ? session->Settle(Expected())
                                               : session->AfterDrain(Expected());
      case FuzzCommand::kPoll:
        later_ns_ += input_.Read<uint8_t>() * 16 * kMsec;
        Require(session->Poll(Now()) == session->awaited());
        return;
      default:  // kRest
        target_->RestUntil(Now() + input_.Read<uint8_t>() * kMsec);
        (void)target_->Rests(Now());
        return;
    }
  }

  // Returns a callback that must be called, exactly once.
  TargetSession::Done Expected() {
    auto called = std::make_shared<bool>(false);
    ++calls_expected_;
    return [this, called](const absl::Status&) {
      Require(!std::exchange(*called, true));
      --calls_expected_;
    };
  }

  void Start(uint8_t number) {
    std::shared_ptr<const CompiledPlan> plan = FuzzPlan(number);
    auto sink = std::make_shared<CheckingSink>(plan, /*reads=*/sessions_ % 2 == 0,
                                               [this] { OnCall(); });
    target_->session()->Start(std::move(plan), std::move(sink), ++sessions_,
                              Expected());
  }

  // While records are taken, a target may write and a program may control its sessions.
  void PrepareCall() {
    const auto what = static_cast<FuzzDuringCall>(
        input_.Read<uint8_t>() % static_cast<uint8_t>(FuzzDuringCall::kCount));
    if (what == FuzzDuringCall::kStop) {
      during_call_ = [this] { target_->session()->Stop(); };
    } else if (what == FuzzDuringCall::kStart) {
      during_call_ = [this, number = input_.Read<uint8_t>()] { Start(number); };
    } else {
      std::vector<uint8_t> operands;
      for (const uint8_t byte : input_.ReadBytes(4)) operands.push_back(byte);
      operands.push_back(input_.Read<uint8_t>());
      for (const uint8_t byte : input_.ReadBytes(operands.back())) {
        operands.push_back(byte);
      }
      during_call_ = [this, operands = std::move(operands)] {
        FuzzInput write(operands);
        collector_.Write(&write);
        wrote_during_call_ = true;
      };
    }
  }
  void OnCall() {
    if (during_call_ != nullptr) std::exchange(during_call_, nullptr)();
  }

  void Drain(uint64_t budget) { Require(target_->Drain(Now(), budget) <= kSlotsOfAll); }

  void Look() {
    target_->SettleFromCollector();
    (void)target_->TakeLoadCheck();
    (void)target_->uncalled();
    (void)target_->HasOpenOperations();
    (void)target_->session()->Describe("");
    (void)target_->session()->TakeDispatchesBefore();
    (void)target_->Account(/*final=*/false);
    target_->WriteLosses();
    target_->UpdateMeter();
    output_->Flush(Now());
  }

  // Whatever the service reads of the target's memory, it allocates no page of it.
  void WithoutFillingHoles(const std::function<void()>& read) {
    const std::vector<bool> before = collector_.PagesWithContents();
    wrote_during_call_ = false;
    read();
    if (!wrote_during_call_) Require(collector_.PagesWithContents() == before);
  }

  void End() {
    const uint64_t budget = settings_ / 4 + 1;
    WithoutFillingHoles([&] {
      uint64_t rounds = 0;
      while (!target_->DrainLast(Now(), budget)) Require(++rounds < kMostRounds);
      Require(target_->DrainLast(Now(), budget));
    });
    taken_ = target_->counts();
    v1::ProcessEnd end;
    end.set_how(v1::ProcessEnd::EXITED);
    account_ = target_->Close(end);
    Require(account_.final());
    Require(calls_expected_ == 0);
    Require(meter_->ended && meter_->dispatches == taken_.dispatches &&
            meter_->copies == taken_.copies);
    target_.reset();
    Require(views_.left() == views_before_);
  }

  void CheckRecording() {
    ReportBuilder builder;
    StreamDecoder decoder(&builder);
    Require(ReadStream(directory_ / "run.rwa", {}, &decoder).ok());
    const ReadStats& stats = decoder.stats();
    Require(!stats.damaged() && stats.lost_records == 0 && stats.unknown_frames == 0);
    Require(stats.recordings == 1 && stats.recordings_ended == 1);
    const Report report = builder.Finish(stats);
    Require(report.recordings.size() == 1);
    Require(report.recordings[0].processes.size() == 1);
    CheckProcess(*report.recordings[0].processes[0]);
  }

  void CheckProcess(const ProcessReport& process) {
    Require(process.account.has_value() &&
            process.account->SerializeAsString() == account_.SerializeAsString());
    Require(process.end.has_value());
    Require(process.Imbalance() == 0);
    CheckTotals();
    Require(process.dispatches == taken_.dispatches &&
            process.dispatches == account_.dispatches_delivered());
    Require(process.copies_count == taken_.copies &&
            process.copies_count == account_.copies_delivered());
    Require(process.api_call_count == account_.api_calls_delivered());
    Require(process.memory_count == account_.memory_delivered());
    // Adjacent records with the same number count as one for a reader.
    Require(process.counted <= account_.counted_delivered());
    Require(process.samples <= account_.samples_delivered());
  }

  // Imbalance() would not notice a sum that wraps around.
  void CheckTotals() const {
    using Wide = unsigned __int128;
    const Wide seen = Wide{account_.dispatches_seen()} + account_.copies_seen();
    const Wide accounted = Wide{account_.dispatches_delivered()} +
                           account_.copies_delivered() + account_.dropped_ring_full() +
                           account_.dropped_collector() + account_.dropped_invalid() +
                           account_.dropped_inflight() + account_.dropped_writer() +
                           account_.sampled_out();
    Require(seen == accounted);
  }

  FuzzInput input_;
  const uint8_t settings_;
  const testing_support::TemporaryDirectory directory_{ParentFolder()};
  std::optional<OutputSet> output_;
  HostileCollector collector_;
  RingViews views_;
  const uint64_t views_before_;
  const std::shared_ptr<CheckingMeter> meter_ = std::make_shared<CheckingMeter>();
  std::optional<Target> target_;
  uint64_t later_ns_ = 0;
  uint64_t sessions_ = 0;
  int calls_expected_ = 0;
  std::function<void()> during_call_;
  bool wrote_during_call_ = false;
  OperationCounts taken_;
  v1::LossAccount account_;
};

}  // namespace
}  // namespace rocattach

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  google::protobuf::SetLogHandler(nullptr);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  rocattach::Run(absl::MakeConstSpan(data, size)).Execute();
  return 0;
}
