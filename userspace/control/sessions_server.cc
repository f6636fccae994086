#include "userspace/control/sessions_server.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/server_posix.h>

#include <chrono>
#include <utility>

#include "userspace/control/sessions_handler.h"
#include "userspace/control/socket_listener.h"

namespace rocattach {
namespace {

// Time that calls still have when the service ends.
constexpr auto kLastCalls = std::chrono::seconds(3);
constexpr int kMaxMessageBytes = 8 << 20;  // may include counter files
// Maximum number of simultaneous calls over one connection: a program's runs, and other
// requests. More wait in the client.
constexpr int kMostCalls = static_cast<int>(SessionsHandler::kMostRuns) + 64;

}  // namespace

struct SessionsServer::Parts {
  Parts(SessionService* sessions, std::string output, const ProcessHistory* history)
      : handler(sessions, std::move(output), history) {}

  SessionsHandler handler;
  std::unique_ptr<grpc::Server> server;
  std::unique_ptr<SocketListener> listener;
};

absl::StatusOr<std::unique_ptr<SessionsServer>> SessionsServer::Start(
    const std::string& path, SessionService* sessions, std::string output,
    const ProcessHistory* history) {
  auto parts = std::make_unique<Parts>(sessions, std::move(output), history);
  grpc::ServerBuilder builder;
  builder.RegisterService(&parts->handler);
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMostCalls);
  // Few clients call at a time; a program's running session has its own thread.
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::MIN_POLLERS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::MAX_POLLERS, 2);
  parts->server = builder.BuildAndStart();
  if (parts->server == nullptr)
    return absl::InternalError("the gRPC server did not start");
  // gRPC never sees a connection with an untrusted peer.
  auto listener =
      SocketListener::Listen(path, [server = parts->server.get()](UniqueFd peer) {
        grpc::AddInsecureChannelFromFd(server, peer.release());
      });
  if (!listener.ok()) return listener.status();
  parts->listener = *std::move(listener);
  return std::unique_ptr<SessionsServer>(new SessionsServer(std::move(parts)));
}

SessionsServer::SessionsServer(std::unique_ptr<Parts> parts)
    : parts_(std::move(parts)) {}

SessionsServer::~SessionsServer() {
  parts_->listener.reset();
  parts_->handler.Close();
  parts_->server->Shutdown(std::chrono::system_clock::now() + kLastCalls);
}

}  // namespace rocattach
