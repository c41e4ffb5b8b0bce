// Ranks as processes, one of which is killed or stopped inside of an operation of 64 MB. The survivors are
// told and end at once. The times are printed; only the watchdog judges them.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>

#include "core/base/clock.h"
#include "core/os/fd.h"
#include "tests/unit/runtime/group/world.h"

namespace troupe::test {
namespace {

constexpr std::int64_t kElements = 16 << 20;  // 64 MB of f32
const char* const kWhy = "rank 1 ended: killed by signal 9";

struct Child {
  pid_t pid = -1;
  UniqueFd orders;  // a byte written here is abort()
  UniqueFd answer;  // what the child says at its end
};

// One rank: all-reduces until it fails; answers "kind|message|milliseconds from the order to the end".
std::string live(const std::filesystem::path& folder, int rank, int size, int orders, int ready,
                 std::chrono::nanoseconds grace) {
  CommunicatorOptions options;
  options.rank = rank;
  options.size = size;
  options.grace = grace;
  options.token = test_token();
  Communicator group(options, folder_exchange(folder, rank, size));
  Result<void> result = group.connect(std::chrono::seconds(60)).wait();
  std::atomic<std::int64_t> ordered_at{0};
  std::thread listener([&, orders] {
    char byte = 0;
    if (::read(orders, &byte, 1) != 1) return;
    ordered_at = steady_ns();
    group.abort(Error(ErrorKind::actor_died, kWhy));
  });
  Tensor tensor = Tensor::zeros(DType::f32, {kElements});
  bool told = false;
  while (result) {
    result = group.all_reduce(tensor, ReduceOp::sum).wait();
    if (result && !told) {
      told = ::write(ready, "r", 1) == 1;
    }
  }
  std::int64_t now = steady_ns();
  auto later = group.barrier().wait();
  listener.join();
  std::string same = !later && later.error().message == result.error().message ? "same" : "other";
  return std::to_string(static_cast<int>(result.error().kind)) + "|" + result.error().message + "|" +
         std::to_string(static_cast<double>(now - ordered_at) / 1e6) + "|" + same;
}

Child start(const std::filesystem::path& folder, int rank, int size, int ready,
            std::chrono::nanoseconds grace) {
  int orders[2], answer[2];
  if (::pipe2(orders, O_CLOEXEC) != 0 || ::pipe2(answer, O_CLOEXEC) != 0)
    throw std::runtime_error("no pipes");
  Child child{::fork(), {}, {}};
  if (child.pid == 0) {
    ::alarm(100);
    ::close(orders[1]);
    std::string text = live(folder, rank, size, orders[0], ready, grace);
    bool good = ::write(answer[1], text.data(), text.size()) == static_cast<ssize_t>(text.size());
    ::_exit(good ? 0 : 1);
  }
  ::close(orders[0]);
  ::close(answer[1]);
  child.orders.reset(orders[1]);
  child.answer.reset(answer[0]);
  return child;
}

std::string read_all(int fd) {
  std::string text;
  char bytes[512];
  for (ssize_t n; (n = ::read(fd, bytes, sizeof bytes)) > 0;) text.append(bytes, static_cast<std::size_t>(n));
  return text;
}

struct Case {
  int size;
  int signal;
};

class Processes : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(
    Ranks, Processes, testing::Values(Case{2, SIGKILL}, Case{2, SIGSTOP}, Case{4, SIGKILL}, Case{4, SIGSTOP}),
    [](auto& info) {
      return std::to_string(info.param.size) + (info.param.signal == SIGKILL ? "_killed" : "_stopped");
    });

TEST_P(Processes, SurvivorsEndAtOnceWithTheReason) {
  auto [size, signal] = GetParam();
  Folder folder;
  int ready[2];
  ASSERT_EQ(::pipe2(ready, O_CLOEXEC), 0);
  std::vector<Child> ranks;
  // A long grace: what the ranks end with is the order, not the lost connection.
  for (int rank = 0; rank < size; ++rank)
    ranks.push_back(start(folder.path(), rank, size, ready[1], std::chrono::seconds(30)));
  char byte = 0;
  for (int rank = 0; rank < size; ++rank) ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  ::usleep(30'000);
  ::kill(ranks[1].pid, signal);
  ::usleep(50'000);
  double longest = 0;
  for (int rank = 0; rank < size; ++rank) {
    if (rank == 1) continue;
    ASSERT_EQ(::write(ranks[static_cast<std::size_t>(rank)].orders.get(), "a", 1), 1);
  }
  for (int rank = 0; rank < size; ++rank) {
    if (rank == 1) continue;
    std::string text = read_all(ranks[static_cast<std::size_t>(rank)].answer.get());
    std::string wanted = std::to_string(static_cast<int>(ErrorKind::actor_died)) + "|" + kWhy + "|";
    ASSERT_EQ(text.substr(0, wanted.size()), wanted) << text;
    EXPECT_TRUE(contains(text, "|same")) << text;
    longest = std::max(longest, std::stod(text.substr(wanted.size())));
    int status = 0;
    ::waitpid(ranks[static_cast<std::size_t>(rank)].pid, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  ::kill(ranks[1].pid, SIGKILL);
  ::waitpid(ranks[1].pid, nullptr, 0);
  ::close(ready[0]);
  ::close(ready[1]);
  std::printf("%d ranks, one %s: from the order to the end %.1f ms\n", size,
              signal == SIGKILL ? "killed" : "stopped", longest);
}

// Nobody tells the survivors: those that lose a connection to the dead rank say so, and the others follow.
TEST(Processes, AKilledRankIsNoticedWithoutBeingTold) {
  Folder folder;
  int ready[2];
  ASSERT_EQ(::pipe2(ready, O_CLOEXEC), 0);
  std::vector<Child> ranks;
  for (int rank = 0; rank < 3; ++rank)
    ranks.push_back(start(folder.path(), rank, 3, ready[1], std::chrono::milliseconds(100)));
  char byte = 0;
  for (int rank = 0; rank < 3; ++rank) ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  ::kill(ranks[1].pid, SIGKILL);
  for (int rank : {0, 2}) {
    Child& child = ranks[static_cast<std::size_t>(rank)];
    // The order comes after the end; it lets the child's listener go.
    pollfd wait{child.answer.get(), POLLIN, 0};
    ::poll(&wait, 1, 2000);
    EXPECT_EQ(::write(child.orders.get(), "a", 1), 1);
    std::string text = read_all(child.answer.get());
    // The other survivor may have left because of it by then.
    EXPECT_TRUE(contains(text, "lost its connection to rank 1:") ||
                contains(text, rank == 0 ? "lost its connection to ranks 1, 2:"
                                         : "lost its connection to ranks 0, 1:"))
        << text;
    ::waitpid(child.pid, nullptr, 0);
  }
  ::waitpid(ranks[1].pid, nullptr, 0);
  ::close(ready[0]);
  ::close(ready[1]);
}

}  // namespace
}  // namespace troupe::test
