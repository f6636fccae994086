#include "userspace/record/target.h"

#include <poll.h>
#include <string.h>

#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "userspace/base/clock.h"
#include "userspace/record/belief.h"
#include "userspace/record/convert.h"
#include "userspace/record/dictionary.h"

namespace rocattach {
namespace {

static_assert(offsetof(rocattach_dispatch, flags) == offsetof(rocattach_copy, flags));
static_assert(offsetof(rocattach_dispatch, correlation_id) ==
              offsetof(rocattach_copy, correlation_id));

constexpr size_t kDrainSlots = 2048;
// Bytes of dictionary entries that one call of Drain() copies, and operations in flight
// that are read at once.
constexpr uint64_t kEntryBytesAtOnce = 128 << 10;
constexpr uint32_t kInflightAtOnce = 4096;
// What they cost, in dispatches.
constexpr uint64_t kEntryCost = 8;
constexpr uint64_t kInflightCost = 512;
// For agents, queues and functions.
constexpr uint64_t kMaxSmallBytes = 1 << 20;
// In addition to an entry's own bytes.
constexpr uint64_t kEntryOverhead = 48;
// Each clock relation is kept, and repeated in key frames.
constexpr uint32_t kMaxClocks = 1024;
// An operation that lasts longer than this has a broken clock, not a long life.
constexpr uint64_t kLongestOperationNs = 24ull * 3600 * 1'000'000'000;

v1::WindowState StateOf(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOpen:
      return v1::WINDOW_STATE_OPEN;
    case Verdict::kAttached:
      return v1::WINDOW_STATE_ATTACHED;
    case Verdict::kPassed:
      return v1::WINDOW_STATE_PASSED;
    case Verdict::kRefused:
      return v1::WINDOW_STATE_REFUSED;
    case Verdict::kMissed:
      return v1::WINDOW_STATE_MISSED;
  }
  return v1::WINDOW_STATE_UNSPECIFIED;
}

bool IsOperation(const RecordSlot& slot) {
  return slot.kind() == ROCATTACH_RECORD_DISPATCH ||
         slot.kind() == ROCATTACH_RECORD_COPY;
}

// The number of an operation, which is at the same offset in dispatches and copies.
uint64_t CorrelationOf(const RecordSlot& slot) {
  uint64_t id;
  memcpy(&id, slot.bytes + offsetof(rocattach_dispatch, correlation_id), sizeof(id));
  return id;
}

// What a record costs relative to a dispatch.
uint64_t CostOf(uint16_t kind) {
  switch (kind) {
    case ROCATTACH_RECORD_CLOCK:  // has its own frame
      return 32;
    case ROCATTACH_RECORD_SAMPLE:
    case ROCATTACH_RECORD_API:
      return 4;
    case ROCATTACH_RECORD_VALUES:
      return 2;
    default:
      return 1;
  }
}

bool PlausibleTimes(uint64_t start, uint64_t end) {
  return start <= end && end - start <= kLongestOperationNs;
}

}  // namespace

Target::Target(Window window, ProcessOutput output, v1::Process process,
               OutputSet* output_set, std::shared_ptr<UserMemory> user)
    : output_(output),
      output_set_(output_set),
      process_(std::move(process)),
      user_(user != nullptr ? std::move(user) : std::make_shared<UserMemory>()) {
  const ProcessId id = ProcessIdOf(window.event);
  if (auto fd = OpenPidFd(id.pid); fd.ok()) {
    // Only if it still is the same process: the pid may have been reused since.
    auto ticks = ReadStartTicks(id.pid);
    if (ticks.ok() && *ticks == id.start_ticks) pidfd_ = *std::move(fd);
  }
  Reopen(std::move(window));
}

Target::~Target() {
  user_->dictionary_bytes -= dictionary_bytes_;
}

void Target::Reopen(Window window) {
  opened_ = std::move(window);
  verdict_ = opened_.verdict;
  window_ = v1::WindowEvent();
  if (opened_.attach_tried) {
    FillOutcome(opened_.outcome, &window_);
  } else {
    // The budget that it was refused for.
    window_.set_reason(static_cast<v1::AttachReason>(opened_.outcome.reason));
  }
  window_.set_mode(static_cast<v1::WindowMode>(opened_.event.mode));
  window_.set_tid(opened_.event.tid);
  window_.set_hit_ns(opened_.event.time_ns);
  window_.set_detail(opened_.reason.empty() ? opened_.outcome.detail : opened_.reason);
  WriteVerdict(StateOf(verdict_));
}

