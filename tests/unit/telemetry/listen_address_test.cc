#include "userspace/telemetry/listen_address.h"

#include <gtest/gtest.h>

namespace rocattach {
namespace {

std::string TextOf(const char* text) {
  const auto address = ParseListenAddress(text);
  return address.ok() ? address->text() : "";
}

TEST(ListenAddressTest, APortAloneListensOnThisMachineOnly) {
  EXPECT_EQ(TextOf("9410"), "127.0.0.1:9410");
  EXPECT_EQ(TextOf(":9410"), "127.0.0.1:9410");
  EXPECT_EQ(TextOf("localhost:9410"), "127.0.0.1:9410");
}

TEST(ListenAddressTest, AddressesAreNumeric) {
  EXPECT_EQ(TextOf("0.0.0.0:80"), "0.0.0.0:80");
  EXPECT_EQ(TextOf("[::1]:80"), "[::1]:80");
  EXPECT_EQ(TextOf("[::]:0"), "[::]:0");
  EXPECT_TRUE(ParseListenAddress("127.0.0.2:1")->loopback());
  EXPECT_TRUE(ParseListenAddress("[::1]:1")->loopback());
  EXPECT_FALSE(ParseListenAddress("0.0.0.0:1")->loopback());
  EXPECT_FALSE(ParseListenAddress("[::]:1")->loopback());
}

TEST(ListenAddressTest, AnythingElseIsRefusedWithAnExample) {
  for (const char* text : {"", ":", "host:80", "1.2.3.4", "1.2.3.4:", "1.2.3.4:65536",
                           "1.2.3.4:-1", "1.2.3:80", "::1:80x", "[::1]", "[]:80"}) {
    const auto address = ParseListenAddress(text);
    ASSERT_FALSE(address.ok()) << text;
    EXPECT_NE(address.status().message().find("127.0.0.1:9410"), std::string::npos);
  }
}

}  // namespace
}  // namespace rocattach
