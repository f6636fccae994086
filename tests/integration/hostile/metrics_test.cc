// Attacks on a service with metrics: what they cost it, and what its scrapes report.
#include <signal.h>
#include <sys/resource.h>

#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/integration/hostile/hostile_harness.h"
#include "tests/unit/telemetry/http_client.h"
#include "userspace/base/clock.h"

namespace rocattach::testing_support {
namespace {

constexpr uint64_t kDispatches = 20'000;

// One scrape.
class Page {
 public:
  explicit Page(const ListenAddress& service) {
    const std::string answer = Get(service, "/metrics");
    const size_t head = answer.find("\r\n\r\n");
    if (absl::StartsWith(answer, "HTTP/1.1 200 ") && head != std::string::npos) {
      text_ = answer.substr(head + 4);
    }
  }

  bool valid() const { return !text_.empty(); }
  const std::string& text() const { return text_; }
  // The sum of all series of a metric whose labels contain these texts.
  double Sum(const std::string& metric,
             const std::vector<std::string>& labels = {}) const {
    double sum = 0;
    for (const std::string& line : Lines(metric, labels)) {
      sum += std::stod(line.substr(line.rfind(' ') + 1));
    }
    return sum;
  }
  size_t Count(const std::string& metric,
               const std::vector<std::string>& labels = {}) const {
    return Lines(metric, labels).size();
  }

 private:
  std::vector<std::string> Lines(const std::string& metric,
                                 const std::vector<std::string>& labels) const {
    std::vector<std::string> found;
    std::istringstream lines(text_);
    for (std::string line; std::getline(lines, line);) {
      bool fits =
          absl::StartsWith(line, metric + "{") || absl::StartsWith(line, metric + " ");
      for (const std::string& label : labels)
        fits = fits && absl::StrContains(line, label);
      if (fits) found.push_back(line);
    }
    return found;
  }

