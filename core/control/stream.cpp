#include "core/control/stream.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <kj/debug.h>

#include <asio/generic/stream_protocol.hpp>
#include <asio/post.hpp>
#include <cerrno>
#include <cstring>

namespace troupe {
namespace {

constexpr std::size_t kMaxFds = 8;

kj::Exception disconnected(const char* what) {
  return kj::Exception(kj::Exception::Type::DISCONNECTED, __FILE__, __LINE__, kj::str(what));
}

}  // namespace

// Shared with Asio handlers, which may outlive the stream; KJ objects in it are cleared by the stream's
// destructor.
struct SocketStream::State : std::enable_shared_from_this<State> {
  State(ControlLoop& loop, int fd)
      : io(loop.io()), socket(loop.io(), asio::generic::stream_protocol(AF_UNIX, 0), fd) {
    socket.native_non_blocking(true);
  }

  asio::io_context& io;
  asio::generic::stream_protocol::socket socket;
  bool closed = false;  // by the owner
  bool broken = false;  // by the peer or an error
  bool flush_posted = false;
  bool waiting_writable = false;
  bool ahead_enabled = false;
  std::vector<char> pending;  // written by the owner, not yet taken by the kernel
  std::size_t sent = 0;
  std::vector<char> ahead;
  std::size_t ahead_begin = 0, ahead_end = 0;
  std::vector<UniqueFd> fds;
  kj::Maybe<kj::Own<kj::PromiseFulfiller<void>>> readable;
  kj::Maybe<kj::Own<kj::PromiseFulfiller<void>>> drained;
  kj::Maybe<kj::Own<kj::PromiseFulfiller<void>>> write_ended;

  std::size_t unsent() const { return pending.size() - sent; }

  void fail() {
    broken = true;
    pending.clear();
    sent = 0;
    KJ_IF_MAYBE (waiter, drained) {
      (*waiter)->reject(disconnected("the connection was closed by the peer"));
      drained = nullptr;
    }
    KJ_IF_MAYBE (waiter, write_ended) {
      (*waiter)->fulfill();
      write_ended = nullptr;
    }
  }

  void flush() {
    while (!broken && unsent() > 0) {
      ssize_t n =
          ::send(socket.native_handle(), pending.data() + sent, unsent(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n >= 0) {
        sent += static_cast<std::size_t>(n);
      } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        wait_writable();
        break;
      } else if (errno != EINTR) {
        fail();
        return;
      }
    }
    if (unsent() == 0) {
      pending.clear();
      sent = 0;
      if (pending.capacity() > kWriteLimit) pending.shrink_to_fit();
    } else if (sent > kWriteLimit) {
      pending.erase(pending.begin(), pending.begin() + static_cast<std::ptrdiff_t>(sent));
      sent = 0;
    }
    if (unsent() <= kWriteLimit) {
      KJ_IF_MAYBE (waiter, drained) {
        (*waiter)->fulfill();
        drained = nullptr;
      }
    }
  }

  void flush_later() {
    if (flush_posted || waiting_writable) return;
    flush_posted = true;
    asio::post(io, [self = shared_from_this()] {
      self->flush_posted = false;
      if (!self->closed) self->flush();
    });
  }

  void wait_writable() {
    if (waiting_writable) return;
    waiting_writable = true;
    socket.async_wait(asio::socket_base::wait_write,
                      [self = shared_from_this()](const std::error_code& error) {
                        self->waiting_writable = false;
                        if (self->closed) return;
                        if (error)
                          self->fail();
                        else
                          self->flush();
                      });
  }

  // One read without blocking: > 0 bytes, 0 end of stream, -1 nothing there. Throws when the connection
  // broke.
  ssize_t receive(void* buffer, std::size_t size) {
    for (;;) {
      iovec piece{buffer, size};
      alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxFds)];
      msghdr message{};
      message.msg_iov = &piece;
      message.msg_iovlen = 1;
      message.msg_control = control;
      message.msg_controllen = sizeof control;
      ssize_t n = ::recvmsg(socket.native_handle(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
      if (n >= 0) {
        for (auto* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
          if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
          std::size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
          for (std::size_t i = 0; i < count; ++i) {
            int fd;
            std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof fd);
            UniqueFd owned(fd);
            if (fds.size() < kMaxFds) fds.push_back(std::move(owned));
          }
        }
        return n;
      }
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return -1;
      if (errno == ECONNRESET || errno == EPIPE) return 0;
      kj::throwFatalException(disconnected(std::strerror(errno)));
    }
  }

  kj::Promise<void> when_readable() {
    auto paf = kj::newPromiseAndFulfiller<void>();
    readable = kj::mv(paf.fulfiller);
    socket.async_wait(asio::socket_base::wait_read,
                      [self = shared_from_this()](const std::error_code& error) {
                        KJ_IF_MAYBE (waiter, self->readable) {
                          if (error)
                            (*waiter)->reject(disconnected("the connection was closed"));
                          else
                            (*waiter)->fulfill();
                          self->readable = nullptr;
                        }
                      });
    return kj::mv(paf.promise);
  }
};

SocketStream::SocketStream(ControlLoop& loop, UniqueFd socket)
    : state_(std::make_shared<State>(loop, socket.release())) {}

