// The actors of the integration tests' driver.
#pragma once

#include <troupe/troupe.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace probe {

struct Point {
  int x = 0, y = 0;
  std::string label;
};

class Base {
 public:
  int base(int n) const { return n + 1000; }
};

class Worker : public Base {
 public:
  Worker() = default;
  explicit Worker(int start) : total_(start) {}
  int add(int n) { return total_ += n; }
  int total() const noexcept { return total_; }
  std::vector<int> order() const { return order_; }
  void append(int n) { order_.push_back(n); }
  int over(int n) { return n; }
  int over(const std::string& text) const { return static_cast<int>(text.size()); }
  Point swap(Point p, std::unique_ptr<int> extra) const { return {p.y, p.x + *extra, p.label}; }
  std::map<std::string, std::vector<Point>> nested(
      const std::map<std::string, std::vector<Point>>& in) const {
    return in;
  }
  void fail(const std::string& text) const;
  troupe::Future<int> forward(troupe::Handle<Worker> other, int n) { return other.call<&Worker::add>(n); }
  troupe::Task<int> twice(troupe::Handle<Worker> other, int n) {
    int first = co_await other.call<&Worker::add>(n);
    int second = co_await other.call<&Worker::add>(n);
    co_return first + second;
  }
  int block_on(troupe::Handle<Worker> other, int n) { return other.call<&Worker::add>(n).get(); }
  // Calls other, which calls back: a cycle.
  int circle(troupe::Handle<Worker> self, troupe::Handle<Worker> other) {
    return other.call<&Worker::circle>(other, self).get();
  }
  troupe::Generator<int> count(int n) {
    for (int i = 0; i < n; ++i) {
      produced_ = i + 1;
      co_yield i;
    }
  }
  int produced() const { return produced_; }
  int pid() const;
  std::string where() const;
  std::string devices() const;
  std::uint32_t incarnation() const;
  void sleep_ms(int ms) const;
  bool wait_for_cancel(int ms) const;
  int child(const std::string& command) const;  // starts a process of its own
  int owned();                                  // spawns an actor and returns its process
  void deal_with_failures();                    // of those it spawns
  std::string failures() const { return failures_; }
  std::string echo(std::string text) const { return text; }
  void print(int lines) const;
  int hold(int mebibytes, int ms) const;  // touches that much memory and keeps it for a while

 private:
  int total_ = 0, produced_ = 0;
  std::string failures_;
  std::vector<troupe::Handle<Worker>> owned_;
  std::vector<int> order_;
};

class Thrower {
 public:
  explicit Thrower(std::string text);
  int never() { return 0; }
};

class Unlisted {
 public:
  int value() { return 1; }
};

}  // namespace probe

template <>
inline constexpr auto troupe::actor<probe::Worker> =
    troupe::describe<probe::Worker>("probe.Worker")
        .constructor<>()
        .constructor<int>()
        .methods<&probe::Worker::add, &probe::Worker::total, &probe::Worker::order, &probe::Worker::append,
                 &probe::Worker::hold, &probe::Worker::base, troupe::overload<int(int)>(&probe::Worker::over),
                 troupe::overload<int(const std::string&) const>(&probe::Worker::over), &probe::Worker::swap,
                 &probe::Worker::nested, &probe::Worker::fail, &probe::Worker::forward, &probe::Worker::twice,
                 &probe::Worker::block_on, &probe::Worker::circle, &probe::Worker::count,
                 &probe::Worker::produced, &probe::Worker::pid, &probe::Worker::where,
                 &probe::Worker::devices, &probe::Worker::incarnation, &probe::Worker::sleep_ms,
                 &probe::Worker::wait_for_cancel, &probe::Worker::child, &probe::Worker::owned,
                 &probe::Worker::deal_with_failures, &probe::Worker::failures, &probe::Worker::echo,
                 &probe::Worker::print>();
template <>
inline constexpr auto troupe::actor<probe::Thrower> = troupe::describe<probe::Thrower>("probe.Thrower")
                                                          .constructor<std::string>()
                                                          .methods<&probe::Thrower::never>();
template <>
inline constexpr auto troupe::actor<probe::Unlisted> =
    troupe::describe<probe::Unlisted>("probe.Unlisted").methods<&probe::Unlisted::value>();
