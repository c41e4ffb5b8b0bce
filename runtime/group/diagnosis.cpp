#include "runtime/group/diagnosis.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <tuple>

namespace troupe {
namespace {

using Kind = Finding::Kind;

struct Rank {
  int rank;
  const RankReport* report;
  std::map<std::uint64_t, const OpRecord*> collectives;  // by sequence
  const OpRecord* running = nullptr;                     // the first that has started and not succeeded
};

bool one_size(OpKind kind) {
  return kind == OpKind::broadcast || kind == OpKind::all_reduce || kind == OpKind::reduce;
}

// What must agree; sizes only where all ranks have one.
auto call_of(const OpRecord& r) { return std::tuple(r.kind, r.op, r.root); }
auto signature(const OpRecord& r) {
  return std::tuple(call_of(r), r.dtype, one_size(r.kind) ? r.bytes : std::uint64_t{0});
}

std::string name(const OpRecord& r) {
  std::string text = describe(r);
  return text.substr(0, text.rfind(','));
}

std::string list(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  return text;
}

bool open(const OpRecord& r) { return r.state != OpState::done; }

std::string seconds(std::int64_t ns) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f s", static_cast<double>(ns) / 1e9);
  return text;
}

std::optional<Finding> gone(const std::vector<RankReport>& reports) {
  for (auto [state, kind] : {std::pair(RankReport::State::dead, Kind::dead),
                             std::pair(RankReport::State::unreachable, Kind::partitioned)}) {
    Finding finding{kind, {}, 0, ""};
    std::string notes;
    for (const RankReport& r : reports) {
      if (r.state != state) continue;
      finding.ranks.push_back(r.rank);
      if (!r.note.empty()) notes += (notes.empty() ? "" : "; ") + r.note;
    }
    if (finding.ranks.empty()) continue;
    std::sort(finding.ranks.begin(), finding.ranks.end());
    finding.text = list(finding.ranks) + (kind == Kind::dead ? " ended" : " cannot be reached") +
                   (notes.empty() ? "" : " (" + notes + ")");
    return finding;
  }
  return std::nullopt;
}

// Ranks that called something else as their k-th collective than most did.
std::optional<Finding> disagreement(const std::vector<Rank>& ranks, std::uint64_t k) {
  std::map<decltype(signature(OpRecord())), std::vector<const Rank*>> calls;
  for (const Rank& r : ranks)
    if (auto it = r.collectives.find(k); it != r.collectives.end())
      calls[signature(*it->second)].push_back(&r);
  if (calls.size() < 2) return std::nullopt;
  // Most ranks are right; of equally many, those with the lowest rank are.
  auto right = std::max_element(calls.begin(), calls.end(), [](auto& a, auto& b) {
    return std::tuple(a.second.size(), -a.second.front()->rank) <
           std::tuple(b.second.size(), -b.second.front()->rank);
  });
  const Rank* model = right->second.front();
  const OpRecord& expected = *model->collectives.at(k);
  const Rank* odd = nullptr;
  for (auto& [call, who] : calls)
    if (call != right->first && (odd == nullptr || who.front()->rank < odd->rank)) odd = who.front();
  const OpRecord& got = *odd->collectives.at(k);
  Finding finding{Kind::wrong_op, {}, k, ""};
  for (auto& [call, who] : calls)
    if (call == signature(got))
      for (const Rank* r : who) finding.ranks.push_back(r->rank);
  auto next = odd->collectives.find(k + 1), other = model->collectives.find(k + 1);
  bool may_swap = next != odd->collectives.end() && signature(*next->second) == signature(expected);
  if (may_swap && other != model->collectives.end()) may_swap = signature(*other->second) == signature(got);
  if (may_swap)
    finding.kind = Kind::swapped_order;
  else if (call_of(got) == call_of(expected))
    finding.kind = got.dtype != expected.dtype ? Kind::wrong_dtype : Kind::wrong_size;
  finding.text = list(finding.ranks) + " called " + name(got) + " where " + list({model->rank}) + " called " +
                 name(expected);
  if (may_swap) finding.text += ", and then that: the order of two calls is swapped";
  return finding;
}

// Ranks that others wait for in the k-th collective.
std::optional<Finding> behind(const std::vector<Rank>& ranks, std::uint64_t k) {
  const Rank* waits = nullptr;
  Finding missing{Kind::missing_call, {}, k, ""}, slow{Kind::slow, {}, k, ""};
  std::string where;
  for (const Rank& r : ranks) {
    auto it = r.collectives.find(k);
    bool begun = it != r.collectives.end() && it->second->state != OpState::enqueued;
    if (begun) {
      if (open(*it->second) && waits == nullptr) waits = &r;
    } else if (r.running != nullptr) {
      slow.ranks.push_back(r.rank);
      where = name(*r.running);
    } else if (it == r.collectives.end()) {
      missing.ranks.push_back(r.rank);
    }
  }
  if (waits == nullptr) return std::nullopt;
  std::string what = name(*waits->collectives.at(k));
  if (!missing.ranks.empty()) {
    missing.text = list(missing.ranks) + " did not call " + what + ", in which rank " +
                   std::to_string(waits->rank) + " waits";
    return missing;
  }
  if (slow.ranks.empty()) return std::nullopt;
  slow.text = list(slow.ranks) + " is still in " + where + ", while rank " + std::to_string(waits->rank) +
              " waits in " + what;
  return slow;
}

// Messages whose other side was not called, or differs.
std::optional<Finding> messages(const std::vector<Rank>& ranks) {
  for (const Rank& r : ranks) {
    if (r.running == nullptr || is_collective(r.running->kind)) continue;
    const OpRecord& mine = *r.running;
    OpKind wanted = mine.kind == OpKind::send ? OpKind::recv : OpKind::send;
    for (const Rank& peer : ranks) {
      if (peer.rank != mine.root) continue;
      const OpRecord* theirs = nullptr;
      for (const OpRecord& record : peer.report->records)
        if (record.kind == wanted && record.root == r.rank && record.sequence == mine.sequence)
          theirs = &record;
      if (theirs == nullptr)
        return Finding{Kind::missing_call,
                       {peer.rank},
                       0,
                       "rank " + std::to_string(peer.rank) + " did not call " + to_string(wanted) + " #" +
                           std::to_string(mine.sequence) + ", while rank " + std::to_string(r.rank) +
                           " waits in " + name(mine)};
      if (theirs->dtype != mine.dtype || theirs->bytes != mine.bytes)
        return Finding{theirs->dtype != mine.dtype ? Kind::wrong_dtype : Kind::wrong_size,
                       {r.rank, peer.rank},
                       0,
                       "rank " + std::to_string(r.rank) + " called " + name(mine) + ", rank " +
                           std::to_string(peer.rank) + " " + name(*theirs)};
      if (theirs->state == OpState::enqueued && peer.running != nullptr)
        return Finding{Kind::slow,
                       {peer.rank},
                       0,
                       "rank " + std::to_string(peer.rank) + " is still in " + name(*peer.running) +
                           ", while rank " + std::to_string(r.rank) + " waits in " + name(mine)};
    }
  }
  return std::nullopt;
}

// All are in the same collective: bytes that do not pass, or one that began late.
std::optional<Finding> inside(const std::vector<Rank>& ranks) {
  for (const Rank& a : ranks)
    for (const Rank& b : ranks)
      if (a.rank < b.rank && a.running != nullptr && b.running != nullptr &&
          a.running->waiting_for == b.rank && b.running->waiting_for == a.rank)
        return Finding{Kind::partitioned,
                       {a.rank, b.rank},
                       a.running->sequence,
                       "ranks " + std::to_string(a.rank) + " and " + std::to_string(b.rank) +
                           " wait for each other's bytes in " + name(*a.running)};
  const Rank *first = nullptr, *last = nullptr;
  auto age = [](const Rank* r) { return r->report->taken_ns - r->running->started_ns; };
  for (const Rank& r : ranks) {
    if (r.running == nullptr) continue;
    if (first == nullptr || age(&r) > age(first)) first = &r;
    if (last == nullptr || age(&r) < age(last)) last = &r;
  }
  // A rank that began in the second half of the time that the first one has waited.
  if (first == nullptr || first->running->sequence != last->running->sequence || age(last) * 2 > age(first))
    return std::nullopt;
  return Finding{Kind::slow,
                 {last->rank},
                 last->running->sequence,
                 "rank " + std::to_string(last->rank) + " began " + name(*last->running) + " " +
                     seconds(age(first) - age(last)) + " after rank " + std::to_string(first->rank)};
}

}  // namespace

