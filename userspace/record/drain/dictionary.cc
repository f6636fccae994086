#include "userspace/record/drain/dictionary.h"

#include <string.h>

#include "absl/strings/str_cat.h"
#include "userspace/abi/shared_memory.h"
#include "userspace/record/drain/convert.h"
#include "userspace/stream/utf8.h"

namespace rocattach {
namespace {

constexpr uint32_t kMaxId = 1u << 24;

// Copies the fixed part of an entry and finds the text after it. False if it is torn.
template <typename T>
bool Split(absl::Span<const uint8_t> bytes, T* fixed, absl::string_view* text) {
  if (bytes.size() < sizeof(T)) return false;
  memcpy(fixed, bytes.data(), sizeof(T));
  if (bytes.size() - sizeof(T) < fixed->entry.text_bytes) return false;
  *text = absl::string_view(reinterpret_cast<const char*>(bytes.data()) + sizeof(T),
                            fixed->entry.text_bytes);
  return true;
}

absl::Status Torn(const rocattach_entry& entry) {
  return absl::DataLossError(absl::StrCat("dictionary entry of kind ", entry.kind,
                                          " with ", entry.bytes, " bytes is torn"));
}

// Decodes an entry of type T; `to_proto` converts its fixed part and text to a message.
template <typename T, typename F>
absl::StatusOr<DictionaryEntry> Decode(absl::Span<const uint8_t> bytes, F to_proto) {
  T fixed;
  absl::string_view text;
  if (!Split(bytes, &fixed, &text)) return Torn(fixed.entry);
  return DictionaryEntry(to_proto(fixed, text));
}

absl::StatusOr<DictionaryEntry> DecodeFunction(absl::Span<const uint8_t> bytes);

}  // namespace

std::string CleanText(absl::string_view text) {
  std::string clean;
  clean.reserve(text.size());
  while (!text.empty()) {
    uint8_t c = static_cast<uint8_t>(text[0]);
    size_t length = Utf8CharacterBytes(text);
    if (length == 0 || (length == 1 && (c < 0x20 || c == 0x7F))) {
      clean.push_back('?');
      text.remove_prefix(1);
    } else {
      clean.append(text.data(), length);
      text.remove_prefix(length);
    }
  }
  return clean;
}

namespace {

absl::StatusOr<DictionaryEntry> DecodeFunction(absl::Span<const uint8_t> bytes) {
  rocattach_function_entry fixed;
  absl::string_view text;
  if (!Split(bytes, &fixed, &text)) return Torn(fixed.entry);
  if (fixed.domain >= ROCATTACH_PLAN_API_DOMAINS ||
      fixed.function >= ROCATTACH_PLAN_API_FUNCTIONS) {
    return absl::DataLossError(
        absl::StrCat("API function ", fixed.function, " of domain ", fixed.domain));
  }
  v1::ApiFunction function;
  function.set_domain(static_cast<v1::ApiDomain>(fixed.domain));
  function.set_function(fixed.function);
  function.set_name(CleanText(text));
  return DictionaryEntry(std::move(function));
}

}  // namespace

absl::StatusOr<DictionaryEntry> DecodeEntry(absl::Span<const uint8_t> bytes) {
  rocattach_entry entry;
  if (bytes.size() < sizeof(entry))
    return absl::DataLossError("dictionary entry is torn");
  memcpy(&entry, bytes.data(), sizeof(entry));
  if (entry.id == 0 || entry.id > kMaxId) {
    return absl::DataLossError(absl::StrCat("dictionary entry has id ", entry.id));
  }
  switch (entry.kind) {
    case ROCATTACH_ENTRY_AGENT:
      return Decode<rocattach_agent_entry>(
          bytes, [](const auto& e, absl::string_view text) {
            size_t end = text.find('\0');
            v1::Agent agent = AgentToProto(e, text);
            agent.set_name(CleanText(text.substr(0, end)));
            agent.set_product_name(
                end == absl::string_view::npos ? "" : CleanText(text.substr(end + 1)));
            return agent;
          });
    case ROCATTACH_ENTRY_QUEUE:
      return Decode<rocattach_queue_entry>(
          bytes, [](const auto& e, absl::string_view) { return QueueToProto(e); });
    case ROCATTACH_ENTRY_KERNEL:
      return Decode<rocattach_kernel_entry>(bytes,
                                            [](const auto& e, absl::string_view text) {
                                              return KernelToProto(e, CleanText(text));
                                            });
    case ROCATTACH_ENTRY_CODE_OBJECT:
      return Decode<rocattach_code_object_entry>(
          bytes, [](const auto& e, absl::string_view text) {
            return CodeObjectToProto(e, CleanText(text));
          });
    case ROCATTACH_ENTRY_FUNCTION:
      return DecodeFunction(bytes);
    default:
      return absl::DataLossError(absl::StrCat("dictionary entry of kind ", entry.kind));
  }
}

}  // namespace rocattach
