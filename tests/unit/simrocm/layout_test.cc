// The declarations of the ABI: values, and, where the SDK's own headers are installed,
// their layouts. The header's static assertions check the documented layouts; this test
// checks what they cannot.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "userspace/collector/sdk/abi.h"

#if __has_include(<rocprofiler-sdk/rocprofiler.h>) && \
    __has_include(<rocprofiler-sdk/registration.h>)
#define HAVE_REAL_HEADERS 1
#include <rocprofiler-sdk/registration.h>
#include <rocprofiler-sdk/rocprofiler.h>
#endif

namespace {

TEST(SdkAbi, StatusValuesAreConsecutive) {
  int expected = 0;
#define ROCATTACH_TEST_STATUS(name, value) \
  EXPECT_EQ(value, expected++) << #name;   \
  EXPECT_EQ(ROCATTACH_SDK_STATUS_##name, value);
  ROCATTACH_SDK_FOR_EACH_STATUS(ROCATTACH_TEST_STATUS)
#undef ROCATTACH_TEST_STATUS
  EXPECT_EQ(expected, 42);
}

TEST(SdkAbi, FunctionsAreNamedOnce) {
  std::set<std::string> symbols;
  size_t count = 0;
#define ROCATTACH_TEST_SYMBOL(field, symbol, type)                           \
  EXPECT_EQ(std::string((symbol)).rfind("rocprofiler_", 0), 0u) << (symbol); \
  symbols.insert(symbol);                                                    \
  ++count;
  ROCATTACH_SDK_FOR_EACH_FUNCTION(ROCATTACH_TEST_SYMBOL)
#undef ROCATTACH_TEST_SYMBOL
  EXPECT_EQ(symbols.size(), count);
  EXPECT_EQ(sizeof(rocattach_sdk_functions), count * sizeof(void*));
}

TEST(SdkAbi, FieldsAreReadOnlyWhereTheyExist) {
  rocattach_sdk_agent agent{};
  agent.size = ROCATTACH_SDK_AGENT_BASE_BYTES;
  EXPECT_TRUE(ROCATTACH_SDK_HAS(rocattach_sdk_agent, &agent, runtime_visibility));
  EXPECT_FALSE(ROCATTACH_SDK_HAS(rocattach_sdk_agent, &agent, uuid));
  agent.size = sizeof(agent);
  EXPECT_TRUE(ROCATTACH_SDK_HAS(rocattach_sdk_agent, &agent, uuid));
}

TEST(SdkAbi, MatchesTheInstalledHeaders) {
#ifndef HAVE_REAL_HEADERS
  GTEST_SKIP() << "the headers of rocprofiler-sdk are not installed";
#else
#define SAME_SIZE(ours, theirs) \
  EXPECT_EQ(sizeof(struct ours), sizeof(theirs)) << #theirs
#define SAME_OFFSET(ours, theirs, field) \
  EXPECT_EQ(offsetof(struct ours, field), offsetof(theirs, field)) << #theirs "." #field
  SAME_SIZE(rocattach_sdk_client_id, rocprofiler_client_id_t);
  SAME_SIZE(rocattach_sdk_configure_result, rocprofiler_tool_configure_result_t);
  SAME_SIZE(rocattach_sdk_dispatch_info, rocprofiler_kernel_dispatch_info_t);
  SAME_OFFSET(rocattach_sdk_dispatch_info, rocprofiler_kernel_dispatch_info_t,
              grid_size);
  SAME_SIZE(rocattach_sdk_counter_record, rocprofiler_counter_record_t);
  SAME_SIZE(rocattach_sdk_dispatch_data, rocprofiler_dispatch_counting_service_data_t);
  SAME_SIZE(rocattach_sdk_dispatch_count_record,
            rocprofiler_dispatch_counting_service_record_t);
  SAME_SIZE(rocattach_sdk_record_header, rocprofiler_record_header_t);
  SAME_SIZE(rocattach_sdk_callback_record, rocprofiler_callback_tracing_record_t);
  SAME_OFFSET(rocattach_sdk_agent, rocprofiler_agent_t, name);
  SAME_OFFSET(rocattach_sdk_agent, rocprofiler_agent_t, node_id);
  SAME_OFFSET(rocattach_sdk_agent, rocprofiler_agent_t, runtime_visibility);
  SAME_OFFSET(rocattach_sdk_kernel_dispatch_record,
              rocprofiler_buffer_tracing_kernel_dispatch_record_t, dispatch_info);
  SAME_OFFSET(rocattach_sdk_memory_copy_record,
              rocprofiler_buffer_tracing_memory_copy_record_t, bytes);
  SAME_OFFSET(rocattach_sdk_code_object,
              rocprofiler_callback_tracing_code_object_load_data_t, memory_base);
  SAME_OFFSET(rocattach_sdk_kernel_symbol,
              rocprofiler_callback_tracing_code_object_kernel_symbol_register_data_t,
              accum_vgpr_count);
  SAME_OFFSET(rocattach_sdk_counter_info_v1, rocprofiler_counter_info_v1_t,
              dimensions_instances);
  EXPECT_EQ(ROCATTACH_SDK_STATUS_ERROR_PERMISSION_DENIED,
            ROCPROFILER_STATUS_ERROR_PERMISSION_DENIED);
  EXPECT_EQ(ROCATTACH_SDK_BUFFER_RUNTIME_INITIALIZATION,
            ROCPROFILER_BUFFER_TRACING_RUNTIME_INITIALIZATION);
  EXPECT_EQ(ROCATTACH_SDK_CALLBACK_RUNTIME_INITIALIZATION,
            ROCPROFILER_CALLBACK_TRACING_RUNTIME_INITIALIZATION);
  EXPECT_EQ(ROCATTACH_SDK_CALLBACK_HIP_STREAM, ROCPROFILER_CALLBACK_TRACING_HIP_STREAM);
  EXPECT_EQ(ROCATTACH_SDK_HIP_STREAM_SET, ROCPROFILER_HIP_STREAM_SET);
  EXPECT_EQ(ROCATTACH_SDK_REQUEST_MEMORY_COPY,
            ROCPROFILER_EXTERNAL_CORRELATION_REQUEST_MEMORY_COPY);
#endif
}

}  // namespace
