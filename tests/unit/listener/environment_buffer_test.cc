#include "userspace/listener/environment_buffer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rocattach {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

TEST(ToolVariables, AreThoseOfToolsAndNoOthers) {
  const char* const environment[] = {"PATH=/bin",
                                     "ROCPROF_KERNEL_TRACE=1",
                                     "ROCP_METRICS=a=b",
                                     "ROCPROFSYS_TRACE=",
                                     "ROCPROFILER_LOG_LEVEL=info",
                                     "ROCPROFILER_REGISTER_LIBRARY=/evil.so",
                                     "ROCPROFILER_REGISTER_FORCE_LOAD=1",
                                     "ROCP_TOOL_LIBRARIES=/evil.so",
                                     "ROCP_TOOL_ATTACH=0",
                                     "ROCPROF_ATTACH_TOOL_LIBRARY=/tool.so",
                                     "ROCP",
                                     "ROC_X=1",
                                     "XROCP_Y=1",
                                     nullptr};
  EXPECT_THAT(
      ToolVariables(environment),
      ElementsAre(Pair("ROCPROF_KERNEL_TRACE", "1"), Pair("ROCP_METRICS", "a=b"),
                  Pair("ROCPROFSYS_TRACE", ""), Pair("ROCPROFILER_LOG_LEVEL", "info")));
  const char* const none[] = {nullptr};
  EXPECT_THAT(ToolVariables(none), IsEmpty());
  EXPECT_THAT(ToolVariables(nullptr), IsEmpty());
}

TEST(EnvironmentBuffer, IsANumberAndPairsOfStrings) {
  EXPECT_EQ(EnvironmentBuffer({}), std::string(4, '\0'));
  EXPECT_EQ(EnvironmentBuffer({{"A", "1"}, {"BC", ""}}),
            std::string("\2\0\0\0A\0001\0BC\0\0", 12));
}

}  // namespace
}  // namespace rocattach
