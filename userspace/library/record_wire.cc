#include "userspace/library/record_wire.h"

#include <string.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "userspace/session/session_record.h"

namespace rocattach {
namespace {

// The minimum size of a record of this kind; 0 for kinds that are not sent.
size_t FixedBytes(SessionRecordKind kind) {
  switch (kind) {
    case SessionRecordKind::kDispatch:
      return sizeof(DispatchRecord);
    case SessionRecordKind::kTrace:
      return sizeof(TraceRecord);
    case SessionRecordKind::kSample:
      return sizeof(SampleRecord);
    default:
      return 0;
  }
}

// Number of values in the record, according to it. The fixed part must be present.
uint64_t CountersOf(const RecordHeader* record) {
  if (record->kind == SessionRecordKind::kDispatch) {
    return RecordAs<DispatchRecord>(record).values;
  }
  if (record->kind == SessionRecordKind::kSample) {
    return RecordAs<SampleRecord>(record).values;
  }
  return 0;
}

// True if the text that follows a trace record has the length that the record states.
bool HasItsText(const TraceRecord& record) {
  const char* text = TextOf(record);
  return text == nullptr ||
         (text[record.text_bytes - 1] == 0 && strlen(text) + 1 == record.text_bytes);
}

// Size of the record at the front of `rest` bytes; 0: there is no valid one.
size_t WholeRecord(const RecordHeader* record, size_t rest) {
  if (rest < sizeof(*record)) return 0;
  const size_t fixed = FixedBytes(record->kind);
  if (fixed == 0 || record->bytes < fixed || record->bytes > rest) return 0;
  if (record->kind == SessionRecordKind::kTrace) {
    const auto& call = RecordAs<TraceRecord>(record);
    const bool whole = record->bytes == TraceBytes(call.text_bytes) && HasItsText(call);
    return whole ? record->bytes : 0;
  }
  const uint64_t bytes = fixed + CountersOf(record) * sizeof(RecordValue);
  return record->bytes == bytes ? record->bytes : 0;
}

}  // namespace

void ConsumeRecords(const v1::RunRecords& records, RecordConsumer* consumer) {
  if (records.lost() > 0) consumer->CountLost(records.lost());
  const std::string& bytes = records.records();
  // An aligned copy of the message's bytes.
  std::vector<uint64_t> words((bytes.size() + 7) / 8);
  if (!bytes.empty()) memcpy(words.data(), bytes.data(), bytes.size());
  const char* base = reinterpret_cast<const char*>(words.data());
  const auto record = [base](size_t offset) {
    return reinterpret_cast<const RecordHeader*>(base + offset);
  };
  size_t valid = 0;
  while (valid < bytes.size()) {
    const size_t whole = WholeRecord(record(valid), bytes.size() - valid);
    if (whole == 0) break;
    valid += whole;
  }
  if (valid > 0) consumer->Consume(record(0), record(valid));
  if (valid < bytes.size()) consumer->CountLost(1);
}

}  // namespace rocattach
