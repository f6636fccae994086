// A service with metrics, and a Prometheus that scrapes it.
#ifndef ROCATTACH_TESTS_INTEGRATION_WATCH_METRICS_FIXTURE_H_
#define ROCATTACH_TESTS_INTEGRATION_WATCH_METRICS_FIXTURE_H_

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>

#include <cmath>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "tests/integration/watch/harness.h"
#include "tests/integration/watch/sessions_fixture.h"
#include "tests/temporary_directory.h"
#include "tests/unit/telemetry/http_client.h"

namespace rocattach::testing_support {

// The body of an HTTP response.
inline std::string Body(const std::string& page) {
  const size_t head = page.find("\r\n\r\n");
  return head == std::string::npos ? "" : page.substr(head + 4);
}

// The text with every byte escaped, for a URL.
inline std::string Escaped(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    absl::StrAppendFormat(&escaped, "%%%02x", static_cast<uint8_t>(c));
  }
  return escaped;
}

// An address whose port is free at the moment.
inline ListenAddress FreePort() {
  ListenAddress address = *ParseListenAddress("127.0.0.1:0");
  const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  auto* raw = reinterpret_cast<sockaddr*>(&address.address);
  EXPECT_EQ(bind(fd.get(), raw, address.size), 0);
  EXPECT_EQ(getsockname(fd.get(), raw, &address.size), 0);
  return address;
}

// A real Prometheus that scrapes a service.
class Prometheus {
 public:
  // `more`: further arguments.
  explicit Prometheus(const std::string& target, std::vector<std::string> more = {})
      : address_(FreePort()) {
    std::ofstream(directory_ / "prometheus.yml")
        << "global: {scrape_interval: 300ms, scrape_timeout: 300ms}\n"
           "scrape_configs:\n- job_name: gpu\n  static_configs:\n  - targets: ['"
        << target << "']\n";
    Child::Options options;
    options.dies_with_us = true;
    std::vector<std::string> command = {
        "prometheus", "--config.file=" + (directory_ / "prometheus.yml"),
        "--storage.tsdb.path=" + (directory_ / "data"),
        "--web.listen-address=" + address_.text()};
    command.insert(command.end(), more.begin(), more.end());
    child_ = std::make_unique<Child>(command, options);
  }
  ~Prometheus() {
    child_->Signal(SIGKILL);
    (void)child_->Wait();
  }

  // The value of a query with one result; NaN if it has none.
  double Query(const std::string& query) {
    const auto json = nlohmann::json::parse(
        Body(Get(address_, "/api/v1/query?query=" + Escaped(query))), nullptr, false);
    if (!json.is_object() || json["status"] != "success") return NAN;
    const auto& result = json["data"]["result"];
    if (result.empty()) return NAN;
    return std::stod(result[0]["value"][1].get<std::string>());
  }

 private:
  const TemporaryDirectory directory_;
  const ListenAddress address_;
  std::unique_ptr<Child> child_;
};

class MetricsTest : public SessionsTest {
 protected:
  void SetUp() override {
    SessionsTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (system("command -v prometheus >/dev/null") == 0) return;
    if (getenv("CI") != nullptr) FAIL() << "no prometheus";
    GTEST_SKIP() << "no prometheus; scripts/setup installs it";
  }

  // The address of the service's metrics; empty if it is not ready.
  static std::string AddressOf(WatcherProcess* watcher) {
    const auto events = watcher->Events("ready");
    return events.empty() ? "" : events[0].value("metrics", "");
  }
};

}  // namespace rocattach::testing_support

#endif  // ROCATTACH_TESTS_INTEGRATION_WATCH_METRICS_FIXTURE_H_
