#include "runtime/group/communicator.h"

#include <signal.h>

#include <algorithm>

#include "core/base/clock.h"
#include "runtime/group/gloo_mesh.h"
#include "runtime/group/socket_mesh.h"

namespace troupe {
namespace {

Operation make(OpKind kind, Tensor in, Tensor out, Communicator::Limit limit) {
  Operation operation;
  operation.kind = kind;
  operation.in = std::move(in);
  operation.out = std::move(out);
  if (limit.count() > 0) operation.deadline_ns = deadline_after(limit);
  return operation;
}

// A connection that its peer has closed must be an error of the write, not the end of the process.
void ignore_broken_pipes() {
  struct sigaction now {};
  if (sigaction(SIGPIPE, nullptr, &now) == 0 && now.sa_handler == SIG_DFL) signal(SIGPIPE, SIG_IGN);
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
  // Without an operation nothing has to be aborted, and the connections are not reset.
  bool idle = !busy_ && queue_.empty();
  if (idle && !broken_) broken_ = why;
  lock.unlock();
  if (!idle) abort(why);
  // Not before it is broken: the thread, which may have ended the last operation meanwhile, must not look for
  // another in an empty queue.
  lock.lock();
  stopping_ = true;
  changed_.notify_all();
  lock.unlock();
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
  if (operation.deadline_ns == 0) operation.deadline_ns = deadline_after(options_.limit);
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

}  // namespace troupe
