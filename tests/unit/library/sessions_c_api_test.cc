// The C API of sessions: life cycle, filters, buffers, device sessions.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/await.h"
#include "tests/unit/library/sessions_c_api_fixture.h"
#include "userspace/base/session_status.h"

namespace rocattach {

std::shared_ptr<SessionRunner> DefaultSessionRunner() {
  return std::make_shared<TargetRunner>(std::make_shared<FakeBackend>(), nullptr);
}

namespace {

TEST_F(SessionsCApiTest, LifeCycle) {
  const rocattach_session_id_t session = NewSession();
  rocattach_filter_id_t filter = {};
  rocattach_buffer_id_t buffer = {};
  ASSERT_EQ(rocattach_create_filter(session, ROCATTACH_DISPATCH_TIMESTAMPS_COLLECTION,
                                    {}, 0, &filter, {}),
            0);
  ASSERT_EQ(rocattach_create_buffer(session, OnBuffer, 4096, &buffer), 0);
  ASSERT_EQ(rocattach_set_filter_buffer(session, filter, buffer), 0);
  EXPECT_EQ(rocattach_add_session_process(session, 7),
            ROCATTACH_SESSION_ERROR_INVALID_ARGUMENTS);
  ASSERT_EQ(rocattach_add_session_process(session, 100), 0);
  ASSERT_EQ(rocattach_start_session(session), 0);
  EXPECT_EQ(rocattach_start_session(session),
            ROCATTACH_SESSION_ERROR_HAS_ACTIVE_SESSION);
  EXPECT_NE(std::string(rocattach_session_error_detail()).find("session"),
            std::string::npos);
  DispatchEvent event = {};
  event.dispatch.correlation_id = 42;
  event.for_timestamps = true;
  backend_->Dispatch(target_, event);
  ASSERT_EQ(rocattach_flush_data(session, buffer), 0);
  EXPECT_EQ(seen_, (std::vector<uint64_t>{42}));
  ASSERT_EQ(rocattach_terminate_session(session), 0);
  EXPECT_EQ(rocattach_terminate_session(session),
            ROCATTACH_SESSION_ERROR_SESSION_NOT_ACTIVE);
  EXPECT_EQ(rocattach_flush_data(session, buffer), 0);
  ASSERT_EQ(rocattach_destroy_filter(session, filter), 0);
  ASSERT_EQ(rocattach_destroy_buffer(session, buffer), 0);
  ASSERT_EQ(rocattach_destroy_session(session), 0);
  EXPECT_EQ(rocattach_destroy_session(session),
            ROCATTACH_SESSION_ERROR_SESSION_NOT_FOUND);
}

// Makes calls in a forked child. Returns the number of the first one without the
// expected status, or 0.
int CallsOfAChild(rocattach_session_id_t session, rocattach_filter_id_t filter,
                  rocattach_buffer_id_t buffer) {
  alarm(20);
  const auto refused = ROCATTACH_SESSION_ERROR_NOT_INITIALIZED;
  if (rocattach_terminate_session(session) != refused) return 1;
  if (rocattach_destroy_session(session) != refused) return 2;
  if (rocattach_flush_data(session, buffer) != refused) return 3;
  if (rocattach_start_session(session) != refused) return 4;
  if (rocattach_destroy_filter(session, filter) != refused) return 5;
  if (rocattach_destroy_buffer(session, buffer) != refused) return 6;
  if (rocattach_set_buffer_properties(session, buffer, nullptr, 0) != refused) return 7;
  if (rocattach_check_session(session) != refused) return 8;
  if (rocattach_device_profiling_session_start(session) != refused) return 9;
  if (rocattach_finalize() != refused) return 10;
  if (rocattach_initialize() != ROCATTACH_SESSION_ERROR) return 11;
  if (strstr(rocattach_session_error_detail(), "forked") == nullptr) return 12;
  return 0;
}

TEST_F(SessionsCApiTest, AForkedChildGetsAStatusAndTheParentGoesOn) {
  const rocattach_session_id_t session = NewSession();
  rocattach_filter_id_t filter = {};
  rocattach_buffer_id_t buffer = {};
  ASSERT_EQ(rocattach_create_filter(session, ROCATTACH_DISPATCH_TIMESTAMPS_COLLECTION,
                                    {}, 0, &filter, {}),
            0);
  ASSERT_EQ(rocattach_create_buffer(session, OnBuffer, 4096, &buffer), 0);
  ASSERT_EQ(rocattach_set_filter_buffer(session, filter, buffer), 0);
  ASSERT_EQ(rocattach_start_session(session), 0);
  const pid_t child = fork();
  if (child == 0) _exit(CallsOfAChild(session, filter, buffer));
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  DispatchEvent event = {};
  event.dispatch.correlation_id = 42;
  event.for_timestamps = true;
  backend_->Dispatch(target_, event);
  ASSERT_EQ(rocattach_terminate_session(session), 0);
  EXPECT_EQ(seen_, (std::vector<uint64_t>{42}));
}

TEST_F(SessionsCApiTest, ModesAreWhatTheDocumentationSays) {
  const rocattach_session_id_t session = NewSession();
  EXPECT_EQ(rocattach_start_session(session),
            ROCATTACH_STATUS_ERROR_SESSION_MODE_NOT_ADDED);
  EXPECT_EQ(
      rocattach_add_session_mode(session, static_cast<rocattach_session_mode_t>(7)),
      ROCATTACH_STATUS_ERROR_INVALID_ARGUMENTS);
  EXPECT_EQ(rocattach_add_session_mode({5}, ROCATTACH_SESSION_MODE_TRACING),
            ROCATTACH_STATUS_ERROR_SESSION_NOT_FOUND);
  ASSERT_EQ(rocattach_add_session_mode(session, ROCATTACH_SESSION_MODE_TRACING),
            ROCATTACH_STATUS_SUCCESS);
  rocattach_filter_id_t filter = {};
  EXPECT_EQ(rocattach_create_filter(session, ROCATTACH_DISPATCH_TIMESTAMPS_COLLECTION,
                                    {}, 0, &filter, {}),
            ROCATTACH_STATUS_ERROR_SESSION_MODE_FILTER_MISMATCH);
  ASSERT_EQ(rocattach_add_session_mode(session, ROCATTACH_SESSION_MODE_PROFILING), 0);
  ASSERT_EQ(rocattach_create_filter(session, ROCATTACH_DISPATCH_TIMESTAMPS_COLLECTION,
                                    {}, 0, &filter, {}),
            0);
  EXPECT_EQ(rocattach_start_session(session),
            ROCATTACH_STATUS_ERROR_SESSION_MISSING_FILTER)
      << "tracing has none";
  EXPECT_NE(std::string(rocattach_session_error_detail()).find("tracing"),
            std::string::npos);
}

TEST_F(SessionsCApiTest, SetFilterReplacesWhatAReadySessionCollects) {
  const char* waves[] = {"SQ_WAVES"};
  const char* cycles[] = {"GRBM_COUNT", "SQ_WAVES"};
  rocattach_filter_data_t data = {};
  data.counters_names = waves;
  rocattach_session_id_t session = {};
  ASSERT_EQ(rocattach_create_ready_session(ROCATTACH_NONE_REPLAY_MODE,
                                           ROCATTACH_COUNTERS_COLLECTION, data, 1, 128,
                                           OnBuffer, &session, {}, nullptr),
            0);
  data.counters_names = cycles;
  EXPECT_EQ(rocattach_session_set_filter(session, ROCATTACH_COUNTERS_COLLECTION, data,
                                         2, nullptr, {}),
            ROCATTACH_STATUS_ERROR_INCORRECT_SIZE);
  rocattach_filter_property_t property = {};
  property.kind = ROCATTACH_FILTER_KERNEL_NAMES;
  const char* kernels[] = {"gemm"};
  property.name_regex = kernels;
  property.data_count = 1;
  data.counters_names = cycles;
  rocattach_filter_id_t filter = {};
  ASSERT_EQ(rocattach_session_set_filter(session, ROCATTACH_COUNTERS_COLLECTION, data,
                                         1, &filter, property),
            0);
  ASSERT_EQ(rocattach_start_session(session), 0);
  EXPECT_EQ(backend_->process(target_).plan->counter_names,
            std::vector<std::string>{"GRBM_COUNT"});
  ASSERT_EQ(rocattach_terminate_session(session), 0);
  EXPECT_EQ(rocattach_destroy_filter(session, filter), 0);
}

TEST_F(SessionsCApiTest, AReadySessionNeedsOnlyOneOfTheCallbacks) {
  const rocattach_tracer_activity_domain_t domain = ROCATTACH_ACTIVITY_DOMAIN_HSA_API;
  rocattach_filter_data_t data = {};
  data.trace_apis = &domain;
  rocattach_session_id_t session = {};
  ASSERT_EQ(
      rocattach_create_ready_session(ROCATTACH_NONE_REPLAY_MODE, ROCATTACH_API_TRACE,
                                     data, 1, 0, nullptr, &session, {}, OnSync),
      0);
  ASSERT_EQ(rocattach_start_session(session), 0);
  backend_->ApiCall(target_, {});
  EXPECT_EQ(sync_calls, 1);
  ASSERT_EQ(rocattach_destroy_session(session), 0);
  ASSERT_EQ(
      rocattach_create_ready_session(ROCATTACH_NONE_REPLAY_MODE, ROCATTACH_API_TRACE,
                                     data, 1, 0, nullptr, &session, {}, nullptr),
      0);
  EXPECT_EQ(rocattach_start_session(session),
            ROCATTACH_STATUS_ERROR_MISSING_SESSION_CALLBACK);
}

TEST_F(SessionsCApiTest, FlushIntervalsDeliverByThemselves) {
  rocattach_session_id_t session = {};
  ASSERT_EQ(rocattach_create_session(ROCATTACH_NONE_REPLAY_MODE, &session), 0);
  rocattach_filter_id_t filter = {};
  rocattach_buffer_id_t buffer = {};
  ASSERT_EQ(rocattach_create_filter(session, ROCATTACH_DISPATCH_TIMESTAMPS_COLLECTION,
                                    {}, 0, &filter, {}),
            0);
  ASSERT_EQ(rocattach_create_buffer(session, OnBuffer, 1 << 20, &buffer), 0);
  ASSERT_EQ(rocattach_set_filter_buffer(session, filter, buffer), 0);
  rocattach_buffer_property_t property = {ROCATTACH_BUFFER_PROPERTY_KIND_INTERVAL_FLUSH,
                                          0};
  EXPECT_EQ(rocattach_set_buffer_properties(session, buffer, &property, 1),
            ROCATTACH_SESSION_ERROR_INCORRECT_FLUSH_INTERVAL);
  property.kind = static_cast<rocattach_buffer_property_kind_t>(4);
  EXPECT_EQ(rocattach_set_buffer_properties(session, buffer, &property, 1),
            ROCATTACH_SESSION_ERROR_SESSION_FILTER_DATA_MISMATCH);
  property = {ROCATTACH_BUFFER_PROPERTY_KIND_INTERVAL_FLUSH, 2};
  ASSERT_EQ(rocattach_set_buffer_properties(session, buffer, &property, 1), 0);
  EXPECT_EQ(rocattach_set_buffer_properties(session, {3}, &property, 1),
            ROCATTACH_SESSION_ERROR_BUFFER_NOT_FOUND);
  ASSERT_EQ(rocattach_start_session(session), 0);
  DispatchEvent event = {};
  event.for_timestamps = true;
  backend_->Dispatch(target_, event);
  testing_support::Await([] { return callbacks != 0; }, "a callback without a call");
  ASSERT_EQ(rocattach_terminate_session(session), 0);
  EXPECT_EQ(seen_.size(), 1u);
}

TEST_F(SessionsCApiTest, DeviceProfiling) {
  rocattach_finalize();  // rocattach_initialize is not needed
  const char* names[] = {"SQ_WAVES", "GRBM_COUNT"};
  rocattach_session_id_t session = {};
  EXPECT_EQ(rocattach_device_profiling_session_create(names, 2, nullptr, 0, 0),
            ROCATTACH_SESSION_ERROR_INVALID_ARGUMENTS);
  EXPECT_EQ(rocattach_device_profiling_session_create(nullptr, 2, &session, 0, 0),
            ROCATTACH_SESSION_ERROR_INVALID_ARGUMENTS);
  EXPECT_EQ(rocattach_device_profiling_session_create(names, 2, &session, 0, 4),
            ROCATTACH_SESSION_ERROR_AGENT_NOT_FOUND);
  ASSERT_EQ(rocattach_device_profiling_session_create(names, 2, &session, 0, 0), 0);
  rocattach_device_profile_metric_t metrics[2];
  EXPECT_EQ(rocattach_device_profiling_session_poll(session, metrics),
            ROCATTACH_SESSION_ERROR_SESSION_NOT_ACTIVE);
  EXPECT_EQ(rocattach_device_profiling_session_poll(session, nullptr),
            ROCATTACH_SESSION_ERROR_INVALID_ARGUMENTS);
  ASSERT_EQ(rocattach_device_profiling_session_start(session), 0);
  backend_->device_readings = {{0, 0, 1, 64, 64, 64}};
  ASSERT_EQ(rocattach_device_profiling_session_poll(session, metrics), 0);
  EXPECT_STREQ(metrics[0].metric_name, "SQ_WAVES");
  EXPECT_EQ(metrics[0].value.value, 64);
  EXPECT_TRUE(std::isnan(metrics[1].value.value));
  ASSERT_EQ(rocattach_device_profiling_session_stop(session), 0);
  EXPECT_EQ(rocattach_device_profiling_session_stop(session),
            ROCATTACH_SESSION_ERROR_SESSION_NOT_ACTIVE);
  ASSERT_EQ(rocattach_device_profiling_session_destroy(session), 0);
  EXPECT_EQ(rocattach_device_profiling_session_destroy(session),
            ROCATTACH_SESSION_ERROR_SESSION_NOT_FOUND);
}

TEST_F(SessionsCApiTest, ABufferGrowsWhenItIsCreatedAgain) {
  const rocattach_session_id_t session = NewSession();
  rocattach_buffer_id_t buffer = {0x1234};  // any earlier value
  ASSERT_EQ(rocattach_create_buffer(session, OnBuffer, 96, &buffer), 0);
  EXPECT_NE(buffer.value, 0x1234u);
  rocattach_filter_id_t filter = {};
  ASSERT_EQ(rocattach_create_filter(session, ROCATTACH_DISPATCH_TIMESTAMPS_COLLECTION,
                                    {}, 0, &filter, {}),
            0);
  EXPECT_EQ(rocattach_set_filter_buffer(session, filter, buffer),
            ROCATTACH_SESSION_ERROR_INCORRECT_SIZE);
  const uint64_t before = buffer.value;
  ASSERT_EQ(rocattach_create_buffer(session, OnBuffer, 96, &buffer), 0);
  EXPECT_EQ(buffer.value, before);
  EXPECT_EQ(rocattach_set_filter_buffer(session, filter, buffer), 0);
}

TEST(SessionsCApi, StatusValuesAreThoseOfTheEngine) {
  const std::pair<int, absl::string_view> values[] = {
      {ROCATTACH_SESSION_ERROR, "ERROR"},
      {ROCATTACH_SESSION_ERROR_ALREADY_INITIALIZED, "ALREADY_INITIALIZED"},
      {ROCATTACH_SESSION_ERROR_NOT_INITIALIZED, "NOT_INITIALIZED"},
      {ROCATTACH_SESSION_ERROR_SESSION_MISSING_BUFFER, "SESSION_MISSING_BUFFER"},
      {ROCATTACH_SESSION_ERROR_AGENT_NOT_FOUND, "AGENT_NOT_FOUND"},
      {ROCATTACH_SESSION_ERROR_COUNTER_NOT_FOUND, "COUNTER_NOT_FOUND"},
      {ROCATTACH_SESSION_ERROR_INCORRECT_DOMAIN, "INCORRECT_DOMAIN"},
      {ROCATTACH_SESSION_ERROR_SESSION_NOT_FOUND, "SESSION_NOT_FOUND"},
      {ROCATTACH_SESSION_ERROR_CORRUPTED_SESSION_BUFFER, "CORRUPTED_SESSION_BUFFER"},
      {ROCATTACH_SESSION_ERROR_RECORD_CORRUPTED, "RECORD_CORRUPTED"},
      {ROCATTACH_SESSION_ERROR_INCORRECT_REPLAY_MODE, "INCORRECT_REPLAY_MODE"},
      {ROCATTACH_SESSION_ERROR_SESSION_MISSING_FILTER, "SESSION_MISSING_FILTER"},
      {ROCATTACH_SESSION_ERROR_INCORRECT_SIZE, "INCORRECT_SIZE"},
      {ROCATTACH_SESSION_ERROR_INCORRECT_FLUSH_INTERVAL, "INCORRECT_FLUSH_INTERVAL"},
      {ROCATTACH_SESSION_ERROR_SESSION_FILTER_DATA_MISMATCH,
       "SESSION_FILTER_DATA_MISMATCH"},
      {ROCATTACH_SESSION_ERROR_FILTER_DATA_CORRUPTED, "FILTER_DATA_CORRUPTED"},
      {ROCATTACH_SESSION_ERROR_HAS_ACTIVE_SESSION, "HAS_ACTIVE_SESSION"},
      {ROCATTACH_SESSION_ERROR_SESSION_NOT_ACTIVE, "SESSION_NOT_ACTIVE"},
      {ROCATTACH_SESSION_ERROR_FILTER_NOT_FOUND, "FILTER_NOT_FOUND"},
      {ROCATTACH_SESSION_ERROR_BUFFER_NOT_FOUND, "BUFFER_NOT_FOUND"},
      {ROCATTACH_SESSION_ERROR_FILTER_NOT_SUPPORTED, "FILTER_NOT_SUPPORTED"},
      {ROCATTACH_SESSION_ERROR_INVALID_ARGUMENTS, "INVALID_ARGUMENTS"},
      {ROCATTACH_SESSION_ERROR_INVALID_OPERATION_ID, "INVALID_OPERATION_ID"},
      {ROCATTACH_SESSION_ERROR_INVALID_DOMAIN_ID, "INVALID_DOMAIN_ID"},
      {ROCATTACH_SESSION_ERROR_NOT_IMPLEMENTED, "NOT_IMPLEMENTED"},
      {ROCATTACH_SESSION_ERROR_MISMATCHED_EXTERNAL_CORRELATION_ID,
       "MISMATCHED_EXTERNAL_CORRELATION_ID"},
  };
  for (const auto& [value, name] : values) EXPECT_EQ(SessionStatusName(value), name);
  EXPECT_STREQ(rocattach_error_str(ROCATTACH_SESSION_SUCCESS), "success");
  EXPECT_NE(rocattach_error_str(static_cast<rocattach_session_status_t>(99)), nullptr);
}

}  // namespace
}  // namespace rocattach
