#include "userspace/record/drain/target_records.h"

#include <string.h>

#include <cstddef>

#include "userspace/abi/hip_stream.h"
#include "userspace/record/drain/record_slot.h"
#include "userspace/stream/record_kinds.h"

namespace rocattach {
namespace {

static_assert(offsetof(rocattach_dispatch, flags) == offsetof(rocattach_copy, flags));
static_assert(offsetof(rocattach_dispatch, correlation_id) ==
              offsetof(rocattach_copy, correlation_id));

// Flags of dispatches that the collector never samples out.
constexpr uint16_t kSelectedByPlan =
    ROCATTACH_DISPATCH_SELECTED | ROCATTACH_DISPATCH_FOR_COUNTERS;
// Each clock relation is kept, and repeated in key frames.
constexpr uint32_t kMaxClocks = 1024;
// An operation that seems to last longer than this has wrong times.
constexpr uint64_t kLongestOperationNs = 24ull * 3600 * 1'000'000'000;

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

uint32_t ApiTid(const RecordSlot& slot) {
  rocattach_api_call call;
  memcpy(&call, slot.bytes, sizeof(call));
  return call.tid;
}

// The cost of a record relative to a dispatch.
uint64_t CostOf(uint16_t kind) {
  switch (kind) {
    case ROCATTACH_RECORD_CLOCK:  // has its own frame
      return 32;
    case ROCATTACH_RECORD_SAMPLE:
    case ROCATTACH_RECORD_API:
    case ROCATTACH_RECORD_MEMORY:
      return 4;
    case ROCATTACH_RECORD_VALUES:
    case ROCATTACH_RECORD_INSTANCES:
      return 2;
    default:
      return 1;
  }
}

bool PlausibleTimes(uint64_t start, uint64_t end) {
  return start <= end && end - start <= kLongestOperationNs;
}

}  // namespace

TargetRecords::TargetRecords(const v1::Process& process, ProcessOutput output,
                             OutputSet* output_set, TargetSession* session,
                             const TargetDictionary* dictionary, uint32_t rings)
    : output_(output),
      output_set_(output_set),
      session_(session),
      dictionary_(dictionary),
      threads_(process,
               [this](v1::Thread thread) {
                 output_set_->KeepError(
                     output_.writer->AddThread(output_.stream, std::move(thread)));
               }),
      last_correlation_(rings, 0) {}

uint64_t TargetRecords::Consume(uint32_t ring, absl::Span<const RecordSlot> slots) {
  // Shared: only one target at a time needs this room, and hundreds may be recorded.
  thread_local std::vector<rocattach_dispatch> room;
  dispatch_batch_.swap(room);
  uint64_t cost = 0;
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].kind() == ROCATTACH_RECORD_DISPATCH && !ending_) {
      const size_t values = ConsumeDispatchSlot(ring, slots.subspan(i));
      cost +=
          CostOf(ROCATTACH_RECORD_DISPATCH) + values * CostOf(ROCATTACH_RECORD_VALUES);
      i += values;
      continue;
    }
    // Copy first: the target may change the slot between reads.
    const auto slot = CopyOf<RecordSlot>(slots[i]);
    if (IsOperation(slot)) last_correlation_[ring] = CorrelationOf(slot);
    if (ending_ && WasConsumed(slot)) continue;
    ConsumeOne(ring, slot);
    cost += CostOf(slot.kind());
  }
  Write();
  dispatch_batch_.swap(room);
  return cost + threads_.TakeCost();
}

void TargetRecords::BeginEnd(size_t most_unfinished) {
  ending_ = true;
  // Threads that have not yet noticed that recording has stopped may add some.
  most_consumed_ = 2 * most_unfinished + 2 * last_correlation_.size();
  // Between publishing a record and freeing its entry, an operation is in both places;
  // it can only be the last one of its ring.
  consumed_.insert(last_correlation_.begin(), last_correlation_.end());
}

bool TargetRecords::WasConsumed(const RecordSlot& slot) {
  if (!IsOperation(slot)) return false;
  return consumed_.size() >= most_consumed_ ||
         !consumed_.insert(CorrelationOf(slot)).second;
}

void TargetRecords::ConsumeUnfinished(RecordSlot slot) {
  if (WasConsumed(slot)) return;
  // Flags are at the same place in every kind of record.
  uint16_t flags;
  memcpy(&flags, slot.bytes + offsetof(rocattach_dispatch, flags), sizeof(flags));
  flags |= ROCATTACH_DISPATCH_UNTIMED | ROCATTACH_DISPATCH_UNFINISHED;
  memcpy(slot.bytes + offsetof(rocattach_dispatch, flags), &flags, sizeof(flags));
  ConsumeOne(static_cast<uint32_t>(last_correlation_.size()), slot);
}