SocketStream::~SocketStream() noexcept(false) {
  State& s = *state_;
  if (!s.closed) s.flush();
  s.closed = true;
  s.readable = nullptr;
  s.drained = nullptr;
  s.write_ended = nullptr;
  std::error_code ignored;
  if (s.socket.is_open()) s.socket.close(ignored);
}

kj::Promise<void> SocketStream::when_connected() {
  auto paf = kj::newPromiseAndFulfiller<void>();
  state_->readable = kj::mv(paf.fulfiller);
  state_->socket.async_wait(asio::socket_base::wait_write, [self = state_](const std::error_code&) {
    KJ_IF_MAYBE (waiter, self->readable) {
      (*waiter)->fulfill();
      self->readable = nullptr;
    }
  });
  return kj::mv(paf.promise);
}

void SocketStream::read_ahead() { state_->ahead_enabled = true; }

int SocketStream::descriptor() const { return const_cast<State&>(*state_).socket.native_handle(); }

UniqueFd SocketStream::release() {
  State& s = *state_;
  s.flush();
  KJ_REQUIRE(s.unsent() == 0 && s.ahead_begin == s.ahead_end,
             "a stream with pending bytes cannot be released");
  s.closed = true;
  return UniqueFd(s.socket.release());
}

void SocketStream::write_with_fds(std::span<const std::byte> bytes, std::span<const int> fds) {
  State& s = *state_;
  s.flush();
  KJ_REQUIRE(s.unsent() == 0 && fds.size() <= kMaxFds && !bytes.empty());
  iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxFds)] = {};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = CMSG_SPACE(sizeof(int) * fds.size());
  cmsghdr* c = CMSG_FIRSTHDR(&message);
  c->cmsg_level = SOL_SOCKET;
  c->cmsg_type = SCM_RIGHTS;
  c->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
  std::memcpy(CMSG_DATA(c), fds.data(), sizeof(int) * fds.size());
  ssize_t n;
  do {
    n = ::sendmsg(s.socket.native_handle(), &message, MSG_NOSIGNAL);
  } while (n < 0 && errno == EINTR);
  if (n < 0) {
    s.fail();
    return;
  }
  auto rest = bytes.subspan(static_cast<std::size_t>(n));
  auto* data = reinterpret_cast<const char*>(rest.data());
  s.pending.insert(s.pending.end(), data, data + rest.size());
  s.flush_later();
}

std::vector<UniqueFd> SocketStream::take_fds() { return std::move(state_->fds); }

kj::Promise<size_t> SocketStream::tryRead(void* buffer, size_t min_bytes, size_t max_bytes) {
  return read_loop(static_cast<char*>(buffer), min_bytes, max_bytes, 0);
}

kj::Promise<size_t> SocketStream::read_loop(char* buffer, size_t min_bytes, size_t max_bytes, size_t done) {
  State& s = *state_;
  for (;;) {
    if (s.ahead_begin < s.ahead_end) {
      std::size_t n = std::min(max_bytes - done, s.ahead_end - s.ahead_begin);
      std::memcpy(buffer + done, s.ahead.data() + s.ahead_begin, n);
      s.ahead_begin += n;
      done += n;
    }
    if (done >= min_bytes) return done;
    ssize_t n;
    if (s.ahead_enabled && max_bytes - done < kReadAhead) {
      if (s.ahead.empty()) s.ahead.resize(kReadAhead);
      n = s.receive(s.ahead.data(), s.ahead.size());
      s.ahead_begin = 0;
      s.ahead_end = n > 0 ? static_cast<std::size_t>(n) : 0;
    } else {
      n = s.receive(buffer + done, max_bytes - done);
      if (n > 0) done += static_cast<std::size_t>(n);
    }
    if (n == 0) return done;
    if (n < 0) break;
  }
  return s.when_readable().then(
      [this, buffer, min_bytes, max_bytes, done]() { return read_loop(buffer, min_bytes, max_bytes, done); });
}

kj::Promise<void> SocketStream::write(const void* buffer, size_t size) {
  auto piece = kj::arrayPtr(static_cast<const kj::byte*>(buffer), size);
  return write(kj::arrayPtr(&piece, 1));
}

kj::Promise<void> SocketStream::write(kj::ArrayPtr<const kj::ArrayPtr<const kj::byte>> pieces) {
  State& s = *state_;
  if (s.broken || s.closed) return disconnected("the connection was closed");
  for (auto piece : pieces) s.pending.insert(s.pending.end(), piece.begin(), piece.end());
  if (s.unsent() <= kWriteLimit) {
    s.flush_later();
    return kj::READY_NOW;
  }
  s.flush();
  if (s.broken) return disconnected("the connection was closed by the peer");
  if (s.unsent() <= kWriteLimit) return kj::READY_NOW;
  auto paf = kj::newPromiseAndFulfiller<void>();
  s.drained = kj::mv(paf.fulfiller);
  return kj::mv(paf.promise);
}

kj::Promise<void> SocketStream::whenWriteDisconnected() {
  if (state_->broken) return kj::READY_NOW;
  auto paf = kj::newPromiseAndFulfiller<void>();
  state_->write_ended = kj::mv(paf.fulfiller);
  return kj::mv(paf.promise);
}

void SocketStream::shutdownWrite() {
  state_->flush();
  ::shutdown(state_->socket.native_handle(), SHUT_WR);
}

void SocketStream::abortRead() { ::shutdown(state_->socket.native_handle(), SHUT_RD); }

}  // namespace troupe
