#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/session/fake_backend.h"
#include "userspace/base/session_status.h"
#include "userspace/library/rocattach_sessions.h"
#include "userspace/library/sessions_c_api.h"
#include "userspace/library/user_memory.h"
#include "userspace/session/target_runner.h"

namespace rocattach {

std::shared_ptr<SessionRunner> DefaultSessionRunner() {
  return std::make_shared<TargetRunner>(std::make_shared<FakeBackend>(), nullptr);
}

namespace {

std::vector<uint64_t>* seen = nullptr;
std::atomic<int> callbacks = 0;
int sync_calls = 0;

void OnBuffer(const rocattach_record_header_t* begin,
              const rocattach_record_header_t* end, rocattach_session_id_t session,
              rocattach_buffer_id_t buffer) {
  for (const rocattach_record_header_t* at = begin; at < end;) {
    seen->push_back(
        reinterpret_cast<const rocattach_record_profiler_t*>(at)->correlation_id);
    ASSERT_EQ(rocattach_next_record(at, &at, session, buffer),
              ROCATTACH_SESSION_SUCCESS);
  }
  ++callbacks;
}

void OnSync(rocattach_record_tracer_t, rocattach_session_id_t) {
  ++sync_calls;
}

std::vector<std::string> markers, sync_markers;

std::string NameIn(const rocattach_record_tracer_t& record) {
  if ((record.name == nullptr) != (record.name_bytes == 0)) return "(contradiction)";
  return record.name == nullptr ? "(none)" : record.name;
}

void OnTrace(const rocattach_record_header_t* begin,
             const rocattach_record_header_t* end, rocattach_session_id_t session,
             rocattach_buffer_id_t buffer) {
  for (const rocattach_record_header_t* at = begin; at < end;) {
    markers.push_back(NameIn(*reinterpret_cast<const rocattach_record_tracer_t*>(at)));
    ASSERT_EQ(rocattach_next_record(at, &at, session, buffer),
              ROCATTACH_SESSION_SUCCESS);
  }
}

void OnSyncMarker(rocattach_record_tracer_t record, rocattach_session_id_t) {
  sync_markers.push_back(NameIn(record));
}

class SessionsCApiTest : public ::testing::Test {
 protected:
  void SetUp() override {
    seen = &seen_;
    callbacks = 0;
    sync_calls = 0;
    backend_ = std::make_shared<FakeBackend>();
    target_ = backend_->AddProcess(100, {MakeGpu(1, "GPU-a")});
    SetSessionsRunner(std::make_shared<TargetRunner>(
        backend_, std::make_shared<CounterCatalog>(*CounterCatalog::Builtin())));
    ASSERT_EQ(rocattach_initialize(), ROCATTACH_SESSION_SUCCESS);
  }
  void TearDown() override { rocattach_finalize(); }

  rocattach_session_id_t NewSession() {
    rocattach_session_id_t session = {};
    EXPECT_EQ(rocattach_create_session(ROCATTACH_NONE_REPLAY_MODE, &session),
              ROCATTACH_SESSION_SUCCESS);
    return session;
  }

  rocattach_session_status_t Filter(rocattach_filter_kind_t kind,
                                    rocattach_filter_data_t data, uint64_t count,
                                    rocattach_filter_property_t property = {}) {
    rocattach_filter_id_t filter = {};
    return rocattach_create_filter(NewSession(), kind, data, count, &filter, property);
  }

