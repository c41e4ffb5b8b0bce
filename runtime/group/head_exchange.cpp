#include "runtime/group/head_exchange.h"

#include <algorithm>

#include "core/base/clock.h"
#include "runtime/process/process.h"

namespace troupe {
namespace {

constexpr std::uint32_t kAddresses = 0, kRecords = 1;  // boards
constexpr std::int64_t kMs = 1'000'000;
constexpr std::int64_t kSlack =
    2'000 * kMs;  // for an answer that is on its way when the head's patience ends

}  // namespace

HeadExchange::HeadExchange(std::uint64_t group, std::uint64_t generation, int rank, int size)
    : group_(group), generation_(generation), rank_(rank), size_(size) {}

Result<HeadExchange::Shown> HeadExchange::show(std::uint32_t board, std::string bytes,
                                               std::int64_t deadline_ns, bool partial) {
  auto wait = std::make_shared<Wait>();
  {
    std::lock_guard lock(mutex_);
    if (cancelled_ && !partial) return *cancelled_;
    waiting_ = wait;
  }
  GroupPostRequest post;
  post.group = group_;
  post.generation = generation_;
  post.rank = static_cast<std::uint32_t>(rank_);
  post.board = board;
  post.bytes = std::move(bytes);
  post.patience_ms =
      static_cast<std::uint32_t>(std::clamp<std::int64_t>((deadline_ns - steady_ns()) / kMs, 1, 1 << 30));
  post.partial = partial;
  Process::get().post_to_group(std::move(post), [wait](Result<Shown> answer) {
    std::lock_guard lock(wait->mutex);
    if (!wait->answer) wait->answer = std::move(answer);
    wait->changed.notify_all();
  });
  std::unique_lock lock(wait->mutex);
  auto until = std::chrono::steady_clock::time_point(std::chrono::nanoseconds(deadline_ns + kSlack));
  wait->changed.wait_until(lock, until, [&] { return wait->answer.has_value(); });
  if (!wait->answer) {
    return Error(ErrorKind::deadline_exceeded, "the head did not answer a rank of a group in time");
  }
  return std::move(*wait->answer);
}

Result<std::vector<std::string>> HeadExchange::all_gather(const std::string& mine, std::int64_t deadline_ns) {
  auto shown = show(kAddresses, mine, deadline_ns, false);
  if (!shown) return shown.error();
  std::vector<std::string> all(static_cast<std::size_t>(size_));
  for (auto& [rank, bytes] : *shown) {
    if (rank < all.size()) all[rank] = std::move(bytes);
  }
  return all;
}

void HeadExchange::cancel(const Error& why) {
  std::shared_ptr<Wait> wait;
  {
    std::lock_guard lock(mutex_);
    if (!cancelled_) cancelled_ = why;
    wait = waiting_;
  }
  if (!wait) return;
  std::lock_guard lock(wait->mutex);
  if (!wait->answer) wait->answer = Result<Shown>(why);
  wait->changed.notify_all();
}

std::vector<RankReport> HeadExchange::collect(const RankReport& mine, std::int64_t deadline_ns) {
  std::vector<RankReport> out;
  auto shown = show(kRecords, encode_report(mine), deadline_ns, true);
  if (!shown) return {mine};
  for (auto& [rank, bytes] : *shown) {
    if (auto report = decode_report(bytes)) out.push_back(std::move(*report));
  }
  return out;
}

}  // namespace troupe
