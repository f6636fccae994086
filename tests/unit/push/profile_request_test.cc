#include "userspace/push/profile_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "schemas/export/parca.pb.h"
#include "userspace/push/profile_settings.h"

namespace rocattach {
namespace {

using testing::HasSubstr;

HttpPostReply Reply(long status, const std::string& body = "") {
  HttpPostReply reply;
  reply.status = status;
  reply.body = body;
  return reply;
}

std::string Frame(char flags, const std::string& content) {
  return std::string{flags, '\0', '\0', '\0', static_cast<char>(content.size())} +
         content;
}

PushResult Result(const HttpPostReply& reply) {
  std::string message;
  return ParcaResult(reply, &message);
}

TEST(ProfileRequest, TheRequestToParcaIsOneGrpcWebMessage) {
  const std::string body = ParcaRequest({{"node", "n1"}, {"pod", "p"}}, "bytes");
  ASSERT_GT(body.size(), 5u);
  EXPECT_EQ(body[0], 0);
  EXPECT_EQ(static_cast<size_t>(body[4]), body.size() - 5);
  parca::WriteRawRequest request;
  ASSERT_TRUE(request.ParseFromString(body.substr(5)));
  ASSERT_EQ(request.series_size(), 1);
  const auto& labels = request.series(0).labels().labels();
  ASSERT_EQ(labels.size(), 3);
  EXPECT_EQ(labels.Get(0).name(), "__name__");
  EXPECT_EQ(labels.Get(2).value(), "p");
  EXPECT_EQ(request.series(0).samples(0).raw_profile(), "bytes");
}

TEST(ProfileRequest, ParcasStatusIsThatOfGrpc) {
  const std::string message = Frame('\0', "");
  EXPECT_EQ(Result(Reply(200, message + Frame('\x80', "grpc-status: 0\r\n"))),
            PushResult::kAccepted);
  EXPECT_EQ(Result(Reply(200, Frame('\x80', "Grpc-Status:14\r\n"))),
            PushResult::kRetry);
  EXPECT_EQ(Result(Reply(503)), PushResult::kRetry);
  EXPECT_EQ(Result(Reply(404)), PushResult::kRefused);
  std::string said;
  EXPECT_EQ(ParcaResult(Reply(200, Frame('\x80',
                                         "grpc-status: 3\r\ngrpc-message: too\x1b[1m "
                                         "old\r\n")),
                        &said),
            PushResult::kRefused);
  EXPECT_THAT(said, HasSubstr("gRPC status 3: too"));
  EXPECT_THAT(said, Not(HasSubstr("\x1b")));
  // Without a body, the status is a header.
  HttpPostReply header = Reply(200);
  header.grpc_status = 8;
  EXPECT_EQ(Result(header), PushResult::kRetry);
  header.grpc_status = 0;
  EXPECT_EQ(Result(header), PushResult::kAccepted);
}

TEST(ProfileRequest, AnAnswerThatIsNotGrpcWebIsARefusal) {
  for (const std::string& body :
       {std::string(), std::string("<html>"), std::string("\x80\xff\xff\xff\xff", 5),
        std::string("\x80\0\0", 3), Frame('\x80', "grpc-status: many\r\n"),
        std::string(1000, '\0')}) {
    EXPECT_EQ(Result(Reply(200, body)), PushResult::kRefused) << body.size();
  }
}

TEST(ProfileRequest, PyroscopesLabelsAreInItsName) {
  EXPECT_EQ(PyroscopeQuery({{"node", "n1"}, {"pod", "a{b},c=\"d\" e"}}, 1'999'999'999,
                           5'000'000'001),
            "name=rocattach_gpu%7Bnode%3Dn1%2Cpod%3Da_b__c__d_%20e%7D&from=1&until=6&"
            "spyName=rocattach");
  const std::string body = PyroscopeRequest("bytes");
  EXPECT_THAT(body, HasSubstr("name=\"profile\"; filename=\"profile\"\r\n"));
  EXPECT_THAT(body, HasSubstr("\r\n\r\nbytes\r\n--"));
  EXPECT_THAT(body, HasSubstr("\"copied_bytes\""));
}

TEST(ProfileSettings, NameTheServerAndItsAddress) {
  const auto none = [](const char*) { return std::string(); };
  auto parca = MakeProfilePushSettings("parca=http://p:7070/", 0, none);
  ASSERT_TRUE(parca.ok()) << parca.status();
  EXPECT_EQ(parca->post.url,
            "http://p:7070/parca.profilestore.v1alpha1.ProfileStoreService/WriteRaw");
  EXPECT_EQ(parca->interval_msec, 60'000u);
  auto pyroscope = MakeProfilePushSettings(
      "pyroscope=https://u:p@host/base/ingest", 500,
      [](const char*) { return std::string("X-Scope-OrgID=team%201"); });
  ASSERT_TRUE(pyroscope.ok()) << pyroscope.status();
  EXPECT_EQ(pyroscope->post.url, "https://u:p@host/base/ingest");
  EXPECT_EQ(pyroscope->interval_msec, 500u);
  EXPECT_EQ(pyroscope->post.headers.back(), "X-Scope-OrgID: team 1");
  for (const char* wrong : {"", "parca", "parca=", "pyroscope=ftp://x",
                            "jaeger=http://x", "http://user:secret@x"}) {
    auto settings = MakeProfilePushSettings(wrong, 0, none);
    EXPECT_FALSE(settings.ok()) << wrong;
    EXPECT_THAT(settings.status().message(), Not(HasSubstr("secret")));
  }
  EXPECT_FALSE(MakeProfilePushSettings("parca=http://x", 0, [](const char*) {
                 return std::string("a=b%0d%0ac: d");
               }).ok());
}

}  // namespace
}  // namespace rocattach
