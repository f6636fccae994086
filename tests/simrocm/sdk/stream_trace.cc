// HIP streams: wraps the functions that have a stream argument, and notifies contexts.
//
// As with SDK 1.1 and later: streams are numbered from 1 as they are created while
// a context traces them; one that was created before gets its number when it is first
// used; the default stream, and the values 1 and 2 that represent it, are number 0.
#include "tests/simrocm/sdk/stream_trace.h"

#include <mutex>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tests/simrocm/call_log.h"
#include "tests/simrocm/sdk/state.h"

namespace simrocm::sdk {
namespace {

constexpr int32_t kKind = ROCATTACH_SDK_CALLBACK_HIP_STREAM;

struct Streams {
  std::mutex mutex;
  std::unordered_map<Stream, uint64_t> ids;
  uint64_t next = 1;
};

Streams& Get() {
  static auto* streams = new Streams;
  return *streams;
}

uint64_t IdOf(Stream stream) {
  // hipStreamLegacy and hipStreamPerThread.
  if (reinterpret_cast<uintptr_t>(stream) <= 2) return 0;
  std::lock_guard lock(Get().mutex);
  auto [entry, is_new] = Get().ids.try_emplace(stream, Get().next);
  if (is_new) {
    ++Get().next;
    Log("sdk.stream id=%llu", static_cast<unsigned long long>(entry->second));
  }
  return entry->second;
}

void Forget(Stream stream) {
  std::lock_guard lock(Get().mutex);
  Get().ids.erase(stream);
}

// The contexts that are notified of one call.
class Listeners {
 public:
  explicit Listeners(int32_t operation) : operation_(operation) {
    if (FiniStatus() != 0) return;
    auto active = ActiveContexts();
    for (Context* context : *active) {
      const CallbackTracing* called = context->FindCallbackTracing(kKind, operation);
      if (called != nullptr) called_.push_back({context, called, {}});
    }
  }
  bool empty() const { return called_.empty(); }

  void Call(int32_t phase, Stream stream, uint64_t id) {
    for (Listener& listener : called_) {
      rocattach_sdk_callback_hip_stream payload{sizeof(payload), id, {}};
      payload.stream.ptr = stream;
      rocattach_sdk_callback_record record{};
      record.context_id = listener.context->id;
      record.thread_id = ThreadId();
      record.kind = kKind;
      record.operation = operation_;
      record.phase = phase;
      record.payload = &payload;
      listener.called->callback(record, &listener.user_data, listener.called->data);
    }
  }

 private:
  struct Listener {
    Context* context;
    const CallbackTracing* called;
    rocattach_sdk_user_data user_data;
  };

  const int32_t operation_;
  std::vector<Listener> called_;
};

template <typename Result, typename... Arguments>
Result CallCreating(Result (*next)(Arguments...), Arguments... arguments) {
  const Result result = next(arguments...);
  Listeners listeners(ROCATTACH_SDK_HIP_STREAM_CREATE);
  Stream* created = std::get<Stream*>(std::make_tuple(arguments...));
  if (!listeners.empty() && created != nullptr) {
    Forget(*created);  // another stream may have had this address
    listeners.Call(ROCATTACH_SDK_PHASE_NONE, *created, IdOf(*created));
  }
  return result;
}

template <typename Result, typename... Arguments>
Result CallDestroying(Result (*next)(Arguments...), Arguments... arguments) {
  Listeners listeners(ROCATTACH_SDK_HIP_STREAM_DESTROY);
  const auto stream = std::get<Stream>(std::make_tuple(arguments...));
  const uint64_t id = listeners.empty() ? 0 : IdOf(stream);
  const Result result = next(arguments...);
  listeners.Call(ROCATTACH_SDK_PHASE_NONE, stream, id);
  if (!listeners.empty()) Forget(stream);
  return result;
}

template <typename Result, typename... Arguments>
Result CallSetting(Result (*next)(Arguments...), Arguments... arguments) {
  Listeners listeners(ROCATTACH_SDK_HIP_STREAM_SET);
  if (listeners.empty()) return next(arguments...);
  const auto stream = std::get<Stream>(std::make_tuple(arguments...));
  const uint64_t id = IdOf(stream);
  listeners.Call(ROCATTACH_SDK_PHASE_ENTER, stream, id);
  const Result result = next(arguments...);
  listeners.Call(ROCATTACH_SDK_PHASE_EXIT, stream, id);
  return result;
}

// kMember makes this a separate class for each function of the table.
template <auto kMember, bool kDestroys>
struct StreamWrapper;

template <typename Result, typename... Arguments,
          Result (*HipRuntimeTable::*kMember)(Arguments...), bool kDestroys>
struct StreamWrapper<kMember, kDestroys> {
  static inline Result (*next)(Arguments...) = nullptr;
  static constexpr bool kCreates = (std::is_same_v<Arguments, Stream*> || ...);
  static constexpr bool kNames = (std::is_same_v<Arguments, Stream> || ...);

  static Result Function(Arguments... arguments) {
    if constexpr (kCreates) {
      return CallCreating(next, arguments...);
    } else if constexpr (kDestroys) {
      return CallDestroying(next, arguments...);
    } else {
      return CallSetting(next, arguments...);
    }
  }

  static void Install(HipRuntimeTable* table) {
    if constexpr (kCreates || kNames) {
      // Once: a table that is passed again contains our functions, below others.
      if (table->*kMember == nullptr || next != nullptr) return;
      next = table->*kMember;
      table->*kMember = &Function;
    }
  }
};

}  // namespace

void InstallStreamTracing(HipRuntimeTable* table) {
  if (!AnyContextTraces(-1, kKind)) return;
#define SIMROCM_INSTALL(result, name, number, parameters, arguments) \
  StreamWrapper<&HipRuntimeTable::name##_fn,                         \
                std::string_view(#name) == "hipStreamDestroy">::Install(table);
  SIMROCM_HIP_RUNTIME_API(SIMROCM_INSTALL)
#undef SIMROCM_INSTALL
  Log("sdk.wrap_streams");
}

}  // namespace simrocm::sdk
