#include "gcs/head/head_state.h"

#include <algorithm>

#include "core/base/fault_point.h"
#include "core/base/log.h"
#include "core/control/kj_error.h"
#include "gcs/head/record_codec.h"

namespace troupe::gcs {
namespace {

FaultPoint write_lost("head.store.lose_request"), write_answer_lost("head.store.lose_reply");
FaultPoint crash_before_write("head.crash.before_write"), crash_after_write("head.crash.after_write"),
    crash_before_answer("head.crash.before_answer");

Error fault(const char* what) { return Error(ErrorKind::unavailable, std::string("a fault point ") + what); }

}  // namespace

kj::Exception replaced_head(const Store& store) {
  return kj::Exception(kj::Exception::Type::DISCONNECTED, __FILE__, __LINE__,
                       kj::str("this head no longer owns the store: ", store.state().c_str()));
}

HeadState::HeadState(kj::Timer& timer, Store& store, HeadServer::Options options)
    : timer_(timer),
      store_(store),
      options_(std::move(options)),
      core_(options_.core),
      groups_(*this),
      tasks_(*this) {
  auto pair = kj::newPromiseAndFulfiller<void>();
  end_ = kj::mv(pair.fulfiller);
  shutdown_ = pair.promise.fork();
  started_ = now();
  core_.begin_turn(turn_);
}

kj::Promise<void> HeadState::start() {
  auto pair = kj::newPromiseAndFulfiller<void>();
  auto done = std::make_shared<kj::Own<kj::PromiseFulfiller<void>>>(kj::mv(pair.fulfiller));
  store_.load([this, alive = weak_from_this(), done](Result<Tables> loaded) {
    if (!alive.expired() && !closed_) restore(std::move(loaded), **done);
  });
  return kj::mv(pair.promise);
}

void HeadState::restore(Result<Tables> loaded, kj::PromiseFulfiller<void>& done) {
  if (!loaded) {
    done.reject(kj_exception(loaded.error()));
    return;
  }
  Batch repairs;
  Snapshot snapshot = decode(*loaded, repairs);
  quarantined_ = repairs.size() / 2 + (*loaded)[static_cast<std::size_t>(StoreTable::quarantine)].size();
  if (!repairs.empty()) {
    log(Level::warning,
        std::to_string(repairs.size() / 2) + " records could not be read; see troupe:quarantine");
    store_.write(std::move(repairs), [](Result<void>) {});
  }
  Actions out;
  core_.restore(std::move(snapshot), now(), out);
  take(out);
  store_.on_older([this, alive = weak_from_this()]() -> std::optional<Batch> {
    if (alive.expired() || closed_) return std::nullopt;
    for (const auto& [id, actor] : core_.actors()) {
      if (actor.phase != Phase::dead && journal_in_store(actor)) incomplete_journals_.insert(id);
    }
    return encode_all(core_);
  });
  tasks_.add(watch_nodes());
  if (options_.ownership_check > 0 * kj::SECONDS) tasks_.add(watch_ownership());
  done.fulfill();
}

void HeadState::close() {
  closed_ = true;
  nodes_.clear();
  clients_.clear();
  asks_.clear();
}

void HeadState::taskFailed(kj::Exception&& failure) {
  if (failure.getType() == kj::Exception::Type::DISCONNECTED) return;  // deaths are told by the servers' ends
  log(Level::warning, std::string("head: ") + failure.getDescription().cStr());
}

void HeadState::apply(Event event) {
  if (closed_) return;
  Actions out;
  core_.apply(std::move(event), now(), out);
  take(out);
  for (const IncarnationOver& over : core_.take_over()) groups_.over(over);
}

void HeadState::apply_later(Event event) {
  if (closed_) return;
  later_.push_back(std::move(event));
  schedule();
}

void HeadState::take(Actions& actions) {
  for (Action& action : actions) {
    if (const auto* persist = std::get_if<Persist>(&action.what)) {
      dirty_.insert({persist->table, persist->id});
    } else if (action.after <= durable_) {
      carry_out(std::move(action));
    } else {
      waiting_replies_ += std::holds_alternative<Reply>(action.what);
      waiting_.push_back(std::move(action));
    }
  }
  arm_tick();
  schedule();
}

void HeadState::carry_out(Action action) {
  auto to_node = [&](NodeId id) {
    NodePeer* peer = node(id);
    if (peer != nullptr) nodes_to_flush_.insert(id);
    return peer;
  };
  if (auto* place = std::get_if<Place>(&action.what)) {
    // What ended while its record was being written must not be started any more.
    if (!core_.wants(*place)) return;
    if (NodePeer* peer = to_node(place->node)) peer->place(std::move(*place));
  } else if (auto* start = std::get_if<StartJob>(&action.what)) {
    const JobRecord* job = core_.job(start->job);
    NodePeer* peer = to_node(start->node);
    if (peer != nullptr && job != nullptr) peer->start_job(job->info);
  } else if (auto* destroy = std::get_if<Destroy>(&action.what)) {
    if (NodePeer* peer = to_node(destroy->node)) peer->destroy(*destroy);
  } else if (auto* end = std::get_if<EndJob>(&action.what)) {
    if (NodePeer* peer = to_node(end->node)) peer->end_job(end->job);
  } else if (auto* gone = std::get_if<NodeGone>(&action.what)) {
    for (auto& [process, peer] : clients_) peer->node_lost(gone->node);
  } else if (auto* shutdown = std::get_if<ShutdownNode>(&action.what)) {
    nodes_to_drop_.insert(shutdown->node);
    if (NodePeer* peer = to_node(shutdown->node)) farewells_.add(peer->shut_down(shutdown->reason));
  } else if (auto* notify = std::get_if<Notify>(&action.what)) {
    if (ClientPeer* peer = client(notify->session)) {
      peer->changed(std::move(notify->state));
      clients_to_flush_.insert(notify->session);
    }
  } else if (auto* reply = std::get_if<Reply>(&action.what)) {
    answer(reply->request, std::move(reply->answer));
  }
}

void HeadState::answer(RequestId request, Answer answer) {
  auto at = asks_.find(request);
  if (at == asks_.end()) return;
  crash_before_answer.crash(&timer_);
  Ask ask = kj::mv(at->second);
  asks_.erase(at);
  if (const auto* error = std::get_if<Error>(&answer)) {
    ask.fulfiller->reject(store_.fenced() ? replaced_head(store_) : kj_exception(*error));
    return;
  }
  ask.at_once(answer);
  ask.fulfiller->fulfill(kj::heap<Answer>(kj::mv(answer)));
}

// The change may or may not survive; what only the asker could have used is taken back.
void HeadState::refuse(Reply reply, const Error& error) {
  if (const auto* opened = std::get_if<JobOpened>(&reply.answer)) {
    if (opened->returned)
      apply_later(JobReturnFailed{opened->job});
    else
      apply_later(JobEnd{0, opened->job, "it could not be recorded"});
  } else if (const auto* joined = std::get_if<NodeJoined>(&reply.answer)) {
    if (joined->returned)
      apply_later(NodeReturnFailed{joined->node});
    else
      apply_later(NodeLost{joined->node, "it could not be recorded"});
  }
  answer(reply.request, error);
}

void HeadState::refuse_if_overloaded() const {
  if (closed_)
    kj::throwFatalException(kj_exception(Error(ErrorKind::unavailable, "the head is shutting down")));
  if (store_.fenced()) kj::throwFatalException(replaced_head(store_));
  if (waiting_replies_ < options_.most_waiting) return;
  kj::throwFatalException(kj_exception(
      Error(ErrorKind::overloaded, "too many requests wait for the store; it is " + store_.state())));
}

void HeadState::schedule() {
  if (scheduled_ || closed_) return;
  scheduled_ = true;
  tasks_.add(kj::evalLast([this, alive = weak_from_this()] {
    if (!alive.expired()) end_turn();
  }));
}

void HeadState::end_turn() {
  scheduled_ = false;
  if (closed_) return;
  for (Event& event : std::exchange(later_, {})) apply(std::move(event));
  for (NodeId id : std::exchange(nodes_to_flush_, {})) {
    if (NodePeer* peer = node(id)) peer->flush();
  }
  for (NodeId id : std::exchange(nodes_to_drop_, {})) nodes_.erase(id);
  for (ProcessId id : std::exchange(clients_to_flush_, {})) {
    if (ClientPeer* peer = client(id)) peer->flush();
  }
  write_batch();
}

void HeadState::write_batch() {
  if (writing_) return;
  // Acknowledgements and commands with nothing left to write go to the store all the same: only it knows
  // whether another head has taken over.
  if (dirty_.empty() && waiting_.empty()) return;
  writing_ = true;
  Batch batch;
  batch.reserve(dirty_.size());
  std::vector<Key> keys(dirty_.begin(), dirty_.end());
  for (const auto& [table, id] : keys) {
    batch.push_back(encode(core_, table, id));
    // A durable actor's journal in the store goes with its life.
    const ActorRecord* actor = table == Table::actors ? core_.actor({id}) : nullptr;
    if (actor != nullptr && actor->phase == Phase::dead && journal_in_store(*actor)) {
      incomplete_journals_.erase({id});
      batch.push_back({StoreTable::journals, std::to_string(id) + "/", std::nullopt});
    }
  }
  dirty_.clear();
  Turn turn = turn_++;
  core_.begin_turn(turn_);
  crash_before_write.crash(&timer_);
  if (write_lost.fires()) {
    written(turn, std::move(keys), fault("lost a batch"));
    return;
  }
  store_.write(std::move(batch),
               [this, alive = weak_from_this(), turn, keys = std::move(keys)](Result<void> result) mutable {
                 if (alive.expired() || closed_) return;
                 crash_after_write.crash(&timer_);
                 if (result && write_answer_lost.fires()) result = fault("lost the store's answer");
                 written(turn, std::move(keys), std::move(result));
               });
}

void HeadState::written(Turn turn, std::vector<Key> keys, Result<void> result) {
  durable_ = std::max(durable_, turn);
  end_if_fenced(result);
  std::deque<Action> due;
  std::deque<Action> rest;
  for (Action& action : std::exchange(waiting_, {})) {
    (action.after <= turn || store_.fenced() ? due : rest).push_back(std::move(action));
  }
  waiting_ = std::move(rest);
  std::deque<Action> kept;
  for (Action& action : due) {
    auto* reply = std::get_if<Reply>(&action.what);
    if (reply != nullptr) --waiting_replies_;
    if (result) {
      carry_out(std::move(action));
    } else if (reply != nullptr) {
      // Of a head that was replaced, its successor may still do it: "cancelled" would tell that nobody will.
      refuse(std::move(*reply),
             store_.fenced() ? Error(ErrorKind::unavailable, result.error().message) : result.error());
    } else {
      action.after = turn_;  // an obligation: with the next batch that is durable
      kept.push_back(std::move(action));
    }
  }
  if (result) {
    writing_ = false;
    schedule();
    return;
  }
  waiting_.insert(waiting_.begin(), std::make_move_iterator(kept.begin()),
                  std::make_move_iterator(kept.end()));
  log(Level::warning, "head: " + result.error().describe());
  Actions again;
  for (const auto& [table, id] : keys) core_.rewrite(table, id, again);
  for (const Action& action : again) {
    const auto& persist = std::get<Persist>(action.what);
    dirty_.insert({persist.table, persist.id});
  }
  for (const Key& key : keys) dirty_.insert(key);
  if (store_.fenced()) return;
  // `writing_` stays set: the next attempt, with all that came meanwhile, after a pause.
  tasks_.add(timer_.afterDelay(options_.retry).then([this] {
    writing_ = false;
    schedule();
  }));
}

void HeadState::end_if_fenced(const Result<void>& result) {
  if (result || !store_.fenced()) return;
  log(Level::error, "head: " + result.error().describe());
  end_->reject(kj_exception(result.error()));
}

// A head that writes nothing would not find out that it was replaced.
kj::Promise<void> HeadState::watch_ownership() {
  return timer_.afterDelay(options_.ownership_check).then([this] {
    if (!writing_) {
      store_.write({}, [this, alive = weak_from_this()](Result<void> result) {
        if (!alive.expired() && !closed_) end_if_fenced(result);
      });
    }
    return watch_ownership();
  });
}

void HeadState::arm_tick() {
  std::optional<Time> at = core_.wake_at();
  if (!at || (tick_at_ != 0 && tick_at_ <= *at)) return;
  tick_at_ = *at;
  Time wait = std::max<Time>(*at - now(), 0);
  tasks_.add(timer_.afterDelay(wait * kj::MILLISECONDS).then([this, at = *at] {
    if (tick_at_ == at) tick_at_ = 0;
    apply(Tick{});
  }));
}

// A node is dead when it was silent for too long. Time in which the head itself did not run does not count.
kj::Promise<void> HeadState::watch_nodes() {
  kj::TimePoint before = timer_.now();
  kj::Duration step = options_.heartbeat_timeout / 10;
  return timer_.afterDelay(step).then([this, before, step]() -> kj::Promise<void> {
    kj::TimePoint now = timer_.now();
    kj::Duration late = now - before - step;
    std::vector<NodeId> silent;
    for (auto& [id, peer] : nodes_) {
      if (late > step) peer->silence.forgive(late);
      if (peer->silence.too_long(now)) silent.push_back(id);
    }
    std::erase_if(nodes_, [&](const auto& entry) {
      const NodeRecord* record = core_.node(entry.first);
      return waiting_.empty() && (record == nullptr || record->phase == NodePhase::dead);
    });
    for (NodeId id : silent) {
      if (node(id) == nullptr) continue;
      node_gone(
          id, nodes_.at(id).get(),
          "no heartbeat for " + std::to_string(nodes_.at(id)->silence.patience() / kj::MILLISECONDS) + " ms");
    }
    return watch_nodes();
  });
}

void HeadState::add_node(NodeId id, wire::Agent::Client agent) {
  nodes_[id] = std::make_unique<NodePeer>(*this, id, kj::mv(agent));
}

void HeadState::node_gone(NodeId id, const NodePeer* peer, const std::string& reason) {
  auto at = nodes_.find(id);
  if (closed_ || at == nodes_.end() || at->second.get() != peer) return;
  nodes_to_drop_.insert(id);  // at the end of the turn: its own callbacks may be running
  apply_later(NodeLost{id, reason});
  // It may go on unseen: nobody may take its word any more.
  for (auto& [process, peer] : clients_) peer->node_lost(id);
}

void HeadState::seen(NodeId id) {
  NodePeer* peer = node(id);
  if (peer == nullptr || core_.node(id) == nullptr || core_.node(id)->phase != NodePhase::alive) {
    kj::throwFatalException(
        kj_exception(Error(ErrorKind::not_found,
                           "node " + to_string(id) + " was declared lost; end its workers and join again")));
  }
  peer->silence.heard(timer_.now());
}

NodePeer* HeadState::node(NodeId id) {
  auto at = nodes_.find(id);
  return at == nodes_.end() ? nullptr : at->second.get();
}

std::uint64_t HeadState::add_client(ProcessId process, wire::JobClient::Client client) {
  std::uint64_t generation = ++last_generation_;
  clients_[process] = std::make_unique<ClientPeer>(*this, process, generation, kj::mv(client));
  return generation;
}

ClientPeer* HeadState::client(ProcessId process) {
  auto at = clients_.find(process);
  return at == clients_.end() ? nullptr : at->second.get();
}

void HeadState::flush_client(ProcessId process) {
  clients_to_flush_.insert(process);
  schedule();
}

// Called when a session's server is destroyed, so nothing may be torn down here.
void HeadState::client_gone(ProcessId process, std::uint64_t generation) {
  if (closed_) return;
  ClientPeer* peer = client(process);
  if (peer == nullptr || peer->generation() != generation) return;
  apply_later(SessionClosed{process});
  for (const auto& [id, job] : core_.jobs()) {
    if (job.driver == process && !job.ended) apply_later(JobEnd{0, id, "its driver ended"});
  }
  tasks_.add(kj::evalLater([this, process, generation] {
    ClientPeer* still = client(process);
    if (still != nullptr && still->generation() == generation) clients_.erase(process);
  }));
}

void HeadState::request_shutdown() {
  background(ask([](RequestId request) { return Shutdown{request}; }).then([this](kj::Own<Answer>&&) {
    auto heard = kj::joinPromises(farewells_.releaseAsArray());
    return heard.exclusiveJoin(timer_.afterDelay(2 * kj::SECONDS)).then([this] { end_->fulfill(); });
  }));
}

}  // namespace troupe::gcs
