// Reads lines from a pipe that Asio watches, a bounded amount each turn. Lines longer than kLongest are cut.
//
// Owner: WorkerProcess, Job. Thread: the control thread. Dropping it closes the pipe; no callback comes after
// that.
#pragma once

#include <asio/io_context.hpp>
#include <functional>
#include <memory>
#include <string_view>

#include "core/os/fd.h"

namespace troupe {

class LineReader {
 public:
  static constexpr std::size_t kLongest = 8 << 10;
  using Line = std::function<void(std::string_view)>;
  using End = std::function<void()>;

  LineReader(asio::io_context& io, UniqueFd pipe, Line on_line, End on_end);
  ~LineReader();
  LineReader(const LineReader&) = delete;

  // Takes what is there without waiting, and the unfinished last line too.
  void drain();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace troupe
