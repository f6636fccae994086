#include "userspace/stream/alignment.h"

#include <iterator>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "userspace/stream/frame.h"
#include "userspace/stream/record_kinds.h"

namespace rocattach {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// Fields of schemas/stream.proto and schemas/records.proto that hold a CLOCK_BOOTTIME
// time, except in batches.
constexpr absl::string_view kTimes[] = {
    "boottime_ns", "start_ns",  "seen_ns",    "created_ns",  "time_ns",
    "hit_ns",      "seized_ns", "stopped_ns", "released_ns", "hold_end_ns",
    "armed_ns",    "begin_ns",  "end_ns"};

void Shift(const Alignment& by, rocattach_dispatch* r) {
  r->enqueue_ns = by.Shifted(r->enqueue_ns);
  r->start_ns = by.Shifted(r->start_ns);
  r->end_ns = by.Shifted(r->end_ns);
}
void Shift(const Alignment& by, rocattach_copy* r) {
  r->enqueue_ns = by.Shifted(r->enqueue_ns);
  r->start_ns = by.Shifted(r->start_ns);
  r->end_ns = by.Shifted(r->end_ns);
}
void Shift(const Alignment& by, CounterRecord* r) {
  r->begin_ns = by.Shifted(r->begin_ns);
  r->end_ns = by.Shifted(r->end_ns);
}
void Shift(const Alignment& by, ApiCallRecord* r) {
  r->begin_ns = by.Shifted(r->begin_ns);
  r->end_ns = by.Shifted(r->end_ns);
}

void Shift(const Alignment& by, MemoryRecord* r) {
  r->begin_ns = by.Shifted(r->begin_ns);
  r->end_ns = by.Shifted(r->end_ns);
}

template <typename Kind>
std::string ShiftBatch(const Alignment& alignment, absl::string_view payload) {
  std::vector<typename Kind::Record> records;
  if (!Kind::kDecode(payload, &records).ok()) return "";
  for (auto& record : records) Shift(alignment, &record);
  // The limit is high enough for all records to stay in one batch.
  typename Kind::Encoder encoder(kMaxPayloadBytes * 64);
  if (encoder.Append(records) != records.size()) return "";
  std::string shifted;
  encoder.EncodeTo(&shifted);
  return shifted;
}

std::unique_ptr<Message> MessageOf(uint8_t frame_type) {
  switch (frame_type) {
    case v1::FRAME_TYPE_STREAM_HEADER:
      return std::make_unique<v1::StreamHeader>();
    case v1::FRAME_TYPE_DICTIONARY:
    case v1::FRAME_TYPE_KEY_FRAME:
      return std::make_unique<v1::Dictionary>();
    case v1::FRAME_TYPE_EVENT:
      return std::make_unique<v1::Event>();
    case v1::FRAME_TYPE_ACCOUNT:
      return std::make_unique<v1::LossAccount>();
    case v1::FRAME_TYPE_SUMMARY:
      return std::make_unique<v1::WatcherSummary>();
    case v1::FRAME_TYPE_SESSION:
      return std::make_unique<v1::SessionEvent>();
    case v1::FRAME_TYPE_END:
      return std::make_unique<v1::StreamEnd>();
    default:
      return nullptr;
  }
}

}  // namespace

Alignment Align(const v1::StreamHeader& base, const v1::StreamHeader& other) {
  Alignment alignment;
  if (!base.boot_id().empty() && base.boot_id() == other.boot_id()) {
    alignment.same_clock = alignment.known = true;
    return alignment;
  }
  const v1::ClockSnapshot& here = base.clock();
  const v1::ClockSnapshot& there = other.clock();
  if (here.boottime_ns() == 0 || here.realtime_ns() == 0 || there.boottime_ns() == 0 ||
      there.realtime_ns() == 0) {
    return alignment;
  }
  alignment.known = true;
  alignment.offset_ns = (there.realtime_ns() - there.boottime_ns()) -
                        (here.realtime_ns() - here.boottime_ns());
  return alignment;
}

bool IsShiftedField(const FieldDescriptor& field) {
  static const absl::flat_hash_set<absl::string_view> times(std::begin(kTimes),
                                                            std::end(kTimes));
  return field.cpp_type() == FieldDescriptor::CPPTYPE_UINT64 && !field.is_repeated() &&
         times.contains(field.name());
}

void ShiftTimes(const Alignment& alignment, Message* message) {
  const google::protobuf::Reflection& access = *message->GetReflection();
  std::vector<const FieldDescriptor*> fields;
  access.ListFields(*message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (IsShiftedField(*field)) {
      access.SetUInt64(message, field,
                       alignment.Shifted(access.GetUInt64(*message, field)));
    } else if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
      continue;
    } else if (field->is_repeated()) {
      for (int i = 0; i < access.FieldSize(*message, field); ++i) {
        ShiftTimes(alignment, access.MutableRepeatedMessage(message, field, i));
      }
    } else {
      ShiftTimes(alignment, access.MutableMessage(message, field));
    }
  }
}

std::optional<std::string> ShiftPayload(const Alignment& alignment, uint8_t frame_type,
                                        absl::string_view payload) {
  std::string shifted;
  if (IsRecordFrame(frame_type)) {
    ForEachRecordKind([&](auto kind) {
      using Kind = decltype(kind);
      if (frame_type == Kind::kFrame) shifted = ShiftBatch<Kind>(alignment, payload);
    });
    if (shifted.empty()) return std::nullopt;
  } else {
    const auto message = MessageOf(frame_type);
    if (message == nullptr ||
        !message->ParseFromArray(payload.data(), static_cast<int>(payload.size()))) {
      return std::nullopt;
    }
    ShiftTimes(alignment, message.get());
    shifted = message->SerializeAsString();
  }
  if (shifted.size() > kMaxPayloadBytes) return std::nullopt;
  return shifted;
}

}  // namespace rocattach
