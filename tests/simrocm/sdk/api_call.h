// A traced call of an API function, and its delivery to contexts.
#ifndef ROCATTACH_TESTS_SIMROCM_SDK_API_CALL_H_
#define ROCATTACH_TESTS_SIMROCM_SDK_API_CALL_H_

#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include "tests/simrocm/sdk/buffer.h"
#include "tests/simrocm/sdk/dispatch.h"
#include "tests/simrocm/sdk/state.h"

namespace simrocm::sdk {

struct Interest {
  Context* context;
  const BufferTracing* buffered;
  const CallbackTracing* called;
  rocattach_sdk_user_data user_data;
};

// The arguments of a call as texts.
using ArgumentTexts = std::function<std::vector<std::string>()>;

// The payload of a call for tools: the message of a marker, followed by data that only
// the SDK itself can read.
struct CallPayload {
  rocattach_sdk_callback_marker visible;
  const ArgumentTexts& arguments;
};

// Lives from the call of a traced function to its return.
class Call {
 public:
  // `message`: that of a marker, else nullptr.
  Call(int32_t kind, int32_t operation, const char* message, ArgumentTexts arguments)
      : kind_(kind),
        operation_(operation),
        message_(message),
        arguments_(std::move(arguments)) {
    if (FiniStatus() != 0) return;
    auto active = ActiveContexts();
    for (Context* context : *active) {
      // The kinds of API tracing have the same numbers in both enumerations.
      Interest interest{context,
                        context->FindBufferTracing(kind, operation),
                        context->FindCallbackTracing(kind, operation),
                        {}};
      if (interest.buffered != nullptr || interest.called != nullptr) {
        interests_.push_back(interest);
      }
    }
    if (interests_.empty()) return;
    correlation_.internal = NextCorrelation();
    correlation_.ancestor = CurrentCall();
    CurrentCall() = correlation_.internal;
    Invoke(ROCATTACH_SDK_PHASE_ENTER);
    start_ = Now();
  }

  ~Call() {
    if (interests_.empty()) return;
    rocattach_sdk_api_record record{sizeof(record), kind_, operation_, correlation_,
                                    start_,         Now(), ThreadId()};
    CurrentCall() = correlation_.ancestor;
    Invoke(ROCATTACH_SDK_PHASE_EXIT);
    for (const Interest& interest : interests_) {
      if (interest.buffered == nullptr) continue;
      interest.buffered->buffer->Emplace(ROCATTACH_SDK_CATEGORY_TRACING,
                                         static_cast<uint32_t>(kind_), &record,
                                         sizeof(record));
    }
  }

  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

 private:
  void Invoke(int32_t phase) {
    for (Interest& interest : interests_) {
      if (interest.called == nullptr) continue;
      CallPayload payload{{sizeof(payload.visible), message_}, arguments_};
      rocattach_sdk_callback_record record{
          interest.context->id, ThreadId(), correlation_, kind_,
          operation_,           phase,      &payload};
      interest.called->callback(record, &interest.user_data, interest.called->data);
    }
  }

  const int32_t kind_, operation_;
  const char* const message_;
  const ArgumentTexts arguments_;
  std::vector<Interest> interests_;
  rocattach_sdk_correlation_id correlation_{};
  uint64_t start_ = 0;
};

template <typename Argument>
std::string TextOf(Argument argument) {
  if constexpr (std::is_pointer_v<Argument>) {
    return std::to_string(reinterpret_cast<uintptr_t>(argument));  // NOLINT
  } else if constexpr (std::is_enum_v<Argument>) {
    return std::to_string(static_cast<int64_t>(argument));
  } else if constexpr (std::is_arithmetic_v<Argument>) {
    return std::to_string(argument);
  } else {
    return "{}";
  }
}

// The first argument if it is a string.
inline const char* MessageIn() {
  return nullptr;
}
template <typename First, typename... Rest>
const char* MessageIn(First first, Rest...) {
  if constexpr (std::is_same_v<First, const char*>) return first;
  return nullptr;
}

// kMember makes this a separate class for each function of a table.
template <auto kMember, int32_t kKind, int32_t kOperation>
struct Wrapper;

template <typename Table, typename Result, typename... Arguments,
          Result (*Table::*kMember)(Arguments...), int32_t kKind, int32_t kOperation>
struct Wrapper<kMember, kKind, kOperation> {
  static inline Result (*next)(Arguments...) = nullptr;

  static Result Function(Arguments... arguments) {
    Call call(kKind, kOperation, MessageIn(arguments...),
              [&] { return std::vector<std::string>{TextOf(arguments)...}; });
    return next(arguments...);
  }

  static void Install(Table* table) {
    // A table that is passed again already contains our functions.
    if (table->*kMember == nullptr || table->*kMember == &Function) return;
    next = table->*kMember;
    table->*kMember = &Function;
  }
};

}  // namespace simrocm::sdk

#endif  // ROCATTACH_TESTS_SIMROCM_SDK_API_CALL_H_