const char* to_string(Kind kind) {
  constexpr const char* kNames[] = {"dead",        "partitioned", "missing call",  "wrong operation",
                                    "wrong dtype", "wrong size",  "swapped order", "slow"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::optional<Finding> diagnose(const std::vector<RankReport>& reports, int size) {
  if (auto finding = gone(reports)) return finding;
  std::vector<Rank> ranks;
  std::uint64_t first = 0, last = 0;
  for (const RankReport& report : reports) {
    if (report.rank < 0 || report.rank >= size) continue;
    Rank r{report.rank, &report, {}, nullptr};
    for (const OpRecord& record : report.records) {
      if (is_collective(record.kind)) r.collectives[record.sequence] = &record;
      if (r.running == nullptr && (record.state == OpState::started || record.state == OpState::failed))
        r.running = &record;
    }
    if (!r.collectives.empty()) {
      first = std::max(first, r.collectives.begin()->first);
      last = std::max(last, r.collectives.rbegin()->first);
    }
    ranks.push_back(std::move(r));
  }
  if (ranks.size() < 2) return std::nullopt;
  std::sort(ranks.begin(), ranks.end(), [](auto& a, auto& b) { return a.rank < b.rank; });
  for (std::uint64_t k = first; k <= last; ++k) {
    if (auto finding = disagreement(ranks, k)) return finding;
    if (auto finding = behind(ranks, k)) {
      if (finding->kind == Kind::slow)
        if (auto message = messages(ranks)) return message;
      return finding;
    }
  }
  if (auto finding = messages(ranks)) return finding;
  return inside(ranks);
}

}  // namespace troupe
