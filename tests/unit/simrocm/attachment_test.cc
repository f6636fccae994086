// rocprofiler_register_attach and _detach: statuses, environment, order.
#include <dirent.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "tests/unit/simrocm/register_library.h"

namespace rocattach {
namespace {

// The number of variables, then their names and values.
constexpr char kEnvironment[] = "\2\0\0\0FAKE_VARIABLE\0new\0ROCP_EMPTY\0";

std::string Variable(const char* name) {
  const char* value = getenv(name);
  return value != nullptr ? value : "unset";
}

// Runs `body` with the attach library registered: "hip" loads it without any HSA.
void Attachable(const char* behaviour,
                const std::function<void(LoadedRegister&)>& body) {
  unsetenv("ROCPROFILER_REGISTER_LIBRARY");
  setenv("ROCP_TOOL_ATTACH", "1", 1);
  InChild([&](LoadedRegister& library) {
    EXPECT_EQ(library.Register("hip"), ROCATTACH_REGISTER_NO_TOOLS);
    setenv("FAKE_SDK", behaviour, 1);
    setenv("ROCPROFILER_REGISTER_LIBRARY", FAKE_SDK_LIBRARY, 1);
    body(library);
  });
  unsetenv("ROCP_TOOL_ATTACH");
}

TEST(Attachment, LooksAtArgumentsFirst) {
  unsetenv("ROCP_TOOL_ATTACH");
  InChild([](LoadedRegister& library) {
    EXPECT_EQ(library.attach(nullptr, nullptr), ROCATTACH_REGISTER_INVALID_ARGUMENT);
    EXPECT_EQ(library.attach(nullptr, "/tool.so"),
              ROCATTACH_REGISTER_ATTACHMENT_NOT_AVAILABLE);
    EXPECT_EQ(library.detach(), ROCATTACH_REGISTER_ATTACHMENT_NOT_AVAILABLE);
  });
}

TEST(Attachment, IsOffUntilTheFirstRegistration) {
  setenv("ROCP_TOOL_ATTACH", "1", 1);
  InChild([](LoadedRegister& library) {
    EXPECT_EQ(library.attach(nullptr, "/tool.so"),
              ROCATTACH_REGISTER_ATTACHMENT_NOT_AVAILABLE);
    library.Register("roctx");
    EXPECT_EQ(library.detach(), ROCATTACH_REGISTER_NO_TOOLS);
  });
  unsetenv("ROCP_TOOL_ATTACH");
}

TEST(Attachment, TheListenerThreadIsThere) {
  Attachable("", [](LoadedRegister&) {
    // The thread names itself soon after it has started.
    bool found = false;
    for (int tries = 0; tries < 1000 && !found; ++tries) {
      DIR* tasks = opendir("/proc/self/task");
      ASSERT_NE(tasks, nullptr);
      while (dirent* task = readdir(tasks)) {
        std::ifstream comm(std::string("/proc/self/task/") + task->d_name + "/comm");
        std::string name;
        std::getline(comm, name);
        found |= name == "rocp-bg-attach";
      }
      closedir(tasks);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_TRUE(found);
  });
}

TEST(Attachment, LoadsOnceAndAttachesEachTime) {
  Attachable("", [](LoadedRegister& library) {
    EXPECT_EQ(library.attach(kEnvironment, "/tool.so"), ROCATTACH_REGISTER_SUCCESS);
    EXPECT_EQ(library.SdkCalls(), "load:/tool.so:1:new attach ");
    EXPECT_EQ(library.detach(), ROCATTACH_REGISTER_SUCCESS);
    EXPECT_EQ(library.attach(kEnvironment, "/tool.so"), ROCATTACH_REGISTER_SUCCESS);
    EXPECT_EQ(library.detach(), ROCATTACH_REGISTER_SUCCESS);
    EXPECT_EQ(library.SdkCalls(), "load:/tool.so:1:new attach detach attach detach ");
  });
}

TEST(Attachment, ComparesToolsAsStrings) {
  Attachable("", [](LoadedRegister& library) {
    EXPECT_EQ(library.attach(nullptr, "/tool.so"), ROCATTACH_REGISTER_SUCCESS);
    EXPECT_EQ(library.attach(nullptr, "/./tool.so"),
              ROCATTACH_REGISTER_INVALID_ARGUMENT);
    EXPECT_EQ(library.attach(nullptr, "/tool.so"), ROCATTACH_REGISTER_SUCCESS);
  });
}

TEST(Attachment, KeepsTheEnvironmentOfASuccessfulAttach) {
  Attachable("", [](LoadedRegister& library) {
    static const char buffer[] =
        "\2\0\0\0FAKE_VARIABLE\0a=b\0ROCPROFILER_REGISTER_TOOL_ATTACHED\0002";
    EXPECT_EQ(library.attach(buffer, "/tool.so"), ROCATTACH_REGISTER_SUCCESS);
    EXPECT_EQ(Variable("FAKE_VARIABLE"), "a=b");
    EXPECT_EQ(Variable("ROCPROFILER_REGISTER_TOOL_ATTACHED"), "unset");
    EXPECT_EQ(library.detach(), ROCATTACH_REGISTER_SUCCESS);
    EXPECT_EQ(Variable("FAKE_VARIABLE"), "a=b");
  });
}

TEST(Attachment, RestoresTheEnvironmentAfterAFailure) {
  for (const char* behaviour : {"load-fails", "attach-fails"}) {
    Attachable(behaviour, [](LoadedRegister& library) {
      setenv("FAKE_VARIABLE", "old", 1);
      EXPECT_EQ(library.attach(kEnvironment, "/tool.so"),
                ROCATTACH_REGISTER_ROCPROFILER_ERROR);
      EXPECT_EQ(Variable("FAKE_VARIABLE"), "old");
      EXPECT_EQ(Variable("ROCP_EMPTY"), "unset");
      EXPECT_EQ(Variable("ROCPROFILER_REGISTER_TOOL_ATTACHED"), "unset");
      // After a failed attach, another tool may attach.
      setenv("FAKE_SDK", "", 1);
      EXPECT_EQ(library.attach(kEnvironment, "/other.so"), ROCATTACH_REGISTER_SUCCESS);
    });
  }
}

TEST(Attachment, ReportsAFailedDetach) {
  Attachable("detach-fails", [](LoadedRegister& library) {
    EXPECT_EQ(library.attach(nullptr, "/tool.so"), ROCATTACH_REGISTER_SUCCESS);
    EXPECT_EQ(library.detach(), ROCATTACH_REGISTER_ROCPROFILER_ERROR);
  });
}

TEST(Attachment, NeedsAnSdkThatCanAttach) {
  Attachable("", [](LoadedRegister& library) {
    setenv("ROCPROFILER_REGISTER_LIBRARY", FAKE_SDK_WITHOUT_ATTACH, 1);
    EXPECT_EQ(library.attach(nullptr, "/tool.so"), ROCATTACH_REGISTER_NO_TOOLS);
  });
}

TEST(Attachment, TheAttachTableComesFirst) {
  Attachable("", [](LoadedRegister& library) {
    EXPECT_EQ(library.invoke_all(), ROCATTACH_REGISTER_SUCCESS);
    EXPECT_EQ(library.SdkCalls(), "rocattach/10000/0/1 hip/10203/0/1 ");
  });
}

}  // namespace
}  // namespace rocattach
