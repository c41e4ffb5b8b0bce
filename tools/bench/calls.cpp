// Calls: sequential, many outstanding, busy machine, several drivers, within a process, across hosts.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <deque>

#include "tools/bench/actors.h"
#include "tools/bench/harness.h"

namespace troupe::bench {

void Echo::spin(double seconds) {
  for (double end = seconds_now() + seconds; seconds_now() < end;) {
  }
}

int Echo::pid() const { return ::getpid(); }

Task<double> Caller::run(Handle<Echo> echo, int calls, int outstanding) {
  std::deque<Future<int>> waiting;
  double begin = seconds_now();
  for (int i = 0; i < calls; ++i) {
    if (static_cast<int>(waiting.size()) == outstanding) {
      Future<int> first = std::move(waiting.front());
      waiting.pop_front();
      co_await first;
    }
    waiting.push_back(echo.call<&Echo::add>(1));
  }
  while (!waiting.empty()) {
    Future<int> first = std::move(waiting.front());
    waiting.pop_front();
    co_await first;
  }
  co_return calls / (seconds_now() - begin);
}

namespace {

Handle<Echo>& echo() {
  static Handle<Echo> handle = [] {
    ActorOptions options;
    // On two hosts: the far one.
    if (const char* node = std::getenv("TROUPE_BENCH_NODE")) options.node(node);
    auto made = spawn<Echo>(options);
    made.ready().get();
    return made;
  }();
  return handle;
}

double sync_us(int calls) {
  auto& e = echo();
  for (int i = 0; i < calls / 10; ++i) e.call<&Echo::add>(1).get();
  double begin = seconds_now();
  for (int i = 0; i < calls; ++i) e.call<&Echo::add>(1).get();
  return (seconds_now() - begin) / calls * 1e6;
}

double async_rate(Handle<Echo>& e, int calls, int outstanding) {
  std::deque<Future<int>> waiting;
  double begin = seconds_now();
  for (int i = 0; i < calls; ++i) {
    if (static_cast<int>(waiting.size()) == outstanding) {
      waiting.front().get();
      waiting.pop_front();
    }
    waiting.push_back(e.call<&Echo::add>(1));
  }
  for (auto& future : waiting) future.get();
  return calls / (seconds_now() - begin);
}

double async() {
  async_rate(echo(), 100'000, 1000);
  return async_rate(echo(), 1'000'000, 1000);
}

// This process and a second driver, each with an actor of its own, at the same time.
double n_n() {
  constexpr int kCalls = 1'000'000;
  int ready[2], go[2];
  if (::pipe(ready) != 0 || ::pipe(go) != 0) std::abort();
  pid_t child = ::fork();
  if (child == 0) {
    ::dup2(go[0], 0);
    ::dup2(ready[1], 1);
    ::execl("/proc/self/exe", "troupe-bench", "--second-driver", nullptr);
    ::_exit(127);
  }
  ::close(ready[1]);
  ::close(go[0]);
  async_rate(echo(), 100'000, 1000);
  char byte = 0;
  if (::read(ready[0], &byte, 1) != 1 || ::write(go[1], "g", 1) != 1) {
    std::fprintf(stderr, "bench: the second driver failed\n");
    std::exit(1);
  }
  double mine = async_rate(echo(), kCalls, 1000);
  double theirs = 0;
  if (::read(ready[0], &theirs, sizeof theirs) != sizeof theirs) std::exit(1);
  ::close(ready[0]);
  ::close(go[1]);
  ::waitpid(child, nullptr, 0);
  return mine + theirs;
}

double local() {
  static Handle<Echo> target = spawn<Echo>(ActorOptions().light());
  static Handle<Caller> caller = spawn<Caller>(ActorOptions().light());
  return caller.call<&Caller::run>(target, 2'000'000, 1000).get();
}

double args_us() {
  std::string text(64 << 10, 'x');
  constexpr int kCalls = 5'000;
  for (int i = 0; i < kCalls / 10; ++i) echo().call<&Echo::size>(text).get();
  double begin = seconds_now();
  for (int i = 0; i < kCalls; ++i) echo().call<&Echo::size>(text).get();
  return (seconds_now() - begin) / kCalls * 1e6;
}

}  // namespace

// The second driver of actor_n_n.
int second_driver() {
  async_rate(echo(), 100'000, 1000);
  char byte = 'r';
  if (::write(1, &byte, 1) != 1 || ::read(0, &byte, 1) != 1) return 1;
  double rate = async_rate(echo(), 1'000'000, 1000);
  return ::write(1, &rate, sizeof rate) == sizeof rate ? 0 : 1;
}

std::vector<Case> call_cases() {
  std::vector<Case> out;
  out.push_back({"actor_sync", "µs", "one call after the other, actor in its own process",
                 [] { return sync_us(200'000); }, raw_socket_us});
  Case sleeping{"actor_sync_sleeping", "µs", "the same with polling off", [] { return sync_us(20'000); },
                raw_socket_us};
  sleeping.poll_us = "0";
  out.push_back(sleeping);
  out.push_back({"actor_sync_busy", "µs", "the same beside two processes that use up both cores",
                 [] {
                   Burners burners;
                   return sync_us(20'000);
                 },
                 [] {
                   Burners burners;
                   return raw_socket_us();
                 }});
  out.push_back({"actor_async", "1/s", "1,000 calls outstanding", async, {}});
  out.push_back({"actor_n_n", "1/s", "two drivers, two actor processes, 1,000 outstanding each", n_n, {}});
  out.push_back({"actor_local", "1/s", "two light actors in one worker, 1,000 outstanding", local, {}});
  out.push_back({"actor_args_64k", "µs", "one call after the other with a 64 KiB argument", args_us, {}});
  Case remote{"actor_remote_sync", "µs", "one call after the other between two hosts, polling off",
              [] { return sync_us(20'000); }, raw_tcp_us};
  remote.poll_us = "0";
  remote.remote = true;
  out.push_back(remote);
  Case remote_async{"actor_remote_async", "1/s", "1,000 calls outstanding between two hosts", async, {}};
  remote_async.remote = true;
  out.push_back(remote_async);
  return out;
}

}  // namespace troupe::bench
