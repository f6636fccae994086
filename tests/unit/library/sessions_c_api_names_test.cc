// Traces through the C API of sessions, and the names of what their records refer to.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/unit/library/sessions_c_api_fixture.h"

namespace rocattach {
namespace {

std::vector<std::string> markers, sync_markers;
std::vector<rocattach_record_tracer_t> traced;

std::string NameIn(const rocattach_record_tracer_t& record) {
  if ((record.name == nullptr) != (record.name_bytes == 0)) return "(contradiction)";
  return record.name == nullptr ? "(none)" : record.name;
}

void OnTrace(const rocattach_record_header_t* begin,
             const rocattach_record_header_t* end, rocattach_session_id_t session,
             rocattach_buffer_id_t buffer) {
  for (const rocattach_record_header_t* at = begin; at < end;) {
    traced.push_back(*reinterpret_cast<const rocattach_record_tracer_t*>(at));
    markers.push_back(NameIn(traced.back()));
    ASSERT_EQ(rocattach_next_record(at, &at, session, buffer),
              ROCATTACH_SESSION_SUCCESS);
  }
}

void OnSyncMarker(rocattach_record_tracer_t record, rocattach_session_id_t) {
  sync_markers.push_back(NameIn(record));
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

// RCCL is a domain that ROCProfiler does not have. Allocations have no record here.
TEST_F(SessionsCApiTest, CallsOfRccl) {
  rocattach_tracer_activity_domain_t domain = ROCATTACH_ACTIVITY_DOMAIN_RCCL_API;
  rocattach_filter_data_t data = {};
  data.trace_apis = &domain;
  rocattach_session_id_t session = {};
  ASSERT_EQ(
      rocattach_create_ready_session(ROCATTACH_NONE_REPLAY_MODE, ROCATTACH_API_TRACE,
                                     data, 1, 4096, OnTrace, &session, {}, nullptr),
      0);
  auto names = std::make_shared<TargetNames>();
  names->AddFunction(TraceDomain::kRcclApi, 1, "ncclAllReduce");
  TargetDescription& description = backend_->process(target_).description;
  description.names = names;
  description.functions.push_back({ROCATTACH_PLAN_API_RCCL, 1, "ncclAllReduce"});
  ASSERT_EQ(rocattach_start_session(session), 0) << rocattach_session_error_detail();
  const char* name = nullptr;
  ASSERT_EQ(rocattach_query_operation_name(
                session, 100, ROCATTACH_ACTIVITY_DOMAIN_RCCL_API, 1, &name),
            0);
  EXPECT_STREQ(name, "ncclAllReduce");
  traced.clear();
  ApiEvent call;
  call.domain = TraceDomain::kRcclApi;
  call.function = 1;
  call.begin_ns = 5;
  call.end_ns = 9;
  backend_->ApiCall(target_, call);
  ASSERT_EQ(rocattach_terminate_session(session), 0);
  ASSERT_EQ(traced.size(), 1u);
  EXPECT_EQ(traced[0].domain, ROCATTACH_ACTIVITY_DOMAIN_RCCL_API);
  EXPECT_EQ(traced[0].operation_id, 1u);
  EXPECT_EQ(traced[0].timestamps.end, 9u);
  domain = static_cast<rocattach_tracer_activity_domain_t>(33);
  EXPECT_EQ(
      rocattach_create_ready_session(ROCATTACH_NONE_REPLAY_MODE, ROCATTACH_API_TRACE,
                                     data, 1, 4096, OnTrace, &session, {}, nullptr),
      ROCATTACH_SESSION_ERROR_INVALID_DOMAIN_ID);
}

}  // namespace
}  // namespace rocattach
