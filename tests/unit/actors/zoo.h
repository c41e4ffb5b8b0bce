// The actor classes of the call tests.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/actors/world.h"
#include "troupe/context.h"
#include "troupe/task.h"
#include "troupe/when.h"

namespace troupe::test {

// What tests and actors, which share a process here, tell one another.
struct Board {
  std::mutex mutex;
  std::condition_variable changed;
  int arrived = 0, passes = 0, yielded = 0, ended = 0, made = 0, destroyed = 0;
  bool saw_cancel = false;
  std::vector<int> log;

  void set(const std::function<void()>& f) {
    std::lock_guard lock(mutex);
    f();
    changed.notify_all();
  }
  void await(const std::function<bool()>& f) {
    std::unique_lock lock(mutex);
    changed.wait(lock, f);
  }
  template <class T>
  T get(T Board::*what) {
    std::lock_guard lock(mutex);
    return this->*what;
  }
  void reset() {
    std::lock_guard lock(mutex);
    arrived = passes = yielded = ended = made = destroyed = 0;
    saw_cancel = false;
    log.clear();
  }
};
inline Board board;

// Lets blocked methods go when a test ends early, so that their lanes can stop. Declared after the World.
struct OpenAtEnd {
  ~OpenAtEnd() {
    board.set([] { board.passes = 1'000'000; });
  }
};

struct Point {
  int x = 0;
  double y = 0;
  std::string label;
  bool operator==(const Point&) const = default;
};

class TooBig : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Animal {
  int legs() { return 4; }
  int age = 7;
  int years() const noexcept { return age; }
};

class Zoo : public Animal {
 public:
  Zoo() {
    board.set([] { ++board.made; });
  }
  ~Zoo() {
    board.set([] { ++board.destroyed; });
  }
  int add(int x) { return sum_ += x; }
  int sum() const { return sum_; }
  void note(int x) {
    board.set([x] { board.log.push_back(x); });
  }
  int block(int x) {
    board.set([] { ++board.arrived; });
    board.await([] { return board.passes > 0; });
    board.set([] { --board.passes; });
    return x;
  }
  int until_cancelled() {
    board.set([] { ++board.arrived; });
    while (!context().cancelled()) std::this_thread::yield();
    board.set([] { board.saw_cancel = true; });
    return 0;
  }
  Point move_point(Point p) { return {p.x + 1, p.y * 2, p.label + "!"}; }
  std::unique_ptr<std::string> move_only(std::unique_ptr<std::string> text,
                                         std::vector<std::unique_ptr<int>> more) {
    for (auto& n : more) *text += std::to_string(*n);
    return text;
  }
  int over(int x) { return x; }
  std::string over(const std::string& x) const { return x + x; }
  [[gnu::noinline]] int fail(const std::string& what) { throw TooBig(what); }
  std::string big(std::size_t size) { return std::string(size, 'x'); }
  std::size_t size_of(const std::string& text) { return text.size(); }
  Generator<int> count(int n) {
    for (int i = 0; i < n; ++i) {
      board.set([] { ++board.yielded; });
      co_yield i;
    }
    board.set([] { ++board.ended; });
  }
  Generator<std::string> texts(int n, std::size_t size) {
    for (int i = 0; i < n; ++i) co_yield std::string(size, static_cast<char>('a' + i % 26));
    throw TooBig("after the last text");
  }
  std::uint64_t self() { return context().id().value; }
  // The calls of a chain: this actor asks the next, and waits.
  int ask(std::vector<std::uint64_t> chain) {
    if (chain.empty()) return 1;
    std::uint64_t next = chain.front();
    chain.erase(chain.begin());
    return 1 + here<Zoo>(next).call<&Zoo::ask>(chain).get();
  }
  Task<int> ask_softly(std::vector<std::uint64_t> chain) {
    if (chain.empty()) co_return 1;
    std::uint64_t next = chain.front();
    chain.erase(chain.begin());
    auto answer = here<Zoo>(next).call<&Zoo::ask_softly>(chain);
    int got = co_await answer;
    co_return got + 1;
  }
  Future<int> pass_on(std::uint64_t next, int x) { return here<Zoo>(next).call<&Zoo::add>(x); }
  Task<int> sum_of_all(std::vector<std::uint64_t> others) {
    std::vector<Future<int>> futures;
    for (auto id : others) futures.push_back(here<Zoo>(id).call<&Zoo::add>(1));
    auto all = when_all(std::move(futures));
    auto values = co_await all;
    int total = 0;
    for (int v : values) total += v;
    co_return total;
  }
  Task<void> wait_and_see(std::uint64_t helper) {
    auto wait = here<Zoo>(helper).call<&Zoo::block>(1);
    co_await wait;
    board.set([cancelled = context().cancelled()] {
      board.saw_cancel = cancelled;
      ++board.ended;
    });
  }

 private:
  int sum_ = 0;
};

// Several calls in progress: the first waits for what the second brings.
class Meeting {
 public:
  Task<int> meet(std::uint64_t helper, int x) {
    board.set([] { ++board.arrived; });
    auto wait = here<Zoo>(helper).call<&Zoo::block>(x);
    int got = co_await wait;
    co_return got;
  }
  int present() { return board.get(&Board::arrived); }
};

}  // namespace troupe::test

template <>
inline constexpr auto troupe::actor<troupe::test::Zoo> =
    troupe::describe<troupe::test::Zoo>("Zoo")
        .methods<&troupe::test::Zoo::add, &troupe::test::Zoo::sum, &troupe::test::Zoo::note,
                 &troupe::test::Zoo::block, &troupe::test::Zoo::until_cancelled,
                 &troupe::test::Zoo::move_point, &troupe::test::Zoo::move_only,
                 troupe::overload<int(int)>(&troupe::test::Zoo::over),
                 troupe::overload<std::string(const std::string&) const>(&troupe::test::Zoo::over),
                 &troupe::test::Zoo::fail, &troupe::test::Zoo::big, &troupe::test::Zoo::size_of,
                 &troupe::test::Zoo::count, &troupe::test::Zoo::texts, &troupe::test::Zoo::self,
                 &troupe::test::Zoo::ask, &troupe::test::Zoo::ask_softly, &troupe::test::Zoo::pass_on,
                 &troupe::test::Zoo::sum_of_all, &troupe::test::Zoo::wait_and_see, &troupe::test::Zoo::legs,
                 &troupe::test::Zoo::years>();
template <>
inline constexpr auto troupe::actor<troupe::test::Meeting> =
    troupe::describe<troupe::test::Meeting>("Meeting")
        .methods<&troupe::test::Meeting::meet, &troupe::test::Meeting::present>()
        .concurrent(4);
