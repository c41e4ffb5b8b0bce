#include "runtime/agent/line_reader.h"

#include <fcntl.h>

#include <asio/posix/stream_descriptor.hpp>
#include <cerrno>
#include <string>

namespace troupe {
namespace {

constexpr int kReadsPerTurn = 4;
constexpr int kReadsPerDrain = 64;
constexpr std::size_t kReadSize = 16 << 10;

}  // namespace

struct LineReader::State : std::enable_shared_from_this<State> {
  State(asio::io_context& io, int fd, Line line, End end)
      : pipe(io, fd), on_line(std::move(line)), on_end(std::move(end)) {}

  asio::posix::stream_descriptor pipe;
  Line on_line;
  End on_end;
  std::string partial;
  bool closed = false;

  void wait() {
    pipe.async_wait(asio::posix::descriptor_base::wait_read,
                    [self = shared_from_this()](const std::error_code& bad) {
                      if (self->closed || bad) return;
                      if (self->read(kReadsPerTurn))
                        self->wait();
                      else
                        self->end();
                    });
  }

  // False at the end of the pipe.
  bool read(int times) {
    char buffer[kReadSize];
    for (int i = 0; i < times && !closed; ++i) {
      ssize_t n = ::read(pipe.native_handle(), buffer, sizeof buffer);
      if (n == 0) return false;
      if (n < 0) return errno == EAGAIN || errno == EINTR;
      take({buffer, static_cast<std::size_t>(n)});
    }
    return true;
  }

  void take(std::string_view bytes) {
    while (!bytes.empty() && !closed) {
      auto end = bytes.find('\n');
      bool whole = end != bytes.npos;
      auto piece = bytes.substr(0, whole ? end : bytes.size());
      if (partial.size() + piece.size() > kLongest) {
        whole = true;
        piece = piece.substr(0, kLongest - partial.size());
        bytes.remove_prefix(piece.size());
      } else {
        bytes.remove_prefix(whole ? piece.size() + 1 : piece.size());
      }
      if (partial.empty() && whole) {
        on_line(piece);
        continue;
      }
      partial += piece;
      if (whole) finish_line();
    }
  }

  void finish_line() {
    std::string line = std::move(partial);
    partial.clear();
    if (!closed) on_line(line);
  }

  void end() {
    if (!partial.empty()) finish_line();
    if (closed) return;
    closed = true;
    std::error_code ignored;
    pipe.close(ignored);
    auto done = std::move(on_end);
    if (done) done();
  }
};

LineReader::LineReader(asio::io_context& io, UniqueFd pipe, Line on_line, End on_end) {
  ::fcntl(pipe.get(), F_SETFL, ::fcntl(pipe.get(), F_GETFL) | O_NONBLOCK);
  state_ = std::make_shared<State>(io, pipe.release(), std::move(on_line), std::move(on_end));
  state_->wait();
}

LineReader::~LineReader() {
  state_->closed = true;
  std::error_code ignored;
  state_->pipe.close(ignored);
}

void LineReader::drain() {
  if (state_->closed) return;
  state_->read(kReadsPerDrain);
  if (!state_->partial.empty()) state_->finish_line();
}

}  // namespace troupe
