#include "runtime/objects/transfer/bytes.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

namespace troupe {
namespace {

Error ended(const char* what, int error) {
  if (error == EAGAIN || error == EWOULDBLOCK)
    return Error(ErrorKind::unavailable, std::string(what) + ": nothing came or went for " +
                                             std::to_string(kPullSilenceMs / 1000) + " s");
  return Error(ErrorKind::unavailable,
               std::string(what) + ": " + (error == 0 ? "the other side ended it" : std::strerror(error)));
}

Result<void> send_all(int socket, const void* data, std::size_t size, int flags) {
  auto* at = static_cast<const char*>(data);
  while (size > 0) {
    ssize_t n = ::send(socket, at, size, flags | MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return ended("sending an object", errno);
    at += n;
    size -= static_cast<std::size_t>(n);
  }
  return {};
}

Result<void> receive_all(int socket, void* data, std::size_t size) {
  auto* at = static_cast<char*>(data);
  while (size > 0) {
    ssize_t n = ::recv(socket, at, size, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return ended("receiving an object", n == 0 ? 0 : errno);
    at += n;
    size -= static_cast<std::size_t>(n);
  }
  return {};
}

Result<void> send_head(int socket, PullHead::Kind kind, std::uint64_t bytes, std::uint64_t confirmed,
                       bool more) {
  PullHead head{kind, 0, bytes, confirmed};
  return send_all(socket, &head, sizeof head, more ? MSG_MORE : 0);
}

Result<void> send_from(int socket, int file, std::uint64_t offset, std::uint64_t size) {
  auto at = static_cast<off_t>(offset);
  while (size > 0) {
    ssize_t n = ::sendfile(socket, file, &at, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return ended("sending an object", n == 0 ? 0 : errno);
    size -= static_cast<std::uint64_t>(n);
  }
  return {};
}

// Reads acknowledgements: those that are there, or at least one more.
Result<void> take_acknowledgements(int socket, bool wait, std::uint64_t sent, std::uint64_t& confirmed) {
  for (;;) {
    std::uint64_t up_to = 0;
    ssize_t n = ::recv(socket, &up_to, sizeof up_to, MSG_PEEK | (wait ? MSG_WAITALL : MSG_DONTWAIT));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && !wait && (errno == EAGAIN || errno == EWOULDBLOCK)) return {};
    if (n <= 0) return ended("waiting for an acknowledgement", n == 0 ? 0 : errno);
    if (n < static_cast<ssize_t>(sizeof up_to)) {
      if (!wait) return {};
      continue;
    }
    if (auto taken = receive_all(socket, &up_to, sizeof up_to); !taken) return taken.error();
    if (up_to < confirmed || up_to > sent)
      return Error(ErrorKind::unavailable, "the puller acknowledged what was not sent");
    confirmed = up_to;
    wait = false;
  }
}

}  // namespace

Result<void> prepare_pull_socket(int socket) {
  int flags = ::fcntl(socket, F_GETFL);
  if (flags < 0 || ::fcntl(socket, F_SETFL, flags & ~O_NONBLOCK) < 0)
    return system_error(errno, "cannot make a socket block");
  timeval silence{kPullSilenceMs / 1000, kPullSilenceMs % 1000 * 1000};
  if (::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &silence, sizeof silence) < 0 ||
      ::setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &silence, sizeof silence) < 0) {
    return system_error(errno, "cannot limit the silence on a socket");
  }
  return {};
}

void refuse_pull(int socket, const Error& why) {
  std::string text = why.message.substr(0, kLongestPullText);
  if (send_head(socket, PullHead::failed, text.size(), 0, true))
    (void)send_all(socket, text.data(), text.size(), 0);
}

Result<void> send_object(int socket, const PullSource& source, std::uint64_t from) {
  if (from > source.size) {
    Error why(ErrorKind::unavailable, "the object has no byte " + std::to_string(from));
    refuse_pull(socket, why);
    return why;
  }
  if (auto sent = send_head(socket, PullHead::size, source.size, from, false); !sent) return sent;
  std::uint64_t sent = from, confirmed = from;
  auto broken = [&](Filling::State state) {
    if (!state.broken) return false;
    refuse_pull(socket, Error(ErrorKind::unavailable, "its own copy does not come any more"));
    return true;
  };
  const Error broke(ErrorKind::unavailable, "the copy that was passed on broke off");
  // Counts as confirmed only if the memory still was this object's when the word came.
  auto take = [&](bool wait) -> Result<void> {
    std::uint64_t acknowledged = confirmed;
    if (auto taken = take_acknowledgements(socket, wait, sent, acknowledged); !taken) return taken;
    if (source.filling && broken(source.filling->state())) return broke;
    confirmed = acknowledged;
    return {};
  };
  while (confirmed < source.size) {
    if (sent == source.size || sent - confirmed >= kPullAhead * kPullChunk) {
      if (auto taken = take(true); !taken) return taken;
      continue;
    }
    std::uint64_t there = source.size;
    if (source.filling) {
      auto state = source.filling->wait_beyond(sent, std::chrono::milliseconds(kPullKeepAliveMs));
      if (broken(state)) return broke;
      there = state.bytes;
    }
    if (auto taken = take(false); !taken) return taken;
    std::uint64_t piece = std::min(there > sent ? there - sent : 0, kPullChunk);
    if (auto done = send_head(socket, PullHead::data, piece, confirmed, piece > 0); !done) return done;
    if (auto done = send_from(socket, source.file, source.offset + sent, piece); !done) return done;
    sent += piece;
  }
  return send_head(socket, PullHead::end, 0, confirmed, false);
}

Result<void> receive_object(int socket, const ObjectId& id, const PullTarget& target, Filling& filling) {
  std::uint64_t kept = filling.state().bytes, there = kept;
  PullRequest request;
  request.cluster = id.cluster;
  request.node = id.node.value;
  request.number = id.number;
  request.from = kept;
  if (auto asked = send_all(socket, &request, sizeof request, 0); !asked) return asked;
  auto nonsense = [](const char* what) {
    return Error(ErrorKind::unavailable, std::string("the source sent nonsense: ") + what);
  };
  bool sized = false;
  for (;;) {
    PullHead head;
    if (auto got = receive_all(socket, &head, sizeof head); !got) return got;
    if (head.kind == PullHead::failed) {
      if (head.bytes > kLongestPullText) return nonsense("a failure that is too long");
      std::string text(head.bytes, ' ');
      if (auto got = receive_all(socket, text.data(), text.size()); !got) return got;
      return Error(ErrorKind::unavailable, "the source: " + text);
    }
    if (head.confirmed < kept || head.confirmed > there) return nonsense("it confirms what was not said");
    if (head.kind == PullHead::size) {
      if (head.bytes != target.size) return nonsense("another size");
      sized = true;
      continue;
    }
    if (!sized) return nonsense("no size");
    if (head.confirmed > kept) filling.advance(kept = head.confirmed);
    if (head.kind == PullHead::end) {
      if (kept != target.size) return nonsense("its end before all bytes");
      return {};
    }
    if (head.kind != PullHead::data || head.bytes > target.size - there)
      return nonsense("more bytes than it has");
    if (head.bytes == 0) continue;
#ifdef MADV_POPULATE_READ
    // At once, and not page by page while the kernel copies. Pages that are there cost next to nothing.
    auto start = reinterpret_cast<std::uintptr_t>(target.bytes + there) & ~std::uintptr_t{4095};
    auto stop = reinterpret_cast<std::uintptr_t>(target.bytes + there + head.bytes);
    (void)::madvise(reinterpret_cast<void*>(start), stop - start, MADV_POPULATE_READ);
#endif
    if (auto got = receive_all(socket, target.bytes + there, head.bytes); !got) return got;
    there += head.bytes;
    if (auto told = send_all(socket, &there, sizeof there, 0); !told) return told;
  }
}

}  // namespace troupe
