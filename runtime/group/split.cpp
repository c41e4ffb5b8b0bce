// Communicator::split(): the ranks tell each other their colors, each makes its communicator of the part, and
// the addresses of those travel over the whole group's connections: the control plane is not asked.
#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <tuple>

#include "core/base/clock.h"
#include "runtime/group/communicator.h"

namespace troupe {
namespace {

// Between the part's thread, which connects, and the whole group's, which carries the addresses.
class SplitExchange final : public Exchange {
 public:
  Result<std::vector<std::string>> all_gather(const std::string& mine, std::int64_t deadline_ns) override {
    std::unique_lock lock(mutex_);
    mine_ = mine;
    changed_.notify_all();
    changed_.wait_for(lock, std::chrono::nanoseconds(deadline_ns - steady_ns()),
                      [&] { return all_ || cancelled_; });
    if (all_) return *all_;
    if (cancelled_) return *cancelled_;
    return Error(ErrorKind::deadline_exceeded, "the other ranks of the group did not give their addresses");
  }
  void cancel(const Error& why) override {
    std::lock_guard lock(mutex_);
    if (!cancelled_) cancelled_ = why;
    changed_.notify_all();
  }

  // The address of this rank; nothing when there will be none.
  std::optional<std::string> offered() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return mine_ || cancelled_; });
    return mine_;
  }
  void answer(std::vector<std::string> all) {
    std::lock_guard lock(mutex_);
    all_ = std::move(all);
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<std::string> mine_;
  std::optional<std::vector<std::string>> all_;
  std::optional<Error> cancelled_;
};

}  // namespace

// So that abort() reaches it. False when it has been called.
bool Communicator::adopt(const std::shared_ptr<Communicator>& part) {
  std::lock_guard lock(mutex_);
  if (broken_) return false;
  std::erase_if(parts_, [](const auto& one) { return one.expired(); });
  parts_.push_back(part);
  return true;
}

Communicator::Outcome Communicator::split(Item& item) {
  const Operation& operation = item.operation;
  CheckHeader header = header_of(operation, item.sequence, options_.rank);
  header.in_count = operation.color;
  header.out_count = operation.key;
  if (!agreement_->exchange(header, {}, contributions_)) return mesh_failure(item);
  if (auto wrong = check(contributions_)) return {*wrong, false};

  std::vector<std::tuple<std::int64_t, int>> members;  // key, rank
  for (int r = 0; r < options_.size; ++r) {
    const CheckHeader& theirs = contributions_[static_cast<std::size_t>(r)].header;
    if (theirs.in_count == operation.color) members.emplace_back(theirs.out_count, r);
  }
  std::sort(members.begin(), members.end());
  SubGroup made;
  Work connected;
  auto meeting = std::make_shared<SplitExchange>();
  std::optional<std::string> mine = "";
  if (operation.color >= 0) {
    CommunicatorOptions options = options_;
    options.size = static_cast<int>(members.size());
    for (auto [key, rank] : members) {
      if (rank == options_.rank) options.rank = static_cast<int>(made.ranks.size());
      made.ranks.push_back(rank);
    }
    made.communicator = std::make_shared<Communicator>(options, meeting);
    if (!adopt(made.communicator)) return {*broken(), true};
    connected = made.communicator->connect(
        std::chrono::nanoseconds(std::max<std::int64_t>(operation.deadline_ns - steady_ns(), 1)));
    connected.then([meeting](const Result<void>& result) {
      if (!result) meeting->cancel(result.error());
    });
    mine = meeting->offered();
  }
  // However this ends, the part's thread must not wait for it.
  struct Guard {
    SplitExchange& meeting;
    ~Guard() { meeting.cancel(Error(ErrorKind::cancelled, "the group was not split")); }
  } guard{*meeting};

  std::string fault = mine ? "" : "it cannot connect: " + connected.wait().error().message;
  const std::string& told = mine ? *mine : fault;
  header.in_count = header.out_count = 0;
  if (!mine) header.flags = CheckHeader::kFault;
  if (!agreement_->exchange(header, std::as_bytes(std::span(told.data(), told.size())), contributions_))
    return mesh_failure(item);
  if (auto wrong = check(contributions_)) return {*wrong, false};
  if (operation.color < 0) return {};
  std::vector<std::string> addresses;
  for (int rank : made.ranks) {
    const auto& bytes = contributions_[static_cast<std::size_t>(rank)].payload;
    addresses.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  meeting->answer(std::move(addresses));
  if (auto done = connected.wait(); !done) return {done.error(), true};
  if (operation.sub) *operation.sub = std::move(made);
  return {};
}

}  // namespace troupe
