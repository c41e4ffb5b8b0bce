#include "gcs/control_store/print.h"

namespace troupe::gcs {
namespace {

std::string of(ActorId actor, std::uint32_t incarnation) {
  return to_string(actor) + "#" + std::to_string(incarnation);
}

std::string print_failure(const Error& error) {
  return std::string("error(") + to_string(error.kind) + ": " + error.message + ")";
}

struct PrintAnswer {
  std::string operator()(const Done& a) const { return a.what.empty() ? "done" : "done " + a.what; }
  std::string operator()(const Error& a) const { return print_failure(a); }
  std::string operator()(const NodeJoined& a) const { return "node " + to_string(a.node) + " " + a.name; }
  std::string operator()(const JobOpened& a) const {
    return "job " + to_string(a.job) + " process " + to_string(a.process);
  }
  std::string operator()(const SessionOpened& a) const { return "session of job " + to_string(a.job); }
  std::string operator()(const std::vector<SpawnResult>& a) const {
    std::string text = "spawned";
    for (const SpawnResult& one : a) {
      text += " " + to_string(one.actor);
      if (one.failure) text += " " + print_failure(*one.failure);
    }
    return text;
  }
  std::string operator()(const ActorState& a) const { return print(a); }
};

struct PrintAction {
  std::string operator()(const Persist& a) const {
    std::string key = a.table == Table::actors ? to_string(ActorId{a.id}) : std::to_string(a.id);
    return std::string("persist ") + to_string(a.table) + " " + key;
  }
  std::string operator()(const StartJob& a) const {
    return "start_job node=" + to_string(a.node) + " job=" + to_string(a.job);
  }
  std::string operator()(const Place& a) const {
    std::string text = "place " + of(a.spec->actor, a.incarnation) + " node=" + to_string(a.node) +
                       " process=" + to_string(a.process);
    for (std::size_t i = 0; i < a.gpus.size(); ++i)
      text += (i == 0 ? " gpus=" : ",") + std::to_string(a.gpus[i]);
    return text;
  }
  std::string operator()(const Destroy& a) const {
    return "destroy " + of(a.actor, a.incarnation) + " node=" + to_string(a.node);
  }
  std::string operator()(const EndJob& a) const {
    return "end_job node=" + to_string(a.node) + " job=" + to_string(a.job);
  }
  std::string operator()(const NodeGone& a) const { return "gone node=" + to_string(a.node); }
  std::string operator()(const ShutdownNode& a) const { return "shutdown node=" + to_string(a.node); }
  std::string operator()(const Notify& a) const {
    return "notify " + to_string(a.session) + " " + print(a.state);
  }
  std::string operator()(const Reply& a) const {
    return "reply " + std::to_string(a.request) + " " + std::visit(PrintAnswer{}, a.answer);
  }
};

}  // namespace

std::string print(const ActorState& state) {
  std::string text = of(state.actor, state.incarnation) + " " + to_string(state.phase);
  if (state.infeasible) text += " infeasible";
  if (state.endpoint) text += " at " + to_string(state.endpoint->process);
  if (state.failure) text += " " + print_failure(*state.failure);
  return text;
}

std::string print(const Action& action) { return std::visit(PrintAction{}, action.what); }

}  // namespace troupe::gcs
