// Work handed to a lane by other threads: an intrusive, lock-free queue with many producers and one consumer.
// A task is owned by the queue from push until the consumer runs it; run() disposes of the task.
#pragma once

#include <atomic>
#include <utility>

#include "core/base/pool.h"

namespace troupe {

class LaneTask {
 public:
  virtual void run_task() = 0;
  // The lane ended before the task ran: free what it holds, complete what waits for it.
  virtual void drop_task() = 0;

 protected:
  ~LaneTask() = default;

 private:
  friend class TaskQueue;
  LaneTask* next_ = nullptr;
};

class TaskQueue {
 public:
  // Any thread.
  void push(LaneTask* task) {
    task->next_ = head_.load(std::memory_order_relaxed);
    while (!head_.compare_exchange_weak(task->next_, task, std::memory_order_seq_cst,
                                        std::memory_order_relaxed)) {
    }
  }
  bool empty() const { return head_.load(std::memory_order_seq_cst) == nullptr; }

  // The consumer: runs what was there, oldest first, and returns how many.
  int run_all() {
    return drain([](LaneTask* task) { task->run_task(); });
  }
  int drop_all() {
    return drain([](LaneTask* task) { task->drop_task(); });
  }

 private:
  int drain(void (*each)(LaneTask*)) {
    if (head_.load(std::memory_order_relaxed) == nullptr) return 0;
    LaneTask* list = head_.exchange(nullptr, std::memory_order_acquire);
    LaneTask* ordered = nullptr;
    while (list != nullptr) {
      LaneTask* next = list->next_;
      list->next_ = ordered;
      ordered = list;
      list = next;
    }
    int count = 0;
    while (ordered != nullptr) {
      LaneTask* next = ordered->next_;
      each(ordered);
      ordered = next;
      ++count;
    }
    return count;
  }

  std::atomic<LaneTask*> head_{nullptr};
};

// A task made of a callable, for rare work.
template <class F>
class FunctionTask final : public LaneTask, public Pooled {
 public:
  explicit FunctionTask(F f) : f_(std::move(f)) {}
  void run_task() override {
    F f = std::move(f_);
    delete this;
    f();
  }
  void drop_task() override { delete this; }

 private:
  F f_;
};

}  // namespace troupe
