#include "userspace/report/html/html_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "userspace/stream/decoder.h"
#include "userspace/stream/writer.h"

namespace rocattach {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kHostile[] = "</script><img src=x onerror=alert(1)><!--{{script}}";

class HtmlPageTest : public testing::Test {
 protected:
  void SetUp() override {
    writer_ = *StreamWriter::Create(std::make_unique<MemorySink>(&bytes_), {});
  }

  StreamId Open(const std::string& comm) {
    v1::Process process;
    process.set_comm(comm);
    process.set_pid(7);
    return writer_->OpenProcess(process);
  }

  void AddKernel(StreamId id, uint32_t number, const std::string& name) {
    v1::Kernel kernel;
    kernel.set_id(number);
    kernel.set_name(name);
    ASSERT_TRUE(writer_->AddKernel(id, kernel).ok());
  }

  void AddDispatches(StreamId id, uint32_t kernel, uint32_t queue, size_t count) {
    std::vector<rocattach_dispatch> records(count);
    for (rocattach_dispatch& record : records) {
      record.kind = ROCATTACH_RECORD_DISPATCH;
      record.kernel_id = kernel;
      record.queue_id = queue;
      record.agent_id = 2;
      record.correlation_id = ++number_;
      record.start_ns = number_ * 10'000;
      record.end_ns = record.start_ns + 1000 * kernel;
    }
    ASSERT_TRUE(writer_->Append<DispatchKind>(id, records).ok());
  }

  std::string Page() {
    EXPECT_TRUE(writer_->Close().ok());
    PageBuilder builder;
    StreamDecoder decoder(&builder);
    decoder.Feed(bytes_);
    decoder.FinishInput();
    const Report report = builder.Finish(decoder.stats());
    return FormatHtmlPage(report, builder.FinishData(), {});
  }

  // The data of a page, as the page's scripts read it.
  static nlohmann::json DataOf(const std::string& page) {
    const std::string begin = "<script type=\"application/json\" id=\"data\">";
    const size_t at = page.find(begin) + begin.size();
    return nlohmann::json::parse(page.substr(at, page.find("</script>", at) - at));
  }

  std::string bytes_;
  std::unique_ptr<StreamWriter> writer_;
  uint64_t number_ = 0;
};

TEST_F(HtmlPageTest, ShowsTheDataOfTheRecording) {
  const StreamId id = Open("app");
  AddKernel(id, 1, "_Z4vaddPfS_i");
  AddKernel(id, 2, "scale");
  AddDispatches(id, 1, 1, 10);
  AddDispatches(id, 2, 1, 20);
  AddDispatches(id, 2, 3, 5);
  v1::Workload workload;
  workload.set_kube_namespace("ml");
  workload.set_pod("trainer-0");
  ASSERT_TRUE(writer_->SetWorkload(id, workload).ok());
  const auto data = DataOf(Page());
  EXPECT_EQ(data["processes"][0]["workload"], "pod ml/trainer-0");
  ASSERT_EQ(data["kernels"].size(), 2u);
  EXPECT_EQ(data["kernels"][0]["name"], "scale");
  EXPECT_EQ(data["kernels"][0]["count"], 25);
  EXPECT_EQ(data["kernels"][0]["total"], 50'000);
  EXPECT_EQ(data["kernels"][1]["name"], "vadd(float*, float*, int)");
  EXPECT_EQ(data["kernels"][1]["mangled"], "_Z4vaddPfS_i");
  EXPECT_EQ(data["kernel_ns"], 60'000);
  // The timeline has every dispatch.
  const auto& lanes = data["timeline"]["lanes"];
  ASSERT_EQ(lanes.size(), 2u);
  EXPECT_EQ(lanes[0]["operations"].size(), 30 * 3u);
  EXPECT_EQ(lanes[1]["operations"].size(), 5 * 3u);
  EXPECT_TRUE(data["timeline"]["complete"].get<bool>());
  // The flame graph has every dispatch, too.
  const auto& process = data["flame"]["processes"][0];
  EXPECT_EQ(process["name"], "app (pid 7)");
  ASSERT_EQ(process["queues"].size(), 2u);
  const nlohmann::json first = {{0, 40'000, 20}, {1, 10'000, 10}};
  EXPECT_EQ(process["queues"][0]["kernels"], first);
  EXPECT_EQ(data["processes"][0]["gpus"][0]["busy"], 60'000);
}

TEST_F(HtmlPageTest, NothingOfTheRecordingIsMarkup) {
  const StreamId id = Open(std::string(kHostile).substr(0, 15));
  AddKernel(id, 1, kHostile);
  AddKernel(id, 2, absl::StrCat(std::string(10'000, 'n'), "\xff\xe2\x80\xae<b>"));
  AddDispatches(id, 1, 1, 2);
  AddDispatches(id, 2, 1, 2);
  const std::string page = Page();
  EXPECT_THAT(page, Not(HasSubstr("<img")));
  EXPECT_THAT(page, Not(HasSubstr("<b>")));
  size_t scripts = 0;
  for (size_t at = 0; (at = page.find("<script", at)) != page.npos; ++at) ++scripts;
  EXPECT_EQ(scripts, 2u);
  const auto data = DataOf(page);
  EXPECT_EQ(data["kernels"][1]["name"], kHostile);
  // Long names are complete. Invalid UTF-8 was replaced by the writer; a character that
  // would reverse the text's direction is escaped.
  EXPECT_TRUE(data["kernels"][0]["name"] ==
              absl::StrCat(std::string(10'000, 'n'), "\xef\xbf\xbd\\u{202e}<b>"));
}

TEST_F(HtmlPageTest, LoadsNothing) {
  const std::string page = Page();
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  for (const char* loads : {"src=\"", "@import", "url(", "fetch(", "XMLHttpRequest",
                            "innerHTML", "document.write", "eval("}) {
    EXPECT_THAT(page, Not(HasSubstr(loads)));
  }
}

// A recording with very many kernels gives a page of limited size.
TEST_F(HtmlPageTest, ManyKernelsShareALine) {
  const StreamId id = Open("many");
  for (uint32_t i = 1; i <= 5000; ++i) {
    AddKernel(id, i, absl::StrCat("kernel_", i));
    AddDispatches(id, i, 1, 1);
  }
  const auto data = DataOf(Page());
  EXPECT_EQ(data["kernels"].size(), 4000u);
  EXPECT_EQ(data["kernels"][0]["name"], "kernel_5000");
  EXPECT_EQ(data["other_kernels"]["kernels"], 1000);
  EXPECT_EQ(data["other_kernels"]["total"], 1000 * 1001 / 2 * 1000);
}

}  // namespace
}  // namespace rocattach
