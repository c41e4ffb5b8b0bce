#include "tests/sim/network.h"

#include <cstring>
#include <deque>
#include <utility>

#include "core/control/address.h"

namespace troupe::sim {
namespace {

kj::Exception broken(const char* why) {
  return kj::Exception(kj::Exception::Type::DISCONNECTED, __FILE__, __LINE__, kj::str(why));
}

using Bytes = std::vector<kj::byte>;

constexpr Micros kSilence = kSilentPeerMs * kMilli;

}  // namespace

class Network::Connection : public std::enable_shared_from_this<Connection> {
 public:
  // A read that waits. Leaves the connection when its promise is dropped.
  struct Read {
    Read(kj::PromiseFulfiller<size_t>& f, Connection& c, int s, void* b, size_t l, size_t m)
        : fulfiller(f), connection(c.shared_from_this()), side(s), buffer(b), least(l), most(m) {
      connection->sides_[side].read = this;
    }
    ~Read() {
      if (connection->sides_[side].read == this) connection->sides_[side].read = nullptr;
    }
    kj::PromiseFulfiller<size_t>& fulfiller;
    std::shared_ptr<Connection> connection;
    int side;
    void* buffer;
    size_t least, most;
  };

  enum class What { bytes, end, reset };
  struct Chunk {
    What what;
    Bytes bytes;
  };
  struct Side {
    Endpoint at;
    Bytes outgoing;                // of this moment
    bool finished = false;         // its end was sent
    bool mute = false;             // its process is dead, or it was reset
    Micros last_arrival = 0;       // of what was sent to this side
    std::deque<Chunk> on_the_way;  // to this side
    std::deque<Chunk> stalled;     // arrived while nobody could take it
    Bytes inbox;
    size_t taken = 0;
    bool ended = false, reset = false;
    Read* read = nullptr;
    std::function<void()> on_event;  // of a wire
  };

  Connection(Network& network, std::uint64_t number, Endpoint first, Endpoint second)
      : network_(network), number_(number) {
    sides_[0].at = std::move(first);
    sides_[1].at = std::move(second);
  }

  kj::Promise<size_t> read(int side, void* buffer, size_t least, size_t most) {
    Side& here = sides_[side];
    if (here.inbox.size() - here.taken >= least || here.ended || here.reset) {
      if (here.reset && here.inbox.size() - here.taken < least) return broken("connection reset");
      return take(here, buffer, most);
    }
    return kj::newAdaptedPromise<size_t, Read>(*this, side, buffer, least, most);
  }

  kj::Promise<void> write(int side, kj::ArrayPtr<const kj::ArrayPtr<const kj::byte>> pieces) {
    if (sides_[side].reset) return broken("connection reset");
    put(side, pieces);
    return kj::READY_NOW;
  }

  void put(int side, kj::ArrayPtr<const kj::ArrayPtr<const kj::byte>> pieces) {
    Side& here = sides_[side];
    if (here.mute || here.finished || here.reset || cut_ || orphan_) return;
    if (here.outgoing.empty()) network_.dirty_.push_back(weak_from_this());
    for (auto piece : pieces) here.outgoing.insert(here.outgoing.end(), piece.begin(), piece.end());
  }

  void finish(int side) {
    if (orphan_) return;
    flush(side);
    Side& here = sides_[side];
    if (here.finished || here.mute || cut_) return;
    here.finished = true;
    send(1 - side, {What::end, {}});
  }

  void flush() {
    flush(0);
    flush(1);
  }

  void dies(SimProcess* process, bool silent) {
    for (int side : {0, 1}) {
      if (sides_[side].at.process != process || sides_[side].mute) continue;
      sides_[side].outgoing.clear();
      if (silent) {
        // The peer's kernel finds out in the end.
        network_.time_.after(kSilence, [weak = weak_from_this(), side] {
          if (auto self = weak.lock()) self->send(1 - side, {What::reset, {}});
        });
      } else {
        send(1 - side, {What::end, {}});
      }
      sides_[side].mute = true;
      sides_[side].at.process = nullptr;
    }
  }

  // What is written from now on is lost like what is on its way, however late the ends hear of it.
  void cut() {
    cut_ = true;
    for (int side : {0, 1}) {
      sides_[side].outgoing.clear();
      sides_[side].on_the_way.clear();
      sides_[side].stalled.clear();
      send(side, {What::reset, {}});
    }
  }

  bool between(const std::string& a, const std::string& b) const {
    return (sides_[0].at.host == a && sides_[1].at.host == b) ||
           (sides_[0].at.host == b && sides_[1].at.host == a);
  }

