// The thread of a worker process in which files are written and synced, so that no lane waits for a disk.
//
// Owner: the process; one for all its durable actors. post() may be called by any thread. The destructor ends
// the thread after the job that runs; jobs that wait are dropped.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

namespace troupe {

class JournalThread {
 public:
  // A job that gives a delay runs again after it.
  using Again = std::optional<std::chrono::milliseconds>;
  using Job = std::function<Again()>;

  JournalThread();
  ~JournalThread();
  JournalThread(const JournalThread&) = delete;

  void post(Job job);

 private:
  using Clock = std::chrono::steady_clock;
  void loop();

  std::mutex mutex_;
  std::condition_variable posted_;
  std::deque<Job> jobs_;
  std::multimap<Clock::time_point, Job> later_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace troupe
