#include "userspace/collector/sdk/api.h"

#include <string.h>

#include <algorithm>

namespace rocattach::collector {

// A table of functions, and its numbers in the domain; see rocattach_function_entry.
struct SdkApiTable {
  int32_t kind;  // enum rocattach_sdk_callback_kind
  rocattach_plan_api domain;
  uint32_t first;
  uint32_t room;
};

namespace {

constexpr SdkApiTable kTables[] = {
    {ROCATTACH_SDK_CALLBACK_HSA_CORE_API, ROCATTACH_PLAN_API_HSA, 0, 256},
    {ROCATTACH_SDK_CALLBACK_HSA_AMD_EXT_API, ROCATTACH_PLAN_API_HSA, 256, 256},
    {ROCATTACH_SDK_CALLBACK_HSA_IMAGE_EXT_API, ROCATTACH_PLAN_API_HSA, 512, 256},
    {ROCATTACH_SDK_CALLBACK_HSA_FINALIZE_EXT_API, ROCATTACH_PLAN_API_HSA, 768, 256},
    {ROCATTACH_SDK_CALLBACK_HIP_RUNTIME_API, ROCATTACH_PLAN_API_HIP, 0, 768},
    {ROCATTACH_SDK_CALLBACK_HIP_COMPILER_API, ROCATTACH_PLAN_API_HIP, 768, 256},
    {ROCATTACH_SDK_CALLBACK_MARKER_CORE_API, ROCATTACH_PLAN_API_MARKER, 0, 256},
    {ROCATTACH_SDK_CALLBACK_MARKER_CONTROL_API, ROCATTACH_PLAN_API_MARKER, 256, 256},
    {ROCATTACH_SDK_CALLBACK_MARKER_NAME_API, ROCATTACH_PLAN_API_MARKER, 512, 256},
    {ROCATTACH_SDK_CALLBACK_RCCL_API, ROCATTACH_PLAN_API_RCCL, 0, 256},
};

// Numbers of functions may have gaps; a table ends after this many unused numbers in a
// row.
constexpr uint32_t kLargestGap = 64;

// A marker's message, in the memory of the application, which has just passed it.
const char* MessageOf(const rocattach_sdk_callback_record& record) {
  if (record.kind != ROCATTACH_SDK_CALLBACK_MARKER_CORE_API) return nullptr;
  if (record.operation != ROCATTACH_SDK_MARKER_MARK &&
      record.operation != ROCATTACH_SDK_MARKER_RANGE_PUSH &&
      record.operation != ROCATTACH_SDK_MARKER_RANGE_START) {
    return nullptr;
  }
  auto* payload = static_cast<const rocattach_sdk_callback_marker*>(record.payload);
  if (payload == nullptr ||
      !ROCATTACH_SDK_HAS(rocattach_sdk_callback_marker, payload, message)) {
    return nullptr;
  }
  return payload->message;
}

// The arguments of a call, one line "name=value" each, as far as they fit into
// `text`. `cut`: some did not fit.
struct ArgumentText {
  static constexpr size_t kRoom = 2048;
  char text[kRoom];  // not cleared: most calls have none
  size_t bytes = 0;
  bool cut = false;

  ArgumentText() { text[0] = '\0'; }

