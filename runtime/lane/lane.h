// A lane: a thread's worth of links and actors. In turns it reads frames, runs methods, writes each link
// once, fires deadlines, polls, sleeps. An actor stays on its lane, and a method runs on the lane that read
// its frame: no hop.
//
// Owner: Process. Threads: what a lane holds is used by the one thread that holds its *baton*. A worker's
// lane has a thread that holds it whenever there is work. The driver's lane can be taken over: a thread that
// blocks in get() takes the baton and drives the lane until its value is there, and a background thread sees
// to the lane meanwhile:
//   deep sleep   the background thread sleeps until a doorbell rings; a thread that leaves the lane with
//   calls in
//                flight arms the doorbells of their links (stores, no system call)
//   light sleep  threads take the lane over often: it wakes every millisecond, doorbells stay unarmed, and it
//   goes
//                back to deep sleep when no thread came within a millisecond
// A light actor that blocks hands the baton to a spare thread; an actor with its own process drives its links
// on while calls for itself wait in the mailbox.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "core/base/ids.h"
#include "core/link/polling.h"
#include "core/os/fd.h"
#include "runtime/lane/deadlines.h"
#include "runtime/lane/runnable.h"
#include "runtime/lane/task.h"

namespace troupe {

class ActorCell;
class CallState;
class Directory;
class Peer;
class RouteTable;

struct LaneOptions {
  int index = 0;
  bool drivable = false;  // threads that block in get() take it over
  bool hand_off = false;  // a blocked actor lends its lane to a spare thread
  std::chrono::microseconds poll = PollingPolicy::kDefaultBudget;
  // Makes a lane without threads and descriptors, for simulations: rung where others would wake in epoll, its
  // owner then calls step().
  std::function<void()> ring;
};

class Lane {
 public:
  static constexpr int kMaxSpares = 256;  // blocked light actors of one lane
  static constexpr int kRunsPerTurn = 256;
  static constexpr int kQuickDrives = 64;  // before the background thread takes to light sleep

  Lane(LaneOptions options, Directory& directory);
  ~Lane();
  Lane(const Lane&) = delete;

  void start();
  // Ends the loop, joins its threads, discards what waits; calls in flight fail with `why`. Not from the
  // lane.
  void stop(const std::string& why);

  static Lane* current();  // whose baton this thread holds, or null
  int index() const { return options_.index; }
  int doorbell() const { return doorbell_.get(); }
  Directory& directory() { return directory_; }

  // One round of a lane that is rung (LaneOptions::ring), as loop() makes them: the links whose descriptor
  // `ready` names have had an event.
  struct Next {
    bool at_once = false;   // there is more to do
    std::int64_t wake = 0;  // else: steady nanoseconds when to step again without a ring; 0: never
  };
  Next step(const std::function<bool(int descriptor)>& ready);
  // What is wrong with the tables of calls, or nothing; for tests.
  std::string check() const;

  // ---- any thread ----
  void post(LaneTask* task);
  template <class F>
  void post_function(F f) {
    post(new FunctionTask<F>(std::move(f)));
  }
  void schedule_from_anywhere(Runnable* item);

  // Waits until `state` is done or the limit (steady nanoseconds, 0: none) has passed; true when done. A
  // thread on the lane drives it (or hands it on), others take it over or sleep.
  bool wait(CallState& state, std::int64_t limit);

  // A thread that is on no lane holds the baton between enter and leave. try_enter gives up when another has
  // it.
  bool try_enter();
  void leave();

