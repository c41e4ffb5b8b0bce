// Streams: a method that returns Generator<T> yields values one by one, and its caller reads them as a
// Stream<T>. The generator runs only as far ahead as the reader has given credit (kStreamWindow items), so a
// slow reader holds it back. While it waits for credit the actor serves other calls. Dropping the Stream ends
// the generator.
#pragma once

#include <coroutine>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <utility>

#include "troupe/task.h"

namespace troupe {

inline constexpr std::uint32_t kStreamWindow = 64;

template <class T>
class [[nodiscard]] Generator {
 public:
  struct promise_type : detail::TaskPromiseBase<void> {
    T* yielded = nullptr;
    auto get_return_object() { return Generator(std::coroutine_handle<promise_type>::from_promise(*this)); }
    void return_void() {}
    struct Yield {
      bool await_ready() const noexcept { return false; }
      void await_suspend(std::coroutine_handle<promise_type> handle) noexcept {
        detail::FinalAwaiter::schedule_here(handle.promise().end.completion);
      }
      void await_resume() const noexcept {}
    };
    Yield yield_value(T& value) {
      yielded = &value;
      return {};
    }
    Yield yield_value(T&& value) {
      yielded = &value;
      return {};
    }
  };

  explicit Generator(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  Generator(Generator&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  ~Generator() {
    if (handle_) handle_.destroy();
  }

  // For the runtime: `at_each` is scheduled after each yield and at the end.
  void resume(detail::Hook* at_each) {
    handle_.promise().yielded = nullptr;
    handle_.promise().end.completion = at_each;
    handle_.resume();
  }
  bool finished() const { return handle_.done(); }
  T* yielded() const { return handle_.promise().yielded; }
  void rethrow() const {
    if (handle_.promise().failure) std::rethrow_exception(handle_.promise().failure);
  }

 private:
  std::coroutine_handle<promise_type> handle_;
};

namespace detail {

void grant_credit(CallState& state, std::uint32_t items);

// The reader's side. Items arrive under the lane's baton and are taken by any thread.
template <class T>
class StreamState final : public CallState, public Runnable {
 public:
  explicit StreamState(Lane& lane) : CallState(lane) {
    retain();  // for the continuation that this is
    set_continuation(this);
  }

  Future<std::optional<T>> next() {
    auto reader = Ref<FutureState<std::optional<T>>>::adopt(new FutureState<std::optional<T>>(lane()));
    bool grant = false;
    {
      std::lock_guard lock(mutex_);
      if (reader_) {
        run_on(lane(), [reader] {
          reader->fail(Error(ErrorKind::invalid_argument, "next() of a stream while another next() waits"));
        });
      } else if (items_.empty() && !ended_) {
        reader_ = reader;
      } else {
        answer(reader);
        grant = took();
      }
    }
    if (grant) grant_credit(*this, kStreamWindow / 2);
    return Future<std::optional<T>>(std::move(reader));
  }

  void take_item(Reader& item) override {
    T value;
    decode(item, value);
    bool grant = false;
    {
      std::lock_guard lock(mutex_);
      items_.push_back(std::move(value));
      if (reader_) {
        answer(std::move(reader_));
        reader_ = nullptr;
        grant = took();
      }
    }
    if (grant) grant_credit(*this, kStreamWindow / 2);
  }

  // The call has ended.
  void run() override {
    {
      std::lock_guard lock(mutex_);
      ended_ = true;
      if (reader_) answer(std::move(reader_));
      reader_ = nullptr;
    }
    release();
  }
  void discard() override { release(); }

 protected:
  void decode_value(Reader&) override {}

 private:
  bool took() {
    if (++taken_ < kStreamWindow / 2) return false;
    taken_ = 0;
    return true;
  }
  void answer(Ref<FutureState<std::optional<T>>> reader) {
    if (!items_.empty()) {
      run_on(lane(), [reader, item = std::move(items_.front())]() mutable {
        reader->value.emplace(std::move(item));
        reader->finish_value();
      });
      items_.pop_front();
    } else if (status() == kFailed) {
      run_on(lane(), [reader, error = error()] { reader->fail(error); });
    } else {
      run_on(lane(), [reader] {
        reader->value.emplace(std::nullopt);
        reader->finish_value();
      });
    }
  }

  std::mutex mutex_;
  std::deque<T> items_;
  Ref<FutureState<std::optional<T>>> reader_;
  std::uint32_t taken_ = 0;
  bool ended_ = false;
};

}  // namespace detail

// Move-only, one reader; any thread. Failures of the method show in next() after the items before them.
template <class T>
class [[nodiscard]] Stream {
 public:
  explicit Stream(Ref<detail::StreamState<T>> state) : state_(std::move(state)) {}
  Stream(Stream&&) noexcept = default;
  Stream& operator=(Stream&&) noexcept = default;
  ~Stream() {
    if (state_ && !state_->done()) detail::cancel(*state_);
  }

  Future<std::optional<T>> next_async() { return state_->next(); }
  std::optional<T> next() { return state_->next().get(); }  // nullopt at the end

  // for (T& item : stream)
  class Iterator {
   public:
    Iterator() = default;
    explicit Iterator(Stream* stream) : stream_(stream) { ++*this; }
    T& operator*() { return *item_; }
    Iterator& operator++() {
      item_ = stream_->next();
      if (!item_) stream_ = nullptr;
      return *this;
    }
    bool operator==(const Iterator& other) const { return stream_ == other.stream_; }

   private:
    Stream* stream_ = nullptr;
    std::optional<T> item_;
  };
  Iterator begin() { return Iterator(this); }
  Iterator end() { return {}; }

 private:
  Ref<detail::StreamState<T>> state_;
};

}  // namespace troupe
