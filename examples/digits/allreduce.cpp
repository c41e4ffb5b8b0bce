#include <optional>
#include <stdexcept>

#include "training.h"

namespace digits {
namespace {

constexpr int kAttempts = 10;  // of forming, or of a stretch of steps, one after the other

class WithGroup final : public Crew<Replica> {
 public:
  WithGroup(const std::string& data, std::uint64_t seed) : Crew(data) {
    for (std::uint32_t i = 0; i < kTrainers; ++i)
      trainers_.push_back(troupe::spawn<Replica>(restartable(), source(i), i, seed));
    // Rank i is trainer i, wherever it runs: sums are taken in the order of the ranks.
    group_ = troupe::make_group(trainers_, troupe::GroupOptions().keep_order());
    form();
  }

  void begin(std::uint32_t until) override {
    until_ = until;
    pending_.clear();
    for (auto& trainer : trainers_) pending_.push_back(trainer.call<&Replica::train>(until));
  }

  // The others fail when one is lost. Those that were done already go on from the same step as all.
  Snapshot finish() override {
    for (int attempt = 1;; ++attempt) {
      try {
        return gather();
      } catch (const troupe::Failure&) {
        if (attempt == kAttempts) throw;
      }
      form();
      begin(until_);
    }
  }

 private:
  // Waits for all before it fails: a call of a survivor must not outlast the forming.
  Snapshot gather() {
    std::optional<troupe::Error> lost;
    std::vector<Snapshot> snapshots;
    for (auto& one : pending_) {
      try {
        snapshots.push_back(one.get());
      } catch (const troupe::Failure& e) {
        if (!lost) lost = e.error();
      }
    }
    if (lost) troupe::throw_failure(*lost);
    for (auto& one : snapshots)
      if (one.step != snapshots[0].step || one.parameters != snapshots[0].parameters)
        throw std::runtime_error("the replicas differ");
    return std::move(snapshots[0]);
  }

  // Who dies while the group forms, or agrees on the step, makes the others fail: then once more.
  void form() {
    for (int attempt = 1;; ++attempt) {
      std::vector<troupe::Future<std::uint32_t>> formed;
      for (std::size_t i = 0; i < trainers_.size(); ++i)
        formed.push_back(retried(i).call<&Replica::form>(group_));
      std::optional<troupe::Error> lost;
      for (auto& one : formed) {
        try {
          one.get();
        } catch (const troupe::Failure& e) {
          if (!lost) lost = e.error();
        }
      }
      if (!lost) return;
      if (attempt == kAttempts) troupe::throw_failure(*lost);
    }
  }

  troupe::Group group_;
  std::uint32_t until_ = 0;
  std::vector<troupe::Future<Snapshot>> pending_;
};

}  // namespace

std::unique_ptr<Training> train_with_group(const std::string& data, std::uint64_t seed) {
  return std::make_unique<WithGroup>(data, seed);
}

}  // namespace digits
