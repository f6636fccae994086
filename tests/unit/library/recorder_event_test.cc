#include "userspace/library/recorder_event.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace rocattach {
namespace {

using ::testing::ElementsAre;
using Kind = RecorderEvent::Kind;

TEST(RecorderEventTest, ReadsWhatTheProgramPrints) {
  auto attached = ParseRecorderEvent(
      R"({"event":"attached","pid":12,"comm":"x","reason":"none","detail":"","entry":"late"})");
  ASSERT_TRUE(attached.ok()) << attached.status();
  EXPECT_EQ(attached->kind, Kind::kAttached);
  EXPECT_EQ(attached->pid, 12);
  auto refused = ParseRecorderEvent(
      R"({"event":"not_attached","pid":13,"reason":"no-runtime","detail":"why"})");
  ASSERT_TRUE(refused.ok());
  EXPECT_EQ(refused->kind, Kind::kNotAttached);
  EXPECT_EQ(refused->reason, "no-runtime");
  EXPECT_EQ(refused->detail, "why");
  auto result =
      ParseRecorderEvent(R"({"event":"result","pid":12,"dispatches":5,"lost":2})");
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->kind, Kind::kResult);
  EXPECT_EQ(result->dispatches, 5u);
  EXPECT_EQ(result->lost, 2u);
  auto end = ParseRecorderEvent(
      R"({"event":"end","complete":false,"files":["a.rwa",7,"b.rwa"],"output_error":"full"})");
  ASSERT_TRUE(end.ok());
  EXPECT_EQ(end->kind, Kind::kEnd);
  EXPECT_THAT(end->files, ElementsAre("a.rwa", "b.rwa"));
  EXPECT_EQ(end->output_error, "full");
  EXPECT_EQ(ParseRecorderEvent(R"({"event":"ready"})")->kind, Kind::kReady);
  EXPECT_EQ(ParseRecorderEvent(R"({"event":"failed"})")->kind, Kind::kFailed);
  EXPECT_EQ(ParseRecorderEvent(R"({"event":"session_refused"})")->kind,
            Kind::kSessionRefused);
}

TEST(RecorderEventTest, LinesThatAreNoEventAreRefused) {
  for (const char* line :
       {"", " ", "rocattach: no", "{", "[]", "3", "null", "\"end\"",
        "{\"event\":\"end\"", "{\"event\":\"end\"} x", "\xff\xfe{}"}) {
    EXPECT_EQ(ParseRecorderEvent(line).status().code(),
              absl::StatusCode::kInvalidArgument)
        << line;
  }
}

TEST(RecorderEventTest, FieldsOfOtherTypesCountAsEmpty) {
  auto event = ParseRecorderEvent(
      R"({"event":"attached","pid":"12","reason":3,"detail":[],"lost":-4,"files":"a"})");
  ASSERT_TRUE(event.ok());
  EXPECT_EQ(event->kind, Kind::kAttached);
  EXPECT_EQ(event->pid, 0);
  EXPECT_EQ(event->reason, "");
  EXPECT_EQ(event->lost, 0u);
  EXPECT_TRUE(event->files.empty());
  EXPECT_EQ(ParseRecorderEvent(R"({"event":["end"]})")->kind, Kind::kOther);
  EXPECT_EQ(ParseRecorderEvent(R"({"event":"news"})")->kind, Kind::kOther);
  EXPECT_EQ(ParseRecorderEvent(R"({})")->kind, Kind::kOther);
  EXPECT_EQ(ParseRecorderEvent(R"({"pid":4294967297})")->pid, 0);
  EXPECT_EQ(ParseRecorderEvent(R"({"pid":1e300})")->pid, 0);
  EXPECT_EQ(ParseRecorderEvent(R"({"pid":99999999999999999999999})")->pid, 0);
}

TEST(RecorderEventTest, DeepNestingIsNoProblem) {
  const std::string deep(60'000, '[');
  EXPECT_FALSE(ParseRecorderEvent(deep).ok());
  EXPECT_TRUE(
      ParseRecorderEvent("{\"event\":" + deep + std::string(60'000, ']') + "}").ok());
}

TEST(RecorderEventTest, ReasonsHaveTheDocumentedStatus) {
  EXPECT_EQ(StatusOfReason("no-such-process"),
            ROCATTACH_STATUS_ERROR_PTRACE_PROCESS_NOT_FOUND);
  EXPECT_EQ(StatusOfReason("target-exited"),
            ROCATTACH_STATUS_ERROR_PTRACE_PROCESS_NOT_FOUND);
  EXPECT_EQ(StatusOfReason("not-permitted"),
            ROCATTACH_STATUS_ERROR_PTRACE_OPERATION_NOT_PERMITTED);
  EXPECT_EQ(StatusOfReason("already-traced"),
            ROCATTACH_STATUS_ERROR_PTRACE_OPERATION_NOT_PERMITTED);
  EXPECT_EQ(StatusOfReason("not-a-process"), ROCATTACH_STATUS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(StatusOfReason("unsupported"), ROCATTACH_STATUS_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(StatusOfReason("stop-timeout"), ROCATTACH_STATUS_ERROR_PTRACE_ERROR);
  EXPECT_EQ(StatusOfReason("no-runtime"), ROCATTACH_STATUS_ERROR);
  EXPECT_EQ(StatusOfReason(""), ROCATTACH_STATUS_ERROR);
  EXPECT_EQ(StatusOfReason("a reason of tomorrow"), ROCATTACH_STATUS_ERROR);
}

}  // namespace
}  // namespace rocattach
