#include "runtime/lane/lane.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>

#include "core/base/log.h"
#include "core/os/cpu.h"
#include "core/os/futex.h"
#include "runtime/call/actor_cell.h"
#include "runtime/call/call_state.h"
#include "runtime/call/directory.h"
#include "runtime/call/peer.h"
#include "runtime/call/route.h"
#include "runtime/lane/lane_internal.h"

namespace troupe {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kFramesPerRead = 512;
constexpr std::uint64_t kDoorbellKey = 0;
constexpr std::size_t kBatchBytes = 32 << 10;  // of calls that a stream link gathers before it writes

}  // namespace

using namespace lane_internal;

constinit thread_local Lane* lane_internal::current_lane = nullptr;

Lane* Lane::current() { return current_lane; }

// Ends the lane once what was ready before it has run.
class Lane::StopWhenIdle final : public Runnable {
 public:
  explicit StopWhenIdle(Lane& lane) : lane_(lane) {}
  void run() override {
    if (!lane_.ready_.empty() && --rounds_ > 0) {
      lane_.ready_.push(this);
      return;
    }
    lane_.stopping_ = true;
    delete this;
  }
  void discard() override { delete this; }

 private:
  Lane& lane_;
  int rounds_ = 1000;  // code that goes on for ever is cut off
};

Lane::Lane(LaneOptions options, Directory& directory)
    : options_(std::move(options)),
      stepped_(options_.ring != nullptr),
      directory_(directory),
      polling_(options_.poll),
      routes_(std::make_unique<RouteTable>(*this)) {
  if (stepped_) return;
  epoll_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  doorbell_ = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  epoll_event event{};
  event.events = EPOLLIN | EPOLLET;
  event.data.u64 = kDoorbellKey;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, doorbell_.get(), &event);
}

Lane::~Lane() {
  stop("the process ends");
  tasks_.drop_all();
  while (Runnable* item = ready_.pop()) item->discard();
  for (auto& [id, cell] : actors_) cell->release();
  tasks_.drop_all();  // answers of what ended just now
}

void Lane::start() {
  std::lock_guard lock(baton_);
  runners_ = 1;
  threads_.emplace_back([this] { options_.drivable ? background() : loop(); });
}

