// A piece of work that waits in a lane's own queue: an actor with mail, a continuation, a coroutine to
// resume. Only the thread that holds the lane's baton touches it.
#pragma once

namespace troupe {

class Runnable {
 public:
  virtual void run() = 0;
  // The lane ends: dispose of the work without running it.
  virtual void discard() = 0;

 protected:
  ~Runnable() = default;

 private:
  friend class ReadyQueue;
  Runnable* next_ready_ = nullptr;
};

class ReadyQueue {
 public:
  bool empty() const { return head_ == nullptr; }
  void push(Runnable* item) {
    item->next_ready_ = nullptr;
    if (tail_ != nullptr)
      tail_->next_ready_ = item;
    else
      head_ = item;
    tail_ = item;
  }
  Runnable* pop() {
    Runnable* item = head_;
    if (item != nullptr) {
      head_ = item->next_ready_;
      if (head_ == nullptr) tail_ = nullptr;
    }
    return item;
  }

 private:
  Runnable* head_ = nullptr;
  Runnable* tail_ = nullptr;
};

}  // namespace troupe
