// The kinds of records that a stream carries in batches. Each is defined once, here:
// its name in dumps, its frame, its columns, its counts and the visitor's call. Only
// its batch (…_batch.h) and the fields of its lines (report/record_printer.cc) are
// defined elsewhere.
#ifndef ROCATTACH_USERSPACE_STREAM_RECORD_KINDS_H_
#define ROCATTACH_USERSPACE_STREAM_RECORD_KINDS_H_

#include <cstddef>
#include <cstdint>
#include <tuple>

#include "schemas/records.pb.h"
#include "schemas/stream.pb.h"
#include "userspace/stream/api_batch.h"
#include "userspace/stream/copy_batch.h"
#include "userspace/stream/counter_batch.h"
#include "userspace/stream/dispatch_batch.h"
#include "userspace/stream/memory_batch.h"
#include "userspace/stream/record_counts.h"
#include "userspace/stream/visitor.h"

namespace rocattach {

struct DispatchKind {
  static constexpr char kName[] = "dispatch";
  using Record = rocattach_dispatch;
  using Encoder = DispatchBatchEncoder;
  static constexpr RecordKind kKind = RecordKind::kDispatch;
  static constexpr v1::FrameType kFrame = v1::FRAME_TYPE_DISPATCHES;
  static constexpr auto kDecode = DecodeDispatchBatch;
  static constexpr auto kVisit = &StreamVisitor::OnDispatches;
  static void SetTotal(uint64_t n, v1::StreamEnd* end) { end->set_dispatches(n); }
  static void AddTo(const DeliveryCount& count, v1::LossAccount* account) {
    account->set_dispatches_delivered(count.delivered);
    account->set_dropped_writer(account->dropped_writer() + count.dropped);
  }
};

struct CopyKind {
  static constexpr char kName[] = "copy";
  using Record = rocattach_copy;
  using Encoder = CopyBatchEncoder;
  static constexpr RecordKind kKind = RecordKind::kCopy;
  static constexpr v1::FrameType kFrame = v1::FRAME_TYPE_COPIES;
  static constexpr auto kDecode = DecodeCopyBatch;
  static constexpr auto kVisit = &StreamVisitor::OnCopies;
  static void SetTotal(uint64_t n, v1::StreamEnd* end) { end->set_copies(n); }
  static void AddTo(const DeliveryCount& count, v1::LossAccount* account) {
    account->set_copies_delivered(count.delivered);
    account->set_dropped_writer(account->dropped_writer() + count.dropped);
  }
};

// Counter values of dispatches. Those of one dispatch are adjacent and in one call.
struct CounterKind {
  static constexpr char kName[] = "counter";
  using Record = CounterRecord;
  using Encoder = CounterBatchEncoder;
  static constexpr RecordKind kKind = RecordKind::kCounter;
  static constexpr v1::FrameType kFrame = v1::FRAME_TYPE_COUNTERS;
  static constexpr auto kDecode = DecodeCounterBatch;
  static constexpr auto kVisit = &StreamVisitor::OnCounters;
  static void SetTotal(uint64_t n, v1::StreamEnd* end) { end->set_counter_values(n); }
  static void AddTo(const DeliveryCount& count, v1::LossAccount* account) {
    account->set_counted_delivered(count.delivered);
    account->set_counted_dropped(account->counted_dropped() + count.dropped);
  }
};

// Counter values of samples; those of one sample are adjacent and in one call.
struct SampleKind {
  static constexpr char kName[] = "sample";
  using Record = CounterRecord;
  using Encoder = CounterBatchEncoder;
  static constexpr RecordKind kKind = RecordKind::kSample;
  static constexpr v1::FrameType kFrame = v1::FRAME_TYPE_SAMPLES;
  static constexpr auto kDecode = DecodeCounterBatch;
  static constexpr auto kVisit = &StreamVisitor::OnSamples;
  static void SetTotal(uint64_t n, v1::StreamEnd* end) { end->set_sample_values(n); }
  static void AddTo(const DeliveryCount& count, v1::LossAccount* account) {
    account->set_samples_delivered(count.delivered);
    account->set_samples_dropped(account->samples_dropped() + count.dropped);
  }
};

struct ApiCallKind {
  static constexpr char kName[] = "api_call";
  using Record = ApiCallRecord;
  using Encoder = ApiBatchEncoder;
  static constexpr RecordKind kKind = RecordKind::kApiCall;
  static constexpr v1::FrameType kFrame = v1::FRAME_TYPE_API_CALLS;
  static constexpr auto kDecode = DecodeApiBatch;
  static constexpr auto kVisit = &StreamVisitor::OnApiCalls;
  static void SetTotal(uint64_t n, v1::StreamEnd* end) { end->set_api_calls(n); }
  static void AddTo(const DeliveryCount& count, v1::LossAccount* account) {
    account->set_api_calls_delivered(count.delivered);
    account->set_api_calls_dropped(account->api_calls_dropped() + count.dropped);
  }
};

struct MemoryKind {
  static constexpr char kName[] = "memory";
  using Record = MemoryRecord;
  using Encoder = MemoryBatchEncoder;
  static constexpr RecordKind kKind = RecordKind::kMemory;
  static constexpr v1::FrameType kFrame = v1::FRAME_TYPE_MEMORY;
  static constexpr auto kDecode = DecodeMemoryBatch;
  static constexpr auto kVisit = &StreamVisitor::OnMemory;
  static void SetTotal(uint64_t n, v1::StreamEnd* end) {
    end->set_memory_operations(n);
  }
  static void AddTo(const DeliveryCount& count, v1::LossAccount* account) {
    account->set_memory_delivered(count.delivered);
    account->set_memory_dropped(account->memory_dropped() + count.dropped);
  }
};

// In the order of RecordKind, which is also the order in which a stream's batches are
// written.
using RecordKinds = std::tuple<DispatchKind, CopyKind, CounterKind, SampleKind,
                               ApiCallKind, MemoryKind>;
static_assert(std::tuple_size_v<RecordKinds> == kRecordKinds);

// Calls `f` with a value of each kind's type.
template <typename F>
void ForEachRecordKind(F f) {
  std::apply([&](auto... kind) { (f(kind), ...); }, RecordKinds());
}

inline bool IsRecordFrame(uint8_t frame_type) {
  bool found = false;
  ForEachRecordKind([&](auto kind) { found |= frame_type == kind.kFrame; });
  return found;
}

inline void SetTotals(const PerRecordKind<uint64_t>& totals, v1::StreamEnd* end) {
  ForEachRecordKind([&](auto kind) { kind.SetTotal(totals[kind.kKind], end); });
}

// Holds a value of type `Of<Kind>` for each kind.
template <template <typename> class Of, typename Kinds = RecordKinds>
struct ByRecordKind;

template <template <typename> class Of, typename... Kinds>
struct ByRecordKind<Of, std::tuple<Kinds...>> {
  std::tuple<Of<Kinds>...> values;

  template <typename Kind>
  auto& of() {
    return std::get<static_cast<size_t>(Kind::kKind)>(values);
  }
  template <typename Kind>
  const auto& of() const {
    return std::get<static_cast<size_t>(Kind::kKind)>(values);
  }
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_STREAM_RECORD_KINDS_H_