void Lane::stop(const std::string& why) {
  if (stopping_) return;
  post_function([this, why] {
    routes_->shutdown(why);
    for (auto& [serial, peer] : peers_) peer->shutdown(why);
    // A worker's mail is dropped; a driver's continuations see how their calls ended.
    if (options_.drivable)
      ready_.push(new StopWhenIdle(*this));
    else
      stopping_ = true;
  });
  if (stepped_) {
    take_baton();
    current_lane = this;
    while (!stopping_) turn();
    current_lane = nullptr;
    drop_baton();
    return;
  }
  kick();
  // The task above runs on the lane's thread; only then do all loops end.
  for (;;) {
    std::thread thread;
    {
      std::lock_guard lock(baton_);
      if (threads_.empty()) break;
      thread = std::move(threads_.back());
      threads_.pop_back();
    }
    thread.join();
  }
  stopping_ = true;
  // Threads that wait here see it and fail what they wait for.
  while (inside_.load() > 0) {
    kick();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// ---- handing work in ----

void Lane::kick() {
  if (stepped_) return options_.ring();
  kicks_.fetch_add(1);
  if (light_.load(std::memory_order_relaxed)) futex_wake_all(kicks_);
  std::uint64_t one = 1;
  [[maybe_unused]] ssize_t n = ::write(doorbell_.get(), &one, sizeof one);
}

void Lane::post(LaneTask* task) {
  tasks_.push(task);
  if (rings_.load(std::memory_order_seq_cst) && rings_.exchange(false, std::memory_order_seq_cst)) kick();
}

void Lane::schedule_from_anywhere(Runnable* item) {
  if (current_lane == this)
    schedule(item);
  else
    post_function([this, item] { schedule(item); });
}

void Lane::take_baton() {
  if (baton_.try_lock()) return;
  contenders_.fetch_add(1);
  baton_.lock();
  contenders_.fetch_sub(1);
}

void Lane::drop_baton() { baton_.unlock(); }

void Lane::yield_baton() {
  baton_.unlock();
  for (int spins = 0; contenders_.load(std::memory_order_relaxed) > 0 && spins < 2000; ++spins) cpu_relax();
  take_baton();
}

bool Lane::try_enter() {
  contenders_.fetch_add(1);  // makes a thread that polls let go
  bool got = baton_.try_lock();
  for (int spins = 0; !got && spins < 200; ++spins) {
    cpu_relax();
    got = baton_.try_lock();
  }
  contenders_.fetch_sub(1);
  if (!got) return false;
  current_lane = this;
  // What this thread handed in while others held the baton comes first.
  if (!tasks_.empty()) tasks_.run_all();
  return true;
}

void Lane::leave() {
  bool call = false;
  for (std::size_t i = 0; i < dirty_.size();) {
    Peer& peer = *dirty_[i];
    // A thread that has several calls under way will be back for them: light sleep suits it.
    if (peer.in_flight() > 1) quick_drives_ = std::max(quick_drives_, kQuickDrives);
    if (peer.flush_is_cheap() || peer.in_flight() <= 1 || peer.backlog() >= kBatchBytes) {
      peer.flush();
      peer.dirty = false;
      dirty_[i] = dirty_.back();
      dirty_.pop_back();
    } else {
      // A batch: the next turn writes it, or the background thread within a millisecond or two.
      call |= !light_.load(std::memory_order_relaxed);
      ++i;
    }
  }
  if (!ready_.empty()) call = true;
  if (driver_sleeps_on_ != nullptr && driver_sleeps_on_->done()) call = true;
  if (options_.drivable) {
    if (!light_.load(std::memory_order_relaxed) && !arm()) call = true;
  } else if (rings_.load(std::memory_order_relaxed)) {
    if (!arm()) call = true;  // the loop sleeps: links that became busy must ring it
  }
  current_lane = nullptr;
  drop_baton();
  if (call && !kicked_.exchange(true)) kick();
}

// ---- one turn ----

bool Lane::turn() {
  bool progress = tasks_.run_all() > 0;
  progress |= receive();
  if (!deadlines_.empty()) fire_deadlines();
  progress |= run_ready();
  flush();
  if (closing_) reap();
  return progress;
}

bool Lane::receive() {
  bool progress = false;
  for (std::size_t i = 0; i < busy_.size(); ++i) {
    Peer* peer = busy_[i];
    progress |= peer->receive(kFramesPerRead) > 0;
    if (peer->closed()) {
      closing_ = true;
    } else if (!peer->wants_reading()) {
      if (peer->armed) peer->cancel_sleep();
      peer->armed = false;
      peer->listed = false;
      busy_[i] = busy_.back();
      busy_.pop_back();
      --i;
    }
  }
  return progress;
}

bool Lane::run_ready() {
  int runs = 0;
  while (runs < kRunsPerTurn) {
    Runnable* item = ready_.pop();
    if (item == nullptr) break;
    item->run();
    ++runs;
  }
  return runs > 0;
}

void Lane::fire_deadlines() {
  std::int64_t now = steady_ns();
  while (CallState* call = deadlines_.pop_expired(now)) {
    call->retain();
    routes_->abandon(*call, Error(ErrorKind::deadline_exceeded, "no answer before the call's deadline"));
    call->release();
  }
}

void Lane::flush() {
  for (std::size_t i = 0; i < dirty_.size(); ++i) {
    dirty_[i]->dirty = false;
    dirty_[i]->flush();
  }
  dirty_.clear();
}

bool Lane::due() {
  if (stepped_) return false;
  constexpr std::uint64_t kTicks = 50'000;  // some 20 µs
  std::uint64_t now = cpu_ticks();
  if (now - looked_ < kTicks) return false;
  looked_ = now;
  return true;
}

void Lane::publish() {
  if (dirty_.empty()) return;
  bool all = due();
  std::size_t kept = 0;
  for (Peer* peer : dirty_) {
    if (all || peer->flush_is_cheap()) {
      peer->dirty = false;
      peer->flush();
    } else {
      dirty_[kept++] = peer;
    }
  }
  dirty_.resize(kept);
}

void Lane::look() {
  if (!due()) return;
  tasks_.run_all();
  receive();
  flush();
}

void Lane::reap() {
  closing_ = false;
  std::vector<std::uint64_t> gone;
  for (Peer* peer : busy_) {
    if (peer->closed()) gone.push_back(peer->serial);
  }
  for (std::uint64_t serial : gone) {
    auto at = peers_.find(serial);
    std::unique_ptr<Peer> peer = std::move(at->second);
    peers_.erase(at);
    std::erase(busy_, peer.get());
    std::erase(dirty_, peer.get());
    if (!stepped_) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, peer->descriptor(), nullptr);
    peer->lost();
  }
}

// ---- sleeping ----

bool Lane::arm() {
  rings_.store(true, std::memory_order_seq_cst);
  bool quiet = true;
  for (Peer* peer : busy_) {
    if (peer->closed()) quiet = false;  // the next turn takes it out
    if (peer->armed) continue;
    if (peer->prepare_sleep())
      peer->armed = armed_ = true;
    else
      quiet = false;
  }
  return quiet && tasks_.empty() && ready_.empty();
}

void Lane::disarm() {
  if (!armed_) return;
  armed_ = false;
  for (Peer* peer : busy_) {
    if (!peer->armed) continue;
    peer->cancel_sleep();
    peer->armed = false;
  }
}

std::int64_t Lane::wake_time(std::int64_t limit) const {
  return deadlines_.empty() || (limit != 0 && limit <= deadlines_.next()) ? limit : deadlines_.next();
}

bool Lane::sleep(int timeout_ms) {
  epoll_event events[64];
  int n = ::epoll_wait(epoll_.get(), events, 64, timeout_ms);
  bool on_peers = false;
  for (int i = 0; i < n; ++i) {
    if (events[i].data.u64 == kDoorbellKey) {
      std::uint64_t count;
      [[maybe_unused]] ssize_t got = ::read(doorbell_.get(), &count, sizeof count);
    } else {
      on_peers = true;
    }
  }
  kicked_.store(false);
  if (!on_peers) return n > 0;
  take_baton();
  for (int i = 0; i < n; ++i) {
    auto at = peers_.find(events[i].data.u64);
    if (at != peers_.end()) on_readiness(*at->second);
  }
  drop_baton();
  return true;
}

void Lane::on_readiness(Peer& peer) {
  peer.on_ready();
  peer_busy(peer);
}

Lane::Next Lane::step(const std::function<bool(int descriptor)>& ready) {
  take_baton();
  current_lane = this;
  kicked_.store(false);
  for (auto& [serial, peer] : peers_) {
    if (ready(peer->descriptor())) on_readiness(*peer);
  }
  rings_.store(false, std::memory_order_relaxed);
  disarm();
  Next next;
  next.at_once = turn() || !arm();
  next.wake = next_wake_ = wake_time(0);
  current_lane = nullptr;
  drop_baton();
  return next;
}

std::string Lane::check() const {
  std::string bad = routes_->check();
  for (auto& [serial, peer] : peers_) {
    if (bad.empty()) bad = peer->check();
  }
  return bad;
}

bool Lane::poll(const CallState* state) {
  auto budget = polling_.next_wait();
  if (budget.count() == 0) return false;
  auto end = Clock::now() + budget;
  for (unsigned spin = 1;; ++spin) {
    if (turn()) {
      if (state == nullptr || state->done()) {
        polling_.polled(true);
        return true;
      }
      end = Clock::now() + budget;
    }
    if (contenders_.load(std::memory_order_relaxed) > 0) {
      yield_baton();
      if (state != nullptr && state->done()) return true;  // another thread has seen to it
    }
    if (stopping_.load(std::memory_order_relaxed)) return true;
    cpu_relax();
    if (spin % 4 == 0 && Clock::now() >= end) break;
  }
  polling_.polled(false);
  return false;
}

// ---- what hangs on the lane ----

Peer& Lane::add_peer(std::unique_ptr<Peer> peer) {
  Peer& added = *peer;
  added.serial = ++peer_serial_;
  if (!stepped_) {
    epoll_event event{};
    event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
    event.data.u64 = added.serial;
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, added.descriptor(), &event);
  }
  peers_.emplace(added.serial, std::move(peer));
  peer_busy(added);
  return added;
}

void Lane::peer_busy(Peer& peer) {
  if (peer.listed) return;
  peer.listed = true;
  busy_.push_back(&peer);
}

void Lane::stream_written(Peer& peer) {
  if (peer.dirty) return;
  peer.dirty = true;
  dirty_.push_back(&peer);
}

void Lane::set_deadline(CallState& state, std::int64_t at) {
  deadlines_.add(state, at);
  // A thread that sleeps for longer must look again.
  if (rings_.load(std::memory_order_relaxed) && (next_wake_ == 0 || at < next_wake_)) kick();
}

void Lane::forget_deadline(CallState& state) { deadlines_.remove(state); }

}  // namespace troupe
