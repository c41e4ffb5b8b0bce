// Several stores' transfers on one loop, over real sockets; the hosts are fakes with memory of their own.
#include "runtime/objects/transfer/transfer.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <set>

#include "core/control/kj_error.h"

namespace troupe {
namespace {

constexpr std::uint64_t kSize = 24 << 20;
const ObjectId kObject{7, {1}, 42};

struct Net;

struct Host final : ObjectHost {
  Host(Net& net, std::uint64_t id) : net(net), id{id}, arena(::memfd_create("arena", MFD_CLOEXEC)) {
    EXPECT_EQ(::ftruncate(arena.get(), kSize), 0);
    bytes =
        static_cast<std::byte*>(::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_SHARED, arena.get(), 0));
  }
  ~Host() { ::munmap(bytes, kSize); }
  Place place() {
    Place made;
    made.bytes = bytes;
    made.size = kSize;
    made.arena = arena.get();
    return made;
  }

  NodeId node() const override { return id; }
  kj::Promise<Place> reserve(const ObjectId&, std::uint64_t size) override {
    EXPECT_EQ(size, kSize);
    ++reserved;
    return place();
  }
  void sealed(const ObjectId&) override { whole = true; }
  void aborted(const ObjectId&, const Error& why) override { failure = why; }
  kj::Promise<std::optional<Place>> pin_copy(const ObjectId&) override {
    if (!whole) return std::optional<Place>();
    Place pinned = place();
    ++pins;
    pinned.pin = std::shared_ptr<void>(nullptr, [this](void*) { --pins; });
    return std::optional<Place>(std::move(pinned));
  }
  std::optional<std::uint64_t> size_of(const ObjectId& object) const override {
    if (object == kObject && id == kObject.node && whole) return kSize;
    return std::nullopt;
  }
  kj::Promise<ObjectSource> ask_source(const ObjectId& object, const ObjectAsker& self) override;
  void tell_fetched(const ObjectId& object, bool all) override;
  kj::Promise<std::optional<StoreNode>> find_node(NodeId) override { return std::optional<StoreNode>(); }

  Net& net;
  NodeId id;
  UniqueFd arena;
  std::byte* bytes = nullptr;
  bool whole = false;
  int reserved = 0, pins = 0;
  std::optional<Error> failure;
};

struct Net {
  explicit Net(int nodes) {
    for (int i = 1; i <= nodes; ++i) {
      hosts.push_back(std::make_unique<Host>(*this, i));
      transfers.push_back(std::make_unique<Transfer>(loop, *hosts.back(), token));
      EXPECT_TRUE(transfers.back()->listen("127.0.0.1"));
    }
    auto* words = reinterpret_cast<std::uint64_t*>(hosts[0]->bytes);
    for (std::uint64_t i = 0; i < kSize / 8; i += 64) words[i] = i * 0x9E3779B97F4A7C15u;
    hosts[0]->whole = true;
  }
  ~Net() {
    alive = nullptr;
    transfers.clear();
  }
  Host& host(std::uint64_t node) { return *hosts.at(node - 1); }
  Transfer& at(std::uint64_t node) { return *transfers.at(node - 1); }
  template <class F>
  bool until(F holds) {
    for (int i = 0; i < 6000; ++i) {
      if (holds()) return true;
      loop.timer().afterDelay(10 * kj::MILLISECONDS).wait(loop.scope());
    }
    return false;
  }
  bool same(std::uint64_t node) { return std::memcmp(host(node).bytes, host(1).bytes, kSize) == 0; }

