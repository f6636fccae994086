// Calls that the C API of sessions refuses, and the order in which it checks.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "tests/unit/library/sessions_c_api_fixture.h"
#include "userspace/library/user_memory.h"

namespace rocattach {
namespace {

TEST_F(SessionsCApiTest, NullsAreRefusedInOrder) {
  EXPECT_EQ(rocattach_create_session(ROCATTACH_NONE_REPLAY_MODE, nullptr),
            ROCATTACH_SESSION_ERROR_INVALID_ARGUMENTS);
  EXPECT_EQ(rocattach_create_session(static_cast<rocattach_replay_mode_t>(1), nullptr),
            ROCATTACH_SESSION_ERROR_INVALID_ARGUMENTS);
  const rocattach_session_id_t session = NewSession();
  EXPECT_EQ(rocattach_create_filter(session, ROCATTACH_COUNTERS_COLLECTION, {}, 5,
                                    nullptr, {}),
            ROCATTACH_SESSION_ERROR_INVALID_ARGUMENTS);
  EXPECT_EQ(
      rocattach_create_filter({5}, ROCATTACH_COUNTERS_COLLECTION, {}, 5, nullptr, {}),
      ROCATTACH_SESSION_ERROR_SESSION_NOT_FOUND);
  EXPECT_EQ(rocattach_create_buffer(session, OnBuffer, 4096, nullptr),
            ROCATTACH_SESSION_ERROR_INVALID_ARGUMENTS);
  rocattach_buffer_id_t buffer = {};
  EXPECT_EQ(rocattach_create_buffer(session, nullptr, 4096, &buffer),
            ROCATTACH_SESSION_ERROR_INVALID_ARGUMENTS);
  EXPECT_EQ(rocattach_get_timestamp(nullptr),
            ROCATTACH_SESSION_ERROR_INVALID_ARGUMENTS);
  uint64_t now = 0;
  EXPECT_EQ(rocattach_get_timestamp(&now), 0);
  EXPECT_GT(now, 0u);
  ASSERT_EQ(rocattach_create_buffer(session, OnBuffer, 4096, &buffer), 0);
  EXPECT_EQ(rocattach_next_record(nullptr, nullptr, session, buffer),
            ROCATTACH_SESSION_ERROR_RECORD_CORRUPTED);
  rocattach_finalize();
  EXPECT_EQ(rocattach_create_session(ROCATTACH_NONE_REPLAY_MODE, nullptr),
            ROCATTACH_SESSION_ERROR_NOT_INITIALIZED);
  EXPECT_EQ(rocattach_get_timestamp(nullptr), ROCATTACH_SESSION_ERROR_NOT_INITIALIZED);
}

TEST_F(SessionsCApiTest, UnreadableDataIsCorruptedNotACrash) {
  // A page that cannot be read, and a string that continues into it.
  char* pages = static_cast<char*>(
      mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(pages, MAP_FAILED);
  ASSERT_EQ(mprotect(pages + 4096, 4096, PROT_NONE), 0);
  std::memset(pages, 'A', 4096);
  const char* endless[] = {"SQ_WAVES", pages};
  const char* null_name[] = {nullptr};
  const char* good[] = {"SQ_WAVES"};
  if (char probe; ReadUserMemory(pages + 4096, &probe, 1)) {
    GTEST_SKIP() << "this machine filters process_vm_readv";
  }
  rocattach_filter_data_t data = {};
  auto counters = [&](const char** names, uint64_t count) {
    data.counters_names = names;
    return Filter(ROCATTACH_COUNTERS_COLLECTION, data, count);
  };
  const auto corrupted = ROCATTACH_SESSION_ERROR_FILTER_DATA_CORRUPTED;
  EXPECT_EQ(counters(nullptr, 1), corrupted);
  EXPECT_EQ(counters(endless, 2), corrupted);
  EXPECT_EQ(counters(null_name, 1), corrupted);
  EXPECT_EQ(counters(reinterpret_cast<const char**>(pages + 4096), 1), corrupted);
  EXPECT_EQ(counters(reinterpret_cast<const char**>(pages + 4088), 2), corrupted);
  EXPECT_EQ(counters(reinterpret_cast<const char**>(uintptr_t{8}), 1), corrupted);
  EXPECT_EQ(counters(good, UINT64_MAX), corrupted);
  EXPECT_EQ(counters(good, 0), corrupted);
  EXPECT_EQ(counters(good, 1), 0);
  // A string that ends exactly at the page's end is fine.
  std::memcpy(pages + 4096 - 9, "SQ_WAVES", 9);
  const char* at_the_end[] = {pages + 4096 - 9};
  EXPECT_EQ(counters(at_the_end, 1), 0);
  const rocattach_session_id_t session = NewSession();
  rocattach_buffer_id_t buffer = {};
  ASSERT_EQ(rocattach_create_buffer(session, OnBuffer, 4096, &buffer), 0);
  EXPECT_EQ(rocattach_set_buffer_properties(session, buffer, nullptr, 1), corrupted);
  EXPECT_EQ(rocattach_set_buffer_properties(
                session, buffer,
                reinterpret_cast<rocattach_buffer_property_t*>(pages + 4096), 1),
            corrupted);
  munmap(pages, 8192);
}

TEST_F(SessionsCApiTest, DataMustGoWithTheKind) {
  const auto mismatch = ROCATTACH_SESSION_ERROR_SESSION_FILTER_DATA_MISMATCH;
  const char* names[] = {"SQ_WAVES"};
  rocattach_filter_data_t data = {};
  data.counters_names = names;
  EXPECT_EQ(Filter(ROCATTACH_DISPATCH_TIMESTAMPS_COLLECTION, data, 1), mismatch);
  EXPECT_EQ(Filter(ROCATTACH_COUNTERS_SAMPLER, data, 2), mismatch);
  EXPECT_EQ(Filter(ROCATTACH_PC_SAMPLING_COLLECTION, {}, 99),
            ROCATTACH_SESSION_ERROR_FILTER_NOT_SUPPORTED);
  rocattach_filter_property_t property = {};
  property.kind = static_cast<rocattach_filter_property_kind_t>(9);
  EXPECT_EQ(Filter(ROCATTACH_DISPATCH_TIMESTAMPS_COLLECTION, {}, 0, property),
            mismatch);
  property.kind = ROCATTACH_FILTER_RANGE;
  property.data.range[0] = 3;
  property.data.range[1] = 7;
  property.data_count = 1;
  EXPECT_EQ(Filter(ROCATTACH_DISPATCH_TIMESTAMPS_COLLECTION, {}, 0, property),
            mismatch);
  property.data_count = 2;
  EXPECT_EQ(Filter(ROCATTACH_DISPATCH_TIMESTAMPS_COLLECTION, {}, 0, property), 0);
  property.data.range[0] = 9;
  EXPECT_EQ(Filter(ROCATTACH_DISPATCH_TIMESTAMPS_COLLECTION, {}, 0, property),
            ROCATTACH_SESSION_ERROR_FILTER_DATA_CORRUPTED);
  const rocattach_dispatch_range_t ids[] = {{1, 2}, {5, 9}};
  property.kind = ROCATTACH_FILTER_DISPATCH_IDS;
  property.data.dispatch_ids = ids;
  EXPECT_EQ(Filter(ROCATTACH_COUNTERS_COLLECTION, data, 1, property), 0);
  const char* kernels[] = {"gemm", "!small"};
  property.kind = ROCATTACH_FILTER_KERNEL_NAMES;
  property.data.names = kernels;
  EXPECT_EQ(Filter(ROCATTACH_COUNTERS_COLLECTION, data, 1, property), 0);
  const rocattach_tracer_activity_domain_t domains[] = {
      ROCATTACH_ACTIVITY_DOMAIN_HSA_API};
  data.trace_apis = domains;
  EXPECT_EQ(Filter(ROCATTACH_API_TRACE, data, 1, property), mismatch);
  const char* functions[] = {"hsa_init"};
  property.kind = ROCATTACH_FILTER_HSA_TRACER_API_FUNCTIONS;
  property.data.names = functions;
  property.data_count = 1;
  EXPECT_EQ(Filter(ROCATTACH_API_TRACE, data, 1, property), 0);
}

TEST_F(SessionsCApiTest, ReadySessionsChecksInOrder) {
  rocattach_session_id_t session = {};
  auto ready = [&](int mode, rocattach_filter_kind_t kind, size_t size,
                   rocattach_sync_callback_t sync) {
    const rocattach_tracer_activity_domain_t domain = ROCATTACH_ACTIVITY_DOMAIN_HSA_API;
    rocattach_filter_data_t data = {};
    data.trace_apis = &domain;
    return rocattach_create_ready_session(
        static_cast<rocattach_replay_mode_t>(mode), kind, data,
        kind == ROCATTACH_API_TRACE ? 1 : 0, size, OnBuffer, &session, {}, sync);
  };
  EXPECT_EQ(ready(3, ROCATTACH_COUNTERS_COLLECTION, 0, nullptr),
            ROCATTACH_SESSION_ERROR_INCORRECT_REPLAY_MODE);
  EXPECT_EQ(ready(-1, ROCATTACH_COUNTERS_COLLECTION, 0, nullptr),
            ROCATTACH_SESSION_ERROR_FILTER_DATA_CORRUPTED);
  EXPECT_EQ(ready(-1, ROCATTACH_API_TRACE, 8, nullptr),
            ROCATTACH_SESSION_ERROR_INCORRECT_SIZE);
  ASSERT_EQ(ready(-1, ROCATTACH_API_TRACE, 4096, OnSync), 0);
  ASSERT_EQ(rocattach_start_session(session), 0);
  ApiEvent event;
  event.correlation_id = 9;
  backend_->ApiCall(target_, event);
  EXPECT_EQ(sync_calls, 1);
}

TEST_F(SessionsCApiTest, PropertiesAreSetTogetherOrNotAtAll) {
  rocattach_filter_id_t filter = {};
  rocattach_buffer_id_t buffer = {};
  const rocattach_session_id_t session = NewSession();
  ASSERT_EQ(rocattach_create_filter(session, ROCATTACH_DISPATCH_TIMESTAMPS_COLLECTION,
                                    {}, 0, &filter, {}),
            0);
  ASSERT_EQ(rocattach_create_buffer(session, OnBuffer, 1 << 20, &buffer), 0);
  ASSERT_EQ(rocattach_set_filter_buffer(session, filter, buffer), 0);
  rocattach_buffer_property_t properties[] = {
      {ROCATTACH_BUFFER_PROPERTY_KIND_INTERVAL_FLUSH, 1},
      {ROCATTACH_BUFFER_PROPERTY_KIND_INTERVAL_FLUSH, 0}};
  EXPECT_EQ(rocattach_set_buffer_properties(session, buffer, properties, 2),
            ROCATTACH_SESSION_ERROR_INCORRECT_FLUSH_INTERVAL);
  ASSERT_EQ(rocattach_start_session(session), 0);
  DispatchEvent event = {};
  event.for_timestamps = true;
  backend_->Dispatch(target_, event);
  // Many times the interval of 1 ms, as there is no event to wait for.
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_EQ(callbacks, 0) << "the first one has not been set";
  uint64_t dropped = 1;
  EXPECT_EQ(rocattach_get_dropped_records(session, nullptr),
            ROCATTACH_SESSION_ERROR_INVALID_ARGUMENTS);
  ASSERT_EQ(rocattach_get_dropped_records(session, &dropped), 0);
  EXPECT_EQ(dropped, 0u);
  ASSERT_EQ(rocattach_terminate_session(session), 0);
  EXPECT_EQ(callbacks, 1);
}

}  // namespace
}  // namespace rocattach
