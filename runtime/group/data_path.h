// DataPath: moves the elements of operations that all ranks have agreed on. One for the CPU's memory, over
// the mesh (host_path.h), one for a GPU's (nccl_path.h). What differs between them is here alone: order,
// deadlines, checks, abort and the flight recorder are the communicator's, above both.
//
// Owner and thread: the communicator's, except abort().
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "runtime/group/check.h"
#include "runtime/group/operation.h"

namespace troupe {

// An operation whose sizes are known and right on all ranks.
struct Plan {
  const Operation* operation = nullptr;
  DType dtype = DType::f32;
  std::uint64_t tag = 0;
  const std::byte* in = nullptr;                       // packed; null where this rank gives nothing
  std::byte* out = nullptr;                            // packed; null where it takes nothing. May be `in`.
  std::vector<std::int64_t> in_counts, out_counts;     // elements, by rank; 0 where there is none
  std::vector<std::int64_t> send_counts, recv_counts;  // all_to_all: between this rank and each
};

class DataPath {
 public:
  virtual ~DataPath() = default;

  // What this rank adds to the bytes that all ranks exchange before they connect, and those of all.
  virtual Result<std::string> address() { return std::string(); }
  virtual Result<void> connect(const std::vector<std::string>&) { return {}; }

  virtual Device device() const = 0;  // where its tensors lie
  // Why it cannot carry out an operation, to be told to all ranks; empty: it can.
  virtual std::string fault(const Operation&) const { return ""; }
  virtual Tensor pack(const Tensor& from) = 0;           // a packed copy on the device
  virtual Tensor packed_like(const Tensor& tensor) = 0;  // packed memory of that shape
  virtual void unpack(const Tensor& to, const Tensor& packed) = 0;
  // False: it has failed; the mesh knows why, or failure() does.
  virtual bool run(const Plan& plan) = 0;
  virtual Error failure() const {
    return Error(ErrorKind::internal, "the data path has no error of its own");
  }
  // Ends run(), now and later. Any thread; returns at once.
  virtual void abort() {}
};

}  // namespace troupe
