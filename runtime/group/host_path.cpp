#include "runtime/group/host_path.h"

#include <algorithm>
#include <cstring>

#include "runtime/group/ring.h"

namespace troupe {
namespace {

void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes != 0 && to != from) std::memmove(to, from, bytes);
}

class HostPath final : public DataPath {
 public:
  HostPath(Mesh& mesh, int rank, int size) : mesh_(mesh), rank_(rank), size_(size) {}

  Device device() const override { return Device::cpu(); }
  Tensor pack(const Tensor& from) override { return from.clone(); }
  Tensor packed_like(const Tensor& tensor) override { return Tensor::empty(tensor.dtype(), tensor.shape()); }
  void unpack(const Tensor& to, const Tensor& packed) override { to.copy_from(packed); }

  bool run(const Plan& plan) override {
    switch (plan.operation->kind) {
      case OpKind::broadcast:
        return broadcast(plan);
      case OpKind::all_reduce:
        return all_reduce(plan);
      case OpKind::reduce:
        return reduce(plan);
      case OpKind::reduce_scatter:
        return reduce_scatter(plan);
      case OpKind::all_gather:
        return all_gather(plan);
      case OpKind::gather:
        return gather(plan);
      case OpKind::scatter:
        return scatter(plan);
      case OpKind::all_to_all:
        return all_to_all(plan);
      case OpKind::send:
        return send(plan.operation->root, plan.tag, plan.in, bytes(plan, plan.in_counts[at(rank_)]));
      case OpKind::recv:
        return recv(plan.operation->root, plan.tag, plan.out, bytes(plan, plan.out_counts[at(rank_)]));
      case OpKind::connect:
      case OpKind::barrier:
      case OpKind::split:
        return true;
    }
    return true;
  }

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  static std::size_t bytes(const Plan& plan, std::int64_t count) {
    return static_cast<std::size_t>(count) * size_of(plan.dtype);
  }

  Ring ring(const Plan& plan, std::byte* memory, std::vector<std::size_t> bounds) {
    return {mesh_, rank_, size_, plan.tag, memory, std::move(bounds)};
  }

  bool send(int peer, std::uint64_t tag, const std::byte* from, std::size_t count) {
    auto buffer = mesh_.buffer(const_cast<std::byte*>(from), count);
    if (count != 0) buffer->send(peer, tag, 0, count);
    return count == 0 || buffer->wait_send();
  }
  bool recv(int peer, std::uint64_t tag, std::byte* to, std::size_t count) {
    auto buffer = mesh_.buffer(to, count);
    if (count != 0) buffer->recv(peer, tag, 0, count);
    return count == 0 || buffer->wait_recv();
  }

  bool broadcast(const Plan& plan) {
    std::int64_t count = plan.out_counts[at(rank_)];
    if (rank_ == plan.operation->root) copy_bytes(plan.out, plan.in, bytes(plan, count));
    return size_ == 1 ||
           chain_broadcast(mesh_, rank_, size_, plan.tag, plan.operation->root, plan.out, bytes(plan, count));
  }

  // Combines `count` elements in `memory`; then block `rank` of the bounds is right.
  bool combine(const Plan& plan, std::byte* memory, const std::vector<std::size_t>& bounds) {
    if (!ring(plan, memory, bounds).reduce_scatter(plan.operation->op, plan.dtype)) return false;
    std::size_t begin = bounds[at(rank_)], end = bounds[at(rank_) + 1];
    if (plan.operation->op == ReduceOp::average)
      divide(plan.dtype, memory + begin, (end - begin) / size_of(plan.dtype), size_);
    return true;
  }

  bool all_reduce(const Plan& plan) {
    std::int64_t count = plan.in_counts[at(rank_)];
    copy_bytes(plan.out, plan.in, bytes(plan, count));
    auto bounds = even_bounds(count, size_of(plan.dtype), size_);
    return combine(plan, plan.out, bounds) && ring(plan, plan.out, bounds).all_gather();
  }

  bool reduce(const Plan& plan) {
    std::int64_t count = plan.in_counts[at(rank_)];
    int root = plan.operation->root;
    std::unique_ptr<std::byte[]> own;
    std::byte* memory = plan.out;
    if (rank_ != root) {
      own = std::make_unique_for_overwrite<std::byte[]>(bytes(plan, count));
      memory = own.get();
    }
    copy_bytes(memory, plan.in, bytes(plan, count));
    auto bounds = even_bounds(count, size_of(plan.dtype), size_);
    return combine(plan, memory, bounds) &&
           gather_blocks(plan.tag, root, memory + bounds[at(rank_)], memory, bounds);
  }

  bool reduce_scatter(const Plan& plan) {
    std::size_t total = bytes(plan, plan.in_counts[at(rank_)]);
    auto own = std::make_unique_for_overwrite<std::byte[]>(total);
    copy_bytes(own.get(), plan.in, total);
    auto bounds = bounds_of(plan.out_counts, size_of(plan.dtype));
    if (!combine(plan, own.get(), bounds)) return false;
    copy_bytes(plan.out, own.get() + bounds[at(rank_)], bounds[at(rank_) + 1] - bounds[at(rank_)]);
    return true;
  }

  bool all_gather(const Plan& plan) {
    auto bounds = bounds_of(plan.in_counts, size_of(plan.dtype));
    copy_bytes(plan.out + bounds[at(rank_)], plan.in, bounds[at(rank_) + 1] - bounds[at(rank_)]);
    return ring(plan, plan.out, bounds).all_gather();
  }

  bool gather(const Plan& plan) {
    return gather_blocks(plan.tag, plan.operation->root, plan.in, plan.out,
                         bounds_of(plan.in_counts, size_of(plan.dtype)));
  }

