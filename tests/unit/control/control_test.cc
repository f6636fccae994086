// The service's answers through a real socket, without any target.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>

#include "tests/temporary_directory.h"
#include "tests/unit/control/service_on_socket.h"
#include "userspace/control/control_client.h"
#include "userspace/control/session_wire.h"

namespace rocattach {
namespace {

using ::testing::HasSubstr;

class ControlTest : public testing::Test {
 protected:
  const testing_support::TemporaryDirectory directory_;
  const std::string socket_ = directory_ / "made/control.sock";
  std::optional<ServiceOnSocket> service_{std::in_place, directory_.path(), socket_};
};

v1::StartSessionRequest Counters(std::vector<std::string> names) {
  FilterSpec spec;
  spec.kind = FilterKind::kCounters;
  spec.counters = {std::move(names)};
  v1::StartSessionRequest request;
  *request.add_filters() = FilterToProto(spec);
  return request;
}

v1::StartSessionRequest Waves() {
  return Counters({"SQ_WAVES"});
}

TEST_F(ControlTest, StartStatusStop) {
  auto client = ControlClient::Connect(socket_);
  ASSERT_TRUE(client.ok()) << client.status();
  auto started = (*client)->StartSession(Waves());
  ASSERT_TRUE(started.ok()) << started.status();
  EXPECT_TRUE(started->status().active());
  auto status = (*client)->GetStatus();
  ASSERT_TRUE(status.ok());
  EXPECT_EQ(status->output(), "run.rwa");
  ASSERT_EQ(status->sessions_size(), 1);
  EXPECT_EQ(status->sessions(0).counters(0), "SQ_WAVES");
  auto other = ControlClient::Connect(socket_);
  ASSERT_TRUE(other.ok());
  const auto second = (*other)->StartSession(Waves());
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("belongs to session"));
  EXPECT_TRUE((*other)->StopSession(started->session()).ok());
  EXPECT_EQ((*client)->StopSession(started->session()).code(),
            absl::StatusCode::kNotFound);
  EXPECT_TRUE((*client)->GetStatus()->sessions(0).over());
}

TEST_F(ControlTest, NonsenseIsRefusedInWords) {
  auto client = ControlClient::Connect(socket_);
  ASSERT_TRUE(client.ok());
  EXPECT_FALSE((*client)->StartSession({}).ok()) << "nothing to collect";
  v1::StartSessionRequest request = Counters({"SQ_WAVE"});
  const auto unknown = (*client)->StartSession(request);
  EXPECT_THAT(std::string(unknown.status().message()), HasSubstr("SQ_WAVES"));
  request = Waves();
  request.add_pids(4711);
  EXPECT_EQ((*client)->StartSession(request).status().code(),
            absl::StatusCode::kNotFound);
  request = Waves();
  request.mutable_filters(0)->mutable_selection()->add_kernel_include("(");
  EXPECT_FALSE((*client)->StartSession(request).ok());
  request = Waves();
  request.add_periods();
  EXPECT_FALSE((*client)->StartSession(request).ok());
  request = Waves();
  request.set_duration_ns(UINT64_MAX);
  EXPECT_EQ((*client)->StartSession(request).status().code(),
            absl::StatusCode::kInvalidArgument);
  request = Waves();
  request.mutable_filters(0)->set_kind(static_cast<v1::FilterKind>(4711));
  EXPECT_EQ((*client)->StartSession(request).status().code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_EQ((*client)->GetStatus()->sessions_size(), 0) << "nothing is left of them";
}

// Every field has its place in the protocol, and arrives.
TEST_F(ControlTest, FiltersComeThroughWhole) {
  FilterSpec spec;
  spec.kind = FilterKind::kCountersSampler;
  spec.selection = {{"gfx90a", "1"},   {"a.*"},      {"b", "c"},   {{1, 2}, {7, 9}},
                    {{3, UINT64_MAX}}, {"hsa_init"}, {"hipMalloc"}};
  spec.counters = {{"SQ_WAVES", "GRBM_COUNT"}, {"TCC_HIT"}};
  spec.single_pass = spec.keep_groups = true;
  spec.optional = {"TCC_HIT"};
  spec.rotation_iterations = 5;
  spec.rotation_ns = 6;
  spec.api_domains = {TraceDomain::kHsaApi, TraceDomain::kMarkers};
  spec.optional_domains = {TraceDomain::kMarkers};
  spec.instances = spec.arguments = true;
  spec.sample_interval_ns = 7;
  spec.sample_duration_ns = 8;
  spec.sample_delay_ns = 9;
  spec.sample_gpu_index = 2;
  const v1::Filter message = FilterToProto(spec);
  // All fields are set here; this fails when one is added and not set.
  std::vector<const google::protobuf::FieldDescriptor*> set;
  message.GetReflection()->ListFields(message, &set);
  EXPECT_EQ(set.size(), static_cast<size_t>(message.GetDescriptor()->field_count()));
  set.clear();
  message.selection().GetReflection()->ListFields(message.selection(), &set);
  EXPECT_EQ(set.size(),
            static_cast<size_t>(message.selection().GetDescriptor()->field_count()));
  const FilterSpec back = FilterFromProto(message);
  EXPECT_EQ(back.counters, spec.counters);
  EXPECT_EQ(back.sample_gpu_index, 2);
  EXPECT_EQ(FilterToProto(back).SerializeAsString(), message.SerializeAsString());
  EXPECT_EQ(FilterFromProto({}).sample_gpu_index, -1);
  EXPECT_EQ(FilterFromProto({}).rotation_iterations, 1u);
}

// A client's own counters are sent along with its session, and exist only there.
TEST_F(ControlTest, CounterFilesAreSentWithTheSession) {
  auto client = ControlClient::Connect(socket_);
  ASSERT_TRUE(client.ok());
  v1::StartSessionRequest request = Counters({"MyRatio"});
  EXPECT_FALSE((*client)->StartSession(request).ok());
  v1::CounterFile* file = request.add_counter_files();
  file->set_name("mine.yaml");
  file->set_text(
      "architectures: [gfx90a]\n"
      "metrics: {MyRatio: {expression: SQ_WAVES / GRBM_COUNT}}\n");
  const auto started = (*client)->StartSession(request);
  ASSERT_TRUE(started.ok()) << started.status();
  EXPECT_EQ(started->status().counters(0), "MyRatio");
  EXPECT_TRUE((*client)->StopSession(started->session()).ok());
  file->set_text("architectures: [x86]\n");
  const auto bad = (*client)->StartSession(request);
  EXPECT_THAT(std::string(bad.status().message()), HasSubstr("mine.yaml"));
  EXPECT_FALSE((*client)->StartSession(Counters({"MyRatio"})).ok());
}

TEST_F(ControlTest, WithoutAServiceTheRemedyIsNamed) {
  service_.reset();
  const auto client = ControlClient::Connect(socket_);
  EXPECT_EQ(client.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(client.status().message()), HasSubstr("--socket"));
}

}  // namespace
}  // namespace rocattach
