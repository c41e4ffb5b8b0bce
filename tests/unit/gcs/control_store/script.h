// Events of the control store as text, one a line, so that tests read like transcripts. See parse() for the
// words.
#pragma once

#include <sstream>
#include <string>

#include "gcs/control_store/control_store.h"
#include "gcs/control_store/print.h"

namespace troupe::gcs::script {

struct Words {
  std::vector<std::string> all;

  explicit Words(const std::string& line) {
    std::istringstream in(line);
    for (std::string word; in >> word;) all.push_back(word);
  }
  const std::string& at(std::size_t i) const { return all.at(i); }
  std::uint64_t number(std::size_t i) const { return std::stoull(all.at(i)); }
  bool has(const std::string& word) const {
    for (const auto& one : all) {
      if (one == word) return true;
    }
    return false;
  }
  std::string value(const std::string& key, std::string otherwise = "") const {
    for (const auto& one : all) {
      if (one.rfind(key + "=", 0) == 0) return one.substr(key.size() + 1);
    }
    return otherwise;
  }
};

inline Resources resources_of(const Words& words) {
  Resources all;
  for (const char* name : {"cpu", "gpu", "memory"}) {
    if (std::string text = words.value(name); !text.empty()) (void)all.set(name, std::stod(text));
  }
  return all;
}

inline std::pair<ActorId, std::uint32_t> incarnation_of(const std::string& text) {
  std::size_t hash = text.find('#');
  return {parse_actor_id(text.substr(0, hash)),
          hash == std::string::npos ? 0 : static_cast<std::uint32_t>(std::stoul(text.substr(hash + 1)))};
}

inline SpecPtr spec_of(const std::string& text) {
  Words words(text);
  auto spec = std::make_shared<ActorSpec>();
  spec->actor = parse_actor_id(words.at(0));
  spec->class_name = words.value("class", "C");
  spec->name = words.value("name");
  spec->node = words.value("on");
  spec->owner = parse_actor_id(words.value("owner"));
  spec->max_restarts = std::stoi(words.value("restarts", "0"));
  spec->restart_window = std::stoll(words.value("within", "0"));
  spec->isolation = words.has("light") ? Isolation::light : Isolation::process;
  spec->detached = words.has("detached");
  spec->get_or_create = words.has("get_or_create");
  spec->resources = resources_of(words);
  return spec;
}

inline Cause cause(const std::string& text) { return std::make_shared<Error>(ErrorKind::actor_died, text); }

// `request` is given to events that are answered.
inline Event parse(const std::string& line, RequestId request) {
  Words w(line);
  const std::string& verb = w.at(0);
  if (verb == "join") {
    return NodeJoin{request, NodeInfo{w.at(1), w.value("host", w.at(1)), std::stoi(w.value("pid", "1")), "",
                                      resources_of(w)}};
  }
  if (verb == "lost") return NodeLost{{w.number(1)}, "connection ended"};
  if (verb == "remove") return NodeRemove{request, w.at(1)};
  if (verb == "drain") return NodeDrain{request, w.at(1), true};
  if (verb == "open_job") {
    JobOpen open{request, {}};
    open.info.name = w.at(1);
    return open;
  }
  if (verb == "driver_gone") return JobEnd{0, {w.number(1)}, "its driver ended"};
  if (verb == "end_job") return JobEnd{request, {w.number(1)}, "it was killed"};
  if (verb == "session") return SessionOpen{request, {w.number(1)}, {w.number(2)}};
  if (verb == "spawn") {
    Spawn spawn{request, {w.number(1)}, {}};
    std::istringstream rest(line.substr(line.find(':') + 1));
    for (std::string one; std::getline(rest, one, ';');) spawn.actors.push_back(spec_of(one));
    return spawn;
  }
  if (verb == "resolve") {
    auto [actor, after] = incarnation_of(w.at(2));
    return Resolve{request, {w.number(1)}, actor, after};
  }
  if (verb == "find") return Find{request, w.at(1)};
  if (verb == "kill") return Kill{request, parse_actor_id(w.at(1)), !w.has("restart")};
  if (verb == "alive") {
    auto [actor, incarnation] = incarnation_of(w.at(2));
    return ActorAlive{
        {w.number(1)}, actor, incarnation, Endpoint{{w.number(3)}, {w.number(1)}, "h", "/s", "", 0}};
  }
  if (verb == "failed") {
    auto [actor, incarnation] = incarnation_of(w.at(2));
    return ActorFailed{{w.number(1)}, actor, incarnation, cause("threw")};
  }
  if (verb == "process_ended") return ProcessEnded{{w.number(1)}, {w.number(2)}, cause("signal 9")};
  if (verb == "destroyed") {
    auto [actor, incarnation] = incarnation_of(w.at(2));
    return ActorDestroyed{{w.number(1)}, actor, incarnation};
  }
  if (verb == "job_ended_on") return JobEndedOn{{w.number(1)}, {w.number(2)}};
  if (verb == "session_closed") return SessionClosed{{w.number(1)}};
  if (verb == "shutdown") return Shutdown{request};
  if (verb == "tick") return Tick{};
  throw std::invalid_argument("no such event: " + line);
}

// Runs the lines that begin with "> " and gives back the whole transcript. "> at 500" sets the clock.
inline std::string run(ControlStore& core, const std::string& text) {
  std::istringstream in(text);
  std::string transcript;
  RequestId request = 0;
  Time now = 0;
  Turn turn = 0;
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("> ", 0) != 0) continue;
    transcript += line + "\n";
    if (line.rfind("> at ", 0) == 0) {
      now = std::stoll(line.substr(5));
      continue;
    }
    Actions out;
    core.begin_turn(++turn);
    core.apply(parse(line.substr(2), ++request), now, out);
    for (const Action& action : out) transcript += "  " + print(action) + "\n";
    if (std::string bad = core.check(); !bad.empty()) transcript += "  BROKEN: " + bad + "\n";
  }
  return transcript;
}

inline std::string run(const std::string& text) {
  ControlStore core;
  return run(core, text);
}

}  // namespace troupe::gcs::script
