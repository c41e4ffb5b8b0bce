// The store against a model that only counts who may read what, over random events, disks that fail and
// processes that die among them. After each event the store's own tables must be sound; at the end nothing
// may be left.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "runtime/objects/store_core.h"

namespace troupe {
namespace {

struct Table final : SlotTable {
  void blank(std::uint32_t, std::uint64_t, std::uint64_t) override {}
  void publish(std::uint32_t, const ObjectId&, std::uint64_t) override {}
  bool seize(std::uint32_t slot) override { return !pinned(slot); }
  void give_back(std::uint32_t) override {}
  void clear(std::uint32_t) override {}
  void pin(std::uint32_t slot, std::uint32_t page) override { pins.insert({page, slot}); }
  bool pinned(std::uint32_t slot) const override {
    for (auto& [page, one] : pins) {
      if (one == slot) return true;
    }
    return false;
  }
  bool sealed(std::uint32_t slot) const override { return slot % 3 == 0; }
  std::set<std::pair<std::uint32_t, std::uint32_t>> pins;
};

struct Flight {
  ObjectId id;
  Transit transit;
  bool announced = false;
};

class Model {
 public:
  explicit Model(unsigned seed) : random_(seed), core_({4 << 20, 6 << 20, 40}, table_) {
    core_.named({1}, 5);
  }

  void step() {
    now_ += pick(30);
    switch (pick(14)) {
      case 0:
        if (processes_.size() < 4) {
          std::uint32_t page = ++pages_;
          processes_[core_.attach(page, 1)] = {page, {}, {}, {}};
        }
        break;
      case 1:
        if (pick(8) == 0 && !processes_.empty()) die(any());
        break;
      case 2:
      case 3:
      case 4:
        if (!processes_.empty()) core_.create(any(), ++ticket_, 1 + pick(900 << 10), now_ + 2000, now_, out_);
        break;
      case 5:
        if (!processes_.empty()) {
          auto who = any();
          for (auto& blank : core_.lease(who, 1 + pick(64 << 10), 2)) processes_[who].blanks.push_back(blank);
        }
        break;
      case 6:
      case 7:
        use_blank();
        break;
      case 8:
        send();
        break;
      case 9:
        receive();
        break;
      case 10:
        get();
        break;
      case 11:
        drop();
        break;
      case 12:
        unpin();
        break;
      case 13:
        core_.tick(now_, out_);
        break;
    }
    perform();
    ASSERT_EQ(core_.check(), "");
    check_watches();
    // Whoever holds an object finds it.
    for (auto& [who, process] : processes_) {
      for (auto& [id, count] : process.holds) ASSERT_TRUE(core_.has(id)) << to_string(id);
    }
  }

  void end() {
    while (!processes_.empty()) die(processes_.begin()->first);
    for (int i = 0; i < 100; ++i) {
      now_ += 1000;
      core_.tick(now_, out_);
      perform();
    }
    EXPECT_EQ(core_.check(), "");
    EXPECT_EQ(core_.objects(), 0u);
    EXPECT_EQ(core_.usage().used, 0u);
    EXPECT_EQ(core_.usage().spilled, 0u);
    EXPECT_TRUE(files_.empty());
  }
  // Of those who watch and live, each is told.
  void check_watches() {
    for (auto& [id, who] : watched_) {
      EXPECT_TRUE(processes_.count(who) == 0 || core_.has(id)) << to_string(id);
    }
  }

 private:
  struct Process {
    std::uint32_t page = 0;
    std::map<ObjectId, int> holds;
    std::vector<StoreCore::Blank> blanks;
    std::vector<std::pair<ObjectId, Transit>> unsaid;  // announcements that come later
  };
  std::uint32_t pick(std::uint32_t n) { return random_() % n; }
  StoreCore::Process any() {
    return std::next(processes_.begin(), pick(static_cast<std::uint32_t>(processes_.size())))->first;
  }