  void release_stalled() {
    for (int side : {0, 1}) {
      if (sides_[side].stalled.empty() || blocked(side)) continue;
      auto chunks = std::exchange(sides_[side].stalled, {});
      // What comes later must not overtake them.
      for (auto chunk = chunks.rbegin(); chunk != chunks.rend(); ++chunk) {
        sides_[side].on_the_way.push_front(std::move(*chunk));
      }
      for (std::size_t i = 0; i < chunks.size(); ++i) arrive_later(side, network_.time_.now());
    }
  }

 private:
  friend class Network;

  static size_t take(Side& here, void* buffer, size_t most) {
    size_t n = std::min(most, here.inbox.size() - here.taken);
    if (n > 0) std::memcpy(buffer, here.inbox.data() + here.taken, n);
    here.taken += n;
    if (here.taken == here.inbox.size()) {
      here.inbox.clear();
      here.taken = 0;
    }
    return n;
  }

  void flush(int side) {
    Bytes bytes = std::exchange(sides_[side].outgoing, {});
    if (!bytes.empty()) send(1 - side, {What::bytes, std::move(bytes)});
  }

  void send(int to, Chunk chunk) {
    Side& there = sides_[to];
    bool local = sides_[0].at.host == sides_[1].at.host;
    Micros at = network_.time_.now() + (local ? 20 : network_.delay());
    at = std::max(at, there.last_arrival);
    there.last_arrival = at;
    there.on_the_way.push_back(std::move(chunk));
    arrive_later(to, at);
  }

  void arrive_later(int to, Micros at) {
    network_.time_.at(at, [weak = weak_from_this(), to] {
      if (auto self = weak.lock()) self->arrive(to);
    });
  }

  bool blocked(int side) const {
    const SimProcess* process = sides_[side].at.process;
    return (process != nullptr && process->frozen()) ||
           network_.partitioned(sides_[0].at.host, sides_[1].at.host);
  }

  void arrive(int side) {
    Side& here = sides_[side];
    if (here.on_the_way.empty()) return;
    Chunk chunk = std::move(here.on_the_way.front());
    here.on_the_way.pop_front();
    if (!here.stalled.empty() || blocked(side)) {
      here.stalled.push_back(std::move(chunk));
      return;
    }
    if (here.mute && chunk.what != What::reset) {
      // Nobody is there any more: the sender is told.
      if (!sides_[1 - side].mute && !told_) {
        told_ = true;
        send(1 - side, {What::reset, {}});
      }
      return;
    }
    note(side, chunk);
    switch (chunk.what) {
      case What::bytes:
        here.inbox.insert(here.inbox.end(), chunk.bytes.begin(), chunk.bytes.end());
        break;
      case What::end:
        here.ended = true;
        break;
      case What::reset:
        here.reset = true;
        break;
    }
    if (here.on_event) return std::function(here.on_event)();
    Read* read = here.read;
    if (read == nullptr) return;
    if (here.inbox.size() - here.taken >= read->least || here.ended) {
      size_t n = take(here, read->buffer, read->most);
      here.read = nullptr;
      read->fulfiller.fulfill(kj::mv(n));
    } else if (here.reset) {
      here.read = nullptr;
      read->fulfiller.reject(broken("connection reset"));
    }
  }

  void note(int side, const Chunk& chunk) {
    ++network_.chunks_;
    auto line = [&](const auto&... rest) {
      network_.trace_.add(network_.time_.now(), sides_[1 - side].at.host, " > ", sides_[side].at.host, " #",
                          number_, rest...);
    };
    if (chunk.what == What::bytes) {
      line(" ", chunk.bytes.size(), " bytes");
      network_.trace_.mix(chunk.bytes.data(), chunk.bytes.size());
    } else {
      line(chunk.what == What::end ? " end" : " reset");
    }
  }

  Network& network_;
  std::uint64_t number_;
  bool orphan_ = false;  // the network is gone
  Side sides_[2];
  bool told_ = false;
  bool cut_ = false;
};

namespace {

class SimStream final : public kj::AsyncIoStream {
 public:
  SimStream(std::shared_ptr<Network::Connection> connection, int side)
      : connection_(std::move(connection)), side_(side) {}
  ~SimStream() noexcept(false) { connection_->finish(side_); }

