#include "runtime/process/link_setup.h"

#include <capnp/message.h>
#include <capnp/serialize.h>

#include "core/control/kj_error.h"
#include "core/control/rpc.h"
#include "core/link/ring_link.h"
#include "core/link/tcp_link.h"
#include "core/protocol/call.capnp.h"

namespace troupe {
namespace {

// A length in four bytes, then a flat message.
std::string framed(capnp::MessageBuilder& message) {
  auto words = capnp::messageToFlatArray(message);
  auto bytes = words.asBytes();
  std::uint32_t size = static_cast<std::uint32_t>(bytes.size());
  std::string out(reinterpret_cast<const char*>(&size), sizeof size);
  out.append(reinterpret_cast<const char*>(bytes.begin()), bytes.size());
  return out;
}

kj::Promise<kj::Array<capnp::word>> read_framed(SocketStream& stream) {
  auto size = kj::heap<std::uint32_t>(0);
  auto promise = stream.read(size.get(), sizeof(std::uint32_t), sizeof(std::uint32_t));
  return promise.then([&stream, size = kj::mv(size)](size_t) -> kj::Promise<kj::Array<capnp::word>> {
    if (*size == 0 || *size > kMaxHello || *size % sizeof(capnp::word) != 0) {
      return kj_exception(Error(ErrorKind::invalid_argument, "a hello of an impossible size"));
    }
    auto words = kj::heapArray<capnp::word>(*size / sizeof(capnp::word));
    auto bytes = words.asBytes();
    auto read = stream.read(bytes.begin(), bytes.size(), bytes.size());
    return read.then([words = kj::mv(words)](size_t) mutable { return kj::mv(words); });
  });
}

void send(SocketStream& stream, const std::string& bytes, std::initializer_list<int> fds) {
  auto span = std::as_bytes(std::span(bytes));
  stream.write_with_fds(span, {fds.begin(), fds.size()});
}

template <class L>
std::unique_ptr<Link> take(Result<std::unique_ptr<L>> link) {
  if (!link) kj::throwFatalException(kj_exception(link.error()));
  return std::move(*link);
}

std::unique_ptr<Link> finish(SocketStream& stream, bool shared, UniqueFd memory, RingSide side) {
  if (!shared) return take(TcpLink::open(stream.release()));
  auto fds = stream.take_fds();
  RingParts parts;
  parts.side = side;
  std::size_t expected = side == RingSide::creator ? 1 : 2;
  if (fds.size() != expected) {
    kj::throwFatalException(
        kj_exception(Error(ErrorKind::invalid_argument, "a handshake without its descriptors")));
  }
  parts.memory = side == RingSide::creator ? std::move(memory) : std::move(fds[0]);
  parts.peer_doorbell = std::move(fds.back());
  parts.liveness = stream.release();
  return take(RingLink::open(std::move(parts)));
}

template <class T>
kj::Promise<T> within(ControlLoop& loop, int ms, kj::Promise<T> promise, const char* what) {
  auto late = loop.timer().afterDelay(ms * kj::MILLISECONDS).then([what]() -> kj::Promise<T> {
    return kj_exception(Error(ErrorKind::unavailable, what));
  });
  return promise.exclusiveJoin(kj::mv(late));
}

}  // namespace

kj::Promise<kj::Own<std::unique_ptr<Link>>> open_link(ControlLoop& loop, const Place& place,
                                                      const LinkIdentity& self, const Token& token,
                                                      int doorbell) {
  bool shared = place.host_id == self.host_id && !place.unix_path.empty();
  Address address;
  if (shared) {
    address.path = place.unix_path;
  } else {
    address.host = place.tcp_host;
    address.port = place.tcp_port;
    if (address.host.empty() || address.port == 0) {
      return kj_exception(
          Error(ErrorKind::unavailable,
                "the actor's process takes no links from other hosts: start its node with --host"));
    }
  }
  return connect_authenticated(loop, address, token)
      .then([&loop, place, self, shared, doorbell](kj::Own<SocketStream> stream) {
        capnp::MallocMessageBuilder message;
        auto hello = message.initRoot<wire::LinkHello>();
        hello.setProtocol(kLinkProtocol);
        hello.setFingerprint(self.fingerprint);
        hello.setJob(self.job.value);
        hello.setCaller(self.process.value);
        hello.setCallee(place.process.value);
        hello.setShared(shared);
        hello.setLane(place.lane);
        UniqueFd memory;
        if (shared) {
          auto created = create_ring_memory();
          if (!created) kj::throwFatalException(kj_exception(created.error()));
          memory = std::move(*created);
          send(*stream, framed(message), {memory.get(), doorbell});
        } else {
          auto bytes = framed(message);
          // Small: it is in the stream's own buffer when this returns.
          loop.spawn("hello", stream->write(bytes.data(), bytes.size()));
        }
        auto answer = read_framed(*stream);
        auto done = answer.then([&stream = *stream, shared, memory = kj::heap<UniqueFd>(std::move(memory))](
                                    kj::Array<capnp::word> words) mutable {
          capnp::FlatArrayMessageReader reader(words);
          auto welcome = reader.getRoot<wire::LinkWelcome>();
          if (!welcome.getAccepted()) {
            kj::throwFatalException(kj_exception(read_failure(welcome.getFailure())));
          }
          return kj::heap<std::unique_ptr<Link>>(
              finish(stream, shared, std::move(*memory), RingSide::creator));
        });
        return within(loop, kHelloMs, kj::mv(done), "the actor's process did not answer a new link in time")
            .attach(kj::mv(stream));
      });
}

kj::Promise<void> serve_link(ControlLoop& loop, kj::Own<SocketStream> stream, const LinkIdentity& self,
                             DoorbellOf doorbell_of, OnLink on_link) {
  auto hello = read_framed(*stream);
  auto served = hello.then([&stream = *stream, self, doorbell_of, on_link](kj::Array<capnp::word> words) {
    capnp::FlatArrayMessageReader reader(words);
    auto hello = reader.getRoot<wire::LinkHello>();
    int doorbell = doorbell_of(hello.getLane());
    Error error;
    bool accepted = true;
    auto refuse = [&](ErrorKind kind, const char* why) {
      error = Error(kind, why);
      accepted = false;
    };
    if (hello.getProtocol() != kLinkProtocol)
      refuse(ErrorKind::mismatch, "another version of the link protocol");
    else if (hello.getCallee() != self.process.value)
      refuse(ErrorKind::not_found, "another process lives there now");
    else if (hello.getFingerprint() != self.fingerprint) {
      refuse(ErrorKind::mismatch, "the two processes run different builds of the program");
    } else if (doorbell < 0) {
      refuse(ErrorKind::not_found, "no such lane");
    }
    capnp::MallocMessageBuilder message;
    auto welcome = message.initRoot<wire::LinkWelcome>();
    welcome.setAccepted(accepted);
    if (!accepted) write_failure(welcome.initFailure(), error);
    bool shared = hello.getShared();
    std::string bytes = framed(message);
    if (accepted && shared) {
      send(stream, bytes, {doorbell});
      on_link(hello.getLane(), finish(stream, true, UniqueFd(), RingSide::joiner));
      return kj::Promise<void>(kj::READY_NOW);
    }
    auto sent = stream.write(bytes.data(), bytes.size());
    if (!accepted) return kj::mv(sent);
    std::uint16_t lane = hello.getLane();
    return sent.then(
        [&stream, lane, on_link] { on_link(lane, finish(stream, false, UniqueFd(), RingSide::joiner)); });
  });
  return within(loop, kHelloMs, kj::mv(served), "a caller did not finish its hello in time")
      .attach(kj::mv(stream));
}

}  // namespace troupe
