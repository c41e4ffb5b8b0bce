#include "runtime/durable/journal_thread.h"

namespace troupe {

JournalThread::JournalThread() : thread_([this] { loop(); }) {}

JournalThread::~JournalThread() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  posted_.notify_one();
  thread_.join();
}

void JournalThread::post(Job job) {
  bool wake = false;
  {
    std::lock_guard lock(mutex_);
    wake = jobs_.empty();
    jobs_.push_back(std::move(job));
  }
  if (wake) posted_.notify_one();
}

void JournalThread::loop() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    while (!later_.empty() && later_.begin()->first <= Clock::now()) {
      jobs_.push_back(std::move(later_.begin()->second));
      later_.erase(later_.begin());
    }
    if (jobs_.empty()) {
      if (later_.empty())
        posted_.wait(lock);
      else
        posted_.wait_until(lock, later_.begin()->first);
      continue;
    }
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    Again again = job();
    if (!again) job = nullptr;  // what it holds goes outside the lock
    lock.lock();
    if (again) later_.emplace(Clock::now() + *again, std::move(job));
  }
}

}  // namespace troupe
