// A service is killed, stopped and restarted at random instants while programs use its
// sessions, and programs die in the middle of theirs. ROCATTACH_SESSION_ATTACKS sets
// the number of attacks, ROCATTACH_SESSION_SEED the order.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <thread>

#include "tests/integration/library/sessions_library_fixture.h"
#include "tests/integration/random_instants.h"

namespace rocattach::testing_support {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// Limit for the duration of every call, whatever happens to the service: "some
// seconds", on a busy machine.
constexpr int kLongestCallSeconds = 30;

enum class Attack { kKill, kStop, kStopUntilNoticed, kKillWhileStopped, kRestart };
constexpr Attack kAttacks[] = {Attack::kKill, Attack::kStop, Attack::kStopUntilNoticed,
                               Attack::kKillWhileStopped, Attack::kRestart};

int FromEnvironment(const char* name, int otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::atoi(value);
}

class SessionsAttacksTest : public SessionsLibraryTest {
 protected:
  std::string Program() const override {
    return Compile("integration/library/churn.c");
  }
  std::string Gate() const { return directory_.path() + "/gate"; }
  void OpenGate() const {
    close(open(Gate().c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  }
  // Starts a program that dispatches until the gate opens.
  std::unique_ptr<Child> Busy() const {
    return std::make_unique<Child>(std::vector<std::string>{
        SimrocmRunPath(), SIMROCM_WORKLOAD, "-t", "2", "until:" + Gate()});
  }
  std::unique_ptr<Child> Client(const char* what, const Child& target) const {
    return std::make_unique<Child>(
        std::vector<std::string>{Program(), what, std::to_string(target.pid())},
        Environment());
  }
  WatcherProcess& StartService() {
    std::vector<std::string> words = Watch();
    // Attaches only to processes of this test, among all that are running.
    for (const char* word :
         {"--attach-running", "-n", "simrocm_workload", "-n", "hsa_dispatch"}) {
      words.push_back(word);
    }
    services_.push_back(std::make_unique<WatcherProcess>(words));
    EXPECT_TRUE(services_.back()->ready());
    return *services_.back();
  }

  static int Count(Child* program, const std::string& word) {
    const std::string& output = program->PollOutput();
    int count = 0;
    for (size_t at = 0; (at = output.find(word + "\n", at)) != std::string::npos;
         ++at) {
      ++count;
    }
    return count;
  }
  // Waits until the program has printed the word more than `than` times.
  static bool AwaitMore(Child* program, const std::string& word, int than) {
    for (int i = 0; i < 12'000; ++i) {
      if (Count(program, word) > than) return true;
      usleep(10'000);
    }
    ADD_FAILURE() << "no more '" << word << "' than " << than << " in:\n"
                  << program->PollOutput();
    return false;
  }

  std::vector<std::unique_ptr<WatcherProcess>> services_;  // with their recordings
};

// Expects that a client, at its end, has seen nothing but documented results.
void ExpectDocumented(const Finished& client) {
  EXPECT_TRUE(client.exited_with(0)) << client.errors;
  EXPECT_EQ(client.errors, "");
  EXPECT_EQ(Reported(client.output, "undocumented"), 0);
  EXPECT_EQ(Reported(client.output, "wrong_told"), 0);
  EXPECT_GT(Reported(client.output, "records"), 0);
  EXPECT_LT(Reported(client.output, "slowest"), kLongestCallSeconds);
}

TEST_F(SessionsAttacksTest, AServiceThatIsKilledStoppedAndRestartedAtRandomInstants) {
  const int attacks = FromEnvironment("ROCATTACH_SESSION_ATTACKS", 10);
  std::mt19937 random(
      static_cast<unsigned>(FromEnvironment("ROCATTACH_SESSION_SEED", 1)));
  const std::string alone = Child(Target("3")).Wait().output;
  WatcherProcess* service = &StartService();
  const auto first = Busy(), second = Busy();
  const auto cycling = Client("cycle", *first), holding = Client("hold", *second);
  ASSERT_TRUE(AwaitMore(cycling.get(), "good", 0));
  ASSERT_TRUE(AwaitMore(holding.get(), "held", 0));
  const RandomInstants instants(20'000);
  const auto wait = [&] { std::this_thread::sleep_for(instants.Next(&random)); };
  std::vector<size_t> killed;
  int lost = 0;
  for (int i = 0; i < attacks; ++i) {
    // First each kind in turn, then random ones.
    const size_t kind = i < 5 ? static_cast<size_t>(i) : random() % 5;
    SCOPED_TRACE("attack " + std::to_string(i) + " of kind " + std::to_string(kind));
    const int failed = Count(cycling.get(), "failed");
    wait();
    bool gone = true;
    switch (kAttacks[kind]) {
      case Attack::kKill:
        service->Kill();
        killed.push_back(services_.size() - 1);
        break;
      case Attack::kKillWhileStopped:
        kill(service->pid(), SIGSTOP);
        wait();
        service->Kill();
        killed.push_back(services_.size() - 1);
        break;
      case Attack::kStop:
      case Attack::kStopUntilNoticed:
        kill(service->pid(), SIGSTOP);
        if (kAttacks[kind] == Attack::kStop) {
          wait();
        } else {
          EXPECT_TRUE(AwaitMore(cycling.get(), "failed", failed));
        }
        kill(service->pid(), SIGCONT);
        gone = false;
        break;
      case Attack::kRestart:
        EXPECT_TRUE(service->Stop().exited_with(0));
        break;
    }
    const int good = Count(cycling.get(), "good"), held = Count(holding.get(), "held");
    if (gone) {
      // The active session is lost, no matter how its service ended.
      ASSERT_TRUE(AwaitMore(holding.get(), "lost", lost++));
      service = &StartService();
      ASSERT_TRUE(AwaitMore(holding.get(), "held", held));
    }
    ASSERT_TRUE(AwaitMore(cycling.get(), "good", good)) << "the service is found again";
    // A process that starts now behaves as it does without a service.
    const Finished beside = Child(Target("3")).Wait();
    EXPECT_TRUE(beside.exited_with(0)) << beside.errors;
    EXPECT_EQ(Reported(beside.output, "dispatches"), Reported(alone, "dispatches"));
    EXPECT_EQ(Reported(beside.output, "increment"), Reported(alone, "increment"));
    EXPECT_THAT(beside.output, HasSubstr("result=ok"));
  }
  for (Child* client : {cycling.get(), holding.get()}) client->Signal(SIGUSR1);
  ExpectDocumented(cycling->Wait());
  const Finished held = holding->Wait();
  ExpectDocumented(held);
  EXPECT_EQ(Reported(held.output, "told"), lost) << "once each";
  OpenGate();
  for (Child* target : {first.get(), second.get()}) {
    const Finished result = target->Wait();
    EXPECT_TRUE(result.exited_with(0)) << result.output << result.errors;
    EXPECT_EQ(result.errors, "");
  }
  EXPECT_TRUE(service->Stop().exited_with(0));
  for (const size_t number : killed) {
    const std::string recording = services_[number]->recording();
    EXPECT_GT(ReadRecording(recording).Process(first->pid()).counters.size(), 0u);
    const Finished report = Child({ClientPath(), "report", recording}).Wait();
    EXPECT_TRUE(report.exited_with(1)) << report.errors;
    EXPECT_THAT(report.output, StartsWith("INCOMPLETE: "));
  }
}

// Their sessions end in the service, so the next programs can use the processes.
TEST_F(SessionsAttacksTest, ProgramsThatAreKilledLeaveNoSession) {
  std::mt19937 random(7);
  StartService();
  const auto target = Busy();
  for (int i = 0; i < 8; ++i) {
    const auto client = Client(i % 2 == 0 ? "cycle" : "hold", *target);
    ASSERT_TRUE(AwaitMore(client.get(), i % 2 == 0 ? "good" : "held", 0));
    std::this_thread::sleep_for(RandomInstants(20'000).Next(&random));
    client->Signal(SIGKILL);
    client->Wait();
  }
  ExpectSessionOver();
  for (const nlohmann::json& session : Status()["sessions"]) {
    EXPECT_EQ(session["over"], true) << session;
  }
  OpenGate();
  EXPECT_TRUE(target->Wait().exited_with(0));
  EXPECT_TRUE(services_.back()->Stop().exited_with(0));
}

}  // namespace
}  // namespace rocattach::testing_support
