// Who connects to a rank without the cluster's token, while the group connects: it is refused, and the group
// forms as if it had not come.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstring>

#include "core/auth/proof.h"
#include "core/base/clock.h"
#include "core/codec/archive.h"
#include "core/control/address.h"
#include "tests/unit/runtime/group/world.h"

namespace troupe::test {
namespace {

constexpr int kRanks = 3;

Address address_in(const std::string& blob) {
  std::pair<std::string, std::string> mesh_and_path, key_and_address;
  Reader from(std::as_bytes(std::span(blob.data(), blob.size())));
  decode(from, mesh_and_path);
  Reader inner(std::as_bytes(std::span(mesh_and_path.first.data(), mesh_and_path.first.size())));
  decode(inner, key_and_address);
  return *parse_address(key_and_address.second);
}

UniqueFd call(const Address& address) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(address.port);
  ::inet_pton(AF_INET, address.host.c_str(), &to.sin_addr);
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof to) != 0) fd.reset();
  return fd;
}

// Everything that comes until the other side ends the connection.
std::string rest(const UniqueFd& fd) {
  std::string all;
  char bytes[256];
  for (ssize_t n; (n = ::recv(fd.get(), bytes, sizeof bytes, 0)) > 0;)
    all.append(bytes, static_cast<std::size_t>(n));
  return all;
}

// Lets strangers in between the addresses and the ranks that dial them.
class Intruder final : public Exchange {
 public:
  Intruder(std::shared_ptr<Exchange> inner, std::function<void(const std::vector<std::string>&)> come)
      : inner_(std::move(inner)), come_(std::move(come)) {}
  Result<std::vector<std::string>> all_gather(const std::string& mine, std::int64_t deadline_ns) override {
    auto all = inner_->all_gather(mine, deadline_ns);
    if (all) come_(*all);
    return all;
  }
  void cancel(const Error& why) override { inner_->cancel(why); }

 private:
  std::shared_ptr<Exchange> inner_;
  std::function<void(const std::vector<std::string>&)> come_;
};

TEST(Strangers, AreRefusedAndDisturbNothing) {
  Watchdog watchdog;
  Meeting meeting(kRanks);
  std::mutex mutex;
  std::vector<UniqueFd> silent, noisy;
  std::vector<Address> ports;
  std::vector<std::string> verdicts;
  std::vector<std::thread> impostors, threads;
  // Each rank meets them all, before any of its own.
  auto come = [&](const std::vector<std::string>& blobs) {
    std::lock_guard lock(mutex);
    if (!ports.empty()) return;
    for (const auto& blob : blobs) {
      Address port = address_in(blob);
      ports.push_back(port);
      for (int i = 0; i < 100; ++i) silent.push_back(call(port));  // more than are kept
      noisy.push_back(call(port));
      std::string noise(4096, 'x');
      EXPECT_GT(::send(noisy.back().get(), noise.data(), noise.size(), MSG_NOSIGNAL), 0);
      UniqueFd impostor = call(port);
      ASSERT_TRUE(impostor);
      impostors.emplace_back([&, fd = std::move(impostor)] {
        auto proof = ClientProof::create(*Token::random());
        std::byte bytes[kProofGreetingBytes];
        if (::recv(fd.get(), bytes, sizeof bytes, MSG_WAITALL) != sizeof bytes) return;
        ProofStep step = proof->feed(bytes);
        static_cast<void>(::send(fd.get(), step.send.data(), step.send.size(), MSG_NOSIGNAL));
        std::string verdict = rest(fd);
        std::lock_guard lock(mutex);
        verdicts.push_back(verdict);
      });
    }
  };
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      CommunicatorOptions options;
      options.rank = rank;
      options.size = kRanks;
      options.token = test_token();
      Communicator group(options, std::make_shared<Intruder>(meeting.exchange(rank), come));
      auto connected = group.connect(std::chrono::seconds(60)).wait();
      ASSERT_TRUE(connected) << text_of(connected);
      Tensor tensor = Tensor::from(std::vector<float>(100'000, 1.0f));
      auto result = group.all_reduce(tensor, ReduceOp::sum).wait();
      ASSERT_TRUE(result) << text_of(result);
      EXPECT_EQ(tensor.span<float>()[99'999], static_cast<float>(kRanks));
      ASSERT_TRUE(group.barrier().wait());
    });
  }
  for (auto& thread : threads) thread.join();
  for (auto& impostor : impostors) impostor.join();
  // None of them was let in: after the greeting, at most a refusal.
  for (const auto& fd : silent) EXPECT_LE(rest(fd).size(), kProofGreetingBytes);
  for (const auto& fd : noisy) EXPECT_LE(rest(fd).size(), kProofGreetingBytes + kProofVerdictBytes);
  for (const auto& verdict : verdicts) EXPECT_TRUE(verdict.empty() || verdict[0] == 1);
  // And nothing listens any more.
  for (const auto& port : ports) EXPECT_FALSE(call(port));
}

TEST(Strangers, ARankWithAnotherTokenIsNotLetIn) {
  Watchdog watchdog;
  Meeting meeting(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      CommunicatorOptions options;
      options.rank = rank;
      options.size = 2;
      options.token = rank == 0 ? test_token() : *Token::random();
      Communicator group(options, meeting.exchange(rank));
      auto result = group.connect(std::chrono::milliseconds(500)).wait();
      ASSERT_FALSE(result);
      EXPECT_TRUE(contains(text_of(result), rank == 0 ? "rank 1" : "refused this process's cluster token"))
          << text_of(result);
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST(Strangers, WithoutATokenNothingListens) {
  Meeting meeting(2);
  CommunicatorOptions options;
  options.size = 2;
  Communicator group(options, meeting.exchange(0));
  auto result = group.connect(std::chrono::seconds(10)).wait();
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, ErrorKind::invalid_argument) << text_of(result);
}

}  // namespace
}  // namespace troupe::test
