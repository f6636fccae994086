#include "userspace/telemetry/http_host.h"

#include <gtest/gtest.h>
#include <sys/utsname.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace rocattach {
namespace {

constexpr char kHosts[] =
    "127.0.0.1 localhost\n"
    "10.1.2.3\tnode7.cluster.example node7 gpu-7 # rack.example\n"
    "10.1.2.4 node8.cluster.example node8\n";

TEST(HttpHostsTest, AnswersToTheMachinesNames) {
  const HttpHosts hosts("node7", kHosts, {"metrics.example"});
  for (const char* host :
       {"node7", "NODE7:9410", "node7.", "node7.:9410", "localhost", "LocalHost:1",
        "node7.cluster.example:9410", "gpu-7", "metrics.example", "Metrics.Example."}) {
    EXPECT_TRUE(hosts.Allows(host)) << host;
  }
  EXPECT_TRUE(HttpHosts("node9.x.example", "", {}).Allows("node9"));
  EXPECT_TRUE(HttpHosts("node9.x.example", "", {}).Allows("node9.x.example:80"));
}

TEST(HttpHostsTest, AnswersToAddresses) {
  const HttpHosts hosts("node7", kHosts, {});
  for (const char* host : {"127.0.0.1", "127.0.0.1:9410", "10.9.9.9:80", "[::1]",
                           "[::1]:9410", "[FE80::1%eth0]:9410", "[::ffff:10.1.2.3]"}) {
    EXPECT_TRUE(hosts.Allows(host)) << host;
  }
}

TEST(HttpHostsTest, AnswersToNoOtherName) {
  const HttpHosts hosts("node7", kHosts, {"metrics.example"});
  for (const char* host : {"",
                           ".",
                           "x",
                           "evil.example",
                           "evil.example:9410",
                           "node8",
                           "rack.example",
                           "node7.evil.example",
                           "localhost.evil.example",
                           "127.0.0.1.evil.example",
                           "10.1.2",
                           "0x7f000001",
                           "::1",
                           "[::1",
                           "[evil]",
                           "[]",
                           "localhost:x",
                           "localhost:80:90",
                           "localhost..",
                           "user@localhost",
                           "metrics.example/"}) {
    EXPECT_FALSE(hosts.Allows(host)) << host;
  }
  EXPECT_FALSE(HttpHosts("", kHosts, {}).Allows("node7"));
}

TEST(HttpHostsTest, KnowsThisMachine) {
  utsname name = {};
  ASSERT_EQ(uname(&name), 0);
  const HttpHosts hosts = HttpHosts::OfThisMachine({});
  EXPECT_TRUE(hosts.Allows(absl::StrCat(name.nodename, ":9410")));
  EXPECT_FALSE(hosts.Allows("evil.example"));
}

}  // namespace
}  // namespace rocattach