  kj::Promise<size_t> tryRead(void* buffer, size_t least, size_t most) override {
    return connection_->read(side_, buffer, least, most);
  }
  kj::Promise<void> write(const void* buffer, size_t size) override {
    auto piece = kj::arrayPtr(static_cast<const kj::byte*>(buffer), size);
    return connection_->write(side_, kj::arrayPtr(&piece, 1));
  }
  kj::Promise<void> write(kj::ArrayPtr<const kj::ArrayPtr<const kj::byte>> pieces) override {
    return connection_->write(side_, pieces);
  }
  kj::Promise<void> whenWriteDisconnected() override { return kj::NEVER_DONE; }
  void shutdownWrite() override { connection_->finish(side_); }

 private:
  std::shared_ptr<Network::Connection> connection_;
  int side_;
};

}  // namespace

Network::Wire::Wire(std::shared_ptr<Connection> connection, int side)
    : connection_(std::move(connection)), side_(side) {}

Network::Wire::~Wire() {
  connection_->sides_[side_].on_event = nullptr;
  connection_->finish(side_);
}

void Network::Wire::write(std::span<const std::byte> bytes) {
  auto piece = kj::arrayPtr(reinterpret_cast<const kj::byte*>(bytes.data()), bytes.size());
  connection_->put(side_, kj::arrayPtr(&piece, 1));
}

void Network::Wire::take(std::vector<std::byte>& into) {
  auto& here = connection_->sides_[side_];
  const auto* from = reinterpret_cast<const std::byte*>(here.inbox.data());
  into.insert(into.end(), from + here.taken, from + here.inbox.size());
  here.inbox.clear();
  here.taken = 0;
}

bool Network::Wire::has_bytes() const {
  auto& here = connection_->sides_[side_];
  return here.taken < here.inbox.size();
}

bool Network::Wire::over() const {
  auto& here = connection_->sides_[side_];
  return here.ended || here.reset;
}

void Network::Wire::close() { connection_->finish(side_); }

void Network::Wire::on_event(std::function<void()> what) {
  connection_->sides_[side_].on_event = std::move(what);
}

Network::Wires Network::connect_wires(Endpoint first, Endpoint second) {
  auto connection = make(std::move(first), std::move(second));
  return {std::make_unique<Wire>(connection, 0), std::make_unique<Wire>(connection, 1)};
}

namespace {

std::pair<std::string, std::string> path(const std::string& a, const std::string& b) {
  return a < b ? std::pair(a, b) : std::pair(b, a);
}

}  // namespace

Network::Network(VirtualTime& time, Random& random, Trace& trace, Options options)
    : time_(time), random_(random), trace_(trace), options_(options) {}

Network::~Network() noexcept(false) {
  // Calls that a dead process was serving live as long as the loop, and hold their streams.
  for (auto& [number, weak] : connections_) {
    if (auto connection = weak.lock()) connection->orphan_ = true;
  }
}

std::shared_ptr<Network::Connection> Network::make(Endpoint first, Endpoint second) {
  auto connection = std::make_shared<Connection>(*this, ++last_, std::move(first), std::move(second));
  connections_.emplace(last_, connection);
  return connection;
}

Network::Ends Network::connect(Endpoint first, Endpoint second) {
  auto connection = make(std::move(first), std::move(second));
  return {kj::heap<SimStream>(connection, 0), kj::heap<SimStream>(connection, 1)};
}

void Network::partition(const std::string& a, const std::string& b) { partitions_.insert(path(a, b)); }

void Network::heal(const std::string& a, const std::string& b) {
  partitions_.erase(path(a, b));
  release_stalled();
}

void Network::heal_all() {
  partitions_.clear();
  release_stalled();
}

bool Network::partitioned(const std::string& a, const std::string& b) const {
  return !partitions_.empty() && partitions_.count(path(a, b)) > 0;
}

bool Network::cut(const std::string& a, const std::string& b) {
  bool any = false;
  for (auto& [number, weak] : connections_) {
    auto connection = weak.lock();
    if (!connection || !connection->between(a, b)) continue;
    connection->cut();
    any = true;
  }
  return any;
}

void Network::dies(SimProcess* process, bool silent) {
  for (auto at = connections_.begin(); at != connections_.end();) {
    auto connection = at->second.lock();
    if (connection) connection->dies(process, silent);
    at = connection ? std::next(at) : connections_.erase(at);
  }
}

void Network::thawed() { release_stalled(); }

void Network::release_stalled() {
  for (auto& [number, weak] : connections_) {
    if (auto connection = weak.lock()) connection->release_stalled();
  }
}

void Network::flush() {
  for (auto& weak : std::exchange(dirty_, {})) {
    if (auto connection = weak.lock()) connection->flush();
  }
}

Micros Network::delay() {
  if (random_.chance(options_.slow_per_mille)) return random_.between(options_.most, options_.slowest);
  return random_.between(options_.least, options_.most);
}

}  // namespace troupe::sim
