// A KJ byte stream over a non-blocking socket that Asio watches.
//
// Reads wait for readiness and then read without blocking, so no kernel operation ever holds a buffer that KJ
// may free. Reads are taken ahead once read_ahead() was called. Writes are collected and leave in one system
// call at the end of the turn; a writer waits only while more than kWriteLimit bytes are pending.
//
// Owner: whoever reads and writes it. Thread: the control thread. Dropping it closes the socket after a last
// attempt to write what is pending. Errors arrive as kj::Exception of type DISCONNECTED.
#pragma once

#include <kj/async-io.h>

#include <memory>
#include <span>
#include <vector>

#include "core/control/loop.h"
#include "core/os/fd.h"

namespace troupe {

class SocketStream final : public kj::AsyncIoStream {
 public:
  static constexpr std::size_t kReadAhead = 16 << 10;
  static constexpr std::size_t kWriteLimit = 1 << 20;

  SocketStream(ControlLoop& loop, UniqueFd socket);  // makes the socket non-blocking
  ~SocketStream() noexcept(false);

  // Resolves when a connect that was started has ended, well or not.
  kj::Promise<void> when_connected();

  void read_ahead();
  int descriptor() const;
  // Gives the socket back to the caller; nothing may be pending or read ahead.
  UniqueFd release();

  // Sends `bytes` with descriptors attached (Unix sockets only), after everything written before.
  void write_with_fds(std::span<const std::byte> bytes, std::span<const int> fds);
  // The descriptors that came with the bytes read so far, at most 8 kept.
  std::vector<UniqueFd> take_fds();

  kj::Promise<size_t> tryRead(void* buffer, size_t min_bytes, size_t max_bytes) override;
  kj::Promise<void> write(const void* buffer, size_t size) override;
  kj::Promise<void> write(kj::ArrayPtr<const kj::ArrayPtr<const kj::byte>> pieces) override;
  kj::Promise<void> whenWriteDisconnected() override;
  void shutdownWrite() override;
  void abortRead() override;

 private:
  struct State;
  kj::Promise<size_t> read_loop(char* buffer, size_t min_bytes, size_t max_bytes, size_t done);

  std::shared_ptr<State> state_;
};

}  // namespace troupe
