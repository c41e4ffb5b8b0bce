#include "core/control/acceptor.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <asio/generic/stream_protocol.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>
#include <cerrno>
#include <cstring>

#include "core/auth/proof.h"
#include "core/control/address.h"
#include "core/control/kj_error.h"

namespace troupe {
namespace {

// When accept fails for want of descriptors or memory, trying again at once would spin.
constexpr auto kPause = std::chrono::milliseconds(50);

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

kj::Promise<void> write_text(SocketStream& stream, const std::string& text) {
  return stream.write(text.data(), text.size());
}

// Reads exactly `size` bytes; an early end is the proof's to name.
template <class Proof>
kj::Promise<std::string> read_text(SocketStream& stream, std::size_t size, Proof& proof) {
  auto buffer = kj::heapArray<char>(size);
  auto promise = stream.tryRead(buffer.begin(), size, size);
  return promise.then([buffer = kj::mv(buffer), size, &proof](size_t got) -> std::string {
    if (got < size) kj::throwFatalException(kj_exception(proof.interrupted()));
    return std::string(buffer.begin(), size);
  });
}

kj::Promise<void> outcome(SocketStream& stream, const ProofStep& step) {
  auto sent = step.send.empty() ? kj::Promise<void>(kj::READY_NOW) : write_text(stream, step.send);
  if (!step.error) return sent;
  return sent.then([error = *step.error]() -> kj::Promise<void> { return kj_exception(error); });
}

}  // namespace

kj::Promise<void> prove_to_client(SocketStream& stream, const Token& token) {
  auto created = ServerProof::create(token);
  if (!created) return kj_exception(created.error());
  auto proof = kj::heap<ServerProof>(*created);
  auto& p = *proof;
  return write_text(stream, p.greeting())
      .then([&stream, &p] { return read_text(stream, kProofAnswerBytes, p); })
      .then([&stream, &p](std::string answer) { return outcome(stream, p.feed(bytes_of(answer))); })
      .attach(kj::mv(proof));
}

kj::Promise<void> prove_to_server(SocketStream& stream, const Token& token) {
  auto created = ClientProof::create(token);
  if (!created) return kj_exception(created.error());
  auto proof = kj::heap<ClientProof>(*created);
  auto& p = *proof;
  return read_text(stream, kProofGreetingBytes, p)
      .then([&stream, &p](std::string greeting) { return outcome(stream, p.feed(bytes_of(greeting))); })
      .then([&stream, &p] { return read_text(stream, kProofVerdictBytes, p); })
      .then([&stream, &p](std::string verdict) { return outcome(stream, p.feed(bytes_of(verdict))); })
      .attach(kj::mv(proof));
}

// Shared with Asio handlers that may outlive the acceptor.
struct Acceptor::Watch : std::enable_shared_from_this<Watch> {
  Watch(asio::io_context& io, int fd, Acceptor& owner) : listening(io, fd), pause(io), owner(&owner) {}

  void wait() {
    listening.async_wait(asio::posix::stream_descriptor::wait_read,
                         [self = shared_from_this()](const std::error_code& error) {
                           if (!error && self->owner != nullptr) self->owner->accept_ready();
                         });
  }
  void wait_a_little() {
    pause.expires_after(kPause);
    pause.async_wait([self = shared_from_this()](const std::error_code& error) {
      if (!error && self->owner != nullptr) self->wait();
    });
  }

  asio::posix::stream_descriptor listening;
  asio::steady_timer pause;
  Acceptor* owner;
};

Acceptor::Acceptor(ControlLoop& loop, UniqueFd listening, Token token, Handler on_peer)
    : loop_(loop),
      token_(std::move(token)),
      on_peer_(std::move(on_peer)),
      proofs_(*this),
      watch_(std::make_shared<Watch>(loop.io(), listening.release(), *this)) {
  watch_->wait();
}

Acceptor::~Acceptor() noexcept(false) {
  watch_->owner = nullptr;
  std::error_code ignored;
  watch_->listening.close(ignored);
  watch_->pause.cancel();
}

void Acceptor::refuse(const std::string& why) {
  std::uint64_t dropped = 0;
  if (!refusals_.pass(std::chrono::steady_clock::now(), dropped)) return;
  std::string text = "refused a connection: " + why;
  if (dropped > 0) text += " (and " + std::to_string(dropped) + " more)";
  log(Level::warning, text);
}

void Acceptor::accept_ready() {
  constexpr int kAtOnce = 64;
  for (int i = 0; i < kAtOnce; ++i) {
    UniqueFd fd(::accept4(watch_->listening.native_handle(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) break;
      refuse(std::strerror(errno));
      watch_->wait_a_little();
      return;
    }
    if (unproven_ >= kMaxUnproven) {
      refuse(std::to_string(kMaxUnproven) + " connections are proving the token already");
      continue;
    }
    tune_connection(fd.get());
    prove(std::move(fd));
  }
  watch_->wait();
}

void Acceptor::prove(UniqueFd fd) {
  ++unproven_;
  auto stream = kj::heap<SocketStream>(loop_, std::move(fd));
  auto proved = prove_to_client(*stream, token_);
  auto late = loop_.timer().afterDelay(kProofMs * kj::MILLISECONDS).then([]() -> kj::Promise<void> {
    return kj_exception(Error(ErrorKind::unauthenticated, "the peer did not prove the token in time"));
  });
  proofs_.add(proved.exclusiveJoin(kj::mv(late))
                  .then([this, stream = kj::mv(stream)]() mutable { on_peer_(kj::mv(stream)); })
                  .attach(kj::defer([this] { --unproven_; })));
}

void Acceptor::taskFailed(kj::Exception&& failure) { refuse(error_of(failure).message); }

}  // namespace troupe
