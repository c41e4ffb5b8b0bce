// One collective or point-to-point operation of one rank, as its caller describes it. Any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/tensor/tensor.h"
#include "runtime/group/reduce_op.h"

namespace troupe {

// Numbers are on the wire: append only.
enum class OpKind : std::uint8_t {
  connect = 0,
  barrier = 1,
  broadcast = 2,
  all_reduce = 3,
  reduce = 4,
  reduce_scatter = 5,
  all_gather = 6,
  gather = 7,
  scatter = 8,
  all_to_all = 9,
  send = 10,
  recv = 11,
  split = 12,
};
inline constexpr int kOpKinds = 13;

const char* to_string(OpKind kind);
bool is_collective(OpKind kind);  // every rank calls it; false for send and recv
bool has_root(OpKind kind);
bool reduces(OpKind kind);

struct SubGroup;  // communicator.h

struct Operation {
  OpKind kind = OpKind::barrier;
  ReduceOp op = ReduceOp::sum;
  int root = 0;  // of collectives that have one; the other rank for send and recv
  Tensor in;     // what this rank gives; undefined where it gives nothing
  Tensor out;    // where the result goes; undefined where there is none. May be `in` itself.
  // all_to_all: elements of `in` for each rank. Empty: `in` is divided evenly.
  std::vector<std::int64_t> send_counts;
  std::int64_t deadline_ns = 0;  // steady nanoseconds
  // split: the part that this rank goes to, none when negative, and the order in it; and where it is put.
  int color = 0, key = 0;
  std::shared_ptr<SubGroup> sub;

  bool gives(int rank) const;  // whether that rank's `in` is needed
  bool takes(int rank) const;  // whether it has an `out`
};

// What is wrong with it for a rank of so many, to be told to all of them; empty: nothing. Tensors of another
// device than `device` are wrong.
std::string find_fault(const Operation& operation, int rank, int size, Device device);

}  // namespace troupe
