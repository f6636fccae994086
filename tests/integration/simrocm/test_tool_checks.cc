#include "tests/integration/simrocm/test_tool_checks.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <vector>

namespace simrocm_test {
namespace {

void Result(const char* name, int status) {
  Put("check name=%s status=%d", name, status);
}

rocattach_sdk_status IgnoreAgents(int32_t, const void**, size_t, void*) {
  return ROCATTACH_SDK_STATUS_SUCCESS;
}

void IgnoreDispatch(rocattach_sdk_dispatch_data, rocattach_sdk_counter_config_id*,
                    rocattach_sdk_user_data*, void*) {}
void IgnoreDevice(rocattach_sdk_context_id, rocattach_sdk_agent_id,
                  rocattach_sdk_set_config_fn, void*) {}
void IgnoreBuffer(rocattach_sdk_context_id, rocattach_sdk_buffer_id,
                  rocattach_sdk_record_header**, size_t, void*, uint64_t) {}
void IgnoreTable(int32_t, uint64_t, uint64_t, void**, uint64_t, void*) {}

// Statuses of configs: limits of blocks, unknown counters and agents.
void CheckConfigs(const Sdk& sdk, rocattach_sdk_agent_id agent,
                  const std::map<std::string, rocattach_sdk_counter_id>& ids) {
  auto create = [&](rocattach_sdk_agent_id on, std::vector<std::string> names) {
    std::vector<rocattach_sdk_counter_id> list;
    for (const std::string& name : names) {
      auto found = ids.find(name);
      list.push_back(found != ids.end() ? found->second : rocattach_sdk_counter_id{0});
    }
    rocattach_sdk_counter_config_id config{0};
    return sdk.functions.create_counter_config(on, list.data(), list.size(), &config);
  };
  std::vector<std::string> nine = {"SQ_WAVES",      "SQ_CYCLES",     "SQ_BUSY_CYCLES",
                                   "SQ_INSTS",      "SQ_INSTS_VALU", "SQ_INSTS_SALU",
                                   "SQ_INSTS_VMEM", "SQ_INSTS_LDS",  "SQ_INSTS_SMEM"};
  Result("nine_of_eight", create(agent, nine));
  std::vector<std::string> eight(nine.begin(), nine.begin() + 8);
  Result("eight_of_eight", create(agent, eight));
  eight.push_back("SQ_WAVES");
  Result("duplicate_is_one", create(agent, eight));
  Result("eight_and_derived_of_the_same",
         create(agent,
                {"SQ_WAVES", "SQ_CYCLES", "SQ_BUSY_CYCLES", "SQ_INSTS", "SQ_INSTS_VALU",
                 "SQ_INSTS_SALU", "SQ_INSTS_VMEM", "SQ_INSTS_LDS", "VALUInsts"}));
  Result("three_of_two",
         create(agent, {"GRBM_COUNT", "GRBM_GUI_ACTIVE", "GRBM_TA_BUSY"}));
  Result("constants_are_free",
         create(agent, {"GRBM_COUNT", "GRBM_GUI_ACTIVE", "CU_NUM", "SE_NUM"}));
  Result("unknown_counter", create(agent, {"NO_SUCH_COUNTER"}));
  Result("unknown_agent", create({12345}, {"SQ_WAVES"}));
  rocattach_sdk_counter_id created{0};
  Result("create_counter",
         sdk.functions.create_counter("MyWaves", 7, "2*reduce(SQ_WAVES,sum)", 22, "", 0,
                                      agent, &created));
  Result("create_counter_malformed",
         sdk.functions.create_counter("Bad", 3, "reduce(SQ_WAVES", 15, "", 0, agent,
                                      &created));
}

}  // namespace

bool Sdk::Load() {
  void* library = dlopen("librocprofiler-sdk.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return false;
#define SIMROCM_TEST_RESOLVE(field, symbol, type)                   \
  functions.field = reinterpret_cast<type>(dlsym(library, symbol)); \
  if (functions.field == nullptr) missing.insert(symbol);
  ROCATTACH_SDK_FOR_EACH_FUNCTION(SIMROCM_TEST_RESOLVE)
#undef SIMROCM_TEST_RESOLVE
  // SDK 1.0.0 does not export this one.
  missing.erase("rocprofiler_create_counter");
  return missing.empty();
}

void Put(const char* format, ...) {
  const char* path = getenv("SIMROCM_TOOL_OUTPUT");
  if (path == nullptr) return;
  char line[1024];
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(line, sizeof(line) - 1, format, arguments);
  va_end(arguments);
  if (length < 0) return;
  if (length > static_cast<int>(sizeof(line)) - 2) length = sizeof(line) - 2;
  line[length++] = '\n';
  // Kept open: a test writes hundreds of thousands of lines.
  static int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (write(fd, line, static_cast<size_t>(length)) != length) abort();
}

void CheckWhileInitializing(
    const Sdk& sdk, rocattach_sdk_agent_id agent, rocattach_sdk_context_id context,
    rocattach_sdk_buffer_id buffer,
    const std::map<std::string, rocattach_sdk_counter_id>& ids) {
  const auto& f = sdk.functions;
  rocattach_sdk_context_id used = context;
  Result("context_id_not_zero", f.create_context(&used));
  Result("start_unknown_context", f.start_context({99}));
  Result("stop_inactive_context", f.stop_context(context));
  Result("flush_unknown_buffer", f.flush_buffer({99}));
  Result("trace_unknown_kind",
         f.configure_buffer_tracing(context, 99, nullptr, 0, buffer));
  Result("trace_unknown_buffer",
         f.configure_buffer_tracing(context, ROCATTACH_SDK_BUFFER_SCRATCH_MEMORY,
                                    nullptr, 0, {99}));
  rocattach_sdk_context_id other{0}, third{0};
  f.create_context(&other);
  f.create_context(&third);
  f.configure_buffer_tracing(other, ROCATTACH_SDK_BUFFER_SCRATCH_MEMORY, nullptr, 0,
                             buffer);
  Result("trace_twice",
         f.configure_buffer_tracing(other, ROCATTACH_SDK_BUFFER_SCRATCH_MEMORY, nullptr,
                                    0, buffer));
  f.configure_buffer_dispatch_counting(other, buffer, IgnoreDispatch, nullptr);
  f.configure_buffer_dispatch_counting(third, buffer, IgnoreDispatch, nullptr);
  Result("device_after_dispatch",
         f.configure_device_counting(other, {0}, agent, IgnoreDevice, nullptr));
  Result("start", f.start_context(other));
  Result("start_again", f.start_context(other));
  Result("start_conflicting", f.start_context(third));
  Result("stop", f.stop_context(other));
  Result("sample_without_start",
         f.sample_device_counting(other, {}, 0, nullptr, nullptr));
  Result("agent_too_large", f.query_available_agents(ROCATTACH_SDK_AGENT_INFO_VERSION_0,
                                                     IgnoreAgents, 4096, nullptr));
  Result("agent_version", f.query_available_agents(7, IgnoreAgents, 8, nullptr));
  Result("assign_unknown_thread", f.assign_callback_thread(buffer, {99}));
  int state = 7;
  f.is_initialized(&state);
  Result("is_initialized", state);
  CheckConfigs(sdk, agent, ids);
}

void CheckAfterInitialization(const Sdk& sdk, rocattach_sdk_agent_id agent,
                              rocattach_sdk_context_id context,
                              rocattach_sdk_buffer_id buffer) {
  const auto& f = sdk.functions;
  rocattach_sdk_context_id new_context{0};
  rocattach_sdk_buffer_id new_buffer{0};
  rocattach_sdk_callback_thread thread{0};
  Result("late_create_context", f.create_context(&new_context));
  Result("late_create_buffer",
         f.create_buffer(context, 4096, 0, ROCATTACH_SDK_POLICY_DISCARD, IgnoreBuffer,
                         nullptr, &new_buffer));
  Result("late_create_thread", f.create_callback_thread(&thread));
  Result("late_trace",
         f.configure_buffer_tracing(context, ROCATTACH_SDK_BUFFER_SCRATCH_MEMORY,
                                    nullptr, 0, buffer));
  Result("late_dispatch_counting", f.configure_buffer_dispatch_counting(
                                       context, buffer, IgnoreDispatch, nullptr));
  Result("late_device_counting",
         f.configure_device_counting(context, {0}, agent, IgnoreDevice, nullptr));
  Result("late_intercept",
         f.at_intercept_table(IgnoreTable, ROCATTACH_SDK_TABLE_HSA, nullptr));
  Result("start_while_finalizing", f.start_context(context));
  int state = 7;
  f.is_finalized(&state);
  Result("is_finalized", state);
}

}  // namespace simrocm_test
