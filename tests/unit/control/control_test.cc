// The service's answers through a real socket, without any process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include "userspace/control/control_client.h"
#include "userspace/control/control_server.h"

namespace rocattach {
namespace {

using ::testing::HasSubstr;

class ControlTest : public testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/rocattach-control-test.XXXXXX";
    ASSERT_NE(mkdtemp(pattern), nullptr);
    directory_ = pattern;
    socket_ = directory_ + "/made/control.sock";
    service_ = std::make_unique<SessionService>(
        std::make_shared<CounterCatalog>(*CounterCatalog::Builtin()), nullptr);
    RecorderOptions options;
    options.output = {directory_, "run", {}};
    options.targets = service_->backend();
    recorder_ = *Recorder::Start(options, nullptr);
    service_->SetRecorder(recorder_.get());
    auto server = ControlServer::Start(socket_, service_.get(), "run.rwa");
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  void TearDown() override {
    server_.reset();
    service_->Close();
    recorder_.reset();
    std::filesystem::remove_all(directory_);
  }

  std::string directory_, socket_;
  std::unique_ptr<SessionService> service_;
  std::unique_ptr<Recorder> recorder_;
  std::unique_ptr<ControlServer> server_;
};

v1::StartSessionRequest Waves() {
  v1::StartSessionRequest request;
  request.add_counters()->add_names("SQ_WAVES");
  return request;
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
  v1::StartSessionRequest request;
  request.add_counters()->add_names("SQ_WAVE");
  const auto unknown = (*client)->StartSession(request);
  EXPECT_THAT(std::string(unknown.status().message()), HasSubstr("SQ_WAVES"));
  request = Waves();
  request.add_pids(4711);
  EXPECT_EQ((*client)->StartSession(request).status().code(),
            absl::StatusCode::kNotFound);
  request = Waves();
  request.add_kernel_include("(");
  EXPECT_FALSE((*client)->StartSession(request).ok());
  request = Waves();
  request.add_periods();
  EXPECT_FALSE((*client)->StartSession(request).ok());
  EXPECT_EQ((*client)->GetStatus()->sessions_size(), 0) << "nothing is left of them";
}

TEST_F(ControlTest, WithoutAServiceTheRemedyIsSaid) {
  server_.reset();
  const auto client = ControlClient::Connect(socket_);
  EXPECT_EQ(client.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(client.status().message()), HasSubstr("--socket"));
}

}  // namespace
}  // namespace rocattach
