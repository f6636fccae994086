// The service's answers through a real socket, without any target.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/server_posix.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "tests/temporary_directory.h"
#include "tests/unit/control/service_on_socket.h"
#include "userspace/control/service_connection.h"
#include "userspace/control/session_wire.h"
#include "userspace/control/socket_listener.h"

namespace rocattach {
namespace {

using ::testing::HasSubstr;

using Stub = ServiceConnection::Stub;

class ControlTest : public testing::Test {
 protected:
  absl::StatusOr<v1::StartResponse> Start(const v1::SessionRequest& request) {
    return client_.Call(&Stub::AsyncStart, request);
  }
  absl::StatusOr<v1::GetStatusResponse> GetStatus() {
    return client_.Call(&Stub::AsyncGetStatus, {});
  }

  const testing_support::TemporaryDirectory directory_;
  const std::string socket_ = directory_ / "made/control.sock";
  std::optional<ServiceOnSocket> service_{std::in_place, directory_.path(), socket_};
  ServiceConnection client_{socket_};
};

v1::SessionNumber Number(uint64_t session) {
  v1::SessionNumber number;
  number.set_session(session);
  return number;
}

v1::SessionRequest Counters(std::vector<std::string> names) {
  FilterSpec spec;
  spec.kind = FilterKind::kCounters;
  spec.counters = {std::move(names)};
  v1::SessionRequest request;
  *request.add_filters() = FilterToProto(spec);
  return request;
}

v1::SessionRequest Waves() {
  return Counters({"SQ_WAVES"});
}

TEST_F(ControlTest, StartStatusStop) {
  auto started = Start(Waves());
  ASSERT_TRUE(started.ok()) << started.status();
  EXPECT_TRUE(started->status().active());
  auto status = GetStatus();
  ASSERT_TRUE(status.ok());
  EXPECT_EQ(status->output(), "run.rwa");
  ASSERT_EQ(status->sessions_size(), 1);
  EXPECT_EQ(status->sessions(0).counters(0), "SQ_WAVES");
  ServiceConnection other(socket_);
  const auto second = other.Call(&Stub::AsyncStart, Waves());
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("belongs to session"));
  EXPECT_TRUE(other.Call(&Stub::AsyncStop, Number(started->session())).ok());
  EXPECT_EQ(client_.Call(&Stub::AsyncStop, Number(started->session())).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_TRUE(GetStatus()->sessions(0).over());
}

TEST_F(ControlTest, NonsenseIsRefusedInWords) {
  EXPECT_FALSE(Start({}).ok()) << "nothing to collect";
  v1::SessionRequest request = Counters({"SQ_WAVE"});
  const auto unknown = Start(request);
  EXPECT_THAT(std::string(unknown.status().message()), HasSubstr("SQ_WAVES"));
  request = Waves();
  request.add_processes()->set_pid(4711);
  EXPECT_EQ(Start(request).status().code(), absl::StatusCode::kNotFound);
  request = Waves();
  request.mutable_filters(0)->mutable_selection()->add_kernel_include("(");
  EXPECT_FALSE(Start(request).ok());
  request = Waves();
  request.add_periods();
  EXPECT_FALSE(Start(request).ok());
  request = Waves();
  request.set_duration_ns(UINT64_MAX);
  EXPECT_EQ(Start(request).status().code(), absl::StatusCode::kInvalidArgument);
  request = Waves();
  request.mutable_filters(0)->set_kind(static_cast<v1::FilterKind>(4711));
  EXPECT_EQ(Start(request).status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(GetStatus()->sessions_size(), 0) << "nothing is left of them";
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
  v1::SessionRequest request = Counters({"MyRatio"});
  EXPECT_FALSE(Start(request).ok());
  v1::CounterFile* file = request.add_counter_files();
  file->set_name("mine.yaml");
  file->set_text(
      "architectures: [gfx90a]\n"
      "metrics: {MyRatio: {expression: SQ_WAVES / GRBM_COUNT}}\n");
  const auto started = Start(request);
  ASSERT_TRUE(started.ok()) << started.status();
  EXPECT_EQ(started->status().counters(0), "MyRatio");
  EXPECT_TRUE(client_.Call(&Stub::AsyncStop, Number(started->session())).ok());
  file->set_text("architectures: [x86]\n");
  const auto bad = Start(request);
  EXPECT_THAT(std::string(bad.status().message()), HasSubstr("mine.yaml"));
  EXPECT_FALSE(Start(Counters({"MyRatio"})).ok());
}

// Answers to Hello with another protocol, and to nothing else.
class OtherProtocol : public v1::Sessions::Service {
 public:
  grpc::Status Hello(grpc::ServerContext*, const v1::HelloRequest*,
                     v1::HelloResponse* response) override {
    response->set_version("9.9");
    response->set_protocol(kSessionProtocol + 1);
    return grpc::Status::OK;
  }
};

// What a client says of a service of another version.
std::string SaidOf(v1::Sessions::Service* service) {
  const testing_support::TemporaryDirectory directory;
  grpc::ServerBuilder builder;
  builder.RegisterService(service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  const auto listener =
      SocketListener::Listen(directory / "socket", [&server](UniqueFd peer) {
        grpc::AddInsecureChannelFromFd(server.get(), peer.release());
      });
  EXPECT_TRUE(listener.ok()) << listener.status();
  ServiceConnection client(directory / "socket");
  const absl::Status status = client.Call(&Stub::AsyncGetStatus, {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
  return std::string(status.message());
}

TEST(OtherVersionTest, AServiceOfAnotherVersionIsNamed) {
  OtherProtocol other;
  EXPECT_THAT(SaidOf(&other), HasSubstr("rocattach-watch 9.9"));
  EXPECT_THAT(SaidOf(&other), HasSubstr("use the same version of both"));
  // Answers that it has no such call, as a service without Sessions does.
  v1::Sessions::Service none;
  EXPECT_THAT(SaidOf(&none), HasSubstr("use the same version of both"));
}

TEST_F(ControlTest, WithoutAServiceTheRemedyIsNamed) {
  service_.reset();
  const absl::Status status = client_.Hello();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("--socket"));
}

}  // namespace
}  // namespace rocattach
