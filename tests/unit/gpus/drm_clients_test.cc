#include "userspace/gpus/drm_clients.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace rocattach {
namespace {

// As written by amdgpu of Linux 6.12.
constexpr char kFile[] =
    "pos:\t0\nflags:\t02100002\nmnt_id:\t26\nino:\t1103\n"
    "drm-driver:\tamdgpu\ndrm-client-id:\t57\ndrm-pdev:\t0000:03:00.0\n"
    "pasid:\t32770\ndrm-total-vram:\t96 KiB\ndrm-shared-vram:\t0\n"
    "drm-resident-vram:\t80 KiB\ndrm-memory-vram:\t64 KiB\n"
    "drm-memory-gtt: \t2048 KiB\n"
    "drm-engine-gfx:\t123456789 ns\ndrm-engine-capacity-gfx:\t2\n"
    "drm-engine-enc_1:\t5 ns\n";

TEST(ParseFdInfoTest, AFileOfAmdgpu) {
  const auto client = ParseFdInfo(kFile);
  ASSERT_TRUE(client.has_value());
  EXPECT_EQ(client->id, 57u);
  EXPECT_EQ(client->pci, "0000:03:00.0");
  EXPECT_EQ(client->vram_bytes, 64u << 10);
  const std::map<std::string, uint64_t> engines = {{"gfx", 123456789}, {"enc_1", 5}};
  EXPECT_EQ(client->engine_ns, engines);
}

TEST(ParseFdInfoTest, MissingValuesAreNotZero) {
  const auto client = ParseFdInfo("drm-driver: amdgpu\ndrm-client-id: 1\n");
  ASSERT_TRUE(client.has_value());
  EXPECT_FALSE(client->vram_bytes.has_value());
  EXPECT_TRUE(client->engine_ns.empty());
  EXPECT_EQ(client->pci, "");
}

TEST(ParseFdInfoTest, NewerDriversReportResidentMemory) {
  const std::string head = "drm-driver: amdgpu\ndrm-client-id: 1\n";
  EXPECT_EQ(ParseFdInfo(head + "drm-resident-vram: 3 MiB\n")->vram_bytes, 3u << 20);
  EXPECT_EQ(ParseFdInfo(head + "drm-resident-vram: 77\n")->vram_bytes, 77u);
}

TEST(ParseFdInfoTest, OthersFilesAndNonsenseAreNoClients) {
  EXPECT_FALSE(ParseFdInfo("").has_value());
  EXPECT_FALSE(ParseFdInfo("drm-driver: i915\ndrm-client-id: 1\n").has_value());
  EXPECT_FALSE(ParseFdInfo("drm-driver: amdgpu\n").has_value());
  EXPECT_FALSE(ParseFdInfo("drm-driver: amdgpu\ndrm-client-id: -1\n").has_value());
  const std::string head = "drm-driver: amdgpu\ndrm-client-id: 1\n";
  for (const char* memory : {"", "x KiB", "-1 KiB", "1 GiB", "1 KiB KiB",
                             "18446744073709551615 KiB", "99999999999999999999"}) {
    EXPECT_FALSE(ParseFdInfo(absl::StrCat(head, "drm-memory-vram: ", memory, "\n"))
                     ->vram_bytes.has_value())
        << memory;
  }
  std::string many = head;
  for (int i = 0; i < 1000; ++i) absl::StrAppend(&many, "drm-engine-e", i, ": 1 ns\n");
  EXPECT_EQ(ParseFdInfo(many)->engine_ns.size(), kMostEngines);
  EXPECT_TRUE(ParseFdInfo(head + "drm-engine-a\"b: 1 ns\ndrm-engine-: 1 ns\n"
                                 "drm-engine-averyveryverylongname: 1 ns\n")
                  ->engine_ns.empty());
}

}  // namespace
}  // namespace rocattach
