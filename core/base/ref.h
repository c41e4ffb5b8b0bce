// A counted reference to an object with retain() and release(). The count is the object's own, so a Ref is
// one word.
#pragma once

#include <utility>

namespace troupe {

template <class T>
class Ref {
 public:
  Ref() = default;
  Ref(std::nullptr_t) {}
  // Takes over one count that the caller holds.
  static Ref adopt(T* object) {
    Ref out;
    out.object_ = object;
    return out;
  }
  static Ref share(T* object) {
    if (object != nullptr) object->retain();
    return adopt(object);
  }
  Ref(const Ref& other) : object_(other.object_) {
    if (object_ != nullptr) object_->retain();
  }
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() {
    if (object_ != nullptr) object_->release();
  }

  T* get() const { return object_; }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }
  T* leave() { return std::exchange(object_, nullptr); }  // the count goes to the caller

 private:
  T* object_ = nullptr;
};

}  // namespace troupe
