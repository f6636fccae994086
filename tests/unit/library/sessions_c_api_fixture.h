// Shared by the tests of the C API of sessions: an engine with fake processes.
#ifndef ROCATTACH_TESTS_UNIT_LIBRARY_SESSIONS_C_API_FIXTURE_H_
#define ROCATTACH_TESTS_UNIT_LIBRARY_SESSIONS_C_API_FIXTURE_H_

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <vector>

#include "tests/unit/session/fake_backend.h"
#include "userspace/library/rocattach_sessions.h"
#include "userspace/library/sessions_state.h"
#include "userspace/session/target_runner.h"

namespace rocattach {

inline std::vector<uint64_t>* seen = nullptr;
inline std::atomic<int> callbacks = 0;
inline int sync_calls = 0;

inline void OnBuffer(const rocattach_record_header_t* begin,
                     const rocattach_record_header_t* end,
                     rocattach_session_id_t session, rocattach_buffer_id_t buffer) {
  for (const rocattach_record_header_t* at = begin; at < end;) {
    seen->push_back(
        reinterpret_cast<const rocattach_record_profiler_t*>(at)->correlation_id);
    ASSERT_EQ(rocattach_next_record(at, &at, session, buffer),
              ROCATTACH_SESSION_SUCCESS);
  }
  ++callbacks;
}

inline void OnSync(rocattach_record_tracer_t, rocattach_session_id_t) {
  ++sync_calls;
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

}  // namespace rocattach

#endif  // ROCATTACH_TESTS_UNIT_LIBRARY_SESSIONS_C_API_FIXTURE_H_
