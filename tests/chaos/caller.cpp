#include "caller.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iterator>
#include <mutex>
#include <set>

namespace chaos {
namespace {

using namespace std::chrono_literals;
constexpr std::int64_t kHungMs = 60'000;

// Each failure's text once, without its numbers.
void show_first(const std::string& text) {
  std::string kind;
  std::copy_if(text.begin(), text.end(), std::back_inserter(kind), [](char c) { return c < '0' || c > '9'; });
  static std::mutex mutex;
  static std::set<std::string> shown;
  std::lock_guard lock(mutex);
  if (shown.size() < 100 && shown.insert(kind).second)
    std::fprintf(stderr, "first of its kind: %s\n", text.c_str());
}

}  // namespace

std::int64_t now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

Caller::Caller(CallerOptions options, Aim aim)
    : options_(options), aim_(std::move(aim)), ledger_(options.retries), thread_([this] { work(); }) {}

void Caller::work() {
  while (!quiet_ || !open_.empty()) {
    if (quiet_ && quiet_since_ == 0) quiet_since_ = now_ms();
    if (!quiet_) make_calls();
    take_ends();
    std::this_thread::sleep_for(5ms);
  }
  idle_ = true;
}

void Caller::make_calls() {
  bool used_up =
      options_.calls_per_target > 0 && !targets_.empty() &&
      ledger_.sums().made - targets_.back().from >= static_cast<std::uint64_t>(options_.calls_per_target);
  if (!call_ || renew_ || used_up) {
    if (!open_.empty()) return;  // the old target's calls end first
    targets_.push_back({"", ledger_.sums().made});
    call_ = aim_(targets_.back().prefix);
    renew_ = false;
  }
  // A few in each round, and now and then as many as may be.
  int calls = rounds_++ % 32 == 0 ? static_cast<int>(options_.outstanding) : options_.each_round;
  for (int i = 0; i < calls && open_.size() < options_.outstanding; ++i) {
    std::uint64_t number = ledger_.make();
    open_.push_back({number, call_(number), now_ms()});
  }
}

void Caller::take_ends() {
  std::int64_t now = now_ms();
  auto ended = [&](Open& open) {
    std::int64_t took = now - open.made_ms;
    if (!open.answer.ready()) {
      bool late = options_.deadline_ms > 0 && took > options_.deadline_ms + kHungMs;
      bool never = quiet_since_ > 0 && now > quiet_since_ + kHungMs;
      if (!late && !never) return false;
      std::fprintf(stderr, "caller %u: call %llu hangs since %lld ms\n", options_.id,
                   static_cast<unsigned long long>(open.number), static_cast<long long>(took));
      ledger_.give_up(open.number);
      return true;
    }
    try {
      Receipt receipt = open.answer.get();
      if (receipt.failed != 0)
        ledger_.fail(open.number, receipt.failed - 1, took);
      else
        ledger_.acknowledge(open.number, receipt.incarnation, took), ++seen_;
    } catch (const troupe::Failure& failure) {
      ledger_.fail(open.number, static_cast<std::uint32_t>(failure.error().kind), took);
      show_first(failure.what());
      // An actor without restarts has died: the next calls go to a new one.
      renew_ |= options_.calls_per_target > 0;
    }
    return true;
  };
  open_.erase(std::remove_if(open_.begin(), open_.end(), ended), open_.end());
}

void Caller::finish() {
  thread_.join();
  for (std::size_t i = 0; i < targets_.size(); ++i) {
    std::uint64_t to = i + 1 < targets_.size() ? targets_[i + 1].from : ledger_.sums().made;
    ledger_.check(targets_[i].prefix, options_.id, targets_[i].from, to);
  }
}

}  // namespace chaos
