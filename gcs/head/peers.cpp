#include "gcs/head/peers.h"

#include "core/control/call_faults.h"
#include "core/control/kj_error.h"
#include "gcs/head/head_state.h"
#include "gcs/head/wire.h"

namespace troupe::gcs {
namespace {

constexpr std::size_t kMostBytes = 4u << 20;  // of one message, far below the limit of a reader
constexpr std::size_t kMostActors = 2'000;

CallFaults place_faults("head.place.lose_request", "head.place.lose_reply");
CallFaults destroy_faults("head.destroy.lose_request", "head.destroy.lose_reply");
CallFaults end_job_faults("head.end_job.lose_request", "head.end_job.lose_reply");
FaultPoint place_twice("head.place.twice"), destroy_twice("head.destroy.twice");

}  // namespace

NodePeer::NodePeer(HeadState& head, NodeId id, wire::Agent::Client agent)
    : silence(head.timer().now(), head.options().heartbeat_timeout),
      head_(head),
      id_(id),
      agent_(kj::mv(agent)),
      tasks_(head) {}

void NodePeer::start_job(const JobInfo& info) {
  flush();
  auto request = agent_.startJobRequest();
  write(request.initInfo(), info);
  tasks_.add(request.send().ignoreResult());
}

void NodePeer::place(Place place) {
  if (!destroys_.empty()) send_destroys();
  bytes_ += place.spec->args.size() + 256;
  places_.push_back(std::move(place));
  if (bytes_ >= kMostBytes || places_.size() >= kMostActors) send_places();
}

void NodePeer::destroy(Destroy destroy) {
  if (!places_.empty()) send_places();
  destroys_.push_back(destroy);
  if (destroys_.size() >= kMostActors) send_destroys();
}

void NodePeer::flush() {
  if (!places_.empty()) send_places();
  if (!destroys_.empty()) send_destroys();
}

void NodePeer::send_places() {
  auto request = agent_.placeRequest();
  auto list = request.initPlacements(static_cast<unsigned>(places_.size()));
  std::vector<std::pair<ActorId, std::uint32_t>> sent;
  for (unsigned i = 0; i < list.size(); ++i) {
    const Place& from = places_[i];
    write(list[i].initSpec(), *from.spec);
    list[i].setIncarnation(from.incarnation);
    list[i].setJob(from.job.value);
    list[i].setProcess(from.process.value);
    list[i].setServed(from.served);
    if (!from.gpus.empty()) {
      auto gpus = list[i].initGpus(static_cast<unsigned>(from.gpus.size()));
      for (unsigned g = 0; g < gpus.size(); ++g) gpus.set(g, from.gpus[g]);
    }
    sent.emplace_back(from.spec->actor, from.incarnation);
  }
  places_.clear();
  bytes_ = 0;
  if (place_twice.fires()) {
    auto again = agent_.placeRequest();
    again.setPlacements(request.getPlacements().asReader());
    tasks_.add(again.send().ignoreResult());
  }
  // Outcomes come as events; only a refusal of the whole message shows here.
  tasks_.add(place_faults.send(request).catch_([this, sent = kj::mv(sent)](kj::Exception&& failure) {
    auto why = std::make_shared<Error>(error_of(failure));
    for (auto [actor, incarnation] : sent) head_.apply_later(ActorFailed{id_, actor, incarnation, why, true});
  }));
}

void NodePeer::send_destroys() {
  auto request = agent_.destroyRequest();
  auto list = request.initActors(static_cast<unsigned>(destroys_.size()));
  for (unsigned i = 0; i < list.size(); ++i) {
    list[i].setActor(destroys_[i].actor.value);
    list[i].setIncarnation(destroys_[i].incarnation);
  }
  auto sent = std::make_shared<std::vector<Destroy>>(std::move(destroys_));
  destroys_.clear();
  if (destroy_twice.fires()) {
    auto again = agent_.destroyRequest();
    again.setActors(request.getActors().asReader());
    tasks_.add(again.send().ignoreResult());
  }
  tasks_.add(destroy_faults.send(request).then(
      [this, sent] {
        for (const Destroy& one : *sent) {
          head_.apply_later(ActorDestroyed{one.node, one.actor, one.incarnation});
        }
      },
      [this, sent](kj::Exception&&) {
        return tasks_.add(head_.timer().afterDelay(head_.options().retry).then([this, sent] {
          for (const Destroy& one : *sent) destroy(one);
          flush();
        }));
      }));
}

void NodePeer::end_job(JobId job) {
  flush();
  auto request = agent_.endJobRequest();
  request.setJob(job.value);
  tasks_.add(end_job_faults.send(request).then(
      [this, job] {
        head_.apply_later(JobEndedOn{id_, job});
      },
      [this, job](kj::Exception&&) {
        return tasks_.add(
            head_.timer().afterDelay(head_.options().retry).then([this, job] { end_job(job); }));
      }));
}

kj::Promise<void> NodePeer::shut_down(const std::string& reason) {
  flush();
  auto request = agent_.shutdownRequest();
  request.setReason(text(reason));
  return request.send().ignoreResult().catch_([](kj::Exception&&) {});
}

ClientPeer::ClientPeer(HeadState& head, ProcessId process, std::uint64_t generation,
                       wire::JobClient::Client client)
    : head_(head), process_(process), generation_(generation), client_(kj::mv(client)), tasks_(head) {}

void ClientPeer::changed(ActorState state) {
  auto [at, fresh] = newest_.emplace(state.actor, states_.size());
  if (fresh) {
    states_.push_back(std::move(state));
  } else {
    states_[at->second] = std::move(state);
  }
}

void ClientPeer::output(ProcessId process, std::string node, std::vector<std::string> lines,
                        std::uint64_t dropped) {
  std::size_t most = head_.options().most_output;
  if (lines_ + lines.size() > most) {
    std::size_t keep = most - std::min(most, lines_);
    dropped += lines.size() - keep;
    lines.resize(keep);
  }
  if (lines.empty() && !output_.empty() && output_.back().process == process) {
    output_.back().dropped += dropped;
    return;
  }
  if (output_.size() >= most) return;
  lines_ += lines.size();
  output_.push_back({process, std::move(node), std::move(lines), dropped});
}

void ClientPeer::node_lost(NodeId node) {
  auto request = client_.nodeLostRequest();
  request.setNode(node.value);
  tasks_.add(request.send().ignoreResult().catch_([](kj::Exception&&) {}));
}

void ClientPeer::group_broken(const GroupBroken& broken) {
  auto request = client_.groupBrokenRequest();
  request.setGroup(broken.group);
  request.setGeneration(broken.generation);
  request.setRank(broken.rank);
  write_failure(request.initFailure(), broken.why);
  tasks_.add(request.send().ignoreResult().catch_([](kj::Exception&&) {}));
}

void ClientPeer::flush() {
  if (!states_.empty() && !changing_) {
    auto request = client_.changedRequest();
    std::size_t count = std::min(states_.size(), kMostActors);
    auto list = request.initStates(static_cast<unsigned>(count));
    for (unsigned i = 0; i < list.size(); ++i) write(list[i], states_[i]);
    states_.erase(states_.begin(), states_.begin() + static_cast<std::ptrdiff_t>(count));
    newest_.clear();
    for (std::size_t i = 0; i < states_.size(); ++i) newest_.emplace(states_[i].actor, i);
    changing_ = true;
    auto done = [this] {
      changing_ = false;
      if (!states_.empty()) head_.flush_client(process_);
    };
    tasks_.add(request.send().ignoreResult().then(kj::cp(done), [done](kj::Exception&&) { done(); }));
  }
  if (!output_.empty() && !printing_) {
    Output next = std::move(output_.front());
    output_.pop_front();
    lines_ -= next.lines.size();
    auto request = client_.outputRequest();
    request.setProcess(next.process.value);
    request.setNode(text(next.node));
    auto list = request.initLines(static_cast<unsigned>(next.lines.size()));
    for (unsigned i = 0; i < list.size(); ++i) list.set(i, text(next.lines[i]));
    request.setDropped(next.dropped);
    printing_ = true;
    auto done = [this] {
      printing_ = false;
      if (!output_.empty()) head_.flush_client(process_);
    };
    tasks_.add(request.send().ignoreResult().then(kj::cp(done), [done](kj::Exception&&) { done(); }));
  }
}

}  // namespace troupe::gcs
