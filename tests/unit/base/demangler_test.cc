#include "userspace/base/demangler.h"

#include <cxxabi.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>

#include <cstdlib>
#include <functional>
#include <memory>

#include "absl/strings/str_cat.h"
#include "userspace/base/clock.h"

namespace rocattach {
namespace {

std::string Demangled(const std::string& symbol) {
  return Demangler().Demangle(symbol);
}

// The name as the C++ library demangles it, without limits.
std::string Unbounded(const std::string& symbol) {
  int status = 0;
  std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status), std::free);
  return text == nullptr ? symbol : std::string(text.get());
}

std::string Repeat(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

// S_, S0_ … S9_, SA_ … SZ_, S10_ …
std::string Substitution(int number) {
  if (number == 0) return "S_";
  std::string digits;
  for (int rest = number - 1;; rest /= 36) {
    const int digit = rest % 36;
    digits.insert(digits.begin(),
                  static_cast<char>(digit < 10 ? '0' + digit : 'A' + digit - 10));
    if (rest < 36) break;
  }
  return absl::StrCat("S", digits, "_");
}

// a<a<…, the same>, the same>: 2^levels names.
std::string Doubling(int levels) {
  std::string type = "1aI" + Repeat("S_I", levels - 1) + "iiE";
  for (int i = 1; i < levels; ++i) type += Substitution(i) + "E";
  return type;
}

struct Cost {
  uint64_t cpu_ns;
  int64_t memory_kb;
};
Cost CostOf(const std::function<void()>& work) {
  rusage before = {}, after = {};
  getrusage(RUSAGE_SELF, &before);
  const uint64_t begin_ns = ClockNs(CLOCK_THREAD_CPUTIME_ID);
  work();
  const uint64_t end_ns = ClockNs(CLOCK_THREAD_CPUTIME_ID);
  getrusage(RUSAGE_SELF, &after);
  return {end_ns - begin_ns, after.ru_maxrss - before.ru_maxrss};
}

TEST(Demangler, OnlyCppSymbols) {
  EXPECT_EQ(Demangled("_Z4vaddPfS_i"), "vadd(float*, float*, int)");
  EXPECT_EQ(Demangled("vadd"), "vadd");
  EXPECT_EQ(Demangled("_Znonsense"), "_Znonsense");
  EXPECT_EQ(Demangled(""), "");
  EXPECT_EQ(Demangled("_Z"), "_Z");
  const std::string with_nul("_Z4vaddPfS_i\0x", 14);
  EXPECT_EQ(Demangled(with_nul), with_nul);
}

TEST(Demangler, AgreesWithTheCppLibrary) {
  const std::string symbols[] = {
      "_ZN7rocprim6detail6kernelINS0_3cfgILj256EEEPKiS4_EEvT0_T1_",
      "_Z1fIiENSt9enable_ifIXsr3std11is_integralIT_EE5valueEvE4typeES1_",
      "_Z1fIJifdEEvDpT_",
      "_ZZ4mainENKUlvE_clEv",
      "_ZN2ck11kernel_gemmINS_8GridwiseILi256ENS_8SequenceIJLi1ELi2ELi3EEEEEEEEvPKfPf",
      "_ZNK1AcvT_IiEEv",
      "_ZTV1A",
      // As large as the largest real names.
      "_Z1f" + Doubling(9),
  };
  for (const std::string& symbol : symbols) {
    EXPECT_NE(Demangled(symbol), symbol);
    EXPECT_EQ(Demangled(symbol), Unbounded(symbol));
  }
  // More than 1,024 characters, at which the C++ library gives up.
  const std::string large = "_Z1fI" + Repeat("NS_1aILi12345EEE", 300) + "EvT_";
  EXPECT_EQ(Demangled(large).substr(0, 20), "void f<f::a<12345>, ");
}

TEST(Demangler, TextHasALimit) {
  const std::string bomb = "_Z1f" + Doubling(46);
  ASSERT_LT(bomb.size(), 340u);
  Demangler demangler;
  const Cost cost = CostOf([&] { EXPECT_EQ(demangler.Demangle(bomb), bomb); });
  EXPECT_EQ(demangler.given_up(), 1u);
  EXPECT_LT(cost.memory_kb, 4 << 10);
  EXPECT_LT(cost.cpu_ns, 1'000'000'000u);
}

// Names that take a demangler practically forever before it produces any output.
TEST(Demangler, TimeHasALimit) {
  const std::string bombs[] = {
      // For the pack of an expansion, every copy of the type is searched.
      "_Z1fDp" + Doubling(46),
      // Each level is parsed twice, to find out which production it is.
      "_Zcv" + Repeat("T_I", 60) + "i" + Repeat("E", 60) + "v",
  };
  for (const std::string& bomb : bombs) {
    Demangler demangler;
    const Cost cost = CostOf([&] { EXPECT_EQ(demangler.Demangle(bomb), bomb); });
    EXPECT_EQ(demangler.given_up(), 1u) << bomb;
    EXPECT_LT(cost.memory_kb, 4 << 10);
    EXPECT_LT(cost.cpu_ns, 1'000'000'000u);
  }
}

// A process all of whose names are like that gets no further time.
TEST(Demangler, WastedTimeHasALimit) {
  Demangler demangler;
  const Cost cost = CostOf([&] {
    for (int i = 0; i < 1000; ++i) {
      const std::string bomb = absl::StrCat("_Z", 4, "f", 100 + i, "Dp", Doubling(46));
      EXPECT_EQ(demangler.Demangle(bomb), bomb);
    }
  });
  EXPECT_EQ(demangler.given_up(), 1000u);
  EXPECT_LT(cost.cpu_ns, 2'000'000'000u);
  EXPECT_EQ(demangler.Demangle("_Z1fv"), "_Z1fv");
  EXPECT_EQ(Demangled("_Z1fv"), "f()") << "others are not concerned";
}

TEST(Demangler, RemembersItsAnswers) {
  Demangler demangler;
  const std::string bomb = "_Z1fDp" + Doubling(46);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(demangler.Demangle(bomb), bomb);
    EXPECT_EQ(demangler.Demangle("_Z1fi"), "f(int)");
  }
  EXPECT_EQ(demangler.given_up(), 1u) << "asked for once";
}

// The parser recurses for each level of a name. The service's threads have 8 MiB.
TEST(Demangler, DeepNamesFitASmallStack) {
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, 6 << 20), 0);
  pthread_t thread;
  auto run = [](void*) -> void* {
    for (const char* level :
         {"P",  "K",   "F",      "X",   "N",     "I",  "1aI",      "L_Z", "Dp",
          "M",  "A_",  "XadL_Z", "Xsz", "XnwE_", "cv", "T_I",      "FvP", "Z",
          "DT", "Xil", "U1aI",   "Xcl", "Dv_",   "sr", "XsrT_1aI", "J"}) {
      for (const char* head : {"_Z1f", "_Z", "_Z1fI", "_ZN1a", "_ZcvT_I"}) {
        std::string symbol = head;
        while (symbol.size() + 8 < Demangler::Limits().symbol_bytes) symbol += level;
        symbol += "i";
        (void)Demangled(symbol);
        (void)Demangled(symbol + std::string(7, 'E'));
      }
    }
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, run, nullptr), 0);
  ASSERT_EQ(pthread_join(thread, nullptr), 0);
}

}  // namespace
}  // namespace rocattach
