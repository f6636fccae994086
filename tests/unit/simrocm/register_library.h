// The simulated rocprofiler-register in a child process, because it remembers
// registrations for as long as the process lives.
#ifndef ROCATTACH_TESTS_UNIT_SIMROCM_REGISTER_LIBRARY_H_
#define ROCATTACH_TESTS_UNIT_SIMROCM_REGISTER_LIBRARY_H_

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>

#include "userspace/collector/sdk/register_abi.h"

namespace rocattach {

class LoadedRegister {
 public:
  LoadedRegister() {
    handle_ = dlopen(REGISTER_LIBRARY, RTLD_NOW | RTLD_GLOBAL);
    if (handle_ == nullptr) {
      ADD_FAILURE() << dlerror();
      _exit(1);
    }
    Resolve("rocprofiler_register_library_api_table", &register_table);
    Resolve("rocprofiler_register_error_string", &error_string);
    Resolve("rocprofiler_register_iterate_registration_info", &iterate);
    Resolve("rocprofiler_register_invoke_nonpropagated_registrations", &invoke_new);
    Resolve("rocprofiler_register_invoke_all_registrations", &invoke_all);
    Resolve("rocprofiler_register_attach", &attach);
    Resolve("rocprofiler_register_detach", &detach);
  }

  // Registers with one table and no import function.
  int Register(const char* name, uint32_t version = 10203) {
    void* tables[] = {this};
    return register_table(name, nullptr, version, tables, 1, &id);
  }

  // The log of calls to the fake SDK.
  std::string SdkCalls() const {
    void* sdk = dlopen(FAKE_SDK_LIBRARY, RTLD_LAZY | RTLD_NOLOAD);
    if (sdk == nullptr) return "not loaded";
    return reinterpret_cast<const char* (*)()>(dlsym(sdk, "fake_sdk_calls"))();
  }

  rocattach_register_library_api_table_fn register_table = nullptr;
  rocattach_register_error_string_fn error_string = nullptr;
  rocattach_register_iterate_fn iterate = nullptr;
  rocattach_register_invoke_fn invoke_new = nullptr;
  rocattach_register_invoke_fn invoke_all = nullptr;
  rocattach_register_attach_fn attach = nullptr;
  rocattach_register_detach_fn detach = nullptr;
  rocattach_register_id id{0};

 private:
  template <typename Function>
  void Resolve(const char* name, Function* function) {
    *function = reinterpret_cast<Function>(dlsym(handle_, name));
    EXPECT_NE(*function, nullptr) << name;
  }
  void* handle_ = nullptr;
};

// Runs `body` in a child process. Failures there become failures of this test.
inline void InChild(const std::function<void(LoadedRegister&)>& body) {
  fflush(nullptr);
  pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    {
      LoadedRegister library;
      body(library);
    }
    fflush(nullptr);
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
      << "see the messages above; wait status " << status;
}

inline void UseFakeSdk(const char* behaviour) {
  setenv("ROCPROFILER_REGISTER_LIBRARY", FAKE_SDK_LIBRARY, 1);
  setenv("FAKE_SDK", behaviour, 1);
}

}  // namespace rocattach

#endif  // ROCATTACH_TESTS_UNIT_SIMROCM_REGISTER_LIBRARY_H_
