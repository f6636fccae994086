// Dictionary entries of a collector, checked and turned into the stream's messages.
#ifndef ROCATTACH_USERSPACE_RECORD_DRAIN_DICTIONARY_H_
#define ROCATTACH_USERSPACE_RECORD_DRAIN_DICTIONARY_H_

#include <cstdint>
#include <string>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "schemas/records.pb.h"

namespace rocattach {

// One decoded entry.
using DictionaryEntry =
    std::variant<v1::Agent, v1::Queue, v1::Kernel, v1::CodeObject, v1::ApiFunction>;

// Decodes a copy of one entry (rocattach_entry and what follows it). Ids are checked to
// be plausible (1 … 2^24), sizes to fit; text becomes printable UTF-8. DATA_LOSS if the
// entry is inconsistent.
absl::StatusOr<DictionaryEntry> DecodeEntry(absl::Span<const uint8_t> bytes);

// A target's text as valid UTF-8 without control characters; all other bytes become
// '?'.
std::string CleanText(absl::string_view text);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_DRAIN_DICTIONARY_H_