  ControlLoop loop;
  Token token = *Token::random();
  std::vector<std::unique_ptr<Host>> hosts;
  std::vector<std::unique_ptr<Transfer>> transfers;
  std::map<std::uint64_t, int> asked;
  std::shared_ptr<int> alive = std::make_shared<int>();
};

kj::Promise<ObjectSource> Host::ask_source(const ObjectId& object, const ObjectAsker& self) {
  ++net.asked[self.node.value];
  return kj::evalLater([this, object, self] { return net.at(object.node.value).source(object, self); });
}
void Host::tell_fetched(const ObjectId& object, bool all) {
  net.loop.post([&net = net, alive = std::weak_ptr<int>(net.alive), node = id, object, all] {
    if (!alive.expired()) net.at(object.node.value).fetched(object, node, all);
  });
}

TEST(TransferTest, ACopyComes) {
  Net net(2);
  net.at(2).pull(kObject);
  ASSERT_TRUE(net.until([&] { return net.host(2).whole; }));
  EXPECT_TRUE(net.same(2));
  EXPECT_TRUE(net.until([&] { return net.host(1).pins == 0; }));
}

TEST(TransferTest, ManyAtOnce) {
  Net net(9);
  for (std::uint64_t node = 2; node <= 9; ++node) net.at(node).pull(kObject);
  for (std::uint64_t node = 2; node <= 9; ++node) {
    ASSERT_TRUE(net.until([&] { return net.host(node).whole || net.host(node).failure; }));
    ASSERT_FALSE(net.host(node).failure) << net.host(node).failure->message;
    EXPECT_TRUE(net.same(node));
    EXPECT_EQ(net.host(node).reserved, 1);
  }
  for (std::uint64_t node = 1; node <= 9; ++node)
    EXPECT_TRUE(net.until([&] { return net.host(node).pins == 0; })) << node;
}

TEST(TransferTest, AnUnknownObjectIsLost) {
  Net net(2);
  net.at(2).pull({7, {1}, 43});
  ASSERT_TRUE(net.until([&] { return net.host(2).failure.has_value(); }));
  EXPECT_EQ(net.host(2).failure->kind, ErrorKind::object_lost);
}

TEST(TransferTest, ASourceThatHasItNoMoreIsReplaced) {
  Net net(4);
  for (std::uint64_t node : {2, 3}) {
    net.at(node).pull(kObject);
    ASSERT_TRUE(net.until([&] { return net.host(node).whole; }));
  }
  net.host(2).whole = net.host(3).whole = false;  // given up for want of room
  net.at(4).pull(kObject);
  ASSERT_TRUE(net.until([&] { return net.host(4).whole; }));
  EXPECT_TRUE(net.same(4));
}

// The nodes in the middle of the tree go while it is in use.
TEST(TransferTest, PullersOutliveTheirSources) {
  Net net(9);
  for (std::uint64_t node = 2; node <= 9; ++node) net.at(node).pull(kObject);
  ASSERT_TRUE(net.until([&] { return net.asked.size() == 8; }));
  for (std::uint64_t node : {2, 3}) {
    net.transfers[node - 1] = nullptr;
    for (auto& transfer : net.transfers) {
      if (transfer) transfer->node_lost({node});
    }
  }
  for (std::uint64_t node = 4; node <= 9; ++node) {
    ASSERT_TRUE(net.until([&] { return net.host(node).whole || net.host(node).failure; }));
    ASSERT_FALSE(net.host(node).failure) << net.host(node).failure->message;
    EXPECT_TRUE(net.same(node));
  }
}

TEST(TransferTest, StopEndsIt) {
  Net net(2);
  net.at(2).pull(kObject);
  net.at(2).stop(kObject);
  ASSERT_TRUE(net.until([&] { return net.host(2).failure || net.host(2).whole; }));
  net.host(2).failure = {};
  net.at(2).pull(kObject);
  ASSERT_TRUE(net.until([&] { return net.asked.count(2) > 0; }));
  net.at(2).stop(kObject);
  ASSERT_TRUE(net.until([&] { return net.host(2).failure || net.host(2).whole; }));
  EXPECT_TRUE(net.until([&] { return net.host(1).pins == 0; }));
}

TEST(TransferTest, DroppedInTheMiddle) {
  for (int i = 0; i < 20; ++i) {
    Net net(5);
    for (std::uint64_t node = 2; node <= 5; ++node) net.at(node).pull(kObject);
    net.until([&] { return net.asked.size() > static_cast<std::size_t>(i % 4); });
  }
}

}  // namespace
}  // namespace troupe
