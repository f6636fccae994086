// Tracing of HSA calls: a wrapper around every function of the tables.
#include <cstring>

#include "tests/simrocm/call_log.h"
#include "tests/simrocm/sdk/buffer.h"
#include "tests/simrocm/sdk/dispatch.h"
#include "tests/simrocm/sdk/hsa.h"
#include "tests/simrocm/sdk/hsa_api_list.h"
#include "tests/simrocm/sdk/tracing.h"

namespace simrocm::sdk {
namespace {

struct Interest {
  Context* context;
  const BufferTracing* buffered;
  const CallbackTracing* called;
  rocattach_sdk_user_data user_data;
};

// From the call of a traced function to its return.
class Call {
 public:
  Call(int32_t kind, int32_t operation) : kind_(kind), operation_(operation) {
    if (FiniStatus() != 0) return;
    auto active = ActiveContexts();
    for (Context* context : *active) {
      // The kinds of HSA tracing have the same numbers in both enumerations.
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
      // Arguments are not simulated.
      uint64_t payload[2] = {sizeof(payload), 0};
      rocattach_sdk_callback_record record{
          interest.context->id, ThreadId(), correlation_, kind_,
          operation_,           phase,      payload};
      interest.called->callback(record, &interest.user_data, interest.called->data);
    }
  }

  const int32_t kind_, operation_;
  std::vector<Interest> interests_;
  rocattach_sdk_correlation_id correlation_{};
  uint64_t start_ = 0;
};

// kMember makes one instance for each function of a table.
template <auto kMember, int32_t kKind, int32_t kOperation>
struct Wrapper;

template <typename Table, typename Result, typename... Arguments,
          Result (*Table::*kMember)(Arguments...), int32_t kKind, int32_t kOperation>
struct Wrapper<kMember, kKind, kOperation> {
  static inline Result (*next)(Arguments...) = nullptr;

  static Result Function(Arguments... arguments) {
    Call call(kKind, kOperation);
    return next(arguments...);
  }

  static void Install(Table* table) {
    if (table->*kMember == nullptr) return;
    next = table->*kMember;
    table->*kMember = &Function;
  }
};

}  // namespace

void InstallApiTracing(HsaApiTable* table) {
  Log("sdk.hsa step=api_wrappers");
  if (AnyContextTraces(ROCATTACH_SDK_BUFFER_HSA_CORE_API,
                       ROCATTACH_SDK_CALLBACK_HSA_CORE_API)) {
#define SIMROCM_INSTALL(name, id)                                                    \
  Wrapper<&CoreApiTable::name##_fn, ROCATTACH_SDK_BUFFER_HSA_CORE_API, id>::Install( \
      table->core_);
    SIMROCM_CORE_API(SIMROCM_INSTALL)
#undef SIMROCM_INSTALL
  }
  if (AnyContextTraces(ROCATTACH_SDK_BUFFER_HSA_AMD_EXT_API,
                       ROCATTACH_SDK_CALLBACK_HSA_AMD_EXT_API)) {
#define SIMROCM_INSTALL(name, id)                                                      \
  Wrapper<&AmdExtTable::name##_fn, ROCATTACH_SDK_BUFFER_HSA_AMD_EXT_API, id>::Install( \
      table->amd_ext_);
    SIMROCM_AMD_EXT_API(SIMROCM_INSTALL)
#undef SIMROCM_INSTALL
  }
}

const char* HsaOperationName(int32_t kind, int32_t operation) {
#define SIMROCM_NAME(name, id) \
  if (operation == id) return #name;
  if (kind == ROCATTACH_SDK_BUFFER_HSA_CORE_API) {
    SIMROCM_CORE_API(SIMROCM_NAME)
  } else if (kind == ROCATTACH_SDK_BUFFER_HSA_AMD_EXT_API) {
    SIMROCM_AMD_EXT_API(SIMROCM_NAME)
  }
#undef SIMROCM_NAME
  return nullptr;
}

}  // namespace simrocm::sdk
