#include "runtime/group/operation.h"

#include <numeric>

namespace troupe {
namespace {

constexpr const char* kNames[kOpKinds] = {
    "connect", "barrier", "broadcast",  "all_reduce", "reduce", "reduce_scatter", "all_gather",
    "gather",  "scatter", "all_to_all", "send",       "recv",   "split"};

std::string fault_of(const char* which, const Tensor& tensor, Device device) {
  if (!tensor.defined())
    return std::string("its ") + which + " tensor is undefined: make one, or do not free it before";
  if (tensor.device() != device)
    return std::string("its ") + which + " tensor is " + tensor.describe() + ", but the group works on " +
           to_string(device);
  return "";
}

}  // namespace

const char* to_string(OpKind kind) {
  auto i = static_cast<std::size_t>(kind);
  return i < kOpKinds ? kNames[i] : "?";
}

bool is_collective(OpKind kind) { return kind != OpKind::send && kind != OpKind::recv; }

bool has_root(OpKind kind) {
  return kind == OpKind::broadcast || kind == OpKind::reduce || kind == OpKind::gather ||
         kind == OpKind::scatter;
}

bool reduces(OpKind kind) {
  return kind == OpKind::all_reduce || kind == OpKind::reduce || kind == OpKind::reduce_scatter;
}

bool Operation::gives(int rank) const {
  switch (kind) {
    case OpKind::connect:
    case OpKind::barrier:
    case OpKind::recv:
    case OpKind::split:
      return false;
    case OpKind::broadcast:
    case OpKind::scatter:
      return rank == root;
    default:
      return true;
  }
}

bool Operation::takes(int rank) const {
  switch (kind) {
    case OpKind::connect:
    case OpKind::barrier:
    case OpKind::send:
    case OpKind::split:
      return false;
    case OpKind::reduce:
    case OpKind::gather:
      return rank == root;
    default:
      return true;
  }
}

std::string find_fault(const Operation& operation, int rank, int size, Device device) {
  const auto& [kind, op, root, in, out, send_counts, deadline, color, key, sub] = operation;
  if ((has_root(kind) || !is_collective(kind)) && (root < 0 || root >= size))
    return (is_collective(kind) ? "its root is rank " : "its peer is rank ") + std::to_string(root) +
           ", but the ranks are 0.." + std::to_string(size - 1);
  if (!is_collective(kind) && root == rank) return "its peer is the rank itself: copy the tensor instead";
  if (operation.gives(rank)) {
    if (auto fault = fault_of("input", in, device); !fault.empty()) return fault;
  }
  if (operation.takes(rank)) {
    if (auto fault = fault_of("output", out, device); !fault.empty()) return fault;
    if (out.numel() > 1 && !out.is_contiguous()) {
      for (int i = 0; i < out.rank(); ++i)
        if (out.strides()[i] == 0 && out.shape()[i] > 1)
          return "its output tensor has elements that share memory";
    }
  }
  if (operation.gives(rank) && operation.takes(rank) && in.dtype() != out.dtype())
    return std::string("its input is ") + to_string(in.dtype()) + ", its output " + to_string(out.dtype()) +
           ": convert one of them";
  if (reduces(kind) && !is_defined(op, in.dtype()))
    return std::string(to_string(op)) + " is not defined for " + to_string(in.dtype());
  if (kind == OpKind::all_reduce && in.shape() != out.shape())
    return "its input is " + in.describe() + ", its output " + out.describe() + ": they must have one shape";
  if (kind == OpKind::reduce && rank == root && in.shape() != out.shape())
    return "its input is " + in.describe() + ", its output " + out.describe() + ": they must have one shape";
  if (kind != OpKind::all_to_all) return "";
  if (send_counts.empty())
    return in.numel() % size == 0
               ? ""
               : "its " + std::to_string(in.numel()) + " elements cannot be divided evenly among " +
                     std::to_string(size) + " ranks: give counts";
  std::int64_t sum = 0;
  for (std::int64_t count : send_counts) {
    if (count < 0) return "one of its counts is negative";
    sum += count;
  }
  if (send_counts.size() != static_cast<std::size_t>(size) || sum != in.numel())
    return "its " + std::to_string(send_counts.size()) + " counts add up to " + std::to_string(sum) +
           ", but there are " + std::to_string(size) + " ranks and " + std::to_string(in.numel()) +
           " elements";
  return "";
}

}  // namespace troupe
