#include "runtime/group/check.h"

#include <algorithm>
#include <cstring>
#include <map>

namespace troupe {
namespace {

bool needs_one_shape(OpKind kind) {
  return kind == OpKind::broadcast || kind == OpKind::all_reduce || kind == OpKind::reduce ||
         kind == OpKind::reduce_scatter;
}

std::string shape_text(const CheckHeader& h) {
  std::string text = "[";
  for (int i = 0; i < std::min(h.dims, CheckHeader::kDims); ++i)
    text += (i == 0 ? "" : ", ") + std::to_string(h.shape[i]);
  return text + (h.dims > CheckHeader::kDims ? ", …]" : "]");
}

// What must be the same on all ranks, as a text that errors show.
std::string signature(const CheckHeader& h) {
  std::string text = to_string(h.kind);
  if (h.kind == OpKind::connect) text += " of generation " + std::to_string(h.shape[0]);
  if (reduces(h.kind)) text += std::string(" ") + to_string(h.op);
  if (has_root(h.kind)) text += " from root " + std::to_string(h.root);
  if (h.kind != OpKind::barrier && h.kind != OpKind::connect && h.kind != OpKind::split)
    text += std::string(" of ") + to_string(h.dtype);
  if (h.dims >= 0)
    text +=
        " " + shape_text(h) + ", " + std::to_string(h.in_count >= 0 ? h.in_count : h.out_count) + " elements";
  return text;
}

bool same(const CheckHeader& a, const CheckHeader& b) {
  return a.kind == b.kind && a.dtype == b.dtype && a.op == b.op && a.root == b.root && a.dims == b.dims &&
         std::memcmp(a.shape, b.shape, sizeof a.shape) == 0 &&
         (a.dims < 0 || std::max(a.in_count, a.out_count) == std::max(b.in_count, b.out_count) ||
          a.kind == OpKind::reduce_scatter);
}

std::string list(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  std::size_t shown = std::min<std::size_t>(ranks.size(), 8);
  for (std::size_t i = 0; i < shown; ++i) text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  return shown < ranks.size() ? text + " and " + std::to_string(ranks.size() - shown) + " more" : text;
}

Error wrong(const CheckHeader& h, const std::string& what) {
  return Error(ErrorKind::invalid_argument,
               std::string(is_collective(h.kind) ? "collective" : to_string(h.kind)) + " #" +
                   std::to_string(h.sequence) + ": " + what);
}

std::string fault_text(const Contribution& c) {
  return {reinterpret_cast<const char*>(c.payload.data()), c.payload.size()};
}

std::string size_error(int rank, const char* which, std::int64_t has, std::int64_t needs) {
  return "rank " + std::to_string(rank) + " has an " + which + " tensor of " + std::to_string(has) +
         " elements, but the sizes of the ranks need " + std::to_string(needs);
}

std::optional<Error> check_sizes(const std::vector<Contribution>& all) {
  const CheckHeader& first = all[0].header;
  int size = static_cast<int>(all.size());
  auto in = [&](int r) { return all[static_cast<std::size_t>(r)].header.in_count; };
  auto out = [&](int r) { return all[static_cast<std::size_t>(r)].header.out_count; };
  std::int64_t in_total = 0, out_total = 0;
  for (int r = 0; r < size; ++r) in_total += in(r), out_total += out(r);
  for (int r = 0; r < size; ++r) {
    std::int64_t arrives = 0;
    switch (first.kind) {
      case OpKind::reduce_scatter:
        if (in(r) != out_total) return wrong(first, size_error(r, "input", in(r), out_total));
        break;
      case OpKind::all_gather:
        if (out(r) != in_total) return wrong(first, size_error(r, "output", out(r), in_total));
        break;
      case OpKind::gather:
        if (r == first.root && out(r) != in_total)
          return wrong(first, size_error(r, "output", out(r), in_total));
        break;
      case OpKind::scatter:
        if (r == first.root && in(r) != out_total)
          return wrong(first, size_error(r, "input", in(r), out_total));
        break;
      case OpKind::all_to_all:
        for (int from = 0; from < size; ++from) arrives += count_between(all, from, r);
        if (out(r) != arrives) return wrong(first, size_error(r, "output", out(r), arrives));
        break;
      default:
        break;
    }
  }
  return std::nullopt;
}

}  // namespace

CheckHeader header_of(const Operation& operation, std::uint64_t sequence, int rank) {
  CheckHeader h;
  h.sequence = sequence;
  h.kind = operation.kind;
  h.op = reduces(operation.kind) ? operation.op : ReduceOp::sum;
  h.root = has_root(operation.kind) ? operation.root : 0;
  bool gives = operation.gives(rank) && operation.in.defined();
  bool takes = operation.takes(rank) && operation.out.defined();
  if (gives || takes) h.dtype = (gives ? operation.in : operation.out).dtype();
  if (gives) h.in_count = operation.in.numel();
  if (takes) h.out_count = operation.out.numel();
  if ((gives || takes) && needs_one_shape(operation.kind)) {
    const Dims& shape = (gives ? operation.in : operation.out).shape();
    h.dims = shape.size();
    for (int i = 0; i < std::min(shape.size(), CheckHeader::kDims); ++i) h.shape[i] = shape[i];
  }
  return h;
}

std::optional<Error> check(const std::vector<Contribution>& all) {
  const CheckHeader& first = all[0].header;
  std::string faults;
  int rank = 0;
  for (const Contribution& c : all) {
    if ((c.header.flags & CheckHeader::kFault) != 0)
      faults += (faults.empty() ? "" : "; ") + std::string("rank ") + std::to_string(rank) + " called " +
                to_string(c.header.kind) + ", and " + fault_text(c);
    ++rank;
  }
  if (!faults.empty()) return wrong(first, faults);
  if (std::all_of(all.begin(), all.end(), [&](const Contribution& c) { return same(c.header, first); }))
    return check_sizes(all);
  std::map<std::string, std::vector<int>> calls;
  rank = 0;
  for (const Contribution& c : all) calls[signature(c.header)].push_back(rank++);
  // The ranks that are with the most come last in the text: the odd one is what one looks for.
  std::vector<std::pair<std::vector<int>, std::string>> groups;
  for (auto& [call, ranks] : calls) groups.emplace_back(ranks, call);
  std::stable_sort(groups.begin(), groups.end(),
                   [](auto& a, auto& b) { return a.first.size() < b.first.size(); });
  std::string text = "the ranks do not agree: ";
  for (std::size_t i = 0; i < groups.size(); ++i)
    text += (i == 0 ? "" : "; ") + list(groups[i].first) + " called " + groups[i].second;
  return wrong(first, text + "; all ranks must make the same calls in the same order");
}

std::optional<Error> check_message(const Contribution& sender, int from, const Contribution& receiver,
                                   int to) {
  const CheckHeader &s = sender.header, &r = receiver.header;
  for (auto [side, rank] : {std::pair(&sender, from), std::pair(&receiver, to)}) {
    if ((side->header.flags & CheckHeader::kFault) != 0)
      return wrong(s, "rank " + std::to_string(rank) + " called " + to_string(side->header.kind) + ", and " +
                          fault_text(*side));
  }
  if (s.dtype != r.dtype || s.in_count != r.out_count)
    return wrong(s, "rank " + std::to_string(from) + " sends " + std::to_string(s.in_count) +
                        " elements of " + to_string(s.dtype) + ", rank " + std::to_string(to) + " receives " +
                        std::to_string(r.out_count) + " of " + to_string(r.dtype));
  return std::nullopt;
}

std::int64_t count_between(const std::vector<Contribution>& all, int from, int to) {
  const Contribution& c = all[static_cast<std::size_t>(from)];
  if ((c.header.flags & CheckHeader::kCounts) == 0)
    return c.header.in_count / static_cast<std::int64_t>(all.size());
  std::int64_t count = 0;
  std::memcpy(&count, c.payload.data() + static_cast<std::size_t>(to) * sizeof count, sizeof count);
  return count;
}

}  // namespace troupe
