// The other half of Transfer: as the home that gives out sources, and as a source.
#include "core/base/log.h"
#include "core/control/kj_error.h"
#include "runtime/objects/transfer/transfer.h"

namespace troupe {

// ---- as the home ----

PullPlan& Transfer::plan() {
  if (!plan_) plan_ = std::make_unique<PullPlan>(host_.node());
  return *plan_;
}

kj::Promise<ObjectSource> Transfer::source(const ObjectId& id, const ObjectAsker& asker) {
  if (!host_.size_of(id)) {
    return kj_exception(Error(ErrorKind::object_lost, "object " + to_string(id) +
                                                          " is not known at its home; all references to it "
                                                          "had ended, or its node began anew"));
  }
  if (here_.port == 0) {
    return kj_exception(
        Error(ErrorKind::unavailable, "the node of object " + to_string(id) + " passes no objects on"));
  }
  sweep();
  addresses_[asker.node] = {asker.host, asker.port};
  auto paf = kj::newPromiseAndFulfiller<ObjectSource>();
  asking_[{id, asker.node}] = kj::mv(paf.fulfiller);
  PullPlan::Assignments out;
  plan().want(id, asker.node, asker.failed, out);
  carry_out(std::move(out));
  return kj::mv(paf.promise);
}

void Transfer::fetched(const ObjectId& id, NodeId puller, bool whole) {
  PullPlan::Assignments out;
  plan().done(id, puller, whole, out);
  carry_out(std::move(out));
}

void Transfer::carry_out(PullPlan::Assignments assignments) {
  for (const auto& one : assignments) {
    auto at = asking_.find({one.id, one.puller});
    if (at == asking_.end()) continue;
    auto fulfiller = kj::mv(at->second);
    asking_.erase(at);
    auto size = host_.size_of(one.id);
    if (!size) {
      fulfiller->reject(
          kj_exception(Error(ErrorKind::object_lost, "object " + to_string(one.id) + " is gone")));
      continue;
    }
    const Address& where = one.source == host_.node() ? here_ : addresses_[one.source];
    fulfiller->fulfill(ObjectSource{one.source, where.host, where.port, *size});
  }
}

// What is told of objects that are gone is forgotten now and then.
void Transfer::sweep() {
  if (plan().objects() < swept_) return;
  plan().forget_if([this](const ObjectId& id) { return !host_.size_of(id); });
  swept_ = std::max<std::size_t>(64, 2 * plan().objects());
}

// ---- as a source ----

void Transfer::serve(kj::Own<SocketStream> stream) {
  struct Coming {
    kj::Own<SocketStream> stream;
    PullRequest request;
  };
  auto coming = std::make_shared<Coming>();
  coming->stream = kj::mv(stream);
  std::weak_ptr<int> alive = alive_;
  auto asked = coming->stream->tryRead(&coming->request, sizeof(PullRequest), sizeof(PullRequest))
                   .then([this, alive, coming](std::size_t size) {
                     if (alive.expired() || size < sizeof(PullRequest)) return;
                     UniqueFd socket = coming->stream->release();
                     if (prepare_pull_socket(socket.get())) serve(std::move(socket), coming->request);
                   });
  loop_.spawn("a request for an object",
              asked.exclusiveJoin(loop_.timer().afterDelay(kRequestTime)).catch_([](kj::Exception&&) {}));
}

void Transfer::serve(UniqueFd socket, const PullRequest& request) {
  if (request.version != PullRequest::kVersion)
    return refuse_pull(socket.get(), Error(ErrorKind::mismatch, "this node speaks another version"));
  ObjectId id = request.id();
  if (auto at = pulls_.find(id); at != pulls_.end()) {
    if (!at->second.place || at->second.stopping)
      return refuse_pull(socket.get(), Error(ErrorKind::unavailable, "nothing of it is here yet"));
    return serve(std::move(socket), request.from, *at->second.place, at->second.filling);
  }
  auto held = std::make_shared<UniqueFd>(std::move(socket));
  std::weak_ptr<int> alive = alive_;
  loop_.spawn("looking for an object",
              host_.pin_copy(id)
                  .then([this, alive, held, id, from = request.from](std::optional<ObjectHost::Place> place) {
                    if (alive.expired()) return;
                    if (!place) {
                      refuse_pull(held->get(), Error(ErrorKind::unavailable, "no copy of it is here"));
                    } else {
                      serve(std::move(*held), from, std::move(*place), nullptr);
                    }
                  })
                  .catch_([held](kj::Exception&& failure) { refuse_pull(held->get(), error_of(failure)); }));
}

void Transfer::serve(UniqueFd socket, std::uint64_t from, ObjectHost::Place place,
                     std::shared_ptr<Filling> filling) {
  if (threads_.full())
    return refuse_pull(socket.get(), Error(ErrorKind::unavailable, "too many objects are under way there"));
  PullSource source{place.arena, place.offset, place.size, filling};
  if (filling) ++passing_[filling.get()].users;
  threads_.start(
      std::move(socket), [source, from](int fd) { return send_object(fd, source, from); },
      [this, place, filling](const Result<void>& result) {  // `place` was pinned until now
        if (!result) log(Level::info, "an object was not sent to its end: " + result.error().message);
        auto at = passing_.find(filling.get());
        if (at != passing_.end() && --at->second.users == 0) passing_.erase(at);
      });
}

}  // namespace troupe
