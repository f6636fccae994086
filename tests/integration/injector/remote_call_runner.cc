// Calls rocprofiler_register_attach of one target with the fault-injection build of the
// injector and prints the outcome, after a line "begin"; ROCATTACH_FAULT says where it
// dies or fails. Usage: remote_call_runner PID TID TOOL [KIBIBYTES] (of environment)
#include <cstdio>
#include <cstdlib>
#include <string>

#include "injector/elf/register_library.h"
#include "injector/remote_call.h"
#include "userspace/base/clock.h"

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  rocattach::RemoteCallRequest request;
  request.pid = std::atoi(argv[1]);
  request.tid = std::atoi(argv[2]);
  const std::string value(argc > 4 ? std::strtoul(argv[4], nullptr, 10) * 1024 : 1,
                          'x');
  const uint32_t count = 1;
  std::string environment(reinterpret_cast<const char*>(&count), sizeof(count));
  environment += std::string("NAME") + '\0' + value + '\0';
  request.arguments = {environment, std::string(argv[3]) + '\0'};
  rocattach::RegisterLibrary library;
  auto maps = rocattach::Maps::Read(request.pid);
  if (!maps.ok()) return 3;
  std::printf("begin\n");
  std::fflush(stdout);
  auto result = rocattach::FindRegisterLibrary(request.pid, *maps, &library);
  request.function = library.attach;
  request.busy_begin = library.code_begin;
  request.busy_end = library.code_end;
  std::optional<rocattach::RemoteCall> call;
  if (result.ok()) result = rocattach::RemoteCall::Begin(request, &call);
  if (!result.ok()) {
    std::printf(
        "failed reason=%s detail=%s\n",
        std::string(rocattach::AttachReasonName(result.failure().reason)).c_str(),
        result.failure().detail.c_str());
    return 1;
  }
  const auto state = call->Wait(rocattach::ClockNs(CLOCK_MONOTONIC) + 2'000'000'000);
  const bool cleared = state == rocattach::RemoteCall::State::kReturned &&
                       call->Clear(/*keep_stub=*/false);
  std::printf("state=%d result=%d cleared=%d\n", static_cast<int>(state),
              static_cast<int>(call->result()), cleared ? 1 : 0);
  return 0;
}
