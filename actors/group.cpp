#include "troupe/group.h"

#include <set>

#include "runtime/group/member.h"
#include "runtime/process/process.h"
#include "troupe/context.h"
#include "troupe/errors.h"

namespace troupe {
namespace {

[[noreturn]] void refuse(std::string why) {
  throw_failure(Error(ErrorKind::invalid_argument, std::move(why)));
}

}  // namespace

Group::Group(const std::vector<ActorId>& members, const GroupOptions& options) {
  if (members.empty()) refuse("a group needs members");
  if (std::set<ActorId>(members.begin(), members.end()).size() != members.size()) {
    refuse("an actor is twice a member of the group");
  }
  auto description = std::make_shared<GroupDescription>();
  description->id = Process::get().new_group();
  for (ActorId member : members) description->members.push_back(member.value);
  description->gpu = options.gpu_;
  description->keep_order = options.keep_order_;
  auto bounded = [](std::chrono::milliseconds time) {
    return static_cast<std::uint32_t>(std::clamp<std::int64_t>(time.count(), 0, UINT32_MAX));
  };
  description->patience_ms = bounded(options.patience_);
  description->limit_ms = bounded(options.deadline_);
  description_ = std::move(description);
}

GroupMember& Group::member() const {
  if (member_) return *member_;
  if (!description_) refuse("this Group is of nobody: make one with make_group");
  const Context& here = context();
  bool ours = false;
  for (auto member : description_->members) ours |= member == here.id().value;
  if (!ours) refuse("actor " + to_string(here.id()) + " is not a member of the group");
  member_ = GroupMember::of(*description_, here.id(), here.incarnation());
  return *member_;
}

std::shared_ptr<Communicator> Group::communicator() const {
  if (sub_) return sub_->communicator;
  auto communicator = member().communicator();
  if (!communicator) refuse("the group has not formed: call join() and wait for it");
  return communicator;
}

Future<void> Group::form(bool reform) {
  if (sub_) refuse("a part of a group forms with it: reform() the group and split it again");
  Promise<void> promise;
  auto future = promise.future();
  member().join(reform, [promise](Result<void> result) mutable {
    if (result)
      promise.set_value();
    else
      promise.set_error(result.error());
  });
  return future;
}

Future<void> Group::join() { return form(false); }
Future<void> Group::reform() { return form(true); }

Future<Group> Group::split(int color, int key) const {
  Promise<Group> promise;
  auto future = promise.future();
  auto sub = std::make_shared<SubGroup>();
  Operation operation;
  operation.kind = OpKind::split;
  operation.color = color;
  operation.key = key;
  operation.sub = sub;
  communicator()
      ->submit(std::move(operation))
      .then([promise, sub, whole = *this](const Result<void>& result) mutable {
        if (!result) return promise.set_error(result.error());
        Group part;
        if (sub->communicator) {
          auto member = std::make_shared<SubGroupMember>();
          auto all = whole.ranks();
          for (int rank : sub->ranks) member->ranks.push_back(all.at(static_cast<std::size_t>(rank)));
          member->communicator = std::move(sub->communicator);
          part.description_ = whole.description_;
          part.member_ = whole.member_;
          part.sub_ = std::move(member);
        }
        promise.set_value(std::move(part));
      });
  return future;
}

void Group::leave() {
  sub_ = nullptr;
  member_ = nullptr;
  description_ = nullptr;
}

int Group::rank() const { return communicator()->rank(); }
int Group::size() const { return communicator()->size(); }
std::uint64_t Group::generation() const { return member().generation(); }
std::vector<ActorId> Group::ranks() const { return sub_ ? sub_->ranks : member().ranks(); }

Future<void> Group::run(Operation operation) const {
  Promise<void> promise;
  auto future = promise.future();
  communicator()->submit(std::move(operation)).then([promise](const Result<void>& result) mutable {
    if (result)
      promise.set_value();
    else
      promise.set_error(result.error());
  });
  return future;
}

Future<void> Group::barrier() const { return run({OpKind::barrier}); }

Future<void> Group::broadcast(Tensor tensor, int root) const {
  return run({OpKind::broadcast, ReduceOp::sum, root, tensor, tensor});
}
Future<void> Group::all_reduce(Tensor tensor, ReduceOp op) const {
  return run({OpKind::all_reduce, op, 0, tensor, tensor});
}
Future<void> Group::reduce(Tensor in, Tensor out, int root, ReduceOp op) const {
  return run({OpKind::reduce, op, root, std::move(in), std::move(out)});
}
Future<void> Group::reduce_scatter(Tensor in, Tensor out, ReduceOp op) const {
  return run({OpKind::reduce_scatter, op, 0, std::move(in), std::move(out)});
}
Future<void> Group::all_gather(Tensor in, Tensor out) const {
  return run({OpKind::all_gather, ReduceOp::sum, 0, std::move(in), std::move(out)});
}
Future<void> Group::gather(Tensor in, Tensor out, int root) const {
  return run({OpKind::gather, ReduceOp::sum, root, std::move(in), std::move(out)});
}
Future<void> Group::scatter(Tensor in, Tensor out, int root) const {
  return run({OpKind::scatter, ReduceOp::sum, root, std::move(in), std::move(out)});
}
Future<void> Group::all_to_all(Tensor in, Tensor out, std::vector<std::int64_t> counts) const {
  return run({OpKind::all_to_all, ReduceOp::sum, 0, std::move(in), std::move(out), std::move(counts)});
}
Future<void> Group::send(Tensor tensor, int to) const {
  return run({OpKind::send, ReduceOp::sum, to, std::move(tensor), {}});
}
Future<void> Group::recv(Tensor tensor, int from) const {
  return run({OpKind::recv, ReduceOp::sum, from, {}, std::move(tensor)});
}

void Group::write(Writer& to) const {
  if (sub_) refuse("a part of a group belongs to the actor that split it: it is no argument and no result");
  encode(to, description_ ? *description_ : GroupDescription{});
}

void Group::read(Reader& from) {
  auto description = std::make_shared<GroupDescription>();
  decode(from, *description);
  member_ = nullptr;
  sub_ = nullptr;
  description_ = description->id != 0 ? std::move(description) : nullptr;
}

}  // namespace troupe