  void die(StoreCore::Process who) {
    std::uint32_t page = processes_[who].page;
    std::erase_if(table_.pins, [page](auto& pin) { return pin.first == page; });
    processes_.erase(who);
    std::erase_if(flights_, [who](const Flight& one) { return one.transit.process == who; });
    core_.detach(who, now_, out_);
  }
  void use_blank() {
    if (processes_.empty()) return;
    auto who = any();
    Process& process = processes_[who];
    if (process.blanks.empty()) return;
    auto blank = process.blanks.back();
    process.blanks.pop_back();
    if (pick(5) == 0) return core_.discard(who, blank.slot, now_, out_);
    ObjectId id{5, {1}, object_number(who, ++count_)};
    bool watched = pick(2) == 0;
    core_.created(who, id, blank.slot, blank.size, watched, now_, out_);
    process.holds[id] = 1;
    if (watched) watched_[id] = who;
  }
  void send() {
    if (processes_.empty()) return;
    auto who = any();
    Process& process = processes_[who];
    if (process.holds.empty()) return;
    auto id = std::next(process.holds.begin(), pick(static_cast<std::uint32_t>(process.holds.size())))->first;
    Transit transit{{1}, who, 1, ++count_};
    flights_.push_back({id, transit, false});
    if (pick(2) == 0) {
      core_.sent(who, id, transit, now_, out_);
      flights_.back().announced = true;
    } else {
      process.unsaid.emplace_back(id, transit);
    }
  }
  void say(StoreCore::Process who) {
    for (auto& [id, transit] : processes_[who].unsaid) {
      core_.sent(who, id, transit, now_, out_);
    }
    processes_[who].unsaid.clear();
  }
  void receive() {
    if (processes_.empty() || flights_.empty()) return;
    auto who = any();
    std::size_t n = pick(static_cast<std::uint32_t>(flights_.size()));
    Flight flight = flights_[n];
    flights_.erase(flights_.begin() + static_cast<long>(n));
    if (pick(6) == 0) {  // it does not arrive
      say(flight.transit.process);
      core_.expire(flight.transit.process, 1, now_);
      // The rest of the channel will not arrive either.
      std::erase_if(flights_,
                    [&](const Flight& one) { return one.transit.process == flight.transit.process; });
      return;
    }
    core_.claim(who, flight.id, flight.transit, now_, out_);
    ++processes_[who].holds[flight.id];
  }
  void drop() {
    if (processes_.empty()) return;
    auto who = any();
    Process& process = processes_[who];
    if (process.holds.empty()) return;
    say(who);  // in order: what was sent is announced before
    auto at = std::next(process.holds.begin(), pick(static_cast<std::uint32_t>(process.holds.size())));
    core_.drop(who, at->first, now_, out_);
    if (--at->second == 0) process.holds.erase(at);
  }
  void get() {
    if (processes_.empty()) return;
    auto who = any();
    Process& process = processes_[who];
    if (process.holds.empty()) return;
    auto id = std::next(process.holds.begin(), pick(static_cast<std::uint32_t>(process.holds.size())))->first;
    core_.get(who, ++ticket_, id, now_ + 2000, now_, out_);
    if (pick(5) == 0) core_.cancel(who, ticket_, now_, out_);
  }
  void unpin() {
    if (table_.pins.empty()) return;
    table_.pins.erase(std::next(table_.pins.begin(), pick(static_cast<std::uint32_t>(table_.pins.size()))));
  }
  void perform() {
    while (!out_.empty()) {
      auto actions = std::exchange(out_, {});
      for (auto& action : actions) {
        if (auto* made = std::get_if<StoreCore::Made>(&action)) {
          auto at = processes_.find(made->process);
          if (at != processes_.end()) at->second.blanks.push_back(made->blank);
        } else if (auto* spill = std::get_if<StoreCore::Spill>(&action)) {
          bool good = pick(6) != 0;
          if (good) files_.insert(spill->id);
          core_.spilled(spill->id, good ? Result<void>() : Error(ErrorKind::resource_exhausted, "full"), now_,
                        out_);
        } else if (auto* restore = std::get_if<StoreCore::Restore>(&action)) {
          EXPECT_TRUE(files_.count(restore->id));
          core_.restored(restore->id, {}, now_, out_);
        } else if (auto* file = std::get_if<StoreCore::RemoveFile>(&action)) {
          EXPECT_EQ(files_.erase(file->id), 1u);
        } else if (auto* lost = std::get_if<StoreCore::Lost>(&action)) {
          auto at = watched_.find(lost->id);
          bool orphan = at != watched_.end() && processes_.count(at->second) == 0;
          EXPECT_TRUE(orphan) << "lost: " << lost->why.message;
        } else if (auto* gone = std::get_if<StoreCore::Gone>(&action)) {
          auto at = watched_.find(gone->id);
          ASSERT_TRUE(at != watched_.end() && at->second == gone->process) << "told twice, or somebody else";
          watched_.erase(at);
          EXPECT_FALSE(core_.has(gone->id));
          for (auto& [who, process] : processes_) EXPECT_EQ(process.holds.count(gone->id), 0u);
        } else if (auto* back = std::get_if<StoreCore::GiveBack>(&action)) {
          auto at = processes_.find(back->process);
          if (at == processes_.end() || pick(2) == 0) continue;
          for (auto& blank : std::exchange(at->second.blanks, {}))
            core_.discard(back->process, blank.slot, now_, out_);
        }
      }
    }
  }

  std::mt19937 random_;
  Table table_;
  StoreCore core_;
  StoreCore::Actions out_;
  StoreCore::Now now_ = 0;
  std::map<StoreCore::Process, Process> processes_;
  std::vector<Flight> flights_;
  std::set<ObjectId> files_;
  std::map<ObjectId, StoreCore::Process> watched_;
  std::uint32_t pages_ = 0;
  std::uint64_t ticket_ = 0, count_ = 0;
};

TEST(StoreModel, RandomEvents) {
  for (unsigned seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Model model(seed);
    for (int i = 0; i < 1500; ++i) {
      model.step();
      if (testing::Test::HasFailure()) return;
    }
    model.end();
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace troupe