void Target::WriteVerdict(v1::WindowState state) {
  window_.set_time_ns(BootNs());
  window_.set_state(state);
  output_set_->Note(output_.writer->AddWindowEvent(output_.stream, window_));
}

void Target::NoteHoldEnd(const rocattach_event& event) {
  if (event.hold_end.window_ns != opened_.event.time_ns) return;
  window_.set_hold_end_ns(event.time_ns);
  window_.set_hold_ns(event.hold_end.held_ns);
  window_.set_hold_end(static_cast<v1::HoldEnd>(event.mode));
  // A verdict that was written without this information is written again.
  if (verdict_ != Verdict::kOpen) WriteVerdict(StateOf(verdict_));
}

ProcessId Target::id() const {
  return ProcessIdOf(opened_.event);
}

void Target::AcknowledgeMapped() {
  if (memory_ == nullptr || std::exchange(acknowledged_, true)) return;
  memory_->AcknowledgeMapped();
}

void Target::SetMemory(std::unique_ptr<CollectorMemory> memory, bool recording,
                       bool acknowledged) {
  if (memory_ != nullptr) {  // reported before: the same memory, armed again
    if (!acknowledged) memory_->AcknowledgeMapped();
    return;
  }
  memory_ = std::move(memory);
  acknowledged_ = acknowledged;
  session_ = std::make_unique<TargetSession>(id(), memory_.get(), output_, output_set_);
  last_correlation_.assign(memory_->ring_count(), 0);
  if (!recording) memory_->SetRecording(false);
}

bool Target::SettleFromCollector() {
  if (verdict_ != Verdict::kOpen || memory_ == nullptr) return false;
  uint32_t state = memory_->state();
  if (state == ROCATTACH_STATE_REFUSED) {
    *window_.mutable_collector() = memory_->Describe();
    Settle(Verdict::kRefused, AttachReason::kCollectorRefused,
           absl::StrCat("the collector refused: ", CleanText(memory_->text())));
    return true;
  }
  if (state != ROCATTACH_STATE_ARMED && state != ROCATTACH_STATE_UNLOADED &&
      state != ROCATTACH_STATE_ENDED) {
    return false;
  }
  // A collector that was armed before the runtime was shut down has to arm again.
  if (memory_->armed_ns() < opened_.event.time_ns) return false;
  window_.set_armed_ns(memory_->armed_ns());
  *window_.mutable_collector() = memory_->Describe();
  verdict_ = Verdict::kAttached;
  WriteVerdict(v1::WINDOW_STATE_ATTACHED);
  return true;
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
  if (memory_ != nullptr) memory_->SetRecording(recording);
}

bool Target::Keep(const DictionaryEntry& entry, uint64_t bytes) {
  uint64_t cost = bytes + kEntryOverhead;
  const bool is_kernel = std::holds_alternative<v1::Kernel>(entry);
  if (!is_kernel && !std::holds_alternative<v1::CodeObject>(entry)) {
    // These are few and small, and their information is nowhere else.
    if (small_bytes_ + cost > kMaxSmallBytes) return false;
    small_bytes_ += cost;
    return true;
  }
  if (is_kernel) cost += bytes;  // its name, for sessions
  if (dictionary_bytes_ + cost > kMaxDictionaryBytes ||
      user_->dictionary_bytes + cost > kMaxUserDictionaryBytes) {
    return false;
  }
  dictionary_bytes_ += cost;
  user_->dictionary_bytes += cost;
  return true;
}

void Target::CheckBelief(uint64_t now_ns) {
  Evidence evidence;
  evidence.claims = memory_->Account();
  evidence.readable = memory_->intact();
  evidence.all_rings = memory_->all_rings_read();
  evidence.dictionary_ok = memory_->dictionary_ok();
  // What the sessions' exact filters rejected was taken as well.
  evidence.taken = dispatches_ + copies_ + session_->counts().filtered;
  evidence.invalid = invalid_;
  evidence.nonsense = nonsense_;
  evidence.lifetime_ns = now_ns - std::min(now_ns, opened_.event.start_ns);
  evidence.room = memory_->room();
  not_believable_ = WhyNotBelievable(evidence);
  if (not_believable_.empty()) return;
  sweeping_ = false;
  session_->Drained();  // notifies waiting callers
  memory_->SetRecording(false);
  output_set_->Note(output_.writer->SetAccount(output_.stream, Account(false)));
}