  void Add(const char* part) {
    const size_t length = strnlen(part, kRoom);
    const size_t fits = std::min(length, kRoom - 1 - bytes);
    for (size_t i = 0; i < fits; ++i) {
      text[bytes + i] = part[i] == '\n' ? ' ' : part[i];
    }
    bytes += fits;
    text[bytes] = '\0';
    cut |= fits < length;
  }
  void EndLine() {
    if (bytes == 0 || bytes == kRoom - 1) return;
    text[bytes++] = '\n';
    text[bytes] = '\0';
  }
  static int OnArgument(int32_t, rocattach_sdk_operation, uint32_t, const void*,
                        int32_t, const char*, const char* name, const char* value,
                        int32_t, void* self_pointer) {
    auto* self = static_cast<ArgumentText*>(self_pointer);
    self->EndLine();
    self->Add(name != nullptr ? name : "");
    self->Add("=");
    self->Add(value != nullptr ? value : "");
    return self->cut ? 1 : 0;
  }
};

// Stores a message in the call if it fits, or else decides how many slots of text
// follow it, at most a quarter of a ring of `ring_slots`. Returns its length.
size_t PlaceMessage(const char* message, uint32_t ring_slots,
                    rocattach_api_call* call) {
  if (message == nullptr) return 0;
  const size_t most = std::min<size_t>(
      ROCATTACH_API_MAX_TEXT_BYTES, size_t{ring_slots / 4} * ROCATTACH_TEXT_SLOT_BYTES);
  size_t bytes = strnlen(message, most + 1);
  if (bytes > most) {
    bytes = most;
    call->flags |= ROCATTACH_API_TEXT_CUT;
  }
  if (bytes < sizeof(call->text)) {
    memcpy(call->text, message, bytes);
  } else {
    call->text_slots = static_cast<uint16_t>((bytes + ROCATTACH_TEXT_SLOT_BYTES - 1) /
                                             ROCATTACH_TEXT_SLOT_BYTES);
  }
  return bytes;
}

// Fills a slot with part `number` of a message of `bytes` bytes.
void FillText(const char* message, size_t bytes, uint32_t number, void* slot) {
  rocattach_text text = {};
  text.kind = ROCATTACH_RECORD_TEXT;
  text.slot = static_cast<uint16_t>(number);
  const size_t begin = size_t{number} * ROCATTACH_TEXT_SLOT_BYTES;
  text.bytes =
      static_cast<uint16_t>(std::min<size_t>(bytes - begin, ROCATTACH_TEXT_SLOT_BYTES));
  memcpy(text.text, message + begin, text.bytes);
  memcpy(slot, &text, sizeof(text));
}

}  // namespace

bool ApiFunctionOf(int32_t kind, rocattach_sdk_operation operation,
                   rocattach_plan_api* domain, uint32_t* function) {
  for (const SdkApiTable& table : kTables) {
    if (table.kind != kind) continue;
    if (operation < 0 || static_cast<uint32_t>(operation) >= table.room) return false;
    *domain = table.domain;
    *function = table.first + static_cast<uint32_t>(operation);
    return true;
  }
  return false;
}

void SdkApi::PublishNames(const rocattach_sdk_functions& sdk, const SdkApiTable& table,
                          Dictionary* dictionary) {
  if (sdk.callback_operation_name == nullptr) return;
  uint32_t gap = 0;
  for (uint32_t i = 0; i < table.room && gap < kLargestGap; ++i, ++gap) {
    const char* name = nullptr;
    uint64_t length = 0;
    if (sdk.callback_operation_name(table.kind, static_cast<int32_t>(i), &name,
                                    &length) != ROCATTACH_SDK_STATUS_SUCCESS ||
        name == nullptr) {
      continue;
    }
    gap = 0;
    if (strcmp(name, "hsa_init") == 0) hsa_init_ = table.first + i;
    if (strcmp(name, "hsa_shut_down") == 0) hsa_shut_down_ = table.first + i;
    rocattach_function_entry entry = {};
    entry.domain = static_cast<uint16_t>(table.domain);
    entry.function = static_cast<uint16_t>(table.first + i);
    dictionary->Append(ROCATTACH_ENTRY_FUNCTION, &entry, name,
                       static_cast<uint32_t>(strnlen(name, 256)));
  }
}

bool SdkApi::Configure(const rocattach_sdk_functions* sdk,
                       rocattach_sdk_context_id context, rocattach_plan_api domain,
                       Dictionary* dictionary,
                       rocattach_sdk_callback_tracing_cb callback, void* data) {
  sdk_ = sdk;
  bool any = false;
  for (const SdkApiTable& table : kTables) {
    if (table.domain != domain) continue;
    if (sdk->configure_callback_tracing(context, table.kind, nullptr, 0, callback,
                                        data) != ROCATTACH_SDK_STATUS_SUCCESS) {
      continue;
    }
    any = true;
    PublishNames(*sdk, table, dictionary);
  }
  return any;
}

void SdkApi::OnCall(const rocattach_sdk_callback_record& record,
                    rocattach_sdk_user_data* user_data) {
  if (record.phase == ROCATTACH_SDK_PHASE_ENTER) {
    user_data->value = BootNs();
    return;
  }
  // For a call that was in progress when tracing began, only the end is seen.
  if (record.phase != ROCATTACH_SDK_PHASE_EXIT || user_data->value == 0) return;
  rocattach_plan_api domain;
  uint32_t function;
  if (!ApiFunctionOf(record.kind, record.operation, &domain, &function)) return;
  const PlanState* state = Traces(domain, function);
  if (state != nullptr) Publish(&record, user_data->value, state, domain, function);
}

void SdkApi::OnKeptCall(bool init, uint64_t begin_ns) {
  const uint32_t function = init ? hsa_init_ : hsa_shut_down_;
  if (function == kNoFunction) return;
  const PlanState* state = Traces(ROCATTACH_PLAN_API_HSA, function);
  if (state == nullptr) return;
  Publish(nullptr, begin_ns, state, ROCATTACH_PLAN_API_HSA, function);
}

const PlanState* SdkApi::Traces(rocattach_plan_api domain, uint32_t function) const {
  const PlanState* state = plans_->active();
  const bool traces = state != nullptr &&
                      (state->plan.record_kinds & ROCATTACH_PLAN_RECORD_API) != 0 &&
                      rocattach_plan_traces(&state->plan, domain, function);
  return traces ? state : nullptr;
}

void SdkApi::Publish(const rocattach_sdk_callback_record* record, uint64_t begin_ns,
                     const PlanState* state, rocattach_plan_api domain,
                     uint32_t function) {
  rocattach_api_call call = {};
  call.kind = ROCATTACH_RECORD_API;
  call.domain = static_cast<uint16_t>(domain);
  call.function = static_cast<uint16_t>(function);
  if (record != nullptr) {
    call.correlation_id = record->correlation_id.internal;
    call.ancestor_id = record->correlation_id.ancestor;
  }
  call.begin_ns = begin_ns;
  call.end_ns = BootNs();
  uint64_t generation = LoadAcquire(&state->generation);
  if (generation == 0) return;
  call.plan_tag = ROCATTACH_PLAN_TAG(generation);
  RingHandle ring = rings_->Mine();
  call.tid = ring.tid();
  if (call.tid == LoadRelaxed(&own_thread_)) return;
  const char* message = record != nullptr ? MessageOf(*record) : nullptr;
  // Markers have nothing but a message.
  ArgumentText arguments;
  if ((state->plan.record_kinds & ROCATTACH_PLAN_RECORD_ARGUMENTS) != 0 &&
      record != nullptr && domain != ROCATTACH_PLAN_API_MARKER) {
    // No pointer is followed: the object that it points to may no longer exist.
    sdk_->iterate_arguments(*record, &ArgumentText::OnArgument, 0, &arguments);
    if (arguments.bytes != 0) {
      message = arguments.text;
      call.flags = ROCATTACH_API_TEXT_ARGUMENTS;
      if (arguments.cut) call.flags |= ROCATTACH_API_TEXT_CUT;
    }
  }
  const size_t bytes = PlaceMessage(message, ring.slots(), &call);
  ring.Count(&rocattach_ring::api_calls_seen, uint64_t{1});
  const bool pushed =
      call.text_slots == 0
          ? ring.Push(&call)
          : ring.PushGroupWith(call.text_slots + 1u, [&](uint32_t i, void* slot) {
              if (i == 0) {
                memcpy(slot, &call, sizeof(call));
              } else {
                FillText(message, bytes, i - 1, slot);
              }
            });
  if (!pushed) ring.Count(&rocattach_ring::api_calls_dropped, uint64_t{1});
}

}  // namespace rocattach::collector