  // ---- under the baton ----
  void schedule(Runnable* item) { ready_.push(item); }
  void forget_deadline(CallState& state);
  void set_deadline(CallState& state, std::int64_t at);
  RouteTable& routes() { return *routes_; }
  Peer& add_peer(std::unique_ptr<Peer> peer);
  void peer_busy(Peer& peer);  // it has calls in flight, or serves a caller: read and arm it
  std::unordered_map<ActorId, ActorCell*>& actors() { return actors_; }
  void stream_written(Peer& peer);  // frames were begun: flush at the end of the turn
  void publish();                   // flushes now what costs no system call, and the rest now and then
  void look();                      // reads what has arrived, without running any of it; now and then
  std::uint64_t next_call_number() {
    return ++call_number_ << 8 | static_cast<unsigned>(options_.index & 0xff);
  }

 private:
  class StopWhenIdle;
  bool turn();
  bool run_ready();
  bool receive();
  void fire_deadlines();
  void flush();
  bool due();  // at most every kLookEvery
  void reap();
  // Asks the busy links' peers to ring; false when something has arrived meanwhile.
  bool arm();
  void disarm();
  bool sleep(int timeout_ms);  // in epoll; without the baton; true when rung
  void loop();                 // a worker's thread
  void park();                 // until a blocked actor needs a spare
  void background();           // the driver's
  void doze(std::uint64_t seen, std::uint32_t kicks);
  // Turns for as long as the policy allows or until `state` is done; true when something happened.
  bool poll(const CallState* state);
  bool drive(CallState& state, std::int64_t limit);
  bool sleep_beside(CallState& state, std::int64_t limit);  // another thread drives
  void fail_at_the_end(CallState& state);
  bool drive_nested(CallState& state, std::int64_t limit);
  bool wait_handing_off(CallState& state, std::int64_t limit);
  void leave_driving();
  bool wake_driver();  // when what it sleeps for is done
  void take_baton();
  void drop_baton();
  void yield_baton();
  void kick();                                       // makes a thread that sleeps in epoll look; any thread
  std::int64_t wake_time(std::int64_t limit) const;  // the limit or the first deadline; 0: none

  void on_readiness(Peer& peer);  // of its descriptor

  LaneOptions options_;
  const bool stepped_;
  Directory& directory_;
  UniqueFd epoll_, doorbell_;
  std::mutex baton_;
  std::atomic<int> contenders_{0};
  std::atomic<bool> rings_{false};   // a post must ring: whoever would see it may sleep
  std::atomic<bool> kicked_{false};  // the background thread has been rung and will come
  std::atomic<bool> stopping_{false};
  TaskQueue tasks_;
  ReadyQueue ready_;
  Deadlines deadlines_;
  std::int64_t next_wake_ = 0;  // when the lane's own thread wakes by itself, 0: never
  PollingPolicy polling_;
  std::unique_ptr<RouteTable> routes_;
  std::unordered_map<std::uint64_t, std::unique_ptr<Peer>> peers_;
  std::uint64_t peer_serial_ = 0;
  std::vector<Peer*> busy_, dirty_;
  std::uint64_t looked_ = 0;  // time stamp counter
  bool closing_ = false;      // some peer is closed: reap
  std::unordered_map<ActorId, ActorCell*> actors_;
  std::uint64_t call_number_ = 0;
  bool armed_ = false;

  // Threads of a worker's lane; under the baton.
  std::vector<std::thread> threads_;
  std::condition_variable spare_called_;
  int runners_ = 0, spares_ = 0, spares_wanted_ = 0;

  // The driver's lane.
  std::atomic<bool> driven_{false};              // a thread drives: others sleep on their state
  const CallState* driver_sleeps_on_ = nullptr;  // the state for which it sleeps in epoll; under the baton
  std::atomic<std::uint32_t> driver_naps_{0};    // odd while it sleeps
  std::atomic<std::uint64_t> attended_{0};
  std::atomic<int> sleepers_{0};
  std::atomic<int> inside_{0};  // threads in wait() that are on no lane; stop() waits for them
  std::atomic<bool> light_{false};
  std::atomic<std::uint32_t> kicks_{0};
  int quick_drives_ = 0;  // takeovers in a row that did not need to sleep; under the baton
};

}  // namespace troupe
