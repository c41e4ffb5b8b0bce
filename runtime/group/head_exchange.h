// An Exchange (exchange.h) over the head: ranks of a generation show each other their addresses and, when an
// operation does not end, their records.
//
// Owner: GroupMember. Thread: any; the answers come on the control thread and wake who waits here.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "runtime/group/exchange.h"

namespace troupe {

class HeadExchange final : public Exchange {
 public:
  HeadExchange(std::uint64_t group, std::uint64_t generation, int rank, int size);

  Result<std::vector<std::string>> all_gather(const std::string& mine, std::int64_t deadline_ns) override;
  void cancel(const Error& why) override;
  std::vector<RankReport> collect(const RankReport& mine, std::int64_t deadline_ns) override;

 private:
  using Shown = std::map<std::uint32_t, std::string>;
  // Shared with answers that come late.
  struct Wait {
    std::mutex mutex;
    std::condition_variable changed;
    std::optional<Result<Shown>> answer;
  };
  Result<Shown> show(std::uint32_t board, std::string bytes, std::int64_t deadline_ns, bool partial);

  const std::uint64_t group_, generation_;
  const int rank_, size_;
  std::mutex mutex_;  // guards what follows
  std::shared_ptr<Wait> waiting_;
  std::optional<Error> cancelled_;
};

}  // namespace troupe
