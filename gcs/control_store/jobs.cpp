// Jobs and processes: a job is a driver, its workers, and the actors they host.
#include <algorithm>

#include "gcs/control_store/control_store.h"

namespace troupe::gcs {

void ControlStore::on(JobOpen& e, Actions& out) {
  if (e.info.job) {
    auto at = jobs_.find(e.info.job);
    bool same = at != jobs_.end() && !at->second.ended && at->second.info.pid == e.info.pid &&
                at->second.info.host_id == e.info.host_id;
    if (!same) {  // for good: a head that was replaced must not say so
      reply(e.request,
            Error(ErrorKind::not_found, "job " + to_string(e.info.job) + " has ended; start it again"), turn_,
            out);
      return;
    }
    at->second.awaited = false;
    at->second.deadline = 0;
    reply(e.request, JobOpened{e.info.job, at->second.driver, true}, turn_, out);
    return;
  }
  JobRecord job;
  job.info = std::move(e.info);
  job.info.job = {next_id(Counter::job, out)};
  job.driver = {next_id(Counter::process, out)};
  job.started_at = now_;
  ProcessRecord driver;
  driver.job = job.info.job;
  processes_.emplace(job.driver, std::move(driver));
  persist(Table::jobs, job.info.job.value, out);
  reply(e.request, JobOpened{job.info.job, job.driver}, turn_, out);
  JobId id = job.info.job;
  jobs_.emplace(id, std::move(job));
}

void ControlStore::on(JobReturnFailed& e, Actions&) {
  auto at = jobs_.find(e.job);
  if (at == jobs_.end() || at->second.ended) return;
  at->second.awaited = true;
  at->second.deadline = now_ + options_.grace;
  deadlines_.insert(at->second.deadline);
}

void ControlStore::on(JobEnd& e, Actions& out) {
  if (jobs_.count(e.job) == 0) {
    reply(e.request, Error(ErrorKind::not_found, "no job " + to_string(e.job)), turn_, out);
    return;
  }
  // A driver that goes by itself does not listen any more; one whose job is killed waits for what it called.
  if (e.request != 0) last_told_ = jobs_.at(e.job).driver;
  end_job(e.job, e.reason, out);
  // Asked for by name, the job takes its detached actors along; a driver that goes leaves them.
  if (e.request != 0) {
    auto why = std::make_shared<Error>(ErrorKind::cancelled, e.reason);
    jobs_.at(e.job).actors.each([&](ActorRecord& record) { doomed_.push_back({record.spec->actor, why}); });
  }
  reply(e.request, Done{"job " + to_string(e.job)}, turn_, out);
}

void ControlStore::end_job(JobId id, const std::string& reason, Actions& out) {
  JobRecord& job = jobs_.at(id);
  if (job.ended) return;
  job.ended = true;
  job.awaited = false;
  job.deadline = 0;
  job.ended_at = now_;
  job.reason = reason;
  persist(Table::jobs, id.value, out);
  auto why = std::make_shared<Error>(ErrorKind::cancelled, "its job ended: " + reason);
  std::set<NodeId> kept;
  job.actors.each([&](ActorRecord& record) {
    if (!record.spec->detached) {
      doomed_.push_back({record.spec->actor, why});
    } else if (record.node && record.phase != Phase::dead) {
      kept.insert(record.node);
    }
  });
  for (auto& [node, there] : std::map(job.nodes)) {
    if (there.started && kept.count(node) == 0) end_job_on(node, id, out);
  }
  process_over(job.driver, why, out);
  close_job_if_gone(id, out);
}

// Every process of the job there is killed with one command; what they held is free when it has been carried
// out.
void ControlStore::end_job_on(NodeId node_id, JobId job_id, Actions& out) {
  JobRecord::OnNode& there = jobs_.at(job_id).nodes[node_id];
  there.started = false;
  there.light = {};
  NodeRecord& node = nodes_.at(node_id);
  for (ProcessId id : node.processes) {
    ProcessRecord& process = processes_.at(id);
    if (process.job != job_id) continue;
    process.ending = true;
    process.hosted.each([](ActorRecord& record) { record.ending = true; });
  }
  if (node.phase == NodePhase::alive) out.push_back({turn_, EndJob{node_id, job_id}});
}

void ControlStore::on(JobEndedOn& e, Actions& out) {
  auto at = nodes_.find(e.node);
  if (at == nodes_.end()) return;
  auto why = std::make_shared<Error>(ErrorKind::cancelled, "its job ended");
  for (ProcessId id : std::set(at->second.processes)) {
    auto process = processes_.find(id);
    if (process == processes_.end() || process->second.job != e.job || !process->second.ending) continue;
    process_over(id, why, out);
  }
}

void ControlStore::close_job_if_gone(JobId id, Actions&) {
  JobRecord& job = jobs_.at(id);
  if (job.ended && job.actors.empty()) dead_jobs_.push_back(id);
}

void ControlStore::on(SessionOpen& e, Actions& out) {
  auto at = processes_.find(e.process);
  if (at == processes_.end() || at->second.node != e.node || at->second.ending) {
    reply(
        e.request,
        Error(ErrorKind::not_found, "process " + to_string(e.process) + " is not one of this node's workers"),
        turn_, out);
    return;
  }
  reply(e.request, SessionOpened{at->second.job}, 0, out);
}

void ControlStore::on(SessionClosed& e, Actions& out) {
  for (auto at = waiters_.begin(); at != waiters_.end();) {
    std::erase_if(at->second, [&](const Waiter& waiter) {
      if (waiter.session != e.process) return false;
      reply(waiter.request, Error(ErrorKind::cancelled, "its session has ended"), 0, out);
      return true;
    });
    at = at->second.empty() ? waiters_.erase(at) : std::next(at);
  }
}

void ControlStore::on(ProcessEnded& e, Actions& out) {
  auto at = processes_.find(e.process);
  if (at == processes_.end() || at->second.node != e.node || !e.node) return;
  Cause why = e.failure ? e.failure : std::make_shared<Error>(ErrorKind::actor_died, "its process ended");
  process_over(e.process, std::move(why), out);
}

// The process is gone: the actors it hosted lose their incarnation, those it had spawned their owner.
void ControlStore::process_over(ProcessId id, Cause why, Actions& out) {
  auto at = processes_.find(id);
  if (at == processes_.end() || at->second.over) return;
  ProcessRecord& process = at->second;
  process.over = true;
  JobId job_id = process.job;
  NodeId node_id = process.node;
  if (node_id) {
    if (auto job = jobs_.find(job_id);
        job != jobs_.end()) {  // the record may have gone before its last process
      auto there = job->second.nodes.find(node_id);
      if (there != job->second.nodes.end() && there->second.light == id) there->second.light = {};
    }
    nodes_.at(node_id).processes.erase(id);
  }
  process.hosted.each([&](ActorRecord& record) { incarnation_over(record, why, Lease::gone, true, out); });
  process.owned.each([&](ActorRecord& record) {
    process.owned.remove(record);
    doomed_.push_back(
        {record.spec->actor, failure(ErrorKind::cancelled, "the process that had spawned it ended", record)});
  });
  processes_.erase(id);
}

}  // namespace troupe::gcs