  // To the root's memory, where its own block may be already.
  bool gather_blocks(std::uint64_t tag, int root, const std::byte* block, std::byte* memory,
                     const std::vector<std::size_t>& bounds) {
    std::size_t own = bounds[at(rank_) + 1] - bounds[at(rank_)];
    if (rank_ != root) return send(root, tag, block, own);
    copy_bytes(memory + bounds[at(rank_)], block, own);
    auto buffer = mesh_.buffer(memory, bounds.back());
    int waiting = 0;
    for (int i = 0; i < size_; ++i) {
      std::size_t count = bounds[at(i) + 1] - bounds[at(i)];
      if (i == root || count == 0) continue;
      buffer->recv(i, tag, bounds[at(i)], count);
      ++waiting;
    }
    while (waiting-- > 0)
      if (!buffer->wait_recv()) return false;
    return !mesh_.failed();
  }

  bool scatter(const Plan& plan) {
    auto bounds = bounds_of(plan.out_counts, size_of(plan.dtype));
    std::size_t own = bounds[at(rank_) + 1] - bounds[at(rank_)];
    if (rank_ != plan.operation->root) return recv(plan.operation->root, plan.tag, plan.out, own);
    auto buffer = mesh_.buffer(const_cast<std::byte*>(plan.in), bounds.back());
    int waiting = 0;
    for (int i = 0; i < size_; ++i) {
      std::size_t count = bounds[at(i) + 1] - bounds[at(i)];
      if (i == rank_ || count == 0) continue;
      buffer->send(i, plan.tag, bounds[at(i)], count);
      ++waiting;
    }
    while (waiting-- > 0)
      if (!buffer->wait_send()) return false;
    copy_bytes(plan.out, plan.in + bounds[at(rank_)], own);
    return !mesh_.failed();
  }

  // In steps: at step s this rank sends to the s-th behind it and receives from the s-th before it.
  bool all_to_all(const Plan& plan) {
    auto give = bounds_of(plan.send_counts, size_of(plan.dtype)),
         take = bounds_of(plan.recv_counts, size_of(plan.dtype));
    std::unique_ptr<std::byte[]> aside;  // of elements that arriving ones would overwrite
    const std::byte* from = plan.in;
    if (plan.in == plan.out && give.back() != 0) {
      aside = std::make_unique_for_overwrite<std::byte[]>(give.back());
      copy_bytes(aside.get(), plan.in, give.back());
      from = aside.get();
    }
    copy_bytes(plan.out + take[at(rank_)], from + give[at(rank_)], give[at(rank_) + 1] - give[at(rank_)]);
    auto out = mesh_.buffer(const_cast<std::byte*>(from), give.back());
    auto in = mesh_.buffer(plan.out, take.back());
    for (int s = 1; s < size_; ++s) {
      int to = (rank_ + s) % size_, source = (rank_ - s + size_) % size_;
      std::size_t gives = give[at(to) + 1] - give[at(to)], takes = take[at(source) + 1] - take[at(source)];
      if (takes != 0) in->recv(source, plan.tag, take[at(source)], takes);
      if (gives != 0) out->send(to, plan.tag, give[at(to)], gives);
      if (takes != 0 && !in->wait_recv()) return false;
      if (gives != 0 && !out->wait_send()) return false;
    }
    return !mesh_.failed();
  }

  Mesh& mesh_;
  const int rank_, size_;
};

}  // namespace

std::unique_ptr<DataPath> make_host_path(Mesh& mesh, int rank, int size) {
  return std::make_unique<HostPath>(mesh, rank, size);
}

void finish_small(const Plan& plan, int rank, const std::vector<Contribution>& all) {
  const Operation& operation = *plan.operation;
  std::size_t unit = size_of(plan.dtype);
  auto me = static_cast<std::size_t>(rank), root = static_cast<std::size_t>(operation.root);
  std::size_t out_bytes = static_cast<std::size_t>(plan.out_counts[me]) * unit;
  if (plan.out == nullptr || out_bytes == 0) return;
  // Where the elements begin: an all_to_all's may follow its counts.
  auto elements_of = [&](std::size_t r) {
    bool counts = (all[r].header.flags & CheckHeader::kCounts) != 0;
    return all[r].payload.data() + (counts ? all.size() * 8 : 0);
  };
  if (reduces(operation.kind)) {
    std::size_t begin = 0;
    if (operation.kind == OpKind::reduce_scatter)
      for (std::size_t r = 0; r < me; ++r) begin += static_cast<std::size_t>(plan.out_counts[r]) * unit;
    std::vector<const std::byte*> blocks;
    for (std::size_t r = 0; r < all.size(); ++r) blocks.push_back(elements_of(r) + begin);
    return reduce_blocks(operation.op, plan.dtype, plan.out, blocks, out_bytes / unit);
  }
  if (operation.kind == OpKind::broadcast) return copy_bytes(plan.out, elements_of(root), out_bytes);
  if (operation.kind == OpKind::scatter) {
    auto bounds = bounds_of(plan.out_counts, unit);
    return copy_bytes(plan.out, elements_of(root) + bounds[me], out_bytes);
  }
  std::byte* to = plan.out;  // all_gather, gather, all_to_all
  for (std::size_t r = 0; r < all.size(); ++r) {
    std::size_t from = 0, count = static_cast<std::size_t>(plan.in_counts[r]);
    if (operation.kind == OpKind::all_to_all) {
      count = static_cast<std::size_t>(plan.recv_counts[r]);
      for (int i = 0; i < rank; ++i)
        from += static_cast<std::size_t>(count_between(all, static_cast<int>(r), i));
    }
    copy_bytes(to, elements_of(r) + from * unit, count * unit);
    to += count * unit;
  }
}

}  // namespace troupe