  std::string text_;
};

class HostileMetricsTest : public ::testing::Test {
 protected:
  void SetUp() override { SKIP_WITHOUT_PRIVILEGES(); }
  static std::vector<std::string> Auto(std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {"--auto", "--metrics-listen", "0"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  static ListenAddress AddressOf(LiveService* service) {
    const auto ready = service->watcher().Events("ready");
    return *ParseListenAddress(ready.empty() ? "" : ready[0].value("metrics", ""));
  }
  static std::string LabelOf(pid_t pid) { return absl::StrCat("pid=\"", pid, "\""); }
};

// Thousands of processes that end at once, without a budget that limits them.
TEST_F(HostileMetricsTest, ProcessesWithoutEnd) {
  LiveService service(Auto({"--library", EmptyRuntime(), "--windows-per-second", "0",
                            "--processes-per-user", "0"}));
  ASSERT_TRUE(service.ready());
  const ListenAddress address = AddressOf(&service);
  Neighbour neighbour(kDispatches);
  Adversary adversary("hostile_load", {"fork", "3"});
  size_t scrapes = 0;
  // If the adversary does not end, Wait() says so.
  const uint64_t end_ns = BootNs() + 120'000'000'000;
  while (adversary.Output().find("processes=") == std::string::npos &&
         BootNs() < end_ns) {
    const Page page(address);
    // The answer may be late, but its size is bounded.
    EXPECT_LE(page.Sum("rocattach_series"), page.Sum("rocattach_series_limit"));
    EXPECT_LT(page.text().size(), 16u << 20);
    scrapes += page.valid();
    if (!service.alive()) break;
  }
  const Finished finished = adversary.Wait();
  ASSERT_TRUE(finished.exited_with(0)) << finished.errors;
  EXPECT_GT(scrapes, 0u);
  neighbour.Finish();
  service.ExpectHealthy(/*spare_descriptors=*/64);
  const Page page(address);
  ASSERT_TRUE(page.valid());
  const auto processes = static_cast<double>(Reported(finished.output, "processes"));
  const double windows = page.Sum("rocattach_attach_total");
  EXPECT_GT(windows, 1);
  EXPECT_LE(windows, processes + 1);
  // A process may end before its workload is known: one failure each at most.
  EXPECT_LE(page.Sum("rocattach_workload_failures_total"), windows);
  neighbour.ExpectComplete(service.Stop());
}

// Two processes with half a million kernels each.
TEST_F(HostileMetricsTest, AMillionKernelNames) {
  LiveService service(Auto());
  ASSERT_TRUE(service.ready());
  const ListenAddress address = AddressOf(&service);
  Adversary first("hostile_memory", {"kernels", CollectorPath(), "600"});
  Adversary second("hostile_memory", {"kernels", CollectorPath(), "600"});
  ASSERT_TRUE(first.Says("reported"));
  ASSERT_TRUE(second.Says("reported"));
  EXPECT_GE(Reported(first.Output(), "kernels") + Reported(second.Output(), "kernels"),
            1'000'000);
  // Each adversary's records refer to its kernels one after the other.
  for (const Adversary* adversary : {&first, &second}) {
    EXPECT_TRUE(Eventually([&] {
      return Page(address).Sum("rocattach_target_dispatches_total",
                               {LabelOf(adversary->pid())}) >= 1'000'000;
    })) << Page(address).text();
  }
  Neighbour neighbour(kDispatches);
  neighbour.Finish();
  // The neighbour is in one more scrape after its end.
  EXPECT_TRUE(Eventually([&] {
    return Page(address).Sum("rocattach_target_dispatches_total",
                             {LabelOf(neighbour.pid())}) == kDispatches;
  }));
  const Page page(address);
  ASSERT_TRUE(page.valid());
  for (const Adversary* adversary : {&first, &second}) {
    // Ten kernels by name, and one series for the others.
    EXPECT_LE(
        page.Count("rocattach_kernel_dispatches_total", {LabelOf(adversary->pid())}),
        11u);
  }
  EXPECT_LE(page.Count("rocattach_kernel_info"), 3u * 10);
  EXPECT_LE(page.Sum("rocattach_series"), page.Sum("rocattach_series_limit"));
  EXPECT_LT(page.text().size(), 1u << 20);
  first.Signal(SIGTERM);
  second.Signal(SIGTERM);
  EXPECT_TRUE(first.Wait().exited_with(0));
  EXPECT_TRUE(second.Wait().exited_with(0));
  service.ExpectHealthy(/*spare_descriptors=*/8);
  neighbour.ExpectComplete(service.Stop());
}

// A thousand clients that never read, never complete a request, or send garbage.
TEST_F(HostileMetricsTest, AThousandConnectionsAndGarbage) {
  constexpr size_t kClients = 1000;
  const rlimit files = {4 * kClients, 4 * kClients};
  LiveService service(Auto());
  ASSERT_TRUE(service.ready());
  // The limit of this process: the service has its own.
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
  const ListenAddress address = AddressOf(&service);
  Neighbour neighbour(kDispatches);
  std::vector<std::unique_ptr<HttpClient>> clients;
  std::string garbage(4096, '\0');
  for (size_t i = 0; i < garbage.size(); ++i) garbage[i] = static_cast<char>(i * 167);
  for (size_t i = 0; i < kClients; ++i) {
    clients.push_back(std::make_unique<HttpClient>(address));
    EXPECT_TRUE(clients.back()->connected()) << i;
    // The server may have closed it already.
    if (i % 4 == 0) (void)clients.back()->Send(garbage);
    if (i % 4 == 1) (void)clients.back()->Send("GET /metrics HTTP/1.1\r\nHost: ");
    if (i % 4 == 2) {
      for (int request = 0; request < 8; ++request) {
        (void)clients.back()->Send("GET /metrics HTTP/1.0\r\n\r\n");
      }
    }
  }
  // An honest scraper is still served. Its page may have been made earlier.
  EXPECT_TRUE(Page(address).valid());
  EXPECT_TRUE(Eventually([&] {
    return Page(address).Sum("rocattach_http_connections_refused_total") > 0;
  }));
  neighbour.Finish();
  service.ExpectHealthy(/*spare_descriptors=*/64 + 4);
  clients.clear();
  EXPECT_TRUE(Page(address).valid());
  neighbour.ExpectComplete(service.Stop());
}

}  // namespace
}  // namespace rocattach::testing_support
