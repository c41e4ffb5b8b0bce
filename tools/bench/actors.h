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
  double fetch(const ObjectRef<std::vector<std::byte>>& object) const;  // seconds until it can be read
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

// A rank of a group that forms anew when one of it is killed.
class Rank {
 public:
  void join(Group group);  // the first time, and in a life after
  // Waits in an all_reduce until that fails, forms anew and carries one out: the sum, which counts the ranks.
  float outlive();
  float sum();
  int pid() const;

 private:
  Group group_;
};

}  // namespace troupe::bench

template <>
inline constexpr auto troupe::actor<troupe::bench::Rank> =
    troupe::describe<troupe::bench::Rank>("bench.Rank")
        .methods<&troupe::bench::Rank::join, &troupe::bench::Rank::outlive, &troupe::bench::Rank::sum,
                 &troupe::bench::Rank::pid>();

template <>
inline constexpr auto troupe::actor<troupe::bench::Saved> =
    troupe::describe<troupe::bench::Saved>("bench.Saved")
        .methods<&troupe::bench::Saved::add, &troupe::bench::Saved::total>();

template <>
inline constexpr auto troupe::actor<troupe::bench::Blob> =
    troupe::describe<troupe::bench::Blob>("bench.Blob")
        .methods<&troupe::bench::Blob::take, &troupe::bench::Blob::make, &troupe::bench::Blob::fetch>();

template <>
inline constexpr auto troupe::actor<troupe::bench::Echo> =
    troupe::describe<troupe::bench::Echo>("bench.Echo")
        .methods<&troupe::bench::Echo::add, &troupe::bench::Echo::size, &troupe::bench::Echo::spin,
                 &troupe::bench::Echo::pid>();

template <>
inline constexpr auto troupe::actor<troupe::bench::Caller> =
    troupe::describe<troupe::bench::Caller>("bench.Caller").methods<&troupe::bench::Caller::run>();
