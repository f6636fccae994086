// The service's sessions behind a control socket, without any target.
#ifndef ROCATTACH_TESTS_UNIT_CONTROL_SERVICE_ON_SOCKET_H_
#define ROCATTACH_TESTS_UNIT_CONTROL_SERVICE_ON_SOCKET_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "userspace/control/sessions_server.h"
#include "userspace/counters/catalog.h"
#include "userspace/record/recorder.h"
#include "userspace/service/session_service.h"

namespace rocattach {

class ServiceOnSocket {
 public:
  // The recorder writes to `directory`.
  ServiceOnSocket(const std::string& directory, const std::string& socket)
      : sessions_(std::make_shared<CounterCatalog>(*CounterCatalog::Builtin()),
                  nullptr) {
    RecorderOptions options;
    options.output = {directory, "run", {}};
    options.targets = sessions_.targets();
    recorder_ = *Recorder::Start(options, {});
    sessions_.SetRecorder(recorder_.get());
    auto server = SessionsServer::Start(socket, &sessions_, "run.rwa");
    EXPECT_TRUE(server.ok()) << server.status();
    if (server.ok()) server_ = *std::move(server);
  }
  ~ServiceOnSocket() {
    server_.reset();
    sessions_.Close();
  }
  ServiceOnSocket(const ServiceOnSocket&) = delete;
  ServiceOnSocket& operator=(const ServiceOnSocket&) = delete;

  SessionService& sessions() { return sessions_; }

 private:
  SessionService sessions_;
  std::unique_ptr<Recorder> recorder_;
  std::unique_ptr<SessionsServer> server_;
};

}  // namespace rocattach

#endif  // ROCATTACH_TESTS_UNIT_CONTROL_SERVICE_ON_SOCKET_H_
