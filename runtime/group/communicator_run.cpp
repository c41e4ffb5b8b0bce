// What the communicator's thread does for each kind of operation (communicator.h): it connects, agrees with
// the other ranks, moves the elements, and makes a failure of the connections one of the operation.
#include <algorithm>
#include <cstring>
#include <map>

#include "core/base/clock.h"
#include "core/codec/archive.h"
#include "runtime/group/communicator.h"
#include "runtime/group/diagnosis.h"
#include "runtime/group/host_path.h"
#include "runtime/group/nccl_path.h"

namespace troupe {
namespace {

bool one_memory(const Tensor& a, const Tensor& b) {
  return a.defined() && b.defined() && a.data() == b.data() && a.strides() == b.strides() &&
         a.shape() == b.shape();
}

std::span<const std::byte> bytes_of(const Tensor& packed) {
  return {static_cast<const std::byte*>(packed.data()), packed.nbytes()};
}

}  // namespace

Communicator::Outcome Communicator::execute(Item& item) {
  if (auto why = broken()) return {*why, true};
  if (item.operation.kind == OpKind::connect) return connect_all(item);
  if (!path_)
    return {
        Error(ErrorKind::invalid_argument, "the communicator is not connected: call connect() first, once"),
        true};
  if (item.operation.kind == OpKind::split) return split(item);
  return is_collective(item.operation.kind) ? collective(item) : message(item);
}

Communicator::Outcome Communicator::connect_all(Item& item) {
  if (path_ || item.sequence != 0)
    return {Error(ErrorKind::invalid_argument,
                  "connect() is the first operation of a communicator, and called once"),
            false};
  std::unique_ptr<DataPath> path;
  if (options_.device.is_cpu()) {
    path = make_host_path(*mesh_, options_.rank, options_.size);
  } else {
    auto made = make_nccl_path(options_.rank, options_.size, options_.device, *mesh_);
    if (!made) return {made.error(), true};
    path = std::move(*made);
  }
  auto mesh_address = mesh_->address();
  if (!mesh_address) return {mesh_address.error(), true};
  auto path_address = path->address();
  if (!path_address) return {path_address.error(), true};
  Writer to;
  encode(to, std::pair(*mesh_address, std::pair(*path_address, options_.place)));
  std::string mine(reinterpret_cast<const char*>(to.bytes().data()), to.size());
  auto theirs = exchange_->all_gather(mine, item.operation.deadline_ns);
  if (!theirs) return {theirs.error(), true};
  if (theirs->size() != static_cast<std::size_t>(options_.size))
    return {Error(ErrorKind::internal,
                  "the exchange of addresses gave those of " + std::to_string(theirs->size()) + " ranks"),
            true};
  std::vector<std::string> mesh_addresses, path_addresses;
  std::map<std::string, int> places;
  for (const std::string& bytes : *theirs) {
    std::pair<std::string, std::pair<std::string, std::string>> both;
    Reader from(std::as_bytes(std::span(bytes.data(), bytes.size())));
    decode(from, both);
    mesh_addresses.push_back(std::move(both.first));
    path_addresses.push_back(std::move(both.second.first));
    int rank = static_cast<int>(mesh_addresses.size()) - 1;
    auto [at, alone] = places.emplace(both.second.second, rank);
    if (!alone && !at->first.empty())
      return {Error(ErrorKind::invalid_argument, "ranks " + std::to_string(at->second) + " and " +
                                                     std::to_string(rank) + " are both on " + at->first +
                                                     ": each rank of such a group needs one of its own"),
              true};
  }
  if (!mesh_->connect(mesh_addresses)) return mesh_failure(item);
  agreement_ = std::make_unique<Agreement>(*mesh_, options_.rank, options_.size);
  {
    std::lock_guard lock(mutex_);
    path_ = std::move(path);
    if (broken_) return {*broken_, true};
  }
  // All have connected, and are of one generation.
  CheckHeader header = header_of(item.operation, item.sequence, options_.rank);
  header.shape[0] = static_cast<std::int64_t>(options_.generation);
  if (!agreement_->exchange(header, {}, contributions_)) return mesh_failure(item);
  if (auto wrong = check(contributions_)) return {*wrong, true};
  if (auto done = path_->connect(path_addresses); !done) return {done.error(), true};
  std::lock_guard lock(mutex_);
  connected_ = true;
  return {};
}

Communicator::Outcome Communicator::collective(Item& item) {
  Operation& operation = item.operation;
  CheckHeader header = header_of(operation, item.sequence, options_.rank);
  std::string fault = find_fault(operation, options_.rank, options_.size, path_->device());
  if (fault.empty()) fault = path_->fault(operation);
  std::span<const std::byte> payload;
  Tensor in;
  Plan plan;
  plan.operation = &operation;
  if (!fault.empty()) {
    header.flags = CheckHeader::kFault;
    payload = std::as_bytes(std::span(fault.data(), fault.size()));
  } else if (operation.gives(options_.rank)) {
    in = operation.in.is_contiguous() ? operation.in : path_->pack(operation.in);
    plan.in = static_cast<const std::byte*>(in.data());
    std::size_t counts = operation.send_counts.size() * 8;
    bool small = path_->device().is_cpu() && counts + in.nbytes() <= agreement_->small();
    if (small) {
      header.flags |= CheckHeader::kElements;
      payload = bytes_of(in);
    }
    if (counts != 0) {
      header.flags |= CheckHeader::kCounts;
      payload_.resize(counts + payload.size());
      std::memcpy(payload_.data(), operation.send_counts.data(), counts);
      if (!payload.empty()) std::memcpy(payload_.data() + counts, payload.data(), payload.size());
      payload = payload_;
    }
  }
  if (!agreement_->exchange(header, payload, contributions_)) return mesh_failure(item);
  if (auto wrong = check(contributions_)) return {*wrong, false};

  plan.dtype = header.dtype;
  plan.tag = Agreement::tag(item.sequence);
  bool small = true;
  int r = 0;
  for (const Contribution& c : contributions_) {
    plan.in_counts.push_back(std::max<std::int64_t>(c.header.in_count, 0));
    plan.out_counts.push_back(std::max<std::int64_t>(c.header.out_count, 0));
    if (c.header.in_count >= 0 && (c.header.flags & CheckHeader::kElements) == 0) small = false;
    if (operation.kind == OpKind::all_to_all) {
      plan.send_counts.push_back(count_between(contributions_, options_.rank, r));
      plan.recv_counts.push_back(count_between(contributions_, r, options_.rank));
    }
    ++r;
  }
  Tensor out;
  if (operation.takes(options_.rank)) {
    bool packed = operation.out.is_contiguous();
    bool in_place = in.defined() && one_memory(operation.in, operation.out);
    out = packed ? operation.out : in_place ? in : path_->packed_like(operation.out);
    plan.out = static_cast<std::byte*>(out.data());
  }
  return run_plan(item, plan, out, small ? &contributions_ : nullptr);
}

Communicator::Outcome Communicator::message(Item& item) {
  Operation& operation = item.operation;
  bool sends = operation.kind == OpKind::send;
  int peer = operation.root;
  std::string fault = find_fault(operation, options_.rank, options_.size, path_->device());
  if (peer < 0 || peer >= options_.size || peer == options_.rank)
    return {Error(ErrorKind::invalid_argument, "rank " + std::to_string(options_.rank) + " called " +
                                                   to_string(operation.kind) + ", and " + fault),
            false};
  CheckHeader header = header_of(operation, item.sequence, options_.rank);
  std::span<const std::byte> payload;
  Tensor in, out;
  Plan plan;
  plan.operation = &operation;
  if (!fault.empty()) {
    header.flags = CheckHeader::kFault;
    payload = std::as_bytes(std::span(fault.data(), fault.size()));
  } else if (sends) {
    in = operation.in.is_contiguous() ? operation.in : path_->pack(operation.in);
    plan.in = static_cast<const std::byte*>(in.data());
    if (path_->device().is_cpu() && in.nbytes() <= agreement_->small()) {
      header.flags |= CheckHeader::kElements;
      payload = bytes_of(in);
    }
  } else {
    out = operation.out.is_contiguous() ? operation.out : path_->packed_like(operation.out);
    plan.out = static_cast<std::byte*>(out.data());
  }
  int from = sends ? options_.rank : peer, to = sends ? peer : options_.rank;
  Contribution theirs, mine{header, payload};
  if (!agreement_->exchange(item.sequence, from, to, header, payload, theirs)) return mesh_failure(item);
  if (auto wrong = sends ? check_message(mine, from, theirs, to) : check_message(theirs, from, mine, to))
    return {*wrong, false};
  if (sends && (header.flags & CheckHeader::kElements) != 0) return {};
  if (!sends && (theirs.header.flags & CheckHeader::kElements) != 0) {
    if (!theirs.payload.empty()) std::memcpy(plan.out, theirs.payload.data(), theirs.payload.size());
    if (out.data() != operation.out.data()) path_->unpack(operation.out, out);
    return {};
  }
  plan.dtype = header.dtype;
  plan.tag = Agreement::message_tag(item.sequence);
  plan.in_counts.assign(static_cast<std::size_t>(options_.size), std::max<std::int64_t>(header.in_count, 0));
  plan.out_counts.assign(static_cast<std::size_t>(options_.size),
                         std::max<std::int64_t>(header.out_count, 0));
  return run_plan(item, plan, out, nullptr);
}

Communicator::Outcome Communicator::run_plan(Item& item, Plan& plan, const Tensor& out,
                                             const std::vector<Contribution>* small) {
  if (small != nullptr) {
    finish_small(plan, options_.rank, *small);
  } else if (!path_->run(plan)) {
    if (mesh_->failed()) return mesh_failure(item);
    return {path_->failure(), true};
  }
  if (out.defined() && out.data() != item.operation.out.data()) path_->unpack(item.operation.out, out);
  return {};
}

// What the operation ends with after the mesh has failed.
Communicator::Outcome Communicator::mesh_failure(const Item& item) {
  std::optional<MeshFailure> failure = mesh_->failure();
  if (!failure) return {Error(ErrorKind::internal, "the mesh failed without a reason"), true};
  if (failure->connection_lost) {
    // Who watches over the ranks knows why; give it the time to say so.
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, options_.grace, [&] { return broken_.has_value(); });
    if (broken_) return {*broken_, true};
  }
  if (auto why = broken()) return {*why, true};
  // A neighbour whose deadline passed first has closed its connections.
  bool late_too = failure->connection_lost && steady_ns() >= item.operation.deadline_ns;
  if (late_too || failure->error.kind == ErrorKind::deadline_exceeded) return {late(item, *failure), true};
  Error error = failure->error;
  error.message = std::string(to_string(item.operation.kind)) + " #" + std::to_string(item.sequence) + ": " +
                  error.message;
  return {error, true};
}

Error Communicator::late(const Item& item, const MeshFailure& failure) {
  RankReport mine = recorder_.report();
  auto all = exchange_->collect(mine, deadline_after(options_.collecting));
  Error error(ErrorKind::deadline_exceeded,
              std::string(to_string(item.operation.kind)) + " #" + std::to_string(item.sequence) +
                  " of a group of " + std::to_string(options_.size) + " ranks, generation " +
                  std::to_string(options_.generation) + ": " + failure.error.message);
  if (auto finding = diagnose(all, options_.size)) error.message += "; " + finding->text;
  error.because(
      Error(ErrorKind::deadline_exceeded,
            "the last operations of rank " + std::to_string(options_.rank) + ":\n" + to_text(mine, 8)));
  return error;
}

}  // namespace troupe
