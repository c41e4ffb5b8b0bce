#include "runtime/objects/transfer/transfer.h"

#include "core/base/log.h"
#include "core/control/kj_error.h"
#include "core/control/rpc.h"

namespace troupe {

Transfer::~Transfer() noexcept(false) {
  alive_ = nullptr;
  acceptor_ = nullptr;
  for (auto& [id, pull] : pulls_) pull.filling->break_off();
}

std::unique_ptr<Transfer> Transfer::create(ControlLoop& loop, ObjectHost& host, Token token,
                                           const std::string& at) {
  auto made = std::make_unique<Transfer>(loop, host, token);
  if (auto listening = made->listen(at); !listening)
    log(Level::warning, "this node passes no objects on to others: " + listening.error().message);
  return made;
}

Result<void> Transfer::listen(const std::string& host) {
  troupe::Address address, bound;
  address.host = host;
  auto listening = listen_on(address, bound);
  if (!listening) return listening.error();
  here_ = {bound.host, bound.port};
  acceptor_ = std::make_unique<Acceptor>(loop_, std::move(*listening), token_,
                                         [this](kj::Own<SocketStream> stream) { serve(kj::mv(stream)); });
  return {};
}

// ---- pulling ----

Transfer::Pull* Transfer::find(const ObjectId& id, std::uint64_t number) {
  auto at = pulls_.find(id);
  return at == pulls_.end() || at->second.number != number ? nullptr : &at->second;
}

void Transfer::pull(const ObjectId& id) {
  if (!pulls_.try_emplace(id).second) return;
  loop_.post([this, id, alive = std::weak_ptr<int>(alive_)] {
    if (!alive.expired() && pulls_.count(id) > 0) ask(id, {});
  });
}

void Transfer::ask(const ObjectId& id, NodeId failed_source) {
  Pull& pull = pulls_.at(id);
  pull.number = ++last_number_;
  ObjectAsker self{host_.node(), here_.host, here_.port, failed_source};
  std::weak_ptr<int> alive = alive_;
  loop_.spawn("asking for an object's source",
              host_.ask_source(id, self)
                  .then([this, alive, id, number = pull.number](ObjectSource source) {
                    if (!alive.expired()) receive_from(id, number, std::move(source));
                  })
                  .catch_([this, alive, id, number = pull.number](kj::Exception&& failure) {
                    if (!alive.expired()) failed(id, number, error_of(failure));
                  }));
}

void Transfer::receive_from(const ObjectId& id, std::uint64_t number, ObjectSource source) {
  Pull* pull = find(id, number);
  if (pull == nullptr) return;
  if (pull->stopping) return give_up(id, Error(ErrorKind::cancelled, "nobody waits for it any more"));
  std::weak_ptr<int> alive = alive_;
  kj::Promise<void> room = kj::READY_NOW;
  if (!pull->place) {
    room = host_.reserve(id, source.size).then([this, alive, id, number](ObjectHost::Place place) {
      if (alive.expired()) return;
      if (Pull* pull = find(id, number)) pull->place = std::move(place);
    });
  }
  pull->source = source;
  auto kept = pull->filling->state().bytes;
  pull->tries = kept > pull->kept ? 1 : pull->tries + 1;
  pull->kept = kept;
  auto connected = room.then([this, alive, source]() -> kj::Promise<kj::Own<SocketStream>> {
    if (alive.expired()) return kj_exception(Error(ErrorKind::cancelled, "the store ends"));
    troupe::Address address;
    address.host = source.host;
    address.port = source.port;
    return connect_authenticated(loop_, address, token_);
  });
  loop_.spawn("reaching an object's source",
              connected
                  .then([this, alive, id, number](kj::Own<SocketStream> stream) {
                    if (!alive.expired()) receive(id, number, kj::mv(stream));
                  })
                  .catch_([this, alive, id, number](kj::Exception&& failure) {
                    if (!alive.expired()) failed(id, number, error_of(failure));
                  }));
}

void Transfer::receive(const ObjectId& id, std::uint64_t number, kj::Own<SocketStream> stream) {
  Pull* pull = find(id, number);
  if (pull == nullptr) return;
  if (pull->stopping) return give_up(id, Error(ErrorKind::cancelled, "nobody waits for it any more"));
  UniqueFd socket = stream->release();
  if (auto prepared = prepare_pull_socket(socket.get()); !prepared)
    return failed(id, number, prepared.error());
  PullTarget target{pull->place->bytes, pull->place->size};
  pull->job = threads_.start(
      std::move(socket),
      [id, target, filling = pull->filling](int fd) { return receive_object(fd, id, target, *filling); },
      [this, id, number](Result<void> result) { received(id, number, std::move(result)); });
  if (pull->job == 0) failed(id, number, Error(ErrorKind::unavailable, "too many objects are under way"));
}

void Transfer::received(const ObjectId& id, std::uint64_t number, Result<void> result) {
  Pull* pull = find(id, number);
  if (pull == nullptr) return;
  pull->job = 0;
  if (!result) return failed(id, number, result.error());
  auto filling = pull->filling;
  pulls_.erase(id);
  host_.sealed(id);
  host_.tell_fetched(id, true);
  // Pinned before this turn ends, so that it cannot be given up under those that receive it from here.
  if (passing_.count(filling.get()) == 0) return;
  std::weak_ptr<int> alive = alive_;
  loop_.spawn("keeping an object for those that receive it",
              host_.pin_copy(id).then([this, alive, filling](std::optional<ObjectHost::Place> place) {
                auto at = alive.expired() ? passing_.end() : passing_.find(filling.get());
                if (!alive.expired() && at != passing_.end() && place) at->second.pin = std::move(place->pin);
              }));
}

void Transfer::failed(const ObjectId& id, std::uint64_t number, const Error& why) {
  Pull* pull = find(id, number);
  if (pull == nullptr) return;
  if (pull->stopping) return give_up(id, Error(ErrorKind::cancelled, "nobody waits for it any more"));
  bool final = why.kind == ErrorKind::object_lost || why.kind == ErrorKind::object_store_full;
  if (final) return give_up(id, why);
  if (pull->tries >= kMostTries) {
    Error error(ErrorKind::unavailable, "object " + to_string(id) + " could not be fetched in " +
                                            std::to_string(kMostTries) +
                                            " tries; the last one: " + why.message);
    return give_up(id, error);
  }
  NodeId source = std::exchange(pull->source, {}).node;
  pull->number = ++last_number_;
  // At once after progress, else with a pause.
  auto pause = pull->filling->state().bytes > pull->kept ? 0 * kj::MILLISECONDS : kRetry;
  loop_.spawn("fetching an object again",
              loop_.timer().afterDelay(pause).then(
                  [this, alive = std::weak_ptr<int>(alive_), id, number = pull->number, source] {
                    Pull* pull = alive.expired() ? nullptr : find(id, number);
                    if (pull == nullptr) return;
                    if (pull->stopping)
                      give_up(id, Error(ErrorKind::cancelled, "nobody waits for it any more"));
                    else
                      ask(id, source);
                  }));
}

void Transfer::give_up(const ObjectId& id, const Error& why) {
  auto at = pulls_.find(id);
  if (at == pulls_.end()) return;
  at->second.filling->break_off();  // before its memory may be another's
  pulls_.erase(at);
  host_.tell_fetched(id, false);
  host_.aborted(id, why);
}

void Transfer::stop(const ObjectId& id) {
  auto at = pulls_.find(id);
  if (at == pulls_.end()) return;
  Pull& pull = at->second;
  pull.stopping = true;
  if (pull.job != 0) return threads_.stop(pull.job);  // received() comes
  // Whatever it waits for may take long.
  pull.number = ++last_number_;
  loop_.post([this, alive = std::weak_ptr<int>(alive_), id, number = pull.number] {
    if (!alive.expired() && find(id, number) != nullptr)
      give_up(id, Error(ErrorKind::cancelled, "nobody waits for it any more"));
  });
}

void Transfer::node_lost(NodeId node) {
  for (auto& [id, pull] : pulls_) {
    if (pull.source.node == node && pull.job != 0) threads_.stop(pull.job);
  }
  if (!plan_) return;
  PullPlan::Assignments out;
  plan_->node_gone(node, out);
  carry_out(std::move(out));
  addresses_.erase(node);
  std::erase_if(asking_, [&](const auto& entry) { return entry.first.second == node; });
}

}  // namespace troupe
