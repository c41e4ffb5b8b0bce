// The actors of the benchmark.
#pragma once

#include <troupe/troupe.h>

#include <string>

namespace troupe::bench {

class Echo {
 public:
  int add(int n) { return total_ += n; }
  std::uint64_t size(const std::string& text) const { return text.size(); }
  void spin(double seconds);
  int pid() const;

 private:
  int total_ = 0;
};

// Takes tensors, makes objects.
class Blob {
 public:
  std::uint64_t take(const Tensor& tensor) const;
  ObjectRef<std::vector<std::byte>> make(std::uint64_t bytes) const;
};

// Calls an Echo beside it, `outstanding` at a time; calls a second.
class Caller {
 public:
  Task<double> run(Handle<Echo> echo, int calls, int outstanding);
};

// A durable counter.
class Saved {
 public:
  int add(int n) { return total_ += n; }
  int total() const { return total_; }
  void save(Writer& to) const { encode(to, total_); }
  void load(Reader& from) { decode(from, total_); }

 private:
  int total_ = 0;
};

}  // namespace troupe::bench

template <>
inline constexpr auto troupe::actor<troupe::bench::Saved> =
    troupe::describe<troupe::bench::Saved>("bench.Saved")
        .methods<&troupe::bench::Saved::add, &troupe::bench::Saved::total>();

template <>
inline constexpr auto troupe::actor<troupe::bench::Blob> =
    troupe::describe<troupe::bench::Blob>("bench.Blob")
        .methods<&troupe::bench::Blob::take, &troupe::bench::Blob::make>();

template <>
inline constexpr auto troupe::actor<troupe::bench::Echo> =
    troupe::describe<troupe::bench::Echo>("bench.Echo")
        .methods<&troupe::bench::Echo::add, &troupe::bench::Echo::size, &troupe::bench::Echo::spin,
                 &troupe::bench::Echo::pid>();

template <>
inline constexpr auto troupe::actor<troupe::bench::Caller> =
    troupe::describe<troupe::bench::Caller>("bench.Caller").methods<&troupe::bench::Caller::run>();