uint64_t Target::ReadDictionary(uint64_t budget) {
  uint64_t spent = 0;
  while (!memory_->dictionary_read() && spent < budget) {
    const auto entries = memory_->NewEntries(kEntryBytesAtOnce);
    for (const std::vector<uint8_t>& bytes : entries) TakeEntry(bytes);
    spent += kEntryCost * (entries.size() + 1);
  }
  return spent;
}

void Target::TakeEntry(const std::vector<uint8_t>& bytes) {
  auto entry = DecodeEntry(bytes);
  if (!entry.ok()) {
    ++nonsense_;
    return;
  }
  // Dispatches are accepted even if their queue has no description.
  if (const auto* agent = std::get_if<v1::Agent>(&*entry)) {
    max_agent_ = std::max(max_agent_, agent->id());
  } else if (const auto* queue = std::get_if<v1::Queue>(&*entry)) {
    max_queue_ = std::max(max_queue_, queue->id());
  }
  if (!Keep(*entry, bytes.size())) {
    ++dictionary_refused_;
    return;
  }
  std::visit(
      [this](const auto& message) {
        using T = std::decay_t<decltype(message)>;
        StreamWriter* writer = output_.writer;
        if constexpr (std::is_same_v<T, v1::Agent>) {
          session_->AddAgent(message);
          output_set_->Note(writer->AddAgent(output_.stream, message));
        } else if constexpr (std::is_same_v<T, v1::Queue>) {
          output_set_->Note(writer->AddQueue(output_.stream, message));
        } else if constexpr (std::is_same_v<T, v1::Kernel>) {
          max_kernel_ = std::max(max_kernel_, message.id());
          session_->AddKernel(message);
          output_set_->Note(writer->AddKernel(output_.stream, message));
        } else if constexpr (std::is_same_v<T, v1::ApiFunction>) {
          session_->AddFunction(message);
        } else {
          output_set_->Note(writer->AddCodeObject(output_.stream, message));
        }
      },
      *entry);
}

uint64_t Target::DrainRings(uint64_t budget, uint64_t* records) {
  thread_local std::vector<RecordSlot> slots(kDrainSlots);
  const uint32_t rings = memory_->rings_used();
  uint64_t spent = 0;
  // Takes some of each ring in turn, also across calls.
  uint32_t empty = 0;
  while (empty < rings && spent < budget) {
    if (++next_ring_ >= rings) next_ring_ = 0;
    const size_t most = std::min<uint64_t>(kDrainSlots, budget - spent);
    const size_t count = memory_->Drain(next_ring_, absl::MakeSpan(slots).first(most));
    if (count == 0) {
      ++empty;
      continue;
    }
    empty = 0;
    for (size_t i = 0; i < count; ++i) {
      Take(next_ring_, slots[i]);
      spent += CostOf(slots[i].kind());
    }
    // Records of other kinds may follow the last operation.
    for (size_t i = count; i-- > 0;) {
      if (!IsOperation(slots[i])) continue;
      last_correlation_[next_ring_] = CorrelationOf(slots[i]);
      break;
    }
    *records += count;
    WriteRecords();
  }
  if (empty >= rings) sweeping_ = false;
  return spent;
}

uint64_t Target::Drain(uint64_t now_ns, uint64_t budget) {
  if (memory_ == nullptr || !not_believable_.empty()) return 0;
  if (!std::exchange(sweeping_, true)) memory_->Snapshot();
  uint64_t records = 0;
  const uint64_t spent = ReadDictionary(budget);
  // Not before all dictionary entries that records may refer to have been read.
  if (memory_->dictionary_read()) {
    DrainRings(budget - std::min(spent, budget), &records);
  }
  memory_->Beat(now_ns);
  if (!sweeping_) session_->Drained();
  CheckBelief(now_ns);
  return records;
}

