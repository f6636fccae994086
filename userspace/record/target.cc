#include "userspace/record/target.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "userspace/base/clock.h"
#include "userspace/base/errno_status.h"
#include "userspace/record/drain/belief.h"
#include "userspace/record/drain/convert.h"
#include "userspace/record/window_state.h"
#include "userspace/stream/hold.h"

namespace rocattach {
namespace {

// The slots, and what is made of them, stay in the processor's nearest caches.
constexpr size_t kDrainSlots = 1024;
// Bytes of dictionary entries that one call of Drain() copies, and operations in flight
// that are read at once.
constexpr uint64_t kEntryBytesAtOnce = 128 << 10;
constexpr uint32_t kInflightAtOnce = 4096;
// Draining many records at once costs less per record, so one in this many slots of a
// resting target's ring may fill before.
constexpr uint32_t kRestingPartOfRing = 16;
// Costs in dispatches; an entry costs more if it is long.
constexpr uint64_t kEntryCost = 8;
constexpr uint64_t kEntryBytesPerCost = 16;
constexpr uint64_t kInflightCost = 512;
// Maximum cost of a record. It limits the number of slots read at once, so that a
// budget is not exceeded by much.
constexpr uint64_t kMostSlotCost = 32;
constexpr uint64_t kLeastSlots = 16;

}  // namespace

Target::Target(Window window, ProcessOutput output, v1::Process process,
               OutputSet* output_set, std::shared_ptr<UserMemory> user,
               AgentTopology* topology)
    : output_(output),
      output_set_(output_set),
      process_(std::move(process)),
      user_(user != nullptr ? std::move(user) : std::make_shared<UserMemory>()),
      topology_(topology) {
  const ProcessId id = ProcessIdOf(window.event);
  auto fd = OpenPidFd(id.pid);
  was_gone_ = ErrnoOf(fd.status()) == ESRCH;
  if (fd.ok()) {
    // Only if it is still the same process: the pid may have been reused since.
    auto ticks = ReadStartTicks(id.pid);
    was_gone_ = !ticks.ok() || *ticks != id.start_ticks;
    if (!was_gone_) pidfd_ = *std::move(fd);
  }
  Reopen(std::move(window));
}

OperationCounts Target::counts() const {
  return records_ != nullptr ? records_->counts().operations : OperationCounts();
}

void Target::Reopen(Window window) {
  rests_until_ns_ = 0;
  opened_ = std::move(window);
  verdict_ = opened_.verdict;
  load_check_due_ = true;
  window_ = v1::WindowEvent();
  hold_taken_ = false;
  if (opened_.attach_tried) {
    FillOutcome(opened_.outcome, &window_);
  } else {
    // The budget, if the window was refused because of one.
    window_.set_reason(static_cast<v1::AttachReason>(opened_.outcome.reason));
  }
  window_.set_mode(static_cast<v1::WindowMode>(opened_.event.mode));
  window_.set_tid(opened_.event.tid);
  // A late attach at a call begins before the call.
  const bool at_call =
      opened_.event.mode == ROCATTACH_WINDOW_SIGNALLED && IsLate(opened_.event);
  window_.set_hit_ns(at_call ? opened_.outcome.stopped_ns : opened_.event.time_ns);
  window_.set_detail(opened_.reason.empty() ? opened_.outcome.detail : opened_.reason);
  WriteVerdict(StateOf(verdict_));
}

void Target::WriteVerdict(v1::WindowState state) {
  // Nothing is expected from the stub any more.
  if (state != v1::WINDOW_STATE_OPEN) opened_.outcome.load_report.reset();
  window_.set_time_ns(BootNs());
  window_.set_state(state);
  output_set_->KeepError(output_.writer->AddWindowEvent(output_.stream, window_));
}

void Target::SetWorkload(v1::Workload workload) {
  *process_.mutable_workload() = workload;
  output_set_->KeepError(
      output_.writer->SetWorkload(output_.stream, std::move(workload)));
}

void Target::OnHoldEnd(const rocattach_event& event) {
  if (event.hold_end.window_ns != opened_.event.time_ns) return;
  window_.set_hold_end_ns(event.time_ns);
  window_.set_probe_ns(event.hold_end.held_ns);
  window_.set_hold_end(static_cast<v1::HoldEnd>(event.mode));
  // A verdict that was written without this information is written again.
  if (verdict_ != Verdict::kOpen) WriteVerdict(StateOf(verdict_));
}

uint64_t Target::TakeHoldNs() {
  if (hold_taken_) return 0;
  const uint64_t hold_ns = HoldNs(window_);
  hold_taken_ = hold_ns != 0;
  return hold_ns;
}

ProcessId Target::id() const {
  return ProcessIdOf(opened_.event);
}

void Target::AcknowledgeMapped() {
  if (memory_ == nullptr || std::exchange(acknowledged_, true)) return;
  memory_->control().AcknowledgeMapped();
}

void Target::SetMemory(std::unique_ptr<CollectorMemory> memory, bool recording,
                       bool acknowledged) {
  if (memory_ != nullptr) {  // reported before: the same memory, armed again
    if (!acknowledged) memory_->control().AcknowledgeMapped();
    return;
  }
  memory_ = std::move(memory);
  acknowledged_ = acknowledged;
  session_ = std::make_unique<TargetSession>(id(), memory_.get(), output_, output_set_);
  dictionary_ = std::make_unique<TargetDictionary>(output_, output_set_, session_.get(),
                                                   user_, topology_);
  records_ =
      std::make_unique<TargetRecords>(process_, output_, output_set_, session_.get(),
                                      dictionary_.get(), memory_->ring_count());
  if (!recording || memory_->taken_over()) memory_->control().SetRecording(recording);
}

void Target::SetMeter(std::shared_ptr<TargetMeter> meter) {
  meter_ = std::move(meter);
  records_->set_meter(meter_.get());
  session_->records()->set_meter(meter_.get());
}

void Target::UpdateMeter() {
  if (meter_ == nullptr) return;
  ReadOwnNs();
  NotifyMeter(Account(/*final=*/false));
}

void Target::ReadOwnNs() {
  if (memory_ == nullptr || !not_believable_.empty()) return;
  const uint64_t now = BootNs();
  const uint64_t lifetime_ns = now - std::min(now, opened_.event.start_ns);
  const auto processors =
      static_cast<uint64_t>(std::max(1L, sysconf(_SC_NPROCESSORS_CONF)));
  // Never decreases: it is a total.
  own_ns_ =
      std::max(own_ns_, std::min(memory_->Account().own_ns, lifetime_ns * processors));
}

void Target::NotifyMeter(v1::LossAccount account) {
  TargetStanding standing;
  standing.account = std::move(account);
  standing.gpus = session_->Gpus();
  standing.counted_gpus = session_->CountedGpus();
  standing.counting_session = session_->counting_session();
  standing.external_gpus = session_->external_gpus();
  standing.ring_fill = memory_->TakeRingFill();
  standing.own_ns = own_ns_;
  meter_->Update(standing);
}

bool Target::SettleFromCollector() {
  if (verdict_ != Verdict::kOpen || memory_ == nullptr) return false;
  uint32_t state = memory_->control().state();
  if (state == ROCATTACH_STATE_REFUSED) {
    *window_.mutable_collector() = memory_->control().Describe();
    Settle(
        Verdict::kRefused, AttachReason::kCollectorRefused,
        absl::StrCat("the collector refused: ", CleanText(memory_->control().text())));
    return true;
  }
  if (state != ROCATTACH_STATE_ARMED && state != ROCATTACH_STATE_UNLOADED &&
      state != ROCATTACH_STATE_ENDED) {
    return false;
  }
  // A collector that was armed before the runtime was shut down has to arm again.
  if (memory_->control().armed_ns() < opened_.event.time_ns && !memory_->taken_over()) {
    return false;
  }
  window_.set_armed_ns(memory_->control().armed_ns());
  *window_.mutable_collector() = memory_->control().Describe();
  verdict_ = Verdict::kAttached;
  WriteVerdict(v1::WINDOW_STATE_ATTACHED);
  return true;
}

void Target::SettleUnarmed(const std::string& detail) {
  *window_.mutable_collector() = memory_->control().Describe();
  window_.set_detail(detail);
  verdict_ = Verdict::kAttached;
  WriteVerdict(v1::WINDOW_STATE_ATTACHED);
}

void Target::Settle(Verdict verdict, AttachReason reason, const std::string& detail,
                    int error) {
  verdict_ = verdict;
  window_.set_stage(v1::ATTACH_STAGE_REPORT);
  window_.set_reason(static_cast<v1::AttachReason>(reason));
  window_.set_detail(detail);
  if (error != 0) window_.set_error(static_cast<uint32_t>(error));
  WriteVerdict(StateOf(verdict));
}

void Target::SetRecording(bool recording) {
  if (memory_ != nullptr) memory_->control().SetRecording(recording);
}

void Target::EndRecording() {
  if (memory_ == nullptr) return;
  session_->Close();
  // rocprofiler-sdk delivers what it still has when it detaches.
  if (window_.mode() != v1::WINDOW_MODE_LISTENER)
    memory_->control().SetRecording(false);
}

void Target::SetSampling(const SamplingLevel& level, const std::string& reason) {
  if (memory_ == nullptr) return;
  v1::SamplingEvent event;
  // Taken first, so that whatever is recorded at the new level was submitted later.
  event.set_time_ns(BootNs());
  memory_->control().SetSampling(level.abi());
  event.set_level(level.counts_only() ? v1::SamplingEvent::COUNTS_ONLY
                  : level.every()     ? v1::SamplingEvent::EVERY
                                      : v1::SamplingEvent::SAMPLED);
  if (!level.counts_only() && !level.every()) event.set_divisor(level.divisor());
  event.set_reason(reason);
  records_->SetSampling(event.time_ns(), level);
  output_set_->KeepError(
      output_.writer->AddSamplingEvent(output_.stream, std::move(event)));
}

void Target::CheckBelief(uint64_t now_ns) {
  Evidence evidence;
  evidence.claims = memory_->Account();
  evidence.readable = memory_->intact();
  evidence.all_rings = memory_->all_rings_read();
  evidence.dictionary_ok = memory_->dictionary_ok();
  // Operations that the sessions' exact filters rejected were consumed as well.
  const TargetRecords::Counts& consumed = records_->counts();
  evidence.taken = consumed.operations.dispatches + consumed.operations.copies +
                   session_->counts().filtered;
  evidence.invalid = consumed.invalid;
  evidence.nonsense = consumed.malformed + dictionary_->malformed();
  evidence.lifetime_ns = now_ns - std::min(now_ns, opened_.event.start_ns);
  evidence.room = memory_->room();
  not_believable_ = WhyNotBelievable(evidence);
  if (not_believable_.empty()) return;
  sweeping_ = false;
  session_->NotRead();
  memory_->control().SetRecording(false);
  memory_->StopReading();
  output_set_->KeepError(output_.writer->SetAccount(output_.stream, Account(false)));
}

uint64_t Target::ReadDictionary(uint64_t budget) {
  uint64_t spent = 0;
  while (!memory_->dictionary_read() && spent < budget) {
    // As many entries as the budget allows if they are short.
    static_assert(sizeof(rocattach_entry) >= kEntryBytesPerCost);
    const uint64_t most = kEntryBytesPerCost * ((budget - spent) / kEntryCost);
    const auto entries = memory_->NewEntries(std::min(kEntryBytesAtOnce, most));
    spent += kEntryCost;
    for (const std::vector<uint8_t>& bytes : entries) {
      dictionary_->AddEntry(bytes);
      spent += kEntryCost + bytes.size() / kEntryBytesPerCost;
    }
  }
  return spent;
}

uint64_t Target::DrainRings(uint64_t budget, uint64_t* records) {
  thread_local std::vector<RecordSlot> slots(kDrainSlots);
  const uint32_t rings = memory_->rings_used();
  uint64_t spent = 0;
  // Takes some of each ring in turn, also across calls.
  uint32_t empty = 0;
  while (empty < rings && spent < budget) {
    if (++next_ring_ >= rings) next_ring_ = 0;
    const size_t most = std::clamp<uint64_t>((budget - spent) / kMostSlotCost,
                                             kLeastSlots, kDrainSlots);
    size_t count = 0;
    if (const auto view = memory_->View(next_ring_, most); !view.empty()) {
      count = view.size();
      spent += records_->Consume(next_ring_, view);
      memory_->EndView();
    } else {
      count = memory_->Drain(next_ring_, absl::MakeSpan(slots).first(most));
      const auto copied = absl::MakeConstSpan(slots).first(count);
      if (count != 0) spent += records_->Consume(next_ring_, copied);
    }
    empty = count == 0 ? empty + 1 : 0;
    *records += count;
  }
  if (empty >= rings) sweeping_ = false;
  return spent;
}

uint64_t Target::Drain(uint64_t now_ns, uint64_t budget) {
  cost_ = 0;
  if (memory_ == nullptr) return 0;
  if (!not_believable_.empty()) {
    session_->NotRead();
    return 0;
  }
  if (!std::exchange(sweeping_, true)) memory_->Snapshot();
  uint64_t records = 0;
  cost_ = ReadDictionary(budget);
  // Not before all dictionary entries that records may refer to have been read.
  if (memory_->dictionary_read()) {
    cost_ += DrainRings(budget - std::min(cost_, budget), &records);
  }
  memory_->Heartbeat(now_ns);
  if (!sweeping_) session_->Drained();
  CheckBelief(now_ns);
  return records;
}

void Target::RestUntil(uint64_t until_ns) {
  rests_until_ns_ = until_ns;
  // The records of a session are wanted at once.
  most_while_resting_ =
      session_->active() ? 0 : memory_->ring_slots() / kRestingPartOfRing;
}

bool Target::Rests(uint64_t now_ns) const {
  return now_ns < rests_until_ns_ && memory_ != nullptr && !session_->awaited() &&
         (!not_believable_.empty() || !memory_->HasNews(most_while_resting_));
}

// A thread that captures an operation counts it as seen first. If it is preempted
// before the operation is in the table, no other number includes it.
bool Target::HasOpenOperations() const {
  if (memory_ == nullptr || !not_believable_.empty()) return false;
  return memory_->Account().inflight != 0 || Account(true).dropped_inflight() != 0;
}

bool Target::FinishSweeps(uint64_t now_ns, uint64_t* budget) {
  for (; sweeps_left_ > 0; --sweeps_left_) {
    Drain(now_ns, *budget);
    if (!not_believable_.empty()) return true;
    if (sweeping_) return false;
    *budget -= std::min(cost_, *budget);
  }
  return true;
}

// A process that runs on finishes operations while we read: each leaves the table for a
// ring, where it is published before its entry is freed. For each part of the table:
// 1. The entries are copied.
// 2. A sweep reads all records that had been published when it began. An operation in
//    the copy that is not among them was still in flight then.
// 3. It is recorded as unfinished. If its record arrives later, that is ignored.
// The last sweep reads what was captured or published after the table was read.
bool Target::DrainLast(uint64_t now_ns, uint64_t budget) {
  if (memory_ == nullptr || !not_believable_.empty()) return true;
  if (!std::exchange(ending_, true)) {
    // The current sweep began while the process may still have been alive.
    sweeps_left_ = sweeping_ ? 2 : 1;
  }
  for (;;) {
    if (!FinishSweeps(now_ns, &budget)) return false;
    if (!not_believable_.empty()) return true;
    ConsumeUnfinished();
    if (inflight_read_ >= memory_->inflight_count()) break;
    if (budget == 0) return false;
    budget -= std::min(ReadUnfinished(), budget);
  }
  CheckBelief(now_ns);
  return true;
}

uint64_t Target::ReadUnfinished() {
  records_->BeginEnd(memory_->inflight_count());
  if (memory_->Account().inflight == 0) {
    // Operations that have left the table by now are in the rings.
    inflight_read_ = memory_->inflight_count();
    sweeps_left_ = 1;
    return 0;
  }
  unfinished_ = memory_->UnfinishedRecords(inflight_read_, kInflightAtOnce);
  inflight_read_ += kInflightAtOnce;
  const bool is_last = inflight_read_ >= memory_->inflight_count();
  if (!unfinished_.empty() || is_last) sweeps_left_ = 1;
  return kInflightCost + unfinished_.size();
}

void Target::ConsumeUnfinished() {
  for (const RecordSlot& slot : unfinished_) records_->ConsumeUnfinished(slot);
  records_->Write();
  unfinished_.clear();
}

v1::LossAccount Target::Account(bool final) const {
  v1::LossAccount account;
  account.set_time_ns(BootNs());
  account.set_final(final);
  account.set_unseen_work(unseen_work_);
  if (memory_ == nullptr) return account;
  const TargetRecords::Counts& consumed = records_->counts();
  account.set_dropped_invalid(consumed.invalid);
  account.set_untimed(consumed.untimed);
  account.set_unfinished(consumed.unfinished);
  account.set_times_not_believable(consumed.times_not_believable);
  if (!not_believable_.empty()) {
    // Use none of the target's numbers; the valid records are in the stream.
    account.set_not_believable(not_believable_);
    account.set_dispatches_seen(consumed.operations.dispatches + consumed.invalid);
    account.set_copies_seen(consumed.operations.copies);
    return account;
  }
  const SessionCounts& sessions = session_->counts();
  CollectorAccount in_target = memory_->SettledAccount(
      consumed.operations.dispatches + consumed.operations.copies + consumed.invalid +
      sessions.filtered);
  // Dispatches that the exact filter rejected do not count as seen.
  in_target.dispatches_seen -= std::min(sessions.filtered, in_target.dispatches_seen);
  account.set_dispatches_seen(in_target.dispatches_seen);
  account.set_counted_seen(in_target.counted_seen -
                           std::min(sessions.counted_filtered, in_target.counted_seen));
  account.set_counted_dropped(in_target.counted_dropped + in_target.values_dropped +
                              sessions.counted_invalid);
  account.set_samples_seen(in_target.samples_seen);
  account.set_samples_dropped(in_target.samples_dropped + sessions.samples_invalid);
  account.set_api_calls_seen(in_target.api_calls_seen);
  account.set_api_calls_dropped(in_target.api_calls_dropped +
                                sessions.api_calls_invalid);
  account.set_memory_seen(in_target.memory_seen);
  account.set_memory_dropped(in_target.memory_dropped + sessions.memory_invalid);
  account.set_copies_seen(in_target.copies_seen);
  account.set_dropped_ring_full(in_target.ring_dropped);
  account.set_dropped_collector(in_target.other_dropped);
  account.set_sampled_out(in_target.sampled_out);
  account.set_packets_unseen(in_target.packets_unseen);
  account.set_inflight(in_target.inflight);
  account.set_dictionary_dropped(in_target.dictionary_dropped + dictionary_->refused());
  if (final) {
    // Operations that the collector counted and neither published nor declared lost:
    // captured at the moment of death, or in a corrupt ring.
    uint64_t known = consumed.operations.dispatches + consumed.operations.copies +
                     in_target.ring_dropped + in_target.other_dropped +
                     in_target.sampled_out + consumed.invalid;
    uint64_t seen = in_target.dispatches_seen + in_target.copies_seen;
    account.set_dropped_inflight(seen > known ? seen - known : 0);
  }
  return account;
}

bool Target::CompareWithDriver(const DriverReading& driver) {
  if (verdict_ != Verdict::kAttached || memory_ == nullptr ||
      !not_believable_.empty() || !unseen_work_.empty()) {
    return false;
  }
  const CollectorAccount account = memory_->Account();
  const uint64_t baseline = memory_->control().baseline();
  CollectorReading collector;
  collector.dispatches_on = (baseline & ROCATTACH_RECORDING_DISPATCHES) != 0;
  collector.copies_on = (baseline & ROCATTACH_RECORDING_COPIES) != 0;
  collector.dispatches = account.dispatches_seen;
  collector.copies = account.copies_seen;
  collector.unseen = account.packets_unseen;
  collector.inflight = account.inflight;
  collector.not_followed = account.sampled_out + account.dispatches_untimed;
  unseen_work_ = evidence_.Compare(driver, collector);
  if (unseen_work_.empty()) return false;
  output_set_->KeepError(output_.writer->SetAccount(output_.stream, Account(false)));
  return true;
}

void Target::WriteLosses() {
  if (memory_ == nullptr || !not_believable_.empty()) return;
  const v1::LossAccount account = Account(false);
  const uint64_t losses = account.dropped_ring_full() + account.dropped_collector() +
                          account.dropped_invalid() + account.packets_unseen() +
                          account.counted_dropped() + account.samples_dropped() +
                          account.api_calls_dropped() + account.memory_dropped() +
                          account.sampled_out();
  if (std::exchange(losses_written_, losses) == losses) return;
  output_set_->KeepError(output_.writer->SetAccount(output_.stream, account));
}

v1::LossAccount Target::Close(v1::ProcessEnd end) {
  if (session_ != nullptr) session_->Ended();
  if (memory_ != nullptr) {
    end.set_collector_ended(memory_->control().state() == ROCATTACH_STATE_ENDED ||
                            memory_->control().state() == ROCATTACH_STATE_UNLOADED);
  }
  v1::LossAccount account = Account(/*final=*/true);
  ReadOwnNs();  // after the release the memory may be another service's
  if (memory_ != nullptr) memory_->Release();
  output_set_->KeepError(output_.writer->SetAccount(output_.stream, account));
  if (const v1::LossAccount* written = output_.writer->account(output_.stream)) {
    account = *written;
  }
  output_set_->EndProcess(output_, std::move(end));
  if (meter_ != nullptr) {
    NotifyMeter(account);
    meter_->End();
  }
  return account;
}

bool Target::IsGone() const {
  if (!pidfd_.valid()) {
    const bool is_late = verdict_ == Verdict::kMissed ||
                         opened_.outcome.reason == AttachReason::kTargetExited;
    return was_gone_ && is_late && memory_ == nullptr;
  }
  pollfd fd = {pidfd_.get(), POLLIN, 0};
  return poll(&fd, 1, 0) > 0 && (fd.revents & POLLIN) != 0;
}

}  // namespace rocattach
