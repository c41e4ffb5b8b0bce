// Calls to durable actors: answered when their effect is on the disk, or in Redis.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <deque>

#include "core/os/fd.h"
#include "tools/bench/actors.h"
#include "tools/bench/harness.h"

namespace troupe::bench {
namespace {

Handle<Saved> saved(JournalPlace place) {
  auto made = spawn<Saved>(ActorOptions().durable(Durable().journal(std::move(place))));
  made.ready().get();
  return made;
}

Handle<Saved>& on_node() {
  static Handle<Saved> handle = saved(JournalPlace::node());
  return handle;
}

Handle<Saved>& in_store() {
  static Handle<Saved> handle = saved(JournalPlace::store());
  return handle;
}

double rate(Handle<Saved>& to, int calls, int outstanding) {
  std::deque<Future<int>> waiting;
  double begin = seconds_now();
  for (int i = 0; i < calls; ++i) {
    if (static_cast<int>(waiting.size()) == outstanding) {
      waiting.front().get();
      waiting.pop_front();
    }
    waiting.push_back(to.call<&Saved::add>(1));
  }
  for (auto& future : waiting) future.get();
  return calls / (seconds_now() - begin);
}

double sync_us(Handle<Saved>& to, int calls) {
  double begin = seconds_now();
  for (int i = 0; i < calls; ++i) to.call<&Saved::add>(1).get();
  return (seconds_now() - begin) / calls * 1e6;
}

// 100 bytes appended to a file and synced.
double raw_sync_us() {
  const char* folder = std::getenv("TMPDIR");
  std::string path = std::string(folder != nullptr ? folder : "/tmp") + "/troupe-bench-XXXXXX";
  UniqueFd fd(::mkstemp(path.data()));
  ::unlink(path.c_str());
  char bytes[100] = {};
  constexpr int kSyncs = 200;
  double begin = seconds_now();
  for (int i = 0; i < kSyncs; ++i) {
    if (::write(fd.get(), bytes, sizeof bytes) != sizeof bytes || ::fdatasync(fd.get()) != 0) std::exit(1);
  }
  return (seconds_now() - begin) / kSyncs * 1e6;
}

}  // namespace

std::vector<Case> durable_cases() {
  std::vector<Case> out;
  out.push_back({"raw_sync", "µs", "100 bytes appended and synced", raw_sync_us, {}, nullptr, false});
  out.push_back({"durable_sync", "µs", "one durable call after the other, journal on the node",
                 [] { return sync_us(on_node(), 500); }, raw_sync_us});
  out.push_back({"durable_async",
                 "1/s",
                 "1,000 durable calls outstanding, journal on the node",
                 [] {
                   rate(on_node(), 20'000, 1000);
                   return rate(on_node(), 300'000, 1000);
                 },
                 {}});
  out.push_back({"durable_async_store",
                 "1/s",
                 "1,000 durable calls outstanding, journal in Redis",
                 [] {
                   rate(in_store(), 5'000, 1000);
                   return rate(in_store(), 100'000, 1000);
                 },
                 {}});
  return out;
}

}  // namespace troupe::bench
