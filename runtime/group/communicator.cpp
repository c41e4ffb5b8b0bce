#include "runtime/group/communicator.h"

#include <signal.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "core/base/clock.h"
#include "core/codec/archive.h"
#include "runtime/group/diagnosis.h"
#include "runtime/group/gloo_mesh.h"
#include "runtime/group/host_path.h"
#include "runtime/group/nccl_path.h"
#include "runtime/group/socket_mesh.h"

namespace troupe {
namespace {

Operation make(OpKind kind, Tensor in, Tensor out, Communicator::Limit limit) {
  Operation operation;
  operation.kind = kind;
  operation.in = std::move(in);
  operation.out = std::move(out);
  if (limit.count() > 0) operation.deadline_ns = steady_ns() + limit.count();
  return operation;
}

// A connection that its peer has closed must be an error of the write, not the end of the process.
void ignore_broken_pipes() {
  struct sigaction now {};
  if (sigaction(SIGPIPE, nullptr, &now) == 0 && now.sa_handler == SIG_DFL) signal(SIGPIPE, SIG_IGN);
}

bool one_memory(const Tensor& a, const Tensor& b) {
  return a.defined() && b.defined() && a.data() == b.data() && a.strides() == b.strides() &&
         a.shape() == b.shape();
}

std::span<const std::byte> bytes_of(const Tensor& packed) {
  return {static_cast<const std::byte*>(packed.data()), packed.nbytes()};
}

}  // namespace

Communicator::Communicator(CommunicatorOptions options, std::shared_ptr<Exchange> exchange)
    : options_(std::move(options)),
      exchange_(std::move(exchange)),
      recorder_(options_.rank),
      mesh_(options_.transport == Transport::gloo
                ? make_gloo_mesh(options_.rank, options_.size, options_.host)
                : make_socket_mesh(options_.rank, options_.size, options_.host, options_.token)),
      sent_(static_cast<std::size_t>(std::max(options_.size, 0))),
      received_(sent_.size()) {
  ignore_broken_pipes();
  if (options_.size < 1 || options_.size > Mesh::kMostRanks || options_.rank < 0 ||
      options_.rank >= options_.size)
    broken_ =
        Error(ErrorKind::invalid_argument,
              "rank " + std::to_string(options_.rank) + " of a group of " + std::to_string(options_.size) +
                  ": ranks are 0 to size - 1, of at most " + std::to_string(Mesh::kMostRanks));
  thread_ = std::thread([this] { loop(); });
}

Communicator::~Communicator() {
  Error why(ErrorKind::cancelled, "the communicator was dropped");
  std::unique_lock lock(mutex_);
  stopping_ = true;
  bool idle = !busy_ && queue_.empty();
  // Without an operation nothing has to be aborted, and the connections are not reset.
  if (idle && !broken_) broken_ = why;
  changed_.notify_all();
  lock.unlock();
  if (!idle) abort(why);
  thread_.join();
}

Work Communicator::connect(Limit limit) { return submit(make(OpKind::connect, {}, {}, limit)); }
Work Communicator::barrier(Limit limit) { return submit(make(OpKind::barrier, {}, {}, limit)); }

Work Communicator::broadcast(Tensor tensor, int root, Limit limit) {
  Operation operation = make(OpKind::broadcast, tensor, tensor, limit);
  operation.root = root;
  return submit(std::move(operation));
}
Work Communicator::all_reduce(Tensor in, Tensor out, ReduceOp op, Limit limit) {
  Operation operation = make(OpKind::all_reduce, std::move(in), std::move(out), limit);
  operation.op = op;
  return submit(std::move(operation));
}
Work Communicator::reduce(Tensor in, Tensor out, ReduceOp op, int root, Limit limit) {
  Operation operation = make(OpKind::reduce, std::move(in), std::move(out), limit);
  operation.op = op;
  operation.root = root;
  return submit(std::move(operation));
}
Work Communicator::reduce_scatter(Tensor in, Tensor out, ReduceOp op, Limit limit) {
  Operation operation = make(OpKind::reduce_scatter, std::move(in), std::move(out), limit);
  operation.op = op;
  return submit(std::move(operation));
}
Work Communicator::all_gather(Tensor in, Tensor out, Limit limit) {
  return submit(make(OpKind::all_gather, std::move(in), std::move(out), limit));
}
Work Communicator::gather(Tensor in, Tensor out, int root, Limit limit) {
  Operation operation = make(OpKind::gather, std::move(in), std::move(out), limit);
  operation.root = root;
  return submit(std::move(operation));
}
Work Communicator::scatter(Tensor in, Tensor out, int root, Limit limit) {
  Operation operation = make(OpKind::scatter, std::move(in), std::move(out), limit);
  operation.root = root;
  return submit(std::move(operation));
}
Work Communicator::all_to_all(Tensor in, Tensor out, std::vector<std::int64_t> counts, Limit limit) {
  Operation operation = make(OpKind::all_to_all, std::move(in), std::move(out), limit);
  operation.send_counts = std::move(counts);
  return submit(std::move(operation));
}
Work Communicator::split(int color, int key, std::shared_ptr<SubGroup> out, Limit limit) {
  Operation operation = make(OpKind::split, {}, {}, limit);
  operation.color = color;
  operation.key = key;
  operation.sub = std::move(out);
  return submit(std::move(operation));
}
Work Communicator::send(Tensor tensor, int to, Limit limit) {
  Operation operation = make(OpKind::send, std::move(tensor), {}, limit);
  operation.root = to;
  return submit(std::move(operation));
}
Work Communicator::recv(Tensor tensor, int from, Limit limit) {
  Operation operation = make(OpKind::recv, {}, std::move(tensor), limit);
  operation.root = from;
  return submit(std::move(operation));
}

// Under the lock: sequence numbers are those of the submissions' order.
Communicator::Item Communicator::make_item(Operation operation) {
  Item item;
  if (operation.deadline_ns == 0) operation.deadline_ns = steady_ns() + options_.limit.count();
  bool peer_exists = operation.root >= 0 && operation.root < options_.size;
  auto peer = static_cast<std::size_t>(operation.root);
  if (is_collective(operation.kind))
    // A second connect() is this rank's mistake alone, and no collective.
    item.sequence = operation.kind == OpKind::connect && collectives_ > 0 ? ~0ull : collectives_++;
  else if (peer_exists)
    item.sequence = operation.kind == OpKind::send ? ++sent_[peer] : ++received_[peer];
  OpRecord record;
  record.sequence = item.sequence;
  record.kind = operation.kind;
  record.op = operation.op;
  if (has_root(operation.kind) || !is_collective(operation.kind)) record.root = operation.root;
  const Tensor& tensor = operation.gives(options_.rank) ? operation.in : operation.out;
  if (tensor.defined()) {
    record.dtype = tensor.dtype();
    record.bytes = tensor.nbytes();
  }
  item.record = recorder_.enqueue(record);
  item.operation = std::move(operation);
  return item;
}

Work Communicator::submit(Operation operation) {
  std::lock_guard lock(mutex_);
  if (queue_.size() >= options_.most_queued) {
    Work work;
    work.finish(Error(ErrorKind::overloaded, "rank " + std::to_string(options_.rank) + " has " +
                                                 std::to_string(queue_.size()) +
                                                 " operations of its group queued: wait for some of them"));
    return work;
  }
  queue_.push_back(make_item(std::move(operation)));
  Work work = queue_.back().work;
  if (busy_) mesh_->set_deadline(std::min(mesh_->deadline(), queue_.back().operation.deadline_ns));
  changed_.notify_all();
  return work;
}

Result<void> Communicator::run(Operation operation) {
  std::unique_lock lock(mutex_);
  if (busy_ || !connected_ || broken_ || !queue_.empty()) {
    lock.unlock();
    return submit(std::move(operation)).wait();
  }
  Item item = make_item(std::move(operation));
  busy_ = true;
  mesh_->set_deadline(item.operation.deadline_ns);
  lock.unlock();
  carry_out(item);
  lock.lock();
  busy_ = false;
  if (!queue_.empty() || broken_) changed_.notify_all();
  lock.unlock();
  return item.work.wait();
}

void Communicator::abort(const Error& why) {
  std::vector<std::weak_ptr<Communicator>> parts;
  {
    std::lock_guard lock(mutex_);
    if (broken_) return;
    broken_ = why;
    mesh_->abort(why);
    if (path_) path_->abort();
    parts = std::move(parts_);
    changed_.notify_all();
  }
  for (const auto& one : parts)
    if (auto part = one.lock()) part->abort(why);
  exchange_->cancel(why);
}

std::optional<Error> Communicator::broken() const {
  std::lock_guard lock(mutex_);
  return broken_;
}

std::int64_t Communicator::earliest_deadline(const Item& current) const {
  std::int64_t earliest = current.operation.deadline_ns;
  for (const Item& item : queue_) earliest = std::min(earliest, item.operation.deadline_ns);
  return earliest;
}

void Communicator::loop() {
  bool closed = false;
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return !busy_ && (stopping_ || !queue_.empty() || (broken_ && !closed)); });
    if (broken_) {
      busy_ = true;
      lock.unlock();
      fail_queued();
      if (!closed) {
        // Not before the callers know: closing many connections takes a while.
        agreement_.reset();
        mesh_->close();
        closed = true;
      }
      lock.lock();
      busy_ = false;
      if (stopping_ && queue_.empty()) return;
      continue;
    }
    Item item = std::move(queue_.front());
    queue_.pop_front();
    busy_ = true;
    mesh_->set_deadline(earliest_deadline(item));
    lock.unlock();
    carry_out(item);
    lock.lock();
    busy_ = false;
  }
}

void Communicator::fail_queued() {
  for (;;) {
    std::unique_lock lock(mutex_);
    if (queue_.empty()) return;
    Item item = std::move(queue_.front());
    queue_.pop_front();
    Error why = *broken_;
    lock.unlock();
    recorder_.finish(item.record, false);
    item.work.finish(std::move(why));
  }
}

void Communicator::carry_out(Item& item) {
  recorder_.start(item.record);
  Outcome outcome;
  try {
    outcome = execute(item);
  } catch (const std::exception& error) {
    outcome = {
        Error(ErrorKind::internal, std::string(to_string(item.operation.kind)) + " failed: " + error.what()),
        true};
  }
  int waiting_for = -1;
  if (outcome.breaks) {
    if (auto failure = mesh_->failure(); failure && !failure->ranks.empty())
      waiting_for = failure->ranks.front();
    abort(*outcome.error);
    outcome.error = broken();  // an abort() may have come first
  }
  recorder_.finish(item.record, !outcome.error, waiting_for);
  item.operation.in.reset();
  item.operation.out.reset();
  item.work.finish(std::move(outcome.error));
}

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
  auto all = exchange_->collect(mine, steady_ns() + options_.collecting.count());
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