bool Target::DrainLast(uint64_t now_ns, uint64_t budget) {
  if (memory_ == nullptr || !not_believable_.empty()) return true;
  if (!std::exchange(ending_, true)) {
    // The current sweep began while the process may still have been alive.
    sweeps_left_ = sweeping_ ? 2 : 1;
  }
  for (; sweeps_left_ > 0; --sweeps_left_) {
    const uint64_t records = Drain(now_ns, budget);
    if (!not_believable_.empty()) return true;
    if (sweeping_) return false;
    budget -= std::min(records, budget);
  }
  if (memory_->Account().inflight == 0) return true;
  uint64_t spent = 0;
  while (inflight_read_ < memory_->inflight_count() && spent < budget) {
    spent += TakeUnfinished();
  }
  if (inflight_read_ < memory_->inflight_count()) return false;
  CheckBelief(now_ns);
  return true;
}

uint64_t Target::TakeUnfinished() {
  uint64_t spent = kInflightCost;
  for (RecordSlot& slot : memory_->UnfinishedRecords(inflight_read_, kInflightAtOnce)) {
    ++spent;
    // A thread that dies between publishing a record and freeing its entry leaves it in
    // both places; it can only be the last one of its ring.
    if (absl::c_linear_search(last_correlation_, CorrelationOf(slot))) continue;
    // Flags are at the same offset in every kind of record.
    uint16_t flags;
    memcpy(&flags, slot.bytes + offsetof(rocattach_dispatch, flags), sizeof(flags));
    flags |= ROCATTACH_DISPATCH_UNTIMED | ROCATTACH_DISPATCH_UNFINISHED;
    memcpy(slot.bytes + offsetof(rocattach_dispatch, flags), &flags, sizeof(flags));
    Take(memory_->ring_count(), slot);
  }
  inflight_read_ += kInflightAtOnce;
  WriteRecords();
  return spent;
}

void Target::Take(uint32_t ring, const RecordSlot& slot) {
  switch (slot.kind()) {
    case ROCATTACH_RECORD_DISPATCH: {
      rocattach_dispatch record;
      memcpy(&record, slot.bytes, sizeof(record));
      TakeDispatch(ring, record);
      return;
    }
    case ROCATTACH_RECORD_COPY: {
      rocattach_copy record;
      memcpy(&record, slot.bytes, sizeof(record));
      TakeCopy(record);
      return;
    }
    case ROCATTACH_RECORD_CLOCK: {
      rocattach_clock record;
      memcpy(&record, slot.bytes, sizeof(record));
      TakeClock(record);
      return;
    }
    // What sessions collect has separate accounts.
    case ROCATTACH_RECORD_VALUES:
      ++other_records_;
      session_->records()->TakeValues(ring, slot);
      return;
    case ROCATTACH_RECORD_SAMPLE:
      ++other_records_;
      session_->records()->TakeSample(ring, slot);
      return;
    case ROCATTACH_RECORD_API:
      ++other_records_;
      session_->records()->TakeApiCall(slot);
      return;
    default:
      ++nonsense_;
  }
}

void Target::TakeDispatch(uint32_t ring, rocattach_dispatch record) {
  if (record.kind != ROCATTACH_RECORD_DISPATCH || record.queue_id > max_queue_ ||
      record.agent_id > max_agent_) {
    ++invalid_;
    return;
  }
  // A kernel whose name did not fit the dictionary is still a dispatch.
  if (record.kernel_id > max_kernel_) record.kernel_id = 0;
  if (!PlausibleTimes(record.start_ns, record.end_ns)) {
    record.flags |= ROCATTACH_DISPATCH_UNTIMED;
  }
  if (record.flags & ROCATTACH_DISPATCH_UNTIMED) {
    record.start_ns = record.end_ns = 0;
    ++untimed_;
  }
  if (record.flags & ROCATTACH_DISPATCH_UNFINISHED) ++unfinished_;
  if (!session_->records()->TakeDispatch(ring, &record)) return;
  ++dispatches_;
  dispatch_batch_.push_back(record);
}

void Target::TakeCopy(rocattach_copy record) {
  if (record.src_agent_id > max_agent_ || record.dst_agent_id > max_agent_) {
    ++invalid_;
    return;
  }
  if (record.direction > ROCATTACH_COPY_DEVICE_TO_DEVICE) record.direction = 0;
  if (!PlausibleTimes(record.start_ns, record.end_ns)) {
    record.flags |= ROCATTACH_DISPATCH_UNTIMED;
  }
  if (record.flags & ROCATTACH_DISPATCH_UNTIMED) {
    record.start_ns = record.end_ns = 0;
    ++untimed_;
  }
  if (record.flags & ROCATTACH_DISPATCH_UNFINISHED) ++unfinished_;
  if (!session_->records()->TakeCopy(&record)) return;
  ++copies_;
  copy_batch_.push_back(record);
}