void TargetRecords::ConsumeOne(uint32_t ring, const RecordSlot& slot) {
  switch (slot.kind()) {
    case ROCATTACH_RECORD_DISPATCH:
      (void)ConsumeDispatchSlot(ring, {&slot, 1});
      return;
    case ROCATTACH_RECORD_COPY: {
      rocattach_copy record;
      memcpy(&record, slot.bytes, sizeof(record));
      ConsumeCopy(record);
      return;
    }
    case ROCATTACH_RECORD_CLOCK: {
      rocattach_clock record;
      memcpy(&record, slot.bytes, sizeof(record));
      ConsumeClock(record);
      return;
    }
    // Records that sessions collect have separate accounts.
    case ROCATTACH_RECORD_VALUES:
      ++counts_.others;
      session_->records()->ConsumeValues(ring, slot);
      return;
    case ROCATTACH_RECORD_INSTANCES:
      ++counts_.others;
      session_->records()->ConsumeInstances(ring, slot);
      return;
    case ROCATTACH_RECORD_SAMPLE:
      ++counts_.others;
      session_->records()->ConsumeSample(ring, slot);
      return;
    case ROCATTACH_RECORD_API:
      ++counts_.others;
      if (session_->records()->ConsumeApiCall(ring, slot)) threads_.Add(ApiTid(slot));
      return;
    case ROCATTACH_RECORD_MEMORY: {
      ++counts_.others;
      rocattach_memory record;
      memcpy(&record, slot.bytes, sizeof(record));
      ConsumeMemory(ring, record);
      return;
    }
    case ROCATTACH_RECORD_TEXT:
      ++counts_.others;
      session_->records()->ConsumeText(ring, slot);
      return;
    default:
      ++counts_.malformed;
  }
}

template <typename Record>
void TargetRecords::CheckTimes(Record* record) {
  if (!PlausibleTimes(record->start_ns, record->end_ns)) {
    record->flags |= ROCATTACH_DISPATCH_UNTIMED;
  }
  if (record->flags & ROCATTACH_DISPATCH_UNTIMED) {
    record->start_ns = record->end_ns = 0;
    ++counts_.untimed;
  }
  if (record->flags & ROCATTACH_DISPATCH_UNFINISHED) ++counts_.unfinished;
}

// Checks the record in the batch that it is written from, so that it is copied once.
size_t TargetRecords::ConsumeDispatchSlot(uint32_t ring,
                                          absl::Span<const RecordSlot> slots) {
  dispatch_batch_.push_back(CopyOf<rocattach_dispatch>(slots.front()));
  rocattach_dispatch& record = dispatch_batch_.back();
  if (ring < last_correlation_.size()) last_correlation_[ring] = record.correlation_id;
  if (record.kind != ROCATTACH_RECORD_DISPATCH) {  // changed since the first look
    ++counts_.malformed;
    dispatch_batch_.pop_back();
    return 0;
  }
  if (!CheckDispatch(&record)) {
    dispatch_batch_.pop_back();
    return 0;
  }
  const bool selected = (record.flags & kSelectedByPlan) != 0;
  const size_t values =
      session_->records()->ConsumeCounted(ring, &record, slots.subspan(1));
  counts_.others += values;
  if (values == 0 && !session_->records()->ConsumeDispatch(ring, &record)) {
    dispatch_batch_.pop_back();
    return 0;
  }
  if (sampling_.ever()) {
    weights_.push_back(selected ? 1 : sampling_.WeightAt(record.enqueue_ns));
  }
  ++counts_.operations.dispatches;
  counts_.times_not_believable += launch_order_.Add(record);
  threads_.Add(record.tid);
  return values;
}

bool TargetRecords::CheckDispatch(rocattach_dispatch* record) {
  if (record->queue_id > dictionary_->max_queue() ||
      record->agent_id > dictionary_->max_agent()) {
    ++counts_.invalid;
    return false;
  }
  // A dispatch is kept even if the name of its kernel did not fit into the dictionary.
  if (record->kernel_id > dictionary_->max_kernel()) record->kernel_id = 0;
  if (!IsPacketIndex(record->packet_index)) record->packet_index = 0;
  CheckTimes(record);
  return true;
}

void TargetRecords::ConsumeCopy(rocattach_copy record) {
  if (record.src_agent_id > dictionary_->max_agent() ||
      record.dst_agent_id > dictionary_->max_agent()) {
    ++counts_.invalid;
    return;
  }
  if (record.direction > ROCATTACH_COPY_DEVICE_TO_DEVICE) record.direction = 0;
  CheckTimes(&record);
  if (!session_->records()->ConsumeCopy(&record)) return;
  ++counts_.operations.copies;
  threads_.Add(record.tid);
  copy_batch_.push_back(record);
}

void TargetRecords::ConsumeMemory(uint32_t ring, rocattach_memory record) {
  if (record.agent_id > dictionary_->max_agent()) record.agent_id = 0;
  if (record.queue_id > dictionary_->max_queue()) record.queue_id = 0;
  if (session_->records()->ConsumeMemory(ring, record)) threads_.Add(record.tid);
}

void TargetRecords::ConsumeClock(const rocattach_clock& record) {
  if (record.agent_id > dictionary_->max_agent() || record.agent_id >= kMaxClocks) {
    ++counts_.malformed;
    return;
  }
  ++counts_.others;
  output_set_->KeepError(output_.writer->AddClock(output_.stream, record));
}

void TargetRecords::Write() {
  // Dispatches are written before their values.
  if (!dispatch_batch_.empty()) {
    if (meter_ != nullptr && weights_.empty()) meter_->AddDispatches(dispatch_batch_);
    if (meter_ != nullptr && !weights_.empty()) {
      meter_->AddSampled(dispatch_batch_, weights_);
    }
    weights_.clear();
    output_set_->KeepError(
        output_.writer->Append<DispatchKind>(output_.stream, dispatch_batch_));
    dispatch_batch_.clear();
  }
  if (!copy_batch_.empty()) {
    if (meter_ != nullptr) meter_->AddCopies(copy_batch_);
    output_set_->KeepError(
        output_.writer->Append<CopyKind>(output_.stream, copy_batch_));
    copy_batch_.clear();
  }
  session_->records()->Write();
}

}  // namespace rocattach