  std::vector<uint64_t> seen_;
  std::shared_ptr<FakeBackend> backend_;
  ProcessId target_;
};

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

// Every call of a child, in a child: the number of the first that does not say what it
// must, or 0.
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

TEST_F(SessionsCApiTest, NumbersHaveNames) {
  const rocattach_tracer_activity_domain_t domains[] = {
      ROCATTACH_ACTIVITY_DOMAIN_HIP_API, ROCATTACH_ACTIVITY_DOMAIN_ROCTX};
  rocattach_filter_data_t data = {};
  data.trace_apis = domains;
  rocattach_session_id_t session = {};
  ASSERT_EQ(rocattach_create_ready_session(ROCATTACH_NONE_REPLAY_MODE,
                                           ROCATTACH_API_TRACE, data, 2, 4096, OnTrace,
                                           &session, {}, OnSyncMarker),
            0);
  auto names = std::make_shared<TargetNames>();
  names->AddKernel(3, "_Z5ScalePffi");
  names->AddFunction(TraceDomain::kHipApi, 70, "hipMalloc");
  names->SetGpus({{"gfx90a", "AMD Instinct MI210", "GPU-a", "0000:03:00.0", 104}});
  backend_->process(target_).description.names = names;
  const char* name = nullptr;
  EXPECT_EQ(rocattach_query_kernel_name(session, 100, 3, &name),
            ROCATTACH_STATUS_ERROR_INVALID_ARGUMENTS);
  ASSERT_EQ(rocattach_start_session(session), 0);
  ASSERT_EQ(rocattach_query_kernel_name(session, 100, 3, &name), 0);
  EXPECT_STREQ(name, "Scale(float*, float, int)");
  EXPECT_EQ(rocattach_query_kernel_name(session, 100, 4, &name),
            ROCATTACH_STATUS_ERROR_KERNEL_NOT_FOUND);
  EXPECT_EQ(rocattach_query_kernel_name(session, 100, 3, nullptr),
            ROCATTACH_STATUS_ERROR_INVALID_ARGUMENTS);
  ASSERT_EQ(rocattach_query_operation_name(
                session, 100, ROCATTACH_ACTIVITY_DOMAIN_HIP_API, 70, &name),
            0);
  EXPECT_STREQ(name, "hipMalloc");
  ASSERT_EQ(rocattach_query_operation_name(session, 100,
                                           ROCATTACH_ACTIVITY_DOMAIN_HSA_OPS, 2, &name),
            0);
  EXPECT_STREQ(name, "host to device");
  EXPECT_EQ(rocattach_query_operation_name(
                session, 100, ROCATTACH_ACTIVITY_DOMAIN_HIP_API, 71, &name),
            ROCATTACH_STATUS_ERROR_INVALID_OPERATION_ID);
  EXPECT_EQ(rocattach_query_operation_name(session, 100,
                                           ROCATTACH_ACTIVITY_DOMAIN_KFD_API, 1, &name),
            ROCATTACH_STATUS_ERROR_INVALID_DOMAIN_ID);
  rocattach_agent_t agent = {};
  ASSERT_EQ(rocattach_query_agent(session, 100, 0, &agent), 0);
  EXPECT_STREQ(agent.name, "gfx90a");
  EXPECT_STREQ(agent.pci, "0000:03:00.0");
  EXPECT_EQ(agent.compute_units, 104u);
  EXPECT_EQ(rocattach_query_agent(session, 100, 1, &agent),
            ROCATTACH_STATUS_ERROR_AGENT_NOT_FOUND);
  ApiEvent marker;
  marker.domain = TraceDomain::kMarkers;
  marker.text = "step 3";
  backend_->ApiCall(target_, marker);
  marker.text = {};
  backend_->ApiCall(target_, marker);
  marker.text = "eight by";
  backend_->ApiCall(target_, marker);
  ASSERT_EQ(rocattach_terminate_session(session), 0);
  const std::vector<std::string> texts = {"step 3", "(none)", "eight by"};
  EXPECT_EQ(markers, texts);
  EXPECT_EQ(sync_markers, texts);
}

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
  // A page that cannot be read, and a string that runs into it.
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
  while (callbacks == 0) std::this_thread::yield();  // no call of ours delivers it
  ASSERT_EQ(rocattach_terminate_session(session), 0);
  EXPECT_EQ(seen_.size(), 1u);
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

TEST_F(SessionsCApiTest, DeviceProfiling) {
  rocattach_finalize();  // it does not ask for initialize
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
  backend_->device_readings = {{0, 1, 64, 64, 64}};
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
  rocattach_buffer_id_t buffer = {0x1234};  // whatever stood there before
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