void Target::TakeClock(const rocattach_clock& record) {
  if (record.agent_id > max_agent_ || record.agent_id >= kMaxClocks) {
    ++nonsense_;
    return;
  }
  ++other_records_;
  output_set_->Note(output_.writer->AddClock(output_.stream, record));
}

void Target::WriteRecords() {
  // Dispatches are written before their values.
  if (!dispatch_batch_.empty()) {
    output_set_->Note(
        output_.writer->Append<DispatchKind>(output_.stream, dispatch_batch_));
    dispatch_batch_.clear();
  }
  if (!copy_batch_.empty()) {
    output_set_->Note(output_.writer->Append<CopyKind>(output_.stream, copy_batch_));
    copy_batch_.clear();
  }
  session_->records()->Write();
}

v1::LossAccount Target::Account(bool final) const {
  v1::LossAccount account;
  account.set_time_ns(BootNs());
  account.set_final(final);
  if (memory_ == nullptr) return account;
  if (!not_believable_.empty()) {
    // Use none of the target's numbers; the valid records are in the stream.
    account.set_not_believable(not_believable_);
    account.set_dispatches_seen(dispatches_ + invalid_);
    account.set_copies_seen(copies_);
    account.set_dropped_invalid(invalid_);
    account.set_untimed(untimed_);
    account.set_unfinished(unfinished_);
    return account;
  }
  CollectorAccount in_target = memory_->Account();
  const SessionCounts& sessions = session_->counts();
  // What the exact filter rejected does not count as seen.
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
  account.set_copies_seen(in_target.copies_seen);
  account.set_dropped_ring_full(in_target.ring_dropped);
  account.set_dropped_collector(in_target.other_dropped);
  account.set_dropped_invalid(invalid_);
  account.set_untimed(untimed_);
  account.set_unfinished(unfinished_);
  account.set_packets_unseen(in_target.packets_unseen);
  account.set_inflight(in_target.inflight);
  account.set_dictionary_dropped(in_target.dictionary_dropped + dictionary_refused_);
  if (final) {
    // What the collector counted and neither published nor declared lost: captured at
    // the moment of death, or in a corrupt ring.
    uint64_t known = dispatches_ + copies_ + in_target.ring_dropped +
                     in_target.other_dropped + invalid_;
    uint64_t seen = in_target.dispatches_seen + in_target.copies_seen;
    account.set_dropped_inflight(seen > known ? seen - known : 0);
  }
  return account;
}

void Target::NoteLosses() {
  if (memory_ == nullptr || !not_believable_.empty()) return;
  const v1::LossAccount account = Account(false);
  const uint64_t losses = account.dropped_ring_full() + account.dropped_collector() +
                          account.dropped_invalid() + account.packets_unseen() +
                          account.counted_dropped() + account.samples_dropped() +
                          account.api_calls_dropped();
  if (std::exchange(losses_noted_, losses) == losses) return;
  output_set_->Note(output_.writer->SetAccount(output_.stream, account));
}

v1::LossAccount Target::Close(v1::ProcessEnd end) {
  if (session_ != nullptr) session_->Ended();
  if (memory_ != nullptr) {
    end.set_collector_ended(memory_->state() == ROCATTACH_STATE_ENDED ||
                            memory_->state() == ROCATTACH_STATE_UNLOADED);
  }
  v1::LossAccount account = Account(/*final=*/true);
  output_set_->Note(output_.writer->SetAccount(output_.stream, account));
  if (const v1::LossAccount* written = output_.writer->account(output_.stream)) {
    account = *written;
  }
  output_set_->EndProcess(output_, std::move(end));
  return account;
}

bool Target::IsGone() const {
  if (!pidfd_.valid()) return false;
  pollfd fd = {pidfd_.get(), POLLIN, 0};
  return poll(&fd, 1, 0) > 0 && (fd.revents & POLLIN) != 0;
}

}  // namespace rocattach
